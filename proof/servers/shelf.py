"""Servers of a shelf on Ceph: two hosts take turns, and each start takes the shelf over from the other host."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from proof.clients.iscsi import IscsiAddress
from proof.clients.nbd import NbdAddress
from proof.process import Child, Outcome, checked, run
from proof.runtime import REPOSITORY, ProofError, at_exit, free_port
from proof.servers.base import Server, VolumeSpec
from proof.servers.bulkhead import ReadySocket

SHELF = "tank"
TARGET = "iqn.2026-01.org.example:tank"
START_SECONDS = 60.0
COMMAND_SECONDS = 60.0
HOSTS = 2


def program() -> Path:
    """The binary under test: ``$BULKHEAD_CEPH``, or the one that the proof has built."""
    path = Path(os.environ.get("BULKHEAD_CEPH", REPOSITORY / "target/ceph/debug/bulkhead-ceph"))
    if not path.is_file():
        raise ProofError(f"{path} is missing: run `python3 -m proof.ceph`, which builds it, or set BULKHEAD_CEPH")
    return path


class Host:
    """A host with directories and a number of its own."""

    def __init__(self, number: int, scratch: Path, cluster: dict[str, str], ports: tuple[int, ...]):
        self._run_directory = tempfile.TemporaryDirectory(prefix="bulkhead-run-")
        at_exit(self._run_directory.cleanup)
        self.ready = ReadySocket()
        self.nbd_port, *self.iscsi_ports = ports
        self.environment = {
            **cluster,
            "BULKHEAD_RUN_DIR": self._run_directory.name,
            "BULKHEAD_STATE_DIR": str(scratch / f"state-{number}"),
            "BULKHEAD_HOST_ID": f"{number + 0xA1:08x}",
        }


class Shelf(Server):
    """``bulkhead-ceph pool-server`` with all volumes in one target and as NBD exports."""

    name = "bulkhead-ceph"

    def __init__(self, scratch: Path, volumes: list[VolumeSpec], conf: Path, *, rbd_pool: str = "rbd", shelf: str = SHELF, address_moves: bool = True):
        """With ``address_moves`` both hosts listen on the same ports, as with an address that moves."""
        super().__init__(scratch, volumes)
        self.program = program()
        self.shelf = shelf
        self._rbd_pool = rbd_pool
        cluster = {"BULKHEAD_CEPH_CLUSTER": str(conf), "BULKHEAD_CEPH_USER": "bulkhead"}
        ports = [tuple(free_port() for _ in range(3)) for _ in range(HOSTS)]
        self.hosts = [Host(number, scratch, cluster, ports[0 if address_moves else number]) for number in range(HOSTS)]
        self._starts = 0
        self.taken_over: list[Child] = []
        """Servers that were not stopped when another host took the shelf over."""

    @property
    def host(self) -> Host:
        """The host of the newest server."""
        return self.hosts[self._starts % HOSTS]

    def command(self, *words: str) -> str:
        """Runs ``bulkhead-ceph WORDS`` on the current host to success."""
        return checked([self.program, *words], COMMAND_SECONDS, env=self.host.environment)

    def try_command(self, *words: str, env: dict[str, str] | None = None, seconds: float = COMMAND_SECONDS) -> Outcome:
        """Runs ``bulkhead-ceph WORDS`` on the current host, and returns its outcome even if it fails."""
        return run([self.program, *words], seconds, env={**self.host.environment, **(env or {})})

    def prepare(self) -> None:
        self.command("pool", "create", self.shelf, "--in", self._rbd_pool)
        self.start()
        self.wait_ready()
        self.command("target", "create", TARGET, "--pool", self.shelf)
        for lun, volume in enumerate(self.volumes):
            dataset = f"{self.shelf}/{volume.name}"
            only = ["--read-only"] if volume.read_only else []
            self.command("volume", "create", dataset, "--size", str(volume.size), "--block-size", str(volume.block_size), "--sparse")
            self.command("target", "map", TARGET, dataset, "--lun", str(lun), "--write-cache", "on", *only)
            self.command("nbd", "export", dataset, "--name", volume.name, *only)
        self.stop()

    def start(self) -> None:
        """Starts a server on the other host."""
        self._starts += 1
        host = self.host
        host.ready.drain()
        portals = [word for port in host.iscsi_ports for word in ("--iscsi", f"127.0.0.1:{port},1")]
        argv = [self.program, "pool-server", self.shelf, "--take-over", *portals, "--nbd", f"127.0.0.1:{host.nbd_port}"]
        log = self.scratch / f"server-{self._starts % 4}.log"
        log.unlink(missing_ok=True)
        self.children = [Child("bulkhead-ceph pool-server", argv, log, {**host.environment, "NOTIFY_SOCKET": host.ready.path})]

    def leave_running(self) -> Child:
        """Forgets the current server, which still runs or is stopped by a signal, so that the other host can start."""
        self.taken_over += self.children
        self.children = []
        return self.taken_over[-1]

    def wait_ready(self) -> None:
        self.host.ready.wait(self.children[0], START_SECONDS)

    def stop(self) -> None:
        for child in self.children:
            status = child.stop()
            if status != 0:
                raise ProofError(f"{child.name} ended with {status} after SIGTERM:\n{child.log_tail()}")
        self.children.clear()

    def kill(self) -> None:
        super().kill()
        for child in self.taken_over:
            child.kill()
        self.taken_over.clear()

    def iscsi(self, volume: str) -> IscsiAddress:
        return self.iscsi_portals(volume)[0]

    def iscsi_portals(self, volume: str) -> list[IscsiAddress]:
        lun = [spec.name for spec in self.volumes].index(volume)
        return [IscsiAddress(f"127.0.0.1:{port}", TARGET, lun) for port in self.host.iscsi_ports]

    def nbd(self, volume: str) -> NbdAddress:
        return NbdAddress.tcp(self.host.nbd_port, volume)

    def audit(self) -> str:
        """Compares the images in the cluster with the volumes of the shelf: none is missing."""
        conf, user = (self.host.environment[name] for name in ("BULKHEAD_CEPH_CLUSTER", "BULKHEAD_CEPH_USER"))
        words = [f"--conf={conf}", f"--id={user}", "-p", self._rbd_pool, "--namespace", self.shelf, "ls"]
        images = checked(["rbd", *words], COMMAND_SECONDS).split()
        wanted = len(self.volumes)
        return "" if len(images) >= wanted else f"{len(images)} images of {wanted} volumes: {images}"
