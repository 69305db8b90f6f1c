"""Linux's own NFS client on a file system of the pool."""

from __future__ import annotations

import re

from proof.linux.machine import Job, Machine
from proof.linux.network import NETWORKS
from proof.linux.steps import FIO, fio_report, require
from proof.linux.target import SHARE, PortalServer
from proof.servers.bulkhead import POOL

MOUNT = "/mnt/share"
NETWORK = NETWORKS[0]
OLDER = "/mnt/older"
"""The same mount by version 3."""
LOCKD = "mkdir -p /run/rpcbind /var/lib/nfs/sm /var/lib/nfs/sm.bak; echo guest >/proc/sys/kernel/hostname; rpcbind; rpc.statd --no-notify"
"""The daemons that a client of version 3 needs for locks; other systems start them."""
GRANT_SECONDS_MAX = 15
"""A client that is not called back retries after 30 seconds."""
GRACE_OVER_SECONDS = 25
MOUNT_SECONDS = 60.0
CLOCK_SECONDS_MAX = 600
"""Clocks of the guest and of the server differ by less than this, and the times of an exclusive create's verifier by
more."""
LOAD_SECONDS = 400.0
WRITE_SECONDS = 200.0
NANOSECONDS = 1_000_000_000
PAUSE_SECONDS_MAX = 60.0
NAMES_SECONDS = 300.0
KILLS = 8
CHANGES_A_ROUND = 11
"""``mkdir``, ``open``, ``rename``, ``link``, ``unlink``, ``rename``, ``symlink``, ``rename``, two ``unlink``, ``rmdir``."""
SERVER_LOST = re.compile(r"nfs: server \S+ (not responding|OK)|NFS: .*state manager", re.I)
"""Kernel messages while a server is away."""

TREE = "/usr/lib/modules"
FILES = 400
"""In one directory."""


def _mount(options: str) -> str:
    """Mounts without the helper of nfs-common, so that only port 2049 is used: the kernel needs the options that the
    helper would add."""
    address = f"addr={NETWORK.server},clientaddr={NETWORK.guest}"
    return f"modprobe nfsv4; mkdir -p {MOUNT}; mount -i -t nfs4 -o {options},{address} {NETWORK.server}:/{POOL}/{SHARE} {MOUNT}"


