"""``qemu-io`` on a volume of the appliance: one durable write after the other, numbered, and read back at the end."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence

from proof.process import die_with_parent
from proof.runtime import ProofError, at_exit

PROMPT = b"qemu-io> "
BLOCK = 4096
SLOTS = 64
"""Number of blocks that the writes cycle through."""
PATTERNS = 251
PACE_SECONDS = 0.01
"""Pause between two writes: the pauses of the appliance are measured, not the speed."""
ANSWER_SECONDS = 150.0


class StockClient:
    """A running qemu-io, and the thread that feeds it."""

    def __init__(self, name: str, enter: Sequence[str], image: str):
        self.name = name
        argv = [*enter, "qemu-io", "--cache", "none", "--image-opts", image]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=die_with_parent
        )
        at_exit(self._process.kill)
        self._heard = b""
        self._acknowledged: dict[int, int] = {}
        self._ended = threading.Event()
        self._failure = ""
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._longest = 0.0
        self.writes = 0
        self._hear()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def take_longest(self) -> float:
        """Returns the longest time between two replies since the last call, in seconds."""
        with self._lock:
            longest = max(self._longest, time.monotonic() - self._last)
            self._longest = 0.0
            self._last = time.monotonic()
        self._complain()
        return longest

    def wait_writes(self, count: int, seconds: float) -> None:
        """Returns after this many further acknowledged writes."""
        goal, deadline = self.writes + count, time.monotonic() + seconds
        while self.writes < goal:
            self._complain()
            if time.monotonic() > deadline:
                raise ProofError(f"{self.name}: no reply for {seconds:g} s")
            time.sleep(0.01)

    def finish(self) -> int:
        """Stops the writes and reads all blocks back; returns how many there were."""
        self._ended.set()
        self._thread.join(ANSWER_SECONDS)
        self._complain()
        for slot, pattern in self._acknowledged.items():
            answer = self._ask(f"read -P {pattern} {slot * BLOCK} {BLOCK}")
            if "read 4096/4096" not in answer or "failed" in answer:
                raise ProofError(f"{self.name}: block {slot} differs from the written data: {answer}")
        self._process.kill()
        self._process.wait()
        return self.writes

    def _complain(self) -> None:
        if self._failure:
            raise ProofError(f"{self.name}: {self._failure}")

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                slot, pattern = self.writes % SLOTS, self.writes % PATTERNS + 1
                answer = self._ask(f"write -f -P {pattern} {slot * BLOCK} {BLOCK}")
                if "wrote 4096/4096" not in answer:
                    raise ProofError(f"a write failed: {answer}")
                now = time.monotonic()
                with self._lock:
                    self._longest = max(self._longest, now - self._last)
                    self._last = now
                self._acknowledged[slot] = pattern
                self.writes += 1
                time.sleep(PACE_SECONDS)
        except ProofError as error:
            self._failure = str(error)

    def _ask(self, command: str) -> str:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(command.encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise ProofError(f"qemu-io is gone: {error}") from error
        return self._hear()

    def _hear(self) -> str:
        """Returns the output before the next command."""
        stdout = self._process.stdout
        assert stdout is not None
        while PROMPT not in self._heard:
            piece = os.read(stdout.fileno(), 65536)
            if not piece:
                raise ProofError(f"qemu-io ended: {self._heard.decode(errors='replace')}")
            self._heard += piece
        answer, _, self._heard = self._heard.partition(PROMPT)
        return answer.decode(errors="replace").strip()


__all__ = ["StockClient"]
