"""The actions of the initiator on the server while no component fails."""

from __future__ import annotations

import json
from typing import Any

from proof.linux.machine import Job, Machine
from proof.linux.network import NETWORKS
from proof.linux.root import ISCSI_SETTINGS, recommended
from proof.linux.target import DISK, FINDER, FINDER_SECRET, INITIATOR, MEBIBYTE, NBD_PORT, NETWORK_DISK, RAW, SECRET, TARGET_SECRET, TARGET_USER, USER, PortalServer
from proof.runtime import ProofError
from proof.servers.bulkhead import TARGET

GROWN = 640 * MEBIBYTE
EMPTY_BYTES_MAX = 24 * MEBIBYTE
"""Bound of the space of an empty file system in the pool: its metadata and the used part of its journal."""
XFS_EMPTY_BYTES_MAX = 96 * MEBIBYTE
"""mkfs.xfs stamps every sector of a log of 64 MiB."""
BEGIN_SECONDS = 200.0
"""Time until writes have started, even with missing paths."""
AUTHENTICATION_FAILED = 24
"""Exit code of iscsiadm when the target refuses the secret."""

FIO = "fio --name=proof --ioengine=libaio --fallocate=none --verify=crc32c --verify_fatal=1 --do_verify=1 --output-format=json"


def require(holds: bool, words: str) -> None:
    """Fails a step unless the condition holds."""
    if not holds:
        raise ProofError(words)


def begin_writes(machine: Machine, disk: str, file: str, how: str, requests: int, seconds: float) -> Job:
    """Starts writes into ``file`` on ``disk``, with the options ``how``, read back and verified after; returns after
    so many requests."""
    writes = f"cat /sys/block/$(basename $(readlink -f {disk}))/stat | awk '{{ print $5 }}'"
    before = int(machine.run(writes))
    script = f"{FIO} --filename={file} --rw=randwrite --bs=16k --size=24m --direct=1 --iodepth=4 {how}; rm {file}"
    started = machine.start(script, seconds)
    machine.run(f"until [ $({writes}) -gt {before + requests} ]; do sleep 0.1; done", BEGIN_SECONDS)
    return started


def fio_report(output: str) -> dict[str, Any]:
    """Parses the document that fio printed, behind its warnings."""
    try:
        jobs = json.loads(output[output.index("{") :])["jobs"]
    except (ValueError, KeyError) as error:
        raise ProofError(f"fio printed no report:\n{output[-1500:]}") from error
    job: dict[str, Any] = jobs[0]
    require(job["error"] == 0, f"fio saw error {job['error']}")
    return job


def _discovery(server: str, user: str, secret: str) -> str:
    """Runs discovery with CHAP in both directions."""
    record = f"iscsiadm -m discoverydb -t st -p {server}"
    options = (("authmethod", "CHAP"), ("username", user), ("password", secret), ("username_in", TARGET_USER), ("password_in", TARGET_SECRET))
    update = "".join(f"{record} -o update -n discovery.sendtargets.auth.{name} -v {value}\n" for name, value in options)
    return f"{record} -o new >/dev/null\n{update}{record} --discover"


