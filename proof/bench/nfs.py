"""Our NFS server compared with nfs-ganesha, with one client for all: CPU of the server for each operation, and speed.
Ganesha runs twice: on a directory whose changes are durable before the reply, as ours are, and on one whose file system
writes them later."""

from __future__ import annotations

import json
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from proof.bench.compare import COMMIT_SECONDS, LIKE_THE_PEERS
from proof.process import Child, checked
from proof.runtime import REPOSITORY, ProofError, free_port, port_answers, wait_until
from proof.servers.base import Server, VolumeSpec
from proof.servers.bulkhead import POOL, Bulkhead

KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20
PERSONALITIES = ("varmail", "webserver", "fileserver", "webproxy")
"""The load of several kinds of server, with files and a depth of their own."""
BUILD_SECONDS = 900.0
FILL_SECONDS = 120.0
SLACK_SECONDS = 60.0
LEG_BYTES = 2 << 30
START_SECONDS = 20.0

NEEDED = ("ganesha.nfsd", "chattr")


@dataclass(frozen=True)
class Point:
    """A load: the arguments of :command:`nfs_load`."""

    name: str
    load: str
    block: int
    depth: int
    small: bool = False
    cpu_us_max: float | None = None
    """The bound of an operation's cost on our server."""
    cpu_ratio_max: float | None = None
    """The bound of its ratio to that of ganesha with durable changes."""
    speed_ratio_min: float | None = None
    """The bound of our speed's ratio to that of the same."""


POINTS = (
    Point("nfs-4k-read-qd1", "read", 4 * KIBIBYTE, 1, small=True, cpu_us_max=25),
    Point("nfs-4k-read-qd32", "read", 4 * KIBIBYTE, 32, small=True, cpu_us_max=15),
    Point("nfs-1m-read-qd4", "read", MEBIBYTE, 4, speed_ratio_min=1.3),
    Point("nfs-1m-write-qd4", "write", MEBIBYTE, 4, cpu_ratio_max=1.1),
    Point("nfs-create-qd1", "create", 0, 1),
    Point("nfs-create-qd32", "create", 0, 32, cpu_ratio_max=1.2),
    *(Point(f"nfs-{name}", name, 0, 0) for name in PERSONALITIES),
    # The other two personalities of filebench: one thread, and blocks of 8 KiB of one file.
    Point("nfs-randomread", "read", 8 * KIBIBYTE, 1),
    Point("nfs-randomwrite", "rewrite", 8 * KIBIBYTE, 1),
    # The form in which Linux's client sends the previous point with ``directio``.
    Point("nfs-randomwrite-durably", "rewrite-durably", 8 * KIBIBYTE, 1),
)
SMALL, LARGE = 64, 512
"""MiB of the file that is read or written."""


def chosen(only: str | None) -> list[Point]:
    """Returns the points with one of these comma-separated strings in their name; without any, all points."""
    return [point for point in POINTS if not only or any(word in point.name for word in only.split(","))]


@dataclass
class Sample:
    """One measurement."""

    server: str
    point: str
    operations_per_second: float
    cpu_us_per_operation: float


class Ganesha(Server):
    """nfs-ganesha on a directory of a plain file system. Only version 4, so that it needs no rpcbind."""

    name = "nfs-ganesha"
    programs = NEEDED
    path = "files"

    def __init__(self, scratch: Path, address: str = "127.0.0.1", port: int = 0):
        super().__init__(scratch, [])
        self.address, self.port = address, port or free_port()

    def prepare(self) -> None:
        for folder in ("files", "recovery"):
            (self.scratch / folder).mkdir()
        (self.scratch / "ganesha.conf").write_text(f"""
            NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {self.port}; Bind_addr = {self.address};
                Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}
            NFSV4 {{ Graceless = true; Minor_Versions = 1, 2; RecoveryRoot = {self.scratch}/recovery; }}
            EXPORT {{ Export_Id = 1; Path = {self.scratch}/files; Pseudo = /{self.path}; Access_Type = RW;
                Squash = No_Root_Squash; SecType = sys; FSAL {{ Name = VFS; }} }}
        """)

    def start(self) -> None:
        files = ["-f", self.scratch / "ganesha.conf", "-L", self.scratch / "ganesha.log", "-p", self.scratch / "ganesha.pid"]
        self.children = [Child("ganesha.nfsd", ["ganesha.nfsd", "-F", *files], self.scratch / "ganesha.out")]

    def wait_ready(self) -> None:
        wait_until(self.name, lambda: port_answers(self.port, self.address), START_SECONDS, poll_seconds=0.1)


