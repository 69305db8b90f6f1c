"""A client of NFS 4.1 and 4.2 (RFC 8881) that behaves like stock clients: sessions with slots, opens and locks that
it reclaims from a restarted server, writes that are durable at once or by a commit.

Stock clients outside kernels support version 4.0 at most, so this one is ours. pynfs and the kernel's client judge
the server, too.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from proof.clients import rpc
from proof.clients.base import Client, ClientError, Done, ReadDone, Refusal
from proof.clients.xdr import Reader, opaque, u32, u64

PORT = 2049
PROGRAM = 100_003
VERSION = 4

COMPOUND = 1
"""The procedure."""

CLOSE, COMMIT, CREATE, GETATTR, GETFH, LINK, LOCK, LOOKUP = 4, 5, 6, 9, 10, 11, 12, 15
OPEN, PUTFH, PUTROOTFH, READ, READDIR, REMOVE, RENAME, SAVEFH, SETATTR, WRITE = 18, 22, 24, 25, 26, 28, 29, 32, 34, 38
SETXATTR, REMOVEXATTR = 73, 75
BIND_CONN_TO_SESSION, EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, SEQUENCE, DESTROY_CLIENTID, RECLAIM_COMPLETE = 41, 42, 43, 44, 53, 57, 58

OK, NOENT, EXIST, STALE, DELAY, DENIED, GRACE, BADSESSION, STALE_CLIENTID, NO_GRACE = 0, 2, 17, 70, 10008, 10010, 10013, 10052, 10022, 10033
RECLAIM_BAD, COMPLETE_ALREADY, DEADSESSION = 10034, 10054, 10078

PAUSE_S = 0.1
"""Pause before a request is retried after a DELAY error: the first pause of Linux."""

ONCE = frozenset((CLOSE, CREATE, LOCK, OPEN, REMOVE, RENAME, SETATTR))
"""Operations with a reply that the server must cache: they must not be executed twice."""

CHANGE_BYTES = 20
"""Size of the change information of a directory."""

UNSTABLE, FILE_SYNC = 0, 2
SLOTS = 16
PAYLOAD_BYTES_MAX = 1 << 20
MESSAGE_BYTES_MAX = PAYLOAD_BYTES_MAX + (16 << 10)
CACHED_BYTES_MAX = 4096
OPERATIONS_MAX = 16
READDIR_BYTES = 16 << 10
GRANULARITY = 512

TYPE, SIZE, FILEID, MODE, LINKS, OWNER, GROUP = 1, 4, 20, 33, 35, 36, 37
"""Attributes, by their numbers."""


class StatusError(ClientError):
    """An operation with an error reply."""

    def __init__(self, operation: int, status: int):
        super().__init__(f"operation {operation} of NFS returned status {status}")
        self.operation = operation
        self.status = status


@dataclass(frozen=True)
class NfsAddress:
    """The address of a file that is used as a volume: ``nfs://HOST[:PORT]/DATASET/FILE?bytes=SIZE``."""

    host: str
    port: int
    path: tuple[bytes, ...]
    size: int

    @staticmethod
    def parse(text: str) -> NfsAddress:
        """Parses the form above."""
        parts = urlsplit(text)
        path = tuple(part.encode() for part in parts.path.split("/") if part)
        size = int(parse_qs(parts.query)["bytes"][0])
        return NfsAddress(parts.hostname or "", parts.port or PORT, path, size)

    def __str__(self) -> str:
        return f"nfs {self.host}:{self.port}/" + b"/".join(self.path).decode()


FilePath = tuple[bytes, ...]


@dataclass
class Identity:
    """The identity of the client. It stays the same over all connections and servers, as do its open and locked
    files."""

    owner: bytes
    verifier: bytes = field(default_factory=lambda: os.urandom(8))
    uid: int = 0
    gid: int = 0
    opened: dict[FilePath, bytes] = field(default_factory=dict)
    """The handles of open files, by their paths."""
    locks: dict[FilePath, tuple[int, int]] = field(default_factory=dict)
    """The range of each file that must be locked for writing: its first byte and its length."""
    client: int = 0
    """The client id at the server that issued all states below."""
    taking_back: int = 0
    """The client id at the server that issued some of them. A connection may be lost before the server's last reply
    arrives."""
    states: dict[FilePath, bytes] = field(default_factory=dict)
    """The state ids of opens."""
    locked: set[FilePath] = field(default_factory=set)
    """Files with a locked range."""
    lost: list[str] = field(default_factory=list)
    """States that a later server refused to return."""
    sessions: list[bytes] = field(default_factory=list)
    """Sessions of closed connections."""
    starting: NfsClient | None = None
    """The connection that creates a session and reclaims the open files. Other connections block: the server has one
    client for all."""


