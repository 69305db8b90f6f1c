"""What the guest's kernel says, and which of it is a fault of the server."""

from __future__ import annotations

import re

COMPLAINT = re.compile(
    r"error|fail|timed out|timing out|time-?out|abort|sense key|hostbyte|offline|corrupt|shut ?down|read-only"
    r"|call trace|BUG:|WARNING:|lockup|blocked for more than|invalid|unexpected|bad ",
    re.I,
)
"""Words of trouble."""

HARMLESS = re.compile(
    r"Power-on or device reset occurred|Capacity data has changed|Write Protect is off|errors=remount-ro"
    r"|transition timeout set|bulkhead\.addresses|device handler|DPO|parameters changed|Reported LUNs data has changed",
    re.I,
)
"""Lines that hold such words in good times, too."""

PATH_LOST = re.compile(
    r"conn(ection)?\d*:?\d*:? .*(error|timed out|timeout|expired)|session recovery timed out|ping timeout"
    r"|failing path|reinstating path|recoverable transport error|rejecting I/O|killing request"
    r"|hostbyte=DID_(TRANSPORT|NO_CONNECT)|I/O error, dev sd|transport error",
    re.I,
)
"""What a lost path makes a Linux initiator say: the path fails, the disk above it does not."""

RESERVED = re.compile(r"reservation conflict|FAILED Result: hostbyte=DID_OK|I/O error, dev sd|critical nexus error, dev sd", re.I)
"""What a write through a path without a key meets."""

NEVER = re.compile(
    r"Buffer I/O error|error, dev (dm-|nbd)|Medium Error|Hardware Error|Aborted Command|Data will be lost"
    r"|EXT4-fs (error|warning)|XFS.*(shutdown|corruption|metadata I/O)|call trace|BUG:|blocked for more than",
    re.I,
)
"""What no fault of the server may lead to."""

_NOTHING = re.compile(r"(?!)")


def complaints(log: str, expected: re.Pattern[str] | None = None) -> list[str]:
    """The lines of ``dmesg`` that should not be there when only ``expected`` trouble was made."""
    found = []
    for line in log.splitlines():
        excused = HARMLESS.search(line) or (expected or _NOTHING).search(line)
        if NEVER.search(line) or (COMPLAINT.search(line) and not excused):
            found.append(line.strip())
    return found
