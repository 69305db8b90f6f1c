"""Runs every point on every server, alternating, and judges the medians of the ratios."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from proof.bench.load import IscsiLoad, Load, fio, iscsi_p99_us
from proof.bench.points import MEBIBYTE, POINTS, TARGETS, Access, Figure, Point
from proof.process import checked, run
from proof.servers.base import Server, VolumeSpec
from proof.servers.bulkhead import Bulkhead
from proof.servers.peers import Nbdkit, QemuNbd, Tgt

VOLUME_BYTES = 512 * MEBIBYTE
SETTLE_WINDOW_SECONDS = 0.5
SETTLE_MAX_SECONDS = 20.0
IDLE_SHARE = 0.03
COMMIT_SECONDS = 5.5
"""ZFS writes dirty data out at the latest after zfs_txg_timeout, and the writes are charged for it."""


LIKE_THE_PEERS: dict[str, int | bool] = {"leg_bytes": 3 << 30, "leg_count": 1, "written": True}
"""One file, like the peers (a mirror would write all data twice), with its blocks allocated by the host's file
system, as theirs are once they are filled."""


@dataclass
class Sample:
    """One measurement."""

    iops: float
    megabytes_per_second: float
    cpu_us_per_operation: float
    p99_us: float | None


@dataclass
class Series:
    """All repetitions of one point on one server."""

    server: str
    protocol: str
    point: str
    samples: list[Sample] = field(default_factory=list)

    def median(self, figure: str) -> float | None:
        """Median over the repetitions."""
        values = [value for sample in self.samples if (value := getattr(sample, figure)) is not None]
        return statistics.median(values) if values else None


class Beside(Bulkhead):
    """Another bulkhead binary, such as an older one or one with another library."""

    name = "beside"


KINDS: tuple[tuple[type[Server], str], ...] = ((Bulkhead, "iscsi nbd"), (Tgt, "iscsi"), (Nbdkit, "nbd"), (QemuNbd, "nbd"))
"""The servers that are compared, and in which protocols."""


def make_servers(scratch: Path, small_block: int, beside: Path | None = None) -> list[tuple[Server, str]]:
    """Returns the servers on one disk, ours first, each with the protocols that it is measured in."""
    # No compression: the clients' constant contents would make our writes cheaper than they are.
    off = (("compression", "off"),)
    volumes = [VolumeSpec("small", VOLUME_BYTES, small_block, off), VolumeSpec("large", VOLUME_BYTES, 128 << 10, off)]
    servers: list[tuple[Server, str]] = []
    for kind, protocols in KINDS:
        directory = scratch / kind.name
        directory.mkdir()
        servers.append((_make(kind, directory, volumes), protocols))
    if beside:
        directory = scratch / Beside.name
        directory.mkdir()
        servers.append((Beside(directory, volumes, binary=beside, **LIKE_THE_PEERS), "iscsi nbd"))
    return servers


def _make(kind: type[Server], directory: Path, volumes: list[VolumeSpec]) -> Server:
    if kind is Bulkhead:
        return Bulkhead(directory, volumes, **LIKE_THE_PEERS)
    return kind(directory, volumes)


def fill(server: Server, image: Path) -> None:
    """Stores every block once, so that reads read data and writes overwrite."""
    for volume in server.volumes:
        if export := server.nbd(volume.name):
            checked(["nbdcopy", "--flush", image, export.uri], 300)
        elif address := server.iscsi(volume.name):
            checked(["qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, address.url], 300)


def chosen(only: str | None) -> list[Point]:
    """Returns the points with one of these comma-separated strings in their name; without any, all points."""
    return [point for point in POINTS if not only or any(word in point.name for word in only.split(","))]


class Comparison:
    """The measurement of all servers."""

    def __init__(self, servers: list[tuple[Server, str]], seconds: float, repetitions: int, only: str | None):
        self._servers = servers
        self._seconds = seconds
        self._repetitions = repetitions
        self._points = chosen(only)
        self._iscsi = IscsiLoad()
        self.series: dict[tuple[str, str, str], Series] = {}

    def run(self, protocols: str) -> None:
        """Measures every point in every repetition, with the servers in alternating order."""
        for repetition in range(self._repetitions):
            print(f"repetition {repetition + 1} of {self._repetitions}")
            for point in self._points:
                for protocol in protocols.split():
                    if point.flushed and protocol != "iscsi":
                        continue
                    turn = [server for server, spoken in self._servers if protocol in spoken.split()]
                    # The order alternates, so that no server always meets the warm or the dirty disk.
                    for server in turn if repetition % 2 == 0 else reversed(turn):
                        self._measure(server, protocol, point)

    def _measure(self, server: Server, protocol: str, point: Point) -> None:
        iscsi, export = server.iscsi(point.volume), server.nbd(point.volume)
        if protocol == "iscsi":
            assert iscsi is not None
            self._iscsi.calibrate(server.name, iscsi, point, VOLUME_BYTES, self._seconds)
            _settle(server, point)
        before = server.cpu_seconds()
        if protocol == "iscsi":
            assert iscsi is not None
            load = self._iscsi.run(server.name, iscsi, point, VOLUME_BYTES, self._seconds)
        else:
            assert export is not None
            load = fio(export, point, VOLUME_BYTES, self._seconds)
        _settle(server, point)
        used = server.cpu_seconds() - before
        p99 = load.p99_us
        if iscsi and protocol == "iscsi" and point.depth == 1:
            p99 = iscsi_p99_us(iscsi, point, VOLUME_BYTES)
            _settle(server, point)
        self._keep(server.name, protocol, point, load, used, p99)

    def _keep(self, server: str, protocol: str, point: Point, load: Load, used: float, p99: float | None) -> None:
        series = self.series.setdefault((server, protocol, point.name), Series(server, protocol, point.name))
        megabytes = load.iops() * point.block / 1e6
        series.samples.append(Sample(load.iops(), megabytes, used / load.operations * 1e6, p99))

    def ratio(self, protocol: str, peer: str, point: str, figure: Figure) -> float | None:
        """Median of ours / peer's, repetition by repetition."""
        ours = self.series.get((Bulkhead.name, protocol, point))
        theirs = self.series.get((peer, protocol, point))
        if not ours or not theirs:
            return None
        name = "cpu_us_per_operation" if figure is Figure.CPU else "megabytes_per_second"
        pairs = zip(ours.samples, theirs.samples, strict=False)
        ratios = [getattr(mine, name) / getattr(other, name) for mine, other in pairs if getattr(other, name)]
        return statistics.median(ratios) if ratios else None


