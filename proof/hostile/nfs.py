"""Attacks over NFS. Each returns a summary of the server's reaction, or raises when it is wrong."""

from __future__ import annotations

import bisect
import contextlib
import random
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proof.clients import nfs, rpc
from proof.clients.nfs import Operation, compound
from proof.clients.rpc import LAST_FRAGMENT, record
from proof.clients.xdr import Reader, opaque, u32, u64
from proof.hostile import wire
from proof.runtime import ProofError

MINOR = 1
CALL_SECONDS_MAX = 5.0
"""Bound of the duration of a single call of an attacker."""

DROP_SECONDS = 40.0
HOLD_SECONDS = 2.0
GARBAGE_ROUNDS = 60
MUTATIONS = 400
HALF_OPEN = 100
FLOOD_CLIENTS = 20_000
FLOOD_SESSIONS = 3_000
FLOOD_OWNERS = 5_000
CLIENTS_OF_ONE_ADDRESS = 2048
LEASE_SECONDS = 20.0
SLACK_SECONDS = 1.0
SESSIONS_OF_ONE = 40
HOARDED_OPENS = 20_000
LOCKS = 10_000
DEPTH = 500
LINKS = 200
NAMES = 3_000
NEVER_READING = 16
READS_UNREAD = 64
AT_THE_SAME_FILE = 4
BEHIND_EACH_OTHER = 16
AT_ONCE = 64
"""Operations in a compound, and consecutive calls."""

ILLEGAL_COUNTS = (65, 5_000, 0xFFFFFFFF)
LOOKUP_PARENT, READ_LINK, RESTOREFH = 16, 27, 31
SETCLIENTID, SETCLIENTID_CONFIRM = 35, 36
READ_3, WRITE_3, READDIR_3, READDIRPLUS_3 = 6, 7, 16, 17
READ_LOCK, WRITE_LOCK = 1, 2
MOUNT_PROGRAM = 100_005


@dataclass
class NfsPlace:
    """The target of an attack."""

    port: int
    path: tuple[bytes, ...]
    """Of the file system."""
    rng: random.Random
    source: str = "127.66.0.1"
    """The address of attackers, so that they exhaust only their own limits."""
    _folders: int = 0

    def folder(self) -> bytes:
        """Returns a name that no attack has used yet."""
        self._folders += 1
        return b"attack-%d" % self._folders

    def move(self, number: int) -> None:
        """Moves the next attack to another address."""
        self.source = f"127.66.0.{number}"


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise ProofError(words)


def header(transaction: int, program: int = nfs.PROGRAM, version: int = nfs.VERSION, procedure: int = nfs.COMPOUND) -> bytes:
    """Returns the header of a call by root."""
    return rpc.header(transaction, program, version, procedure, machine=b"hostile")


