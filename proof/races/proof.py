"""Rounds: initiators work, a fault is injected, and every increment must be counted exactly once."""

from __future__ import annotations

import contextlib
import json
import random
import time
from dataclasses import dataclass

from proof.clients.commands import CommandInitiator
from proof.clients.nbd import NbdAddress
from proof.races.worker import BLOCK, COUNTERS, WORKERS_MAX, Worker, counts, read_16, unmap_parameters
from proof.rounds import Tally
from proof.runtime import ProofError, wait_until
from proof.servers.bulkhead import POOL, Bulkhead

try:
    import nbd
except ImportError:  # ``require_nbd`` names the package when a command needs it.
    nbd = None  # type: ignore[assignment]

VOLUME = f"{POOL}/v"
WORK_SECONDS = 1.5
END_SECONDS = 60.0
BEGINS_ANEW = 8
"""Exit code of a server that exits so that the next one resumes with the recovered devices."""

PLAIN_BYTES = 8 << 20
"""Size of the data that is written and unmapped, to check that the space is freed."""

PLAIN_OFFSET = 64 << 20


@dataclass
class RacesTally(Tally):
    """The counts of a run."""

    increments: int = 0
    miscompares: int = 0
    copies: int = 0
    kills: int = 0
    outages: int = 0

    def verdict(self) -> str:
        return (
            f"races: {self.rounds} rounds, {self.increments} increments, {self.miscompares} lost races, {self.copies} copies, "
            f"{self.kills} kills, {self.outages} outages of all legs, {len(self.complaints)} wrong"
        )


