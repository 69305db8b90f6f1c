"""The disks that two guests share: raw ones of the host, or disks behind iSCSI with reservations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from proof.linux.machine import Machine
from proof.linux.monitor import Monitor
from proof.linux.network import NETWORKS
from proof.linux.target import HEADS, SHELF, SHELF_DISKS, PortalServer
from proof.servers.bulkhead import replace_file

DISK_BYTES = 256 << 20
DEVICES = "/dev/shelf"
THROTTLED_BYTES_PER_SECOND = 32 << 10
DELAY_MS = 150
"""Delay of each write of a disk behind iSCSI while it is slow."""


class Shelf(ABC):
    """Two disks, as each head sees them."""

    disks: Sequence[Path] = ()
    """Files of the host that are disks of both guests."""
    has_reservations: bool
    claims: str
    words: str

    @abstractmethod
    def attach(self, machine: Machine, head: str) -> str:
        """Attaches the disks to a guest that has just booted; returns their directory."""

    @abstractmethod
    def names(self, head: str) -> list[str]:
        """Returns the paths of the disks at that head."""

    @abstractmethod
    def slow_down(self, monitor: Monitor, slow: bool) -> None:
        """Delays the writes of the guest behind ``monitor`` by seconds, or no longer."""

    def inflight(self, head: str) -> str:
        """Returns the files that count the pending requests of the head's kernel (Documentation/block/stat)."""
        return " ".join(f"/sys/block/$(basename $(readlink -f {name}))/inflight" for name in self.names(head))


class RawDisks(Shelf):
    """Disks of the two guests without reservations: only a fence stops the writes of the loser."""

    has_reservations = False
    claims = "--claims locks"
    words = "two raw disks without reservations"

    def __init__(self, scratch: Path):
        self.disks = [scratch / f"raw{number}.img" for number in range(2)]
        for disk in self.disks:
            with disk.open("wb") as file:
                file.truncate(DISK_BYTES)

    def attach(self, machine: Machine, head: str) -> str:
        links = "".join(f"ln -sfn /dev/$(basename $(dirname $(grep -lx {disk.stem} /sys/block/vd*/serial))) {DEVICES}/{disk.stem}\n" for disk in self.disks)
        machine.run(f"mkdir -p {DEVICES}\n{links}")
        return DEVICES

    def names(self, head: str) -> list[str]:
        return [f"{DEVICES}/{disk.stem}" for disk in self.disks]


    def slow_down(self, monitor: Monitor, slow: bool) -> None:
        for disk in self.disks:
            monitor.throttle(disk.stem, THROTTLED_BYTES_PER_SECOND if slow else 0)


class ReservedDisks(Shelf):
    """Disks behind an iSCSI target: each guest logs in under a name of its own."""

    has_reservations = True
    claims = "--claims reservations"
    words = "two iSCSI disks with reservations"

    def __init__(self, server: PortalServer):
        self._server = server
        server.fault_file.write_text("")

    def attach(self, machine: Machine, head: str) -> str:
        network = NETWORKS[list(HEADS).index(head)]
        path = f"/dev/disk/by-path/ip-{network.server}:3260-iscsi-{SHELF}-lun-"
        links = "".join(
            f"until [ -b {path}{lun} ]; do sleep 0.2; done; ln -sfn $(readlink -f {path}{lun}) {DEVICES}/disk{lun}\n" for lun in range(len(SHELF_DISKS))
        )
        machine.run(f"""
            mkdir -p /run/lock/iscsi {DEVICES}
            echo InitiatorName={HEADS[head]} >/etc/iscsi/initiatorname.iscsi
            iscsid
            iscsiadm -m node -T {SHELF} -p {network.server}:3260 -o new >/dev/null
            iscsiadm -m node -T {SHELF} -p {network.server}:3260 --login >/dev/null
            {links}
        """, 240)
        return DEVICES

    def names(self, head: str) -> list[str]:
        return [f"{DEVICES}/disk{lun}" for lun in range(len(SHELF_DISKS))]

    def slow_down(self, monitor: Monitor, slow: bool) -> None:
        words = "".join(f"{leg} delay={DELAY_MS}\n" for leg in self._server.legs) if slow else ""
        replace_file(self._server.fault_file, words)


__all__ = ["RawDisks", "ReservedDisks", "Shelf"]
