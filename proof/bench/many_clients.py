"""Clients of NFS that write and hold locks while their server is killed or stopped, with few and with many file systems."""

from __future__ import annotations

import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from proof.bench.restart import logged_ms
from proof.clients.base import Client, drive
from proof.clients.nfs import DELAY, DENIED, GRACE, OK, Identity, NfsAddress, NfsClient
from proof.runtime import ProofError, port_answers
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import POOL, Bulkhead

ROUNDS = 5
CLIENTS = 100
WRITE_BYTES = 4096
FILE_BYTES = 64 * WRITE_BYTES
LOCKED = (0, FILE_BYTES)
EVERY_S = 0.1
"""Pause of a client between two writes."""
AGAIN_S = 0.02
"""Pause before a client that was refused connects again."""
STEADY_S = 2.0
GO_ON_SECONDS = 60.0
BEHIND = "files"
ENDS = ("kill", "stop")
PARALLEL_COMMANDS = 8


class Worker:
    """One client: one file, locked as a whole, and a periodic durable write."""

    def __init__(self, address: NfsAddress, number: int):
        self.address = address
        self.identity = Identity(f"client-{number}".encode(), locks={address.path: LOCKED})
        self.client: NfsClient | None = None
        self.last = 0.0
        """When its newest write was acknowledged."""
        self.pause = 0.0
        """The longest time between two replies since `forget`."""
        self.complaints: list[str] = []
        self.is_silent = False
        self._written = 0
        self._due = 0.0
        self._is_ready = False

    def forget(self) -> None:
        """Discards the pauses so far."""
        self.last, self.pause = time.monotonic(), 0.0

    def turn(self) -> None:
        """Connects, or writes, when that is due."""
        now = time.monotonic()
        if self.is_silent or now < self._due:
            return
        if self.client is None or self.client.dead:
            if self.client is not None:
                self.client.close()
            self._is_ready, self._due = False, now + AGAIN_S
            if port_answers(self.address.port):
                self.client = NfsClient(self.address, self.identity, self._ready)
        elif self._is_ready:
            self._is_ready = False
            data = bytearray(self._written.to_bytes(8, "big") * (WRITE_BYTES // 8))
            self.client.write(self._place(self._written), data, True, self._answered)

    def _place(self, number: int) -> int:
        return number * WRITE_BYTES % FILE_BYTES

    def _ready(self, good: bool) -> None:
        self._is_ready = good

    def _answered(self, good: bool) -> None:
        now = time.monotonic()
        if not good:
            self.complaints.append(f"{self.address}: {self.client.last_error if self.client else ''}")
            self.is_silent = True
            return
        self._written += 1
        self.pause, self.last = max(self.pause, now - self.last), now
        self._is_ready, self._due = True, now + EVERY_S

    def read_back(self) -> None:
        """Reads the newest acknowledged write back."""
        newest = self._written - 1
        assert self.client is not None

        def judge(data: bytes | None) -> None:
            # The next write may have been carried out, too, and is in another block.
            if data is None or int.from_bytes(data[:8], "big") != newest:
                self.complaints.append(f"{self.address}: lost: write {newest}")

        self.is_silent = True
        self.client.read(self._place(newest), WRITE_BYTES, judge)


class Thief:
    """Requests the lock of a client that does not reconnect. It must not get it while the lease of that client is
    valid."""

    def __init__(self, address: NfsAddress):
        self.address = address
        self.refused = 0
        self.complaints: list[str] = []
        self.client: NfsClient | None = None
        self._identity = Identity(b"thief")
        self._due = 0.0
        self._is_ready = False

    def turn(self) -> None:
        """Retries when that is due."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + EVERY_S
        if self.client is None or self.client.dead:
            if self.client is not None:
                self.client.close()
            if port_answers(self.address.port):
                self.client = NfsClient(self.address, self._identity, self._ready)
        elif self._is_ready:
            self._is_ready = False
            self.client.try_lock(LOCKED, self._answered)

    def _ready(self, good: bool) -> None:
        self._is_ready = good

    def _answered(self, status: int) -> None:
        self._is_ready = True
        self.refused += status in (DENIED, DELAY, GRACE)
        if status == OK:
            self.complaints.append("a client got a lock that another client's valid lease still holds")
        elif status not in (DENIED, DELAY, GRACE) and self.client is not None:
            self.client.close()


class Run:
    """A server, its clients, and the measurements."""

    def __init__(self, scratch: Path, file_systems: int, clients: int):
        self._server = Bulkhead(scratch, [VolumeSpec(BEHIND, 0, is_file=True)], leg_bytes=4 << 30)
        self._names = [f"{BEHIND}/f{number:05}" for number in range(file_systems)]
        self._clients = clients
        self.workers: list[Worker] = []
        self.listening_ms: list[float] = []
        self._complaints: list[str] = []

    def prepare(self) -> None:
        """Creates the file systems, and starts writes of all clients."""
        server = self._server
        server.prepare()
        server.start()
        server.wait_ready()
        with ThreadPoolExecutor(PARALLEL_COMMANDS) as pool:
            list(pool.map(lambda name: server.command("filesystem", "create", f"{POOL}/{name}"), self._names))
        shared = server.nfs(BEHIND)
        assert shared is not None
        for number in range(self._clients):
            name = self._names[number % len(self._names)]
            path = (POOL.encode(), *(part.encode() for part in name.split("/")), f"of-{number}".encode())
            self.workers.append(Worker(NfsAddress(shared.host, shared.port, path, FILE_BYTES), number))
        self._go_on(self.workers)

    def _drive(self, others: list[Thief], seconds: float) -> None:
        everybody = [*self.workers, *others]
        for one in everybody:
            one.turn()
        clients: list[Client] = [one.client for one in everybody if one.client is not None]
        drive(clients, seconds)

    def _go_on(self, whose: list[Worker], others: list[Thief] | None = None) -> None:
        """Blocks until each of these has received a reply."""
        since, deadline = time.monotonic(), time.monotonic() + GO_ON_SECONDS
        while any(worker.last < since and not worker.complaints for worker in whose):
            if time.monotonic() > deadline:
                silent = [str(worker.address) for worker in whose if worker.last < since]
                raise ProofError(f"{len(silent)} clients had no reply within {GO_ON_SECONDS:g} s, such as {silent[0]}")
            self._drive(others or [], 0.005)

    def round(self, end: str, rng: random.Random) -> tuple[float, float]:
        """Returns the median and the longest pause of the clients that reconnect, in seconds. One client does not."""
        server = self._server
        dead = rng.choice(self.workers)
        others = [worker for worker in self.workers if worker is not dead]
        deadline = time.monotonic() + STEADY_S * (0.75 + rng.random() / 2)
        while time.monotonic() < deadline:
            self._drive([], 0.005)
        for worker in self.workers:
            worker.forget()
        dead.is_silent = True
        if end == "kill":
            server.kill()
        else:
            server.stop()
        if dead.client is not None:
            dead.client.close()
        server.start()
        thief = Thief(dead.address)
        self._go_on(others, [thief])
        server.wait_ready()
        log = server.children[0].log.read_text(errors="replace")
        self.listening_ms.append(logged_ms(log, "listening pool"))
        thief.refused = 0
        while not (thief.refused or thief.complaints):
            self._drive([thief], 0.005)
        self._complaints += thief.complaints
        pauses = [worker.pause for worker in others]
        if thief.client is not None:
            thief.client.close()
        dead.is_silent = False
        self._go_on(self.workers)
        return statistics.median(pauses), max(pauses)

    def judge(self) -> list[str]:
        """Returns the losses of clients."""
        for worker in self.workers:
            worker.read_back()
        deadline = time.monotonic() + STEADY_S
        while time.monotonic() < deadline:
            self._drive([], 0.005)
        return self._complaints + [words for worker in self.workers for words in (*worker.complaints, *worker.identity.lost)]

    def end(self) -> None:
        """Stops the server, and closes the connections."""
        for worker in self.workers:
            if worker.client is not None:
                worker.client.close()
        self._server.kill()


def main(scratch: Path, counts: list[int], clients: int, rounds: int, seed: int) -> int:
    """Prints the pauses of each kind of stop, with each count of file systems."""
    wrong = 0
    for count in counts:
        directory = scratch / f"file-systems-{count}"
        directory.mkdir()
        run = Run(directory, count, clients)
        rng = random.Random(seed)
        print(f"making {count} file systems ...")
        try:
            run.prepare()
            for end in ENDS:
                run.listening_ms.clear()
                taken = [run.round(end, rng) for _ in range(rounds)]
                middle, worst = statistics.median(one for one, _ in taken), max(longest for _, longest in taken)
                print(
                    f"{count} file systems, {clients} clients with locks, one of them gone, {end}: pause {middle:.2f} s (median), {worst:.2f} s (worst of "
                    f"{rounds} rounds), listening after {statistics.median(run.listening_ms):.0f} ms"
                )
            found = run.judge()
        finally:
            run.end()
        print(f"{count} file systems: {len(found)} wrong", *found[:10], sep="\n  ")
        wrong += len(found)
    return 1 if wrong else 0
