"""A pool with legs on two heads, compared with the cost of its parts: docs/guide/legs.md, "What it costs"."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from proof import runtime
from proof.bench import relay
from proof.bench.counters import FioResult, p99_us_of, parse_fio
from proof.bench.media import LoopDevices
from proof.bench.points import KIBIBYTE, MEBIBYTE
from proof.bench.throttle import HeldDisks
from proof.legs.cables import LENDS, Cables
from proof.legs.machines import WITNESS_NUMBER, Head, Machines
from proof.process import Child, checked, tree_cpu_seconds
from proof.runtime import ProofError, free_port

DISK_BYTES = 3 << 30
FLASH_BYTES = 2 << 30
VOLUME_BYTES = 768 * MEBIBYTE
ARC_BYTES = 64 * MEBIBYTE
"""Much smaller than the volume, so that reads reach a leg."""
DELAYS_US = (0, 100, 500)
SEQUENTIAL, SYNCHRONOUS, READS, RETURN = "legs-1m-write", "legs-4k-sync", "legs-reads-at-home", "legs-return"
BALANCED = "legs-reads-balanced"
CABLES_GBIT = (1, 10)
BLOCKS = {"": "16K", "-128k": "128K"}
"""Block sizes of the volume that is written sequentially: the default, and the one of the guide for such volumes."""
POINTS = (
    *(SEQUENTIAL + suffix for suffix in BLOCKS),
    *(f"{SYNCHRONOUS}-{delay}us" for delay in DELAYS_US),
    READS,
    BALANCED,
    RETURN,
    *(f"{SEQUENTIAL}{suffix}-{rate}gbit" for suffix in BLOCKS for rate in CABLES_GBIT),
)
HELD_BYTES_S = 200_000_000
"""What a disk writes in a second where disks and cables are the limit."""
HELD_READS_S = 4000
"""What a disk reads in a second where reads are balanced."""
MODES = ("prefer-local", "least-pending")
HELD_SECONDS = 15.0
"""There, so that the first transaction group, which begins when the first writes have filled memory, is a small part."""
HELD_ARC_BYTES = 1024 * MEBIBYTE
"""There: dirty data is a share of the cache, and a transaction group of a few MiB costs as many round trips as a large one."""
SLACK_SECONDS = 180.0
CURRENT_SECONDS = 300.0
AWAY_BYTES = 512 * MEBIBYTE
"""Written while a leg is away, so that the copy lasts some seconds."""
COPY_SECONDS_MIN = 20.0
"""Clients are measured during copies for so long at least; the leg is away several times for that."""
COPY_ROUNDS_MAX = 20
COPY_PARTS_BEFORE = 5
COPY_PART_SECONDS = 1.0
"""One measurement. The one in which the copy ends does not count."""
SEQUENTIAL_SHARE_MIN = 0.95
"""Where disks and cables are the limit."""
SYNCHRONOUS_RATIO_MAX = {0: 1.5, 100: 1.25, 500: 1.15}
CPU_OF_LOCAL_MAX = {SEQUENTIAL: 1.3, SYNCHRONOUS: 1.6}
"""CPU of the pool server, as a multiple of that of the same pool with both disks on one head."""
LENDER_US_MAX = {SEQUENTIAL: 500.0, SYNCHRONOUS: 60.0}
P99_RATIO_MAX = 2.0


@dataclass
class Row:
    """One figure, and its bound."""

    point: str
    figure: str
    value: float
    beside: str
    bound: str
    is_kept: bool


class Bench:
    """Runs all points, one after the other, on heads of their own."""

    def __init__(self, program: Path, scratch: Path, seconds: float, repetitions: int):
        self._program, self._scratch = program, scratch
        self._seconds, self._repetitions = seconds, repetitions
        self._loops = LoopDevices()
        self.rows: list[Row] = []
        self.details: dict[str, object] = {}

    def _add(self, point: str, figure: str, value: float, beside: str, bound: str = "", is_kept: bool = True) -> None:
        row = Row(point, figure, value, beside, bound, is_kept)
        self.rows.append(row)
        print(_line(row), flush=True)

    def _machines(self, name: str, make_disk: Callable[[Path], Path] | None = None, block: str = BLOCKS[""]) -> Machines:
        folder = self._scratch / name
        folder.mkdir()
        return Machines(self._program, folder, make_disk or self._disk, VOLUME_BYTES, block_size=block)

    def _disk(self, path: Path, size: int = DISK_BYTES) -> Path:
        """A block device with this name."""
        path.symlink_to(self._loops.attach(path.with_name(f"{path.name}.backing"), size))
        return path

    def _flash_disk(self, path: Path) -> Path:
        """The same, which does not rotate: the library chooses among the disks of a mirror by that, too."""
        disk = self._disk(path, FLASH_BYTES)
        Path("/sys/block", disk.resolve().name, "queue/rotational").write_text("0")
        return disk

    def run(self, chosen: Sequence[str]) -> None:
        """Measures the points of these names."""
        for suffix, block in BLOCKS.items():
            if SEQUENTIAL + suffix in chosen:
                self._on_disks(lambda point=SEQUENTIAL + suffix, block=block: self._sequential(point, block))
        for delay in DELAYS_US:
            if f"{SYNCHRONOUS}-{delay}us" in chosen:
                self._on_disks(lambda delay=delay: self._synchronous(delay))
        if READS in chosen or RETURN in chosen:
            self._on_disks(lambda: self._reads_and_return(chosen))
        if BALANCED in chosen:
            self._on_disks(self._reads_balanced)
        # The last ones: they leave the network of this machine.
        for suffix, block in BLOCKS.items():
            for rate in CABLES_GBIT:
                if f"{SEQUENTIAL}{suffix}-{rate}gbit" in chosen:
                    self._on_disks(lambda suffix=suffix, rate=rate, block=block: self._sequential_held(f"{SEQUENTIAL}{suffix}-{rate}gbit", rate, block))

    def _on_disks(self, measure: Callable[[], None]) -> None:
        """The disks that it makes are gone afterwards."""
        try:
            measure()
        finally:
            self._loops.detach()

    def _reads_and_return(self, chosen: Sequence[str]) -> None:
        pair = self._machines("reads")
        try:
            _fill(pair.a)
            if READS in chosen:
                self._reads(pair)
            if RETURN in chosen:
                self._return(pair)
        finally:
            pair.kill_all()

    def _local(self, name: str, block: str) -> _LocalMirror:
        folder = self._scratch / f"local-{name}"
        folder.mkdir()
        return _LocalMirror(self._program, folder, self._disk, block)

    def _sequential(self, point: str, block: str) -> None:
        pair, plain = self._machines(point, block=block), self._scratch / point / "plain"
        plain.mkdir()
        local, remote = (self._disk(plain / name, VOLUME_BYTES) for name in ("local", "remote"))
        port = free_port()
        server = Child("qemu-nbd", _plain_server(remote, port), plain / "qemu-nbd.log")
        shares, ours_rates, raw_rates = [], [], []
        words = ["--rw=write", "--bs=1M", "--iodepth=4", f"--size={VOLUME_BYTES}", "--end_fsync=1", "--refill_buffers"]
        used = _Cpu(pair)
        operations = 0
        try:
            _fill(pair.a)
            runtime.wait_until("qemu-nbd listens", lambda: _listens(port), SLACK_SECONDS, 0.05)
            for repetition in range(self._repetitions):

                def raw(words: Sequence[str] = words) -> float:
                    # Both concurrently, like the writes of a mirror; the slower one counts.
                    jobs = ["--name=local", "--ioengine=libaio", "--direct=1", f"--filename={local}", *words]
                    jobs += ["--name=remote", "--ioengine=nbd", f"--uri=nbd://127.0.0.1:{port}", *words]
                    return min(_job_rates(jobs))

                def ours(words: Sequence[str] = words) -> float:
                    return min(_job_rates(["--name=ours", *_volume(pair.a), *words]))

                used.begin()
                first, second = (raw, ours) if repetition % 2 else (ours, raw)
                rates = {first: first(), second: second()}
                used.end()
                operations += VOLUME_BYTES // MEBIBYTE
                ours_rates.append(rates[ours])
                raw_rates.append(rates[raw])
                shares.append(rates[ours] / rates[raw])
        finally:
            server.kill()
            pair.kill_all()
        share = statistics.median(shares)
        beside = f"{statistics.median(ours_rates):.0f} MB/s; raw double write {statistics.median(raw_rates):.0f} MB/s"
        self._add(point, "of the raw double write", share, beside)
        self._cpu(point, SEQUENTIAL, used, operations, words, block)
        self.details[point] = {"ours_mb_s": ours_rates, "raw_mb_s": raw_rates}

    def _cpu(self, point: str, kind: str, used: _Cpu, operations: int, words: Sequence[str], block: str = BLOCKS[""]) -> FioResult:
        """CPU of both ends, and that of the same pool with both disks on one head; returns the result of the same load there."""
        local = self._local(point, block)
        try:
            done, local_us = local.measure(words)
        finally:
            local.kill()
        spent = {name: seconds / operations * 1e6 for name, seconds in used.spent().items()}
        for name, us in spent.items():
            bound = LENDER_US_MAX[kind] if name == "lender" else CPU_OF_LOCAL_MAX[kind] * local_us
            beside = f"a pool server with both disks: {local_us:.0f} us" if name != "lender" else ""
            self._add(point, f"CPU us/op, {name}", us, beside, f"<= {bound:.0f}", us <= bound)
        return done

    def _sequential_held(self, point: str, gbit: int, block: str) -> None:
        """Disks and cables are the limit: each disk writes 200 MB/s, and the cable carries so many Gb/s."""
        folder = self._scratch / point
        folder.mkdir()
        cables = Cables((1, 2, WITNESS_NUMBER), folder)
        for number in (1, 2):
            shape = f"tc qdisc replace dev cable root tbf rate {gbit}gbit burst {gbit * 256}kb latency 20ms"
            checked(cables.there(number, shape.split()), SLACK_SECONDS)
        pair = Machines(self._program, folder, self._disk, VOLUME_BYTES, cables=cables, block_size=block)
        plain = folder / "plain"
        plain.mkdir()
        local, remote = (self._disk(plain / name, VOLUME_BYTES) for name in ("local", "remote"))
        disks = HeldDisks(point, self._loops.devices(), HELD_BYTES_S)
        address, port = cables.address(2, LENDS), free_port()
        # The kernel counts a large write of io_uring to such a disk twice.
        plain_server = disks.there(cables.there(2, _plain_server(remote, port, address, "native")))
        server = Child("qemu-nbd", plain_server, plain / "qemu-nbd.log")
        words = ["--rw=write", "--bs=1M", "--iodepth=4", f"--size={VOLUME_BYTES}", "--end_fsync=1", "--refill_buffers"]
        words += ["--time_based", f"--runtime={HELD_SECONDS:g}"]
        jobs = ["--name=local", "--ioengine=libaio", "--direct=1", f"--filename={local}", *words]
        jobs += ["--name=remote", "--ioengine=nbd", f"--uri=nbd://{address}:{port}", *words]
        ours_rates, raw_rates = [], []
        try:
            _fill(pair.a, HELD_ARC_BYTES)
            assert pair.a.server and pair.b.lender
            disks.take(pair.a.server.pid)
            disks.take(pair.b.lender.pid)
            for _ in range(self._repetitions):
                raw_rates.append(min(_job_rates(jobs, lambda words: disks.there(cables.there(1, words)))))
                ours_rates += _job_rates(["--name=ours", *_volume(pair.a), *words])
        finally:
            server.kill()
            pair.kill_all()
            disks.end()
        share = statistics.median(ours / raw for ours, raw in zip(ours_rates, raw_rates, strict=True))
        beside = f"{statistics.median(ours_rates):.0f} MB/s; raw double write {statistics.median(raw_rates):.0f} MB/s; disks of 200 MB/s"
        self._add(point, "of the raw double write", share, beside, f">= {SEQUENTIAL_SHARE_MIN}", share >= SEQUENTIAL_SHARE_MIN)
        self.details[point] = {"ours_mb_s": ours_rates, "raw_mb_s": raw_rates}

    def _synchronous(self, delay_us: int) -> None:
        point = f"{SYNCHRONOUS}-{delay_us}us"
        pair = self._machines(point)
        children: list[Child] = []
        try:
            _fill(pair.a)
            if delay_us:
                children.append(_slow_way(pair, delay_us))
            path, trip = self._disk(pair.folder / "plain", 256 * MEBIBYTE), self._trip(pair.folder, delay_us, children)
            words = ["--rw=randwrite", "--bs=4k", "--iodepth=1", "--time_based", f"--runtime={self._seconds:g}", "--norandommap"]
            ratios, rows = [], []
            used, operations = _Cpu(pair), 0
            for _ in range(self._repetitions):
                disk = ["--ioengine=libaio", "--direct=1", f"--filename={path}", "--size=256M", "--fdatasync=1"]
                local_us = _mean_us(_fio(["--name=local", *disk, *words]))
                trip_us = trip()
                used.begin()
                done = _fio(["--name=ours", *_volume(pair.a), *words, f"--size={VOLUME_BYTES}", "--fsync=1"])
                used.end()
                operations += done.operations
                ours_us = _mean_us(done)
                ratios.append(ours_us / max(local_us, trip_us + local_us))
                rows.append((ours_us, local_us, trip_us))
        finally:
            for child in children:
                child.kill()
            pair.kill_all()
        ratio = statistics.median(ratios)
        ours_us, local_us, trip_us = (statistics.median(row[index] for row in rows) for index in range(3))
        beside = f"{ours_us:.0f} us; a write and its flush {local_us:.0f} us, a round trip {trip_us:.0f} us"
        bound = SYNCHRONOUS_RATIO_MAX[delay_us]
        self._add(point, "of round trip + remote write", ratio, beside, f"<= {bound}", ratio <= bound)
        one_head_us = _mean_us(self._cpu(point, SYNCHRONOUS, used, operations, [*words, f"--size={VOLUME_BYTES}", "--fsync=1"]))
        self._add(point, "of a pool with both disks", ours_us / one_head_us, f"{one_head_us:.0f} us with both disks on one head")
        self.details[point] = [dict(zip(("ours_us", "local_us", "trip_us"), row, strict=True)) for row in rows]

    def _trip(self, folder: Path, delay_us: int, children: list[Child]) -> Callable[[], float]:
        """Returns the duration of a write of 4 KiB to a server that stores no data, over the same path: the round
        trip."""
        port = free_port()
        argv = ["nbdkit", "--foreground", "--ipaddr=127.0.0.1", f"--port={port}", "null", "256M"]
        children.append(Child("nbdkit", argv, folder / "nbdkit.log"))
        runtime.wait_until("nbdkit listens", lambda: _listens(port), SLACK_SECONDS, 0.05)
        if delay_us:
            way = free_port()
            children.append(_relay(folder, f"127.0.0.1:{way}", f"127.0.0.1:{port}", delay_us))
            port = way
        words = ["--name=trip", "--ioengine=nbd", f"--uri=nbd://127.0.0.1:{port}", "--rw=randwrite", "--bs=4k", "--iodepth=1"]
        words += ["--size=256M", "--time_based", f"--runtime={self._seconds:g}", "--norandommap"]
        return lambda: _mean_us(_fio(words))

    def _reads(self, pair: Machines) -> None:
        words = ["--name=reads", *_volume(pair.a), "--rw=randread", "--bs=4k", "--iodepth=32", f"--size={VOLUME_BYTES}"]
        before = _reads_of_legs(pair.a)
        done = _fio([*words, "--time_based", f"--runtime={self._seconds:g}", "--norandommap"])
        after = _reads_of_legs(pair.a)
        home, away = (after[disk] - before[disk] for disk in ("11", "22"))
        if home == 0:
            raise ProofError("no read reached a leg: the cache is too large for this measurement")
        beside = f"{home} reads of the head's own leg, {away} of the other head's, for {done.operations} of the client"
        self._add(READS, "reads that left the head", float(away), beside, "= 0", away == 0)

    def _reads_balanced(self) -> None:
        """Both modes in turn. Each disk serves so many reads a second: two disks on a faster one have no gain to show."""
        pair = self._machines(BALANCED, self._flash_disk)
        disks = HeldDisks(BALANCED, self._loops.devices(), reads_s=HELD_READS_S)
        words = ["--name=reads", *_volume(pair.a), "--rw=randread", "--bs=4k", "--iodepth=32", f"--size={VOLUME_BYTES}"]
        words += ["--time_based", f"--runtime={self._seconds:g}", "--norandommap"]
        rates: dict[str, list[float]] = {mode: [] for mode in MODES}
        shares: dict[str, list[float]] = {mode: [] for mode in MODES}
        try:
            _fill(pair.a)
            assert pair.a.server and pair.b.lender
            disks.take(pair.a.server.pid)
            disks.take(pair.b.lender.pid)
            for _ in range(self._repetitions):
                for mode in MODES:
                    pair.a.command("pool", "read-balancing", "tank", mode)
                    before = _reads_of_legs(pair.a)
                    done = _fio(words)
                    after = _reads_of_legs(pair.a)
                    home, away = (after[disk] - before[disk] for disk in ("11", "22"))
                    rates[mode].append(done.operations / done.seconds)
                    shares[mode].append(away / (home + away))
        finally:
            pair.kill_all()
            disks.end()
        home_rate, rate = (statistics.median(rates[mode]) for mode in MODES)
        beside = f"{rate:.0f} a second, {home_rate:.0f} with {MODES[0]}; disks of {HELD_READS_S} reads a second"
        self._add(BALANCED, "reads, times", rate / home_rate, beside)
        for mode in MODES:
            self._add(BALANCED, f"share of the other head, {mode}", statistics.median(shares[mode]), "")
        self.details[BALANCED] = {"reads_s": rates, "away": shares}

    def _return(self, pair: Machines) -> None:
        """Clients before and during a copy in turn, so that both have the same host."""
        client = ["--name=client", *_volume(pair.a), "--rw=randwrite", "--bs=4k", "--iodepth=4", f"--size={VOLUME_BYTES}"]
        client += ["--time_based", "--norandommap", "--refill_buffers"]
        before: list[FioResult] = []
        beside: list[FioResult] = []
        copied_bytes, copy_seconds, rounds = 0, 0.0, 0
        while sum(done.seconds for done in beside) < COPY_SECONDS_MIN:
            rounds += 1
            if rounds > COPY_ROUNDS_MAX:
                raise ProofError(f"{COPY_ROUNDS_MAX} copies were over before clients were measured for {COPY_SECONDS_MIN:g} s during them")
            time.sleep(COMMIT_SECONDS)
            before += [_fio([*client, f"--runtime={COPY_PART_SECONDS:g}"], "json+") for _ in range(COPY_PARTS_BEFORE)]
            self._miss(pair)
            written = _written_of_leg(pair.a, "22")
            pair.b.start_lender()
            runtime.wait_until("the leg receives its missing data", lambda: _state(pair.a, "b") in ("copying", "current"), CURRENT_SECONDS, 0.02)
            began = time.monotonic()
            while _state(pair.a, "b") == "copying":
                done = _fio([*client, f"--runtime={COPY_PART_SECONDS:g}"], "json+")
                if _state(pair.a, "b") == "copying":
                    beside.append(done)
            copy_seconds += time.monotonic() - began
            copied_bytes += _written_of_leg(pair.a, "22") - written
        quiet, during = p99_us_of(before), p99_us_of(beside)
        ratio = during / quiet
        seconds = sum(done.seconds for done in beside)
        text = f"p99 {during:.0f} us during {rounds} copies, {quiet:.0f} us before them ({seconds:.0f} s measured)"
        self._add(RETURN, "p99 of clients, times", ratio, text, f"<= {P99_RATIO_MAX:g}", ratio <= P99_RATIO_MAX)
        rates = [sum(one.operations for one in part) / sum(one.seconds for one in part) for part in (before, beside)]
        self._add(RETURN, "operations of clients, share", rates[1] / rates[0], f"{rates[1]:.0f} a second during copies, {rates[0]:.0f} before")
        text = f"{copied_bytes / copy_seconds / 1e6:.0f} MB/s to the leg, with the client writes of that time; {AWAY_BYTES / 1e6:.0f} MB were missed"
        self._add(RETURN, "seconds of a copy", copy_seconds / rounds, text)
        self.details[RETURN] = {"before_us": [done.p99_us for done in before], "during_us": [done.p99_us for done in beside]}

    def _miss(self, pair: Machines) -> None:
        """The leg of b is stale, and misses so much."""
        pair.b.kill_lender()
        away = ["--name=away", *_volume(pair.a), "--rw=write", "--bs=1M", "--iodepth=4", f"--size={AWAY_BYTES}", "--end_fsync=1"]
        _fio([*away, "--refill_buffers"])
        runtime.wait_until("the leg is stale", lambda: _state(pair.a, "b") == "stale", CURRENT_SECONDS, 0.1)


class _LocalMirror:
    """The same pool with both disks on one head, and no record of legs."""

    def __init__(self, program: Path, folder: Path, make_disk: Callable[[Path], Path], block: str):
        self._program, self._folder = program, folder
        self._env = {"BULKHEAD_RUN_DIR": str(folder / "run"), "BULKHEAD_STATE_DIR": str(folder / "state")}
        disks = [make_disk(folder / name) for name in ("one", "other")]
        self._command("pool", "create", "tank", "mirror", *(str(disk) for disk in disks))
        socket, log = folder / "nbd.sock", folder / "server.log"
        options = ["--no-iscsi", "--nbd", f"unix:{socket}", "--ready-fd", "1", "--arc-size", str(ARC_BYTES)]
        self._server = Child("pool server", [program, "pool-server", "tank", *options], log, self._env)
        runtime.wait_until("the pool is served", lambda: b"READY" in log.read_bytes(), SLACK_SECONDS, 0.05)
        self._command("volume", "create", "tank/v", "--size", str(VOLUME_BYTES), "--block-size", block, "--sparse")
        self._command("nbd", "export", "tank/v", "--name", "v")
        self._volume = ["--ioengine=nbd", f"--uri=nbd+unix:///v?socket={socket}"]

    def _command(self, *words: str) -> None:
        checked([self._program, *words], SLACK_SECONDS, env=self._env)

    def measure(self, words: Sequence[str]) -> tuple[FioResult, float]:
        """Runs that load on a volume that was filled before; returns its result and its CPU microseconds per operation."""
        fill = ["--rw=write", "--bs=1M", "--iodepth=4", f"--size={VOLUME_BYTES}", "--refill_buffers", "--end_fsync=1"]
        _fio(["--name=fill", *self._volume, *fill])
        time.sleep(COMMIT_SECONDS)
        before = tree_cpu_seconds(self._server.pid)
        done = _fio(["--name=local", *self._volume, *words])
        time.sleep(COMMIT_SECONDS)
        return done, (tree_cpu_seconds(self._server.pid) - before) / done.operations * 1e6

    def kill(self) -> None:
        """The end."""
        self._server.kill()


class _Cpu:
    """The CPU that both sides use during a measurement."""

    def __init__(self, pair: Machines):
        self._pair = pair
        self._begun: dict[str, float] = {}
        self._spent: dict[str, float] = {}

    def _now(self) -> dict[str, float]:
        children = {"pool server": self._pair.a.server, "lender": self._pair.b.lender}
        return {name: tree_cpu_seconds(child.pid) for name, child in children.items() if child}

    def begin(self) -> None:
        """Starts the measurement."""
        self._begun = self._now()

    def end(self) -> None:
        """Stops the measurement, with the postponed work included."""
        time.sleep(COMMIT_SECONDS)
        for name, seconds in self._now().items():
            self._spent[name] = self._spent.get(name, 0.0) + seconds - self._begun[name]

    def spent(self) -> dict[str, float]:
        """Returns the CPU seconds by process."""
        return self._spent


COMMIT_SECONDS = 3.0
"""By then a transaction group is written."""


def _fio(words: Sequence[str], form: str = "json") -> FioResult:
    return parse_fio(checked(["fio", f"--output-format={form}", "--randrepeat=0", *words], SLACK_SECONDS))


def _job_rates(words: Sequence[str], there: Callable[[list[str | Path]], list[str | Path]] = lambda words: words) -> list[float]:
    """MB/s that each job wrote, with the flush at its end."""
    output = checked(there(["fio", "--output-format=json", *words]), SLACK_SECONDS)
    jobs = json.loads(output[output.index("{") :])["jobs"]
    return [job["write"]["io_bytes"] / job["job_runtime"] / 1e3 for job in jobs]


def _mean_us(result: FioResult) -> float:
    """Returns the mean duration of one operation and its flush, at depth 1."""
    return result.seconds / result.operations * 1e6


def _volume(head: Head) -> list[str]:
    return ["--ioengine=nbd", f"--uri=nbd+unix:///v?socket={head.folder}/nbd.sock"]


def _serve_anew(head: Head, arc_bytes: int = ARC_BYTES) -> None:
    """With a cache of that size."""
    head.kill_server()
    if refusal := head.serve("--arc-size", str(arc_bytes)):
        raise ProofError(f"the pool is not served: {refusal}")
    runtime.wait_until("both legs are current", head.all_current, CURRENT_SECONDS, 0.1)


def _fill(head: Head, arc_bytes: int = ARC_BYTES) -> None:
    """Writes the volume once."""
    _serve_anew(head, arc_bytes)
    _fio(["--name=fill", *_volume(head), "--rw=write", "--bs=1M", "--iodepth=4", f"--size={VOLUME_BYTES}", "--refill_buffers", "--end_fsync=1"])


def _plain_server(path: Path, port: int, address: str = "127.0.0.1", aio: str = "io_uring") -> list[str | Path]:
    return ["qemu-nbd", "-t", "-e", "16", "--cache=none", f"--aio={aio}", "-f", "raw", "-b", address, "-p", str(port), path]


def _listens(port: int) -> bool:
    listening = Path("/proc/net/tcp").read_text().splitlines()
    return any(f":{port:04X} 00000000:0000 0A" in line for line in listening)


def _relay(folder: Path, listen: str, target: str, delay_us: int) -> Child:
    log = folder / f"relay-{listen.rpartition(':')[2]}.log"
    child = Child("relay", [sys.executable, "-m", relay.__name__, listen, target, str(delay_us)], log)
    runtime.wait_until("the relay listens", lambda: b"READY" in log.read_bytes(), SLACK_SECONDS, 0.02)
    return child


def _slow_way(pair: Machines, delay_us: int) -> Child:
    """Puts a relay between head a and the disk of b, from the next start of its server on."""
    direct = f"{pair.b.address}:7072"
    way = f"127.0.0.1:{free_port()}"
    child = _relay(pair.folder, way, direct, delay_us)
    pair.a.config.write_text(pair.a.config.read_text().replace(direct, way))
    _serve_anew(pair.a)
    return child


def _load(head: Head) -> dict[str, dict[str, int]]:
    """Returns the counters of ``pool iostat``, by the number of the disk."""
    found: dict[str, dict[str, int]] = {}

    def look(device: dict[str, object]) -> None:
        members = device.get("members") or []
        assert isinstance(members, list)
        for member in members:
            look(member)
        if not members:
            found[str(device["name"]).rpartition("/")[2]] = device  # type: ignore[assignment]

    look(json.loads(head.command("pool", "iostat", "tank", "--json"))["whole"])
    return found


def _reads_of_legs(head: Head) -> dict[str, int]:
    return {disk: load["reads"] for disk, load in _load(head).items()}


def _written_of_leg(head: Head, disk: str) -> int:
    return _load(head)[disk]["written_bytes"]


def _state(head: Head, other: str) -> str:
    legs = json.loads(head.command("pool", "status", "tank", "--json"))["legs"]["legs"]
    return next(leg["state"] for leg in legs if leg["head"] == other)


def _line(row: Row) -> str:
    bound = f"{row.bound}: {'kept' if row.is_kept else 'MISSED'}" if row.bound else ""
    return f"{row.point:20} {row.figure:30} {row.value:9.2f}  {bound:18} {row.beside}"


def chosen(only: str | None) -> list[str]:
    """Returns the points with one of these comma-separated strings in their name; without any, all points."""
    return [point for point in POINTS if not only or any(word in point for word in only.split(","))]


def main(program: Path, scratch: Path, out: Path, only: str | None, seconds: float, repetitions: int) -> int:
    """Prints each figure with its bound."""
    bench = Bench(program, scratch, seconds, repetitions)
    print(f"{os.cpu_count()} processors, load before: {os.getloadavg()[0]:.2f}; {4 * KIBIBYTE} and {MEBIBYTE} bytes a request")
    bench.run(chosen(only))
    out.parent.mkdir(parents=True, exist_ok=True)
    document = {"rows": [asdict(row) for row in bench.rows], "details": bench.details}
    out.write_text(json.dumps(document, indent=1) + "\n")
    bounded = [row for row in bench.rows if row.bound]
    kept = sum(row.is_kept for row in bounded)
    print(f"bench legs: {kept} of {len(bounded)} bounds kept; all figures in {out}; load after: {os.getloadavg()[0]:.2f}")
    return 0
