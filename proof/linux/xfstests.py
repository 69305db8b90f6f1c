"""xfstests' generic tests through Linux's own NFS client."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proof.linux import judges_disk
from proof.linux.judges import LEASE_SECONDS, PREPARE_SECONDS, SHOWN_LINES, Side
from proof.linux.machine import Machine
from proof.linux.network import NETWORKS
from proof.linux.shares import LOCKD
from proof.linux.steps import require
from proof.linux.target import PortalServer
from proof.process import checked
from proof.runtime import ProofError
from proof.servers.bulkhead import POOL

ROOT = "/judges"
HOME = "xfstests"
"""The directory of the checkout in the root of its disk."""
SHARES = ("test", "scratch")
"""The two file systems that the suite uses."""
PACKAGES = (
    *("bash", "dash", "coreutils", "grep", "sed", "gawk", "mawk", "tar", "gzip", "xz-utils", "findutils", "diffutils", "util-linux", "mount"),
    *("procps", "psmisc", "hostname", "perl", "bc", "file", "python3", "iproute2", "kmod", "debianutils"),
    *("gcc", "libc6-dev", "make", "autoconf", "automake", "libtool", "libtool-bin", "pkg-config", "m4", "gettext"),
    *("attr", "acl", "quota", "xfsprogs", "xfslibs-dev", "e2fsprogs", "uuid-dev", "uuid-runtime", "libacl1-dev", "libattr1-dev"),
    *("libaio-dev", "libgdbm-dev", "libcap-dev", "libcap2-bin", "dbench", "fio", "nfs-common", "nfs-kernel-server", "libpam-modules", "login", "passwd"),
)
DISK_BYTES = 8 << 30
LEG_BYTES = 8 << 30
RECIPE_VERSION = 1
BUILD_SECONDS = 1500.0
SUITE_SECONDS = 5400.0
GROUP = "generic/quick"
USERS = ("fsgqa", "fsgqa2", "123456-fsgqa")
WHY_MISSING = "XFSTESTS=DIRECTORY is a checkout of https://github.com/kdave/xfstests"
SIDES = {side.name: side for version in ("4.2", "4.1", "3") for side in (Side(version, False), Side(version, True))}
"""The kernel's server first: what fails there, too, is a fault of the client or of the suite."""

KNOWN: Mapping[str, str] = {}
"""Tests that fail on ours and not on the kernel's server, and the reasons."""

FAILED = re.compile(r"^Failures: (.*)$", re.M)
RAN = re.compile(r"^Ran: (.*)$", re.M)
NOT_RUN = re.compile(r"^Not run: (.*)$", re.M)


def disk() -> Path | None:
    """Returns the disk with the built suite: the checkout that ``XFSTESTS`` names."""
    checkout = os.environ.get("XFSTESTS")
    if not checkout:
        return None
    commit = checked(["git", "-C", checkout, "rev-parse", "HEAD"], PREPARE_SECONDS).strip()
    return judges_disk.disk_of("xfstests", PACKAGES, DISK_BYTES, f"{RECIPE_VERSION} {commit}", lambda root: _build(root, Path(checkout)))


