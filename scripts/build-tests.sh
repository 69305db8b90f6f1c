#!/usr/bin/env bash
# Builds the console, the programs, the tests and the examples once for all steps of a check, and lists the tests for
# their runner.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/console.sh
scripts/cargo.sh metadata --locked --format-version 1 >target/cargo-metadata.json
scripts/cargo.sh nextest list --workspace --exclude xtask --locked --list-type binaries-only \
    --message-format json >target/test-binaries.json
