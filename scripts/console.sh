#!/usr/bin/env bash
# Builds the console into target/console, from which the binary embeds it. npm installs libraries
# into console/node_modules when the lock file has changed.
set -euo pipefail
cd "$(dirname "$0")/../console"

installed=node_modules/.installed-lock
if ! cmp -s package-lock.json "$installed"; then
    npm ci
    cp package-lock.json "$installed"
fi
node build.mjs "$@"
