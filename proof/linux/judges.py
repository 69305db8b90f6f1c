"""Third-party judges of our files through Linux's own NFS client. The kernel's own server runs in the same guest: a
failure there, too, is one of the client or of the judge.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proof.linux import judges_disk, luggage
from proof.linux.machine import Answer, Machine
from proof.linux.network import NETWORKS
from proof.linux.root import GuestImage
from proof.linux.shares import LOCKD
from proof.linux.steps import require
from proof.linux.target import SHARE
from proof.mount.judges import FSX, FSX_RUNS, judge, pjdfstest_findings, pjdfstest_settings
from proof.process import checked
from proof.runtime import ProofError
from proof.servers.bulkhead import POOL

ROOT = "/judges"
"""Where the disk with the compiler is mounted."""
MOUNT = "/mnt/judged"
"""The share, in the same root."""
PLACE = f"{ROOT}{MOUNT}"
SOURCES = "cthon04.tar"
SOURCE_FOLDERS = ("basic", "special", "lock")
"""The tests of the Connectathon's suite that need only a compiler."""
BUILT = "/tmp/built"
"""The directory of the built tests, on the disk of the judges."""
COMPILER = "gcc -w -std=gnu89 -fcommon"
"""The suite is older than the defaults of current compilers."""
LEASE_SECONDS = 10
FSX_OPERATIONS = 1000
DBENCH_SECONDS, DBENCH_CLIENTS = 20, 2
PREPARE_SECONDS = 300.0
JUDGE_SECONDS = 900.0
SHOWN_LINES = 25
CTHON_PASSED = re.compile(r"Congratulations|Special tests complete")
KERNEL_SERVER = re.compile(r"NFSD|nfsd|lockd|NFS: ", re.I)
"""Kernel messages of the guest about its own server."""


@dataclass(frozen=True)
class Side:
    """A mount to be judged."""

    version: str
    is_ours: bool

    @property
    def name(self) -> str:
        """The name in reports."""
        return f"{'ours' if self.is_ours else 'knfsd'}-{self.version}"

    @property
    def source(self) -> str:
        """The source of the mount. The kernel's server exports its one tree as the root of version 4."""
        if self.is_ours:
            return f"{NETWORKS[0].server}:/{POOL}/{SHARE}"
        return "127.0.0.1:/" if self.version.startswith("4") else f"127.0.0.1:/{judges_disk.SERVED}"


ALL = ("pjdfstest", "fsx", "build", "cthon", "dbench")
"""In the order in which they run: cthon runs the files that the build created."""
WHY_MISSING = "it is missing: pjdfstest and fsx are built by cargo, and CTHON=DIRECTORY is a checkout of cthon04"

SIDES = {side.name: side for side in (Side("4.2", True), Side("3", True), Side("4.0", True), Side("4.2", False), Side("3", False))}

SILLY = "a client renames an open file that it unlinks, unless the server reports that it preserves such files: its link count is one more"
KNOWN: Mapping[str, Mapping[str, str]] = {
    "3": {"unlink::open_file_not_freed": SILLY, "utimensat::y2038": "a time of version 3 has 32 bits"},
    "4.0": {"unlink::open_file_not_freed": SILLY},
    "4.2": {"unlink::open_file_not_freed": SILLY},
}
"""By version: tests of pjdfstest that fail on ours, and the reasons. Any other failure fails the run, and so does a
listed test that passes."""


def _inside(script: str) -> str:
    """Returns a script that runs with the disk of the judges as its root."""
    return f"chroot {ROOT} /bin/bash -e -o pipefail <<'INSIDE'\n{script}\nINSIDE\n"


@dataclass(frozen=True)
class Equipment:
    """The additional files of the guest. They are downloaded, which the guests of the proof cannot do."""

    programs: Mapping[str, Path]
    disk: Path


def fetch() -> Equipment:
    """Returns the judges that this host builds, and the disk of the other ones."""
    return Equipment({name: path for name in ("pjdfstest", "fsx") if (path := judge(name))}, judges_disk.judges_disk())


