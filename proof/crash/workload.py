"""Random numbered operations from several clients, every one of them in the ledger."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from proof import pattern
from proof.clients.base import Client, drive
from proof.ledger import Kind, Ledger, Operation, Violation
from proof.pattern import SECTOR

DEPTH = 6
"""Requests in flight a connection."""

SIZES = (1, 1, 2, 3, 8, 8, 8, 8, 16, 17, 32, 64, 128, 256)
"""Lengths in sectors: parts of a 4k block, whole ones, and several blocks of the volume."""

HOT_SECTORS = 2048
"""Half of the operations go to the start of the volume, so that they overlap often."""

DYING_SECONDS = 10.0
"""How long a connection may take to notice that the server was killed."""


@dataclass(frozen=True)
class Weights:
    """How often each kind of operation is chosen."""

    write: int = 66
    zero: int = 8
    discard: int = 6
    flush: int = 12
    read: int = 8
    forced: float = 0.4
    """Share of the writes and zeroes with FUA."""


class Volume:
    """A volume under load: its ledger, and its connected clients."""

    def __init__(self, name: str, tag: int, size: int, synchronous: bool):
        self.name = name
        self.tag = tag
        self.sector_count = size // SECTOR
        self.ledger = Ledger(name, self.sector_count, synchronous)
        self.clients: list[Client] = []

    def disconnect(self) -> None:
        """Drops the connections."""
        for client in self.clients:
            client.close()
        self.clients.clear()


class Workload:
    """Submits requests on every client until it is stopped, or the server dies."""

    def __init__(self, volumes: list[Volume], rng: random.Random, weights: Weights | None = None):
        self._volumes = volumes
        self._rng = rng
        self._weights = weights or Weights()
        self._errors_seen: dict[Client, int] = {}
        self.violations: list[Violation] = []
        self.refused: list[str] = []
        """Requests with an error reply."""

    def run(self, seconds: float) -> None:
        """Fills the queues for that long."""
        pairs = [(volume, client) for volume in self._volumes for client in volume.clients]
        clients = [client for _, client in pairs]
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for volume, client in pairs:
                while client.in_flight < DEPTH and not client.dead:
                    if not self._submit(volume, client):
                        break
            if all(client.dead for client in clients):
                break
            drive(clients, min(left, 0.02))

    def drain_dead(self) -> None:
        """After the kill: receives the replies that were already in flight, until each connection closes."""
        clients = [client for volume in self._volumes for client in volume.clients]
        deadline = time.monotonic() + DYING_SECONDS
        while any(not client.dead for client in clients) and time.monotonic() < deadline:
            drive(clients, 0.05)
        for volume in self._volumes:
            volume.disconnect()

    def drain(self, seconds: float) -> bool:
        """Blocks until all replies arrive; returns whether they came in time."""
        clients = [client for volume in self._volumes for client in volume.clients]
        deadline = time.monotonic() + seconds
        while any(client.in_flight and not client.dead for client in clients):
            if time.monotonic() > deadline:
                return False
            drive(clients, 0.05)
        return not any(client.dead for client in clients)

    def _place(self, volume: Volume, client: Client) -> tuple[int, int]:
        """Returns a random extent, in sectors, that the client can address."""
        rng = self._rng
        unit = client.granularity // SECTOR
        count = -(-rng.choice(SIZES) // unit) * unit
        space = HOT_SECTORS if rng.random() < 0.5 else volume.sector_count
        start = rng.randrange(0, space - count + 1) // unit * unit
        if rng.random() < 0.6:
            start = start // 8 * 8
        return start, count

    def _submit(self, volume: Volume, client: Client) -> bool:
        """Sends one random request; returns whether it could be sent."""
        weights, rng = self._weights, self._rng
        kind = rng.choices(
            ("write", "zero", "discard", "flush", "read"),
            (weights.write, weights.zero, weights.discard, weights.flush, weights.read),
        )[0]
        errors_before = client.errors
        if kind == "flush":
            self._flush(volume, client)
        elif kind == "read":
            self._read(volume, client)
        else:
            self._change(volume, client, Kind(kind), rng.random() < weights.forced)
        return client.errors == errors_before and not client.dead

    def _change(self, volume: Volume, client: Client, kind: Kind, forced: bool) -> None:
        start, count = self._place(volume, client)
        operation = volume.ledger.issue(kind, start, count)
        forced = forced and kind is not Kind.DISCARD

        def answered(good: bool) -> None:
            self._answered(volume, client, operation, forced, good)

        if kind is Kind.WRITE:
            data = pattern.sectors(volume.tag, operation.sequence, start, count)
            client.write(start * SECTOR, data, forced, answered)
        elif kind is Kind.ZERO:
            client.zero(start * SECTOR, count * SECTOR, forced, answered)
        else:
            client.discard(start * SECTOR, count * SECTOR, answered)

    def _answered(self, volume: Volume, client: Client, operation: Operation, forced: bool, good: bool) -> None:
        if good:
            volume.ledger.answer(operation, forced)
        else:
            self._check_refusal(client, operation.kind.value)

    def _check_refusal(self, client: Client, what: str) -> None:
        if client.errors > self._errors_seen.get(client, 0):
            self._errors_seen[client] = client.errors
            self.refused.append(f"{client.name}: {what}: {client.last_error}")

    def _flush(self, volume: Volume, client: Client) -> None:
        flush = volume.ledger.flush_issued()

        def answered(good: bool) -> None:
            if good:
                volume.ledger.flush_answered(flush)
            else:
                self._check_refusal(client, "flush")

        client.flush(answered)

    def _read(self, volume: Volume, client: Client) -> None:
        start, count = self._place(volume, client)
        read = volume.ledger.read_issued(start)

        def answered(data: bytes | None) -> None:
            if data is None:
                self._check_refusal(client, "read")
            else:
                found = pattern.read_back(volume.tag, start, data)
                self.violations += volume.ledger.judge_live(read, found)

        client.read(start * SECTOR, count * SECTOR, answered)
