"""Our own server: a pool on files (a mirror of two by default), driven by its command line like an administrator
does."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from proof.clients.iscsi import IscsiAddress
from proof.clients.nbd import NbdAddress
from proof.clients.nfs import NfsAddress
from proof.crash import legs
from proof.process import Child, Outcome, checked, run
from proof.runtime import REPOSITORY, ProofError, at_exit, free_port
from proof.servers.base import Server, VolumeSpec

POOL = "proof"
TARGET = "iqn.2026-01.org.example:proof"
SHARE = "rw=127.0.0.0/8,no_root_squash,insecure"
"""The clients that may use file systems."""

LEG_BYTES = 1 << 30
START_SECONDS = 60.0
COMMAND_SECONDS = 60.0
ZDB_SECONDS = 300.0
SCRUBS_MAX = 4
PARALLEL_FROM = 16
PARALLEL_COMMANDS = 8
KEY_BYTES = 32
DRAINED = b"X_BULKHEAD_PROOF=drained"
"""Sent by the proof to itself: all earlier messages have been read when it arrives."""


def program() -> Path:
    """The binary under test: ``$BULKHEAD`` or the release build."""
    path = Path(os.environ.get("BULKHEAD", REPOSITORY / "target/release/bulkhead"))
    if not path.is_file():
        raise ProofError(f"{path} is missing: run `make build` first, or set BULKHEAD")
    return path


ZDB_COMPLAINT = re.compile(r"got error|error counts|leaked space|unreachable|!= alloc|mismatch|corrupt|damaged|assert", re.I)
"""The wording of zdb's findings; its progress and its good results contain none of these."""


class ReadySocket:
    """Listens instead of systemd: the server sends READY=1 (sd_notify) when clients may connect.

    All messages are read at once, as by systemd.
    """

    def __init__(self) -> None:
        # Not below the scratch directory: the name of a Unix socket has 107 bytes.
        self._directory = tempfile.TemporaryDirectory(prefix="bulkhead-ready-")
        self._forget = at_exit(self._directory.cleanup)
        self.path = f"{self._directory.name}/notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._ready = threading.Event()
        self._drained = threading.Event()
        threading.Thread(target=self._read, name="ready socket", daemon=True).start()

    def _read(self) -> None:
        while True:
            datagram = self._socket.recv(4096)
            if datagram == DRAINED:
                self._ready.clear()
                self._drained.set()
            elif b"READY=1" in datagram.split(b"\n"):
                self._ready.set()

    def drain(self) -> None:
        """Discards the messages of earlier processes."""
        self._drained.clear()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(DRAINED, self.path)
        if not self._drained.wait(START_SECONDS):
            raise ProofError("messages of servers are not read any more")

    def wait(self, child: Child, seconds: float) -> None:
        """Returns at READY=1; raises when the process exits or the time is over."""
        deadline = time.monotonic() + seconds
        while not self._ready.wait(0.1):
            child.require_alive()
            if time.monotonic() > deadline:
                raise ProofError(f"{child.name} is not ready after {seconds:g} s:\n{child.log_tail()}")


