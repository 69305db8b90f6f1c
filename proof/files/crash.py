"""Rounds of changes, kill and comparison: committed changes survive, and the state is one that the changes led to."""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from proof.files.judge import Judge, Read
from proof.files.model import Change, Changes, Model
from proof.files.program import POOL, Program, Tree, audit
from proof.rounds import Tally
from proof.runtime import ProofError

DISK_BYTES = 512 << 20
LOAD_SECONDS = (0.05, 1.2)
"""Shortest and longest load before the kill."""
AHEAD = 24
"""Bound of the pending commands of a lane."""
COMMIT = 0.08
"""Share of commands that commit all earlier changes."""
SYNC = 0.01
POLITE_STOP = 0.05
KILL_WHILE_STARTING = 0.2
"""Share of rounds with a kill during the next start, while it replays."""
SHOWN = 8
KEY = "6b" * 32
LANE_SETTINGS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("usual", ()),
    ("small", (("recordsize", "8192"), ("compression", "zstd"))),
    ("secret", (("dnodesize", "auto"),)),
)
SECRET = "secret"


@dataclass
class FilesTally(Tally):
    """The counts of a run."""

    changes: int = 0
    commits: int = 0
    starts_killed: int = 0
    in_part: int = 0
    """Long writes of which only the beginning was found, after a kernel."""
    later: int = 0
    """Changes that were found though they were not committed."""
    lost: int = 0

    @property
    def good(self) -> bool:
        """Whether no change was lost either."""
        return not self.lost and not self.complaints

    def summary(self) -> str:
        return f"{self.commits} commits, {self.later} later changes found, {self.starts_killed} starts killed, {self.audits} audits, {super().summary()}"

    def verdict(self) -> str:
        return f"crash of files: {self.rounds} rounds, {self.changes} changes, {self.lost} lost"


@dataclass
class Lane:
    """A file system that one thread changes."""

    number: int
    name: str
    durable: Model = field(default_factory=Model)
    """The state of the last acknowledged commit."""
    since: deque[Change] = field(default_factory=deque)
    """Commands sent since; those at the front may be durable."""
    waiting: deque[Change] = field(default_factory=deque)
    """Sent commands without a reply."""
    changes: Changes | None = None
    refused: list[str] = field(default_factory=list)
    sync: float = SYNC
    """Share of commands that close a transaction group."""
    by_kernel = False
    """Whether a kernel writes or replays the log."""

    @property
    def dataset(self) -> str:
        """Its name in the pool."""
        return f"{POOL}/{self.name}"

    def begin(self, rng: random.Random) -> None:
        """Starts a round from the current state."""
        self.since.clear()
        self.waiting.clear()
        self.changes = Changes(self.durable.copy(), rng)

    def give(self, program: Program, rng: random.Random) -> bool:
        """Sends the process its next change; False if the process is gone."""
        assert self.changes
        draw = rng.random()
        if draw < COMMIT + self.sync:
            change = Change(("commit",) if draw < COMMIT else ("sync",))
        else:
            change = self.changes.next()
        self.since.append(change)
        self.waiting.append(change)
        return program.send(self.number, change.command())

    def hear(self, line: str, tally: FilesTally) -> None:
        """Handles the reply to the oldest command."""
        change = self.waiting.popleft()
        if not line.startswith("ok"):
            self.refused.append(f"{self.dataset}: {change.command()[:300]}: {line}")
        tally.changes += 1
        if change.words[0] in ("commit", "sync"):
            tally.commits += 1
            self._advance()

    def _advance(self) -> None:
        """All changes up to the last reply are durable."""
        for _ in range(len(self.since) - len(self.waiting)):
            self.durable.perform(self.since.popleft())

    def judge(self, found: Tree, read: Read, tally: FilesTally) -> list[str]:
        """Compares the found state with each possible one, from the last durable one on."""
        judge = Judge(self.durable, self.since, found, read, self.by_kernel)
        model, place, complaints = judge.place()
        if model:
            self.durable = model
            tally.later += place
            tally.in_part += judge.in_part
            return []
        since = [f"{number}: {change.command()[:200]}" for number, change in enumerate(self.since, 1) if self._names(change, complaints)]
        head = f"{self.dataset} matches no state from the last durable one on; of {len(self.since)} changes since, the one after {place} differs least:"
        return [head, *complaints, "changes of the differing names:", *since[-SHOWN:]]

    def reader(self, program: Program) -> Read:
        """Returns the function that reads files through the process."""
        return lambda path, size: bytes.fromhex(program.do(f"read {path} 0 {size}", self.number))

    def _names(self, change: Change, complaints: list[str]) -> bool:
        paths = [complaint.split(" ", 1)[0] for complaint in complaints[:SHOWN]]
        return any(f"{path} " in f"{change.command()} " for path in paths)


