"""Shared parts of the randomized proofs: options, the seed that repeats a run, rounds, complaints, and the verdict."""

from __future__ import annotations

import argparse
import contextlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from proof import runtime
from proof.runtime import ProofError
from proof.servers.base import Server


def options(proof: str, purpose: str | None, rounds: int | None = 50) -> argparse.ArgumentParser:
    """Returns the options ``--rounds``, unless there are none, ``--seed`` and ``--keep``; a proof adds its own."""
    parser = argparse.ArgumentParser(prog=f"proof.{proof}", description=purpose)
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds)
    words = "repeats a run's operations (the times of kills vary with the host)"
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help=words)
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    return parser


def say_seed(seed: int, target: str) -> None:
    """Prints how to repeat this run: the target of ``make``, with its variables."""
    print(f"seed {seed}: make {target} SEED={seed} repeats this run's operations")


@dataclass
class Tally:
    """The counts of a run; each proof adds its own."""

    rounds: int = 0
    audits: int = 0
    complaints: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    @property
    def good(self) -> bool:
        """Whether there is no complaint."""
        return not self.complaints

    def summary(self) -> str:
        """The line before the verdict."""
        return f"{time.monotonic() - self.started:.0f} s"

    def verdict(self) -> str:
        """The last line."""
        raise NotImplementedError

    @contextlib.contextmanager
    def complaining(self, where: str, server: Server) -> Iterator[None]:
        """Turns a ``ProofError`` in the block into a complaint, with the tail of the server's log."""
        try:
            yield
        except ProofError as error:
            self.complaints.append("\n".join([f"{where}: {error}", *(child.log_tail() for child in server.children)]))

    def each_round(self, count: int, seed: int) -> Iterator[tuple[int, random.Random]]:
        """Numbers from 1, each with its own random numbers; stops after the first complaint."""
        for number in range(1, count + 1):
            yield number, random.Random(f"{seed}:{number}")
            self.rounds = number
            if not self.good:
                return

    def audit(self, server: Server) -> None:
        """Stops the server in the polite way, then runs the engine's own checker on the exported pool."""
        server.stop()
        self.audits += 1
        if findings := server.audit():
            raise ProofError(f"the pool's checker found: {findings}")

    def end(self, *more: str) -> int:
        """Prints the complaints, the summary with more lines, and the verdict; returns the exit status."""
        runtime.verdict(self.complaints, self.summary(), *more, self.verdict())
        return 0 if self.good else 1
