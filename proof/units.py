"""``python3 -m proof.units``: builds the tests of all crates and runs their programs, several at a time.

Cargo runs one test program after the other. Most of ours wait for disks, deadlines and other processes for most of
their time, so several of them share the processors well. The slowest of the last run begin first.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from proof.runtime import REPOSITORY, ProofError

CARGO = REPOSITORY / "scripts/cargo.sh"
TIMES = REPOSITORY / "target/unit-times.json"
PROGRAM_SECONDS_MAX = 1200
"""A test program that takes longer hangs: it is ended, and counts as failed."""
PER_PROCESSOR = 2
"""Test programs at a time, for each processor."""
SLOWEST_SHOWN = 10
SUMMARY = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)


@dataclass(frozen=True)
class TestProgram:
    """What cargo built of the tests of one file."""

    name: str
    """Package and target: ``zpool/pool_faults``."""
    path: Path
    folder: Path
    """Where it runs: the package's folder, as with cargo."""


@dataclass(frozen=True)
class Outcome:
    """How a test program ended."""

    program: TestProgram
    seconds: float
    passed: int
    wrong: str
    """Why it failed; empty when it did not."""
    output: str


def programs(messages: Iterator[str]) -> list[TestProgram]:
    """The test programs among cargo's messages, one JSON object a line."""
    found = []
    for line in messages:
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") != "compiler-artifact" or not message["profile"]["test"] or not message["executable"]:
            continue
        folder = Path(message["manifest_path"]).parent
        name = f"{folder.name}/{message['target']['name']}"
        found.append(TestProgram(name, Path(message["executable"]), folder))
    return found


def build(words: Sequence[str]) -> list[TestProgram]:
    """Has cargo build them all; its own words go to our error output."""
    command = [CARGO, "test", "--no-run", "--message-format=json-render-diagnostics", *words]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as cargo:
        assert cargo.stdout is not None
        found = programs(iter(cargo.stdout))
    if cargo.returncode:
        raise ProofError("the tests do not compile")
    return found


def run(program: TestProgram, words: Sequence[str]) -> Outcome:
    """Runs one to its end."""
    started = time.monotonic()
    # Cargo sets it for what it runs.
    env = {**os.environ, "CARGO_MANIFEST_DIR": str(program.folder)}
    try:
        done = subprocess.run(
            [program.path, *words],
            cwd=program.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROGRAM_SECONDS_MAX,
            check=False,
        )
        output, code = done.stdout, done.returncode
        wrong = f"ended with {code}" if code else ""
    except subprocess.TimeoutExpired as hung:
        output, wrong = hung.stdout or b"", f"did not end in {PROGRAM_SECONDS_MAX} s"
    text = output.decode(errors="replace")
    summary = SUMMARY.search(text)
    if not summary and not wrong:
        wrong = "ended without a summary"
    return Outcome(program, time.monotonic() - started, int(summary[1]) if summary else 0, wrong, text)


def known_times() -> dict[str, float]:
    """Seconds of each in the last run, by name."""
    try:
        return dict(json.loads(TIMES.read_text()))
    except (OSError, ValueError):
        return {}


def order(found: Sequence[TestProgram], times: dict[str, float]) -> list[TestProgram]:
    """The slowest first, so that none runs alone at the end; of those not known yet the integration tests first."""
    return sorted(found, key=lambda one: (-times.get(one.name, 0.0), one.path.stem.startswith(one.folder.name)))


def main() -> int:
    """Builds, runs, tells."""
    parser = argparse.ArgumentParser(prog="python3 -m proof.units", description=__doc__)
    parser.add_argument("--jobs", type=int, default=PER_PROCESSOR * (os.cpu_count() or 1), help="programs at a time")
    parser.add_argument("--only", default="", help="only test programs with this in their name (package/target)")
    parser.add_argument("words", nargs="*", help="words for each test program, after --")
    options = parser.parse_args()
    started = time.monotonic()
    found = build(["--locked", "--workspace", "--exclude", "xtask"])
    built = time.monotonic()
    times = known_times()
    wanted = order([one for one in found if options.only in one.name], times)
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for future in as_completed([pool.submit(run, program, options.words) for program in wanted]):
            outcome = future.result()
            outcomes.append(outcome)
            times[outcome.program.name] = round(outcome.seconds, 1)
            if outcome.wrong:
                print(f"{outcome.output}\nFAILED  {outcome.program.name}: {outcome.wrong}", flush=True)
            else:
                print(f"ok  {outcome.program.name}  {outcome.passed} in {outcome.seconds:.1f} s", flush=True)
    TIMES.write_text(json.dumps(times, indent=1, sort_keys=True))
    outcomes.sort(key=lambda one: -one.seconds)
    slowest = ", ".join(f"{one.program.name} {one.seconds:.0f} s" for one in outcomes[:SLOWEST_SHOWN])
    failed = [one for one in outcomes if one.wrong]
    print(f"slowest: {slowest}")
    for one in failed:
        print(f"failed: {one.program.name}: {one.wrong}")
    passed = sum(one.passed for one in outcomes)
    seconds = time.monotonic() - built
    print(
        f"unit tests: {len(outcomes)} programs, {passed} tests passed, {len(failed)} programs failed; "
        f"built in {built - started:.0f} s, run in {seconds:.0f} s"
    )
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ProofError as error:
        sys.exit(f"proof.units: {error}")
