"""Uncached reads, and volumes being filled: ours compared with the bare disk and with peers that use direct I/O."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from proof.bench import media
from proof.bench.compare import COMMIT_SECONDS, IDLE_SHARE, SETTLE_MAX_SECONDS, SETTLE_WINDOW_SECONDS
from proof.bench.counters import (
    FioResult,
    Traffic,
    cached_bytes,
    drop_cached,
    parse_fio,
    traffic_of,
    traffic_of_ended_children,
)
from proof.bench.disk_points import DISK_POINTS, DiskPoint, Work, chosen, volume_name
from proof.bench.points import MEBIBYTE
from proof.process import checked
from proof.servers.base import Server, VolumeSpec
from proof.servers.bulkhead import Bulkhead
from proof.servers.peers import NbdkitUncached, QemuNbdDirect

RAW = "raw"
CONTENDERS = (RAW, Bulkhead.name, QemuNbdDirect.name, NbdkitUncached.name)
WHERE = ("file", "loop")
VOLUME_BYTES = 1 << 30
POOL_SHARE = 2
"""The pool's device has this multiple of the size of all volumes: overwriting needs as much space again."""
ARC_SHARE = 8
"""Our cache has this part of one volume, but not less than the minimum of the pool server."""
ARC_BYTES_MIN = 64 * MEBIBYTE
FIO_SLACK_SECONDS = 120.0
PEERS_VOLUME = "volume"
FILL_SEED = 1


@dataclass
class DiskSample:
    """One measurement."""

    operations_per_second: float
    megabytes_per_second: float
    cpu_us_per_operation: float | None
    """Of the server. The bare disk has none."""
    p99_us: float | None
    disk_share: float
    """Bytes that the disk moved for each byte of the client."""
    page_cache_mib: float
    """Pages of the server's device in the page cache afterwards; there were none before."""


@dataclass
class DiskSeries:
    """All repetitions of one point with one server."""

    where: str
    server: str
    point: str
    samples: list[DiskSample] = field(default_factory=list)

    def median(self, figure: str) -> float | None:
        """Median over the repetitions."""
        values = [value for sample in self.samples if (value := getattr(sample, figure)) is not None]
        return statistics.median(values) if values else None


@dataclass(frozen=True)
class Contender:
    """The subject of a measurement: a server, or the disk without one."""

    name: str
    device: Path
    server: Server | None

    def fio_words(self, point: DiskPoint) -> list[str]:
        """How fio reaches the volume."""
        if self.server is None:
            return ["--ioengine=libaio", "--direct=1", f"--filename={self.device}"]
        volume = point.volume if isinstance(self.server, Bulkhead) else PEERS_VOLUME
        export = self.server.nbd(volume)
        assert export is not None
        return ["--ioengine=nbd", f"--uri={export.uri}"]

    def traffic(self) -> Traffic:
        """Returns the bytes that the disk has moved for it so far."""
        if self.server is None:
            return traffic_of_ended_children()
        return traffic_of([child.pid for child in self.server.children])

    def cpu_seconds(self) -> float:
        """The server's CPU time so far."""
        return self.server.cpu_seconds() if self.server else 0.0

    def settle(self, point: DiskPoint) -> None:
        """After writes: blocks until its postponed work is finished."""
        if self.server is None or point.work is Work.READ:
            return
        started = time.monotonic()
        least = COMMIT_SECONDS if isinstance(self.server, Bulkhead) else 0.0
        while (passed := time.monotonic() - started) < SETTLE_MAX_SECONDS:
            before = self.cpu_seconds()
            time.sleep(SETTLE_WINDOW_SECONDS)
            if self.cpu_seconds() - before < IDLE_SHARE * SETTLE_WINDOW_SECONDS and passed >= least:
                return


def sample_of(result: FioResult, cpu_seconds: float | None, traffic: Traffic, cached: int) -> DiskSample:
    """The figures of one measurement."""
    asked = result.bytes_read + result.bytes_written
    moved = traffic.read + traffic.written
    return DiskSample(
        operations_per_second=result.operations / result.seconds,
        megabytes_per_second=asked / result.seconds / 1e6,
        cpu_us_per_operation=None if cpu_seconds is None else cpu_seconds / result.operations * 1e6,
        p99_us=result.p99_us,
        disk_share=moved / asked,
        page_cache_mib=cached / MEBIBYTE,
    )


def measure(contender: Contender, point: DiskPoint, volume_bytes: int, seconds: float, seed: int) -> DiskSample:
    """Measures once, with an empty page cache of the device at the start."""
    drop_cached(contender.device)
    cpu, traffic = contender.cpu_seconds(), contender.traffic()
    words = ["fio", f"--name={point.name}", *contender.fio_words(point), *point.fio_words(volume_bytes, seconds, seed)]
    result = parse_fio(checked([*words, "--output-format=json"], seconds + FIO_SLACK_SECONDS))
    contender.settle(point)
    used = contender.cpu_seconds() - cpu if contender.server else None
    return sample_of(result, used, contender.traffic() - traffic, cached_bytes(contender.device))


