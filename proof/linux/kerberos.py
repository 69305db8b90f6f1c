"""Linux's own NFS client with Kerberos tickets: ``rpc.gssd``, a keytab of the host, and users with tickets and
without."""

from __future__ import annotations

import base64
import re
import shlex
import time
from pathlib import Path

from proof.linux.machine import Answer, Job, Machine
from proof.linux.network import NETWORKS
from proof.linux.shares import LOCKD, NANOSECONDS, PAUSE_SECONDS_MAX
from proof.linux.steps import FIO, fio_report, require
from proof.linux.target import SHARE, PortalServer
from proof.nfs.realm import PASSWORD, Realm
from proof.process import missing_programs
from proof.runtime import ProofError
from proof.servers.bulkhead import POOL, program

NETWORK = NETWORKS[0]
DOMAIN = "proof.example"
SERVER_NAME, CLIENT_NAME = f"tank.{DOMAIN}", f"guest.{DOMAIN}"
SERVICE, MACHINE = f"nfs/{SERVER_NAME}", f"host/{CLIENT_NAME}"
NEEDED = ("krb5kdc", "kadmin.local", "kdb5_util", "kinit", "unshare")
MOUNT, SECOND = "/mnt/kerberos", "/mnt/second"
SOURCE = f"{SERVER_NAME}:/{POOL}/{SHARE}"
VERSIONS = ("4.2", "4.1", "4.0", "3")
SECURITIES = ("krb5", "krb5i", "krb5p")
RULE = f"rw={NETWORK.prefix}"
ALICE, BOB, CAROL, NOBODY = 2001, 2002, 2003, 65534
NOBODY_LINE, NOGROUP_LINE = f"nobody:x:{NOBODY}:{NOBODY}::/:/usr/sbin/nologin\n", f"nogroup:x:{NOBODY}:\n"
TEAM = 3001
"""A further group of alice."""
USERS = {"alice": ALICE, "bob": BOB, "carol": CAROL}
"""Head and guest agree on their numbers. carol is a user of the realm and never requests a ticket."""
MOUNT_SECONDS = 120.0
USE_SECONDS = 300.0
WRITE_SECONDS = 400.0
LIFE_SECONDS = 40
"""Life of a ticket that expires while its user writes."""
RENEWED_SECONDS = 100
"""Duration of the writes of a user with a new ticket before each one expires."""
NOTICED_SECONDS = 90
"""Bound of the time until a client notices that a ticket has expired, and later that there is a new one."""
SKEW_SECONDS = 900
"""Kerberos allows five minutes."""
FIRST_TRIES_MAX = 4
KILLS = 2
APPENDED_BYTES = 5000
APPEND = f"head -c {APPENDED_BYTES} /dev/zero | dd of={MOUNT}/long bs={APPENDED_BYTES} oflag=append conv=notrunc,fsync"
REFUSED = re.compile(r"Permission denied|access denied|Operation not permitted|Key has expired|Required key not available|Stale file handle", re.I)
"""The last is Linux's error at the top of a mount when the user may not read the attributes (``d_weak_revalidate``)."""
LOST = re.compile(r"nfs: server \S+ (not responding|OK)|NFS: .*state manager|requires stronger authentication|NFS: nfs4_discover_server_trunking|RPC: .*gss|gssd", re.I)
"""Kernel messages while a server is away, or while a client cannot authenticate."""


def reason_to_skip() -> str:
    """Returns why this host has no realm; empty when it has."""
    missing = missing_programs(NEEDED)
    return f"not installed: {', '.join(missing)} (scripts/deps.sh test)" if missing else ""


def users_of(text: str) -> str:
    """Returns these users, and those of the proof, in the form of ``/etc/passwd``."""
    return text + "".join(f"{name}:x:{number}:{number}::/tmp:/bin/bash\n" for name, number in USERS.items())


def groups_of(text: str) -> str:
    """Returns these groups, and those of the proof, in the form of ``/etc/group``."""
    return text + "".join(f"{name}:x:{number}:\n" for name, number in USERS.items()) + f"team:x:{TEAM}:alice\n"