class Bulkhead(Server):
    """``bulkhead pool-server`` with all volumes in one target and as NBD exports."""

    name = "bulkhead"

    def __init__(
        self,
        scratch: Path,
        volumes: list[VolumeSpec],
        *,
        portals: int = 1,
        options: tuple[str, ...] = (),
        leg_bytes: int = LEG_BYTES,
        leg_count: int = 2,
        written: bool = False,
        encrypted: bool = False,
        layout: tuple[str, ...] = (),
        binary: Path | None = None,
        say: Callable[[str], None] | None = None,
    ):
        super().__init__(scratch, volumes)
        self.program = binary or program()
        self.directory = scratch / "pool"
        # Existing devices, with group words, instead of created files.
        self._layout = layout
        self.legs = [self.directory / f"leg{index}.img" for index in range(leg_count)]
        self.fault_file = scratch / "leg-faults"
        self._ports = [free_port() for _ in range(portals)]
        self._nbd_port = free_port()
        self._nfs_port = free_port()
        self._leg_bytes = leg_bytes
        self._written = written
        self._key = scratch / "volumes.key" if encrypted else None
        self._options = options
        self._say = say
        self._ready = ReadySocket()
        self._run_directory = tempfile.TemporaryDirectory(prefix="bulkhead-run-")
        at_exit(self._run_directory.cleanup)
        self._starts = 0
        self._env = {
            "BULKHEAD_RUN_DIR": self._run_directory.name,
            "BULKHEAD_STATE_DIR": str(scratch / "state"),
            "BULKHEAD_SEARCH": ":".join([str(self.directory), *(word for word in layout if "/" in word)]),
        }

    @property
    def environment(self) -> dict[str, str]:
        """Returns the environment with which commands find this pool and its server."""
        return dict(self._env)

    def command(self, *words: str) -> str:
        """Runs ``bulkhead WORDS`` to success."""
        if self._say:
            self._say("$ bulkhead " + " ".join(words))
        return checked([self.program, *words], COMMAND_SECONDS, env=self._env)

    def say_nothing(self) -> None:
        """Stops printing the commands."""
        self._say = None

    def try_command(self, *words: str, seconds: float = COMMAND_SECONDS) -> Outcome:
        """Runs ``bulkhead WORDS``, and returns its outcome even if it fails."""
        return run([self.program, *words], seconds, env=self._env)

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.scratch / "state").mkdir(exist_ok=True)
        if self._key:
            self._key.write_bytes(os.urandom(KEY_BYTES))
        self.command("pool", "create", POOL, *(self._layout or self._make_legs()))
        self.start()
        self.wait_ready()
        self.command("target", "create", TARGET, "--pool", POOL)
        if len(self.volumes) <= PARALLEL_FROM:
            for lun, volume in enumerate(self.volumes):
                self._create(volume, lun)
        else:
            # Each change blocks until a commit of the pool; several concurrent changes share one.
            with ThreadPoolExecutor(PARALLEL_COMMANDS) as pool:
                list(pool.map(self._create, self.volumes, range(len(self.volumes))))
        self.stop()

    def _make_legs(self) -> tuple[str, ...]:
        for leg in self.legs:
            with leg.open("wb") as file:
                file.truncate(self._leg_bytes)
                if self._written:
                    write_out(file)
        mirror = ("mirror",) if len(self.legs) > 1 else ()
        return (*mirror, *map(str, self.legs))

    def _create(self, volume: VolumeSpec, lun: int) -> None:
        dataset = f"{POOL}/{volume.name}"
        properties = [word for name, value in volume.properties for word in ("--property", f"{name}={value}")]
        shape = ["--size", str(volume.size), "--block-size", str(volume.block_size), "--sparse"]
        key = ["--key-format", "raw", "--key-location", f"file://{self._key}"] if self._key else []
        if volume.is_file:
            # The parent of a volume is a file system, which `--parents` creates. It inherits the properties of the pool.
            self.command("volume", "create", f"{dataset}/pad", "--size", "1M", "--sparse", "--parents")
            self.command("volume", "set", POOL, f"sharenfs={SHARE}")
            return
        self.command("volume", "create", dataset, *shape, *properties, *key)
        only = ["--read-only"] if volume.read_only else []
        # With a write cache, so that unflushed data can be lost, and the proofs can tell the difference.
        self.command("target", "map", TARGET, dataset, "--lun", str(lun), "--write-cache", "on", *only)
        self.command("nbd", "export", dataset, "--name", volume.name, *only)

    def start(self) -> None:
        self._ready.drain()
        self._starts += 1
        portals = [word for port in self._ports for word in ("--iscsi", f"127.0.0.1:{port},1")]
        faults = ["--leg-faults", str(self.fault_file)] if self.fault_file.exists() else []
        others = ["--nbd", f"127.0.0.1:{self._nbd_port}", *self._nfs_option()]
        argv = [self.program, "pool-server", POOL, *portals, *others, *faults, *self._options]
        log = self.scratch / f"server-{self._starts % 4}.log"
        log.unlink(missing_ok=True)
        self.children = [Child("bulkhead pool-server", argv, log, {**self._env, "NOTIFY_SOCKET": self._ready.path})]

    def _nfs_option(self) -> list[str]:
        """Older binaries, which proofs compare with, do not have it."""
        return ["--nfs", f"127.0.0.1:{self._nfs_port}"] if any(volume.is_file for volume in self.volumes) else []

    def wait_ready(self) -> None:
        self._ready.wait(self.children[0], START_SECONDS)

    def stop(self) -> None:
        for child in self.children:
            status = child.stop()
            if status != 0:
                raise ProofError(f"{child.name} ended with {status} after SIGTERM:\n{child.log_tail()}")
        self.children.clear()

    def iscsi(self, volume: str) -> IscsiAddress:
        return self.iscsi_portals(volume)[0]

    def iscsi_portals(self, volume: str) -> list[IscsiAddress]:
        lun = [spec.name for spec in self.volumes].index(volume)
        return [IscsiAddress(f"127.0.0.1:{port}", TARGET, lun) for port in self._ports]

    def nbd(self, volume: str) -> NbdAddress:
        return NbdAddress.tcp(self._nbd_port, volume)

    def nfs(self, volume: str) -> NfsAddress | None:
        for spec in self.volumes:
            if spec.name == volume and spec.is_file:
                return NfsAddress("127.0.0.1", self._nfs_port, (POOL.encode(), volume.encode(), b"file"), spec.size)
        return None

    def status(self) -> dict[str, object]:
        """``bulkhead pool status --json``."""
        document: dict[str, object] = json.loads(self.command("--json", "pool", "status", POOL))
        return document

    def audit(self) -> str:
        """Stock ``zdb`` reads every block, verifies every checksum, and accounts for the space."""
        outcome = run(["zdb", "-e", "-p", self.directory, "-bcc", POOL], ZDB_SECONDS)
        return zdb_findings(outcome)


