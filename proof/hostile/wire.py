"""Minimal iSCSI and NBD on a plain socket, to violate the rules of both."""

from __future__ import annotations

import socket
import struct

from proof.runtime import ProofError
from proof.stream import receive

BHS = 48
LOGIN, SCSI, TEXT, DATA_OUT, NOP_OUT = 0x03, 0x01, 0x04, 0x05, 0x00
IMMEDIATE, FINAL = 0x40, 0x80
FULL_FEATURE = 0x87
"""Login flags: transit from operational negotiation to the full-feature phase."""

ANSWER_SECONDS = 10.0
NBD_MAGIC = 0x4E42444D41474943
NBD_OPTION_MAGIC = 0x49484156454F5054
NBD_REQUEST_MAGIC = 0x25609513
NBD_OPT_GO = 7


def connect(port: int, receive_buffer: int | None = None, source: str | None = None) -> socket.socket:
    """A TCP connection to the server; a small receive buffer slows the reads down."""
    connection = socket.socket()
    if source:
        connection.bind((source, 0))
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(ANSWER_SECONDS)
    connection.connect(("127.0.0.1", port))
    return connection


def closed_by_server(connection: socket.socket, seconds: float) -> bool:
    """Whether the server closes the connection within ``seconds``, after any number of replies."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def pdu(opcode: int, flags: int, *, data: bytes = b"", lun: int = 0, tag: int = 0, words: bytes = b"", length: int | None = None) -> bytes:
    """Returns a PDU: 8 fixed bytes, LUN, task tag, then ``words`` for the rest; ``length`` may differ from the
    data's."""
    segment = len(data) if length is None else length
    head = struct.pack(">BBHB3sQI", opcode, flags, 0, 0, segment.to_bytes(3, "big"), lun << 48, tag)
    return (head + words).ljust(BHS, b"\0") + data + bytes(-len(data) % 4)


def answer(connection: socket.socket) -> tuple[bytes, bytes]:
    """Receives one PDU of the target: header and data."""
    head = receive(connection, BHS)
    length = int.from_bytes(head[5:8], "big")
    return head, receive(connection, length + -length % 4)[:length]


def login_text(target: str, initiator: str, **keys: str) -> bytes:
    """The keys of a login to a normal session."""
    pairs = {
        "InitiatorName": initiator,
        "TargetName": target,
        "SessionType": "Normal",
        "HeaderDigest": "None",
        "DataDigest": "None",
        **keys,
    }
    return b"".join(f"{key}={value}\0".encode() for key, value in pairs.items())


def login(port: int, target: str, initiator: str, isid: int, receive_buffer: int | None = None, **keys: str) -> socket.socket:
    """A logged-in session; the next CmdSN is 1."""
    connection = connect(port, receive_buffer)
    text = login_text(target, initiator, **keys)
    head = struct.pack(">BBBBB3s", LOGIN | IMMEDIATE, FULL_FEATURE, 0, 0, 0, len(text).to_bytes(3, "big"))
    head += struct.pack(">B3sH", 0x80, isid.to_bytes(3, "big"), 0) + struct.pack(">HIHHII", 0, 1, 0, 0, 1, 0)
    connection.sendall(head.ljust(BHS, b"\0") + text + bytes(-len(text) % 4))
    head, _ = answer(connection)
    if head[0] & 0x3F != 0x23 or head[36] != 0:
        raise ProofError(f"login refused: opcode {head[0]:#x} status {head[36]:#x}{head[37]:02x}")
    return connection


def read_command(number: int, blocks: int, lun: int = 0, lba: int = 0) -> bytes:
    """READ(16) with CmdSN ``number``."""
    cdb = struct.pack(">BBQIBB", 0x88, 0, lba, blocks, 0, 0)
    return pdu(SCSI, FINAL | 0x40, lun=lun, tag=number, words=struct.pack(">III", blocks * 512, number, 0) + cdb)


def write_command(number: int, blocks: int, data: bytes = b"", length: int | None = None) -> bytes:
    """WRITE(16) with CmdSN ``number`` and immediate ``data``."""
    cdb = struct.pack(">BBQIBB", 0x8A, 0, 0, blocks, 0, 0)
    words = struct.pack(">III", blocks * 512, number, 0) + cdb
    return pdu(SCSI, FINAL | 0x20, tag=number, data=data, words=words, length=length)


def nbd_greeting(port: int) -> socket.socket:
    """An NBD connection after the server's greeting and our flags."""
    connection = connect(port)
    magic, option_magic, _ = struct.unpack(">QQH", receive(connection, 18))
    if (magic, option_magic) != (NBD_MAGIC, NBD_OPTION_MAGIC):
        raise ProofError("the server's greeting is not NBD")
    connection.sendall(struct.pack(">I", 3))
    return connection


def nbd_option(number: int, data: bytes = b"", length: int | None = None) -> bytes:
    """Returns an option; ``length`` may differ from the data's."""
    return struct.pack(">QII", NBD_OPTION_MAGIC, number, len(data) if length is None else length) + data


def nbd_go(port: int, export: str, receive_buffer: int | None = None) -> socket.socket:
    """An NBD connection in the transmission phase, simple replies."""
    connection = nbd_greeting(port)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    name = export.encode()
    connection.sendall(nbd_option(NBD_OPT_GO, struct.pack(">I", len(name)) + name + struct.pack(">H", 0)))
    while True:
        _, _, kind, length = struct.unpack(">QIII", receive(connection, 20))
        receive(connection, length)
        if kind == 1:
            return connection
        if kind & 1 << 31:
            raise ProofError(f"NBD_OPT_GO refused: {kind:#x}")


def nbd_request(kind: int, offset: int, length: int, cookie: int = 1, flags: int = 0, magic: int = NBD_REQUEST_MAGIC) -> bytes:
    """A request header."""
    return struct.pack(">IHHQQI", magic, flags, kind, cookie, offset, length)