class Attacker:
    """A connection with blocking calls, which sends arbitrary bytes."""

    def __init__(self, place: NfsPlace, owner: bytes | None = None, *, receive_buffer: int | None = None):
        """With an ``owner`` it has a session, and may open files."""
        self.socket = wire.connect(place.port, receive_buffer, place.source)
        self._transaction = 0
        self._place = place
        self.client = 0
        self.session = b""
        self._sequence = 0
        if owner is not None:
            self.client, first = self.introduce(owner)
            self.session = self.make_session(first)
            self.ask([(nfs.RECLAIM_COMPLETE, u32(0))])

    def __enter__(self) -> Attacker:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def next_transaction(self) -> int:
        """A number for a call."""
        self._transaction += 1
        return self._transaction

    def send(self, arguments: bytes, **how: int) -> None:
        """Sends a call."""
        self.socket.sendall(record(header(self.next_transaction(), **how) + arguments))

    def receive(self) -> Reader:
        """Returns the next reply, behind the header of its record."""
        length = int.from_bytes(wire.receive(self.socket, 4), "big") & ~LAST_FRAGMENT
        return Reader(wire.receive(self.socket, length))

    def result(self) -> Reader:
        """Returns the next reply, which must be one of a call that was executed."""
        reader = self.receive()
        reader.fixed(12)
        reader.fixed(4)
        reader.opaque()
        _expect(reader.u32() == 0, "a call was not executed")
        return reader

    def status(self) -> int:
        """Returns the status of the next compound reply."""
        return self.result().u32()

    def alone(self, operation: Operation) -> tuple[int, Reader]:
        """Runs an operation without a session; returns its status and its result."""
        self.send(compound([operation], MINOR))
        reader = self.result()
        status = reader.u32()
        reader.opaque()
        reader.fixed(8 if reader.u32() else 0)
        return status, reader

    def ask_without_session(self, operations: Sequence[Operation]) -> tuple[int, Reader]:
        """Sends a compound of NFS 4.0; returns its status, and the results of its operations."""
        self.send(compound(operations, 0))
        reader = self.result()
        status = reader.u32()
        reader.opaque()
        reader.u32()
        return status, reader

    def introduce(self, owner: bytes) -> tuple[int, int]:
        """Registers a client; returns its id and its next sequence."""
        status, reader = self.alone(nfs.exchange_id(bytes(8), owner))
        _expect(status == nfs.OK, f"EXCHANGE_ID returned {status}")
        return reader.u64(), reader.u32()

    def make_session(self, sequence: int) -> bytes:
        """Creates a session of this client."""
        status, reader = self.alone(create_session(self.client, sequence))
        _expect(status == nfs.OK, f"CREATE_SESSION returned {status}")
        return reader.fixed(16)

    def in_session(self, operations: Sequence[Operation], count: int | None = None, *, keep: bool = False) -> bytes:
        """Returns the arguments of a compound in the session's first slot."""
        self._sequence += 1
        sequence = self.session + u32(self._sequence, 0, 0, keep)
        return compound([(nfs.SEQUENCE, sequence), *operations], MINOR, count)

    def forget_call(self) -> None:
        """Reverts the sequence number of the slot: the last call did not advance it."""
        self._sequence -= 1

    def renew(self, session: bytes) -> None:
        """Switches to another session."""
        self.session, self._sequence = session, 0

    def ask(self, operations: Sequence[Operation], count: int | None = None) -> tuple[int, Reader]:
        """Sends a compound in the session; returns its status, and the reply from the second operation on."""
        started = time.monotonic()
        self.send(self.in_session(operations, count))
        reader = self.result()
        took = time.monotonic() - started
        _expect(took < CALL_SECONDS_MAX, f"a call took {took:.1f} s")
        status = reader.u32()
        reader.opaque()
        if reader.u32() > 1:
            reader.fixed(8)
            nfs.skip_result(nfs.SEQUENCE, reader)
        return status, reader

    def folder(self) -> tuple[bytes, ...]:
        """Creates a new directory of its own; returns its path."""
        path = (*self._place.path, self._place.folder())
        made = (nfs.CREATE, u32(2) + opaque(path[-1]) + nfs.attributes(mode=0o777))
        status, _ = self.ask([*nfs.lookups(path[:-1]), made])
        _expect(status == nfs.OK, f"CREATE returned {status}")
        return path

    def open(self, name: bytes, owner: bytes) -> Operation:
        """Opens or creates a file of the current directory for an owner."""
        return nfs.OPEN, u32(0, 3, 0) + u64(self.client) + opaque(owner) + u32(1, 0) + nfs.attributes(mode=0o666) + u32(0) + opaque(name)


def create_session(client: int, sequence: int) -> Operation:
    """A session with all sizes at their maximum."""
    return nfs.create_session(client, sequence, [0xFFFFFFFF] * 5)


@contextlib.contextmanager
def _sockets() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    try:
        yield opened
    finally:
        for one in opened:
            one.close()


def garbage(place: NfsPlace) -> str:
    """Random bytes, and calls with random bytes as their arguments."""
    for index in range(GARBAGE_ROUNDS):
        noise = place.rng.randbytes(place.rng.randrange(1, 4096))
        how = place.rng.choice(((nfs.PROGRAM, 4, 1), (nfs.PROGRAM, 3, place.rng.randrange(22)), (MOUNT_PROGRAM, 3, place.rng.randrange(6))))
        with contextlib.suppress(OSError), Attacker(place) as attacker:
            attacker.socket.sendall(noise if index % 2 else record(header(1, *how) + noise))
    return f"{GARBAGE_ROUNDS} connections"


