"""From exec to serving again after a kill in the midst of synchronous writes, with few and with many volumes."""

from __future__ import annotations

import json
import random
import re
import statistics
import time
from dataclasses import dataclass, fields
from pathlib import Path

from proof.bench.startup import first_read_ms
from proof.clients.base import Client, drive
from proof.clients.nbd import NbdClient
from proof.runtime import ProofError
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import Bulkhead

ROUNDS = 7
WRITE_SECONDS = 2.0
WRITE_BYTES = 4096
REPLAY_SECONDS = 120.0
VOLUME_BYTES = 64 << 20
SEED = 1


@dataclass
class Phases:
    """Milliseconds from exec, as the server logs them; the last as the client saw it."""

    imported: float
    listening: float
    logs_replayed: float
    client_has_read: float


class Writer:
    """Always has one synchronous write in flight on one volume."""

    def __init__(self, client: Client, rng: random.Random):
        self._client, self._rng = client, rng
        self.written = 0
        self._next(True)

    def _next(self, good: bool) -> None:
        if not good or self._client.dead:
            return
        offset = self._rng.randrange(VOLUME_BYTES // WRITE_BYTES) * WRITE_BYTES
        data = bytearray(self._rng.randbytes(16) * (WRITE_BYTES // 16))
        self._client.write(offset, data, True, self._count)

    def _count(self, good: bool) -> None:
        self.written += good
        self._next(good)


def write_and_kill(server: Bulkhead, rng: random.Random) -> int:
    """Writes to all volumes at a time, kills the server, and returns how many writes were acknowledged."""
    clients: list[Client] = [NbdClient(server.nbd(volume.name)) for volume in server.volumes]
    writers = [Writer(client, rng) for client in clients]
    deadline = time.monotonic() + WRITE_SECONDS * (0.75 + rng.random() / 2)
    while time.monotonic() < deadline:
        drive(clients, 0.05)
    server.kill()
    for client in clients:
        client.close()
    return sum(writer.written for writer in writers)


def replayed_ms(server: Bulkhead) -> float:
    """Blocks until no intent log is pending; returns the time of that."""
    deadline = time.monotonic() + REPLAY_SECONDS
    while time.monotonic() < deadline:
        status = json.loads(server.command("--json", "status", "proof"))
        after_ms = status["server"].get("replayed_after_ms")
        if after_ms is not None:
            return float(after_ms)
        time.sleep(0.05)
    raise ProofError(f"logs still wait after {REPLAY_SECONDS:g} s:\n{server.children[0].log_tail()}")


def logged_ms(log: str, event: str) -> float:
    """Returns the time of an event in the server's log."""
    match = re.search(rf"INFO {event}\b.*\bafter_ms=(\d+)", log)
    if not match:
        raise ProofError(f"the server's log has no time of: {event}")
    return float(match[1])


def restart(server: Bulkhead) -> Phases:
    """One start after a kill."""
    has_read = first_read_ms(server)
    replayed = replayed_ms(server)
    log = server.children[0].log.read_text(errors="replace")
    return Phases(logged_ms(log, "pool imported"), logged_ms(log, "listening pool"), replayed, has_read)


def measure(scratch: Path, count: int, rounds: int, written: bool) -> list[Phases]:
    """Kills and starts a server of ``count`` volumes again and again."""
    directory = scratch / f"volumes-{count}"
    directory.mkdir()
    volumes = [VolumeSpec(f"v{index:05}", VOLUME_BYTES, 4096) for index in range(count)]
    server = Bulkhead(directory, volumes, leg_bytes=4 << 30, written=written)
    print(f"making {count} volumes ...")
    server.prepare()
    rng = random.Random(SEED)
    taken = []
    try:
        server.start()
        server.wait_ready()
        for number in range(rounds):
            acknowledged = write_and_kill(server, rng)
            taken.append(restart(server))
            words = ", ".join(f"{field.name} {getattr(taken[-1], field.name):.0f}" for field in fields(Phases))
            print(f"  kill {number + 1} after {acknowledged} synchronous writes; ms: {words}")
        server.stop()
    finally:
        server.kill()
    return taken


def main(scratch: Path, counts: list[int], rounds: int, written: bool) -> int:
    """Prints the medians and the worst of each phase."""
    for count in counts:
        taken = measure(scratch, count, rounds, written)
        for field in fields(Phases):
            values = [getattr(phases, field.name) for phases in taken]
            print(f"{count} volumes: {field.name} after {statistics.median(values):.0f} ms (median of {len(values)}, worst {max(values):.0f})")
    return 0

