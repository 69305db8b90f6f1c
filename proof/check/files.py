"""The judges of files, one after the other, with the counts of each: passed, failed, skipped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from proof.check.run import Outcome

COUNTS = tuple(
    re.compile(pattern, re.M)
    for pattern in (
        r"^pynfs: (?P<passed>\d+) passed, (?P<known>\d+) failed for a known reason, (?P<failed>\d+) wrong$",
        r"^mount: pjdfstest (?P<failed>\d+) failed, (?P<skipped>\d+) skipped, (?P<passed>\d+) passed, (?P<known>\d+) expected failures",
        r"^mount: fsx (?P<passed>\d+) operations; (?P<failed>\d+) wrong$",
        r"^repeated calls: \d+ kills, (?P<passed>\d+) calls repeated, (?P<failed>\d+) answered otherwise$",
        r"^locks of NFS 3: \d+ kills, (?P<passed>\d+) locks taken back, (?P<failed>\d+) lost$",
        r"^crash of files: \d+ rounds, (?P<passed>\d+) changes, (?P<failed>\d+) lost$",
        r"^linux initiator: (?P<passed>\d+) passed, (?P<failed>\d+) failed(?:, (?P<skipped>\d+) skipped)?",
    )
)
"""The verdicts of the proofs that judge files, their last lines."""

SKIPPED = re.compile(r"^skipped: (.*)$", re.M)
"""The line of a proof, or of a part of it, that this host cannot run."""


@dataclass(frozen=True)
class Counts:
    """The counts of one judge."""

    passed: int = 0
    known: int = 0
    """Failures with a reason in the proof's own list."""
    failed: int = 0
    skipped: int = 0
    reason: str = ""
    """The reason of a skipped judge."""


def counts_of(outcome: Outcome) -> Counts:
    """Parses the verdict of a judge. One without a verdict has failed, unless it reports why it is skipped."""
    skipped = SKIPPED.search(outcome.text)
    reason = skipped[1] if skipped else ""
    found = next((match for pattern in COUNTS for match in pattern.finditer(outcome.text)), None)
    if found is None:
        is_skipped = outcome.passed and bool(skipped)
        return Counts(failed=int(not is_skipped), skipped=int(is_skipped), reason=reason)
    named = {name: int(value) for name, value in found.groupdict().items() if value}
    counts = Counts(**named, reason=reason)
    # A judge that exits with an error has failed, whatever it has counted.
    is_silent = not outcome.passed and not counts.failed
    return Counts(counts.passed, counts.known, counts.failed + int(is_silent), counts.skipped, reason)


def table(outcomes: Sequence[Outcome]) -> tuple[str, bool]:
    """Returns the table of all judges, and whether none has failed."""
    lines = [f"{'':8}{'judge':<34}{'passed':>9}{'known':>7}{'failed':>8}{'skipped':>9}{'seconds':>9}"]
    all_counts = [counts_of(outcome) for outcome in outcomes]
    for outcome, counts in zip(outcomes, all_counts, strict=True):
        how = "FAILED" if counts.failed else "ok" if counts.passed else "skipped"
        numbers = f"{counts.passed:>9}{counts.known:>7}{counts.failed:>8}{counts.skipped:>9}{outcome.seconds:>9.0f}"
        lines.append(f"{how:<8}{outcome.step.name:<34}{numbers}" + (f"  {counts.reason}" if counts.reason else ""))
    failed = sum(counts.failed != 0 for counts in all_counts)
    skipped = sum(not counts.failed and not counts.passed for counts in all_counts)
    lines.append(f"judges of files: {len(all_counts) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return "\n".join(lines), failed == 0
