"""Many file systems, each with an intent log of its own: the kernel replays all of ours at once, and we replay all
of the kernel's.

A model holds the required state. Our process is killed while it works, so that of each file system the changes up to
the last commit must exist, and later ones may. The kernel's power is cut after a commit of each.
"""

from __future__ import annotations

import base64
import gzip
import random
import re
import time
import urllib.parse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from proof.files.crash import AHEAD, KEY, FilesTally, Lane
from proof.files.judge import Read
from proof.files.model import UNTOLD, Change, Changes, Model, differences
from proof.files.program import POOL, Program, Tree, audit
from proof.linux.files_disk import FilesDisk
from proof.linux.kernel_tree import FUNCTIONS, start_zfs, told
from proof.linux.machine import Machine
from proof.linux.steps import require
from proof.process import checked
from proof.runtime import ProofError

COUNT = 100
"""File systems of a pool."""
KINDS: Sequence[tuple[str, Sequence[str]]] = (
    ("usual", ()),
    ("small", ("recordsize 8192", "compression zstd")),
    ("secret", ("dnodesize auto",)),
)
SECRET = "secret"
KEY_FILE = "/run/files.key"
PLACE = f"/mnt/{POOL}"
"""Mount point of the pool in the guest."""
STEP_SECONDS = 900.0
OUR_TXG_SECONDS = 60
"""Transaction groups hardly close by themselves while logs are written: durable changes are in the logs."""
BEFORE = 12
"""Changes of a file system that are on disk before its log begins."""
LOGGED = (5, 60)
"""Fewest and most changes in a log."""
EXTRA_SECONDS = (0.0, 0.5)
"""Time between the point where all of our logs are long enough and the kill."""
KERNEL_COMMIT = 0.05
"""Share of the kernel's changes that are followed by a commit."""
KERNEL_SETTINGS = {"zfs_txg_timeout": 900, "zfs_dirty_data_max": 300 << 20, "zfs_dirty_data_sync_percent": 90}
"""Of the guest's kernel, so that no transaction group closes by itself."""
SHOWN = 12
CLONED = b"/cloned"
CLONED_BYTES = 131_072
BETWEEN: dict[str, Sequence[tuple[str | int | bytes, ...]]] = {
    "cut": (("size", 0),),
    "halved": (("size", 20_000), ("size", 60_000)),
    "holed": (("punch", 15_000, 50_000),),
    "cloned": (("clone", CLONED),),
}
"""Changes of a file between two large writes. A kernel's log has both after the first block, which already has the
data of the last write, and the second write without bytes: a kernel's own replay results in the state between them."""


class LoggedChanges(Changes):
    """Changes of files that are small enough for many file systems."""

    file_bytes_max = 50_000


class KernelChanges(LoggedChanges):
    """Changes that Linux makes like our process does: links have one mode, and root preserves the bits that set an
    identity. Projects have further rules."""

    kinds = {**Changes.kinds, "project": 4}
    modes = (0o644, 0o600, 0o755, 0o777, 0o1777, 0o000, 0o070)

    def _project(self) -> Change | None:
        path = self._some("file", "directory", "directory")
        return path and Change(("project", path, self._rng.choice((0, 7, 70_000)), self._rng.randrange(2))) or None

    def _rename(self) -> Change | None:
        return self._within_project(super()._rename())

    def _link(self) -> Change | None:
        return self._within_project(super()._link())

    def _within_project(self, change: Change | None) -> Change | None:
        """A file of another project gets no name in a directory that passes on its own project."""
        if not change:
            return None
        old, new = (bytes(word) for word in change.words[1:] if isinstance(word, bytes))
        directory, _ = self.model.place(new)
        moved = self.model.objects[self.model.find(old)]
        return None if directory.inherits and directory.project != moved.project else change

    def _make(self) -> Change | None:
        change = super()._make()
        if change and change.words[1] == "link":
            words = list(change.words)
            words[3] = "777"
            return Change(tuple(words))
        return change