def pack(scratch: Path, image: GuestImage, programs: Mapping[str, Path]) -> GuestImage:
    """Returns the image with the judges that this host has built, and the sources of those that the guest builds
    (``CTHON``: a checkout of cthon04)."""
    files = []
    if checkout := os.environ.get("CTHON"):
        files.append(scratch / SOURCES)
        checked(["tar", "-c", "-f", files[0], "--exclude=.git", "-C", checkout, "."], PREPARE_SECONDS)
    return luggage.pack(scratch, image, programs, files)


class Judges:
    """The judges in one guest."""

    def __init__(self, machine: Machine, seed: int):
        self._machine = machine
        self._seed = seed
        self._is_served = False

    def prepare(self) -> str:
        """Prepares the disk of the judges, users for them, and the daemons that a client of version 3 needs for
        locks."""
        binds = "".join(f"mount --rbind /{folder} {ROOT}/{folder}; " for folder in ("proc", "sys", "dev", "run"))
        self._machine.run(
            f"""
            mkdir -p {ROOT} /var/lib/nfs/v4recovery
            mount /dev/$(basename $(dirname $(grep -lx {judges_disk.NAME} /sys/block/vd*/serial))) {ROOT}
            {binds} mkdir -p {PLACE}
            printf 'daemon:x:1:1::/:/bin/sh\\nbin:x:2:2::/:/bin/sh\\nnobody:x:65534:65534::/:/bin/sh\\n' >>/etc/passwd
            printf 'daemon:x:1:\\nbin:x:2:\\nnogroup:x:65534:\\n' >>/etc/group
            ln -s /usr/bin/busybox /usr/bin/which
            {LOCKD}
            """,
            PREPARE_SECONDS,
        )
        return "pjdfstest, fsx, dbench, a compiler"

    def has(self, name: str) -> bool:
        """Whether this judge is available."""
        place = {"build": SOURCES, "cthon": SOURCES, "dbench": ""}.get(name, name)
        return self._machine.attempt(f"[ -e /{luggage.PLACE}/{place} ]").status == 0

    def perform(self, name: str, side: Side) -> str:
        """Runs this judge on the mount."""
        judging = {"pjdfstest": self._pjdfstest, "fsx": self._fsx, "build": self._build, "cthon": self._cthon, "dbench": self._dbench}
        return judging[name](side)

    def serve_by_kernel(self) -> str:
        """Starts the kernel's own server, which exports a directory of the judges' disk until the guest is off."""
        if self._is_served:
            return "already"
        self._is_served = True
        self._machine.run(f"modprobe nfsd; mount -t nfsd nfsd {ROOT}/proc/fs/nfsd", PREPARE_SECONDS)
        self._machine.run(
            _inside(f"""
            mkdir -p /var/lib/nfs/v4recovery; touch /var/lib/nfs/etab /var/lib/nfs/rmtab; chmod 777 /{judges_disk.SERVED}
            echo '/{judges_disk.SERVED} *(rw,no_root_squash,insecure,no_subtree_check,fsid=0)' >/etc/exports
            exportfs -r; rpc.mountd; rpc.nfsd --grace-time {LEASE_SECONDS} --lease-time {LEASE_SECONDS} 4
            """),
            PREPARE_SECONDS,
        )
        return "ext4, by the kernel's server"

    def mount(self, side: Side) -> str:
        """Mounts this version, with its defaults."""
        self._machine.run(f"mount -t nfs -o vers={side.version},proto=tcp {side.source} {PLACE}", PREPARE_SECONDS)
        shown = self._machine.run(f"grep ' {PLACE} ' /proc/mounts").strip()
        require(f"vers={side.version}" in shown and "nolock" not in shown, f"another mount: {shown}")
        return shown

    def unmount(self, _side: Side) -> str:
        """Unmounts it; no file may be open or left."""
        self._machine.run(f"rm -rf {PLACE}/*; [ -z \"$(ls {PLACE})\" ]; umount {PLACE}", PREPARE_SECONDS)
        return "unmounted"

    def _settings(self, name: str, text: str) -> str:
        """Writes the settings of a judge; returns their path."""
        path = f"/run/{name}.toml"
        self._machine.run(f"cat >{path} <<'SETTINGS'\n{text}\nSETTINGS")
        return path

    def _pjdfstest(self, side: Side) -> str:
        settings = self._settings("pjdfstest", pjdfstest_settings(KNOWN.get(side.version, ()) if side.is_ours else ()))
        answer = self._attempt(f"mkdir -p {PLACE}/pjd; chmod 755 {PLACE}/pjd; RUST_BACKTRACE=0 pjdfstest -c {settings} -p {PLACE}/pjd -s /tmp </dev/null")
        wrong, counts = pjdfstest_findings(answer.output)
        return judged(side, wrong, counts)

    def _fsx(self, side: Side) -> str:
        wrong = []
        for number, shape in enumerate(FSX_RUNS):
            # Version 3 has no call that punches a hole.
            holes = shape["holes"] if side.version == "4.2" else 0
            settings = self._settings("fsx", FSX.format(**{**shape, "holes": holes}))
            answer = self._attempt(f"fsx -N {FSX_OPERATIONS} -S {self._seed} -P /run -f {settings} {PLACE}/fsx{number} </dev/null")
            if answer.status:
                wrong.append(f"fsx with {shape}, seed {self._seed}: {_end(answer)}")
        return judged(side, wrong, f"{len(FSX_RUNS) * FSX_OPERATIONS} operations of seed {self._seed}")

    def _build(self, side: Side) -> str:
        """A part of the Connectathon's suite is unpacked and built in the share. Each binary equals the one that is
        built on a local disk, byte for byte."""
        taken = []
        for place, folders in ((BUILT, SOURCE_FOLDERS), (f"{MOUNT}/built", SOURCE_FOLDERS[:1])):
            compile_all = "; ".join(f"make -s -C {folder} CC='{COMPILER}' LIBS=-lm" for folder in folders)
            script = f"[ ! -e {place}/made ] || exit 0; mkdir -p {place}; cd {place}; tar -x -f /{SOURCES}; {compile_all}; touch made"
            answer = self._attempt(f"cp /{luggage.PLACE}/{SOURCES} {ROOT}/; {_inside(script)}")
            if answer.status:
                return judged(side, [f"build: {_end(answer)}"], "")
            taken.append(answer.seconds)
        folder = SOURCE_FOLDERS[0]
        made = "*.o $(busybox find . -type f -perm -100 -newer subr.c)"
        answer = self._attempt(f"cd {PLACE}/built/{folder}; for name in {made}; do cmp $name {ROOT}{BUILT}/{folder}/$name; echo $name; done")
        wrong = [] if answer.status == 0 else [f"build: {_end(answer)}"]
        return judged(side, wrong, f"{len(answer.output.splitlines())} files made in {taken[-1]:.0f} s, and compared")

    def _cthon(self, side: Side) -> str:
        wrong = []
        for folder in SOURCE_FOLDERS:
            tests = f"export NFSTESTDIR={MOUNT}/cthon MNTOPTIONS=vers={side.version}; rm -rf $NFSTESTDIR; cd {BUILT}/{folder}; sh runtests -f 2>&1"
            answer = self._attempt(_inside(tests))
            if answer.status or not CTHON_PASSED.search(answer.output):
                wrong.append(f"cthon {folder}: {_end(answer)}")
        return judged(side, wrong, ", ".join(SOURCE_FOLDERS))

    def _dbench(self, side: Side) -> str:
        answer = self._attempt(_inside(f"mkdir -p {MOUNT}/dbench; dbench -D {MOUNT}/dbench -t {DBENCH_SECONDS} {DBENCH_CLIENTS}"))
        told = re.search(r"^Throughput .*$", answer.output, re.M)
        wrong = [] if answer.status == 0 and told else [f"dbench: {_end(answer)}"]
        return judged(side, wrong, told[0] if told else "")

    def _attempt(self, script: str) -> Answer:
        return self._machine.attempt(script, JUDGE_SECONDS)


def _end(answer: Answer) -> str:
    return f"status {answer.status}\n" + "\n".join(answer.output.strip().splitlines()[-SHOWN_LINES:])


def judged(side: Side, wrong: Sequence[str], done: str) -> str:
    """Returns the verdict of a side. Failures of the kernel's server are only reported."""
    if wrong and side.is_ours:
        raise ProofError("\n".join([f"{len(wrong)} wrong; {done}", *wrong]))
    return "\n".join([done, *(f"        the kernel's server: {one}" for one in wrong)])


__all__ = ["ALL", "KERNEL_SERVER", "SIDES", "WHY_MISSING", "Equipment", "Judges", "Side", "fetch", "judged", "pack"]
