"""The contents that a volume may have after a crash, judged sector by sector.

Every operation has two times: when it was issued and when its reply arrived (never, if the server died first). An
operation is *durable* once it was acknowledged and was forced out: by FUA, by a flush that was issued after its
reply and was acknowledged itself, or because the volume is synchronous.

A value is **lost** when a sector shows one that some durable operation, issued after that value's own reply, must
have replaced. All other results are allowed: a crash may preserve or drop unflushed data, and concurrent operations
may land in either order.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from proof.pattern import SECTOR, TORN

PHYSICAL = 4096 // SECTOR
"""Sectors in the block that initiators believe to be written as a whole (a page, a journal block)."""


class Kind(Enum):
    """The effect of an operation on its sectors."""

    WRITE = "write"
    ZERO = "zero"
    """Zeroes for certain: write-zeroes, WRITE SAME."""
    DISCARD = "discard"
    """Zeroes or the old contents: TRIM and UNMAP are hints."""


@dataclass(eq=False, slots=True)
class Operation:
    """One change of the volume by one client."""

    kind: Kind
    sequence: int
    start: int
    count: int
    issued: int
    answered: float = math.inf
    durable: bool = False

    @property
    def value(self) -> int:
        """The value of a sector when this operation was its last: its number, or 0 for zeroes."""
        return self.sequence if self.kind is Kind.WRITE else 0

    @property
    def acknowledged(self) -> bool:
        """Whether the client has received an acknowledgement."""
        return self.answered is not math.inf


@dataclass(frozen=True)
class Violation:
    """One broken promise."""

    volume: str
    sector: int
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: volume {self.volume} sector {self.sector}: {self.detail}"


@dataclass(eq=False)
class Flush:
    """A pending flush: the operations that it covers once it is acknowledged."""

    covered: list[Operation] = field(default_factory=list)


@dataclass(frozen=True)
class Read:
    """A pending read."""

    start: int
    issued: int


class Ledger:
    """The operations on one volume since its contents were last read back."""

    def __init__(self, name: str, sector_count: int, synchronous: bool = False):
        self.name = name
        self.synchronous = synchronous
        self.acknowledged = 0
        self.durable = 0
        self._settled = array("L", bytes(sector_count * array("L").itemsize))
        self._history: dict[int, list[Operation]] = {}
        self._unflushed: set[Operation] = set()
        self._clock = 0
        self._sequence = 0

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def issue(self, kind: Kind, start: int, count: int) -> Operation:
        """Call before the request is sent."""
        self._sequence += 1
        operation = Operation(kind, self._sequence, start, count, self._tick())
        history = self._history
        for sector in range(start, start + count):
            past = history.get(sector)
            if past is None:
                history[sector] = [operation]
            else:
                past.append(operation)
        return operation

    def answer(self, operation: Operation, forced: bool) -> None:
        """Call when the client has the reply; ``forced`` when FUA was set."""
        operation.answered = self._tick()
        self.acknowledged += 1
        if forced or self.synchronous:
            self._settle_durable(operation)
        else:
            self._unflushed.add(operation)

    def _settle_durable(self, operation: Operation) -> None:
        operation.durable = True
        self.durable += 1

    def flush_issued(self) -> Flush:
        """Call before a flush is sent: it covers all operations that are acknowledged by now."""
        return Flush(list(self._unflushed))

    def flush_answered(self, flush: Flush) -> None:
        """Call when the flush was acknowledged."""
        for operation in flush.covered:
            if operation in self._unflushed:
                self._unflushed.remove(operation)
                self._settle_durable(operation)

    def judge_live(self, read: Read, found: list[int], may_be_lost: Callable[[Operation], bool] = lambda _: False) -> list[Violation]:
        """Judges a read while the server runs: operations that were acknowledged before the read must show, except
        those of ``may_be_lost``."""
        violations = []
        for index, value in enumerate(found):
            sector = read.start + index
            past = self._history.get(sector, [])
            binding = [operation for operation in past if operation.answered < read.issued and not may_be_lost(operation)]
            if not _allowed(value, self._settled[sector], past, binding):
                violations.append(
                    Violation(self.name, sector, "stale", f"a read shows {value} after {_describe(past)}")
                )
        return violations

    def read_issued(self, start: int) -> Read:
        """Call before a read is sent that ``judge_live`` judges."""
        return Read(start, self._tick())

    def touched(self) -> list[int]:
        """Sectors with operations since they were last judged, in order."""
        return sorted(self._history)

    def settled(self, start: int, count: int) -> list[int]:
        """Returns the values of the sectors at their last judgement."""
        return list(self._settled[start : start + count])

    def judge(self, start: int, found: list[int]) -> list[Violation]:
        """Compares sectors that were read back with the allowed values, and records them as the new state.

        Judge whole aligned 4k blocks: blocks cut by the end of ``found`` are not checked for tearing.
        """
        violations = list(self._judge_sectors(start, found))
        violations += self._judge_blocks(start, found)
        for index, value in enumerate(found):
            past = self._history.pop(start + index, None)
            if past is not None or value != self._settled[start + index]:
                self._settled[start + index] = max(value, 0)
        return violations

    def forget_flushes(self) -> None:
        """Call after a crash, once all sectors are judged: no operation is pending a flush any more."""
        self._unflushed.clear()

    def _judge_sectors(self, start: int, found: list[int]) -> Iterator[Violation]:
        for index, value in enumerate(found):
            sector = start + index
            past = self._history.get(sector)
            settled = self._settled[sector]
            if past is None:
                if value != settled:
                    kind = "torn" if value == TORN else "lost"
                    yield Violation(self.name, sector, kind, f"untouched, held {settled}, shows {value}")
            elif value == TORN:
                yield Violation(self.name, sector, "torn", f"mixed or foreign contents after {_describe(past)}")
            elif not _allowed(value, settled, past, [operation for operation in past if operation.durable]):
                yield Violation(self.name, sector, "lost", f"shows {value}, held {settled}, then {_describe(past)}")

    def _judge_blocks(self, start: int, found: list[int]) -> Iterator[Violation]:
        """An acknowledged write that covers a 4k block is visible in all of it or in none."""
        first = -start % PHYSICAL
        for index in range(first, len(found) - PHYSICAL + 1, PHYSICAL):
            shown = found[index : index + PHYSICAL]
            if len(set(shown)) == 1:
                continue
            block = start + index
            for operation in self._whole_block_writes(block):
                if operation.sequence not in shown:
                    continue
                for offset, value in enumerate(shown):
                    if value != TORN and not _may_follow(operation, value, self._history[block + offset]):
                        yield Violation(
                            self.name,
                            block + offset,
                            "torn",
                            f"write {operation.sequence} shows in part of its 4k block, {value} in the rest",
                        )

    def _whole_block_writes(self, block: int) -> Iterable[Operation]:
        for operation in self._history.get(block, ()):
            inside = operation.start <= block and block + PHYSICAL <= operation.start + operation.count
            if inside and operation.kind is Kind.WRITE and operation.acknowledged:
                yield operation


def _allowed(value: int, settled: int, past: list[Operation], binding: list[Operation]) -> bool:
    """Whether a sector may show ``value`` after ``settled`` and then ``past``, of which ``binding`` must hold."""
    # A hint may leave the old contents, so it is not certain to replace them.
    newest = max((operation.issued for operation in binding if operation.kind is not Kind.DISCARD), default=-1)
    if value == settled and newest < 0:
        return True
    return any(operation.value == value and operation.answered >= newest for operation in past)


def _may_follow(shown: Operation, value: int, past: list[Operation]) -> bool:
    """Whether ``value`` may be next to ``shown`` in one block: written by it, or not certainly older."""
    return any(
        operation.value == value and (operation is shown or operation.answered > shown.issued) for operation in past
    )


def _describe(past: list[Operation]) -> str:
    words = []
    for operation in past[-6:]:
        state = "durable" if operation.durable else "answered" if operation.acknowledged else "unanswered"
        words.append(f"{operation.kind.value} {operation.sequence} ({state}, {operation.start}+{operation.count})")
    return ", ".join(words)
