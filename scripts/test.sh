#!/usr/bin/env bash
# Runs every check in its short form and says how long each took; the first failure ends it. After the tests of the
# crates two lanes run side by side: the drills mostly wait for heads, the other proofs mostly compute.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly logs=target/test-logs
readonly lock=$logs/lock failed=$logs/failed passed=$logs/passed
rm -rf "$logs"
mkdir -p "$logs"

# Runs a step. What it says is shown when it has ended, so that the lanes do not mix.
run() {
    local started=$SECONDS output status=0
    # The other lane has failed.
    [[ ! -e $failed ]] || exit 1
    output=$(mktemp "$logs/step-XXXXXX")
    echo "=== begun: $*"
    "$@" >"$output" 2>&1 </dev/null || status=$?
    {
        flock 9
        echo "=== $*"
        cat "$output"
        if ((status)); then
            echo "=== FAILED: $* ($((SECONDS - started)) s)"
            touch "$failed"
        else
            echo "=== ok: $* ($((SECONDS - started)) s)"
            echo "$*" >>"$passed"
        fi
    } 9>"$lock"
    rm -f "$output"
    ((status == 0)) || exit 1
}

drills() {
    run make drill-short
    run make drill-examples
    run make demo-single
    run make demo
    run make demo-legs
}

proofs() {
    run make conformance
    run make crash ROUNDS="${CRASH_ROUNDS:-50}"
    run make crash ROUNDS="${LEGS_ROUNDS:-16}" LEGS=mix
    run make crash ROUNDS="${ONE_FILE_ROUNDS:-12}" ONE_FILE=1
    run make crash ROUNDS="${FILES_ROUNDS:-10}" FILES=1
    run make repeats ROUNDS="${REPEATS_ROUNDS:-20}"
    run make older-locks ROUNDS="${OLDER_LOCKS_ROUNDS:-3}"
    run make legs ROUNDS="${LEGS_FAULTS:-16}"
    run make hostile
    run make rollback ROUNDS="${ROLLBACK_ROUNDS:-12}"
    run make operations
    run make operations-crash ROUNDS="${OPERATIONS_ROUNDS:-16}"
    run make requests
    run make api
    run make console
    run make guide
    run make fuzz SECONDS="${FUZZ_SECONDS:-60}"
}

finish() {
    local status=$? count=0
    [[ -z $drills_group ]] || kill -- -"$drills_group" 2>/dev/null || true
    [[ ! -e $passed ]] || count=$(wc -l <"$passed")
    if [[ -e $failed ]] || ((status)); then
        echo "$count passed, 1 or more failed, $((SECONDS / 60)) min"
        exit 1
    fi
    echo "$count passed, 0 failed, $((SECONDS / 60)) min"
}
drills_group=
trap finish EXIT

# One make call a step; none sees what an outer make was given but the sizes above.
unset MAKEFLAGS MAKEOVERRIDES
run make build
run make lint
run make unit
# A process group of its own, so that all of it ends when this is interrupted.
set -m
(
    trap - EXIT
    drills
) &
drills_group=$!
set +m
(
    trap - EXIT
    proofs
) || touch "$failed"
wait "$drills_group" || touch "$failed"
drills_group=
