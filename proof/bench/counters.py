"""Counters of the kernel and of fio: bytes that reached a disk, pages in the page cache, speed."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proof.process import tree
from proof.runtime import ProofError

SECTOR_BYTES = 512
DIRECTIONS = ("read", "write")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED = ctypes.c_void_p(-1).value


@dataclass(frozen=True)
class Traffic:
    """Bytes that processes had read from and written to storage, without hits of the page cache."""

    read: int
    written: int

    def __sub__(self, before: Traffic) -> Traffic:
        return Traffic(self.read - before.read, self.written - before.written)

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.read + other.read, self.written + other.written)


def parse_io(text: str) -> Traffic:
    """Parses ``/proc/PID/io``, less the writes to files that were removed before they reached the disk."""
    fields = dict(line.split(": ") for line in text.splitlines())
    try:
        return Traffic(int(fields["read_bytes"]), int(fields["write_bytes"]) - int(fields["cancelled_write_bytes"]))
    except KeyError as error:
        raise ProofError(f"/proc/PID/io does not tell {error}: this kernel does not count I/O by process") from error


def traffic_of(pids: list[int]) -> Traffic:
    """Returns the traffic of these processes and their descendants."""
    total = Traffic(0, 0)
    for member in {member for pid in pids for member in tree(pid)}:
        total += parse_io(Path(f"/proc/{member}/io").read_text())
    return total


def traffic_of_ended_children() -> Traffic:
    """Returns the traffic of all tools that this process has reaped."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Traffic(usage.ru_inblock * SECTOR_BYTES, usage.ru_oublock * SECTOR_BYTES)


@dataclass(frozen=True)
class FioResult:
    """The result of one job of fio."""

    operations: int
    bytes_read: int
    bytes_written: int
    seconds: float
    p99_us: float | None
    """Of the reads if there were any, else of the writes."""
    times_ns: Mapping[int, int] = field(default_factory=dict)
    """The number of these by their duration, with ``--output-format=json+``."""


def parse_fio(output: str) -> FioResult:
    """Parses fio's JSON of one job; lines before it are warnings."""
    start = output.find("{")
    if start < 0:
        raise ProofError(f"fio printed no JSON:\n{output.strip()[-500:]}")
    job: dict[str, Any] = json.loads(output[start:])["jobs"][0]
    if job.get("error"):
        raise ProofError(f"fio ended its job with error {job['error']}")
    told = {direction: job[direction] for direction in DIRECTIONS if job[direction]["total_ios"]}
    if not told:
        raise ProofError("fio did nothing")
    first = next(iter(told.values()))
    p99 = first["clat_ns"].get("percentile", {}).get("99.000000")
    return FioResult(
        operations=sum(part["total_ios"] for part in told.values()),
        bytes_read=told.get("read", {}).get("io_bytes", 0),
        bytes_written=told.get("write", {}).get("io_bytes", 0),
        seconds=max(part["runtime"] for part in told.values()) / 1000,
        p99_us=p99 / 1000 if p99 else None,
        times_ns={int(time): count for time, count in first["clat_ns"].get("bins", {}).items()},
    )


def p99_us_of(results: Iterable[FioResult]) -> float:
    """Returns the p99 of all operations of these jobs together."""
    counts: Counter[int] = Counter()
    for result in results:
        counts.update(result.times_ns)
    beyond = counts.total() // 100
    if beyond == 0:
        raise ProofError(f"{counts.total()} operations are too few for a p99")
    for time in sorted(counts, reverse=True):
        beyond -= counts[time]
        if beyond < 0:
            return time / 1000
    raise AssertionError("some operation is not among the slowest hundredth")


def size_of(path: Path) -> int:
    """Returns the size of a file or of a block device."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)


def drop_cached(path: Path) -> None:
    """Writes the cached pages of a file or block device back, and drops them from the page cache."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def cached_bytes(path: Path) -> int:
    """Returns how many bytes of a file or block device are in the page cache (``mincore``)."""
    size = size_of(path)
    if size == 0:
        return 0
    descriptor = os.open(path, os.O_RDWR)
    try:
        place = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    finally:
        os.close(descriptor)
    if place == _MAP_FAILED:
        raise ProofError(f"map {path}: {os.strerror(ctypes.get_errno())}")
    try:
        pages = bytearray(-(-size // mmap.PAGESIZE))
        vector = (ctypes.c_char * len(pages)).from_buffer(pages)
        if _libc.mincore(place, size, ctypes.byref(vector)) != 0:
            raise ProofError(f"query the cached pages of {path}: {os.strerror(ctypes.get_errno())}")
    finally:
        _libc.munmap(place, size)
    return sum(page & 1 for page in pages) * mmap.PAGESIZE