class Session:
    """From discovery to two paths under one disk."""

    def __init__(self, machine: Machine, server: PortalServer):
        self.machine = machine
        self.server = server
        self.wwid = server.wwid(DISK)
        self.raw_wwid = server.wwid(RAW)

    @property
    def disk(self) -> str:
        """The multipath device of the first volume."""
        return f"/dev/mapper/{self.wwid}"

    @property
    def raw(self) -> str:
        """The multipath device of the second."""
        return f"/dev/mapper/{self.raw_wwid}"

    def wait_paths(self, count: int, seconds: float = 90) -> None:
        """Returns when this many paths of the first volume are in use."""
        active = f"multipathd show paths format '%w %t' | grep -c '^{self.wwid} *active' || true"
        self.machine.run(f"until [ $({active}) = {count} ]; do sleep 0.3; done", seconds)

    def start_daemons(self) -> str:
        """Starts iscsid and multipathd, like their units do."""
        self.machine.run(f"echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi; mkdir -p /run/lock/iscsi; iscsid; multipathd")
        self.machine.run("until multipathd show daemon >/dev/null 2>&1; do sleep 0.2; done", 30)
        return self.machine.run("iscsiadm --version").strip()

    def discover(self) -> str:
        """SendTargets on either portal shows both, to an initiator with the secret of discovery, which differs from
        the target's."""
        plain = self.machine.attempt(f"iscsiadm -m discovery -t st -p {NETWORKS[0].server}", 60)
        require(plain.status == AUTHENTICATION_FAILED, f"discovery without a secret exited with {plain.status}: {plain.output}")
        wrong = self.machine.attempt(_discovery(NETWORKS[0].server, USER, SECRET), 60)
        require(wrong.status == AUTHENTICATION_FAILED, f"discovery with the target's secret exited with {wrong.status}: {wrong.output}")
        for network in NETWORKS:
            shown = self.machine.run(_discovery(network.server, FINDER, FINDER_SECRET))
            for group, portal in enumerate(NETWORKS, 1):
                line = f"{portal.server}:3260,{group} {TARGET}"
                require(line in shown, f"{line!r} is not in the answer of {network.server}:\n{shown}")
        record = self.machine.run(f"iscsiadm -m node -T {TARGET} -p {NETWORKS[0].server}")
        for line in recommended(ISCSI_SETTINGS).splitlines():
            # Passwords and their algorithms are not shown; all other settings must come from the guide.
            require(line in record or "auth" in line, f"{line!r} of the guide is not in the record:\n{record}")
        return f"without its secret discovery is refused (status {plain.status}); with it both portals list both, {TARGET}; the record has the settings of the guide"

    def _credentials(self, secret: str) -> None:
        values = (
            ("authmethod", "CHAP"),
            *(("username", USER), ("password", secret)),
            *(("username_in", TARGET_USER), ("password_in", TARGET_SECRET)),
        )
        node = f"iscsiadm -m node -T {TARGET}"
        self.machine.run("".join(f"{node} -o update -n node.session.auth.{name} -v {value}\n" for name, value in values))

    def wrong_secret(self) -> str:
        """A wrong secret is refused."""
        self._credentials("not-this-sesame")
        login = f"iscsiadm -m node -T {TARGET} -p {NETWORKS[0].server} --login"
        answer = self.machine.attempt(login, 60)
        require(answer.status == AUTHENTICATION_FAILED, f"login exited with {answer.status}: {answer.output}")
        return f"refused, iscsiadm exits with {answer.status}"

    def log_in(self) -> str:
        """Both portals, mutual CHAP, digests on the second."""
        self._credentials(SECRET)
        digests = "".join(
            f"iscsiadm -m node -T {TARGET} -p {NETWORKS[1].server} -o update -n node.conn[0].iscsi.{kind}Digest -v CRC32C\n"
            for kind in ("Header", "Data")
        )
        self.machine.run(f"{digests}iscsiadm -m node -T {TARGET} --login", 90)
        shown = self.machine.run("iscsiadm -m session -P 2")
        require(shown.count("LOGGED_IN") == 2, f"not two sessions:\n{shown}")
        require(shown.count("Digest: CRC32C") == 2, f"no digests on the second path:\n{shown}")
        require(f"username_in: {TARGET_USER}" in shown, f"the target did not prove itself:\n{shown}")
        return "2 sessions, mutual CHAP, CRC32C digests on the second"

    def identify(self) -> str:
        """Compares INQUIRY and its pages through each path with the server's data of the volume."""
        self.wait_paths(2)
        paths = self.machine.run(f"multipathd show paths format '%w %d' | awk '$1 == \"{self.wwid}\" {{ print $2 }}'").split()
        for path in paths:
            device = f"/dev/{path}"
            pages = "".join(f"sg_vpd --page={page} {device} >/dev/null\n" for page in ("0x00", "0x80", "0x83", "0xb0", "0xb1", "0xb2"))
            tools = f"sg_inq {device}\nsg_opcodes {device} >/dev/null\nsg_luns {device}\nsg_rtpg {device}\nsg_vpd --page=0x80 {device}\nsg_readcap --16 {device}\n"
            shown = self.machine.run(f"{pages}{tools}sg_modes {device} >/dev/null")
            serial = self.server.serial(DISK)
            for wanted in ("BULKHEAD", serial, f"Number of logical blocks={DISK.size // 512}", "lbprz=1", "asymmetric access state : 0x00"):
                require(wanted in shown, f"{wanted!r} is not in the output of {device}:\n{shown}")
        return f"{len(paths)} paths, VPD 00 80 83 b0 b1 b2, serial {self.server.serial(DISK)}, LUNs, ALUA"

    def multipath(self) -> str:
        """One disk above the two paths, of the right size, in one group."""
        shown = self.machine.run(f"multipath -ll {self.wwid}")
        require(shown.count("active ready running") == 2, f"not two running paths:\n{shown}")
        require("1 alua" in shown, f"the paths are not under ALUA:\n{shown}")
        require(shown.count("policy=") == 1, f"two equal paths are not in one group:\n{shown}")
        size = int(self.machine.run(f"blockdev --getsize64 {self.disk}"))
        require(size == DISK.size, f"the disk has {size} bytes")
        return " ".join(self.machine.run(f"lsblk -dno NAME,SIZE,TYPE {self.disk}").split()) + ", 2 paths active ready running, ALUA"

    def reservations(self) -> str:
        """Registers and reserves on one path; the other is refused until it registers."""
        script = f"""
            set -- $(multipathd show paths format '%w %d' | awk '$1 == "{self.raw_wwid}" {{ print $2 }}')
            one=/dev/$1 other=/dev/$2
            sg_persist -n --out --register --param-sark=0xa1 $one
            sg_persist -n --out --reserve --param-rk=0xa1 --prout-type=5 $one
            sg_persist -n --in --read-reservation $other | grep -i 'key *= *0xa1'
            if dd if=/dev/zero of=$other oflag=direct bs=4k count=1 2>/dev/null; then echo the write was not refused; exit 1; fi
            dd if=/dev/zero of=$one oflag=direct bs=4k count=1 2>/dev/null
            sg_persist -n --out --register --param-sark=0xa2 $other
            dd if=/dev/zero of=$other oflag=direct bs=4k count=1 2>/dev/null
            sg_persist -n --out --release --param-rk=0xa1 --prout-type=5 $one
            # Unit attentions notify the other paths (Reservations released, preempted): received first.
            sg_turs $other >/dev/null 2>&1 || true
            sg_persist -n --in --read-reservation $other | grep -i 'no reservation'
            sg_persist -n --out --clear --param-rk=0xa2 $other
            sg_turs $one >/dev/null 2>&1 || true
            sg_persist -n --in --read-keys $one | grep -i 'no registered'
        """
        self.machine.run(script)
        return "register, reserve, a stranger's write refused, release, clear"

    def log_out(self) -> str:
        """Removes all sessions of the guest."""
        self.machine.run(f"multipath -F; multipathd del map {self.wwid} >/dev/null 2>&1 || true; iscsiadm -m node -T {TARGET} --logout", 60)
        shown = self.machine.attempt("iscsiadm -m session").output
        require("No active sessions" in shown, f"sessions are left: {shown}")
        return "both sessions ended, no disk left"