def mutations(place: NfsPlace) -> str:
    """Good compounds with a few bits changed, in a session."""
    with Attacker(place, b"mutations") as attacker:
        folder = attacker.folder()
        good = [*nfs.lookups(folder), attacker.open(b"file", b"owner"), (nfs.WRITE, nfs.CURRENT + u64(0) + u32(2) + opaque(bytes(100)))]
        good += [(nfs.GETATTR, nfs.bitmap(*range(70))), (nfs.READ, nfs.CURRENT + u64(0) + u32(100))]
        done = 0
        for _ in range(MUTATIONS):
            # The SEQUENCE operation stays intact, so that the server decodes the rest.
            whole = bytearray(attacker.in_session(good))
            for _ in range(place.rng.randrange(1, 6)):
                whole[place.rng.randrange(48, len(whole))] ^= 1 << place.rng.randrange(8)
            attacker.send(bytes(whole))
            attacker.receive()
            done += 1
    return f"{done} answered"


def record_marks(place: NfsPlace) -> str:
    """Records that are too long, endless, split into tiny fragments, or truncated."""
    endless = {
        "a fragment of 2 GiB": u32(0xFFFFFFFF) + bytes(1000),
        "fragments of nothing": u32(0) * 100,
        "crumbs": (u32(1) + b"x") * 5000,
        "a record of 64 MiB": (u32(1 << 20) + bytes(1 << 20)) * 64,
    }
    for what, words in endless.items():
        with Attacker(place) as attacker:
            with contextlib.suppress(OSError):
                attacker.socket.sendall(words)
            _expect(wire.closed_by_server(attacker.socket, DROP_SECONDS), f"{what}: the connection stays open")
    with _sockets() as opened:
        for index in range(HALF_OPEN):
            opened.append(wire.connect(place.port, source=place.source))
            opened[-1].sendall((b"", u32(LAST_FRAGMENT | 1 << 20), u32(LAST_FRAGMENT | 1 << 20) + bytes(1 << 19))[index % 3])
        started = time.monotonic()
        left = sum(not wire.closed_by_server(one, max(0.1, DROP_SECONDS - (time.monotonic() - started))) for one in opened)
        _expect(left == 0, f"{left} of {HALF_OPEN} connections with half a call are there after {DROP_SECONDS:g} s")
    return f"each dropped; {HALF_OPEN} with half a call within {time.monotonic() - started:.0f} s"


def endless_compounds(place: NfsPlace) -> str:
    """Compounds with more operations than the limit, with and without a session, and the most expensive valid ones."""
    with Attacker(place, b"compounds") as attacker:
        folder = attacker.folder()
        for count in ILLEGAL_COUNTS:
            attacker.send(compound([(nfs.PUTROOTFH, b"")] * min(count, 5000), MINOR, count))
            _expect(attacker.status() != nfs.OK, f"{count} operations without a session were executed")
            attacker.send(attacker.in_session([(nfs.PUTROOTFH, b"")] * min(count, 5000), count))
            _expect(attacker.status() != nfs.OK, f"{count} operations were executed")
            attacker.forget_call()
        many = AT_ONCE - 4 - len(folder)
        file = [*nfs.lookups(folder), attacker.open(b"file", b"owner")]
        attacker.ask([*file, (nfs.WRITE, nfs.CURRENT + u64(0) + u32(2) + opaque(bytes(1 << 20)))])
        attacker.ask([*file, *[(nfs.READ, nfs.ANONYMOUS + u64(0) + u32(0xFFFFFFFF))] * many])
        attacker.ask([*file, *[(nfs.GETATTR, nfs.bitmap(*range(96)))] * many])
        attacker.ask([*file, *[(nfs.COMMIT, u64(0) + u32(0))] * many])
        attacker.ask([*nfs.lookups(folder), *[(nfs.READDIR, u64(0) + bytes(8) + u32(0xFFFFFFFF, 0xFFFFFFFF) + nfs.bitmap(*range(64)))] * many])
    return f"up to {AT_ONCE} operations are executed, no more"


