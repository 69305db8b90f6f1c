"""The cost of an operation when many connections share a volume, or are spread over several volumes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from proof.bench.compare import COMMIT_SECONDS
from proof.bench.counters import FioResult, parse_fio
from proof.bench.points import MEBIBYTE
from proof.process import Child, checked
from proof.runtime import ProofError
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import Bulkhead

CONNECTIONS = (1, 2, 8, 32)
VOLUMES = (1, 8)
VOLUME_BYTES = 64 * MEBIBYTE
DEPTH = 4
"""Of each connection."""
LOADS = ("randread", "randwrite")
GROWTH_MAX = 1.25
"""The bound of an operation's cost, as a multiple of the cost with one connection on one volume."""
FIO_SLACK_SECONDS = 120.0
PERF_HERTZ = 499
LOCK = re.compile(r"mutex|rwlock|rw_enter|rw_exit|rrw_|lll_lock|spin_lock|futex|osq_lock", re.I)
"""Functions that acquire, release or block on locks."""
PERF_LINE = re.compile(r"^\s*([\d.]+)%\s+\[[.k]\]\s+(.+?)\s*$")


@dataclass
class Sample:
    """One number of connections on one number of volumes."""

    load: str
    volumes: int
    connections: int
    operations_per_second: float
    cpu_us_per_operation: float
    p99_us: float | None
    lock_share: float | None
    """The share of the server's CPU samples in functions of locks, blocked or not. None without perf."""


def _fio(server: Bulkhead, load: str, volumes: int, connections: int, seconds: float) -> FioResult:
    words = ["fio", "--output-format=json", "--group_reporting", "--time_based", f"--runtime={seconds:g}", f"--rw={load}", "--bs=4k"]
    words += [f"--iodepth={DEPTH}", f"--size={VOLUME_BYTES}", "--randrepeat=0", "--norandommap", "--refill_buffers", "--thread", "--ioengine=nbd"]
    jobs = min(volumes, connections)
    for index in range(jobs):
        export = server.nbd(f"v{index}")
        if export is None:
            raise ProofError(f"v{index} is not exported")
        words += [f"--name=v{index}", f"--uri={export.uri}", f"--numjobs={connections // jobs}"]
    return parse_fio(checked(words, seconds + FIO_SLACK_SECONDS))


def lock_share(report: str) -> float:
    """The share of locks in ``perf report --sort symbol``."""
    rows = [match for line in report.splitlines() if (match := PERF_LINE.match(line))]
    total = sum(float(row[1]) for row in rows)
    if not total:
        raise ProofError(f"perf reported nothing:\n{report[-500:]}")
    return sum(float(row[1]) for row in rows if LOCK.search(row[2])) / total


def _sample(server: Bulkhead, load: str, volumes: int, connections: int, seconds: float) -> Sample:
    data = server.scratch / "perf.data"
    recorder = None
    if shutil.which("perf"):
        argv = ["perf", "record", "-F", str(PERF_HERTZ), "-o", str(data), "-p", str(server.children[0].pid)]
        recorder = Child("perf", argv, server.scratch / "perf.log")
    before = server.cpu_seconds()
    done = _fio(server, load, volumes, connections, seconds)
    share = None
    if recorder is not None:
        recorder.signal(signal.SIGINT)
        recorder.stop()
        report = checked(["perf", "report", "--stdio", "-i", str(data), "--fields", "overhead,symbol"], FIO_SLACK_SECONDS)
        share = lock_share(report)
    if load != "randread":
        # Postponed work is charged, too.
        time.sleep(COMMIT_SECONDS)
    cpu = server.cpu_seconds() - before
    rate = done.operations / done.seconds
    return Sample(load, volumes, connections, rate, cpu / done.operations * 1e6, done.p99_us, share)


def _row(sample: Sample, first: Sample) -> str:
    growth = sample.cpu_us_per_operation / first.cpu_us_per_operation
    p99 = f"{sample.p99_us:.0f}" if sample.p99_us else "-"
    share = f"{sample.lock_share * 100:.0f} %" if sample.lock_share is not None else "-"
    rate, cpu = sample.operations_per_second, sample.cpu_us_per_operation
    return f"{sample.load:<10} {sample.volumes:>7} {sample.connections:>11} {rate:>8.0f} {cpu:>7.1f} {growth:>8.2f} {p99:>8} {share:>6}"


def main(scratch: Path, out: Path, seconds: float) -> int:
    """Prints CPU of an operation by connections and volumes, and how it grows."""
    off = (("compression", "off"),)
    volumes = [VolumeSpec(f"v{index}", VOLUME_BYTES, 4096, off) for index in range(max(VOLUMES))]
    samples: list[Sample] = []
    with Bulkhead(scratch, volumes, leg_count=1, leg_bytes=4 << 30) as server:
        for volume in volumes:
            export = server.nbd(volume.name)
            fill = ["fio", "--name=fill", "--ioengine=nbd", "--rw=write", "--bs=1M", f"--size={VOLUME_BYTES}", "--iodepth=4", "--refill_buffers"]
            checked([*fill, f"--uri={export.uri if export else ''}"], FIO_SLACK_SECONDS)
        print(f"{'load':<10} {'volumes':>7} {'connections':>11} {'IOPS':>8} {'CPU us':>7} {'to first':>8} {'p99 us':>8} {'locks':>6}")
        for load in LOADS:
            first = None
            for count in VOLUMES:
                for connections in CONNECTIONS:
                    if connections < count and count > 1:
                        continue
                    sample = _sample(server, load, count, connections, seconds)
                    first = first or sample
                    samples.append(sample)
                    print(_row(sample, first), flush=True)
    out.write_text(json.dumps([asdict(sample) for sample in samples], indent=2) + "\n")
    print(f"bench scaling: an operation may cost {GROWTH_MAX} x the first of its load; all figures in {out}")
    return 0
