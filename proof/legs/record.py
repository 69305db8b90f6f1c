"""The members' records on stable storage, read from their files (docs/formats/leg-record.md), and the owners that
they permit."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from proof.runtime import ProofError

MAGIC = b"BULKLEGS"
VERSIONS = 2, 3
"""Versions of a record without its members, and of one with them."""
MEMBERS = {1: 1, 2: 2, 3: 3, 4: 3, 5: 3}
"""Number of members, by their kind."""
HEADER = struct.Struct("<8sIII")
FIXED = struct.Struct("<QQQQQB")
RECORD = struct.Struct("<QQQQBQ")
QUORUM = 2
"""Quorum of two members or three."""
CURRENT_BYTES, STALE_BYTES, DIVERGENT_BYTES, LIFE_BYTES = 8 + 20, 8 + 8 + 20 + 20 + 8 + 1, 8, 8 + 8


@dataclass(frozen=True)
class Record:
    """The current disks of a pool."""

    version: tuple[int, int]
    owner: int | None
    current: frozenset[int]
    stale: frozenset[int]


@dataclass(frozen=True)
class Memory:
    """The memory of one member."""

    committed: tuple[int, int]
    accepted: Record | None


@dataclass(frozen=True)
class Group:
    """A group of disks, each with its head."""

    needed: int
    disks: dict[int, str]


def decode(data: bytes) -> Memory:
    """Decodes the memory of a member."""
    magic, version, length, _ = HEADER.unpack_from(data)
    if magic != MAGIC or version not in VERSIONS or length != len(data) - HEADER.size:
        raise ProofError(f"no record of the versions {VERSIONS}: {data[:20]!r}")
    at = HEADER.size
    _, _, epoch, sequence, _, has_record = FIXED.unpack_from(data, at)
    if not has_record:
        return Memory((epoch, sequence), None)
    at += FIXED.size
    _, of_epoch, _, of_sequence, has_owner, owner = RECORD.unpack_from(data, at)
    at += RECORD.size
    lists = []
    for size in (CURRENT_BYTES, STALE_BYTES, DIVERGENT_BYTES, LIFE_BYTES):
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
        lists.append(frozenset(struct.unpack_from("<Q", data, at + index * size)[0] for index in range(count)))
        at += count * size
    if version == max(VERSIONS):
        at += 1 + 8 * MEMBERS.get(data[at], 0)
    if at != len(data):
        raise ProofError("a record is followed by other bytes")
    record = Record((of_epoch, of_sequence), owner if has_owner else None, lists[0], lists[1])
    return Memory((epoch, sequence), record)


def read(path: Path) -> Memory | None:
    """Returns the memory in the file of a member; none without a file."""
    try:
        return decode(path.read_bytes())
    except FileNotFoundError:
        return None


def possible(memories: Iterable[Memory | None]) -> list[Record]:
    """Returns the records that may be the newest of a quorum: a head may open the pool according to any of them, and
    to no other."""
    known = [memory for memory in memories if memory]
    accepted = Counter(memory.accepted for memory in known if memory.accepted)
    # Two members have it, so it is committed, even where neither has recorded that yet.
    by_a_quorum = [one.version for one, count in accepted.items() if count >= QUORUM]
    committed = max((*(memory.committed for memory in known), *by_a_quorum), default=(0, 0))
    return sorted((one for one in accepted if one.version >= committed), key=lambda one: one.version)


def is_readable(groups: Iterable[Group], disks: Iterable[int]) -> bool:
    """Whether these disks suffice to read all of the pool."""
    have = set(disks)
    return all(len(have & set(group.disks)) >= group.needed for group in groups)
