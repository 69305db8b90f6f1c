"""XDR (RFC 4506): the encoding of arguments and results in NFS."""

from __future__ import annotations

import struct

from proof.clients.base import ClientError


def u32(*values: int) -> bytes:
    """Unsigned numbers of 32 bits."""
    return struct.pack(f">{len(values)}I", *values)


def u64(*values: int) -> bytes:
    """Unsigned numbers of 64 bits."""
    return struct.pack(f">{len(values)}Q", *values)


def opaque(data: bytes) -> bytes:
    """Encodes bytes behind their length, padded to a multiple of four."""
    return u32(len(data)) + data + bytes(-len(data) % 4)


class Reader:
    """Decodes values from the front of a reply."""

    def __init__(self, data: bytes):
        self._data = data
        self._at = 0

    def fixed(self, length: int) -> bytes:
        """Decodes this many bytes."""
        end = self._at + length
        if end > len(self._data):
            raise ClientError(f"a reply of {len(self._data)} bytes is too short")
        found, self._at = self._data[self._at : end], end
        return found

    def u32(self) -> int:
        """Decodes a number of 32 bits."""
        return int.from_bytes(self.fixed(4), "big")

    def u64(self) -> int:
        """Decodes a number of 64 bits."""
        return int.from_bytes(self.fixed(8), "big")

    def opaque(self) -> bytes:
        """Decodes bytes behind their length."""
        length = self.u32()
        found = self.fixed(length)
        self.fixed(-length % 4)
        return found

    def words(self) -> list[int]:
        """Decodes numbers of 32 bits behind their count: a bitmap."""
        return [self.u32() for _ in range(self.u32())]
