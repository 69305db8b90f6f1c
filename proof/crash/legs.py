"""Faults of one leg of the mirror while the server runs, dies and starts again."""

from __future__ import annotations

import os
import random
from abc import ABC, abstractmethod
from pathlib import Path

from proof.runtime import ProofError

LABELS_BYTES = 4 << 20
"""Two labels and the boot area at the start of a leg. A leg without them is a missing leg."""

CORRUPT_RUN_BYTES = 64 << 10


class LegFaults(ABC):
    """Damages one leg at a time, and repairs it before the next fault."""

    @abstractmethod
    def strike_running(self, rng: random.Random) -> None:
        """Called once a round in the middle of the load."""

    @abstractmethod
    def strike_stopped(self, rng: random.Random) -> None:
        """Called once a round while the server is down."""

    @abstractmethod
    def start_without(self, refusal: ProofError) -> None:
        """Starts the server without the damaged leg, which it has refused; raises if the refusal has another reason."""

    @abstractmethod
    def repair(self) -> list[str]:
        """Called after the read-back, with the server running; returns the damage that could not be repaired."""

    @abstractmethod
    def summary(self) -> str:
        """Returns the number of faults, for the report."""


def corrupt(leg: Path, rng: random.Random, runs: int) -> None:
    """Overwrites ``runs`` random stretches of the stored data with noise, labels excepted."""
    stored = _stored_ranges(leg)
    if not stored:
        return
    with leg.open("r+b", buffering=0) as file:
        for _ in range(runs):
            start, end = rng.choice(stored)
            length = min(rng.randrange(512, CORRUPT_RUN_BYTES), end - start)
            file.seek(rng.randrange(start, end - length + 1))
            file.write(rng.randbytes(length))


def truncate(leg: Path, rng: random.Random) -> None:
    """Truncates the file anywhere behind its first labels."""
    size = leg.stat().st_size
    with leg.open("r+b") as file:
        file.truncate(rng.randrange(LABELS_BYTES, size))


def _stored_ranges(leg: Path) -> list[tuple[int, int]]:
    """Returns the data ranges of a sparse file, without the areas of the labels."""
    limit = leg.stat().st_size - LABELS_BYTES
    ranges = []
    with leg.open("rb") as file:
        at = LABELS_BYTES
        while at < limit:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
                end = min(os.lseek(file.fileno(), start, os.SEEK_HOLE), limit)
            except OSError:
                break
            if start >= limit:
                break
            ranges.append((start, end))
            at = end
    return ranges