class FileSystems:
    """File systems on the multipath disk."""

    def __init__(self, session: Session):
        self._session = session
        self._machine = session.machine
        self._server = session.server

    def xfs(self) -> str:
        """Created, mounted, written and verified: direct, and through the page cache with fsync."""
        self._machine.run(f"mkfs.xfs -q -f {self._session.disk}; mount {self._session.disk} /mnt")
        direct = f"{FIO} --filename=/mnt/direct --rw=randwrite --bsrange=4k-128k --size=24m --direct=1 --iodepth=8"
        fsync = f"{FIO} --filename=/mnt/fsync --rw=randwrite --bs=8k --size=8m --fsync=8"
        writes = [fio_report(self._machine.run(command))["write"]["total_ios"] for command in (direct, fsync)]
        return f"{writes[0]} direct writes and {writes[1]} with fsync verified"

    def grow(self) -> str:
        """The volume grows while the file system is in use."""
        self._server.resize(DISK, GROWN)
        size = f"$(blockdev --getsize64 {self._session.disk})"
        rescan = f"iscsiadm -m session --rescan >/dev/null; multipathd resize map {self._session.wwid} >/dev/null"
        self._machine.run(f"until [ {size} = {GROWN} ]; do {rescan}; sleep 0.3; done; xfs_growfs /mnt >/dev/null", 60)
        blocks = int(self._machine.run("df --output=size -B 1M /mnt | tail -n 1"))
        require(blocks > DISK.size // MEBIBYTE, f"the file system has {blocks} MiB")
        self._machine.run(f"{FIO} --filename=/mnt/grown --rw=write --bs=256k --size=8m --direct=1 --iodepth=4")
        return f"{DISK.size // MEBIBYTE} MiB to {GROWN // MEBIBYTE} MiB, file system has {blocks} MiB"

    def trim(self) -> str:
        """Deleted files free their space in the pool."""
        self._machine.run("rm -f /mnt/*; sync; fstrim /mnt")
        empty = self._server.wait_used("an empty XFS holds its log at most", DISK, 0, XFS_EMPTY_BYTES_MAX)
        self._machine.run("dd if=/dev/urandom of=/mnt/ballast bs=1M count=128 conv=fsync 2>/dev/null")
        before = self._server.wait_used("128 MiB of noise show in the pool", DISK, 128 * MEBIBYTE, GROWN)
        self._machine.run("rm /mnt/ballast; sync; fstrim /mnt")
        after = self._server.wait_used("fstrim frees the space", DISK, 0, XFS_EMPTY_BYTES_MAX)
        self._machine.run(f"umount /mnt; xfs_repair -n {self._session.disk} >/dev/null 2>&1", 60)
        sizes = ", ".join(str(size // MEBIBYTE) for size in (empty, before, after))
        return f"MiB in the pool empty, filled, trimmed: {sizes}; xfs_repair finds nothing"

    def ext4(self) -> str:
        """The same with the other file system; it stays mounted for the faults."""
        self._machine.run(f"umount /mnt 2>/dev/null || true; wipefs -qa {self._session.disk}; mkfs.ext4 -q {self._session.disk}; mount {self._session.disk} /mnt")
        direct = f"{FIO} --filename=/mnt/direct --rw=randwrite --bsrange=4k-128k --size=24m --direct=1 --iodepth=8"
        report = fio_report(self._machine.run(direct))
        self._machine.run("rm /mnt/direct; sync; fstrim /mnt")
        return f"{report['write']['total_ios']} direct writes verified, fstrim"

    def ext4_check(self) -> str:
        """Checks the file system after the faults."""
        shown = self._machine.run(f"umount /mnt; e2fsck -fn {self._session.disk}")
        return "e2fsck: " + shown.strip().splitlines()[-1].rpartition(": ")[2]

    def zero_and_discard(self) -> str:
        """BLKZEROOUT (WRITE SAME) leaves zeroes, BLKDISCARD (UNMAP) frees space."""
        raw = self._session.raw
        limits = self._machine.run(f"cd /sys/block/$(basename $(readlink -f {raw}))/queue; cat discard_max_bytes write_zeroes_max_bytes discard_granularity").split()
        require(all(int(limit) > 0 for limit in limits), f"the disk offers no discard or no write zeroes: {limits}")
        self._machine.run(f"dd if=/dev/urandom of={raw} bs=1M count=32 oflag=direct 2>/dev/null; blkdiscard -z -o 1M -l 4M {raw}")
        self._machine.run(f"cmp -n 4194304 -i 1048576:0 {raw} /dev/zero; ! cmp -s -n 1048576 {raw} /dev/zero")
        before = self._server.wait_used("the noise shows in the pool", RAW, 24 * MEBIBYTE, RAW.size)
        self._machine.run(f"blkdiscard {raw}; cmp -n {RAW.size} {raw} /dev/zero")
        after = self._server.wait_used("discard frees the space", RAW, 0, 4 * MEBIBYTE)
        return f"zeroes where requested, the pool holds {before // MEBIBYTE} MiB, then {after // MEBIBYTE} MiB"


class NetworkBlockDevice:
    """The kernel's NBD client."""

    def __init__(self, machine: Machine, server: PortalServer):
        self._machine = machine
        self._server = server

    def available(self) -> bool:
        """Whether this kernel has an NBD client."""
        return self._machine.attempt("modprobe nbd nbds_max=2 && [ -e /dev/nbd0 ]").status == 0

    def use(self) -> str:
        """Two connections: verified writes, flush, trim."""
        connect = f"nbd-client {NETWORKS[0].server} {NBD_PORT} /dev/nbd0 -N {NETWORK_DISK.name} -C 2 -b 4096"
        size = self._machine.run(f"{connect} >/dev/null; blockdev --getsize64 /dev/nbd0", 60).split()[-1]
        require(int(size) == NETWORK_DISK.size, f"the disk has {size} bytes")
        raw = f"{FIO} --filename=/dev/nbd0 --rw=randwrite --bsrange=4k-128k --size=24m --direct=1 --iodepth=8"
        report = fio_report(self._machine.run(raw))
        self._machine.run("mkfs.ext4 -q -E discard /dev/nbd0; mount /dev/nbd0 /mnt; dd if=/dev/urandom of=/mnt/noise bs=1M count=32 conv=fsync 2>/dev/null")
        before = self._server.wait_used("noise over NBD shows in the pool", NETWORK_DISK, 32 * MEBIBYTE, NETWORK_DISK.size)
        self._machine.run("rm /mnt/noise; sync; fstrim /mnt")
        after = self._server.wait_used("fstrim over NBD frees the space", NETWORK_DISK, 0, EMPTY_BYTES_MAX)
        self._machine.run("umount /mnt; e2fsck -fn /dev/nbd0 >/dev/null 2>&1; nbd-client -d /dev/nbd0 >/dev/null", 60)
        return f"{report['write']['total_ios']} writes verified, {before // MEBIBYTE} MiB in the pool, {after // MEBIBYTE} MiB after fstrim"


__all__ = ["FIO", "FileSystems", "NetworkBlockDevice", "Session", "fio_report", "require"]
