"""Two heads in the guest share disks, each by a session of its own: the disks must refuse the writes of the loser.

The guest is both heads. Each logs in under a name of its own and so is an initiator of its own to the disks: one of
them registers, reserves or may write, and the other does not. On one host only the disks can tell the two apart, and
neither locks nor the cluster can, because each has its own device nodes.
"""

from __future__ import annotations

import time

from proof.linux.guest_server import END_SECONDS, START_SECONDS, GuestServer
from proof.linux.machine import Job, Machine
from proof.linux.network import NETWORKS
from proof.linux.steps import fio_report, require
from proof.linux.target import HEADS, INITIATOR, SHELF, SHELF_DISKS

POOL = "shared"
LEFT, RIGHT = tuple(HEADS)
OWNERSHIP_LOST = 8
"""Exit code of a server that lost its pool."""
KEY_PREFIX = 0x42554C4B
HOST_IDS = {LEFT: 0x0A, RIGHT: 0x0B}
FROZEN_SECONDS = 2.0
"""Longer than the interval in which a running server checks the clock."""


def key(head: str) -> str:
    """The reservation key of a head, as sg_persist prints it."""
    return f"0x{KEY_PREFIX << 32 | HOST_IDS[head]:x}"


class Fencing:
    """One pool on two disks, and two heads that can both reach them."""

    def __init__(self, machine: Machine):
        self._machine = machine
        self._heads = {head: GuestServer(machine, head, f"/dev/{head}", HOST_IDS[head]) for head in HEADS}

    # ------------------------------------------------------------------ the disks

    def log_in(self) -> str:
        """Gives each head its own session, and with it its own nodes of the same disks."""
        self._machine.run(f"""
            multipathd shutdown >/dev/null 2>&1 || true
            mkdir -p /run/lock/iscsi
            [ -s /etc/iscsi/initiatorname.iscsi ] || echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi
            pgrep -x iscsid >/dev/null || iscsid
        """)
        for (head, initiator), network in zip(HEADS.items(), NETWORKS, strict=True):
            node = f"iscsiadm -m node -T {SHELF} -p {network.server}:3260 -I {head}"
            by_path = f"/dev/disk/by-path/ip-{network.server}:3260-iscsi-{SHELF}-lun-"
            links = "".join(
                f"until [ -b {by_path}{lun} ]; do sleep 0.2; done; ln -sfn $(readlink -f {by_path}{lun}) /dev/{head}/disk{lun}\n"
                for lun in range(len(SHELF_DISKS))
            )
            self._machine.run(f"""
                iscsiadm -m iface -I {head} -o new >/dev/null
                iscsiadm -m iface -I {head} -o update -n iface.initiatorname -v {initiator} >/dev/null
                {node} -o new >/dev/null
                {node} --login >/dev/null
                mkdir -p /dev/{head} /run/{head}/state
                {links}
            """)
        for lun in range(len(SHELF_DISKS)):
            disks = [f"/dev/{head}/disk{lun}" for head in HEADS]
            same, apart = (self._machine.run(f"for disk in {' '.join(disks)}; do {ask}; done").split("\n")[:2] for ask in ("sg_vpd --page=0x80 $disk | tail -n 1", "readlink -f $disk"))
            require(same[0] == same[1], f"not one disk: {same}")
            require(apart[0] != apart[1], f"not two ways to it: {apart}")
        return f"{len(HEADS)} initiators, {len(SHELF_DISKS)} disks that both see"

    def _ask(self, disk: str, what: str) -> str:
        # A unit attention about actions of the other head comes first.
        return self._machine.run(f"sg_turs {disk} >/dev/null 2>&1 || true; sg_persist -n --in --read-{what} {disk}")

    def _keys(self, lun: int = 0) -> list[str]:
        shown = self._ask(f"/dev/{RIGHT}/disk{lun}", "keys")
        return sorted({word for word in shown.split() if word.startswith("0x") and len(word) > 10})

    def _require_held(self, head: str) -> None:
        """Only ``head`` is registered on every disk, and the reservation refuses the writes of unregistered
        initiators."""
        for lun in range(len(SHELF_DISKS)):
            found = self._keys(lun)
            require(found == [key(head)], f"disk {lun} has the keys {found}, not just {key(head)} of {head}")
            shown = self._ask(f"/dev/{head}/disk{lun}", "reservation")
            require("Write Exclusive, registrants only" in shown and key(head) in shown, f"disk {lun} is not reserved by {head}:\n{shown}")

    # ------------------------------------------------------------------ the heads

    def _require_lost(self, head: str) -> float:
        """The server of ``head`` exits by itself, with the code of a lost pool; returns after how many seconds."""
        since = time.monotonic()
        status = self._heads[head].status()
        log = self._heads[head].log()
        require(status == OWNERSHIP_LOST, f"the server of {head} ended with {status}:\n{log}")
        require("ends at once" in log, f"the server of {head} does not say why it ended:\n{log}")
        return time.monotonic() - since

    def _fio(self, head: str, words: str) -> str:
        return f"fio --ioengine=nbd --uri='nbd+unix:///v?socket=/run/{head}/nbd' --output-format=json {words}"

    def _keep(self, head: str, part: int) -> None:
        """Writes data that must exist after every takeover, and flushes it."""
        words = f"--name=kept{part} --rw=write --bs=64k --offset={part * 4}m --size=4m --end_fsync=1 --verify=crc32c --do_verify=0 --verify_state_save=0"
        fio_report(self._machine.run(self._fio(head, words)))

    def _verify(self, head: str, parts: int) -> None:
        for part in range(parts):
            words = f"--name=kept{part} --rw=write --bs=64k --offset={part * 4}m --size=4m --verify=crc32c --verify_only --verify_state_load=0"
            fio_report(self._machine.run(self._fio(head, words)))

    def _load(self, head: str) -> Job:
        """Starts writes that run until their server exits; returns once they reach the disks."""
        written = f"awk '{{ print $5 }}' /sys/block/$(basename $(readlink -f /dev/{head}/disk0))/stat"
        before = int(self._machine.run(written))
        job = self._machine.start(self._fio(head, f"--name=load --rw=randwrite --bs=4k --offset=32m --size=16m --iodepth=4 --fsync=8 --time_based --runtime={START_SECONDS:g}"), START_SECONDS)
        self._machine.run(f"until [ $({written}) -gt {before + 50} ]; do sleep 0.1; done", END_SECONDS)
        return job

    def _conflicts(self) -> int:
        return int(self._machine.run("dmesg | grep -c 'reservation conflict' || true"))

    # ------------------------------------------------------------------ the steps

    def claim(self) -> str:
        """The disks themselves protect a pool in use, against writes and against a head without proof."""
        disks = " ".join(f"/dev/{LEFT}/disk{lun}" for lun in range(len(SHELF_DISKS)))
        self._heads[LEFT].command(f"pool create {POOL} mirror {disks}")
        self._heads[LEFT].command(f"volume create {POOL}/v --size 64M --sparse --sync always")
        self._heads[LEFT].command(f"nbd export {POOL}/v --name v")
        took = self._heads[LEFT].serve(POOL, "--claims reservations")
        self._require_held(LEFT)
        self._keep(LEFT, 0)
        # In an area without ZFS data: between the first labels and the data.
        write = f"dd if=/dev/zero of=/dev/{RIGHT}/disk0 oflag=direct bs=4k seek=256 count=1"
        answer = self._machine.attempt(write)
        require(answer.status != 0 and "exchange" in answer.output, f"a stranger's write was not refused as a conflict: {answer.output}")
        self._heads[RIGHT].start(POOL, "--claims reservations")
        status = self._heads[RIGHT].status()
        log = self._heads[RIGHT].log(5)
        require(status not in (0, OWNERSHIP_LOST) and "was not exported by left" in log, f"a head without proof ended with {status}:\n{log}")
        self._require_held(LEFT)
        return f"left serves after {took:.1f} s, key {key(LEFT)}, write exclusive, registrants only; a stranger's write: RESERVATION CONFLICT; no proof, no import"

    def take_from_the_living(self) -> str:
        """A wrong fence confirmation: the head that is reported as off still writes."""
        load = self._load(LEFT)
        before = self._conflicts()
        took = self._heads[RIGHT].serve(POOL, f"--claims reservations --fenced-owner {LEFT}")
        ended = self._require_lost(LEFT)
        load.wait()
        conflicts = self._conflicts() - before
        require(conflicts > 0, "no write of the loser was refused by a disk")
        self._require_held(RIGHT)
        self._verify(RIGHT, 1)
        self._keep(RIGHT, 1)
        return f"right serves after {took:.1f} s; {conflicts} refusals, left exited with {OWNERSHIP_LOST} {ended:.1f} s later; its acknowledged writes are there"

    def take_from_the_frozen(self) -> str:
        """The head that is reported as off was paused, and resumes."""
        load = self._load(RIGHT)
        self._heads[RIGHT].signal("STOP")
        frozen = time.monotonic()
        took = self._heads[LEFT].serve(POOL, f"--claims reservations --fenced-owner {RIGHT}")
        time.sleep(max(0.0, frozen + FROZEN_SECONDS - time.monotonic()))
        self._heads[RIGHT].signal("CONT")
        ended = self._require_lost(RIGHT)
        load.wait()
        self._require_held(LEFT)
        self._verify(LEFT, 2)
        return f"left serves after {took:.1f} s; right resumed, and exited with {OWNERSHIP_LOST} after {ended:.1f} s"

    def give_back(self) -> str:
        """A clean stop leaves no registration, and a sound pool."""
        self._heads[LEFT].stop()
        left = [found for lun in range(len(SHELF_DISKS)) for found in self._keys(lun)]
        require(not left, f"registrations are left: {left}")
        return "no registration is left; " + self._heads[RIGHT].audit(POOL)

    def log_out(self) -> str:
        """Removes all sessions of the guest."""
        self._machine.run(f"iscsiadm -m node -T {SHELF} --logout >/dev/null", 60)
        return "both sessions ended"


__all__ = ["Fencing"]
