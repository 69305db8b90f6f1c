"""``python3 -m proof.nfs.repeats --rounds N --seed S``: see docs/guide/proof.md."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from proof import rounds, runtime
from proof.clients import rpc
from proof.clients.base import ClientError
from proof.clients.nfs import (
    ANONYMOUS,
    BADSESSION,
    CLOSE,
    COMPOUND,
    CREATE,
    DELAY,
    GETFH,
    GRACE,
    LINK,
    LOOKUP,
    PROGRAM,
    PUTFH,
    PUTROOTFH,
    RECLAIM_COMPLETE,
    REMOVE,
    REMOVEXATTR,
    RENAME,
    SAVEFH,
    SEQUENCE,
    SETATTR,
    SETXATTR,
    VERSION,
    Operation,
    StatusError,
    attributes,
    bitmap,
    compound,
    create_session,
    exchange_id,
    lookups,
    open_file,
    read_open,
    skip_result,
)
from proof.clients.xdr import Reader, opaque, u32
from proof.rounds import Tally
from proof.runtime import ProofError
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import POOL, Bulkhead
from proof.stream import receive

LANES = 4
"""Clients of each version."""

SLOTS = 4
LOAD_SECONDS = (0.05, 0.6)
ANSWER_SECONDS = 60.0
PAUSED_SECONDS = 0.02
MOUNT_PROGRAM = 100_005
MOUNT = 1
SET_3, MAKE_3, LINK_3, CREATE_3, REMOVE_3, REMOVE_DIRECTORY_3, RENAME_3 = 2, 9, 15, 8, 12, 13, 14
JUKEBOX = 10008


class LostError(Exception):
    """The connection was closed before the reply."""


class Wire:
    """A connection with blocking calls."""

    def __init__(self, port: int):
        self._port = port
        self._socket: socket.socket | None = None
        self._transaction = int.from_bytes(os.urandom(3), "big")

    def close(self) -> None:
        """Closes the connection."""
        if self._socket:
            self._socket.close()
            self._socket = None

    def call(self, program: int, version: int, procedure: int, arguments: bytes) -> bytes:
        """Returns the bytes of a unique call."""
        self._transaction += 1
        return rpc.record(rpc.header(self._transaction, program, version, procedure) + arguments)

    def ask(self, call: bytes) -> Reader:
        """Sends a call; returns its results."""
        try:
            if not self._socket:
                self._socket = socket.create_connection(("127.0.0.1", self._port), ANSWER_SECONDS)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(call)
            length = int.from_bytes(receive(self._socket, 4), "big") & ~rpc.LAST_FRAGMENT
            reader = Reader(receive(self._socket, length))
        except OSError as error:
            self.close()
            raise LostError(str(error)) from error
        reader.u32()
        rpc.skip_accepted(reader)
        return reader


class Session:
    """A client of NFS 4.2 that uses its slots in turn."""

    def __init__(self, wire: Wire, name: bytes, rng: random.Random):
        self._wire, self._name, self._rng = wire, name, rng
        self.client = 0
        self._session = b""
        self._sequences: list[int] = []

    def compound(self, operations: list[tuple[int, bytes]]) -> bytes:
        """Returns the bytes of a compound."""
        return self._wire.call(PROGRAM, VERSION, COMPOUND, compound(operations))

    def begin(self) -> None:
        """Starts a new session, of a client that reclaims no state."""
        known = exchange_id(os.urandom(8), self._name)
        reader = self.results(self._wire.ask(self.compound([known])))
        self.client, sequence = reader.u64(), reader.u32()
        made = create_session(self.client, sequence, (1 << 20, 1 << 20, 4096, 16, SLOTS))
        self._session = self.results(self._wire.ask(self.compound([made]))).fixed(16)
        self._sequences = [0] * SLOTS
        self.do([(RECLAIM_COMPLETE, u32(0))])

    def in_session(self, operations: list[tuple[int, bytes]]) -> bytes:
        """Returns the bytes of a new call."""
        slot = self._rng.randrange(SLOTS)
        self._sequences[slot] += 1
        sequence = self._session + u32(self._sequences[slot], slot, SLOTS - 1, 1)
        return self.compound([(SEQUENCE, sequence), *operations])

    def do(self, operations: list[tuple[int, bytes]]) -> Reader:
        """Returns the result of the last operation."""
        return self.results(self._wire.ask(self.in_session(operations)))

    @staticmethod
    def results(reader: Reader) -> Reader:
        """Returns the same from a reply."""
        reader.u32()
        reader.opaque()
        count = reader.u32()
        for index in range(count):
            operation, status = reader.u32(), reader.u32()
            if status:
                raise StatusError(operation, status)
            if index < count - 1:
                skip_result(operation, reader)
        return reader


@dataclass
class RepeatTally(Tally):
    """The counts of a run."""

    changes: int = 0
    repeated: int = 0
    """Calls with a lost reply."""
    known: int = 0
    """Repeated calls of NFS 4.2 that the next server recognised: they had been executed."""

    def summary(self) -> str:
        return f"{self.changes} changes, {self.known} repeated calls of NFS 4.2 recognised, {super().summary()}"

    def verdict(self) -> str:
        return f"repeated calls: {self.rounds} kills, {self.repeated} calls repeated, {len(self.complaints)} answered otherwise"


class Lane(threading.Thread):
    """A client that sends changes one after the other, each of which must succeed exactly once."""

    changes: int
    """Number of changes after which the initial state is restored."""

    def __init__(self, number: int, port: int, rng: random.Random, tally: RepeatTally, lock: threading.Lock):
        super().__init__(name=f"lane {number}", daemon=True)
        self.number = number
        self.wire = Wire(port)
        self.rng = rng
        self.running = threading.Event()
        self.ended = False
        self._paused = threading.Event()
        self._tally, self._lock = tally, lock

    def prepare(self) -> None:
        """Creates a directory of its own, and a file in it."""
        raise NotImplementedError

    def change(self, which: int) -> None:
        """Sends one of the changes, and retries it until a reply arrives."""
        raise NotImplementedError

    def run(self) -> None:
        which = 0
        try:
            self.prepare()
            while not self.ended:
                while not self.running.wait(PAUSED_SECONDS):
                    self._paused.set()
                self.change(which)
                which = (which + 1) % self.changes
                with self._lock:
                    self._tally.changes += 1
        except (LostError, ClientError, ProofError) as error:
            with self._lock:
                self._tally.complaints.append(f"{self.name}, change {which}: {error}")
        finally:
            self._paused.set()

    def pause(self) -> None:
        """Returns when no call is pending."""
        self._paused.clear()
        self.running.clear()
        if not self._paused.wait(ANSWER_SECONDS):
            raise ProofError(f"{self.name} got no reply")

    def persist(self, call: bytes) -> tuple[Reader, bool]:
        """Sends a call until a reply arrives; returns whether it was sent more than once."""
        deadline = time.monotonic() + ANSWER_SECONDS
        was_lost = False
        while time.monotonic() < deadline:
            try:
                return self.wire.ask(call), was_lost
            except LostError:
                was_lost = True
                time.sleep(0.02)
        raise ProofError("no server answers")

    def note(self, is_known: bool) -> None:
        """Counts a repeated call."""
        with self._lock:
            self._tally.repeated += 1
            self._tally.known += is_known


class Lane4(Lane):
    """A client of NFS 4.2."""

    changes = 10
    OPENS = 5
    """The index of the change that opens a file."""

    def prepare(self) -> None:
        self.session = Session(self.wire, f"lane {self.number}".encode(), self.rng)
        self.session.begin()
        self.place = [*lookups([POOL.encode(), b"files"]), (LOOKUP, opaque(self._directory))]
        self.session.do([*lookups([POOL.encode(), b"files"]), make(self._directory)])
        while True:
            try:
                self.session.do([*self.place, open_file(self.session.client, b"file", True)])
                break
            except StatusError as error:
                if error.status not in (DELAY, GRACE):
                    raise
                time.sleep(0.1)
        self.home = opaque(self.session.do([*self.place, (GETFH, b"")]).opaque())
        self.file = opaque(self.session.do([*self.place, (LOOKUP, opaque(b"file")), (GETFH, b"")]).opaque())

    @property
    def _directory(self) -> bytes:
        return f"lane-{self.number}".encode()

    def _operations(self, which: int) -> list[Operation]:
        home, file, tag = (PUTFH, self.home), (PUTFH, self.file), opaque(b"tag")
        return [
            [home, make(b"made"), (GETFH, b"")],
            [home, (SAVEFH, b""), home, (RENAME, opaque(b"made") + opaque(b"moved"))],
            [file, (SAVEFH, b""), home, (LINK, opaque(b"second"))],
            [home, (REMOVE, opaque(b"second"))],
            [home, (REMOVE, opaque(b"moved"))],
            # Guarded: only the server's reply cache can attribute the file.
            [home, open_file(self.session.client, b"new", True, is_new=True)],
            [file, (SETATTR, ANONYMOUS + attributes(size=self.rng.randrange(4096), mode=self.rng.choice((0o600, 0o644))))],
            # Only if it is missing.
            [file, (SETXATTR, u32(1) + tag + opaque(b"value"))],
            [file, (REMOVEXATTR, tag)],
            [home, (REMOVE, opaque(b"new"))],
        ][which]

    def _close(self, state: bytes) -> None:
        """Closes the open file, unless its server is gone."""
        with contextlib.suppress(LostError, StatusError):
            self.session.do([(PUTFH, self.home), (LOOKUP, opaque(b"new")), (CLOSE, u32(0) + state)])

    def change(self, which: int) -> None:
        while True:
            reader, was_lost = self.persist(self.session.in_session(self._operations(which)))
            try:
                result = self.session.results(reader)
            except StatusError as error:
                if error.status == BADSESSION:
                    if was_lost:
                        self.note(False)
                    self.again()
                    continue
                if error.status in (DELAY, GRACE):
                    time.sleep(0.05)
                    continue
                raise
            if was_lost:
                self.note(True)
            if which == self.OPENS:
                self._close(read_open(result))
            return

    def again(self) -> None:
        """Starts another session, with the server that responds."""
        while True:
            try:
                self.session.begin()
                return
            except LostError:
                time.sleep(0.02)
            except StatusError as error:
                if error.status not in (BADSESSION, DELAY):
                    raise


def make(name: bytes) -> tuple[int, bytes]:
    """Creates a directory."""
    return CREATE, u32(2) + opaque(name) + bitmap() + opaque(b"")


class Lane3(Lane):
    """A client of NFS 3."""

    changes = 6

    def prepare(self) -> None:
        path = opaque(f"/{POOL}/files".encode())
        root = self._handle(self.wire.ask(self.wire.call(MOUNT_PROGRAM, 3, MOUNT, path)))
        name = opaque(f"lane-{self.number}".encode())
        self.home = self._made(MAKE_3, root + name + u32(0, 0, 0, 0, 0, 0))
        self.file = self._made(CREATE_3, self.home + opaque(b"file") + u32(0) + u32(0, 0, 0, 0, 0, 0))

    def _handle(self, reader: Reader) -> bytes:
        if status := reader.u32():
            raise StatusError(MOUNT, status)
        return opaque(reader.opaque())

    def _made(self, procedure: int, arguments: bytes) -> bytes:
        reader = self.wire.ask(self.wire.call(PROGRAM, 3, procedure, arguments))
        if status := reader.u32():
            raise StatusError(procedure, status)
        reader.u32()
        return opaque(reader.opaque())

    def change(self, which: int) -> None:
        made, moved, second = self.home + opaque(b"made"), self.home + opaque(b"moved"), self.home + opaque(b"second")
        procedure, arguments = [
            (MAKE_3, made + u32(0, 0, 0, 0, 0, 0)),
            (RENAME_3, made + moved),
            (LINK_3, self.file + second),
            (REMOVE_3, second),
            (REMOVE_DIRECTORY_3, moved),
            # Without a guard: a replay of the log sets times again.
            (SET_3, self.file + u32(1, 0o600, 0, 0, 0, 0, 0, 0)),
        ][which]
        while True:
            reader, was_lost = self.persist(self.wire.call(PROGRAM, 3, procedure, arguments))
            status = reader.u32()
            if was_lost:
                self.note(False)
            if status == JUKEBOX:
                time.sleep(0.05)
                continue
            if status:
                raise StatusError(procedure, status)
            return


def run(server: Bulkhead, count: int, seed: int) -> RepeatTally:
    """Runs all rounds; stops at the first retry with a result other than the first one."""
    tally, lock = RepeatTally(), threading.Lock()
    server.prepare()
    server.start()
    server.wait_ready()
    address = server.nfs("files")
    assert address
    kinds: list[Callable[..., Lane]] = [Lane4, Lane3]
    lanes = [
        kind(number * len(kinds) + index, address.port, random.Random(f"{seed}:lane:{number}:{index}"), tally, lock)
        for number in range(LANES)
        for index, kind in enumerate(kinds)
    ]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.pause()
    for number, rng in tally.each_round(count, seed):
        for lane in lanes:
            lane.running.set()
        time.sleep(rng.uniform(*LOAD_SECONDS))
        with tally.complaining(f"round {number}", server):
            server.kill()
            server.start()
            server.wait_ready()
            for lane in lanes:
                lane.pause()
        if number % 25 == 0:
            print(f"round {number}: {tally.summary()}", flush=True)
    for lane in lanes:
        lane.ended = True
        lane.running.set()
    for lane in lanes:
        lane.join(ANSWER_SECONDS)
        lane.wire.close()
    with tally.complaining("at the end", server):
        tally.audit(server)
    if tally.good and not tally.known and tally.repeated > 100:
        tally.complaints.append("no repeated call was recognised: the run tested no retry")
    return tally


def main(argv: list[str]) -> int:
    """Runs the rounds and prints the verdict."""
    purpose = "Kill -9 while clients of NFS change names and attributes; a repeated call gets the first reply again."
    arguments = rounds.options("nfs.repeats", purpose).parse_args(argv)
    rounds.say_seed(arguments.seed, f"repeats ROUNDS={arguments.rounds}")
    with runtime.scratch("repeats", arguments.keep) as scratch:
        server = Bulkhead(scratch, [VolumeSpec("files", 0, is_file=True)])
        return run(server, arguments.rounds, arguments.seed).end()


if __name__ == "__main__":
    runtime.command(main)
