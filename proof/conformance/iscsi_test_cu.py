"""Runs libiscsi's ``iscsi-test-cu``, one family at a time, and counts the results.

The tool reports a test that gave up with ``[SKIPPED]`` as passed, and dies with the family when a target hangs. Here
a skip is reported with its reason, and a test without a verdict is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from proof.process import checked, run

FAMILY_SECONDS = 240.0
LIST_SECONDS = 20.0


class Verdict(Enum):
    """The result of one test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Result:
    """One test."""

    name: str
    """The tool's name of it: FAMILY.TEST"""
    verdict: Verdict
    words: str = ""
    """The reason of a skip, the first complaint of a failure."""


ACCEPTED_SKIPS: tuple[tuple[str, str], ...] = (
    (r"^PreventAllow\.\S+ .*not removable", "a volume is a fixed disk: nothing can be ejected"),
    (r"^StartStopUnit\.Simple .*not removable", "a volume is a fixed disk: nothing can be ejected"),
    (r"^NoMedia\.\S+ .*not removable", "a volume is a fixed disk: nothing can be ejected"),
    (r"^ReadDefectData1[02]\.", "a volume has no list of defects"),
    (r"^ReadOnly\.ReadOnlySBC .*not write-protected", "the judged volume is writable, as the other families need it"),
    (r"^WriteAtomic16\.", "WRITE ATOMIC(16) is not offered"),
    (r"^Sanitize\.", "SANITIZE is not offered: freed blocks and snapshots would retain the data that it promises to erase"),
    (r"^WriteSame1[06]\.ZeroBlocks ", "WSNZ is set: a length of zero never means the rest of the volume"),
    (r"LBPPB < 2", "one logical block is shown as one physical block; the volume's block size is the granularity in VPD B0"),
)
"""(pattern over ``FAMILY.TEST reason``, why the feature is not supported). A skip that matches none fails the run."""


def list_families() -> dict[str, list[str]]:
    """Maps each family to its tests, as the installed tool lists them."""
    families: dict[str, list[str]] = {}
    for line in checked(["iscsi-test-cu", "--list"], LIST_SECONDS).splitlines():
        words = line.strip().split(".")
        if words[0] != "ALL" or len(words) < 2:
            continue
        tests = families.setdefault(words[1], [])
        if len(words) == 3:
            tests.append(words[2])
    return families


def parse(family: str, output: str) -> Iterator[Result]:
    """Parses the tool's report of one family, test by test."""
    for match in re.finditer(r"^  Test: (\S+) \.\.\.(.*?)(?=^  Test: |^Run Summary|\Z)", output, re.M | re.S):
        name, body = f"{family}.{match[1]}", match[2]
        skip = re.search(r"\[SKIPPED\]\s*(.*)", body)
        # The verdict starts a line or follows the dots; output of a suite's clean-up behind it is no verdict.
        word = re.search(r"^(passed|FAILED)", body, re.M)
        if word is None or word[1] == "FAILED":
            complaint = re.search(r"\[FAILED\]\s*(.*)|^\s+1\. (.*)", body, re.M)
            words = next((group for group in complaint.groups() if group), "") if complaint else "no verdict"
            yield Result(name, Verdict.FAILED, words.strip())
        elif skip and skip.start() < word.start():
            yield Result(name, Verdict.SKIPPED, skip[1].strip())
        else:
            yield Result(name, Verdict.PASSED)


LEFT_WITHOUT_A_SESSION = "Not an iSCSI device"
"""The output of a test of 1.20 that runs after a test which closed the shared session."""


def run_family(family: str, tests: list[str], urls: list[str]) -> list[Result]:
    """Runs one family; a test that the tool never finished counts as failed."""
    results = _run(family, family, tests, urls)
    alone = [result.name for result in results if result.words.startswith(LEFT_WITHOUT_A_SESSION)]
    for name in alone:
        again = _run(family, name, [name.removeprefix(f"{family}.")], urls)
        results = [result for result in results if result.name != name] + again
    return results


def _run(family: str, wanted: str, tests: list[str], urls: list[str]) -> list[Result]:
    argv = ["iscsi-test-cu", "--dataloss", "--allow-sanitize", f"--test=ALL.{wanted}", *urls]
    outcome = run(argv, FAMILY_SECONDS)
    results = list(parse(family, outcome.output))
    seen = {result.name for result in results}
    how = f"time-out after {FAMILY_SECONDS:g} s" if outcome.status is None else f"the tool exited with {outcome.status}"
    missing = [f"{family}.{test}" for test in tests if f"{family}.{test}" not in seen]
    if missing and outcome.status is not None and not results:
        how += f": {outcome.output.strip()[-300:]}"
    return results + [Result(name, Verdict.FAILED, f"no verdict: {how}") for name in missing]


def why_accepted(result: Result) -> str | None:
    """Returns why a skip is expected; None when it must not happen."""
    subject = f"{result.name} {result.words}"
    for pattern, why in ACCEPTED_SKIPS:
        if re.search(pattern, subject, re.I):
            return why
    return None
