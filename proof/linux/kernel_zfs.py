"""The kernel's own OpenZFS judges: it imports our pool and our log, we import its own, and streams go both ways.

Both sides are in the guest: ``bulkhead`` in user space, and ZFS in the guest's kernel, on the same disks one after
the other. The contents of a volume are compared by checksum, read through the kernel's NBD client or from the
kernel's own zvol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from proof.linux.guest_server import GuestServer
from proof.linux.luggage import PLACE
from proof.linux.machine import Machine
from proof.linux.modules import MODULES, zfs_version
from proof.linux.steps import require
from proof.process import checked

OURS, THEIRS = "tank", "vault"
"""The pool that our server creates, and the one that the kernel creates."""
LEGS = ("leg0", "leg1")
DISKS = (*LEGS, THEIRS)
DISK_BYTES = 512 << 20
DEVICES = "/dev/pools"
HOST_ID = 0x0C
KEY = "/run/volumes.key"
VOLUMES: Mapping[str, str] = {
    "plain": "--size 48M --compression zstd",
    "small": "--size 16M --block-size 4K --compression lz4 --checksum sha256",
    "secret": f"--size 32M --encryption aes-256-gcm --key-format raw --key-location file://{KEY}",
}
DURABLE_WRITES = 24
STEP_SECONDS = 400.0
TXG_SECONDS = 60
"""Transaction groups hardly close by themselves within a step: durable data is in the log."""

STARTED = re.compile(r"zfs: |spl: |ZFS: |taint|license|module verification|nbd\d")
"""Kernel messages about modules that were not built with it, and about clients that connect and disconnect."""
SERVER_LOST = re.compile(r"nbd\d|zd\d+:")
"""Messages of the kernel's NBD client when its server is killed."""

_FUNCTIONS = f"""
disk() {{ echo /dev/$(basename $(dirname $(grep -lx $1 /sys/block/vd*/serial))); }}
zvol() {{ for disk in /dev/zd*; do case $disk in *p*) continue ;; esac; [ "$(zvol_id $disk 2>/dev/null)" != "$1" ] || echo $disk; done; }}
wait_zvol() {{ until [ -n "$(zvol $1)" ]; do sleep 0.2; done; zvol $1; }}
sum_of() {{ dd if=$1 bs=1M iflag=direct status=none | sha256sum | cut -d' ' -f1; }}
noise() {{ head -c $2 /dev/urandom | dd of=$1 bs=1M seek=$3 oflag=direct iflag=fullblock conv=notrunc status=none; sync $1; }}
durable() {{ for number in $(seq {DURABLE_WRITES}); do
    head -c 12288 /dev/urandom | dd of=$1 bs=12288 seek=$((number * 7 + number % 3)) count=1 iflag=fullblock oflag=direct,dsync conv=notrunc status=none
done; }}
nbd() {{ nbd-client -unix /run/ours/nbd -N $1 -b 4096 /dev/nbd${{2:-0}} >/dev/null; }}
nbd_end() {{ nbd-client -d /dev/nbd${{1:-0}} >/dev/null; }}
"""


_LINK_THEIRS = f"[ ! -b $(disk {THEIRS})1 ] || ln -sfn $(disk {THEIRS})1 {DEVICES}/{THEIRS}"
"""The kernel's tool creates partitions, and the pool is on the first of them."""


def programs() -> dict[str, Path]:
    """Returns the stock tools for the guest, by their names there."""
    found = {name: Path(checked(["sh", "-c", f"PATH=$PATH:/usr/sbin:/sbin command -v {name}"], 10).strip()) for name in ("zpool", "zfs", "zdb")}
    return {**found, "zvol_id": Path("/usr/lib/udev/zvol_id")}


def make_disks(scratch: Path) -> list[Path]:
    """Creates the disks, as sparse files."""
    disks = [scratch / f"{name}.img" for name in DISKS]
    for disk in disks:
        with disk.open("wb") as file:
            file.truncate(DISK_BYTES)
    return disks


