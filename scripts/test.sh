#!/usr/bin/env bash
# Runs every check in its short form and says how long each took; the first failure ends it.
set -euo pipefail
cd "$(dirname "$0")/.."

passed=0
run() {
    local started=$SECONDS
    echo "=== $*"
    if ! "$@"; then
        echo "=== FAILED: $*"
        echo "$passed passed, 1 failed"
        exit 1
    fi
    passed=$((passed + 1))
    echo "=== ok: $* ($((SECONDS - started)) s)"
}

# One make call a step; none sees what an outer make was given but the sizes below.
unset MAKEFLAGS MAKEOVERRIDES
run make build
run make lint
run make unit
run make conformance
run make crash ROUNDS="${CRASH_ROUNDS:-50}"
run make crash ROUNDS="${LEGS_ROUNDS:-16}" LEGS=mix
run make crash ROUNDS="${ONE_FILE_ROUNDS:-12}" ONE_FILE=1
run make hostile
run make rollback ROUNDS="${ROLLBACK_ROUNDS:-12}"
run make operations
run make operations-crash ROUNDS="${OPERATIONS_ROUNDS:-16}"
run make requests
run make api
run make console
run make guide
run make drill-short
run make drill-examples
run make fuzz SECONDS="${FUZZ_SECONDS:-60}"
run make demo-single
run make demo
echo "$passed passed, 0 failed"
