"""Filebench in the guest, through Linux's own NFS client: our server, nfs-ganesha and the kernel's own server, one
after the other.

The guest's processor is slow, and the client has no other. So a figure is comparable only with figures of the same
run.
"""

from __future__ import annotations

import hashlib
import os
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proof.bench.compare import COMMIT_SECONDS, LIKE_THE_PEERS
from proof.bench.nfs import LEG_BYTES, NEEDED, Ganesha
from proof.linux.judges import Judges
from proof.linux.luggage import PLACE
from proof.linux.machine import Machine
from proof.linux.network import NETWORKS
from proof.linux.steps import require
from proof.linux.target import SHARE, PortalServer
from proof.mount.judges import FOLDER
from proof.process import checked, missing_programs
from proof.runtime import ProofError
from proof.servers.base import Server
from proof.servers.bulkhead import POOL

PREFIX = "/opt/filebench"
ARCHIVE = "filebench.tar"
MOUNT = "/mnt/filebench"
LOAD = f"{MOUNT}/load"
TOLD, GO = "/run/filebench.told", "/run/filebench.go"
"""Pipes: the results of the load, and the signal that starts it."""
SCRIPT, SAID, PROCESSES = "/run/filebench.f", "/run/filebench.out", "/run/filebench.pid"
GANESHA_PORT = 2050
TOOLS = ("libtoolize", "aclocal", "autoheader", "automake", "autoconf", "flex", "bison")
COMMIT = "22620e602cbbebad90c0bd041896ebccf70dbf5f"
"""The tested commit of the checkout."""
BUILD_SECONDS = 600.0
RUN_SECONDS = 10
IDLE_SECONDS = 10.0
STEP_SECONDS = 300.0
SHOWN_CHARACTERS = 1500
PERSONALITIES: Mapping[str, Mapping[str, object]] = {
    "varmail": {},
    "webserver": {"nthreads": 16},
    "fileserver": {"nfiles": 500, "nthreads": 8},
    "webproxy": {"nfiles": 1000, "nthreads": 16},
    "randomread": {"filesize": "100m", "directio": 1},
    "randomwrite": {"filesize": "100m", "directio": 1},
}
"""The settings of each that differ from its file. The guest has no memory for more: a thread uses 10 MiB. Without
``directio`` the guest's page cache would be measured, because the file fits into it."""
OURS, GANESHA, KERNEL = "ours", "ganesha", "knfsd"
SIDES: Mapping[str, tuple[str, str]] = {
    OURS: (f"{NETWORKS[0].server}:/{POOL}/{SHARE}", "vers=4.2"),
    GANESHA: (f"{NETWORKS[0].server}:/{Ganesha.path}", f"vers=4.2,port={GANESHA_PORT}"),
    KERNEL: ("127.0.0.1:/", "vers=4.2"),
}
"""The source of the mount, and its options."""
SUMMARY = re.compile(r"IO Summary:\s+(\d+) ops\s+([\d.]+) ops/s")
STOPPED_EARLY = "Run stopped early"
WHY_MISSING = (
    f"FILEBENCH=DIRECTORY is a checkout of filebench (commit {COMMIT} was tried); "
    f"{', '.join(TOOLS)} build it, and nfs-ganesha is the peer (scripts/deps.sh linux)"
)


@dataclass(frozen=True)
class Built:
    """The installed binary as an archive, and its personalities."""

    archive: Path
    workloads: Path


def built() -> Built | None:
    """Builds the checkout that ``FILEBENCH`` names."""
    checkout = os.environ.get("FILEBENCH")
    if not checkout or missing_programs((*TOOLS, *NEEDED)):
        return None
    recipe = hashlib.sha256(_BUILD.encode())
    for path in sorted(Path(checkout).rglob("*")):
        if path.is_file() and ".git" not in path.parts:
            recipe.update(str(path.relative_to(checkout)).encode() + b"\0" + path.read_bytes())
    home = FOLDER / f"filebench-{recipe.hexdigest()[:16]}"
    if not (home / ARCHIVE).exists():
        home.mkdir(parents=True, exist_ok=True)
        checked(["sh", "-e", "-c", _BUILD, checkout, home, PREFIX], BUILD_SECONDS)
    return Built(home / ARCHIVE, Path(checkout) / "workloads")


