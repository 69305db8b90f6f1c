#!/usr/bin/env bash
# Builds the fuzz targets with coverage instrumentation on the pinned (stable) toolchain and
# shares the given seconds among them. Usage: fuzz.sh SECONDS [TARGET...], or fuzz.sh build
#
# Stable and without the address sanitizer on purpose: it runs on any host, and the parsers are in crates that forbid
# unsafe code, so the language excludes the errors that the sanitizer would find. Overflow checks and debug assertions
# are on, and libFuzzer bounds the memory and the time of each input.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

readonly seconds=${1:?give the seconds to spend, or the word build}
shift
# The memory limit of a target, and the time limit of a single input.
readonly rss_mb_max=2048
readonly input_seconds_max=10
readonly input_bytes_max=16384

triple=$(../scripts/cargo.sh -vV | sed -n 's/^host: //p')
readonly triple
flags=(--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares)
RUSTFLAGS="${flags[*]}" ../scripts/cargo.sh build --locked --release --target "$triple"
[[ $seconds != build ]] || exit 0

targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
    for source in targets/*.rs; do
        targets+=("$(basename "$source" .rs)")
    done
fi
each=$((seconds / ${#targets[@]}))
[[ $each -ge 1 ]] || each=1

total=0
for target in "${targets[@]}"; do
    corpus=corpus/$target
    mkdir -p "$corpus" "artifacts/$target"
    words=()
    [[ -e dictionaries/$target.dict ]] && words=(-dict="dictionaries/$target.dict")
    log=$(mktemp)
    if ! "target/$triple/release/$target" "$corpus" -max_total_time="$each" -timeout="$input_seconds_max" \
        -rss_limit_mb="$rss_mb_max" -max_len="$input_bytes_max" -print_final_stats=1 "${words[@]}" \
        -artifact_prefix="artifacts/$target/" >"$log" 2>&1; then
        tail -n 60 "$log"
        rm -f "$log"
        echo "fuzz: $target failed; replay with: fuzz/target/$triple/release/$target FILE"
        exit 1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rm -f "$log"
    echo "fuzz: $target: ${runs:-0} inputs in $each s, no crash"
    total=$((total + ${runs:-0}))
done
echo "fuzz: ${#targets[@]} targets, $total inputs, 0 crashes"
