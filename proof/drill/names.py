"""Names of a directory that are made, changed and removed, and what must be there by the answers."""

from __future__ import annotations

import random
from dataclasses import dataclass

PLACES = 32
"""Files that are there at most. Each has one change under way at a time."""


@dataclass(eq=False)
class Change:
    """One change: a new name alone makes a file, an old one alone removes it."""

    place: int
    old: bytes | None
    new: bytes | None
    sendings: int = 0
    """How often it was sent. The answer to an earlier sending may be lost."""
    was_refused: bool = False
    """The answer was that an earlier sending of it had been carried out."""


class Names:
    """What the directory holds. A name is never used twice, so that what comes late does no harm."""

    def __init__(self, rng: random.Random):
        self.acknowledged = 0
        self._rng = rng
        self._serial = 0
        self._present: dict[int, bytes] = {}
        self._by_refusal: set[bytes] = set()
        """Names of which only a refusal told that they are there."""
        self._idle = list(range(PLACES))

    def next(self) -> Change | None:
        """A change to be asked for; none while all places have one."""
        if not self._idle:
            return None
        place = self._idle.pop(self._rng.randrange(len(self._idle)))
        old = self._present.get(place)
        self._serial += 1
        is_removal = old is not None and self._rng.random() < 0.3
        return Change(place, old, None if is_removal else f"{place}-{self._serial}".encode())

    def answered(self, change: Change) -> None:
        """It is done."""
        self.acknowledged += 1
        if change.new is None:
            del self._present[change.place]
            return
        self._present[change.place] = change.new
        if change.was_refused:
            self._by_refusal.add(change.new)

    def ended(self, change: Change) -> None:
        """It was answered, also with an error: the place may have another one."""
        self._idle.append(change.place)

    def judge(self, found: set[bytes]) -> list[str]:
        """What is not as it was answered, when no change is under way."""
        expected = set(self._present.values())
        lost = [f"lost: the name {name.decode()} is not there{self._how(name)}" for name in sorted(expected - found)]
        return lost + [f"lost: the name {name.decode(errors='replace')} is there again" for name in sorted(found - expected)]

    def _how(self, name: bytes) -> str:
        return ", although its change was refused as done before" if name in self._by_refusal else ""
