"""The benefit of memory, a cache device and a log device, on a disk with slow requests."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proof.bench import media
from proof.bench.disk import Contender, DiskSample, measure
from proof.bench.disk_points import DISK_POINTS, DiskPoint, Work
from proof.bench.points import KIBIBYTE, MEBIBYTE
from proof.runtime import at_exit, memory_base
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import Bulkhead, replace_file

VOLUME_BYTES = 512 * MEBIBYTE
POOL_BYTES = 2 << 30
FAST_BYTES = 1 << 30
BLOCK = 16 * KIBIBYTE
"""The default of new volumes."""
DISK_DELAY_MS = 5
WARM_SECONDS = 15.0
WARM_CACHE_DEVICE_SECONDS = 60.0
"""The library writes at most 32 MiB a second to a cache device, and twice as much while that is empty."""
SMALL_ARC = 64 * MEBIBYTE
SEED = 4

FILL = next(point for point in DISK_POINTS if point.first and point.volume_block == BLOCK)
READ = DiskPoint("sizing-16k-read-qd8", Work.READ, BLOCK, BLOCK, 8)
SYNC = DiskPoint("sizing-16k-sync-write-qd1", Work.SYNC, BLOCK, BLOCK, 1)
PART = DiskPoint("sizing-4k-sync-write-qd1", Work.SYNC, BLOCK, 4 * KIBIBYTE, 1)
"""Writes of a part of a block: the rest must be read first."""


@dataclass(frozen=True)
class Case:
    """A pool and the measurement on it."""

    name: str
    point: DiskPoint
    arc_bytes: int = SMALL_ARC
    role: str | None = None
    """A device in memory is added in this role."""

    @property
    def warm_seconds(self) -> float:
        """Returns how long the pool is read before the measurement, so that the caches are full."""
        if self.point is not READ:
            return 0.0
        return WARM_CACHE_DEVICE_SECONDS if self.role == "cache" else WARM_SECONDS


CASES = (
    Case("cache of 64 MiB", READ),
    Case("cache of 256 MiB", READ, 256 * MEBIBYTE),
    Case("cache of 1 GiB", READ, 1 << 30),
    Case("cache of 64 MiB and a cache device of 1 GiB", READ, role="cache"),
    Case("no log device", SYNC),
    Case("log device", SYNC, role="log"),
    Case("no log device", PART),
    Case("log device", PART, role="log"),
    Case("log device and cache of 1 GiB", PART, 1 << 30, role="log"),
)


@contextlib.contextmanager
def _fast_file(scratch: Path) -> Iterator[Path]:
    """In memory if there is enough: it simulates a device that serves a request in microseconds."""
    directory = tempfile.TemporaryDirectory(prefix="bulkhead-fast-", dir=memory_base(2 * FAST_BYTES) or str(scratch))
    forget = at_exit(directory.cleanup)
    try:
        yield media.written_file(Path(directory.name) / "fast.img", FAST_BYTES)
    finally:
        forget()
        directory.cleanup()


def run_case(case: Case, scratch: Path, seconds: float) -> DiskSample:
    """Runs one measurement on a new pool."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="case-", dir=scratch)))
        disk = stack.enter_context(media.made("file", home, {"disk.img": POOL_BYTES}))["disk.img"]
        extra = (case.role, str(stack.enter_context(_fast_file(scratch)))) if case.role else ()
        volume = VolumeSpec(READ.volume, VOLUME_BYTES, BLOCK, (("compression", "off"),))
        options = ("--arc-size", str(case.arc_bytes))
        server = Bulkhead(home, [volume], options=options, layout=(str(disk), *extra))
        # The file must exist at the start, so that its contents can change later.
        server.fault_file.write_text("")
        stack.enter_context(server)
        contender = Contender(server.name, disk, server)
        measure(contender, FILL, VOLUME_BYTES, seconds, SEED)
        if case.warm_seconds:
            measure(contender, READ, VOLUME_BYTES, case.warm_seconds, SEED)
        replace_file(server.fault_file, f"{disk} delay={DISK_DELAY_MS}\n")
        return measure(contender, case.point, VOLUME_BYTES, seconds, SEED + 1)


def main(scratch: Path, seconds: float) -> int:
    """Prints a line for each case."""
    print(f"volume of {VOLUME_BYTES // MEBIBYTE} MiB, blocks of {BLOCK // KIBIBYTE} KiB; each request to the disk is delayed by {DISK_DELAY_MS} ms")
    print(f"load before: {os.getloadavg()[0]:.2f}")
    print(f"{'point':27} {'pool':46} {'IOPS':>8} {'p99 us':>8}")
    for case in CASES:
        sample = run_case(case, scratch, seconds)
        p99 = "-" if sample.p99_us is None else f"{sample.p99_us:.0f}"
        print(f"{case.point.name:27} {case.name:46} {sample.operations_per_second:8.0f} {p99:>8}")
    return 0