class DurableGanesha(Ganesha):
    """The same on a directory of ext4 with the attributes ``S`` and ``D``. They do for what is created in it what the
    mount options ``sync`` and ``dirsync`` do for a file system: names and contents are durable before the reply."""

    name = "ganesha-sync"

    def prepare(self) -> None:
        super().prepare()
        checked(["chattr", "+SD", self.scratch / "files"], START_SECONDS)


class Ours(Bulkhead):
    """A pool on one file of the same disk."""

    path = f"{POOL}/files"

    def __init__(self, scratch: Path):
        super().__init__(scratch, [VolumeSpec("files", 0, is_file=True)], **{**LIKE_THE_PEERS, "leg_bytes": LEG_BYTES})
        self.port = self._nfs_port


def _result(told: str) -> tuple[int, float]:
    """Parses operations and seconds."""
    operations, seconds = told.split()
    return int(operations), float(seconds)


PEERS = (Ganesha, DurableGanesha)


class Run:
    """The measurement of all servers."""

    def __init__(self, scratch: Path, seconds: float):
        self._seconds = seconds
        self._program = REPOSITORY / "target/debug/examples/nfs_load"
        checked([REPOSITORY / "scripts/cargo.sh", "build", "--locked", "-q", "-p", "nfs", "--example", "nfs_load"], BUILD_SECONDS)
        self.servers: list[Ganesha | Ours] = []
        self.samples: list[Sample] = []
        for kind in (Ours, *PEERS):
            directory = scratch / kind.name
            directory.mkdir()
            self.servers.append(kind(directory))

    def start(self) -> None:
        """Starts all servers."""
        for server in self.servers:
            server.prepare()
            server.start()
            server.wait_ready()

    def _words(self, server: Ganesha | Ours, load: str, block: int, depth: int, seconds: float, mebibytes: int) -> list[str]:
        return [str(word) for word in (self._program, f"127.0.0.1:{server.port}", server.path, load, block, depth, seconds, mebibytes)]

    def measure(self, point: Point, turn: Sequence[Ganesha | Ours]) -> None:
        """Measures one point on each server, in this order."""
        for server in turn:
            operations, seconds, used = self._personality(point, server) if point.load in PERSONALITIES else self._load(point, server)
            self.samples.append(Sample(server.name, point.name, operations / seconds, used / operations * 1e6))

    def _load(self, point: Point, server: Ganesha | Ours) -> tuple[int, float, float]:
        """Returns operations, seconds, and seconds of the server's CPU."""
        mebibytes = SMALL if point.small else LARGE
        if point.load in ("read", "rewrite", "rewrite-durably"):
            checked(self._words(server, "fill", 0, 0, FILL_SECONDS, mebibytes), FILL_SECONDS + SLACK_SECONDS)
            self._settle(server)
        before = server.cpu_seconds()
        told = checked(self._words(server, point.load, point.block, point.depth, self._seconds, mebibytes), self._seconds + SLACK_SECONDS)
        if point.load != "read":
            self._settle(server)
        return *_result(told), server.cpu_seconds() - before

    def _personality(self, point: Point, server: Ganesha | Ours) -> tuple[int, float, float]:
        """The same for a load that creates files before the measurement, and removes them after it."""
        words = self._words(server, point.load, 0, 0, self._seconds, 0)
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            timer = threading.Timer(2 * FILL_SECONDS + self._seconds, process.kill)
            timer.start()
            try:
                if process.stdout.readline() != "filled\n":
                    raise ProofError(f"{point.name}: the files were not created on {server.name}")
                self._settle(server)
                before = server.cpu_seconds()
                print("go", file=process.stdin, flush=True)
                told = process.stdout.readline()
                if not told:
                    raise ProofError(f"{point.name}: the load ended on {server.name}")
                self._settle(server)
                return *_result(told), server.cpu_seconds() - before
            finally:
                process.stdin.close()
                process.wait()
                timer.cancel()

    def _settle(self, server: Ganesha | Ours) -> None:
        """Work that is postponed belongs to the writes."""
        if isinstance(server, Ours):
            time.sleep(COMMIT_SECONDS)

    def _figures(self, server: str, point: str, figure: str) -> list[float]:
        return [getattr(one, figure) for one in self.samples if (one.server, one.point) == (server, point)]

    def median(self, server: str, point: str, figure: str) -> float:
        """Returns the median over the repetitions."""
        return statistics.median(self._figures(server, point, figure))

    def ratio(self, point: str, figure: str, peer: str = Ganesha.name) -> float:
        """Returns the median of ours / the peer's, repetition by repetition."""
        pairs = zip(self._figures(Ours.name, point, figure), self._figures(peer, point, figure), strict=True)
        return statistics.median(mine / other for mine, other in pairs)


