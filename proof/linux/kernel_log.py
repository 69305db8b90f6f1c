"""The kernel messages of the guest, and which of them are faults of the server."""

from __future__ import annotations

import re
from dataclasses import dataclass

COMPLAINT = re.compile(
    r"error|fail|timed out|timing out|time-?out|abort|sense key|hostbyte|offline|corrupt|shut ?down|read-only"
    r"|call trace|BUG:|WARNING:|lockup|blocked for more than|invalid|unexpected|bad ",
    re.I,
)
"""Patterns of trouble."""

HARMLESS = re.compile(
    r"Power-on or device reset occurred|Capacity data has changed|Write Protect is off|errors=remount-ro"
    r"|transition timeout set|bulkhead\.addresses|device handler|DPO|parameters changed|Reported LUNs data has changed",
    re.I,
)
"""Harmless lines that match these patterns, too."""

PATH_LOST = re.compile(
    r"conn(ection)?\d*:?\d*:? .*(error|timed out|timeout|expired)|session recovery timed out|ping timeout"
    r"|failing path|reinstating path|recoverable transport error|rejecting I/O|killing request"
    r"|hostbyte=DID_(TRANSPORT|NO_CONNECT)|I/O error, dev sd|transport error",
    re.I,
)
"""Messages of a Linux initiator about a lost path: the path fails, the disk above it does not."""

RESERVED = re.compile(r"reservation conflict|FAILED Result: hostbyte=DID_OK|I/O error, dev sd|critical nexus error, dev sd", re.I)
"""The error of a write through a path without a key."""

NEVER = re.compile(
    r"Buffer I/O error|error, dev (dm-|nbd)|Medium Error|Hardware Error|Aborted Command|Data will be lost"
    r"|EXT4-fs (error|warning)|XFS.*(shutdown|corruption|metadata I/O)|call trace|BUG:|blocked for more than",
    re.I,
)
"""Effects that no fault of the server may have."""

REPORT_BEGIN, REPORT_END = "[ cut here ]", "---[ end trace"
"""Around a report of the kernel about itself (WARN)."""

CANCEL_TAKEN_FOR_A_WAIT = (
    re.compile(r"workqueue: WQ_MEM_RECLAIM \S+ (\[\w+\] )?is flushing !WQ_MEM_RECLAIM \S+"),
    re.compile(r"__cancel_work_timer|__cancel_work_sync|cancel_(delayed_)?work_sync"),
)
"""A defect of the kernel's own check, in all kernels before 6.13 without a backport of its fix.

A work queue that may be needed to free memory must not wait for one that may not; ``check_flush_dependency`` warns.
It also warned when the work was not waited for but *cancelled* while it happened to run. The commit "workqueue: Do
not warn when cancelling WQ_MEM_RECLAIM work from !WQ_MEM_RECLAIM worker" (de35994ecd2d) fixed that; it did not apply
unchanged to 6.1 and older (https://lore.kernel.org/stable/2025010653-enroll-disagree-652b@gregkh/). The server has
no part in it: it depends on the order of threads in the guest. Only a report with both lines is treated as this
defect.
"""

_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True)
class Judgement:
    """The findings in a log."""

    complaints: list[str]
    """Lines that should not be there; reports of the kernel about itself in full."""
    known: list[str]
    """Reports of a known defect of the guest's kernel that is fixed upstream, in full."""


def judge(log: str, expected: re.Pattern[str] | None = None) -> Judgement:
    """Judges the lines of ``dmesg`` after faults that cause only ``expected`` trouble."""
    complaints: list[str] = []
    known: list[str] = []
    lines, reports = _take_reports_out(log.splitlines())
    for report in reports:
        is_known = all(pattern.search(report) for pattern in CANCEL_TAKEN_FOR_A_WAIT)
        (known if is_known else complaints).append(report)
    for line in lines:
        excused = HARMLESS.search(line) or (expected or _NOTHING).search(line)
        if NEVER.search(line) or (COMPLAINT.search(line) and not excused):
            complaints.append(line.strip())
    return Judgement(complaints, known)


def _take_reports_out(lines: list[str]) -> tuple[list[str], list[str]]:
    """Separates the lines outside of the kernel's reports about itself from these reports, each as one string."""
    rest: list[str] = []
    reports: list[str] = []
    report: list[str] = []
    for line in lines:
        if report or REPORT_BEGIN in line:
            report.append(line.strip())
            if REPORT_END in line:
                reports.append("\n".join(report))
                report = []
        else:
            rest.append(line)
    if report:
        # Truncated at the end of the log.
        reports.append("\n".join(report))
    return rest, reports


__all__ = ["PATH_LOST", "RESERVED", "Judgement", "judge"]