class Shares:
    """Actions of an application on a share, while the server runs and while it is killed."""

    def __init__(self, machine: Machine, server: PortalServer):
        self._machine = machine
        self._server = server
        self._files = 0

    def available(self) -> bool:
        """Whether the guest's kernel has an NFS client."""
        return self._machine.attempt("modprobe nfsv4", MOUNT_SECONDS).status == 0

    def mount(self) -> str:
        """Mounts version 4.2, with all defaults."""
        self._machine.run(_mount("vers=4.2"), MOUNT_SECONDS)
        shown = self._machine.run(f"grep ' {MOUNT} ' /proc/mounts").strip()
        require("vers=4.2" in shown, f"another version: {shown}")
        free = self._machine.run(f"df --output=size,avail -k {MOUNT} | tail -1").split()
        require(int(free[1]) > 0, f"no space: {free}")
        return shown

    def use(self) -> str:
        """Names, modes, times, links, holes, locks: each behaves like on a local disk."""
        self._use(MOUNT)
        return "modes, owners, times, links, holes, renames, locks, files without a name"

    def older(self) -> str:
        """Version 3, with locks of the client alone: the same, and each version reads the files that the other
        writes."""
        self._mount_older()
        self._use(OLDER)
        # A mount caches for a while that a name is missing.
        forget = "echo 3 > /proc/sys/vm/drop_caches"
        tree = f"{TREE}/*/kernel/fs"
        self._machine.run(f"cp -a {tree} {OLDER}/tree; {forget}; diff -r {tree} {MOUNT}/tree", LOAD_SECONDS)
        self._machine.run(f"rm -r {OLDER}/tree; {forget}; ! ls {MOUNT}/tree 2>/dev/null", LOAD_SECONDS)
        self._machine.run(f"umount {OLDER}", MOUNT_SECONDS)
        return "the same by version 3"

    def _mount_older(self) -> None:
        ports = "proto=tcp,port=2049,mountproto=tcp,mountport=2049"
        options = f"vers=3,nolock,{ports},addr={NETWORK.server}"
        self._machine.run(f"modprobe nfsv3; mkdir -p {OLDER}; mount -i -t nfs -o {options} {NETWORK.server}:/{POOL}/{SHARE} {OLDER}", MOUNT_SECONDS)

    def older_locks(self) -> str:
        """Locks of version 3 and of version 4.2 exclude each other; a blocked client is called back; locks survive a
        kill of the server."""
        machine = self._machine
        machine.run(f"{LOCKD}; mkdir -p {OLDER}; mount -t nfs -o vers=3,proto=tcp {NETWORK.server}:/{POOL}/{SHARE} {OLDER}", MOUNT_SECONDS)
        shown = machine.run(f"grep ' {OLDER} ' /proc/mounts").strip()
        require("vers=3" in shown and "nolock" not in shown, f"no locks: {shown}")
        newer = self._hold_lock(MOUNT)
        waits = machine.start(f"exec 9>{OLDER}/held; ! flock -n 9; touch /run/asks; flock 9; date +%s >/run/got", WRITE_SECONDS)
        machine.run("until [ -e /run/asks ]; do sleep 0.1; done; sleep 3; [ ! -e /run/got ]; touch /run/let-go; date +%s >/run/given", MOUNT_SECONDS)
        newer.output()
        waits.output()
        waited = int(machine.run("echo $(($(cat /run/got) - $(cat /run/given)))"))
        require(waited <= GRANT_SECONDS_MAX, f"a blocked client got its lock {waited} s later")
        older = self._hold_lock(OLDER)
        machine.run(f"! flock -n {MOUNT}/held true", MOUNT_SECONDS)
        self._server.kill()
        served = self._server.restart()
        machine.run(f"sleep {GRACE_OVER_SECONDS}; ! flock -n {MOUNT}/held true; touch /run/let-go", WRITE_SECONDS)
        older.output()
        machine.run(f"flock -n {MOUNT}/held true; umount {OLDER}", MOUNT_SECONDS)
        return f"called back {waited} s after; its lock held over a kill (server back after {served:.1f} s)"

    def snapshots(self) -> str:
        """A file is restored from ``.zfs/snapshot`` by either version, and a snapshot that is destroyed under a
        client is gone for it."""
        machine, share = self._machine, f"{POOL}/{SHARE}"
        tree = f"{TREE}/*/kernel/net"
        machine.run(f"cp -a {tree} {MOUNT}/kept; echo then > {MOUNT}/report; sync", LOAD_SECONDS)
        for name in ("monday", "tuesday"):
            self._server.command("snapshot", "create", f"{share}@{name}")
        machine.run(f"rm -r {MOUNT}/kept; echo now > {MOUNT}/report", LOAD_SECONDS)
        self._mount_older()
        for folder in (MOUNT, OLDER):
            seen = f"{folder}/.zfs/snapshot"
            machine.run(
                f"""
                cd {folder}; ! ls -a | grep -q zfs; [ "$(echo $(ls {seen}))" = "monday tuesday" ]
                cp {seen}/monday/report back; [ "$(cat back report)" = "$(printf 'then\nnow')" ]; rm back
                diff -r {tree} {seen}/monday/kept; ! touch {seen}/monday/x 2>/dev/null; ! mkdir {seen}/x 2>/dev/null
                [ $(stat -c %i {seen}/monday/report) = $(stat -c %i report) ]
                [ $(stat -c %d {seen}/monday/report) != $(stat -c %d {seen}/tuesday/report) ]
                """,
                LOAD_SECONDS,
            )
        held = machine.start(f"exec 9< {MOUNT}/.zfs/snapshot/monday/report; touch /run/looks; until [ -e /run/gone ]; do sleep 0.2; done; ! cat /proc/self/fd/9", LOAD_SECONDS)
        machine.run("until [ -e /run/looks ]; do sleep 0.1; done", MOUNT_SECONDS)
        self._server.command("snapshot", "destroy", f"{share}@monday", "--yes-destroy-data")
        machine.run("echo 3 > /proc/sys/vm/drop_caches; touch /run/gone", MOUNT_SECONDS)
        held.output()
        machine.run(f"[ \"$(cat {MOUNT}/.zfs/snapshot/tuesday/report)\" = then ]; rm {MOUNT}/report", MOUNT_SECONDS)
        machine.run(f"umount {OLDER}", MOUNT_SECONDS)
        self._server.command("snapshot", "destroy", f"{share}@tuesday", "--yes-destroy-data")
        return "copied and compared by versions 4.2 and 3; a destroyed one is gone for a client with an open file of it"

    def names(self) -> str:
        """The name of a child file system cannot be replaced, exclusive creates leave no times of the server's, and
        a name that is not UTF-8, which version 3 creates and version 4 refuses to create, can be used by both."""
        machine, child = self._machine, f"{POOL}/{SHARE}/child"
        self._server.command("filesystem", "create", child)
        self._mount_older()
        for folder in (MOUNT, OLDER):
            machine.run(
                f"""
                cd {folder}; ls child; mkdir names; echo x > names/file
                for taken in 'mkdir child' 'mknod child p' 'ln -T names/file child' 'ln -s -T x child' 'mv -T names child' 'rmdir child'; do
                    refused=$(LC_ALL=C $taken 2>&1) && exit 1
                    case $refused in *'Input/output error'*|*Stale*|*'No such file'*) echo "$taken: $refused"; exit 1;; esac
                done
                [ "$(cat names/file)" = x ]; ls child; ! [ -p child ]
                (umask 027; set -C; echo one > names/new; ! echo two > names/new) 2>/dev/null
                [ "$(cat names/new)" = one ]; [ $(stat -c %a names/new) = 640 ]
                [ $(($(date +%s) - $(stat -c %Y names/new))) -lt {CLOCK_SECONDS_MAX} ]; [ $(($(date +%s) - $(stat -c %X names/new))) -lt {CLOCK_SECONDS_MAX} ]
                odd=$(printf 'caf\\351'); echo {folder} > "{OLDER}/names/$odd"; ls names | grep -q caf; [ "$(cat "names/$odd")" = {folder} ]
                mv "names/$odd" names/plain; mv {OLDER}/names/plain "{OLDER}/names/$odd.2"; ln "names/$odd.2" names/plain; rm "names/$odd.2" names/plain
                rm names/file names/new; rmdir names; cd /; ! mountpoint -q {folder}/child || umount {folder}/child
                """,
                LOAD_SECONDS,
            )
        machine.run(f"umount {OLDER}", MOUNT_SECONDS)
        self._server.command("filesystem", "destroy", child, "--yes-destroy-data", "--in-use")
        return "by versions 4.2 and 3: six ways to take a child's name refused, exclusive creates, names that are not UTF-8"

    def _use(self, folder: str) -> None:
        self._machine.run(
            f"""
            cd {folder}; rm -rf use; mkdir use; cd use
            echo one > a; echo two >> a; [ "$(cat a)" = "$(printf 'one\\ntwo')" ]
            chmod 640 a; chown 12:34 a; [ "$(stat -c '%a %u %g' a)" = "640 12 34" ]
            touch -d @1234567890.123456789 a; [ "$(stat -c %.9Y a)" = 1234567890.123456789 ]
            ln a b; [ "$(stat -c %h a)" = 2 ]; mv b c; rm a; [ "$(stat -c %h c)" = 1 ]
            ln -s c d; [ "$(readlink d)" = c ]; [ "$(cat d)" = "$(cat c)" ]
            mkfifo pipe; [ -p pipe ]
            truncate -s 1G hole; [ "$(stat -c %s hole)" = 1073741824 ]; [ "$(stat -c %b hole)" -lt 100 ]
            mkdir -p deep/er/est; echo x > deep/er/est/x; mv deep/er up; [ "$(cat up/est/x)" = x ]
            ! rmdir up 2>/dev/null; rm -r up; [ ! -e up ]
            exec 9>locked; flock -n 9; ! flock -n locked true; exec 9>&-; flock -n locked true
            exec 8>gone; rm gone; echo still >&8; exec 8>&-
            cd ..; rm -r use
            """,
            LOAD_SECONDS,
        )

    def load(self) -> str:
        """The load of a build: a tree is copied, compared from the server's memory, and removed."""
        machine = self._machine
        machine.run(f"cp -a {TREE} {MOUNT}/tree; sync", LOAD_SECONDS)
        machine.run("echo 3 > /proc/sys/vm/drop_caches")
        machine.run(f"diff -r {TREE} {MOUNT}/tree", LOAD_SECONDS)
        count = machine.run(f"ls -lR {MOUNT}/tree | grep -c '^-'").strip()
        machine.run(f"mkdir {MOUNT}/many; cd {MOUNT}/many; for n in $(seq {FILES}); do echo $n > $n; done", LOAD_SECONDS)
        found = int(machine.run(f"ls {MOUNT}/many | wc -l"))
        require(found == FILES, f"{found} of {FILES} files are listed")
        machine.run(f"rm -r {MOUNT}/tree {MOUNT}/many; [ -z \"$(ls {MOUNT})\" ]", LOAD_SECONDS)
        return f"{count} files of {TREE} copied, compared and removed; {FILES} in one directory"

    def _write(self) -> Job:
        """Starts about ten seconds of writes, each durable, read back and verified after; returns once they run."""
        self._files += 1
        file = f"{MOUNT}/fault{self._files}"
        how = f"--filename={file} --rw=randwrite --bs=16k --size=16m --fsync=1 --rate=,1500k"
        job = self._machine.start(f"{FIO} {how}; rm {file}", WRITE_SECONDS)
        self._machine.run(f"until [ $(stat -c %s {file} 2>/dev/null || echo 0) -gt 100000 ]; do sleep 0.1; done", WRITE_SECONDS)
        return job

    def _pause(self, job: Job) -> str:
        report = fio_report(job.output())
        longest = max(report["write"]["clat_ns"]["max"], report["sync"]["lat_ns"]["max"]) / NANOSECONDS
        require(longest < PAUSE_SECONDS_MAX, f"a write took {longest:.1f} s")
        return f"{report['write']['total_ios']} writes with fsync verified, longest pause {longest:.1f} s"

    def _hold_lock(self, folder: str = MOUNT) -> Job:
        held = f"cd {folder}; exec 9>held; flock -n 9; touch /run/held; until [ -e /run/let-go ]; do sleep 0.2; done; echo mine >&9"
        self._machine.run("rm -f /run/held /run/let-go", MOUNT_SECONDS)
        job = self._machine.start(held, WRITE_SECONDS)
        self._machine.run("until [ -e /run/held ]; do sleep 0.1; done", MOUNT_SECONDS)
        return job

    def killed(self) -> str:
        """kill -9, followed by a restart at once: a pause, no error, no lost write, and locks persist."""
        lock, job = self._hold_lock(), self._write()
        self._server.kill()
        served = self._server.restart()
        words = self._pause(job)
        self._machine.run(f"! flock -n {MOUNT}/held true; touch /run/let-go", MOUNT_SECONDS)
        lock.output()
        self._machine.run(f"flock -n {MOUNT}/held true; [ \"$(cat {MOUNT}/held)\" = mine ]", MOUNT_SECONDS)
        return f"{words}, its lock held (server back after {served:.1f} s)"

    def names_killed(self) -> str:
        """Names are changed one after the other while the server is killed repeatedly: each change succeeds, exactly
        once."""
        self._machine.run("rm -f /run/changes /run/enough", MOUNT_SECONDS)
        job = self._machine.start(
            f"""
            mkdir {MOUNT}/names; cd {MOUNT}/names; number=0
            while [ ! -e /run/enough ]; do
                mkdir folder; echo $number >file; mv file moved; ln moved second; [ "$(stat -c %h second)" = 2 ]; rm moved
                mv folder other; ln -s second link; mv second other/; rm other/second link; rmdir other
                number=$((number + 1)); echo $number >/run/change; mv /run/change /run/changes
            done
            [ -z "$(ls)" ]; cd ..; rmdir names
            """,
            NAMES_SECONDS,
        )
        changes = 0
        for _ in range(KILLS):
            # The time within the next changes is arbitrary.
            wait = f"until [ $(cat /run/changes 2>/dev/null || echo 0) -gt {changes} ]; do sleep 0.02; done; cat /run/changes"
            changes = int(self._machine.run(wait, WRITE_SECONDS)) + 1
            self._server.kill()
            self._server.restart()
        self._machine.run("touch /run/enough")
        job.output()
        done = int(self._machine.run("cat /run/changes"))
        return f"{KILLS} kills, {done * CHANGES_A_ROUND} changes of names, none refused, none done twice"

    def without_sessions(self) -> str:
        """Version 4.0: the same, while the server runs and while it is killed."""
        self._machine.run(f"umount {MOUNT}; {_mount('vers=4.0')}", MOUNT_SECONDS)
        shown = self._machine.run(f"grep ' {MOUNT} ' /proc/mounts").strip()
        require("vers=4.0" in shown, f"another version: {shown}")
        self._use(MOUNT)
        words = f"{self.killed()}; {self.names_killed()}"
        self._machine.run(f"umount {MOUNT}; {_mount('vers=4.2')}", MOUNT_SECONDS)
        return words

    def restarted(self) -> str:
        """A clean stop and a start, during the same writes."""
        job = self._write()
        self._server.stop()
        served = self._server.restart()
        return f"{self._pause(job)} (server back after {served:.1f} s)"

    def rules(self) -> str:
        """Root is squashed unless the share allows it, a read-only share refuses changes, and a stranger is refused."""
        machine, share = self._machine, f"{POOL}/{SHARE}"
        machine.run(f"umount {MOUNT}", MOUNT_SECONDS)
        self._server.share(f"rw={NETWORK.prefix}")
        machine.run(f"{_mount('vers=4.1')}; touch {MOUNT}/squashed; [ $(stat -c %u {MOUNT}/squashed) = 65534 ]", MOUNT_SECONDS)
        self._server.share(f"ro={NETWORK.prefix}")
        refused = machine.attempt(f"touch {MOUNT}/refused", MOUNT_SECONDS)
        require(refused.status != 0 and "Read-only" in refused.output, f"a read-only share accepted a change: {refused.output}")
        machine.run(f"umount {MOUNT}", MOUNT_SECONDS)
        self._server.share("rw=192.0.2.1")
        stranger = machine.attempt(_mount("vers=4.2,soft,timeo=20,retrans=1"), MOUNT_SECONDS)
        require(stranger.status != 0, f"a stranger mounted {share}")
        self._server.share(f"rw={NETWORK.prefix},no_root_squash")
        machine.run(_mount("vers=4.2"), MOUNT_SECONDS)
        return "squashed to 65534; read-only refused; a stranger is refused"

    def unmount(self) -> str:
        """Unmounts it; no file may be open."""
        self._machine.run(f"umount {MOUNT}", MOUNT_SECONDS)
        return "unmounted"
