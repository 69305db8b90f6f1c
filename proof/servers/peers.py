"""tgt, nbdkit and qemu-nbd on plain files: the peers of our server."""

from __future__ import annotations

from pathlib import Path

from proof.clients.iscsi import IscsiAddress
from proof.clients.nbd import NbdAddress
from proof.process import Child, checked, run
from proof.runtime import free_port, port_answers, wait_until
from proof.servers.base import Server, VolumeSpec

START_SECONDS = 10.0
TOOL_SECONDS = 20.0


class _FileServer(Server):
    """A server of plain sparse files."""

    def file(self, volume: str) -> Path:
        """The volume's file."""
        return self.scratch / f"{volume}.raw"

    def prepare(self) -> None:
        for volume in self.volumes:
            with self.file(volume.name).open("ab") as backing:
                backing.truncate(volume.size)


class Tgt(_FileServer):
    """tgtd: the iSCSI target in user space that Debian ships. One target, one LUN per volume."""

    name = "tgt"
    programs = ("tgtd", "tgtadm")
    target = "iqn.2026-01.org.example:proof"

    def __init__(self, scratch: Path, volumes: list[VolumeSpec]):
        super().__init__(scratch, volumes)
        self.port = free_port()
        # Names a socket under /var/run/tgtd. Up to 32767: ephemeral ports without their top bit.
        self._control = self.port & 0x7FFF or 1

    def _admin(self, *words: str) -> None:
        checked(["tgtadm", "-C", str(self._control), "--lld", "iscsi", *words], TOOL_SECONDS)

    def start(self) -> None:
        argv = ["tgtd", "-f", "-C", str(self._control), "--iscsi", f"portal=127.0.0.1:{self.port}"]
        self.children = [Child("tgtd", argv, self.scratch / "tgtd.log")]

    def wait_ready(self) -> None:
        def answers() -> bool:
            self.children[0].require_alive()
            probe = ["tgtadm", "-C", str(self._control), "--lld", "iscsi", "--op", "show", "--mode", "target"]
            return run(probe, TOOL_SECONDS).ok

        wait_until("tgtd", answers, START_SECONDS)
        self._admin("--op", "new", "--mode", "target", "--tid", "1", "-T", self.target)
        for lun, volume in enumerate(self.volumes, 1):
            unit = ["--mode", "logicalunit", "--tid", "1", "--lun", str(lun)]
            self._admin("--op", "new", *unit, "-b", str(self.file(volume.name)))
            self._admin("--op", "update", *unit, "--params", "thin_provisioning=1")
        self._admin("--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL")

    def iscsi(self, volume: str) -> IscsiAddress:
        lun = 1 + [spec.name for spec in self.volumes].index(volume)
        return IscsiAddress(f"127.0.0.1:{self.port}", self.target, lun)

    def stop(self) -> None:
        # tgtd ignores SIGTERM; its file is written through the page cache, which survives the kill.
        self.kill()

    def kill(self) -> None:
        super().kill()
        for leftover in Path("/var/run/tgtd").glob(f"socket.{self._control}*"):
            leftover.unlink(missing_ok=True)


class _NbdFileServer(_FileServer):
    """One process per volume, each on its own port."""

    def __init__(self, scratch: Path, volumes: list[VolumeSpec]):
        super().__init__(scratch, volumes)
        self._ports = {volume.name: free_port() for volume in volumes}

    def _argv(self, volume: VolumeSpec, port: int) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        self.children = [
            Child(self.name, self._argv(volume, self._ports[volume.name]), self.scratch / f"{self.name}.log")
            for volume in self.volumes
        ]

    def wait_ready(self) -> None:
        for child, port in zip(self.children, self._ports.values(), strict=True):

            def answers(child: Child = child, port: int = port) -> bool:
                child.require_alive()
                return port_answers(port)

            wait_until(self.name, answers, START_SECONDS)

    def nbd(self, volume: str) -> NbdAddress:
        return NbdAddress.tcp(self._ports[volume])


class Nbdkit(_NbdFileServer):
    """nbdkit with its file plugin."""

    name = "nbdkit"
    programs = ("nbdkit",)

    def _argv(self, volume: VolumeSpec, port: int) -> list[str]:
        return ["nbdkit", "-f", "-i", "127.0.0.1", "-p", str(port), "file", str(self.file(volume.name))]


class QemuNbd(_NbdFileServer):
    """qemu-nbd, many clients allowed, with the host's cache like the other peers."""

    name = "qemu-nbd"
    programs = ("qemu-nbd",)

    def _argv(self, volume: VolumeSpec, port: int) -> list[str]:
        shared = ["-t", "-e", "16", "--cache=writeback", "--discard=unmap", "-f", "raw"]
        return ["qemu-nbd", *shared, "-b", "127.0.0.1", "-p", str(port), str(self.file(volume.name))]


class Peers(Server):
    """tgt and nbdkit on the same files, to test the crash proof itself without our server."""

    name = "tgt + nbdkit"

    def __init__(self, scratch: Path, volumes: list[VolumeSpec]):
        super().__init__(scratch, volumes)
        self._tgt = Tgt(scratch, volumes)
        self._nbdkit = Nbdkit(scratch, volumes)

    def prepare(self) -> None:
        self._tgt.prepare()

    def start(self) -> None:
        self._tgt.start()
        self._nbdkit.start()
        self.children = self._tgt.children + self._nbdkit.children

    def wait_ready(self) -> None:
        self._tgt.wait_ready()
        self._nbdkit.wait_ready()

    def kill(self) -> None:
        self._tgt.kill()
        self._nbdkit.kill()
        self.children.clear()

    def stop(self) -> None:
        self.kill()

    def iscsi(self, volume: str) -> IscsiAddress:
        return self._tgt.iscsi(volume)

    def nbd(self, volume: str) -> NbdAddress:
        return self._nbdkit.nbd(volume)


class _OnePlace(_NbdFileServer):
    """One volume on an existing file or block device."""

    def __init__(self, scratch: Path, volume: VolumeSpec, place: Path):
        super().__init__(scratch, [volume])
        self._place = place

    def file(self, volume: str) -> Path:
        return self._place

    def prepare(self) -> None:
        pass


class NbdkitUncached(_OnePlace):
    """nbdkit that drops the data of each reply from the page cache: it has no direct I/O."""

    name = Nbdkit.name
    programs = Nbdkit.programs

    def _argv(self, volume: VolumeSpec, port: int) -> list[str]:
        where = str(self.file(volume.name))
        return ["nbdkit", "-f", "-i", "127.0.0.1", "-p", str(port), "file", where, "cache=none", "fadvise=random"]


class QemuNbdDirect(_OnePlace):
    """qemu-nbd with direct I/O by io_uring."""

    name = QemuNbd.name
    programs = QemuNbd.programs

    def _argv(self, volume: VolumeSpec, port: int) -> list[str]:
        shared = ["-t", "-e", "16", "--cache=none", "--aio=io_uring", "-f", "raw"]
        return ["qemu-nbd", *shared, "-b", "127.0.0.1", "-p", str(port), str(self.file(volume.name))]