class KernelZfs:
    """The two pools, and their current owners."""

    def __init__(self) -> None:
        self._sums: dict[str, str] = {}
        """Checksums of volumes and snapshots, by their names."""

    def enter(self, machine: Machine) -> str:
        """After each start of the guest: loads the modules, links the disks by their names, and loads the key."""
        self._machine = machine
        self._server = GuestServer(machine, "ours", DEVICES, HOST_ID)
        links = "".join(f"ln -sfn $(disk {name}) {DEVICES}/{name}\n" for name in LEGS)
        loads = "".join(f"insmod /{PLACE}/{name}.ko\n" for name in MODULES)
        self._run(f"""
            modprobe nbd nbds_max={len(VOLUMES)}
            mkdir -p {DEVICES} /etc/zfs
            until [ $(ls -d /sys/block/vd* | wc -l) -ge {len(DISKS)} ]; do sleep 0.1; done
            {links}
            {_LINK_THEIRS}
            {loads}
            until [ -c /dev/zfs ]; do sleep 0.1; done
            head -c 32 /dev/zero | tr '\\0' k >{KEY}
            chmod 600 {KEY}
        """)
        shown = self._run("cat /sys/module/zfs/version").strip()
        require(shown == zfs_version(), f"the kernel has ZFS {shown}, our server {zfs_version()}")
        return f"ZFS {shown} in Linux {machine.release}"

    def make_ours(self) -> str:
        """Creates a pool with volumes of several shapes, snapshots, and an encrypted clone that was promoted."""
        legs = " ".join(f"{DEVICES}/{leg}" for leg in LEGS)
        self._server.command(f"pool create {OURS} mirror {legs}")
        self._server.serve(OURS)
        for name, options in VOLUMES.items():
            self._server.command(f"volume create {OURS}/{name} --sparse {options}")
            self._server.command(f"nbd export {OURS}/{name} --name {name}")
            self._write(name, "noise /dev/nbd0 6M 1; noise /dev/nbd0 3M 9")
            self._take(name, "one")
            self._write(name, "noise /dev/nbd0 2M 8; blkdiscard -o 1M -l 2M /dev/nbd0")
            self._take(name, "two")
        self._server.command(f"snapshot clone {OURS}/secret@two {OURS}/heir")
        self._server.command(f"volume promote {OURS}/heir")
        self._sums[f"{OURS}/heir"] = self._sums[f"{OURS}/secret"]
        return f"{len(self._sums)} volumes and snapshots; secret's key went to its clone"

    def send_ours(self) -> str:
        """Our streams, received by the kernel: whole, incremental, raw, and an interrupted one."""
        send = f"{self._server.words} snapshot send {OURS}"
        self._run(f"""
            zpool create -O mountpoint=none -O canmount=off -o cachefile=none {THEIRS} $(disk {THEIRS})
            {_LINK_THEIRS}
            {send}/plain@one | zfs receive {THEIRS}/plain
            {send}/plain@two --from @one | zfs receive {THEIRS}/plain
            {send}/small@two --plain | zfs receive {THEIRS}/small
            {send}/heir@one --raw | zfs receive {THEIRS}/secret
            {send}/heir@two --raw --from @one | zfs receive {THEIRS}/secret
            zfs load-key -L file://{KEY} {THEIRS}/secret
            {{ {send}/plain@two || true; }} | head -c 3M | zfs receive -s {THEIRS}/cut && exit 1 || true
            token=$(zfs get -H -o value receive_resume_token {THEIRS}/cut)
            {self._server.words} snapshot send --resume $token | zfs receive -s {THEIRS}/cut
        """)
        copies = {"plain": "plain@two", "small": "small@two", "secret": "secret@two", "cut": "plain@two"}
        for copy, original in copies.items():
            self._judge_zvol(f"{THEIRS}/{copy}", f"{OURS}/{original}")
        self._judge_zvol(f"{THEIRS}/plain@one", f"{OURS}/plain@one")
        return f"{len(copies)} volumes arrived: whole, incremental, raw, resumed"

    def send_theirs(self) -> str:
        """The kernel's streams, received by us."""
        volume = f"{THEIRS}/made"
        self._run(f"zfs create -s -V 24M -o volblocksize=8K -o compression=lz4 {volume}; noise $(wait_zvol {volume}) 5M 2; zfs snapshot {volume}@a")
        self._keep(f"{volume}@a", self._sum_zvol(volume))
        self._run(f"noise $(zvol {volume}) 3M 4; zfs snapshot {volume}@b; udevadm settle --timeout=60 || true")
        self._keep(f"{volume}@b", self._sum_zvol(volume))
        receive = f"{self._server.words} snapshot receive {OURS}"
        self._run(f"""
            zfs send -c {volume}@a | {receive}/made
            zfs send -i @a {volume}@b | {receive}/made
            zfs send -w {THEIRS}/secret@two | {receive}/secret-back
            {{ zfs send {volume}@b || true; }} | head -c 3M | {receive}/cut --resumable && exit 1 || true
            token=$({receive}/cut --token)
            zfs send -t $token | {receive}/cut --resumable
        """)
        self._server.command(f"volume key load {OURS}/secret-back --key-location file://{KEY}")
        for copy, original in {"made": f"{volume}@b", "cut": f"{volume}@b", "secret-back": f"{OURS}/secret@two"}.items():
            self._server.command(f"nbd export {OURS}/{copy} --name {copy}")
            self._judge_nbd(copy, original)
        return "3 volumes arrived: whole and incremental, raw, resumed"

    def leave_our_log(self) -> str:
        """Leaves durable writes that only the log has, of a server that is killed."""
        self._server.stop()
        self._server.serve(OURS, f"--txg-timeout {TXG_SECONDS}")
        # Closing a volume, or beginning its log, writes all earlier data out.
        for number, name in enumerate(VOLUMES):
            self._run(f"nbd {name} {number}; durable /dev/nbd{number}")
        for number, name in enumerate(VOLUMES):
            self._keep(f"{OURS}/{name}", self._run(f"durable /dev/nbd{number}; sum_of /dev/nbd{number}"))
        self._server.signal("KILL")
        self._run("".join(f"nbd_end {number} || true; " for number in range(len(VOLUMES))))
        return self._records("our server was killed")

    def kernel_takes_over(self) -> str:
        """The kernel imports the pool, replays our log, and finds no damage."""
        self._run(f"zpool import -f -N -d {DEVICES} -o cachefile=none {OURS}; zfs load-key {OURS}/heir")
        for name in (*VOLUMES, "heir"):
            self._judge_zvol(f"{OURS}/{name}", f"{OURS}/{name}")
        self._run(f"zpool scrub -w {OURS}")
        shown = self._run(f"zpool status -p {OURS}")
        require("errors: No known data errors" in shown and "repaired 0B" in shown, f"the kernel's ZFS found:\n{shown}")
        return "all acknowledged writes are there; its scrub repaired 0B, no errors"

    def leave_their_log(self) -> str:
        """Makes durable writes of the kernel that only the log has. The caller then cuts the power."""
        self._run(f"echo {TXG_SECONDS} >/sys/module/zfs/parameters/zfs_txg_timeout; zpool sync")
        for name in VOLUMES:
            self._run(f"setsid sleep {STEP_SECONDS:g} <$(zvol {OURS}/{name}) >/dev/null 2>&1 & durable $(zvol {OURS}/{name})")
        for name in VOLUMES:
            self._keep(f"{OURS}/{name}", self._run(f"durable $(zvol {OURS}/{name}); sum_of $(zvol {OURS}/{name})"))
        return f"{DURABLE_WRITES} writes to each of {len(VOLUMES)} volumes"

    def we_take_over(self) -> str:
        """Our server imports the pool as the kernel left it, and replays its log."""
        records = self._records("the kernel lost its power")
        refused = self._machine.attempt(f"{self._server.words} pool import {OURS} 2>&1")
        require(refused.status != 0 and "--previous-owner-is-stopped" in refused.output, f"imported without a proof: {refused.output}")
        self._server.command(f"pool import {OURS} --previous-owner-is-stopped")
        self._server.serve(OURS)
        self._server.command(f"nbd export {OURS}/heir --name heir")
        for name in (*VOLUMES, "heir"):
            self._judge_nbd(name, f"{OURS}/{name}")
        self._server.stop()
        return f"{records}; its acknowledged writes are there; {self._server.audit(OURS)}"

    def we_serve_theirs(self) -> str:
        """Serves a pool that the kernel created, with all its features, and that lost its power."""
        self._server.command(f"pool import {THEIRS} --previous-owner-is-stopped")
        self._server.serve(THEIRS)
        for name, original in {"made": f"{THEIRS}/made@b", "plain": f"{OURS}/plain@two"}.items():
            self._server.command(f"nbd export {THEIRS}/{name} --name {name}")
            self._judge_nbd(name, original)
        self._server.stop()
        return f"its volumes are unchanged; {self._server.audit(THEIRS)}"

    # ------------------------------------------------------------------ hands

    def _run(self, script: str) -> str:
        return self._machine.run(_FUNCTIONS + script, STEP_SECONDS)

    def _write(self, name: str, script: str) -> None:
        """Writes to an exported volume, and stores the checksum of the result."""
        self._keep(f"{OURS}/{name}", self._run(f"nbd {name}; {script}; sum_of /dev/nbd0; nbd_end"))

    def _take(self, name: str, tag: str) -> None:
        self._server.command(f"snapshot create {OURS}/{name}@{tag}")
        self._sums[f"{OURS}/{name}@{tag}"] = self._sums[f"{OURS}/{name}"]

    def _keep(self, name: str, printed: str) -> None:
        self._sums[name] = printed.split()[-1]

    def _sum_zvol(self, name: str) -> str:
        if "@" in name:
            self._run(f"zfs set snapdev=visible {name.split('@')[0]}")
        return self._run(f"sum_of $(wait_zvol {name})")

    def _judge_zvol(self, name: str, original: str) -> None:
        self._judge(name, original, self._sum_zvol(name))

    def _judge_nbd(self, name: str, original: str) -> None:
        self._judge(name, original, self._run(f"nbd {name}; sum_of /dev/nbd0; nbd_end"))

    def _judge(self, name: str, original: str, printed: str) -> None:
        found = printed.split()[-1]
        require(found == self._sums[original], f"{name} differs from {original}: {found}, {self._sums[original]}")

    def _records(self, when: str) -> str:
        """Returns the records in the logs of the pool, which is not imported now: without any, a replay would prove
        nothing."""
        counts = {name: self._count_records(name) for name in VOLUMES}
        require(all(count >= DURABLE_WRITES for count in counts.values()), f"records of the log when {when}: {counts}")
        return f"when {when}, zdb found " + ", ".join(f"{count} records of {name}" for name, count in counts.items())

    def _count_records(self, name: str) -> int:
        shown = self._machine.run(f"zdb -e -p {DEVICES} -iiiii {OURS}/{name} 2>&1 || true", STEP_SECONDS)
        return len(re.findall(r"^\s*TX_WRITE", shown, re.M))


__all__ = ["SERVER_LOST", "STARTED", "KernelZfs", "make_disks", "programs"]
