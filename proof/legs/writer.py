"""A client that writes all the time, each write durable before the next one, during the faults."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from proof import runtime
from proof.legs.client import Client
from proof.legs.history import BLOCK_BYTES, BLOCKS, History
from proof.runtime import ProofError

PACE_SECONDS = 0.004
"""Pause between two writes: some must be in flight at a fault, and the CPU is for the servers."""


class Writer:
    """Starts at once. It is the only user of the history until it has stopped."""

    def __init__(self, history: History, connect: Callable[[], Client], choice: random.Random):
        self._history, self._connect, self._choice = history, connect, choice
        self._ending = threading.Event()
        self._lost: OSError | None = None
        self.answered = 0
        self.longest_seconds = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            client = self._connect()
            while not self._ending.wait(PACE_SECONDS):
                block = self._choice.randrange(BLOCKS)
                sequence, data = self._history.begin(block)
                begun = time.monotonic()
                client.write_durably(block * BLOCK_BYTES, data)
                self._history.acknowledge(block, sequence)
                self.longest_seconds = max(self.longest_seconds, time.monotonic() - begun)
                self.answered += 1
            client.close()
        except OSError as error:
            self._lost = error

    def must_go_on(self, seconds: float) -> None:
        """Blocks until a write that starts after the call is acknowledged."""
        target = self.answered + 2
        runtime.wait_until("a client's write is acknowledged", lambda: self.answered >= target or self._lost is not None, seconds)
        if self._lost:
            raise ProofError(f"the client's connection was lost: {self._lost}")

    def must_wait(self, grace_seconds: float, seconds: float) -> None:
        """New writes must not be acknowledged, after the time that pending ones may need."""
        time.sleep(grace_seconds)
        before = self.answered
        time.sleep(seconds)
        if self.answered != before:
            raise ProofError(f"{self.answered - before} writes were acknowledged that only one head has, without a signed record")

    def end(self, seconds: float) -> None:
        """Blocks until the last write is acknowledged, or the connection is lost; the latter is for the caller to
        judge."""
        self._ending.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise ProofError(f"a write has no reply after {seconds:g} s")

    @property
    def lost(self) -> OSError | None:
        """Returns why the connection was lost, if it was."""
        return self._lost
