"""Our NFS server beside nfs-ganesha, with one client for both: CPU of the server for each operation, and speed."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from proof.bench.compare import COMMIT_SECONDS, LIKE_THE_PEERS
from proof.process import Child, checked
from proof.runtime import REPOSITORY, free_port, port_answers, wait_until
from proof.servers.base import Server, VolumeSpec
from proof.servers.bulkhead import POOL, Bulkhead

KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20
BUILD_SECONDS = 900.0
FILL_SECONDS = 120.0
SLACK_SECONDS = 60.0
LEG_BYTES = 2 << 30
START_SECONDS = 20.0

NEEDED = ("ganesha.nfsd",)


@dataclass(frozen=True)
class Point:
    """A load: what :command:`nfs_load` is told."""

    name: str
    load: str
    block: int
    depth: int
    small: bool = False
    cpu_us_max: float | None = None
    """What an operation may cost of our server."""


POINTS = (
    Point("nfs-4k-read-qd1", "read", 4 * KIBIBYTE, 1, small=True, cpu_us_max=25),
    Point("nfs-4k-read-qd32", "read", 4 * KIBIBYTE, 32, small=True, cpu_us_max=15),
    Point("nfs-1m-read-qd4", "read", MEBIBYTE, 4),
    Point("nfs-1m-write-qd4", "write", MEBIBYTE, 4),
    Point("nfs-create-qd1", "create", 0, 1),
    Point("nfs-create-qd32", "create", 0, 32),
)
SMALL, LARGE = 64, 512
"""MiB of the file that is read or written."""


def chosen(only: str | None) -> list[Point]:
    """The points whose names contain one of these words, separated by commas; all without words."""
    return [point for point in POINTS if not only or any(word in point.name for word in only.split(","))]


@dataclass
class Sample:
    """One measurement."""

    server: str
    point: str
    operations_per_second: float
    cpu_us_per_operation: float


class Ganesha(Server):
    """nfs-ganesha on a directory of a plain file system. Version 4 only, so that it needs no rpcbind."""

    name = "nfs-ganesha"
    programs = NEEDED
    path = "files"

    def __init__(self, scratch: Path):
        super().__init__(scratch, [])
        self.port = free_port()

    def prepare(self) -> None:
        for folder in ("files", "recovery"):
            (self.scratch / folder).mkdir()
        (self.scratch / "ganesha.conf").write_text(f"""
            NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {self.port}; Bind_addr = 127.0.0.1;
                Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}
            NFSV4 {{ Graceless = true; Minor_Versions = 1, 2; RecoveryRoot = {self.scratch}/recovery; }}
            EXPORT {{ Export_Id = 1; Path = {self.scratch}/files; Pseudo = /{self.path}; Access_Type = RW;
                Squash = No_Root_Squash; SecType = sys; FSAL {{ Name = VFS; }} }}
        """)

    def start(self) -> None:
        files = ["-f", self.scratch / "ganesha.conf", "-L", self.scratch / "ganesha.log", "-p", self.scratch / "ganesha.pid"]
        self.children = [Child("ganesha.nfsd", ["ganesha.nfsd", "-F", *files], self.scratch / "ganesha.out")]

    def wait_ready(self) -> None:
        wait_until(self.name, lambda: port_answers(self.port), START_SECONDS, poll_seconds=0.1)


class Ours(Bulkhead):
    """A pool on one file of the same disk."""

    path = f"{POOL}/files"

    def __init__(self, scratch: Path):
        super().__init__(scratch, [VolumeSpec("files", 0, is_file=True)], **{**LIKE_THE_PEERS, "leg_bytes": LEG_BYTES})
        self.port = self._nfs_port


class Run:
    """The measurement of both."""

    def __init__(self, scratch: Path, seconds: float):
        self._seconds = seconds
        self._program = REPOSITORY / "target/debug/examples/nfs_load"
        checked([REPOSITORY / "scripts/cargo.sh", "build", "--locked", "-q", "-p", "nfs", "--example", "nfs_load"], BUILD_SECONDS)
        self.servers: list[Ganesha | Ours] = []
        self.samples: list[Sample] = []
        for kind in (Ours, Ganesha):
            directory = scratch / kind.name
            directory.mkdir()
            self.servers.append(kind(directory))

    def start(self) -> None:
        """Both serve."""
        for server in self.servers:
            server.prepare()
            server.start()
            server.wait_ready()

    def _load(self, server: Ganesha | Ours, load: str, block: int, depth: int, seconds: float, mebibytes: int) -> tuple[int, float]:
        words = [f"127.0.0.1:{server.port}", server.path, load, block, depth, seconds, mebibytes]
        told = checked([self._program, *map(str, words)], seconds + SLACK_SECONDS).split()
        return int(told[0]), float(told[1])

    def measure(self, point: Point, turn: Sequence[Ganesha | Ours]) -> None:
        """One point on each, in this order."""
        mebibytes = SMALL if point.small else LARGE
        for server in turn:
            if point.load == "read":
                self._load(server, "fill", 0, 0, FILL_SECONDS, mebibytes)
                self._settle(server)
            before = server.cpu_seconds()
            operations, seconds = self._load(server, point.load, point.block, point.depth, self._seconds, mebibytes)
            if point.load != "read":
                self._settle(server)
            used = server.cpu_seconds() - before
            self.samples.append(Sample(server.name, point.name, operations / seconds, used / operations * 1e6))

    def _settle(self, server: Ganesha | Ours) -> None:
        """What is written later belongs to the writes."""
        if isinstance(server, Ours):
            time.sleep(COMMIT_SECONDS)

    def median(self, server: str, point: str, figure: str) -> float:
        """Over the repetitions."""
        found = [getattr(one, figure) for one in self.samples if (one.server, one.point) == (server, point)]
        return statistics.median(found)


def main(scratch: Path, out: Path, only: str | None, seconds: float, repetitions: int) -> int:
    """Prints the table; medians over the repetitions, in which the servers take turns."""
    run = Run(scratch, seconds)
    points = chosen(only)
    try:
        run.start()
        for repetition in range(repetitions):
            for point in points:
                run.measure(point, run.servers if repetition % 2 == 0 else run.servers[::-1])
    finally:
        for server in run.servers:
            server.kill()
    out.write_text(json.dumps([asdict(sample) for sample in run.samples], indent=1) + "\n")
    met = promised = 0
    print(f"{'point':<18}{'operations/s':>14}{'ganesha':>10}{'CPU us/op':>12}{'ganesha':>10}")
    for point in points:
        speed, cpu = ([run.median(name, point.name, figure) for name in (Ours.name, Ganesha.name)] for figure in ("operations_per_second", "cpu_us_per_operation"))
        print(f"{point.name:<18}{speed[0]:>14.0f}{speed[1]:>10.0f}{cpu[0]:>12.1f}{cpu[1]:>10.1f}")
        if point.cpu_us_max:
            promised += 1
            met += cpu[0] <= point.cpu_us_max
    print(f"bench nfs: {met} of {promised} targets met; all figures in {out}")
    return 0
