"""The measurements, and the promise about each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

KIBIBYTE = 1 << 10
MEBIBYTE = 1 << 20


class Access(Enum):
    """The access pattern of the client."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Point:
    """One load."""

    name: str
    access: Access
    block: int
    depth: int
    random: bool = False
    sync: bool = False
    """Each write is forced to stable storage before it is acknowledged."""
    flushed: bool = False
    """The measurement includes a final flush of all writes. Over iSCSI only."""

    @property
    def volume(self) -> str:
        """4k loads go to a volume of small blocks, streams to one of large blocks."""
        return "small" if self.block == 4 * KIBIBYTE else "large"


POINTS = (
    Point("4k-random-read-qd1", Access.READ, 4 * KIBIBYTE, 1, random=True),
    Point("4k-random-read-qd32", Access.READ, 4 * KIBIBYTE, 32, random=True),
    Point("4k-random-write-qd1", Access.WRITE, 4 * KIBIBYTE, 1, random=True),
    Point("4k-random-write-qd32", Access.WRITE, 4 * KIBIBYTE, 32, random=True),
    Point("4k-sync-write-qd1", Access.WRITE, 4 * KIBIBYTE, 1, random=True, sync=True),
    Point("4k-sync-write-qd32", Access.WRITE, 4 * KIBIBYTE, 32, random=True, sync=True),
    Point("128k-read-qd8", Access.READ, 128 * KIBIBYTE, 8),
    Point("128k-write-qd8", Access.WRITE, 128 * KIBIBYTE, 8),
    Point("1m-read-qd4", Access.READ, MEBIBYTE, 4),
    Point("1m-write-qd4", Access.WRITE, MEBIBYTE, 4),
    Point("1m-write-qd4-flushed", Access.WRITE, MEBIBYTE, 4, flushed=True),
)


class Figure(Enum):
    """The figure that a target bounds."""

    CPU = "CPU per operation"
    SPEED = "MB/s"


@dataclass(frozen=True)
class Target:
    """A promise: the median of the ratios to a peer, pair by pair within each repetition."""

    protocol: str
    peer: str
    point: str
    figure: Figure
    limit: float

    @property
    def words(self) -> str:
        """The text of the target in reports."""
        sign = "<=" if self.figure is Figure.CPU else ">="
        return f"{self.protocol} {self.point}: {self.figure.value} {sign} {self.limit:g} x {self.peer}"

    def met(self, ratio: float) -> bool:
        """Returns whether the measured ratio meets the promise."""
        return ratio <= self.limit if self.figure is Figure.CPU else ratio >= self.limit


TARGETS = (
    Target("iscsi", "tgt", "4k-random-read-qd1", Figure.CPU, 0.7),
    Target("iscsi", "tgt", "4k-random-read-qd32", Figure.CPU, 0.7),
    Target("iscsi", "tgt", "1m-read-qd4", Figure.CPU, 0.4),
    Target("iscsi", "tgt", "4k-sync-write-qd1", Figure.CPU, 1.0),
    Target("iscsi", "tgt", "4k-sync-write-qd32", Figure.CPU, 1.0),
    Target("iscsi", "tgt", "4k-random-write-qd1", Figure.CPU, 1.5),
    Target("iscsi", "tgt", "4k-random-write-qd32", Figure.CPU, 1.5),
    Target("iscsi", "tgt", "1m-read-qd4", Figure.SPEED, 1.5),
    Target("iscsi", "tgt", "1m-write-qd4", Figure.SPEED, 2.0),
    Target("nbd", "nbdkit", "4k-random-read-qd1", Figure.CPU, 1.3),
    Target("nbd", "nbdkit", "4k-random-read-qd32", Figure.CPU, 1.3),
)