def fill(realm: Realm) -> Path:
    """Creates the users, and the keytab of the guest."""
    keytab = realm.folder / "guest.keytab"
    realm.add_service(MACHINE, keytab)
    for name in USERS:
        realm.add_user(name)
    return keytab


def head(scratch: Path, realm: Realm) -> PortalServer:
    """A server with a keytab on a head that has the users: no other process on this host sees them."""
    folder = scratch / "head"
    folder.mkdir()
    (folder / "passwd").write_text(users_of(Path("/etc/passwd").read_text()))
    (folder / "group").write_text(groups_of(Path("/etc/group").read_text()))
    binary = folder / "bulkhead"
    settings = f"KRB5_CONFIG={realm.environment['KRB5_CONFIG']}"
    mounts = " && ".join(f"mount --bind {folder}/{name} /etc/{name}" for name in ("passwd", "group"))
    binary.write_text(f"#!/bin/sh\nexec env {settings} unshare --mount sh -c '{mounts} && exec \"$0\" \"$@\"' {program()} \"$@\"\n")
    binary.chmod(0o755)
    return PortalServer(scratch, options=("--nfs-keytab", str(realm.keytab)), binary=binary)


def _as(user: str, script: str) -> str:
    """Returns the command that runs a script as a user of the guest."""
    number = USERS[user]
    groups = f"{number},{TEAM}" if user == "alice" else str(number)
    who = f"setpriv --reuid {number} --regid {number} --groups {groups} env HOME=/tmp USER={user}"
    return f"{who} bash -e -o pipefail -c {shlex.quote(script)}"


def _refused(user: str, script: str) -> str:
    """Returns the command for an action that this user must not be able to do."""
    return f"if {_as(user, script)} >/run/{user} 2>&1; then echo {user} may: {shlex.quote(script)}; exit 1; fi; cat /run/{user}; grep -qiE '{REFUSED.pattern}' /run/{user}"


