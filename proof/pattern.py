"""Self-describing blocks: every 512-byte sector names the write that created it.

A sector is one 16-byte record, repeated. Both 8-byte words of the record depend on the
sequence number, so a sector torn at any 8-byte boundary between two writes is not a record
repeated, and is found. Sequence number 0 is a sector of zeroes.

    word 0, little endian   sequence << 32 | sector
    word 1, little endian   word 0 mixed with the volume's tag
"""

from __future__ import annotations

import struct

SECTOR = 512
"""Smallest unit of writes and verdicts."""

RECORD = struct.Struct("<QQ")
REPEATS = SECTOR // RECORD.size
ZEROES = bytes(SECTOR)
TORN = -1
"""Verdict on a sector that no single write of ours created."""

_MASK = (1 << 64) - 1
_MIX = 0x9E3779B97F4A7C15


def _seal(word: int, tag: int) -> int:
    return ((word ^ tag) * _MIX & _MASK) ^ word >> 29


def sectors(tag: int, sequence: int, start: int, count: int) -> bytearray:
    """Returns the contents that write number ``sequence`` stores in ``count`` sectors from ``start``."""
    pack, high = RECORD.pack, sequence << 32
    return bytearray().join(
        pack(high | sector, _seal(high | sector, tag)) * REPEATS for sector in range(start, start + count)
    )


def read_back(tag: int, start: int, data: bytes | bytearray | memoryview) -> list[int]:
    """Returns the sequence number of each sector of ``data``: 0 for zeroes, ``TORN`` for anything foreign."""
    found = []
    unpack_from = RECORD.unpack_from
    data = bytes(data)
    for index in range(len(data) // SECTOR):
        at = index * SECTOR
        content = data[at : at + SECTOR]
        word, seal = unpack_from(content)
        if word & 0xFFFFFFFF == start + index and seal == _seal(word, tag) and content == content[:16] * REPEATS:
            found.append(word >> 32)
        elif content == ZEROES:
            found.append(0)
        else:
            found.append(TORN)
    return found
