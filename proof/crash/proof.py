"""The crash proof: rounds of load, kill, start, read back."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from proof.clients.base import Client
from proof.clients.iscsi import IscsiClient
from proof.clients.nbd import NbdClient
from proof.clients.nfs import Identity, NfsClient
from proof.crash.legs import LegFaults
from proof.crash.verify import verify
from proof.crash.workload import Volume, Workload
from proof.ledger import Violation
from proof.process import Ended
from proof.rounds import Tally
from proof.runtime import ProofError
from proof.servers.base import Server, VolumeSpec

CLIENTS_A_PROTOCOL = 2
LOAD_SECONDS = (0.03, 0.5)
"""Shortest and longest load before the kill."""

KILL_WHILE_STARTING = 0.25
"""Share of rounds with a kill during the next start, anywhere between exec and ready."""

POLITE_STOP = 0.05
"""Share of rounds that finish with SIGTERM: then all acknowledged data is durable."""

DRAIN_SECONDS = 30.0
VIOLATIONS_SHOWN = 12


@dataclass
class Plan:
    """The parameters of a run."""

    rounds: int
    seed: int
    audit_every: int = 50
    full_every: int = 10
    volumes: frozenset[str] | None = None
    """Loads only these of the server's volumes; all without it."""
    say: Callable[[str], None] = print
    sabotage: Callable[[int], None] | None = None
    """For the proof's own tests: called with the round's number while the server is down."""