def client_flood(place: NfsPlace) -> str:
    """Endless clients of one address that register, and create sessions up to the limit."""
    with Attacker(place) as attacker:
        for first in range(0, FLOOD_CLIENTS, AT_ONCE):
            for number in range(first, first + AT_ONCE):
                attacker.send(compound([nfs.exchange_id(bytes(8), b"flood-%d" % number)], MINOR))
            for _ in range(AT_ONCE):
                attacker.result()
        begun: list[float] = []
        for number in range(FLOOD_SESSIONS):
            status, reader = attacker.alone((nfs.EXCHANGE_ID, bytes(8) + opaque(b"session-%d" % number) + u32(0, 0, 0)))
            if status == nfs.OK:
                client, sequence = reader.u64(), reader.u32()
                status, reader = attacker.alone(create_session(client, sequence))
            if status == nfs.OK:
                attacker.renew(reader.fixed(16))
                attacker.ask([(nfs.RECLAIM_COMPLETE, u32(0))])
                begun.append(time.monotonic())
        # Where this exceeds a lease, the first ones expire and make room.
        ends = (moment - LEASE_SECONDS + SLACK_SECONDS for moment in begun)
        at_once = max((count - bisect.bisect(begun, end) for count, end in enumerate(ends, 1)), default=0)
        _expect(0 < at_once <= CLIENTS_OF_ONE_ADDRESS, f"{at_once} clients of one address")
    return f"{FLOOD_CLIENTS} identities, {len(begun)} of {FLOOD_SESSIONS} sessions begun, {FLOOD_SESSIONS - len(begun)} refused"


def _set_client(owner: bytes) -> Operation:
    return SETCLIENTID, bytes(8) + opaque(owner) + u32(0x40000000) + opaque(b"tcp") + opaque(b"0.0.0.0.0.0") + u32(1)


def owner_flood(place: NfsPlace) -> str:
    """At NFS 4.0: endless clients that never confirm their id, and endless owners that never confirm their opens."""
    with Attacker(place, b"owners") as attacker:
        folder = attacker.folder()
        for first in range(0, FLOOD_CLIENTS, AT_ONCE):
            for number in range(first, first + AT_ONCE):
                attacker.send(compound([_set_client(b"flood-%d" % number)], 0))
            for _ in range(AT_ONCE):
                attacker.result()
        status, reader = attacker.ask_without_session([_set_client(b"owners")])
        _expect(status == nfs.OK, f"SETCLIENTID returned {status}")
        reader.fixed(8)
        client, confirmation = reader.u64(), reader.fixed(8)
        status, _ = attacker.ask_without_session([(SETCLIENTID_CONFIRM, u64(client) + confirmation)])
        _expect(status == nfs.OK, f"SETCLIENTID_CONFIRM returned {status}")
        opened = absent = 0
        for number in range(FLOOD_OWNERS):
            for name, make in ((b"file", True), (b"absent", False)):
                owner = b"%b-%d" % (name, number) + bytes(900)
                status, _ = attacker.ask_without_session([*nfs.lookups(folder), nfs.open_file(client, name, make, owner=owner)])
                opened, absent = opened + (status == nfs.OK), absent + (status == nfs.NOENT)
    return f"{FLOOD_CLIENTS} identities, {FLOOD_OWNERS} owners: {opened} opens that wait, {absent} of nothing"


