"""The drills of the appliance, as seen by a real Linux initiator with two paths."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from proof.linux.appliance import NETWORKS, TARGET, VOLUME_SIZE, Appliance
from proof.linux.machine import Job, Machine
from proof.linux.steps import begin_writes, fio_report, require
from proof.linux.target import INITIATOR

WRITE_SECONDS = 400.0
NANOSECONDS = 1_000_000_000
PAUSE_SECONDS_MAX = 100.0
"""Linux calls a task hung after 120 s."""
PATHS_SECONDS = 200.0


@dataclass(frozen=True)
class Drill:
    """A fault, and how it is undone."""

    name: str
    strike: Callable[[str], None]
    mend: Callable[[str], None] = lambda head: None
    moves: bool | None = None
    """Whether the pool is on the other head afterwards; ``None`` where both are allowed."""


class Drills:
    """One volume of the pair under verified writes with flushes, over both storage networks."""

    def __init__(self, appliance: Appliance, machine: Machine):
        self._appliance = appliance
        self._machine = machine
        self._round = 0
        self.catalogue = (
            Drill("move", appliance.move, moves=True),
            Drill("active-power", lambda head: appliance.power(head, "off"), lambda head: appliance.power(head, "on"), moves=True),
            Drill("server-killed", appliance.kill_server),
            Drill("one-network-down", lambda head: appliance.cut(head, "storage-a"), appliance.mend, moves=False),
        )

    @property
    def _disk(self) -> str:
        return f"/dev/mapper/{self._appliance.identity}"

    def attach(self) -> str:
        """From discovery to a mounted file system on two paths."""
        portals = "\n".join(f"{network.server}:3260" for network in NETWORKS)
        self._machine.run(f"""
            echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi
            mkdir -p /run/lock/iscsi
            iscsid
            multipathd
            until multipathd show daemon >/dev/null 2>&1; do sleep 0.2; done
            found=$(iscsiadm -m discovery -t sendtargets -p {NETWORKS[0].server})
            for portal in {portals.split()[0]} {portals.split()[1]}; do echo "$found" | grep -q "^$portal,.* {TARGET}$"; done
            iscsiadm -m node -T {TARGET} --login >/dev/null
        """, PATHS_SECONDS)
        self._wait_paths(2)
        self._machine.run(f"until [ -b {self._disk} ]; do sleep 0.2; done; mkfs.ext4 -q {self._disk}; mount {self._disk} /mnt", PATHS_SECONDS)
        return f"{TARGET}, {VOLUME_SIZE}, ext4 on two paths"

    def _wait_paths(self, count: int) -> None:
        active = f"multipathd show paths format '%w %t' | grep -c '^{self._appliance.identity} *active' || true"
        self._machine.run(f"until [ $({active}) = {count} ]; do sleep 0.3; done", PATHS_SECONDS)

    def _write(self) -> Job:
        """Starts writes with a flush after every eighth, read back and verified after; returns once they run."""
        self._round += 1
        file = f"/mnt/drill{self._round}"
        return begin_writes(self._machine, self._disk, file, "--rate=,1m --fsync=8", 60, WRITE_SECONDS)

    def perform(self, drill: Drill) -> str:
        """Injects the fault while writes run; the application must see a pause, and neither an error nor a lost
        write."""
        head = self._appliance.settle()
        self._wait_paths(2)
        job = self._write()
        struck = time.monotonic()
        drill.strike(head)
        took = time.monotonic() - struck
        report = fio_report(job.output())
        drill.mend(head)
        write, flush = report["write"], report.get("sync", {})
        longest = max(write["clat_ns"]["max"], flush.get("lat_ns", {}).get("max", 0)) / NANOSECONDS
        require(longest < PAUSE_SECONDS_MAX, f"a request took {longest:.1f} s")
        now = self._appliance.settle()
        require(drill.moves is None or drill.moves == (now != head), f"the pool was on {head}, and is now on {now}")
        self._wait_paths(2)
        return f"{write['total_ios']} writes verified, {flush.get('total_ios', 0)} flushes, 0 errors, 0 lost, longest pause {longest:.1f} s; {head} to {now} ({took:.1f} s to strike)"

    def detach(self) -> str:
        """The file system is sound, and the guest has no session or device left."""
        shown = self._machine.run(f"umount /mnt; e2fsck -fn {self._disk} 2>/dev/null", PATHS_SECONDS)
        self._machine.run(f"multipath -F; iscsiadm -m node -T {TARGET} --logout >/dev/null; multipathd shutdown >/dev/null", 60)
        return "e2fsck: " + shown.strip().splitlines()[-1].rpartition(": ")[2]


__all__ = ["Drill", "Drills"]
