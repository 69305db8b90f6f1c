"""``python3 -m proof.check test``, ``change [BASE]`` or ``nightly PART``: the checks, concurrently, with a table of
their times. ``files``: the judges of files, with a table of their counts."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from proof import runtime
from proof.check import files, run, table
from proof.check.table import Step

USAGE = "usage: python3 -m proof.check test | change [BASE] | nightly PART | files [WORD]"


def changed_paths(base: str) -> list[str]:
    """Returns the files that differ from ``base``, new ones included."""
    git = ["git", "-C", str(runtime.REPOSITORY)]
    changed = subprocess.check_output([*git, "diff", "--name-only", base], text=True)
    new = subprocess.check_output([*git, "ls-files", "--others", "--exclude-standard"], text=True)
    return sorted({*changed.split(), *new.split()})


def crates(paths: list[str]) -> list[str]:
    """Returns the packages of ``paths``."""
    found = set()
    for path in paths:
        for folder in Path(path).parents:
            manifest = runtime.REPOSITORY / folder / "Cargo.toml"
            if folder != Path(".") and manifest.exists() and not str(folder).startswith("fuzz"):
                found.add(folder.name)
                break
        if path.startswith("native/"):
            found.add("zpool")
    return sorted(found)


def change_steps(base: str) -> tuple[Step, ...]:
    """Returns the steps of ``make check`` for the files that differ from ``base``."""
    paths = changed_paths(base)
    steps = [Step("lint", "make lint", "lint")]
    names = crates(paths)
    if names:
        packages = " ".join(f"-p {name}" for name in names)
        steps.append(Step("units", f"scripts/cargo.sh nextest run --locked --no-fail-fast --no-tests=pass {packages}", "units"))
    print(f"{len(paths)} files differ from {base}; crates: {', '.join(names) or 'none'}", flush=True)
    return (*steps, *table.touching(paths))


def environment(program: str) -> dict[str, str]:
    """Returns the environment of steps that run after the build and the installation of packages."""
    # A step must not inherit variables of an outer make.
    env = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS")}
    return {**env, "BULKHEAD_PREPARED": "1", "BULKHEAD": str(runtime.REPOSITORY / program)}


def judge_files(word: str) -> int:
    """Runs the judges of files with this string in their name, on the binaries that are built; prints their counts."""
    steps = [step for step in table.FILES if word in step.name]
    outcomes = run.run_lanes(steps, environment(os.environ.get("BULKHEAD", "target/release/bulkhead")))
    lines, are_good = files.table(outcomes)
    print(lines)
    return 0 if are_good and outcomes else 1


def main(arguments: list[str]) -> int:
    started = time.monotonic()
    build, program = table.BUILD, "target/debug/bulkhead"
    match arguments:
        case ["test"]:
            first = [step for step in table.TEST if step.lane in ("units", "lint")]
            groups = [first, [step for step in table.TEST if step not in first]]
        case ["change", *base] if len(base) <= 1:
            groups = [list(change_steps(base[0] if base else "HEAD"))]
        case ["nightly", part] if part.isdigit() and int(part) in table.NIGHTLY:
            build, program = table.NIGHTLY_BUILD, "target/release/bulkhead"
            groups = [list(table.NIGHTLY[int(part)])]
        case ["files", *word] if len(word) <= 1:
            return judge_files(word[0] if word else "")
        case _:
            raise runtime.ProofError(f"{USAGE}, PART from 1 to {len(table.NIGHTLY)}")
    plain = {key: value for key, value in environment(program).items() if key != "BULKHEAD_PREPARED"}
    outcomes = [run.run_step(build, plain)]
    if outcomes[0].passed:
        for group in groups:
            outcomes += run.run_lanes(group, environment(program))
    print(run.summary(outcomes, time.monotonic() - started))
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    runtime.command(main)