@dataclass
class CrashTally(Tally):
    """The counts of a run."""

    acknowledged: int = 0
    durable: int = 0
    lost: int = 0
    starts_killed: int = 0
    start_seconds: list[float] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether no write was lost either."""
        return not self.lost and not self.complaints

    def summary(self) -> str:
        return f"{self.durable} durable, {self.starts_killed} starts killed, {self.audits} audits, {super().summary()}"

    def verdict(self) -> str:
        return f"crash: {self.rounds} rounds, {self.acknowledged} acknowledged, {self.lost} lost"


class CrashProof:
    """Runs the rounds against one server."""

    def __init__(self, server: Server, plan: Plan, faults: LegFaults | None = None, *, prepared: bool = False):
        """With ``prepared`` the server's volumes exist already; those named in the plan must be empty."""
        self._prepared = prepared
        self._server = server
        self._plan = plan
        self._faults = faults
        self._tally = CrashTally()
        self._identities: dict[str, Identity] = {}
        """Of clients of NFS, which reclaim the files that they had open at the previous server."""
        self._volumes = [
            Volume(spec.name, tag, spec.size, spec.synchronous)
            for tag, spec in enumerate(server.volumes, 1)
            if plan.volumes is None or spec.name in plan.volumes
        ]

    def run(self) -> CrashTally:
        """Runs all rounds; stops at the first broken promise."""
        tally = self._tally
        if not self._prepared:
            self._server.prepare()
        self._start()
        for number, rng in tally.each_round(self._plan.rounds, self._plan.seed):
            with tally.complaining(f"round {number}", self._server):
                self._round(number, rng)
            self._count()
            if number % 10 == 0:
                self._report(number)
        if tally.good:
            with tally.complaining("the end", self._server):
                self._audit()
        return tally

    def _round(self, number: int, rng: random.Random) -> None:
        workload = Workload(self._volumes, rng)
        seconds = rng.uniform(*LOAD_SECONDS)
        polite = rng.random() < POLITE_STOP
        if self._faults:
            before = rng.uniform(0, seconds)
            workload.run(before)
            self._faults.strike_running(rng)
            seconds -= before
        workload.run(seconds)
        self._require_alive(workload)
        if polite:
            self._stop_politely(workload)
        else:
            self._server.kill()
            workload.drain_dead()
        self._note(workload.violations)
        self._tally.complaints += [f"refused: {words}" for words in workload.refused[:VIOLATIONS_SHOWN]]
        if self._plan.sabotage:
            self._plan.sabotage(number)
        if self._faults:
            self._faults.strike_stopped(rng)
        self._kill_while_starting(rng)
        if number % self._plan.audit_every == 0:
            # One start replays and exports; then stock tools check the pool.
            self._start(connect=False)
            with self._tally.complaining(f"round {number}", self._server):
                self._audit()
        self._start()
        self._read_back(rng, everything=number % self._plan.full_every == 0 or number == self._plan.rounds)
        if self._faults:
            self._tally.complaints += self._faults.repair()

    def _require_alive(self, workload: Workload) -> None:
        """Requires that the server runs: only we may stop it or drop a connection, so any other exit is a defect."""
        for child in self._server.children:
            if not child.alive():
                workload.drain_dead()
                raise ProofError(f"{child.name} exited by itself under load")
        for volume in self._volumes:
            for client in volume.clients:
                if client.dead:
                    raise ProofError(f"{client.name}: dropped by a running server: {client.last_error}")

    def _stop_politely(self, workload: Workload) -> None:
        """After a clean stop all acknowledged data is durable."""
        if not workload.drain(DRAIN_SECONDS):
            self._tally.complaints.append(f"requests without a reply within {DRAIN_SECONDS:g} s")
        for volume in self._volumes:
            volume.ledger.flush_answered(volume.ledger.flush_issued())
            volume.disconnect()
        self._server.stop()

    def _kill_while_starting(self, rng: random.Random) -> None:
        while rng.random() < KILL_WHILE_STARTING:
            # At any time of a start of the usual duration: replay, import, start of the listeners.
            usual = statistics.median(self._tally.start_seconds)
            self._server.start()
            time.sleep(rng.uniform(0, usual * 1.1))
            self._server.kill()
            self._tally.starts_killed += 1

    def _start(self, connect: bool = True) -> None:
        started = time.monotonic()
        self._server.start()
        try:
            self._server.wait_ready()
        except Ended as refusal:
            if not self._faults:
                raise
            self._faults.start_without(refusal)
        self._tally.start_seconds.append(time.monotonic() - started)
        if not connect:
            return
        for volume in self._volumes:
            volume.clients = self._connect(volume.name)

    def _connect(self, volume: str) -> list[Client]:
        clients: list[Client] = []
        for index in range(CLIENTS_A_PROTOCOL):
            if file := self._server.nfs(volume):
                name = f"proof-{volume}-{index}"
                identity = self._identities.setdefault(name, Identity(name.encode()))
                clients.append(NfsClient(file, identity))
                continue
            if address := self._server.iscsi(volume):
                digest = "crc32c" if index else "none"
                initiator = f"iqn.2026-01.org.example:proof-{volume}-{index}"
                clients.append(IscsiClient(address, initiator, digest))
            if export := self._server.nbd(volume):
                clients.append(NbdClient(export))
        return clients

    def _read_back(self, rng: random.Random, everything: bool) -> None:
        for volume in self._volumes:
            with self._tally.complaining(f"round {self._tally.rounds + 1}, volume {volume.name}", self._server):
                self._note(verify(volume, rng.choice(volume.clients), everything))

    def _audit(self) -> None:
        for volume in self._volumes:
            volume.disconnect()
        self._tally.audit(self._server)

    def _note(self, violations: list[Violation]) -> None:
        self._tally.lost += len(violations)
        for violation in violations[:VIOLATIONS_SHOWN]:
            self._plan.say(f"  round {self._tally.rounds + 1}: {violation}")

    def _count(self) -> None:
        ledgers = [volume.ledger for volume in self._volumes]
        self._tally.acknowledged = sum(ledger.acknowledged for ledger in ledgers)
        self._tally.durable = sum(ledger.durable for ledger in ledgers)

    def _report(self, number: int) -> None:
        starts = self._tally.start_seconds
        self._plan.say(
            f"round {number}: {self._tally.acknowledged} acknowledged ({self._tally.durable} durable), "
            f"start {statistics.median(starts):.2f} s median {max(starts):.2f} s longest, "
            f"{self._tally.starts_killed} starts killed"
        )


def volumes_for_crash() -> list[VolumeSpec]:
    """Returns volumes with different block sizes and compressions; one where every acknowledged write is durable."""
    mebibyte = 1 << 20
    return [
        VolumeSpec("small-blocks", 12 * mebibyte, 4096, (("compression", "off"),)),
        VolumeSpec("usual-blocks", 16 * mebibyte, 16384, (("compression", "lz4"),)),
        VolumeSpec("large-blocks", 16 * mebibyte, 131072, (("compression", "zstd"),)),
        VolumeSpec("always-sync", 8 * mebibyte, 8192, (("sync", "always"),)),
    ]


def file_for_crash() -> VolumeSpec:
    """A file that clients of NFS hold open over the kills."""
    return VolumeSpec("file", 12 << 20, is_file=True)
