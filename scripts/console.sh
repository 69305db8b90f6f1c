#!/usr/bin/env bash
# Builds the console into target/console, from where the program takes it in. Libraries are
# installed when the lock file has changed, by npm, into console/node_modules.
set -euo pipefail
cd "$(dirname "$0")/../console"

installed=node_modules/.installed-lock
if ! cmp -s package-lock.json "$installed"; then
    npm ci
    cp package-lock.json "$installed"
fi
node build.mjs "$@"