def _settle(server: Server, point: Point) -> None:
    """After writes: blocks until the server has finished its postponed work, so that the work is counted."""
    if point.access is Access.READ:
        return
    started = time.monotonic()
    least = COMMIT_SECONDS if isinstance(server, Bulkhead) else 0.0
    while (passed := time.monotonic() - started) < SETTLE_MAX_SECONDS:
        before = server.cpu_seconds()
        time.sleep(SETTLE_WINDOW_SECONDS)
        idle = server.cpu_seconds() - before < IDLE_SHARE * SETTLE_WINDOW_SECONDS
        if idle and passed >= least:
            return


def print_table(comparison: Comparison) -> None:
    """Medians: IOPS or MB/s, server CPU microseconds per operation, 99th percentile."""
    print(f"{'point':22} {'server':15} {'IOPS':>9} {'MB/s':>7} {'CPU us/op':>10} {'p99 us':>8}")
    for point in POINTS:
        for series in comparison.series.values():
            if series.point != point.name:
                continue
            p99 = series.median("p99_us")
            print(
                f"{point.name:22} {series.server + '/' + series.protocol:15} {series.median('iops') or 0:9.0f} "
                f"{series.median('megabytes_per_second') or 0:7.0f} {series.median('cpu_us_per_operation') or 0:10.1f} "
                f"{f'{p99:8.0f}' if p99 else '       -'}"
            )


def print_beside(comparison: Comparison, protocols: str) -> None:
    """Prints how the CPU of our binary compares with that of the other one."""
    for point in POINTS:
        for protocol in protocols.split():
            ratio = comparison.ratio(protocol, Beside.name, point.name, Figure.CPU)
            if ratio is not None:
                print(f"  {protocol} {point.name}: {ratio:.2f} x the CPU of the other binary")


def judge(comparison: Comparison) -> list[dict[str, object]]:
    """Returns each target with its measured ratio."""
    verdicts: list[dict[str, object]] = []
    for target in TARGETS:
        ratio = comparison.ratio(target.protocol, target.peer, target.point, target.figure)
        if ratio is None:
            continue
        met = target.met(ratio)
        print(f"  {'met   ' if met else 'MISSED'} {target.words}: {ratio:.2f}")
        verdicts.append({"target": target.words, "limit": target.limit, "ratio": ratio, "met": met})
    return verdicts


def write_json(path: Path, comparison: Comparison, verdicts: list[dict[str, object]], settings: dict[str, object]) -> None:
    """Writes all measurements."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A peer that is left out need not be installed, but the tool requires it.
    versions = run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", "tgt", "nbdkit", "qemu-utils", "fio"], 20).output
    document = {
        "machine": {"cores": os.cpu_count(), "kernel": platform.release()},
        "versions": dict(words for line in versions.splitlines() if len(words := line.split(" ")) == 2),
        "settings": settings,
        "targets": verdicts,
        "series": [asdict(series) for series in comparison.series.values()],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