def bitmap(*numbers: int) -> bytes:
    """Returns a bitmap with these bits."""
    words = [0] * (max(numbers, default=-1) // 32 + 1)
    for number in numbers:
        words[number // 32] |= 1 << number % 32
    return u32(len(words), *words)


def attributes(**values: int) -> bytes:
    """Encodes attributes to set: ``size`` and ``mode``."""
    packed = b""
    numbers = []
    if "size" in values:
        numbers.append(SIZE)
        packed += u64(values["size"])
    if "mode" in values:
        numbers.append(MODE)
        packed += u32(values["mode"])
    return bitmap(*numbers) + opaque(packed)


Operation = tuple[int, bytes]
"""Its number and its arguments."""

Steps = Generator[list[Operation], Reader, None]
"""Compounds, one after the other, each with the result of its last operation."""

ANONYMOUS = bytes(16)
CURRENT = u32(1) + bytes(12)


def lookups(path: Sequence[bytes]) -> list[Operation]:
    """Returns the lookups from the root to a file."""
    return [(PUTROOTFH, b""), *((LOOKUP, opaque(name)) for name in path)]


def open_file(client: int, name: bytes, make: bool, mode: int = 0o644, owner: bytes = b"proof", is_new: bool = False) -> Operation:
    """Opens a file for reading and writing; ``make`` creates a missing one, and ``is_new`` requires that it is
    missing."""
    how = u32(1, is_new) + attributes(mode=mode) if make else u32(0)
    return OPEN, u32(0, 3, 0) + u64(client) + opaque(owner) + how + u32(0) + opaque(name)


def open_again(client: int) -> Operation:
    """Reclaims an open of an earlier server, of the current file."""
    return OPEN, u32(0, 3, 0) + u64(client) + opaque(b"proof") + u32(0) + u32(1, 0)


def lock_range(client: int, state: bytes, span: tuple[int, int], is_reclaim: bool = False) -> Operation:
    """Locks a range of the current file for writing."""
    words = u32(2, is_reclaim) + u64(*span) + u32(1, 0) + state + u32(0)
    return LOCK, words + u64(client) + opaque(b"proof")


def newest(state: bytes) -> bytes:
    """Refers to the newest sequence of a state, because several connections change it."""
    return u32(0) + state[4:]


def compound(operations: Sequence[Operation], minor: int = 2, count: int | None = None) -> bytes:
    """Returns the arguments of a compound without a tag; ``count`` may differ from the number of operations."""
    words = b"".join(u32(number) + arguments for number, arguments in operations)
    return opaque(b"") + u32(minor, len(operations) if count is None else count) + words


def exchange_id(verifier: bytes, owner: bytes) -> Operation:
    """Registers the client."""
    return EXCHANGE_ID, verifier + opaque(owner) + u32(0, 0, 0)


def create_session(client: int, sequence: int, sizes: Sequence[int]) -> Operation:
    """A session without callbacks. ``sizes``, both ways: bytes of a request, of a reply, of a cached reply,
    operations, slots."""
    channel = u32(0, *sizes, 0)
    return CREATE_SESSION, u64(client) + u32(sequence, 0) + channel + channel + u32(0x4000_0000, 1, 0)


def skip_result(operation: int, reader: Reader) -> None:
    """Skips the result of an operation before the last one."""
    if operation == SEQUENCE:
        reader.fixed(16 + 5 * 4)
    elif operation == OPEN:
        read_open(reader)
    elif operation == GETFH:
        reader.opaque()
    elif operation == LOCK:
        reader.fixed(16)
    elif operation in (LINK, REMOVE):
        reader.fixed(CHANGE_BYTES)
    elif operation == RENAME:
        reader.fixed(2 * CHANGE_BYTES)
    elif operation == CREATE:
        reader.fixed(CHANGE_BYTES)
        reader.words()


def read_open(reader: Reader) -> bytes:
    """Decodes the state id of an open."""
    state = reader.fixed(16)
    reader.fixed(4 + 16 + 4)
    reader.words()
    if reader.u32() != 0:
        raise ClientError("the server delegates a file without a request for it")
    return state


@dataclass
class Call:
    """A pending compound."""

    operations: list[Operation]
    done: Callable[[Reader], None]
    failed: Callable[[int, int], None]
    slot: int | None = None


class NfsConnection:
    """A connection with its session. Never blocks: its user polls the socket."""

    def __init__(self, host: str, port: int, identity: Identity, minor: int = 2, source_port: int = 0):
        self.identity = identity
        self.minor = minor
        self.client = 0
        self.last_error = ""
        self.lost = False
        self.is_connected = False
        self.session: bytes | None = None
        self._sequences: list[int] = []
        self._free: list[int] = []
        self._queue: deque[Call] = deque()
        self._calls: dict[int, Call] = {}
        self._transaction = int.from_bytes(os.urandom(3), "big")
        self._input = bytearray()
        self._output = bytearray()
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.socket = socket.socket(family, kind, protocol)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._bind(source_port)
        self.socket.setblocking(False)
        try:
            self.socket.connect(address)
        except BlockingIOError:
            pass
        except OSError as error:
            self._lose(str(error))

    def _bind(self, source_port: int) -> None:
        """Binds a port: a low one for root, because servers accept it as proof of a request by root."""
        if source_port:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(("", source_port))
            return
        if os.geteuid() != 0:
            return
        wildcard = "::" if self.socket.family == socket.AF_INET6 else ""
        for _ in range(64):
            port = 600 + int.from_bytes(os.urandom(2), "big") % 400
            try:
                self.socket.bind((wildcard, port))
                return
            except OSError:
                continue

    def _lose(self, why: str) -> None:
        if not self.lost:
            self.lost = True
            self.last_error = why
            self.socket.close()
            if self.session is not None:
                self.identity.sessions.append(self.session)

    def close(self) -> None:
        """Drops the connection; pending requests get no reply."""
        self._lose(self.last_error or "closed")

    @property
    def is_idle(self) -> bool:
        """Whether no call is pending."""
        return not (self._calls or self._queue)

    def events(self) -> int:
        """Returns the events to poll for."""
        return select.POLLIN | (select.POLLOUT if self._output or not self.is_connected else 0)

    def service(self, events: int) -> None:
        """Sends and receives as much as possible."""
        try:
            if events & select.POLLOUT:
                if self._output:
                    sent = self.socket.send(self._output)
                    del self._output[:sent]
                self.is_connected = self.is_connected or not self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._receive()
        except BlockingIOError:
            pass
        except (OSError, ClientError) as error:
            self._lose(str(error))

    def _receive(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            self._lose("the server closed the connection")
            return
        self._input += data
        while len(self._input) >= 4:
            length = int.from_bytes(self._input[:4], "big") & ~rpc.LAST_FRAGMENT
            if len(self._input) < 4 + length:
                return
            record = bytes(self._input[4 : 4 + length])
            del self._input[: 4 + length]
            self._answered(record)

    def _answered(self, record: bytes) -> None:
        reader = Reader(record)
        call = self._calls.pop(reader.u32())
        if call.slot is not None:
            self._free.append(call.slot)
        rpc.skip_accepted(reader)
        status = reader.u32()
        reader.opaque()
        count = reader.u32()
        self._judge(call, status, count, reader)
        self._send_queued()

    def _judge(self, call: Call, status: int, count: int, reader: Reader) -> None:
        for index in range(count):
            operation = reader.u32()
            found = reader.u32()
            if found != OK:
                call.failed(operation, found)
                return
            if index < count - 1:
                skip_result(operation, reader)
        if status != OK:
            call.failed(0, status)
        else:
            call.done(reader)

    def call(self, operations: list[Operation], done: Callable[[Reader], None], failed: Callable[[int, int], None]) -> None:
        """Sends a compound in the session; ``done`` gets the result of its last operation."""
        self._queue.append(Call(operations, done, failed))
        self._send_queued()

    def _send_queued(self) -> None:
        while self._queue and self._free and self.session is not None:
            call = self._queue.popleft()
            call.slot = self._free.pop()
            self._sequences[call.slot] += 1
            is_once = any(number in ONCE for number, _ in call.operations)
            sequence = self.session + u32(self._sequences[call.slot], call.slot, len(self._sequences) - 1, is_once)
            self._send(call, [(SEQUENCE, sequence), *call.operations])

    def call_alone(self, operation: Operation, done: Callable[[Reader], None], failed: Callable[[int, int], None]) -> None:
        """Sends an operation that needs no session."""
        self._send(Call([operation], done, failed), [operation])

    def _send(self, call: Call, operations: list[Operation]) -> None:
        self._transaction = (self._transaction + 1) & 0xFFFF_FFFF
        self._calls[self._transaction] = call
        header = rpc.header(self._transaction, PROGRAM, VERSION, COMPOUND, uid=self.identity.uid, gid=self.identity.gid)
        self._output += rpc.record(header + compound(operations, self.minor))
        self.service(select.POLLOUT)

    def begin(self, ready: Callable[[], None], failed: Callable[[int, int], None]) -> None:
        """Registers the client and creates a session."""
        known = exchange_id(self.identity.verifier, self.identity.owner)
        self.call_alone(known, lambda reader: self._known(reader, ready, failed), failed)

    def _known(self, reader: Reader, ready: Callable[[], None], failed: Callable[[int, int], None]) -> None:
        self.client = reader.u64()
        sequence = reader.u32()
        sizes = (MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX, CACHED_BYTES_MAX, OPERATIONS_MAX, SLOTS)
        self.call_alone(create_session(self.client, sequence, sizes), lambda answer: self._made(answer, ready), failed)

    def _made(self, reader: Reader, ready: Callable[[], None]) -> None:
        self.session = reader.fixed(16)
        reader.fixed(8)
        *_, slots = (reader.u32() for _ in range(6))
        self._sequences = [0] * min(slots, SLOTS)
        self._free = list(range(len(self._sequences)))
        self._end_sessions()
        ready()

    def _end_sessions(self) -> None:
        """Destroys the sessions of earlier connections, because a server bounds their number. An unknown session
        counts as destroyed."""
        while self.identity.sessions:
            session = self.identity.sessions.pop()
            ignored: tuple[Callable[[Reader], None], Callable[[int, int], None]] = lambda _: None, lambda *_: None
            self.call_alone((BIND_CONN_TO_SESSION, session + u32(1, 0)), *ignored)
            self.call_alone((DESTROY_SESSION, session), *ignored)


class NfsClient(Client):
    """A file as a volume."""

    granularity = GRANULARITY

    def __init__(self, address: NfsAddress, identity: Identity, ready: Done | None = None):
        """Connects, opens the file (or reclaims its opens and locks) and sets its size; with ``ready`` only starts
        to."""
        self.name = str(address)
        self.size = address.size
        self._address = address
        self._identity = identity
        self._ready = ready
        self._state = ANONYMOUS
        self._handle = b""
        self._connection = NfsConnection(address.host, address.port, identity)
        self._steps: Steps = self._start()
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._has_begun = False
        self.verifier = b""
        """The verifier of the newest write or commit: a different one means that uncommitted data was lost."""
        if ready is None:
            self._wait()

    def _wait(self) -> None:
        poller = select.poll()
        while not self._handle:
            if self.dead:
                raise ClientError(f"{self.name}: {self.last_error or self._connection.last_error}")
            poller.register(self.descriptor(), self.events())
            for _, events in poller.poll(100):
                self.service(events)
            self.catch_up()

    def _begin_if_first(self) -> None:
        """Creates a session, unless another connection of the same client is about to: the calls of both would
        interleave."""
        other = self._identity.starting
        if self._has_begun or self.dead or not self._connection.is_connected or (other is not None and not other.dead):
            return
        self._has_begun, self._identity.starting = True, self
        self._connection.begin(lambda: self._step(lambda: next(self._steps)), self._failed_to_start)

    def _start(self) -> Steps:
        who, path, client = self._identity, self._address.path, self._connection.client
        if who.client != client:
            yield from self._take_back(client)
        if path not in who.states:
            yield from self._open(client)
        if path in who.locks and path not in who.locked:
            yield [(PUTFH, opaque(who.opened[path])), lock_range(client, who.states[path], who.locks[path])]
            who.locked.add(path)
        self._state, self._handle = who.states[path], who.opened[path]

    def _take_back(self, client: int) -> Steps:
        """Reclaims the opens and locks of an earlier server. A state that this server refuses is lost."""
        who = self._identity
        if who.taking_back != client:
            who.taking_back = client
            who.states.clear()
            who.locked.clear()
        for path, handle in who.opened.items():
            try:
                if path not in who.states:
                    answer = yield [(PUTFH, opaque(handle)), open_again(client)]
                    who.states[path] = newest(read_open(answer))
                if path in who.locks and path not in who.locked:
                    yield [(PUTFH, opaque(handle)), lock_range(client, who.states[path], who.locks[path], True)]
                    who.locked.add(path)
            except StatusError as refused:
                if refused.status not in (NO_GRACE, RECLAIM_BAD, STALE, DENIED):
                    raise
                who.lost.append(f"{b'/'.join(path).decode()} cannot be reclaimed: {refused}")
        try:
            yield [(RECLAIM_COMPLETE, u32(0))]
        except StatusError as refused:
            if refused.status != COMPLETE_ALREADY:
                raise
        who.client = client

    def _open(self, client: int) -> Steps:
        path = self._address.path
        answer = yield [*lookups(path[:-1]), open_file(client, path[-1], True)]
        state = newest(read_open(answer))
        answer = yield [*lookups(path), (GETFH, b"")]
        handle = answer.opaque()
        answer = yield [(PUTFH, opaque(handle)), (GETATTR, bitmap(SIZE))]
        answer.words()
        if Reader(answer.opaque()).u64() != self.size:
            yield [(PUTFH, opaque(handle)), (SETATTR, state + attributes(size=self.size))]
        self._identity.opened[path], self._identity.states[path] = handle, state

    def _step(self, go_on: Callable[[], list[Operation]]) -> None:
        try:
            operations = go_on()
        except StopIteration:
            self._started(True)
        except StatusError as refused:
            self._failed_to_start(refused.operation, refused.status)
        else:
            self._ask(operations)

    def _ask(self, operations: list[Operation]) -> None:
        def refused(operation: int, status: int) -> None:
            if status in (GRACE, DELAY):
                self._again(lambda: self._ask(operations))
            else:
                self._step(lambda: self._steps.throw(StatusError(operation, status)))

        self._connection.call(operations, lambda answer: self._step(lambda: self._steps.send(answer)), refused)

    def _failed_to_start(self, operation: int, status: int) -> None:
        self._connection.last_error = f"operation {operation} returned status {status}"
        self._connection.close()
        self._started(False)

    def _started(self, good: bool) -> None:
        if self._identity.starting is self:
            self._identity.starting = None
        ready, self._ready = self._ready, None
        if ready:
            ready(good)

    @property
    def dead(self) -> bool:
        return self._connection.lost

    def descriptor(self) -> int:
        return -1 if self.dead else self._connection.socket.fileno()

    def events(self) -> int:
        return self._connection.events()

    def service(self, events: int) -> None:
        self._connection.service(events)
        self._begin_if_first()
        if self.dead:
            self.last_error = self._connection.last_error

    def close(self) -> None:
        self._connection.close()

    def catch_up(self) -> None:
        now = time.monotonic()
        due = [action for at, action in self._later if at <= now]
        self._later = [(at, action) for at, action in self._later if at > now]
        for action in due:
            action()
        self._begin_if_first()

    def _again(self, action: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + PAUSE_S, action))

    def _submit(self, operation: Operation, answered: Callable[[Reader], None], refused: Callable[[], None]) -> None:
        self._submit_all([(PUTFH, opaque(self._handle)), operation], answered, refused)

    def _submit_all(self, operations: list[Operation], answered: Callable[[Reader], None], refused: Callable[[], None]) -> None:
        def done(reader: Reader) -> None:
            self.in_flight -= 1
            answered(reader)

        def failed(number: int, status: int) -> None:
            if status in (DELAY, GRACE):
                self._again(lambda: self._connection.call(operations, done, failed))
                return
            self.in_flight -= 1
            words = f"operation {number} returned status {status}"
            if status in (BADSESSION, DEADSESSION):
                # Another server: connect again, and reclaim the open files.
                self._connection.last_error = words
                self._connection.close()
                return
            self.errors += 1
            self.last_error, self.last_refusal = words, Refusal(words, status)
            refused()

        self.in_flight += 1
        self._connection.call(operations, done, failed)

    def write(self, offset: int, data: bytearray, forced: bool, done: Done) -> None:
        parts = [(offset + at, bytes(data[at : at + PAYLOAD_BYTES_MAX])) for at in range(0, len(data), PAYLOAD_BYTES_MAX)]
        self._write_parts(parts, forced, done)

    def _write_parts(self, parts: list[tuple[int, bytes]], forced: bool, done: Done) -> None:
        left = len(parts)
        failed = False

        def ended(good: bool) -> None:
            nonlocal left, failed
            left, failed = left - 1, failed or not good
            if not left:
                done(not failed)

        for offset, part in parts:
            self._write_part(offset, part, forced, ended)

    def _write_part(self, offset: int, data: bytes, forced: bool, done: Done) -> None:
        def answered(reader: Reader) -> None:
            count, how, self.verifier = reader.u32(), reader.u32(), reader.fixed(8)
            if forced and how != FILE_SYNC:
                raise ClientError(f"{self.name}: the reply to a durable write reports an unstable one")
            if count == len(data):
                done(True)
            else:
                self._write_part(offset + count, data[count:], forced, done)

        arguments = self._state + u64(offset) + u32(FILE_SYNC if forced else UNSTABLE) + opaque(data)
        self._submit((WRITE, arguments), answered, lambda: done(False))

    def zero(self, offset: int, length: int, forced: bool, done: Done) -> None:
        self.write(offset, bytearray(length), forced, done)

    def discard(self, offset: int, length: int, done: Done) -> None:
        self.write(offset, bytearray(length), False, done)

    def flush(self, done: Done) -> None:
        def answered(reader: Reader) -> None:
            self.verifier = reader.fixed(8)
            done(True)

        self._submit((COMMIT, u64(0) + u32(0)), answered, lambda: done(False))

    def read(self, offset: int, length: int, done: ReadDone) -> None:
        found = bytearray()

        def answered(reader: Reader) -> None:
            is_end = reader.u32()
            found.extend(reader.opaque())
            if len(found) == length:
                done(bytes(found))
            elif is_end:
                done(None)
            else:
                ask()

        def ask() -> None:
            count = min(length - len(found), PAYLOAD_BYTES_MAX)
            arguments = self._state + u64(offset + len(found)) + u32(count)
            self._submit((READ, arguments), answered, lambda: done(None))

        ask()

    def try_lock(self, span: tuple[int, int], done: Callable[[int], None]) -> None:
        """Requests a lock of a range of the file once; ``done`` gets the status."""
        operation = lock_range(self._connection.client, self._state, span)
        self._connection.call([(PUTFH, opaque(self._handle)), operation], lambda _: done(OK), lambda _, status: done(status))

    def make_directory(self, path: FilePath, done: Done) -> None:
        """Creates a directory."""
        make = CREATE, u32(2) + opaque(path[-1]) + attributes(mode=0o755)
        self._submit_all([*lookups(path[:-1]), make], lambda _: done(True), lambda: done(False))

    def make_file(self, path: FilePath, done: Done) -> None:
        """Creates a file that must not exist, and closes it."""
        opened = open_file(self._connection.client, path[-1], True, owner=b"maker", is_new=True)
        operations = [*lookups(path[:-1]), opened, (CLOSE, u32(0) + CURRENT)]
        self._submit_all(operations, lambda _: done(True), lambda: done(False))

    def rename(self, directory: FilePath, old: bytes, new: bytes, done: Done) -> None:
        """Renames a file within a directory."""
        where = lookups(directory)
        operations = [*where, (SAVEFH, b""), (RENAME, opaque(old) + opaque(new))]
        self._submit_all(operations, lambda _: done(True), lambda: done(False))

    def remove(self, directory: FilePath, name: bytes, done: Done) -> None:
        """Removes a file of a directory."""
        self._submit_all([*lookups(directory), (REMOVE, opaque(name))], lambda _: done(True), lambda: done(False))

    def list(self, directory: FilePath, done: Callable[[set[bytes] | None], None]) -> None:
        """Lists the names in a directory."""
        found: set[bytes] = set()

        def answered(reader: Reader) -> None:
            verifier, cookie = reader.fixed(8), 0
            while reader.u32():
                cookie = reader.u64()
                found.add(reader.opaque())
                reader.words()
                reader.opaque()
            if reader.u32():
                done(found)
            else:
                ask(cookie, verifier)

        def ask(cookie: int, verifier: bytes) -> None:
            read = READDIR, u64(cookie) + verifier + u32(0, READDIR_BYTES) + bitmap()
            self._submit_all([*lookups(directory), read], answered, lambda: done(None))

        ask(0, bytes(8))

    def ping(self, done: Done) -> None:
        """Sends an empty compound of the session, to check that the server responds."""
        self._connection.call([], lambda _: done(True), lambda *_: done(False))