_BUILD = f"""
rm -rf "$1/src" "$1/out"; mkdir -p "$1/src"
tar -c --exclude=.git -C "$0" . | tar -x -C "$1/src"; cd "$1/src"
libtoolize -q; aclocal; autoheader; automake --add-missing; autoconf
./configure -q --prefix="$2" CFLAGS='-O2 -w -fcommon'
make -s; make -s install DESTDIR="$1/out"
tar -c -C "$1/out" -f "$1/new.tar" .; cd "$1"; rm -rf src out; mv new.tar {ARCHIVE}
"""


class Ours(PortalServer):
    """A pool on one file, as in the other comparisons. Filebench writes zeroes: they are stored, like by the peers."""

    def __init__(self, scratch: Path):
        super().__init__(scratch, **{**LIKE_THE_PEERS, "leg_bytes": LEG_BYTES})

    def make_share(self) -> None:
        super().make_share()
        self.command("filesystem", "set", f"{POOL}/{SHARE}", "compression=off")


def ganesha(scratch: Path) -> Ganesha:
    """On a directory of the same disk, at an address that the guest reaches."""
    folder = scratch / "ganesha"
    folder.mkdir()
    return Ganesha(folder, NETWORKS[0].server, GANESHA_PORT)


def adapted(text: str, settings: Mapping[str, object]) -> str:
    """Returns a personality with these settings. When its files are created it reports that and pauses, so that they
    are not measured."""
    for name, value in {"dir": LOAD, **settings}.items():
        text, found = re.subn(rf"^set \${name}=.*$", f"set ${name}={value}", text, flags=re.MULTILINE)
        require(found == 1, f"the personality has no ${name}")
    text = re.sub(r"^(?:run\b|#).*\n", "", text, flags=re.MULTILINE)
    return f'{text}\ncreate files\nsystem "echo made >{TOLD}; cat {GO}"\nrun {RUN_SECONDS}\n'


def result(output: str) -> tuple[int, float]:
    """Parses the operations, and the operations per second."""
    found = SUMMARY.search(output)
    if found is None or not int(found[1]) or STOPPED_EARLY in output:
        raise ProofError(f"filebench did not run to its end:\n{output[-SHOWN_CHARACTERS:]}")
    return int(found[1]), float(found[2])


@dataclass(frozen=True)
class Figure:
    """One run."""

    side: str
    personality: str
    per_second: float
    cpu_us: float | None = None
    """Of the server, for each operation. The kernel's server has no process with a readable CPU time."""


@dataclass
class Figures:
    """All runs, round by round."""

    all: list[Figure] = field(default_factory=list)

    def table(self) -> str:
        """Medians, and medians of the ratios of ours to ganesha's in one round."""
        titles = [*(f"{side}/s" for side in SIDES), "ratio", *(f"{side} us" for side in (OURS, GANESHA)), "ratio"]
        lines = [f"{'personality':<14}" + "".join(f"{title:>12}" for title in titles)]
        for personality in PERSONALITIES:
            speeds = {side: self._of(personality, side, "per_second") for side in SIDES}
            if any(speeds.values()):
                times = {side: self._of(personality, side, "cpu_us") for side in (OURS, GANESHA)}
                words = [*(_median(speeds[side], 0) for side in SIDES), _ratio(speeds), *(_median(one, 1) for one in times.values()), _ratio(times)]
                lines.append(f"{personality:<14}" + "".join(f"{word:>12}" for word in words))
        return "\n".join(lines)

    def _of(self, personality: str, side: str, what: str) -> list[float]:
        return [getattr(one, what) for one in self.all if (one.side, one.personality) == (side, personality)]


def _median(values: Sequence[float], digits: int) -> str:
    return f"{statistics.median(values):,.{digits}f}" if values else "-"


def _ratio(sides: Mapping[str, Sequence[float]]) -> str:
    mine, other = sides[OURS], sides[GANESHA]
    if not mine or len(mine) != len(other):
        return "-"
    return f"{statistics.median(one / two for one, two in zip(mine, other, strict=True)):.2f}"