class RacesProof:
    """All rounds count in the same blocks of a running server."""

    def __init__(self, server: Bulkhead, workers: int, rounds: int, seed: int):
        self._server = server
        self._workers = min(workers, WORKERS_MAX)
        self._rounds = rounds
        self._seed = seed
        self._least = [[0] * WORKERS_MAX for _ in range(COUNTERS)]
        self._most = [[0] * WORKERS_MAX for _ in range(COUNTERS)]
        self.tally = RacesTally()

    def run(self) -> RacesTally:
        """Runs all rounds; stops at the first complaint."""
        tally = self.tally
        for number, rng in tally.each_round(self._rounds, self._seed):
            with tally.complaining(f"round {number}", self._server):
                self._round(number, rng)
        if tally.good:
            with tally.complaining("the end", self._server):
                self._space()
                self._block_status()
                tally.audit(self._server)
        return tally

    def _round(self, number: int, rng: random.Random) -> None:
        portals = self._server.iscsi_portals("v")
        seed = f"{self._seed}:{number}"
        workers = [Worker(one, portals[one % len(portals)], seed) for one in range(self._workers)]
        for worker in workers:
            worker.start()
        event = ("kill", "peace", "outage")[(number - 1) % 3]
        time.sleep(rng.uniform(0.3, 1) * WORK_SECONDS)
        has_ended = event == "kill"
        if event == "kill":
            self._server.kill()
            self.tally.kills += 1
        elif event == "outage":
            has_ended = self._outage()
            time.sleep(WORK_SECONDS / 3)
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(END_SECONDS)
        self._collect(workers, has_ended)
        if has_ended:
            self._server.start()
            self._server.wait_ready()
        self._check()

    def _outage(self) -> bool:
        """All legs are lost and recover: pending requests block, and complete exactly once.

        Returns whether the server has exited: when only some legs had recovered it exits, and a supervisor restarts
        it with these.
        """
        server, child = self._server, self._server.children[0]
        server.fault_file.write_text("".join(f"{leg} gone\n" for leg in server.legs))
        wait_until("the pool is suspended", lambda: bool(server.status()["suspended"]), END_SECONDS, 0.05)
        server.fault_file.write_text("")

        def goes_on() -> bool:
            # The server may exit between two requests.
            with contextlib.suppress(ProofError):
                return not child.alive() or (server.try_command("pool", "clear", POOL).ok and not server.status()["suspended"])
            return False

        wait_until("the pool resumes", goes_on, END_SECONDS, 0.05)
        self.tally.outages += 1
        if child.ended_with(BEGINS_ANEW):
            return True
        child.require_alive()
        return False

    def _collect(self, workers: list[Worker], has_ended: bool) -> None:
        for worker in workers:
            if worker.is_alive():
                raise ProofError(f"{worker.name} blocks on a reply that does not arrive")
            if worker.failure:
                raise ProofError(worker.failure)
            if worker.unsure is not None and not has_ended:
                raise ProofError(f"{worker.name} lost its connection")
            for counter, done in enumerate(worker.acknowledged):
                self._least[counter][worker.number] += done
                self._most[counter][worker.number] += done + (worker.unsure == counter)
            self.tally.increments += sum(worker.acknowledged)
            self.tally.miscompares += worker.miscompares
            self.tally.copies += worker.copies

    def _check(self) -> None:
        """Each acknowledged increment is counted once, and at most the unacknowledged ones in addition."""
        session = CommandInitiator(self._server.iscsi("v"), "iqn.2026-01.org.example:judge", 99)
        try:
            for counter in range(COUNTERS):
                answer = session.send(read_16(counter, 1), expected=BLOCK)
                while answer.is_attention:
                    answer = session.send(read_16(counter, 1), expected=BLOCK)
                total, each = counts(answer.data)
                least, most = self._least[counter], self._most[counter]
                if total != sum(each) or not all(low <= found <= high for low, found, high in zip(least, each, most, strict=True)):
                    raise ProofError(f"counter {counter} has {total} = {each}; acknowledged {least}, requested {most}")
                self._least[counter], self._most[counter] = list(each), list(each)
        finally:
            session.close()

    def _used(self) -> int:
        return int(json.loads(self._server.command("--json", "volume", "show", VOLUME))["used"])

    def _space(self) -> None:
        """Written data counts as used, and unmapped data no longer does."""
        session = CommandInitiator(self._server.iscsi("v"), "iqn.2026-01.org.example:space", 98)
        try:
            while session.send(b"\0" * 6).is_attention:
                pass
            # A change of properties blocks until earlier writes are committed.
            for _ in range(3):
                self._server.command("volume", "set", VOLUME, f"org.example:settled={time.monotonic()}")
            before = self._used()
            rng = random.Random(self._seed)
            chunk = 1 << 20
            for at in range(0, PLAIN_BYTES, chunk):
                cdb = _write_10((PLAIN_OFFSET + at) // BLOCK, chunk // BLOCK)
                if not session.send(cdb, rng.randbytes(chunk)).good:
                    raise ProofError("a write failed")
            wait_until("written data counts as used", lambda: self._used() >= before + PLAIN_BYTES * 9 // 10, END_SECONDS, 0.2)
            parameters = unmap_parameters(PLAIN_OFFSET // BLOCK, PLAIN_BYTES // BLOCK)
            if not session.send(bytes([0x42, 0, 0, 0, 0, 0, 0, 0, len(parameters), 0]), parameters).good:
                raise ProofError("UNMAP failed")
            wait_until("unmapped data is free", lambda: self._used() <= before + PLAIN_BYTES // 10, END_SECONDS, 0.2)
        finally:
            session.close()

    def _block_status(self) -> None:
        """NBD: base:allocation after a write, a trim, and zeroes that retain their space or not."""
        client = nbd.NBD()
        client.add_meta_context("base:allocation")
        address: NbdAddress = self._server.nbd("v")
        client.connect_uri(address.uri)
        size = 1 << 20
        client.pwrite(b"\x5a" * size, PLAIN_OFFSET)
        client.flush()
        self._expect_status(client, size, 0)
        client.trim(size, PLAIN_OFFSET)
        client.flush()
        self._expect_status(client, size, nbd.STATE_HOLE | nbd.STATE_ZERO)
        if client.pread(size, PLAIN_OFFSET) != bytes(size):
            raise ProofError("trimmed blocks do not read as zeroes")
        client.pwrite(b"\x5a" * size, PLAIN_OFFSET)
        client.zero(size, PLAIN_OFFSET)
        client.flush()
        if client.pread(size, PLAIN_OFFSET) != bytes(size):
            raise ProofError("zeroed blocks do not read as zeroes")
        client.shutdown()

    def _expect_status(self, client: object, size: int, wanted: int) -> None:
        def told() -> bool:
            found: list[int] = []

            def extents(_context: str, _offset: int, entries: list[int], _error: object) -> int:
                found.extend(entries)
                return 0

            client.block_status(size, PLAIN_OFFSET, extents)  # type: ignore[attr-defined]
            flags = found[1::2]
            return sum(found[::2]) >= size and all(flag == wanted for flag in flags)

        wait_until(f"block status {wanted}", told, END_SECONDS, 0.2)


def _write_10(lba: int, blocks: int) -> bytes:
    return bytes([0x2A, 0]) + lba.to_bytes(4, "big") + b"\0" + blocks.to_bytes(2, "big") + b"\0"

