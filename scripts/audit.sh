#!/usr/bin/env bash
# Checks the crates in use against known vulnerabilities (RustSec) and their licences and sources against deny.toml.
# Checks that cannot run here, for want of a tool or of the network, are reported and counted as skipped. With --strict
# that is a failure: for a release, and on hosts with both tools.
set -euo pipefail
cd "$(dirname "$0")/.."

strict=
[[ ${1:-} == --strict ]] && strict=yes
checks=3
skipped=0
skip() {
    echo "audit: skipped: $*"
    skipped=$((skipped + 1))
}

# Runs it; a database that can neither be had nor is there from an earlier time is no finding.
look() {
    local said status=0
    said=$("$@" 2>&1) || status=$?
    if ((status == 0)); then
        return
    fi
    if grep -qiE "(fetch|clone|load|open).*(advisory[- ]database|advisory[- ]db|git repo)" <<<"$said"; then
        skip "$*: the database of advisories cannot be had"
        return
    fi
    echo "$said"
    exit 1
}

if scripts/cargo.sh audit --version >/dev/null 2>&1; then
    look scripts/cargo.sh audit --quiet
else
    skip "cargo-audit is not installed: cargo install --locked cargo-audit"
fi
if scripts/cargo.sh deny --version >/dev/null 2>&1; then
    look scripts/cargo.sh deny --offline check bans licenses sources
    look scripts/cargo.sh deny check advisories
else
    skip "cargo-deny is not installed: cargo install --locked cargo-deny"
    # That was two of them.
    skipped=$((skipped + 1))
fi
if ((skipped == checks)); then
    echo "audit: NOTHING WAS LOOKED UP: all $checks checks skipped"
else
    echo "audit: done, $skipped of $checks checks skipped"
fi
[[ -z $strict || $skipped -eq 0 ]]