class Filebench:
    """Filebench in the guest."""

    def __init__(self, machine: Machine, judges: Judges, built: Built, servers: Mapping[str, Server]):
        self._machine, self._judges, self._built, self._servers = machine, judges, built, servers
        self._idle: Mapping[str, float] = {}
        self.figures = Figures()

    def prepare(self) -> str:
        """Unpacks it. Its processes share memory at one address, which address space randomization would prevent."""
        self._judges.prepare()
        self._machine.run(
            f"""
            tar -x -C / -f /{PLACE}/{ARCHIVE}
            echo 0 >/proc/sys/kernel/randomize_va_space
            ln -sf bash /usr/bin/sh
            mkdir -p {MOUNT}
            mkfifo {TOLD} {GO}
            """,
            STEP_SECONDS,
        )
        return f"filebench, {RUN_SECONDS} s for each run"

    def look_at_idle_servers(self) -> str:
        """Measures the CPU use of servers without clients: the guest sends so few requests that it would show in
        each operation."""
        before = {side: server.cpu_seconds() for side, server in self._servers.items()}
        time.sleep(IDLE_SECONDS)
        self._idle = {side: (server.cpu_seconds() - before[side]) / IDLE_SECONDS for side, server in self._servers.items()}
        return ", ".join(f"{side} {share:.2%} of a processor" for side, share in self._idle.items())

    def serve_by_kernel(self) -> str:
        """The kernel's own server, on ext4."""
        return self._judges.serve_by_kernel()

    def run(self, personality: str, side: str) -> str:
        """Runs one personality on one side, with cold caches in the guest."""
        try:
            self._make_files(personality, side)
            before = self._used(side)
            output = self._machine.run(f"echo >{GO}; read -r status <{TOLD}; cat {SAID}; exit $status", RUN_SECONDS + STEP_SECONDS)
            operations, per_second = result(output)
            used = self._used(side) - before
        finally:
            self._leave()
        cpu_us = used / operations * 1e6 if side in self._servers else None
        self.figures.all.append(Figure(side, personality, per_second, cpu_us))
        return f"{operations} operations, {per_second:.0f} a second" + (f", {cpu_us:.1f} us of the server's processor for each" if cpu_us else "")

    def _make_files(self, personality: str, side: str) -> None:
        source, options = SIDES[side]
        load = adapted((self._built.workloads / f"{personality}.f").read_text(), PERSONALITIES[personality])
        self._machine.run(f"mount -t nfs -o {options},proto=tcp {source} {MOUNT}; mkdir {LOAD}", STEP_SECONDS)
        self._machine.run(f"cat >{SCRIPT} <<'LOAD'\n{load}LOAD")
        self._machine.run(
            f"""
            setsid bash -c 'echo $$ >{PROCESSES}; {PREFIX}/bin/filebench -f {SCRIPT}; echo $? >{TOLD}' >{SAID} 2>&1 </dev/null &
            read -r word <{TOLD}
            [ "$word" = made ] || {{ cat {SAID}; exit 1; }}
            sync
            echo 3 >/proc/sys/vm/drop_caches
            """,
            STEP_SECONDS,
        )

    def _leave(self) -> None:
        """Kills the remaining processes, and removes their files."""
        end = f"[ ! -e {PROCESSES} ] || kill -9 -- -$(cat {PROCESSES}) 2>/dev/null || true; rm -f {PROCESSES} /tmp/filebench-shm-*"
        self._machine.run(f"{end}; rm -rf {LOAD}; umount {MOUNT}", STEP_SECONDS)

    def _used(self, side: str) -> float:
        """Returns the seconds of the server's CPU so far, beyond its use while idle. Blocks until postponed work is
        done: it belongs to the writes."""
        if side not in self._servers:
            return 0.0
        time.sleep(COMMIT_SECONDS)
        return self._servers[side].cpu_seconds() - self._idle[side] * time.monotonic()


__all__ = ["GANESHA", "KERNEL", "OURS", "PERSONALITIES", "SIDES", "WHY_MISSING", "Built", "Figure", "Figures", "Filebench", "Ours", "adapted", "built", "ganesha", "result"]
