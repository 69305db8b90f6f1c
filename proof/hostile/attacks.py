"""The attacks. Each returns a summary of the server's reaction, or raises when it is wrong."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from proof.hostile import wire
from proof.runtime import ProofError
from proof.stream import receive

CONNECTIONS = 1000
ALL_CONNECTIONS = 8192
"""The connection limit of both servers together."""

STRANGE_NETWORKS = 64
NEWCOMERS = 10
HALF_OPEN = 200
NEVER_READING = 8
GARBAGE_ROUNDS = 60
HOLD_SECONDS = 2.0
DROP_SECONDS = 40.0
"""By then a half-open or broken connection must be closed."""

INITIATOR = "iqn.2026-01.org.example:hostile"


@dataclass(frozen=True)
class Place:
    """The target of an attack."""

    iscsi_port: int
    target: str
    nbd_port: int
    export: str
    rng: random.Random


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise ProofError(words)


@contextlib.contextmanager
def _many(connections: list[socket.socket]):  # type: ignore[no-untyped-def]
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


def half_open_logins(place: Place) -> str:
    """Connections that begin a login and stop in the middle: dropped in bounded time."""
    with _many([]) as open_ones:
        for index in range(HALF_OPEN):
            connection = wire.connect(place.iscsi_port if index % 2 else place.nbd_port)
            if index % 4 == 1:
                connection.sendall(wire.pdu(wire.LOGIN | wire.IMMEDIATE, wire.FULL_FEATURE)[:30])
            open_ones.append(connection)
        started = time.monotonic()
        left = sum(not wire.closed_by_server(one, max(0.1, DROP_SECONDS - (time.monotonic() - started))) for one in open_ones)
        _expect(left == 0, f"{left} of {HALF_OPEN} half-open connections still open after {DROP_SECONDS:g} s")
        return f"all {HALF_OPEN} dropped within {time.monotonic() - started:.0f} s"


def a_thousand_connections(place: Place) -> str:
    """Far more connections than a client needs: a bound applies, and the server survives."""
    with _many([]) as open_ones:
        for index in range(CONNECTIONS):
            with contextlib.suppress(OSError):
                open_ones.append(wire.connect(place.iscsi_port if index % 2 else place.nbd_port))
        # All are open now; the well-behaved clients are measured during this time.
        time.sleep(HOLD_SECONDS)
        dropped = sum(wire.closed_by_server(connection, 0.0001) for connection in open_ones)
        return f"{len(open_ones)} opened, {dropped} of them refused by the server's bound"


def all_places(place: Place) -> str:
    """Clients from many addresses occupy every session slot that they can get: a client that logs in still gets one."""
    with _many([]) as open_ones:
        refused = 0
        for index in range(ALL_CONNECTIONS):
            source = f"127.{1 + index % STRANGE_NETWORKS}.0.1"
            try:
                open_ones.append(wire.connect(place.iscsi_port if index % 2 else place.nbd_port, source=source))
            except OSError:
                refused += 1
        slowest = 0.0
        for index in range(NEWCOMERS):
            started = time.monotonic()
            open_ones.append(wire.login(place.iscsi_port, place.target, f"{INITIATOR}-new", 500 + index))
            open_ones[-1].sendall(wire.read_command(1, 1))
            wire.answer(open_ones[-1])
            open_ones.append(wire.nbd_go(place.nbd_port, place.export))
            open_ones[-1].sendall(wire.nbd_request(0, 0, 512))
            receive(open_ones[-1], 16)
            slowest = max(slowest, time.monotonic() - started)
        left = sum(not wire.closed_by_server(connection, 0.0001) for connection in open_ones)
        return (
            f"{ALL_CONNECTIONS} opened, {refused} refused, {left} held in the end; {NEWCOMERS} clients of each protocol "
            f"logged in and read during it, the slowest in {slowest * 1000:.0f} ms"
        )


def never_reading(place: Place) -> str:
    """Requests far more data than it reads: replies must not pile up in memory."""
    with _many([]) as open_ones:
        for index in range(NEVER_READING):
            session = wire.login(place.iscsi_port, place.target, f"{INITIATOR}-{index}", index, receive_buffer=4096)
            open_ones.append(session)
            session.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionError):
                for number in range(1, 200):
                    session.send(wire.read_command(number, 2048))
            glutton = wire.nbd_go(place.nbd_port, place.export, receive_buffer=4096)
            open_ones.append(glutton)
            glutton.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionError):
                for number in range(400):
                    glutton.send(wire.nbd_request(0, 0, 4 << 20, number))
        # The attack works while the well-behaved clients are served: the caller measures them and the memory.
        time.sleep(HOLD_SECONDS)
    return f"{NEVER_READING} of each protocol, each requested 2 GiB or more"


def oversized_segments(place: Place) -> str:
    """A data segment of 16 MiB, and additional headers, where none are allowed."""
    for opcode in (wire.NOP_OUT, wire.TEXT, wire.SCSI, wire.DATA_OUT):
        session = wire.login(place.iscsi_port, place.target, INITIATOR, 900)
        with contextlib.suppress(OSError):
            session.sendall(wire.pdu(opcode, wire.FINAL, tag=1, words=struct.pack(">III", 0, 1, 0), length=0xFFFFFF))
            session.sendall(bytes(1 << 20))
        _expect(wire.closed_by_server(session, DROP_SECONDS), f"opcode {opcode:#x} with 16 MiB of data was not dropped")
        session.close()
    connection = wire.connect(place.iscsi_port)
    connection.sendall(wire.pdu(wire.LOGIN | wire.IMMEDIATE, wire.FULL_FEATURE, length=0xFFFFFF))
    _expect(wire.closed_by_server(connection, DROP_SECONDS), "a login of 16 MiB was not dropped")
    connection.close()
    return "each connection dropped"


def wrong_digests(place: Place) -> str:
    """Header digests that do not match: the target closes the connection (RFC 7143, 7.7)."""
    session = wire.login(place.iscsi_port, place.target, INITIATOR, 901, HeaderDigest="CRC32C")
    session.sendall(wire.read_command(1, 1) + b"\xde\xad\xbe\xef")
    _expect(wire.closed_by_server(session, DROP_SECONDS), "a wrong header digest was not detected")
    session.close()
    return "connection dropped"


def numbers_out_of_window(place: Place) -> str:
    """CmdSN far out of the window is ignored (RFC 7143, 4.2.2.1); the right one is served."""
    session = wire.login(place.iscsi_port, place.target, INITIATOR, 902)
    for number in (5000, 0x7FFFFFFF, 0xFFFFFFF0, 0):
        session.sendall(wire.read_command(number, 1))
    session.sendall(wire.read_command(1, 1))
    head, _ = wire.answer(session)
    tag = int.from_bytes(head[16:20], "big")
    _expect(tag == 1, f"the first response is for task {tag:#x}, not for the command inside the window")
    session.close()
    return "ignored, the command inside the window answered"


def data_without_command(place: Place) -> str:
    """Unsolicited Data-Out, with wrong lengths."""
    session = wire.login(place.iscsi_port, place.target, INITIATOR, 903)
    with contextlib.suppress(OSError):
        session.sendall(wire.pdu(wire.DATA_OUT, wire.FINAL, tag=77, data=bytes(512), words=struct.pack(">IIIIII", 5, 0, 0, 0, 9, 1 << 30)))
        session.sendall(wire.write_command(1, 1 << 20, data=bytes(512)))
    session.close()
    return "survived"


def iscsi_garbage(place: Place) -> str:
    """Random bytes before the login, and random PDUs after it."""
    for index in range(GARBAGE_ROUNDS):
        connection = wire.connect(place.iscsi_port)
        with contextlib.suppress(OSError):
            if index % 2:
                connection.close()
                connection = wire.login(place.iscsi_port, place.target, INITIATOR, 904)
            connection.sendall(place.rng.randbytes(place.rng.randrange(1, 4096)))
        connection.close()
    return f"{GARBAGE_ROUNDS} connections"


def nbd_garbage(place: Place) -> str:
    """Random options and requests, wrong magics, lengths up to 4 GiB."""
    for index in range(GARBAGE_ROUNDS):
        connection = wire.nbd_greeting(place.nbd_port)
        with contextlib.suppress(OSError):
            if index % 3 == 0:
                connection.sendall(wire.nbd_option(place.rng.randrange(0, 300), length=place.rng.randrange(1 << 32)))
                connection.sendall(place.rng.randbytes(1000))
            elif index % 3 == 1:
                connection.sendall(place.rng.randbytes(place.rng.randrange(1, 4096)))
            else:
                connection.close()
                connection = wire.nbd_go(place.nbd_port, place.export)
                connection.sendall(wire.nbd_request(0, 0, 512, magic=place.rng.randrange(1 << 32)))
                _expect(wire.closed_by_server(connection, DROP_SECONDS), "a wrong request magic was not dropped")
        connection.close()
    return f"{GARBAGE_ROUNDS} connections"


def nbd_huge_lengths(place: Place) -> str:
    """Requests of 4 GiB: an error or a closed connection, but no allocation of that size."""
    for kind in (0, 1, 6):
        connection = wire.nbd_go(place.nbd_port, place.export)
        with contextlib.suppress(OSError):
            connection.sendall(wire.nbd_request(kind, 0, 0xFFFFFFFF))
            if kind == 1:
                connection.sendall(bytes(4 << 20))
            else:
                reply = struct.unpack(">IIQ", receive(connection, 16))
                _expect(reply[1] != 0, f"request {kind} of 4 GiB succeeded")
        connection.close()
    return "each refused"


ATTACKS: tuple[tuple[str, Callable[[Place], str]], ...] = (
    ("random bytes over iSCSI", iscsi_garbage),
    ("random bytes over NBD", nbd_garbage),
    ("NBD requests of 4 GiB", nbd_huge_lengths),
    ("segments of 16 MiB", oversized_segments),
    ("wrong header digests", wrong_digests),
    ("command numbers out of the window", numbers_out_of_window),
    ("unsolicited data", data_without_command),
    ("clients that never read", never_reading),
    ("1,000 connections", a_thousand_connections),
    ("8,192 connections from 64 networks", all_places),
    ("half-open logins", half_open_logins),
)
