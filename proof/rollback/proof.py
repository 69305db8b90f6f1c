"""Rounds of load, rollback, and sometimes a kill in the middle of it, judged cell by cell."""

from __future__ import annotations

import json
import random
import statistics
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from proof import pattern
from proof.clients import libiscsi
from proof.clients.base import Client, drive, drive_until, read_all, wait_done
from proof.clients.iscsi import IscsiClient
from proof.clients.nbd import NbdClient
from proof.process import Outcome
from proof.rollback.cells import CELL, Cells, Write
from proof.rounds import Tally
from proof.runtime import ProofError
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import POOL, Bulkhead

VOLUME = VolumeSpec("v", 8 << 20)
DATASET = f"{POOL}/{VOLUME.name}"
MEDIUM_MAY_HAVE_CHANGED = 0x2800
LOAD_SECONDS = (0.05, 0.4)
IN_FLIGHT = 16
"""Pending writes of each client."""

KILLED = 0.5
"""Share of rounds with a kill in the middle."""

QUIET = 0.3
"""Share of the killed rounds without load: then the contents are exactly the old or the new ones."""

NEWER = 0.4
"""Share of rounds with a newer snapshot to destroy."""

ANSWER_SECONDS = 120.0
READ_BYTES = 1 << 20


@dataclass
class RollbackTally(Tally):
    """The counts of a run."""

    killed: int = 0
    killed_old: int = 0
    killed_new: int = 0
    written: int = 0
    attentions: int = 0
    pauses_ms: list[int] = field(default_factory=list)
    took_ms: list[int] = field(default_factory=list)

    def verdict(self) -> str:
        def middle(values: list[int]) -> str:
            return f"{statistics.median_high(values)} ms (longest {max(values)})" if values else "-"

        return (
            f"rollback: {self.rounds} rounds, {self.written} writes, {self.killed} killed in the middle "
            f"({self.killed_old} old, {self.killed_new} new contents), {self.attentions} unit attentions, "
            f"took {middle(self.took_ms)}, clients waited {middle(self.pauses_ms)}, "
            f"{len(self.complaints)} wrong"
        )