def main(scratch: Path, out: Path, only: str | None, seconds: float, repetitions: int) -> int:
    """Prints the table; medians over the repetitions, in which the order of the servers alternates."""
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
    _print_table(run, points)
    verdicts = [(point.name, words, met) for point in points for words, met in _verdicts(run, point)]
    for name, words, met in verdicts:
        print(f"{'met   ' if met else 'MISSED'} {name}: {words}")
    print(f"bench nfs: {sum(met for *_, met in verdicts)} of {len(verdicts)} targets met; all figures in {out}")
    return 0


def _print_table(run: Run, points: Sequence[Point]) -> None:
    """Prints the medians, and the ratios of ours to each peer."""
    peers = "".join(f"{peer.name:>14}{'ratio':>7}" for peer in PEERS)
    print(f"{'point':<24}{'operations/s':>14}{peers}{'CPU us/op':>12}{peers}")
    for point in points:
        columns = ""
        for figure, width, digits in (("operations_per_second", 14, 0), ("cpu_us_per_operation", 12, 1)):
            columns += f"{run.median(Ours.name, point.name, figure):>{width}.{digits}f}"
            for peer in PEERS:
                columns += f"{run.median(peer.name, point.name, figure):>14.{digits}f}{run.ratio(point.name, figure, peer.name):>7.2f}"
        print(f"{point.name:<24}{columns}")


def _verdicts(run: Run, point: Point) -> Iterator[tuple[str, bool]]:
    """Yields each target of a point, and whether it is met."""
    if point.cpu_us_max:
        used = run.median(Ours.name, point.name, "cpu_us_per_operation")
        yield f"CPU {used:.1f} us, at most {point.cpu_us_max:g}", used <= point.cpu_us_max
    peer = DurableGanesha.name
    if point.cpu_ratio_max:
        ratio = run.ratio(point.name, "cpu_us_per_operation", peer)
        yield f"CPU {ratio:.2f} times that of {peer}, at most {point.cpu_ratio_max:g}", ratio <= point.cpu_ratio_max
    if point.speed_ratio_min:
        ratio = run.ratio(point.name, "operations_per_second", peer)
        yield f"speed {ratio:.2f} times that of {peer}, at least {point.speed_ratio_min:g}", ratio >= point.speed_ratio_min
