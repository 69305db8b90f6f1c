"""The possible contents of a volume, cell by cell: each write of a cell, with the times of its request and its
reply."""

from __future__ import annotations

from dataclasses import dataclass, field

from proof import pattern

CELL = 4096
SECTORS = CELL // pattern.SECTOR
NEVER = float("inf")


@dataclass
class Write:
    """One write of a cell."""

    sequence: int
    answered: float = NEVER
    asked: float = 0.0
    refused: bool = False
    """Completed without effect, because of a unit attention."""


@dataclass
class Cells:
    """The cells of one volume; at most one write of a cell is pending."""

    tag: int
    count: int
    now: list[int] = field(default_factory=list)
    """The sequence number that each cell held when the round started, which is that of the snapshot."""
    writes: dict[int, list[Write]] = field(default_factory=dict)
    sequence: int = 0

    def __post_init__(self) -> None:
        self.now = [0] * self.count

    def begin(self, cell: int, asked: float) -> tuple[Write, bytearray]:
        """Starts a new write of ``cell``; returns it, and its data."""
        self.sequence += 1
        write = Write(self.sequence, asked=asked)
        self.writes.setdefault(cell, []).append(write)
        return write, pattern.sectors(self.tag, write.sequence, cell * SECTORS, SECTORS)

    def done(self, cell: int) -> list[Write]:
        """Returns the writes of ``cell`` that may have had an effect."""
        return [write for write in self.writes.get(cell, []) if not write.refused]

    def read_back(self, data: bytes) -> list[int]:
        """Returns the sequence number in each cell; ``pattern.TORN`` for a mixed cell."""
        sectors = pattern.read_back(self.tag, 0, data)
        cells = [set(sectors[at : at + SECTORS]) for at in range(0, len(sectors), SECTORS)]
        return [found.pop() if len(found) == 1 else pattern.TORN for found in cells]

    def wrong_if_kept(self, found: list[int], started: float) -> list[int]:
        """Returns the cells that contradict "nothing was rolled back", if all acknowledged writes were durable."""
        return [cell for cell in range(self.count) if found[cell] not in self._if_kept(cell, started)]

    def _if_kept(self, cell: int, started: float) -> set[int]:
        before = [write for write in self.done(cell) if write.answered < started]
        later = {write.sequence for write in self.done(cell) if write.answered >= started}
        return later | {before[-1].sequence if before else self.now[cell]}

    def wrong_if_gone(self, found: list[int], started: float, ended: float) -> list[int]:
        """Returns the cells that contradict "it was rolled back between ``started`` and ``ended``"."""
        return [cell for cell in range(self.count) if found[cell] not in self._if_gone(cell, started, ended)]

    def _if_gone(self, cell: int, started: float, ended: float) -> set[int]:
        after = [write for write in self.done(cell) if write.asked > ended and write.answered < NEVER]
        unsure = [write for write in self.done(cell) if write.answered >= started]
        if after:
            return {write.sequence for write in unsure if write.sequence >= after[-1].sequence}
        return {self.now[cell]} | {write.sequence for write in unsure}

    def restart(self, found: list[int]) -> None:
        """Starts a new round from the found contents."""
        self.now = found
        self.writes = {}