def write_out(file: BinaryIO) -> None:
    """Fills a new file with zeroes up to its size, so that the host's file system has allocated its blocks."""
    size, zeroes = os.fstat(file.fileno()).st_size, bytes(8 << 20)
    for at in range(0, size, len(zeroes)):
        os.pwrite(file.fileno(), zeroes[: size - at], at)
    os.fsync(file.fileno())


def zdb_findings(outcome: Outcome) -> str:
    """Returns the complaints of ``zdb -bcc``; empty when the pool is sound."""
    text = outcome.output
    if not outcome.ok:
        return f"zdb exited with {outcome.status}: {text.strip()[-1500:]}"
    complaints = [line for line in text.splitlines() if ZDB_COMPLAINT.search(line)]
    if "No leaks" not in text:
        complaints.append("zdb does not report that no space leaked")
    return "; ".join(line.strip() for line in complaints[:5])


CONFIRM = "--missing-devices-are-not-newer"


class MirrorFaults(legs.LegFaults):
    """Damages one leg of the mirror for some rounds, repairs it by scrubs, then damages the other."""

    ROUNDS_A_LEG = 3

    def __init__(self, server: Bulkhead, mode: str):
        self._server = server
        self._modes = ("eio", "flush", "corrupt", "truncate") if mode == "mix" else (mode,)
        self._round = 0
        self.struck = {kind: 0 for kind in ("eio", "flush", "corrupt", "truncate")}
        self.damage_seen = 0
        self.confirmed = 0
        # Its presence at the start switches the server's fault driver on.
        server.fault_file.write_text("")

    @property
    def _leg(self) -> Path:
        return self._server.legs[self._round // self.ROUNDS_A_LEG % 2]

    def strike_running(self, rng: random.Random) -> None:
        self._strike(rng.choice(self._modes), rng)

    def strike_stopped(self, rng: random.Random) -> None:
        offline = [mode for mode in self._modes if mode not in ("eio", "flush")]
        if offline and rng.random() < 0.5:
            self._strike(rng.choice(offline), rng)

    def _strike(self, mode: str, rng: random.Random) -> None:
        self.struck[mode] += 1
        if mode == "eio":
            replace_file(self._server.fault_file, f"{self._leg} read=eio write=eio flush=eio\n")
        elif mode == "flush":
            replace_file(self._server.fault_file, f"{self._leg} flush=eio\n")
        elif mode == "corrupt":
            legs.corrupt(self._leg, rng, runs=rng.randrange(1, 30))
        else:
            legs.truncate(self._leg, rng)

    def start_without(self, refusal: ProofError) -> None:
        # The server was killed before it could record that the leg had failed: the labels of the other leg alone do not
        # prove that it is the newer one. An administrator can confirm that, as the refusal describes.
        words = str(refusal)
        other = next(leg for leg in self._server.legs if leg != self._leg)
        if CONFIRM not in words or str(self._leg) not in words or str(other) in words:
            raise refusal
        self.confirmed += 1
        away = self._server.scratch / "away.img"
        self._leg.rename(away)
        self._server.command("pool", "confirm", POOL, CONFIRM)
        self._server.start()
        self._server.wait_ready()
        away.rename(self._leg)

    def repair(self) -> list[str]:
        self._round += 1
        if self._round % self.ROUNDS_A_LEG:
            return []
        server = self._server
        replace_file(server.fault_file, "")
        for leg in server.legs:
            os.truncate(leg, LEG_BYTES)
        left: list[str] = []
        for _ in range(SCRUBS_MAX):
            # A scrub repairs the blocks that the last one could not reach while a leg was returning.
            server.command("pool", "clear", POOL)
            server.command("pool", "scrub", POOL, "--wait")
            left = unhealthy_devices(server.status()) + _unfinished_scrub(server.status())
            if not left:
                return []
            self.damage_seen += 1
        return [f"not repaired by {SCRUBS_MAX} scrubs: {words}" for words in left]

    def summary(self) -> str:
        """Returns the faults of the legs."""
        strikes = ", ".join(f"{count} x {kind}" for kind, count in self.struck.items() if count)
        return (
            f"one leg at a time: {strikes}; {self.damage_seen} scrubs found damage and repaired it; "
            f"{self.confirmed} starts needed a confirmation that the leg is not newer"
        )


def replace_file(path: Path, text: str) -> None:
    """Writes a file so that a reader sees the old or the new text."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


def unhealthy_devices(status: dict[str, object]) -> list[str]:
    """Returns every device that is not ONLINE or counts errors, from ``pool status --json``."""
    found: list[str] = []
    queue = list(_members(status, "devices"))
    while queue:
        device = queue.pop()
        queue += _members(device, "members")
        if device["state"] != "ONLINE":
            found.append(f"{device['name']} is {device['state']}")
        for counter in ("read_errors", "write_errors", "checksum_errors"):
            if device[counter]:
                found.append(f"{device['name']} has {device[counter]} {counter}")
    if status["health"] != "ONLINE":
        found.append(f"the pool is {status['health']}")
    return found


def _unfinished_scrub(status: dict[str, object]) -> list[str]:
    """Returns why a scrub is not finished. A resilver reads only the data that a leg is known to have missed, so
    only a whole scrub counts."""
    scan = status["scan"]
    if isinstance(scan, dict) and (scan["function"], scan["state"]) == ("scrub", "finished"):
        return []
    return [f"the latest scan is {scan}"]


def _members(parent: dict[str, object], key: str) -> list[dict[str, object]]:
    members = parent.get(key, [])
    assert isinstance(members, list)
    return members


__all__ = ["Bulkhead", "MirrorFaults", "POOL", "TARGET", "program", "zdb_findings"]
