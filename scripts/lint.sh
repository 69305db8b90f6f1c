#!/usr/bin/env bash
# Clippy over all crates, or with the argument `ceph` over those of the workspace of the engine on Ceph, which compiles
# many crates a second time (`make ceph`). Its findings are errors with the toolchain pinned in rust-toolchain.toml;
# other versions have other lints, and their findings are shown only.
set -euo pipefail
cd "$(dirname "$0")/.."

pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
level=(-D warnings)
if [[ $(scripts/cargo.sh --version) != "cargo $pinned "* ]]; then
    echo "lint: not Rust $pinned, which the lints are pinned to: what Clippy finds is no error"
    level=(--cap-lints warn)
fi
if [[ ${1:-} == ceph ]]; then
    # A check needs no librbd.
    exec scripts/cargo.sh clippy --manifest-path engines/ceph/Cargo.toml --target-dir target/ceph --locked --workspace \
        --all-targets -- "${level[@]}"
fi
exec scripts/cargo.sh clippy --locked --workspace --all-targets -- "${level[@]}"
