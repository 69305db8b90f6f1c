"""A plain NBD client with a deadline: one request at a time over a Unix socket."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from proof.stream import receive

READ, WRITE, FLUSH = 0, 1, 3
REQUEST = struct.Struct(">IHHQQI")
REQUEST_MAGIC, REPLY_MAGIC = 0x25609513, 0x67446698


class Client:
    """One connection to one export. Each failure is an ``OSError``; a late reply is a ``TimeoutError``."""

    def __init__(self, path: Path, export: str, seconds: float):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(seconds)
        self._socket.connect(str(path))
        self._cookie = 0
        if self._take(18)[:16] != b"NBDMAGICIHAVEOPT":
            raise OSError("no greeting of an NBD server")
        name = export.encode()
        self._socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, len(name)) + name)
        self._take(10)

    def close(self) -> None:
        """Closes the socket without NBD's disconnect."""
        self._socket.close()

    def write_durably(self, offset: int, data: bytes) -> None:
        """Returns when the write is acknowledged and flushed."""
        self._call(WRITE, offset, len(data), data)
        self.flush()

    def flush(self) -> None:
        """Flushes all acknowledged writes."""
        self._call(FLUSH, 0, 0)

    def read(self, offset: int, length: int) -> bytes:
        """Returns the data of the range."""
        self._call(READ, offset, length)
        return self._take(length)

    def _call(self, kind: int, offset: int, length: int, data: bytes = b"") -> None:
        self._cookie += 1
        self._socket.sendall(REQUEST.pack(REQUEST_MAGIC, 0, kind, self._cookie, offset, length) + data)
        magic, error, cookie = struct.unpack(">IIQ", self._take(16))
        if magic != REPLY_MAGIC or cookie != self._cookie:
            raise OSError("the reply does not match the request")
        if error:
            raise OSError(error, "the server refuses the request")

    def _take(self, length: int) -> bytes:
        return receive(self._socket, length)
