#!/usr/bin/env bash
# Clippy over all crates. Its findings are errors with the toolchain pinned in rust-toolchain.toml;
# other versions have other lints, and their findings are shown only.
set -euo pipefail
cd "$(dirname "$0")/.."

pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
level=(-D warnings)
if [[ $(scripts/cargo.sh --version) != "cargo $pinned "* ]]; then
    echo "lint: not Rust $pinned, which the lints are pinned to: what Clippy finds is no error"
    level=(--cap-lints warn)
fi
scripts/cargo.sh clippy --locked --workspace --all-targets -- "${level[@]}"
# The engine on Ceph is a workspace of its own. A check of it needs no librbd.
exec scripts/cargo.sh clippy --manifest-path engines/ceph/Cargo.toml --target-dir target/ceph --locked --workspace \
    --all-targets -- "${level[@]}"