class LoggedLane(Lane):
    """A file system and its log."""

    by_kernel = True

    def __init__(self, number: int, rng: random.Random):
        super().__init__(number, f"{KINDS[number % len(KINDS)][0]}/n{number}", Model(tells_access=False), sync=0.0)
        self.rng = rng
        self.least = 0
        """Changes that must be committed before the kill."""
        self.answered = 0

    @property
    def given(self) -> int:
        """Number of changes and commits that were sent to the process."""
        return self.answered + len(self.waiting)

    def begin(self, rng: random.Random) -> None:
        super().begin(rng)
        self.changes = LoggedChanges(self.durable.copy(), rng)
        self.answered = 0

    def hear(self, line: str, tally: FilesTally) -> None:
        super().hear(line, tally)
        self.answered += 1


class ManyLogs:
    """The pool, and the contents of its file systems."""

    def __init__(self, scratch: Path, disk: FilesDisk, seed: int, count: int):
        self._disk, self._log, self._seed = disk, scratch / "logs-program.log", seed
        self._tally = FilesTally()
        self._lanes = [LoggedLane(number, random.Random(f"{seed}:log:{number}")) for number in range(count)]
        self.by_kernel = self.by_us = 0
        """Numbers of replayed logs."""

    # ---------------------------------------------------------------- our side

    def we_leave_logs(self) -> str:
        """Leaves changes that are only in the logs, of a process that is killed while it makes more."""
        self._disk.attach()
        ours = self._create()
        for lane in self._lanes:
            lane.begin(lane.rng)
            for _ in range(BEFORE):
                assert lane.changes
                self._give(ours, lane, lane.changes.next())
        self._hear_all(ours)
        ours.do("sync")
        for lane in self._lanes:
            # A log begins with a commit that blocks on a transaction group, which includes the earlier changes.
            self._give(ours, lane, Change(("mode", b"/", "711")))
            assert lane.changes
            lane.changes.model.perform(Change(("mode", b"/", "711")))
            self._give(ours, lane, Change(("commit",)))
        self._hear_all(ours)
        for lane in self._lanes:
            lane.begin(lane.rng)
            lane.least = lane.rng.randint(*LOGGED)
        self._load(ours)
        ours.kill()
        for lane in self._lanes:
            for line in ours.answered(lane.number):
                lane.hear(line, self._tally)
        refused = [each for lane in self._lanes for each in lane.refused]
        require(not refused, f"our process refused: {refused[:SHOWN]}")
        return f"killed after {self._tally.changes} changes and {self._tally.commits} commits in {len(self._lanes)} file systems; {self._records()}"

    def we_replay(self) -> str:
        """Replays the changes that the kernel had made durable before its power failed."""
        self._disk.attach()
        records = self._records()
        self._disk.attach()
        ours = self._open()
        wrong = []
        for lane in self._lanes:
            complaints = differences(ours.tree(lane.number), lane.durable.tree())
            projects = dict(word.split("=") for word in ours.do("projects", lane.number).split())
            expected = {path: str(project) for path, project in lane.durable.projects().items()}
            paths = (path for path in projects.keys() | expected.keys() if projects.get(path) != expected.get(path))
            complaints += [f"{path}: project {projects.get(path)}, not {expected.get(path)}" for path in paths]
            if complaints:
                wrong.append("\n  ".join([f"{lane.dataset}: {len(complaints)} names differ:", *complaints[:SHOWN]]))
        require(not wrong, f"{len(wrong)} logs of the kernel were replayed differently:\n" + "\n".join(wrong[:SHOWN]))
        ours.export([lane.number for lane in self._lanes])
        findings = audit(self._disk.folder)
        self._disk.detach()
        require(not findings, f"zdb found: {findings}")
        self.by_us += len(self._lanes)
        return f"{records}; {len(self._lanes)} logs replayed, all is there, and zdb found nothing"

    # --------------------------------------------------------- the kernel's side

    def enter(self, machine: Machine) -> str:
        """After the start of the guest: loads the modules and the key."""
        self._machine = machine
        return start_zfs(machine, KEY_FILE)

    def kernel_replays(self) -> str:
        """The kernel imports the pool of our killed process, and replays our logs."""
        # One after the other: each replay has 32 MiB of buffers.
        self._run(f"""
            zpool import -f -N -R /mnt -d /dev -o cachefile=none {POOL}
            zfs load-key -L file://{KEY_FILE} {POOL}/{SECRET}
            ZFS_SERIAL_MOUNT=1 zfs mount -a -o noatime
        """)
        trees = self._kernel_trees()
        wrong = []
        for lane in self._lanes:
            if complaints := lane.judge(trees[lane.name], self._reader(lane), self._tally):
                wrong.append("\n  ".join(complaints))
        require(not wrong, f"{len(wrong)} logs of ours were replayed differently:\n" + "\n".join(wrong[:SHOWN]))
        shown = self._run(f"zpool scrub -w {POOL}; zpool status -p {POOL}")
        require("errors: No known data errors" in shown and "repaired 0B" in shown, f"the kernel's ZFS found:\n{shown}")
        self.by_kernel += len(self._lanes)
        tally = self._tally
        return f"{len(self._lanes)} logs replayed, our committed changes are there, {tally.later} later changes, {tally.in_part} writes in part; its scrub repaired 0B"

    def kernel_leaves_logs(self) -> str:
        """Makes changes that only the kernel's logs have. The caller then cuts the power."""
        sets = "".join(f"echo {value} >/sys/module/zfs/parameters/{name}\n" for name, value in KERNEL_SETTINGS.items())
        # Only blocks on disk can be cloned.
        self._perform([line for lane in self._lanes for line in _lines(lane, _source())])
        begins: list[str] = []
        logged: list[str] = []
        for lane in self._lanes:
            # Linux logs times of access of its own changes.
            lane.durable.tells_access = True
            begins += _lines(lane, [Change(("mode", b"/", "755")), Change(("commit",))])
            logged += _lines(lane, _overwritten())
            changes = KernelChanges(lane.durable, lane.rng)
            for _ in range(lane.rng.randint(*LOGGED)):
                change = changes.next()
                logged.append(_line(lane, change))
                # In a commit, changes of attributes follow those of names: an entry would be created in a directory
                # before the directory has its project.
                if change.words[0] == "project" or lane.rng.random() < KERNEL_COMMIT:
                    logged.append(_line(lane, Change(("commit",))))
            logged.append(_line(lane, Change(("commit",))))
        self._run(f"{sets}\nzpool sync; zpool sync")
        self._perform(begins)
        self._perform(logged)
        return f"{len(logged)} changes and commits in {len(self._lanes)} file systems"

    # ------------------------------------------------------------------ hands

    def _create(self) -> Program:
        ours = Program(self._disk.folder, "create", self._log, txg_seconds=OUR_TXG_SECONDS)
        ours.wait_ready()
        for name, settings in KINDS:
            ours.do(f"create-secret {POOL}/{name} {KEY}" if name == SECRET else f"create {POOL}/{name}")
            for setting in settings:
                ours.do(f"set {POOL}/{name} {setting}")
        for lane in self._lanes:
            ours.do(f"create {lane.dataset}")
            ours.do(f"open {lane.dataset}", lane.number)
        return ours

    def _open(self) -> Program:
        ours = Program(self._disk.folder, "import", self._log)
        ours.wait_ready()
        ours.do(f"key {POOL}/{SECRET} {KEY}")
        for lane in self._lanes:
            ours.do(f"open {lane.dataset}", lane.number)
        return ours

    def _give(self, ours: Program, lane: LoggedLane, change: Change) -> None:
        lane.since.append(change)
        lane.waiting.append(change)
        ours.send(lane.number, change.command())

    def _hear_all(self, ours: Program) -> None:
        for lane in self._lanes:
            while lane.waiting:
                answer = ours.answer(lane.number)
                if answer is None:
                    raise ProofError(f"our program ended:\n{ours.words()}")
                lane.hear(answer, self._tally)

    def _load(self, ours: Program) -> None:
        """Runs until each log has its required records, and a while longer."""
        deadline = time.monotonic() + STEP_SECONDS
        end = 0.0
        extra = random.Random(f"{self._seed}:kill").uniform(*EXTRA_SECONDS)
        while not end or time.monotonic() < end:
            for lane in self._lanes:
                for line in ours.answered(lane.number):
                    lane.hear(line, self._tally)
                while len(lane.waiting) < AHEAD and lane.answered < lane.least + AHEAD:
                    if lane.given == lane.least:
                        self._give(ours, lane, Change(("commit",)))
                    elif not lane.give(ours, lane.rng):
                        ours.require_alive()
            # The commit follows in the next iteration.
            if not end and all(lane.answered > lane.least for lane in self._lanes):
                end = time.monotonic() + extra
            if time.monotonic() > deadline:
                raise ProofError(f"our process is too slow:\n{ours.words()}")
            time.sleep(0.001)

    def _run(self, script: str) -> str:
        return self._machine.run(FUNCTIONS + script, STEP_SECONDS)

    def _perform(self, lines: Sequence[str]) -> None:
        packed = base64.b64encode(gzip.compress("".join(lines).encode())).decode()
        self._run(f"base64 -d <<<{packed} | busybox gzip -d | perform {PLACE}")

    def _kernel_trees(self) -> dict[str, Tree]:
        """Returns the contents of each file system. A kernel sets no time of access when it replays."""
        whole = told(base64.b64decode(self._run(f"told {PLACE} | base64 -w0").split()[-1]))
        trees: dict[str, Tree] = {lane.name: {} for lane in self._lanes}
        for path, entry in whole.items():
            kind, _, rest = path[1:].partition("/")
            name, _, inside = rest.partition("/")
            if name:
                trees[f"{kind}/{name}"][f"/{inside}"] = replace(entry, accessed=UNTOLD)
        return trees

    def _reader(self, lane: Lane) -> Read:
        def read(path: str, size: int) -> bytes:
            name = "".join(f"\\x{byte:02x}" for byte in urllib.parse.unquote_to_bytes(f"{PLACE}/{lane.name}{path}"))
            return base64.b64decode(self._run(f"head -c {size} $'{name}' | base64 -w0"))

        return read

    def _records(self) -> str:
        """Returns how many records the logs without a key have."""
        shown = checked(["sh", "-c", f"zdb -e -p {self._disk.folder} -iiii {POOL} 2>&1 || true"], STEP_SECONDS)
        self._disk.detach()
        counts: dict[str, int] = {}
        name = ""
        for line in shown.splitlines():
            if found := re.match(rf"Dataset {POOL}/(\S+) ", line):
                name = found[1]
            elif re.match(r"\s*TX_\w+\s+len", line):
                counts[name] = counts.get(name, 0) + 1
        plain = [lane.name for lane in self._lanes if not lane.name.startswith(SECRET)]
        short = [name for name in plain if not counts.get(name)]
        require(not short, f"{len(short)} logs have no record, as those of {short[:SHOWN]}")
        return f"zdb found {sum(counts.values())} records in the {len(plain)} logs without a key"


def _source() -> list[Change]:
    return [Change(("make", "file", CLONED, "644", 0, 0)), Change(("write", CLONED, 0, CLONED_BYTES, "c" * 16))]


def _overwritten() -> list[Change]:
    changes = []
    for name, between in BETWEEN.items():
        path = f"/{name}-and-overwritten".encode()
        steps = (("write", 0, CLONED_BYTES, "f" * 16), *between, ("write", 10_000, 40_000, "l" * 16))
        changes.append(Change(("make", "file", path, "644", 0, 0)))
        changes += [Change((what, path, *words)) for what, *words in steps]
    return changes


def _lines(lane: Lane, changes: Sequence[Change]) -> list[str]:
    """Returns the lines of the changes that the model makes, too."""
    for change in changes:
        lane.durable.perform(change)
    return [_line(lane, change) for change in changes]


def _line(lane: Lane, change: Change) -> str:
    return f"{lane.name} {change.command()}\n"


__all__ = ["COUNT", "ManyLogs"]