class Kerberos:
    """Actions of users on a share that requires tickets."""

    def __init__(self, machine: Machine, server: PortalServer, realm: Realm, keytab: Path):
        self._machine = machine
        self._server = server
        self._realm = realm
        self._keytab = keytab

    def prepare(self) -> str:
        """Adds the guest to the realm, as the guide describes it."""
        machine = self._machine
        configuration = (self._realm.folder / "krb5.conf").read_text()
        keys = base64.b64encode(self._keytab.read_bytes()).decode()
        machine.run(
            f"""
            cat >>/etc/passwd <<'END'
{users_of(NOBODY_LINE)}END
            cat >>/etc/group <<'END'
{groups_of(NOGROUP_LINE)}END
            printf '127.0.0.1 localhost\\n{NETWORK.server} {SERVER_NAME}\\n{NETWORK.guest} {CLIENT_NAME} guest\\n' >/etc/hosts
            cat >/etc/krb5.conf <<'END'
{configuration}END
            echo {keys} | base64 -d >/etc/krb5.keytab; chmod 600 /etc/krb5.keytab
            cp /usr/share/nfs-common/conffiles/idmapd.conf /etc/
            {LOCKD}
            modprobe nfsv3; modprobe nfsv4; modprobe rpcsec_gss_krb5
            mkdir -p /run/rpc_pipefs; mount -t rpc_pipefs sunrpc /run/rpc_pipefs
            """,
            MOUNT_SECONDS,
        )
        self._start_gssd()
        for user in ("alice", "bob"):
            self._log_in(user)
        self._share_all()
        tries = 1
        while self._mount("vers=4.2,sec=krb5").status:
            # gssd may treat the first client as one of an old kernel, which supports only ciphers that the library has
            # dropped.
            require(tries < FIRST_TRIES_MAX, "the first mount is refused repeatedly")
            tries += 1
        self._unmount()
        return f"{machine.run(_as('alice', 'klist | grep krbtgt')).strip()}; first mount at try {tries}"

    def _share_all(self) -> None:
        self._server.share(f"{RULE},sec={':'.join(SECURITIES)}")

    def _start_gssd(self, *options: str) -> None:
        words = " ".join(options)
        self._machine.run(
            f"""
            [ ! -e /run/gssd.pid ] || kill $(cat /run/gssd.pid)
            setsid rpc.gssd -f -vv -p /run/rpc_pipefs {words} >>/run/gssd.log 2>&1 </dev/null & echo $! >/run/gssd.pid
            until [ -e /run/rpc_pipefs/gssd/clntXX/info ] && kill -0 $(cat /run/gssd.pid); do sleep 0.1; done
            """,
            MOUNT_SECONDS,
        )

    def _log_in(self, user: str, *options: str) -> None:
        self._machine.run(_as(user, f"echo {shlex.quote(PASSWORD)} | kinit {' '.join(options)} {user} >/dev/null"), MOUNT_SECONDS)

    def _mount(self, options: str, place: str = MOUNT) -> Answer:
        mounting = f"timeout 90 mount -t nfs -o proto=tcp,{options} {SOURCE} {place}; grep ' {place} ' /proc/mounts"
        answer = self._machine.attempt(f"mkdir -p {place}; ! mountpoint -q {place} || umount -l {place}; {mounting}", MOUNT_SECONDS)
        if answer.status:
            log = self._machine.run("tail -n 25 /run/gssd.log")
            return Answer(answer.status, f"{answer.output}\n{log}", answer.seconds)
        return answer

    def _mounted(self, options: str, place: str = MOUNT) -> str:
        answer = self._mount(options, place)
        require(answer.status == 0, f"mount -o {options}: {answer.output}")
        return answer.output.strip()

    def _unmount(self, place: str = MOUNT) -> None:
        self._machine.run(f"umount {place}", MOUNT_SECONDS)

    def use(self, version: str, security: str) -> str:
        """A user's files are his own; a user without a ticket or without permission is refused."""
        shown = self._mounted(f"vers={version},sec={security}")
        require(f"vers={version}" in shown and f"sec={security}," in shown, f"another mount: {shown}")
        own = f"""
            cd {MOUNT}; rm -rf own; mkdir own; cd own; umask 077; echo mine >file; [ "$(stat -c '%u %g %U %G' file)" = "{ALICE} {ALICE} alice alice" ]
            chgrp team file; [ "$(stat -c '%u %g %a' file)" = "{ALICE} {TEAM} 600" ]; chmod 640 file; mv file moved; ln moved file; rm moved
            dd if=/dev/urandom of=/tmp/noise bs=64k count=40 2>/dev/null; cp /tmp/noise noise; chmod 755 .; chmod 600 file
            exec 9>lock; flock -n 9; ! flock -n lock true; exec 9>&-; flock -n lock true
        """
        self._machine.run(f"cd /; {_as('alice', own)}; echo 3 >/proc/sys/vm/drop_caches", USE_SECONDS)
        self._machine.run(
            f"""
            set -x
            {_as("alice", f"cmp /tmp/noise {MOUNT}/own/noise; cat {MOUNT}/own/file | grep -qx mine; ls {MOUNT}/own | wc -l | grep -qx 3")}
            {_refused("bob", f"cat {MOUNT}/own/file")}
            {_refused("bob", f"touch {MOUNT}/own/bobs")}
            {_refused("carol", f"ls {MOUNT}")}
            {_as("bob", f"touch {MOUNT}/bobs; stat -c %u {MOUNT}/bobs | grep -qx {BOB}; rm {MOUNT}/bobs")}
            touch {MOUNT}/roots; stat -c '%u %g' {MOUNT}/roots | grep -qx '{NOBODY} {NOBODY}'; rm {MOUNT}/roots
            if cat {MOUNT}/own/file 2>/run/root; then echo root may read; exit 1; fi; grep -q 'Permission denied' /run/root
            {_as("alice", f"rm -r {MOUNT}/own")}
            """,
            USE_SECONDS,
        )
        self._unmount()
        return "owners, a further group, 2.5 MB compared, a lock; bob is kept out, carol has no ticket, root is squashed"

    def negotiate(self) -> str:
        """Without ``sec=`` the client uses the first flavor of the share; AUTH_SYS is refused."""
        found = []
        for rule, expected in (("krb5p", "krb5p"), ("krb5i:krb5", "krb5i"), ("krb5", "krb5")):
            self._server.share(f"{RULE},sec={rule}")
            for version in ("4.2", "4.0", "3"):
                shown = self._mounted(f"vers={version}")
                require(f"sec={expected}," in shown, f"sec={rule} by version {version}: {shown}")
                self._machine.run(_as("alice", f"touch {MOUNT}/asked; rm {MOUNT}/asked"), USE_SECONDS)
                self._unmount()
                refused = self._mount(f"vers={version},sec=sys")
                if refused.status == 0:
                    # Version 3 sends no request below the top until a process uses the mount.
                    used = self._machine.attempt(f"touch {MOUNT}/numbers", USE_SECONDS)
                    self._unmount()
                    require(used.status != 0, f"sec={rule}: a call with AUTH_SYS was accepted by version {version}")
                    refused = used
                require(bool(REFUSED.search(refused.output)), f"sec=sys of a share with sec={rule}: {refused.output}")
                found.append(f"{version} {expected}")
        self._share_all()
        return f"{len(found)} mounts: {', '.join(found)}; sec=sys refused by each"

    def squash(self) -> str:
        """Root with a ticket of root is mapped by the share's setting, and so are all users."""
        machine = self._machine
        machine.run(f"echo {shlex.quote(PASSWORD)} | kinit root >/dev/null", MOUNT_SECONDS)
        self._start_gssd("-n")
        owners = {"": (NOBODY, ALICE), ",no_root_squash": (0, ALICE), ",all_squash,anonuid=2002,anongid=2002": (BOB, BOB)}
        for option, expected in owners.items():
            self._server.share(f"{RULE},sec=krb5i{option}")
            self._mounted("vers=4.2,sec=krb5i")
            made = f"touch {MOUNT}/root; {_as('alice', f'touch {MOUNT}/alice')}; stat -c %u {MOUNT}/root {MOUNT}/alice; rm -f {MOUNT}/root {MOUNT}/alice"
            owned = tuple(int(word) for word in machine.run(made, USE_SECONDS).split())
            self._unmount()
            require(owned == expected, f"{option or 'root_squash'}: files of root and alice belong to {owned}, and not to {expected}")
        machine.run("kdestroy")
        self._start_gssd()
        self._share_all()
        return "root by its own ticket: squashed; 0 with no_root_squash; all are anonuid with all_squash"

    def locks(self) -> str:
        """A lock by version 4.2 with tickets excludes version 3, and the other way round."""
        self._mounted("vers=4.2,sec=krb5p")
        self._mounted("vers=3,sec=krb5i", SECOND)
        for holder, other in ((MOUNT, SECOND), (SECOND, MOUNT)):
            held = self._hold_lock(holder)
            self._machine.run(_as("alice", f"! flock -n {other}/held true"), USE_SECONDS)
            self._let_go(held)
            self._machine.run(_as("alice", f"until flock -n {other}/held true; do sleep 0.2; done; rm {other}/held"), USE_SECONDS)
        self._unmount(SECOND)
        self._unmount()
        return "version 4.2 by krb5p and version 3 by krb5i exclude each other"

    def _hold_lock(self, folder: str) -> Job:
        self._machine.run("rm -f /tmp/held /run/let-go", MOUNT_SECONDS)
        job = self._machine.start(_as("alice", f"exec 9>{folder}/held; flock -n 9; touch /tmp/held; until [ -e /run/let-go ]; do sleep 0.2; done; echo mine >&9"), WRITE_SECONDS)
        self._machine.run("until [ -e /tmp/held ]; do sleep 0.1; done", MOUNT_SECONDS)
        return job

    def _let_go(self, held: Job) -> None:
        self._machine.run("touch /run/let-go")
        held.output()

    def killed(self, version: str) -> str:
        """``kill -9`` while two users write by krb5p: no error, no lost data, and each file belongs to its user."""
        self._mounted(f"vers={version},sec=krb5p")
        machine = self._machine
        machine.run(f"rm -f /run/enough; {_as('alice', f'mkdir {MOUNT}/alice')}; {_as('bob', f'mkdir {MOUNT}/bob')}", USE_SECONDS)
        lock = self._hold_lock(MOUNT)
        file = f"{MOUNT}/alice/written"
        how = f"--filename={file} --rw=randwrite --bs=16k --size=8m --fsync=1 --rate=,700k"
        writes = machine.start(_as("alice", f"cd /tmp; {FIO} {how}"), WRITE_SECONDS)
        # In these versions a client with Kerberos cannot detect that a change of names was executed, and repeats it.
        make = "echo $n >$n" if version in ("4.0", "3") else "echo $n >new; mv new $n"
        making = f"cd {MOUNT}/bob; n=0; while [ ! -e /run/enough ]; do n=$((n + 1)); {make}; [ $(cat $n) = $n ]; done; echo $n"
        names = machine.start(_as("bob", making), WRITE_SECONDS)
        machine.run(f"until [ $(stat -c %s {file} 2>/dev/null || echo 0) -gt 100000 ]; do sleep 0.1; done", WRITE_SECONDS)
        served = []
        for _ in range(KILLS):
            self._wait_for_names()
            self._server.kill()
            served.append(self._server.restart())
        self._wait_for_names()
        report = fio_report(writes.output())
        longest = max(report["write"]["clat_ns"]["max"], report["sync"]["lat_ns"]["max"]) / NANOSECONDS
        require(longest < PAUSE_SECONDS_MAX, f"a write took {longest:.1f} s")
        machine.run("touch /run/enough")
        made = int(names.output())
        owned = f"cd {MOUNT}; busybox find bob -type f -user bob | wc -l; busybox find bob ! -user bob; busybox find alice ! -user alice"
        found = machine.run(_as("bob", owned), USE_SECONDS).split()
        require(found == [str(made)], f"bob made {made} files; found: {found[:10]}")
        self._mounted(f"vers={'4.2' if version == '3' else '3'},sec=krb5i", SECOND)
        machine.run(_as("alice", f"! flock -n {SECOND}/held true"), USE_SECONDS)
        self._let_go(lock)
        machine.run(_as("alice", f"grep -qx mine {MOUNT}/held; rm -r {MOUNT}/alice {MOUNT}/held"), USE_SECONDS)
        machine.run(_as("bob", f"rm -r {MOUNT}/bob"), USE_SECONDS)
        self._unmount(SECOND)
        self._unmount()
        words = f"{report['write']['total_ios']} writes with fsync verified, longest pause {longest:.1f} s; {made} files of bob, each his own; a lock held"
        return f"{KILLS} kills, {words} (server back after {max(served):.1f} s)"

    def _wait_for_names(self) -> None:
        """Blocks until bob has created further files."""
        before = self._names()
        deadline = time.monotonic() + PAUSE_SECONDS_MAX
        while self._names() < before + 5:
            require(time.monotonic() < deadline, "bob does not resume")

    def _names(self) -> int:
        """Returns how many files bob has created so far."""
        return int(self._machine.run(_as("bob", f"ls {MOUNT}/bob | wc -l"), WRITE_SECONDS))

    def renewed(self) -> str:
        """Tickets expire while their user writes, and each is renewed before: the user notices nothing."""
        machine = self._machine
        contexts = f"grep -c 'mech=krb5 uid={ALICE}' /run/gssd.log || true"
        self._log_in("alice", f"-l {LIFE_SECONDS}s")
        self._mounted("vers=4.2,sec=krb5p")
        before = int(machine.run(contexts))
        writes = f"end=$(($(date +%s) + {RENEWED_SECONDS})); n=0; while [ $(date +%s) -lt $end ]; do n=$((n + 1)); {APPEND} 2>/tmp/dd; done; echo $n"
        job = machine.start(_as("alice", writes), WRITE_SECONDS)
        deadline = time.monotonic() + RENEWED_SECONDS - LIFE_SECONDS / 2
        while time.monotonic() < deadline:
            machine.run(f"sleep {LIFE_SECONDS // 2}")
            self._log_in("alice", f"-l {LIFE_SECONDS}s")
        count = int(job.output())
        agreed = int(machine.run(contexts)) - before
        require(agreed >= 2, f"the client showed {agreed} tickets of alice in {RENEWED_SECONDS} s")
        size = int(machine.run(_as("alice", f"stat -c %s {MOUNT}/long"), USE_SECONDS))
        require(size == count * APPENDED_BYTES, f"{count} writes made a file of {size} bytes")
        return f"{count} writes with fsync in {RENEWED_SECONDS} s by tickets of {LIFE_SECONDS} s, which the client showed {agreed} times: no error"

    def expired(self) -> str:
        """A ticket that expires and is not renewed: the user is refused, and resumes with a new one. Follows
        ``renewed``."""
        machine = self._machine
        refused = f"end=$(($(date +%s) + {LIFE_SECONDS + NOTICED_SECONDS})); while {APPEND} 2>/tmp/dd; do [ $(date +%s) -lt $end ]; sleep 1; done; ! klist -s; grep dd: /tmp/dd"
        words = machine.run(_as("alice", refused), WRITE_SECONDS).strip()
        require(bool(REFUSED.search(words)), f"a write without a ticket: {words}")
        machine.run(_as("bob", f"touch {MOUNT}/bobs; rm {MOUNT}/bobs"), USE_SECONDS)
        self._log_in("alice")
        again = f"end=$(($(date +%s) + {NOTICED_SECONDS})); until {APPEND} 2>/tmp/dd; do [ $(date +%s) -lt $end ]; sleep 1; done; rm {MOUNT}/long"
        machine.run(_as("alice", again), WRITE_SECONDS)
        self._unmount()
        return f"alice got {words.splitlines()[-1]!r}; bob continued; alice did after kinit"

    def clock(self) -> str:
        """A client with a wrong clock is refused, and both sides log the reason."""
        machine = self._machine
        shift = "date -s @$(($(date +%s) {} {})) >/dev/null"
        # Otherwise the library uses the time of the center's replies, and a wrong clock has no effect.
        machine.run("sed -i 's/^.libdefaults.$/&\\n kdc_timesync = 0/' /etc/krb5.conf; rm -f /tmp/krb5ccmachine*", MOUNT_SECONDS)
        self._start_gssd()
        self._mounted("vers=4.2,sec=krb5p")
        self._unmount()
        machine.run(shift.format("+", SKEW_SECONDS))
        refused = self._mount("vers=4.2,sec=krb5p")
        machine.run(shift.format("-", SKEW_SECONDS))
        require(refused.status != 0 and bool(REFUSED.search(refused.output)), f"a clock {SKEW_SECONDS} s ahead: {refused.output}")
        told = re.search(r"^.*Clock skew.*$", self._server.log(), re.M)
        if told is None:
            raise ProofError(f"the server's log does not mention clocks:\n{self._server.log()[-2000:]}\n{refused.output}")
        self._mounted("vers=4.2,sec=krb5p")
        machine.run(_as("alice", f"touch {MOUNT}/on-time; rm {MOUNT}/on-time"), USE_SECONDS)
        self._unmount()
        return f"{refused.output.strip().splitlines()[0]!r}; the server: {told[0][-110:]!r}"


__all__ = ["LOST", "NETWORK", "SECURITIES", "SERVICE", "VERSIONS", "Kerberos", "fill", "head", "reason_to_skip"]