def _build(root: Path, checkout: Path) -> None:
    """Builds the suite in the root of its disk."""
    shutil.copytree(checkout, root / HOME, ignore=shutil.ignore_patterns(".git"), symlinks=True)
    for name in ("aclocal", "automake"):
        (root / "usr/bin" / name).symlink_to(next((root / "usr/bin").glob(f"{name}-1.*")).name)
    with (root / "etc/passwd").open("a") as users, (root / "etc/group").open("a") as groups:
        for number, name in enumerate(USERS, 1001):
            users.write(f"{name}:x:{number}:{number}::/tmp:/bin/bash\n")
            groups.write(f"{name}:x:{number}:\n")
        users.write("daemon:x:1:1::/:/bin/sh\nbin:x:2:2::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
        groups.write("daemon:x:1:\nbin:x:2:\nsys:x:3:\nnogroup:x:65534:\n")
    (root / "etc/mtab").symlink_to("/proc/mounts")
    (root / "etc/hosts").write_text("127.0.0.1 localhost guest\n")
    checked(["chroot", root, "/bin/bash", "-c", f"export PATH=/usr/sbin:/usr/bin; make -s -j2 -C /{HOME}"], BUILD_SECONDS)


class Server(PortalServer):
    """A pool with the two file systems of the suite."""

    def __init__(self, scratch: Path):
        super().__init__(scratch, leg_bytes=LEG_BYTES, leg_count=1)

    def make_share(self) -> None:
        for name in SHARES:
            self.command("filesystem", "create", f"{POOL}/{name}", "--mode", "0777")
            self.command("filesystem", "set", f"{POOL}/{name}", f"sharenfs=rw={NETWORKS[0].prefix},no_root_squash,insecure")


@dataclass(frozen=True)
class Result:
    """The tests of one side, by name."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: frozenset[str]


def result_of(printed: str) -> Result:
    """Parses the last lines of the suite."""

    def names(pattern: re.Pattern[str]) -> frozenset[str]:
        found = pattern.findall(printed)
        return frozenset(found[-1].split()) if found else frozenset()

    ran, failed, skipped = names(RAN), names(FAILED), names(NOT_RUN)
    return Result(ran - failed - skipped, failed, skipped)


class Suite:
    """The suite in one guest."""

    def __init__(self, machine: Machine, tests: str = ""):
        self._machine = machine
        self._tests = tests or f"-g {GROUP}"
        self._kernel: dict[str, Result] = {}

    def prepare(self) -> str:
        """Mounts the disk, and starts the kernel's own server, which exports two directories of it."""
        binds = "".join(f"mount --rbind /{folder} {ROOT}/{folder}; " for folder in ("proc", "sys", "dev", "run"))
        exports = "".join(f"/{judges_disk.SERVED}/{name} *(rw,no_root_squash,insecure,no_subtree_check,fsid={number})\\n" for number, name in enumerate(SHARES, 1))
        self._machine.run(
            f"""
            mkdir -p {ROOT} /var/lib/nfs/v4recovery
            mount /dev/$(basename $(dirname $(grep -lx {judges_disk.NAME} /sys/block/vd*/serial))) {ROOT}
            {binds}
            {LOCKD}
            modprobe nfsd; mount -t nfsd nfsd {ROOT}/proc/fs/nfsd
            """,
            PREPARE_SECONDS,
        )
        self._inside(
            f"""
            mkdir -p /var/lib/nfs/v4recovery /mnt/test /mnt/scratch; touch /var/lib/nfs/etab /var/lib/nfs/rmtab
            for name in {" ".join(SHARES)}; do mkdir -p /{judges_disk.SERVED}/$name; chmod 777 /{judges_disk.SERVED}/$name; done
            printf '{exports}' >/etc/exports
            exportfs -ra; rpc.mountd; rpc.nfsd --grace-time {LEASE_SECONDS} --lease-time {LEASE_SECONDS} 4
            """,
            PREPARE_SECONDS,
        )
        return f"{self._tests}; the kernel's server exports ext4"

    def perform(self, side: Side) -> str:
        """Runs the suite on this side. A test that fails on ours, and neither by the kernel's server nor with a known
        reason, fails the run."""
        of = f"{NETWORKS[0].server}:/{POOL}" if side.is_ours else f"127.0.0.1:/{judges_disk.SERVED}"
        mount = f"-o vers={side.version},proto=tcp"
        settings = {
            "FSTYP": "nfs",
            **{f"{name.upper()}_DEV": f"{of}/{name}" for name in SHARES},
            "TEST_DIR": "/mnt/test",
            "SCRATCH_MNT": "/mnt/scratch",
            "NFS_MOUNT_OPTIONS": mount,
            "TEST_FS_MOUNT_OPTS": mount,
            "RESULT_BASE": f"/results/{side.name}",
        }
        exported = " ".join(f"{name}='{value}'" for name, value in settings.items())
        printed = self._inside(
            f"""
            export PATH=/usr/sbin:/usr/bin {exported}
            ulimit -c 0; mkdir -p $RESULT_BASE
            mount -t nfs {mount} $TEST_DEV $TEST_DIR
            grep -q ' /mnt/test .*vers={side.version}' /proc/mounts
            cd /{HOME}; ./check {self._tests} </dev/null >/results/{side.name}/printed 2>&1 || true
            umount /mnt/scratch 2>/dev/null || true
            ! mountpoint -q /mnt/test || umount /mnt/test
            tail -n 400 /results/{side.name}/printed
            """,
            SUITE_SECONDS,
        )
        return self._judge(side, printed)

    def _judge(self, side: Side, printed: str) -> str:
        result = result_of(printed)
        require(bool(result.passed), f"the suite has run nothing:\n{_last(printed)}")
        counts = f"{len(result.passed)} passed, {len(result.skipped)} not run"
        if not side.is_ours:
            self._kernel[side.version] = result
            return f"{counts}, {len(result.failed)} failed: {' '.join(sorted(result.failed))}"
        kernel = self._kernel.get(side.version, Result(frozenset(), frozenset(), frozenset()))
        wrong = sorted(result.failed - kernel.failed - KNOWN.keys())
        both = sorted(result.failed & kernel.failed)
        known = sorted(result.failed & (KNOWN.keys() - kernel.failed))
        text = f"{counts}, {len(both)} failed on both ({' '.join(both)}), {len(known)} for a known reason, {len(wrong)} wrong"
        if wrong:
            raise ProofError("\n".join([text, *(self._reason(side, name) for name in wrong)]))
        return text

    def _reason(self, side: Side, name: str) -> str:
        """The end of what differs from the expected output of a test."""
        base = f"/results/{side.name}/{name}"
        found = self._inside(f"cd /{HOME}; head -c 3000 {base}.out.bad 2>/dev/null | diff tests/{name}.out - | head -n {SHOWN_LINES} || true", PREPARE_SECONDS)
        return f"{name}:\n{found.strip()}"

    def _inside(self, script: str, seconds: float) -> str:
        return self._machine.run(f"chroot {ROOT} /bin/bash -e -o pipefail <<'INSIDE'\n{script}\nINSIDE\n", seconds)


def _last(printed: str) -> str:
    return "\n".join(printed.strip().splitlines()[-SHOWN_LINES:])


__all__ = ["SIDES", "WHY_MISSING", "Server", "Suite", "disk", "result_of"]