def lease_hoarders(place: NfsPlace) -> str:
    """One client with as many sessions, cached replies, opens and owners as it gets."""
    with Attacker(place, b"hoarder") as attacker:
        sessions = [attacker.session]
        for number in range(2, SESSIONS_OF_ONE):
            status, reader = attacker.alone(create_session(attacker.client, number))
            if status == nfs.OK:
                sessions.append(reader.fixed(16))
        folder = attacker.folder()
        opened = 0
        for number in range(0, HOARDED_OPENS, AT_ONCE // 2):
            owners = [b"owner-%d" % (number + index) + bytes(900) for index in range(AT_ONCE // 2)]
            walk = nfs.lookups(folder)
            many = [step for owner in owners for step in ((nfs.SAVEFH, b""), attacker.open(b"file", owner), (RESTOREFH, b""))]
            status, _ = attacker.ask([*walk, *many[: (AT_ONCE - 1 - len(walk)) // 3 * 3]])
            if status != nfs.OK:
                break
            opened += (AT_ONCE - 1 - len(walk)) // 3
    return f"{len(sessions)} sessions, {opened} opens of one file, then status {status}"


def lock_flood(place: NfsPlace) -> str:
    """Endless ranges in one file, of one owner and of many."""
    with Attacker(place, b"locks") as attacker:
        folder = attacker.folder()
        file = [*nfs.lookups(folder), attacker.open(b"file", b"owner")]
        status, reader = attacker.ask(file)
        _expect(status == nfs.OK, f"OPEN returned {status}")
        for _ in nfs.lookups(folder):
            reader.fixed(8)
        reader.fixed(8)
        state = nfs.read_open(reader)
        place_of = nfs.lookups((*folder, b"file"))
        locked = 0
        for number in range(LOCKS):
            owner = u64(attacker.client) + opaque(b"lock-%d" % (number % 2 * number))
            span = u32(READ_LOCK if number % 2 else WRITE_LOCK, 0) + u64(number * 4, 1)
            status, _ = attacker.ask([*place_of, (nfs.LOCK, span + u32(1, 0) + state + u32(0) + owner)])
            if status != nfs.OK:
                break
            locked += 1
    return f"{locked} ranges, then status {status}"


def symlink_bombs(place: NfsPlace) -> str:
    """Links in rings, links of 4 KiB, directories in directories: the server follows none, and no call is slow."""
    with Attacker(place, b"links") as attacker:
        folder = attacker.folder()
        walk = nfs.lookups(folder)
        for number in range(LINKS):
            leads = b"/".join([b"link-%d" % ((number + 1) % LINKS)] * 200)[:4000]
            made = u32(5) + opaque(leads) + opaque(b"link-%d" % number) + nfs.attributes(mode=0o777)
            status, _ = attacker.ask([*walk, (nfs.CREATE, made)])
            _expect(status == nfs.OK, f"the creation of a link returned {status}")
        through = [(nfs.LOOKUP, opaque(b"link-%d" % number)) for number in range(AT_ONCE - 1 - len(walk))]
        status, _ = attacker.ask([*walk, *through])
        _expect(status != nfs.OK, "a look-up went through a link")
        status, _ = attacker.ask([*walk, attacker.open(b"link-0", b"owner")])
        _expect(status != nfs.OK, "a link was opened")
        for _ in range(3):
            status, _ = attacker.ask([*walk, *[step for number in range(16) for step in ((nfs.LOOKUP, opaque(b"link-%d" % number)), (READ_LINK, b""), (LOOKUP_PARENT, b""))]])
            _expect(status != nfs.OK, "a link has a parent")
        handle = b""
        for _ in range(DEPTH):
            start = [(nfs.PUTFH, opaque(handle))] if handle else walk
            status, reader = attacker.ask([*start, (nfs.CREATE, u32(2) + opaque(b"d") + nfs.attributes(mode=0o777)), (nfs.GETFH, b"")])
            _expect(status == nfs.OK, f"the creation of a directory returned {status}")
            reader.fixed(8 * len(start))
            reader.fixed(8)
            nfs.skip_result(nfs.CREATE, reader)
            reader.fixed(8)
            handle = reader.opaque()
    return f"{LINKS} links in a ring, {DEPTH} directories in each other"


def huge_listings(place: NfsPlace) -> str:
    """READDIR with counts of 4 GiB and of zero, and with cookies that do not exist."""
    with Attacker(place, b"listings") as attacker:
        folder = attacker.folder()
        walk = nfs.lookups(folder)
        for first in range(0, NAMES, 16):
            made = [step for number in range(first, first + 16) for step in ((nfs.CREATE, u32(2) + opaque(b"name-%d" % number) + nfs.attributes(mode=0)), (LOOKUP_PARENT, b""))]
            status, _ = attacker.ask([*walk, *made])
            _expect(status == nfs.OK, f"16 directories returned {status}")
        _, reader = attacker.ask([*walk, (nfs.GETFH, b"")])
        reader.fixed(8 * len(walk) + 8)
        handle = reader.opaque()
        asked = 0
        for count in (0, 1, 100, 1 << 20, 0xFFFFFFFF):
            for cookie in (0, 1, 3, 1 << 40, (1 << 64) - 1, place.rng.randrange(1 << 64)):
                attacker.ask([*walk, (nfs.READDIR, u64(cookie) + bytes(8) + u32(count, count) + nfs.bitmap(*range(64)))])
                for procedure, arguments in ((READDIR_3, u32(count)), (READDIRPLUS_3, u32(count, count))):
                    started = time.monotonic()
                    attacker.send(opaque(handle) + u64(cookie) + bytes(8) + arguments, version=3, procedure=procedure)
                    attacker.receive()
                    _expect(time.monotonic() - started < CALL_SECONDS_MAX, "a listing is too slow")
                asked += 3
    return f"{asked} of {NAMES} names returned"


def slow_readers(place: NfsPlace) -> str:
    """Clients that request far more than they read."""
    files = []
    with contextlib.ExitStack() as stack:
        for number in range(NEVER_READING):
            attacker = stack.enter_context(Attacker(place, b"slow-%d" % number, receive_buffer=4096))
            folder = attacker.folder()
            file = [*nfs.lookups(folder), attacker.open(b"file", b"owner")]
            attacker.ask([*file, (nfs.WRITE, nfs.CURRENT + u64(0) + u32(0) + opaque(bytes(1 << 20)))])
            attacker.socket.setblocking(False)
            files.append((*folder, b"file"))
            read = [*nfs.lookups(files[-1]), (nfs.READ, nfs.ANONYMOUS + u64(0) + u32(1 << 20))]
            with contextlib.suppress(BlockingIOError, ConnectionError):
                for _ in range(READS_UNREAD):
                    attacker.send(attacker.in_session(read))
        # A change of such a file does not block on its readers.
        writer = stack.enter_context(Attacker(place, b"writer"))
        for path in files:
            status, _ = writer.ask([*nfs.lookups(path), (nfs.WRITE, nfs.ANONYMOUS + u64(0) + u32(0) + opaque(bytes(1 << 20)))])
            _expect(status == nfs.OK, f"WRITE returned {status}")
        # The attack works while the well-behaved clients are served: the caller measures them and the memory.
        time.sleep(HOLD_SECONDS)
    return f"{NEVER_READING} clients, {READS_UNREAD} MiB requested by each"


def writes_behind_reads(place: NfsPlace) -> str:
    """Long reads of one file with writes of it behind them, by several connections that read the replies late."""
    with contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(Attacker(place, b"behind-%d" % number)) for number in range(AT_THE_SAME_FILE)]
        walk = nfs.lookups(attackers[0].folder())
        written = (nfs.WRITE, nfs.CURRENT + u64(0) + u32(0) + opaque(bytes(1 << 20)))
        status, reader = attackers[0].ask([*walk, attackers[0].open(b"file", b"owner"), written])
        _expect(status == nfs.OK, f"WRITE returned {status}")
        status, reader = attackers[0].ask([*walk, (nfs.LOOKUP, opaque(b"file")), (nfs.GETFH, b"")])
        _expect(status == nfs.OK, f"GETFH returned {status}")
        reader.fixed(8 * len(walk) + 8 + 8)
        handle = opaque(reader.opaque())
        for _ in range(BEHIND_EACH_OTHER):
            for attacker in attackers:
                attacker.send(handle + u64(0) + u32(1 << 20), version=3, procedure=READ_3)
                attacker.send(handle + u64(0) + u32(4096, 0) + opaque(bytes(4096)), version=3, procedure=WRITE_3)
        time.sleep(HOLD_SECONDS)
        for attacker in attackers:
            for _ in range(2 * BEHIND_EACH_OTHER):
                started = time.monotonic()
                _expect(attacker.result().u32() == 0, "a call has failed")
                _expect(time.monotonic() - started < CALL_SECONDS_MAX, "a call is too slow")
    return f"{AT_THE_SAME_FILE} clients, {2 * BEHIND_EACH_OTHER} calls of each answered"


ATTACKS = (
    ("random bytes over NFS", garbage),
    ("NFS compounds with wrong bits", mutations),
    ("NFS records without an end", record_marks),
    ("NFS compounds without an end", endless_compounds),
    ("NFS clients without limit", client_flood),
    ("NFS 4.0 owners without limit", owner_flood),
    ("NFS lease hoarders", lease_hoarders),
    ("NFS locks without limit", lock_flood),
    ("NFS links in rings", symlink_bombs),
    ("NFS listings of 4 GiB", huge_listings),
    ("NFS clients that never read", slow_readers),
    ("NFS writes behind reads", writes_behind_reads),
)

__all__ = ["ATTACKS", "NfsPlace"]
