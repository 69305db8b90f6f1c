"""The interface of a server of volumes, as the proofs need it."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from proof.clients.iscsi import IscsiAddress
from proof.clients.nbd import NbdAddress
from proof.clients.nfs import NfsAddress
from proof.process import Child, tree_cpu_seconds


@dataclass(frozen=True)
class VolumeSpec:
    """A volume of a proof."""

    name: str
    size: int
    block_size: int = 16384
    properties: tuple[tuple[str, str], ...] = ()
    read_only: bool = False
    """Exported read-only. Peers ignore it."""
    is_file: bool = False
    """The volume is a file in a file system of its own: it is available over NFS only. Peers have none."""

    @property
    def synchronous(self) -> bool:
        """Whether every acknowledged write is durable."""
        return ("sync", "always") in self.properties


class Server(ABC):
    """One server, or a pair of servers for one set of volumes, in processes of our own."""

    name: str
    programs: tuple[str, ...] = ()
    """Commands of other packages, without which it cannot be started."""
    children: list[Child]

    def __init__(self, scratch: Path, volumes: list[VolumeSpec]):
        self.scratch = scratch
        self.volumes = volumes
        self.children = []

    def prepare(self) -> None:
        """Creates the state that must exist before the first start. Optional."""

    @abstractmethod
    def start(self) -> None:
        """Starts the processes; does not wait for them."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Returns when every volume is served."""

    def iscsi(self, volume: str) -> IscsiAddress | None:
        """The volume's iSCSI address, if it has one."""
        return None

    def iscsi_portals(self, volume: str) -> list[IscsiAddress]:
        """The addresses of the volume, one per portal."""
        address = self.iscsi(volume)
        return [address] if address else []

    def nbd(self, volume: str) -> NbdAddress | None:
        """The volume's NBD address, if it has one."""
        return None

    def nfs(self, volume: str) -> NfsAddress | None:
        """The file's NFS address, if it has one."""
        return None

    def kill(self) -> None:
        """Sends SIGKILL to every process, and blocks until all have exited."""
        for child in self.children:
            child.kill()
        self.children.clear()

    def stop(self) -> None:
        """Stops in the polite way, if the server has one."""
        for child in self.children:
            child.stop()
        self.children.clear()

    def audit(self) -> str:
        """With the server stopped: returns the findings of the engine's own checker, empty when there are none."""
        return ""

    def cpu_seconds(self) -> float:
        """CPU time of the server's processes and their descendants so far."""
        return sum(tree_cpu_seconds(child.pid) for child in self.children)

    def rss_bytes(self) -> int:
        """Resident memory of the server's processes."""
        return sum(child.rss_bytes() for child in self.children)

    def descriptors(self) -> list[str]:
        """Returns the open descriptors of the server's processes, one entry for each: a path, ``socket``,
        ``anon_inode``."""
        found = []
        for child in self.children:
            folder = f"/proc/{child.pid}/fd"
            for name in os.listdir(folder):
                with contextlib.suppress(FileNotFoundError):
                    found.append(os.readlink(f"{folder}/{name}").partition(":")[0])
        return found

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