class RollbackProof:
    """Runs the rounds against one running server."""

    def __init__(self, server: Bulkhead):
        self._server = server
        self._cells = Cells(1, VOLUME.size // CELL)
        self._busy: set[int] = set()
        self._clients: list[Client] = []
        self._attended: set[int] = set()
        self.tally = RollbackTally()

    def run(self, rounds: int, seed: int) -> RollbackTally:
        """Runs all rounds; stops at the first complaint."""
        tally = self.tally
        self._connect()
        with ThreadPoolExecutor(1) as pool:
            for number, rng in tally.each_round(rounds, seed):
                with tally.complaining(f"round {number}", self._server):
                    self._round(number, rng, pool)
        for client in self._clients:
            client.close()
        if tally.good:
            with tally.complaining("the end", self._server):
                tally.audit(self._server)
        return tally

    def _connect(self) -> None:
        iscsi, name = self._server.iscsi(VOLUME.name), "iqn.2026-01.org.example:proof"
        self._clients = [
            IscsiClient(iscsi, f"{name}-0"),
            IscsiClient(iscsi, f"{name}-1", "crc32c"),
            NbdClient(self._server.nbd(VOLUME.name)),
        ]
        self._busy.clear()

    def _round(self, number: int, rng: random.Random, pool: ThreadPoolExecutor) -> None:
        killed, newer = rng.random() < KILLED, rng.random() < NEWER
        quiet = killed and rng.random() < QUIET
        self._attended.clear()
        self._server.command("snapshot", "create", f"{DATASET}@r{number}")
        self._load(rng, rng.uniform(*LOAD_SECONDS))
        if newer:
            self._server.command("snapshot", "create", f"{DATASET}@n{number}")
            self._load(rng, rng.uniform(*LOAD_SECONDS))
        if quiet:
            self._drain()
        words = ["volume", "rollback", f"{DATASET}@r{number}", "--json", *(["--destroy-newer"] if newer else [])]
        started = time.monotonic()
        command = pool.submit(self._server.try_command, *words, seconds=ANSWER_SECONDS)
        if killed:
            usual = statistics.median_high(self.tally.took_ms or [200]) / 1000
            self._load(rng, rng.uniform(0, usual * 1.5 + 0.03), asks=not quiet)
            self._killed(number, command, started, newer)
        else:
            self._rolled_back(rng, command, started)

    def _rolled_back(self, rng: random.Random, command: Future[Outcome], started: float) -> None:
        while not command.done():
            self._load(rng, 0.01)
        ended = time.monotonic()
        outcome = command.result()
        if outcome.status != 0:
            raise ProofError(f"the rollback failed: {outcome.output}")
        answer = json.loads(outcome.output)
        self.tally.took_ms.append(answer["took_ms"])
        self.tally.pauses_ms.append(answer["pause_ms"])
        self._load(rng, rng.uniform(*LOAD_SECONDS))
        self._drain()
        # On a busy host a session may have sent no command since: its next command receives the unit attention.
        for client in self._clients:
            self._write(client, rng)
        self._drain()
        told = sum(isinstance(client, IscsiClient) for client in self._clients)
        if answer["sessions_told"] != told or len(self._attended) != told:
            raise ProofError(f"{answer['sessions_told']} of {told} sessions were notified, {len(self._attended)} received it")
        found = self._read()
        if wrong := self._cells.wrong_if_gone(found, started, ended):
            raise ProofError(f"cells are wrong after the rollback: {self._describe(wrong, found)}")
        self._cells.restart(found)

    def _killed(self, number: int, command: Future[Outcome], started: float, newer: bool) -> None:
        done = command.done() and command.result().status == 0
        ended = time.monotonic() if done else float("inf")
        self._server.kill()
        for client in self._clients:
            while client.in_flight and not client.dead:
                drive([client], 0.1)
            client.close()
        command.result()
        self._server.start()
        self._server.wait_ready()
        self._connect()
        found = self._read()
        kept = self._cells.wrong_if_kept(found, started)
        gone = self._cells.wrong_if_gone(found, started, ended)
        if gone and (kept or done):
            said = "reported as done" if done else "no reply"
            raise ProofError(
                f"neither the old nor the new contents ({said}): as old {self._describe(kept, found)}, "
                f"as new {self._describe(gone, found)}"
            )
        listed = self._server.command("snapshot", "list", DATASET)
        if newer and not gone and kept and f"@n{number}" in listed:
            raise ProofError("rolled back past a snapshot that is still there")
        self.tally.killed += 1
        self.tally.killed_old += bool(gone)
        self.tally.killed_new += bool(kept)
        self._cells.restart(found)

    def _describe(self, wrong: list[int], found: list[int]) -> str:
        shown = ", ".join(f"cell {cell} has {found[cell]}, started as {self._cells.now[cell]}" for cell in wrong[:4])
        return f"{len(wrong)} ({shown})"

    def _load(self, rng: random.Random, seconds: float, asks: bool = True) -> None:
        """Writes cells with every client for a while; every acknowledged write is durable."""
        until = time.monotonic() + seconds
        while True:
            for client in self._clients:
                if client.dead:
                    raise ProofError(f"{client.name}: lost its connection: {client.last_error}")
                while asks and client.in_flight < IN_FLIGHT:
                    self._write(client, rng)
            left = until - time.monotonic()
            if left <= 0:
                return
            drive(self._clients, min(left, 0.01))

    def _write(self, client: Client, rng: random.Random) -> None:
        cell = rng.randrange(self._cells.count)
        while cell in self._busy:
            cell = (cell + 1) % self._cells.count
        self._busy.add(cell)
        write, data = self._cells.begin(cell, time.monotonic())
        client.write(cell * CELL, data, True, lambda good: self._answered(client, cell, write, good))

    def _answered(self, client: Client, cell: int, write: Write, good: bool) -> None:
        self._busy.discard(cell)
        refusal = client.last_refusal
        if good:
            write.answered = time.monotonic()
            self.tally.written += 1
        elif refusal is not None:
            client.last_refusal = None
            write.refused = True
            if refusal.sense_key == libiscsi.UNIT_ATTENTION and refusal.ascq == MEDIUM_MAY_HAVE_CHANGED:
                self._attended.add(id(client))
                self.tally.attentions += 1
            else:
                self.tally.complaints.append(f"{client.name}: {refusal.words}")

    def _drain(self) -> None:
        drive_until(self._clients, lambda: not self._busy, ANSWER_SECONDS, "the last writes")

    def _read(self) -> list[int]:
        client = self._clients[-1]
        wait_done(client, client.flush)
        data = b"".join(read_all(client, at, READ_BYTES) for at in range(0, VOLUME.size, READ_BYTES))
        found = self._cells.read_back(data)
        if pattern.TORN in found:
            raise ProofError(f"cell {found.index(pattern.TORN)} is torn")
        return found
