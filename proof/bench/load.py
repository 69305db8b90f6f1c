"""The clients: stock tools, the same one for every server of a protocol.

iSCSI is driven by ``qemu-img bench`` (libiscsi inside). It walks with a fixed step; with a step of
an odd number of blocks near the golden section it visits every block of the volume once, in an
order that no read-ahead can use. NBD is driven by fio's nbd engine.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass

from proof.bench.points import Access, Point
from proof.clients.base import drive, drive_until
from proof.clients.iscsi import IscsiAddress, IscsiClient
from proof.clients.nbd import NbdAddress
from proof.process import checked
from proof.runtime import ProofError

CALIBRATION_OPERATIONS = 400
SLACK_SECONDS = 60.0
GOLDEN = 0.6180339887
LATENCY_SECONDS = 0.7
FLUSH_SECONDS = 60.0


@dataclass(frozen=True)
class Load:
    """The result of a client."""

    operations: int
    seconds: float
    p99_us: float | None = None

    def iops(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


def _step(point: Point, size: int) -> int:
    """Bytes between the starts of two requests."""
    if not point.random:
        return point.block
    return (int(size / point.block * GOLDEN) | 1) * point.block


def _qemu(address: IscsiAddress, point: Point, size: int, count: int, seconds: float) -> float:
    """Runs ``count`` requests; returns the seconds that qemu-img itself measured."""
    argv = ["qemu-img", "bench", "-f", "raw", "-c", str(count), "-d", str(point.depth), "-s", str(point.block)]
    argv += ["-S", str(_step(point, size)), "-t", "writethrough" if point.sync else "none"]
    if point.access is Access.WRITE:
        # Not zeroes: a server that stores zeroes as holes would win for nothing.
        argv += ["-w", "--pattern=165"]
    output = checked([*argv, address.url], seconds + SLACK_SECONDS)
    match = re.search(r"completed in ([\d.]+) seconds", output)
    if not match:
        raise ProofError(f"qemu-img bench did not say how long it took:\n{output}")
    return max(float(match[1]), 0.001)


class IscsiLoad:
    """Runs points over iSCSI; stores how many requests fill the required time."""

    protocol = "iscsi"

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def calibrate(self, server: str, address: IscsiAddress, point: Point, size: int, seconds: float) -> None:
        """Finds the number of requests for ``seconds``, once for each server and point."""
        if (server, point.name) in self._counts:
            return
        count, took = CALIBRATION_OPERATIONS, 0.0
        while took < 0.25 and count < 1 << 22:
            count *= 3
            took = _qemu(address, point, size, count, seconds)
        self._counts[server, point.name] = max(CALIBRATION_OPERATIONS, int(count / took * seconds))

    def run(self, server: str, address: IscsiAddress, point: Point, size: int, seconds: float) -> Load:
        """One measurement."""
        count = self._counts[server, point.name]
        started = time.perf_counter()
        took = _qemu(address, point, size, count, seconds)
        if point.flushed:
            # Includes qemu-img's start and end, at which it flushes too.
            _flush(address)
            took = time.perf_counter() - started
        return Load(count, took)


def _flush(address: IscsiAddress) -> None:
    """Flushes all data, including that of other clients (SYNCHRONIZE CACHE)."""
    client = IscsiClient(address, "iqn.2026-01.org.example:proof-flush")
    answers: list[bool] = []
    client.flush(answers.append)
    drive_until([client], lambda: bool(answers), FLUSH_SECONDS, "flush")
    client.log_out()
    if answers != [True]:
        raise ProofError(f"{address.url}: a flush failed: {client.last_error}")


def fio(address: NbdAddress, point: Point, size: int, seconds: float) -> Load:
    """One measurement over NBD; fio reports the 99th percentile too."""
    mode = ("rand" if point.random else "") + point.access.value
    argv = ["fio", "--name=bench", "--ioengine=nbd", f"--uri={address.uri}", f"--rw={mode}", f"--bs={point.block}"]
    argv += [f"--iodepth={point.depth}", f"--size={size}", "--time_based", f"--runtime={seconds}", "--output-format=json"]
    argv += ["--norandommap", "--randrepeat=1", *(["--fsync=1"] if point.sync else [])]
    output = checked(argv, seconds + SLACK_SECONDS)
    job = json.loads(output[output.index("{") :])["jobs"][0][point.access.value]
    p99 = job["clat_ns"].get("percentile", {}).get("99.000000")
    return Load(int(job["total_ios"]), job["runtime"] / 1000, p99 / 1000 if p99 else None)


def iscsi_p99_us(address: IscsiAddress, point: Point, size: int) -> float:
    """The 99th percentile at depth 1, by our own driver of libiscsi: qemu-img reports no latencies.

    Not counted into CPU or speed: the interpreter costs some 40 us a request, the same for every server.
    """
    client = IscsiClient(address, "iqn.2026-01.org.example:proof-latency")
    taken: list[float] = []
    data = bytearray(b"\xa5" * point.block)
    block, step = 0, _step(point, size)
    deadline = time.monotonic() + LATENCY_SECONDS
    while time.monotonic() < deadline:
        answers: list[object] = []
        offset = block * step % size // point.block * point.block
        block += 1
        started = time.perf_counter()
        if point.access is Access.WRITE:
            client.write(offset, data, point.sync, answers.append)
        else:
            client.read(offset, point.block, answers.append)
        while not answers:
            drive([client], 1.0)
        taken.append(time.perf_counter() - started)
    client.log_out()
    taken.sort()
    return taken[int(len(taken) * 0.99)] * 1e6
