#!/usr/bin/env bash
# Drills each appliance file in examples/ once, shortly: a lab of it, clients of all its pools, the power of the serving
# head pulled. `bulkhead` is the first argument, further ones are passed to each drill.
set -euo pipefail
cd "$(dirname "$0")/.."

# This host cannot run a lab: the reason has been printed.
readonly incapable=15
# The file is not one that can be drilled.
readonly usage=2

count=0
for file in examples/*.toml; do
    started=$SECONDS
    status=0
    output=$("$1" drill active-power --file "$file" "${@:2}" 2>&1) || status=$?
    if ((status == incapable)); then
        echo "$output"
        exit 0
    elif ((status == usage)) && [[ $output == *"no other head can take it over"* ]]; then
        echo "skipped: $file: one head alone has nobody who takes its pools over"
    elif ((status != 0)); then
        echo "$output"
        echo "FAILED: $file ended with $status"
        exit 1
    else
        count=$((count + 1))
        echo "ok  $file  $((SECONDS - started)) s"
    fi
done
echo "examples: $count drilled, 0 failed"
