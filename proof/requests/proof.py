"""Administrators that send random requests concurrently. No request may stop the server, or damage the pool."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proof.control import Control
from proof.requests.words import Words, name_of
from proof.rounds import Tally
from proof.runtime import ProofError
from proof.servers.bulkhead import POOL, Bulkhead

ANSWER_SECONDS = 120.0
SHOWN_MAX = 12
"""Number of requests before the exit of a server that are printed."""

MORE_DISKS = 4
JOURNAL = "requests.log"
"""Next to the disks, where ``--keep`` retains it."""
ANSWERED = "done"


@dataclass
class RequestsTally(Tally):
    """The counts of a run."""

    asked: Counter[str] = field(default_factory=Counter)

    def verdict(self) -> str:
        total = sum(self.asked.values())
        refused = total - self.asked[ANSWERED]
        return f"requests: {total} asked, {self.asked[ANSWERED]} done, {refused} refused, {len(self.complaints)} wrong"


class RequestsProof:
    """One running server, and several administrators."""

    def __init__(self, server: Bulkhead, seconds: float, workers: int, seed: int):
        self._server = server
        self._seconds = seconds
        self._workers = workers
        self._seed = seed
        self._latest: deque[str] = deque(maxlen=SHOWN_MAX)
        self._lock = threading.Lock()
        # All requests with their results: the order of concurrent requests matters.
        self._journal = (server.directory.parent / JOURNAL).open("w", encoding="utf-8")
        self._begun = time.monotonic()
        self._noted = 0
        self.tally = RequestsTally()

    def run(self) -> RequestsTally:
        """Sends requests for the given time; stops when the server has exited."""
        server = self._server
        try:
            disks = [*server.legs, *self._more_disks()]
            self._ask_all(disks)
            server.children[0].require_alive()
            members = server.command("pool", "status", POOL, "--json")
            self._note("the server is stopped")
            server.stop()
            # A disk that was offline when it was detached from a mirror retains its old label, and zdb accepts the
            # first label that it finds as the pool's. An import reads all labels and selects the right one.
            for disk in disks:
                if json.dumps(str(disk)) not in members:
                    disk.unlink()
            self.tally.audit(server)
        except ProofError as error:
            latest = "\n".join(self._latest)
            self.tally.complaints.append(f"{error}\nthe latest requests:\n{latest}")
        return self.tally

    def _ask_all(self, disks: list[Path]) -> None:
        document = json.loads(self._server.command("head", "openapi"))
        until = time.monotonic() + self._seconds
        words = [Words(document["components"]["schemas"], disks, self._seed + index) for index in range(self._workers)]
        threads = [threading.Thread(target=self._ask, args=(one, until)) for one in words]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _more_disks(self) -> list[Path]:
        disks = [self._server.directory / f"more{index}.img" for index in range(MORE_DISKS)]
        for disk in disks:
            with disk.open("wb") as file:
                file.truncate(self._server.legs[0].stat().st_size)
        return disks

    def _ask(self, words: Words, until: float) -> None:
        path = Path(self._server.environment["BULKHEAD_RUN_DIR"]) / f"{POOL}.sock"
        with Control(path, ANSWER_SECONDS) as control:
            while time.monotonic() < until:
                request = words.request()
                self._latest.append(json.dumps(request))
                number = self._note(json.dumps(request))
                try:
                    answer = control.exchange(request)
                except (OSError, ProofError) as error:
                    self._complain(request, error)
                    return
                outcome = ANSWERED if "answer" in answer else answer["failure"]["kind"]
                self._note(f"{number} {outcome}")
                with self._lock:
                    self.tally.asked[outcome] += 1

    def _note(self, text: str) -> int:
        """Adds a line to the journal; returns its number."""
        with self._lock:
            self._noted += 1
            self._journal.write(f"{self._noted} {time.monotonic() - self._begun:.4f} {text}\n")
            self._journal.flush()
            return self._noted

    def _complain(self, request: dict[str, Any], error: Exception) -> None:
        child = self._server.children[0]
        # An exit of the server is reported once, with its log.
        if child.alive() and isinstance(error, TimeoutError):
            noun, verb = name_of(request)
            with self._lock:
                self.tally.complaints.append(f"no reply to {noun} {verb} within {ANSWER_SECONDS:g} s: {json.dumps(request)}")