class DiskComparison:
    """The measurement of all contenders, in alternating order."""

    def __init__(self, points: Sequence[DiskPoint], volume_bytes: int, seconds: float):
        self._points = points
        self._volume_bytes = volume_bytes
        self._seconds = seconds
        self.series: dict[tuple[str, str, str], DiskSeries] = {}

    def run(self, where: str, directory: Path, repetition: int) -> None:
        """Measures every point once, on a new pool and new volumes."""
        with contenders(where, directory, self._volume_bytes) as everybody:
            filled: set[str] = set()
            for number, point in enumerate(self._points):
                # The order alternates, so that no contender always meets the disk in the state that the same one left.
                turn = everybody if (repetition + number) % 2 == 0 else list(reversed(everybody))
                for contender in turn:
                    self._prepare(contender, point, filled)
                    sample = measure(contender, point, self._volume_bytes, self._seconds, repetition * 1000 + number)
                    key = (where, contender.name, point.name)
                    self.series.setdefault(key, DiskSeries(*key)).samples.append(sample)

    def _prepare(self, contender: Contender, point: DiskPoint, filled: set[str]) -> None:
        """Fills the volume if this point needs that, unless an earlier point has done so."""
        key = f"{contender.name} {point.volume}"
        if not point.first and key not in filled:
            fill = next(other for other in DISK_POINTS if other.first and other.volume == point.volume)
            measure(contender, fill, self._volume_bytes, self._seconds, FILL_SEED)
        filled.add(key)

    def of_raw(self, series: DiskSeries) -> float | None:
        """Returns the median of the speed as a share of the bare disk's, repetition by repetition."""
        raw = self.series.get((series.where, RAW, series.point))
        if raw is None:
            return None
        pairs = zip(series.samples, raw.samples, strict=True)
        return statistics.median(ours.megabytes_per_second / theirs.megabytes_per_second for ours, theirs in pairs)


def _volumes(volume_bytes: int) -> list[VolumeSpec]:
    blocks = sorted({point.volume_block for point in DISK_POINTS})
    # No compression: the disk must receive all bytes that a client writes.
    return [VolumeSpec(volume_name(block), volume_bytes, block, (("compression", "off"),)) for block in blocks]


@contextlib.contextmanager
def contenders(where: str, directory: Path, volume_bytes: int) -> Iterator[list[Contender]]:
    """Yields all contenders, running; peers and the bare disk share a device, as they alternate and cache nothing."""
    volumes = _volumes(volume_bytes)
    sizes = {"pool.img": POOL_SHARE * len(volumes) * volume_bytes, "plain.img": volume_bytes}
    arc = max(ARC_BYTES_MIN, volume_bytes // ARC_SHARE)
    with media.made(where, directory, sizes) as places, contextlib.ExitStack() as running:
        pool, plain = places["pool.img"], places["plain.img"]
        homes = {kind: directory / kind.name for kind in (Bulkhead, QemuNbdDirect, NbdkitUncached)}
        for home in homes.values():
            home.mkdir(exist_ok=True)
        options = ("--arc-size", str(arc))
        ours = Bulkhead(homes[Bulkhead], volumes, options=options, layout=(str(pool),))
        running.enter_context(ours)
        everybody = [Contender(RAW, plain, None), Contender(ours.name, pool, ours)]
        for kind in (QemuNbdDirect, NbdkitUncached):
            peer = kind(homes[kind], VolumeSpec(PEERS_VOLUME, volume_bytes), plain)
            everybody.append(Contender(peer.name, plain, running.enter_context(peer)))
        yield everybody


def print_table(comparison: DiskComparison) -> None:
    """Medians."""
    print(
        f"{'point':30} {'on':5} {'server':9} {'IOPS':>8} {'MB/s':>6} {'of raw':>7} {'CPU us/op':>10} {'p99 us':>8} "
        f"{'disk/asked':>10} {'cached MiB':>10}"
    )
    for point in DISK_POINTS:
        for where, server in itertools.product(WHERE, CONTENDERS):
            if series := comparison.series.get((where, server, point.name)):
                print(_line(comparison, series))


def _line(comparison: DiskComparison, series: DiskSeries) -> str:
    def told(figure: str, width: int, places: int = 0) -> str:
        value = series.median(figure)
        return f"{'-':>{width}}" if value is None else f"{value:{width}.{places}f}"

    share = comparison.of_raw(series)
    return (
        f"{series.point:30} {series.where:5} {series.server:9} {told('operations_per_second', 8)} "
        f"{told('megabytes_per_second', 6)} {'-' if share is None else f'{share:.2f}':>7} "
        f"{told('cpu_us_per_operation', 10, 1)} {told('p99_us', 8)} {told('disk_share', 10, 2)} {told('page_cache_mib', 10)}"
    )


def write_json(path: Path, comparison: DiskComparison, settings: dict[str, object]) -> None:
    """Writes all measurements."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": {"cores": os.cpu_count(), "kernel": platform.release()},
        "settings": settings,
        "series": [asdict(series) for series in comparison.series.values()],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def main(scratch: Path, out: Path, only: str | None, where: Sequence[str], repetitions: int, seconds: float, volume_mib: int) -> int:
    """Measures and prints."""
    comparison = DiskComparison(chosen(only), volume_mib * MEBIBYTE, seconds)
    print(f"scratch directory: {media.described(scratch)}; volumes of {volume_mib} MiB; load before: {os.getloadavg()[0]:.2f}")
    for repetition in range(repetitions):
        for place in where:
            print(f"repetition {repetition + 1} of {repetitions}, on a {place}")
            home = scratch / f"{place}-{repetition}"
            home.mkdir()
            comparison.run(place, home, repetition)
    print_table(comparison)
    settings = {"where": list(where), "repetitions": repetitions, "seconds": seconds, "volume_mib": volume_mib, "only": only}
    write_json(out, comparison, settings)
    print(f"bench: all figures in {out}; load after: {os.getloadavg()[0]:.2f}")
    return 0
