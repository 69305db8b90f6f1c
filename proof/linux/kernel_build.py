"""A Linux kernel is unpacked and built in a share, while the server is killed again and again. Every source file and
every object equals that of a build on a local disk, byte for byte."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import tarfile
import time
from pathlib import Path

from proof.linux import judges_disk
from proof.linux.judges import PREPARE_SECONDS, SHOWN_LINES
from proof.linux.machine import Answer, Job, Machine
from proof.linux.network import NETWORKS
from proof.linux.steps import require
from proof.linux.target import SHARE, PortalServer
from proof.process import checked
from proof.runtime import ProofError
from proof.servers.bulkhead import POOL

ROOT = "/judges"
MOUNT = "/mnt/build"
TREE = f"{MOUNT}/linux"
"""In the root of the disk, for both builds: paths are part of objects."""
ARCHIVE, SOURCES_SUMS, BUILT_SUMS = "linux.tar", "sources.sums", "built.sums"
PACKAGES = (
    *("bash", "dash", "coreutils", "grep", "sed", "mawk", "tar", "findutils", "diffutils", "gzip", "hostname", "perl"),
    *("gcc", "libc6-dev", "make", "flex", "bison", "m4", "bc"),
)
DISK_BYTES = 3 << 30
LEG_BYTES = 3 << 30
RECIPE_VERSION = 1
DEFAULT_SOURCES = Path("/usr/src")
WHY_MISSING = "install linux-source, or name an archive of Linux's sources in LINUX_SOURCE"
DEFAULT_TARGETS = "vmlinux"
BUILD_SECONDS = 1800.0
GUEST_SECONDS = 3 * 3600.0
"""A guest by software emulation needs 20 times as long."""
KILLS_MIN = {"unpack": 1, "build": 3}
"""A build without these proves nothing."""
PAUSE_SECONDS = (2.0, 10.0)
"""Before the first kill."""
PAUSE_GROWTH = 1.4
"""A long build is killed often in its beginning, and later now and then."""
FIXED = "export PATH=/usr/sbin:/usr/bin KBUILD_BUILD_TIMESTAMP=2026-01-01 KBUILD_BUILD_USER=user KBUILD_BUILD_HOST=host KBUILD_BUILD_VERSION=1"
"""What a build would put into objects otherwise."""
WORDS = re.compile(r"[^\s\\:=$()\"']+")
KEPT_NAMES = ("Kconfig", "Makefile", "Kbuild")
KEPT_FOLDERS = ("scripts/", "include/", "init/", "usr/", "arch/x86/")


def sources() -> Path | None:
    """Returns the archive of the sources."""
    named = os.environ.get("LINUX_SOURCE")
    found = sorted(DEFAULT_SOURCES.glob("linux-source-*.tar.xz"))
    return Path(named) if named else next(reversed(found), None)


def disk(targets: str) -> Path | None:
    """Returns the disk with the compiler, the needed sources, and the sums of a build of ``targets`` on a local disk."""
    archive = sources()
    if archive is None:
        return None
    with archive.open("rb") as file:
        version = f"{RECIPE_VERSION} {targets} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    return judges_disk.disk_of("kernel-build", PACKAGES, DISK_BYTES, version, lambda root: _prepare(root, archive, targets))


def _prepare(root: Path, archive: Path, targets: str) -> None:
    """Builds on the local disk, and packs the sources that were needed: the whole tree has 80,000 files."""
    tree = root / TREE.lstrip("/")
    tree.mkdir(parents=True)
    checked(["tar", "-x", "--strip-components=1", "-C", tree, "-f", archive], BUILD_SECONDS)
    every = {str(path.relative_to(tree)) for path in tree.rglob("*") if not path.is_dir() or path.is_symlink()}
    checked(["chroot", root, "/bin/bash", "-e", "-c", _build(targets)], BUILD_SECONDS)
    used = {word for command in tree.rglob(".*.cmd") for word in WORDS.findall(command.read_text(errors="replace"))}
    kept = sorted(name for name in every if name in used or _is_always_kept(name))
    with tarfile.open(root / ARCHIVE, "w") as packed:
        for name in kept:
            packed.add(tree / name, name)
    lines = "\n".join(kept) + "\n"
    (root / "kept").write_text(lines)
    sums = f"cd {TREE}; tr '\\n' '\\0' </kept | xargs -0 sha256sum >/{SOURCES_SUMS} 2>/dev/null || true; {_objects()} >/{BUILT_SUMS}"
    checked(["chroot", root, "/bin/bash", "-e", "-c", sums], BUILD_SECONDS)
    require((root / BUILT_SUMS).stat().st_size > 0, "the build on the local disk has made no object")
    shutil.rmtree(tree)


def _is_always_kept(name: str) -> bool:
    return "/" not in name or name.startswith(KEPT_FOLDERS) or name.rsplit("/", 1)[-1].startswith(KEPT_NAMES)


def _build(targets: str) -> str:
    return f"{FIXED}; cd {TREE}; make -s tinyconfig >/dev/null; make -s -j2 {targets}"


def _objects() -> str:
    return "find . -type f \\( -name '*.o' -o -name '*.a' -o -name vmlinux \\) ! -path './scripts/*' -print0 | sort -z | xargs -0 sha256sum"


class Server(PortalServer):
    """A pool with room for the tree."""

    def __init__(self, scratch: Path):
        super().__init__(scratch, leg_bytes=LEG_BYTES, leg_count=1)


class Build:
    """The build in one guest."""

    def __init__(self, machine: Machine, server: PortalServer, targets: str, seed: int):
        self._machine = machine
        self._server = server
        self._targets = targets
        self._random = random.Random(seed)

    def prepare(self) -> str:
        """Mounts the disk and the share."""
        source = f"{NETWORKS[0].server}:/{POOL}/{SHARE}"
        self._machine.run(
            f"""
            mkdir -p {ROOT}
            mount /dev/$(basename $(dirname $(grep -lx {judges_disk.NAME} /sys/block/vd*/serial))) {ROOT}
            for folder in proc sys dev; do mount --rbind /$folder {ROOT}/$folder; done
            mkdir -p {ROOT}{MOUNT}
            mount -t nfs -o vers=4.2,proto=tcp,hard {source} {ROOT}{MOUNT}
            """,
            PREPARE_SECONDS,
        )
        return f"{self._targets} by 4.2"

    def unpacked(self) -> str:
        """Unpacks the sources, with kills."""
        job = self._start(f"mkdir -p {TREE}; tar -x -C {TREE} -f /{ARCHIVE}; sync")
        killed, answer = self._kill_during("unpack", job)
        self._compare(SOURCES_SUMS)
        return f"{killed} kills in {answer.seconds:.0f} s; every file is as in the archive"

    def built(self) -> str:
        """Builds, with kills."""
        job = self._start(_build(self._targets))
        killed, answer = self._kill_during("build", job)
        self._compare(BUILT_SUMS)
        count = self._machine.run(f"wc -l <{ROOT}/{BUILT_SUMS}").strip()
        return f"{killed} kills in {answer.seconds:.0f} s; {count} objects are those of a build on a local disk"

    def _kill_during(self, what: str, job: Job) -> tuple[int, Answer]:
        """Kills the server while the job runs, at random times; returns how often, and the result."""
        killed = 0
        while not job.is_done():
            time.sleep(self._random.uniform(*PAUSE_SECONDS) * PAUSE_GROWTH**killed)
            if not job.is_done():
                self._server.kill()
                self._server.restart()
                killed += 1
        answer = job.wait()
        if answer.status:
            raise ProofError(f"{what}: status {answer.status} after {killed} kills\n{_end(answer)}")
        require(killed >= KILLS_MIN[what], f"{what}: it ended after {killed} kills")
        return killed, answer

    def _compare(self, sums: str) -> None:
        # The client's cache must not vouch for the server.
        self._machine.run("sync; echo 3 >/proc/sys/vm/drop_caches")
        answer = self._start(f"cd {TREE}; sha256sum --quiet -c /{sums}").wait()
        if answer.status:
            raise ProofError(f"compare with {sums}: status {answer.status}\n{_end(answer)}")

    def _start(self, script: str) -> Job:
        return self._machine.start(f"chroot {ROOT} /bin/bash -e -o pipefail <<'INSIDE'\n{script}\nINSIDE\n", GUEST_SECONDS)


def _end(answer: Answer) -> str:
    return "\n".join(answer.output.strip().splitlines()[-SHOWN_LINES:])


__all__ = ["DEFAULT_TARGETS", "WHY_MISSING", "Build", "Server", "disk", "sources"]