class CrashProof:
    """Runs the rounds on a pool in one file."""

    def __init__(self, scratch: Path, *, rounds: int, seed: int, audit_every: int):
        self._folder = scratch / "disks"
        self._folder.mkdir()
        with (self._folder / "disk").open("wb") as disk:
            disk.truncate(DISK_BYTES)
        self._log = scratch / "program.log"
        self._rounds, self._seed, self._audit_every = rounds, seed, audit_every
        self._lanes = [Lane(number, name) for number, (name, _) in enumerate(LANE_SETTINGS)]
        self._tally = FilesTally()

    def run(self) -> FilesTally:
        """Runs all rounds; stops at the first broken promise."""
        tally = self._tally
        program = self._create()
        for number, rng in tally.each_round(self._rounds, self._seed):
            try:
                program = self._round(program, number, rng)
            except ProofError as error:
                tally.complaints.append(f"round {number}: {error}")
            if number % 10 == 0:
                print(f"round {number}: {tally.changes} changes, {tally.summary()}", flush=True)
        if tally.good:
            self._audit(program)
        program.kill()
        return tally

    def _create(self) -> Program:
        program = Program(self._folder, "create", self._log)
        program.wait_ready()
        for lane, (_, settings) in zip(self._lanes, LANE_SETTINGS, strict=True):
            program.do(f"create-secret {lane.dataset} {KEY}" if lane.name == SECRET else f"create {lane.dataset}")
            for name, value in settings:
                program.do(f"set {lane.dataset} {name} {value}")
            program.do(f"open {lane.dataset}", lane.number)
        return program

    def _open(self) -> Program:
        program = Program(self._folder, "import", self._log)
        program.wait_ready()
        program.do(f"key {POOL}/{SECRET} {KEY}")
        for lane in self._lanes:
            program.send(lane.number, f"open {lane.dataset}")
        return program

    def _wait_open(self, program: Program) -> None:
        for lane in self._lanes:
            answer = program.answer(lane.number)
            if answer is None or not answer.startswith("ok"):
                raise ProofError(f"{lane.dataset} cannot be opened: {answer}\n{program.words()}")

    def _round(self, program: Program, number: int, rng: random.Random) -> Program:
        for lane in self._lanes:
            lane.begin(rng)
        self._load(program, rng)
        if rng.random() < POLITE_STOP:
            self._stop_politely(program)
        program.kill()
        for lane in self._lanes:
            for line in program.answered(lane.number):
                lane.hear(line, self._tally)
            self._tally.complaints += lane.refused
        if number % self._audit_every == 0:
            program = self._open()
            self._wait_open(program)
            self._audit(program)
        while rng.random() < KILL_WHILE_STARTING:
            program = self._open()
            time.sleep(rng.uniform(0, 0.3))
            program.kill()
            self._tally.starts_killed += 1
        program = self._open()
        self._wait_open(program)
        for lane in self._lanes:
            if complaints := lane.judge(program.tree(lane.number), lane.reader(program), self._tally):
                self._tally.lost += 1
                self._tally.complaints.append("\n  ".join([f"round {number}:", *complaints]))
        return program

    def _load(self, program: Program, rng: random.Random) -> None:
        deadline = time.monotonic() + rng.uniform(*LOAD_SECONDS)
        while time.monotonic() < deadline:
            for lane in self._lanes:
                for line in program.answered(lane.number):
                    lane.hear(line, self._tally)
                while len(lane.waiting) < AHEAD:
                    if not lane.give(program, rng):
                        program.require_alive()
            time.sleep(0.001)

    def _stop_politely(self, program: Program) -> None:
        """Changes that were sent before the end of a polite stop are durable."""
        for lane in self._lanes:
            while lane.waiting:
                answer = program.answer(lane.number)
                if answer is None:
                    program.require_alive()
                else:
                    lane.hear(answer, self._tally)
        program.export([lane.number for lane in self._lanes])
        for lane in self._lanes:
            while lane.since:
                lane.durable.perform(lane.since.popleft())

    def _audit(self, program: Program) -> None:
        program.export([lane.number for lane in self._lanes])
        self._tally.audits += 1
        if findings := audit(self._folder):
            self._tally.complaints.append(f"zdb found: {findings}")


__all__ = ["AHEAD", "KEY", "CrashProof", "FilesTally", "Lane"]
