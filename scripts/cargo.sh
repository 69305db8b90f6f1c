#!/usr/bin/env bash
# Runs cargo: the toolchain pinned in rust-toolchain.toml where rustup has it, otherwise the one
# that is installed (rustup's default, or the distribution's).
set -euo pipefail
[[ -d $HOME/.cargo/bin ]] && PATH=$HOME/.cargo/bin:$PATH
if command -v rustup >/dev/null; then
    pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$(dirname "$0")/../rust-toolchain.toml")
    if ! rustup toolchain list | grep -q "^$pinned" && [[ ${1:-} != fmt ]]; then
        export RUSTUP_TOOLCHAIN=${RUSTUP_TOOLCHAIN:-$(rustup default | cut -d' ' -f1)}
    fi
fi
exec cargo "$@"
