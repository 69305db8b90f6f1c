"""Names of a directory that are created, changed and removed, and the names that must exist according to the
replies."""

from __future__ import annotations

import random
from dataclasses import dataclass

PLACES = 32
"""Bound of the number of files. Each has at most one pending change."""


@dataclass(eq=False)
class Change:
    """One change: a new name alone creates a file, an old one alone removes it."""

    place: int
    old: bytes | None
    new: bytes | None
    sendings: int = 0
    """How often it was sent. The reply to an earlier attempt may be lost."""
    was_refused: bool = False
    """The reply shows that an earlier attempt was carried out."""


class Names:
    """The contents of the directory. A name is never used twice, so that a late request does no harm."""

    def __init__(self, rng: random.Random):
        self.acknowledged = 0
        self._rng = rng
        self._serial = 0
        self._present: dict[int, Change] = {}
        """By slot, the change that gave a file its name."""
        self._idle = list(range(PLACES))

    def next(self) -> Change | None:
        """Returns the next change to send; none while all slots have one."""
        if not self._idle:
            return None
        place = self._idle.pop(self._rng.randrange(len(self._idle)))
        present = self._present.get(place)
        old = present.new if present else None
        self._serial += 1
        is_removal = old is not None and self._rng.random() < 0.3
        return Change(place, old, None if is_removal else f"{place}-{self._serial}".encode())

    def answered(self, change: Change) -> None:
        """Records the change as done."""
        self.acknowledged += 1
        if change.new is None:
            del self._present[change.place]
        else:
            self._present[change.place] = change

    def ended(self, change: Change) -> None:
        """The change has a reply, also an error: its slot is free."""
        self._idle.append(change.place)

    def judge(self, found: set[bytes]) -> list[str]:
        """Returns the names that differ from the acknowledged state, when no change is pending."""
        expected = {change.new: change for change in self._present.values() if change.new is not None}
        lost = [f"lost: the name {name.decode()} is not there{_how(expected[name])}" for name in sorted(expected.keys() - found)]
        return lost + [f"lost: the name {name.decode(errors='replace')} is there again" for name in sorted(found - expected.keys())]


def _how(change: Change) -> str:
    return ", although its change was refused as done before" if change.was_refused else ""
