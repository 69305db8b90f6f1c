"""The example process that performs commands on files (``engines/zpool/examples/files.rs``), and its replies."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proof.process import Outcome, die_with_parent, run
from proof.runtime import REPOSITORY, ProofError, at_exit
from proof.servers.bulkhead import zdb_findings

POOL = "tank"
PROGRAM = REPOSITORY / "target/debug/examples/files"
ANSWER_SECONDS = 120.0
ZDB_SECONDS = 300.0


def program() -> Path:
    """Returns the path of the built example."""
    if not PROGRAM.exists():
        raise ProofError(f"{PROGRAM} is missing: scripts/cargo.sh build --locked -p zpool --example files")
    return PROGRAM


def encoded(name: bytes) -> str:
    """Encodes a name or text as one argument of a command."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in name)


@dataclass(frozen=True)
class Entry:
    """An entry of a tree, as the process reports it."""

    kind: str
    mode: str
    """In octal."""
    uid: int
    gid: int
    links: int
    size: int
    accessed: int
    """Nanoseconds since 1970, as the other times."""
    modified: int
    created: int
    device: str
    contents: str
    """Of a file its SHA-256, of a link its encoded target."""

    @classmethod
    def of(cls, words: Sequence[str]) -> Entry:
        """Parses the output of the example."""
        kind, mode, uid, gid, links, size, accessed, modified, created, device, contents = words
        return cls(kind, mode, int(uid), int(gid), int(links), int(size), int(accessed), int(modified), int(created), device, contents)


Tree = dict[str, Entry]
"""Names by their encoded paths."""


class Program:
    """A process that has the pool open. Its lanes perform their commands concurrently."""

    def __init__(self, folder: Path, how: str, log: Path, *, txg_seconds: int = 5):
        """``how`` is ``create`` or ``import``; the pool is on all files of ``folder``."""
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [program(), POOL, folder, how, str(txg_seconds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
                preexec_fn=die_with_parent,
            )
        self._forget = at_exit(self.kill)
        self._answers: dict[int, queue.Queue[str | None]] = {}
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, name="answers", daemon=True)
        self._reader.start()

    def wait_ready(self) -> None:
        """Returns when the pool is open."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self._ready.wait(0.05):
            self.require_alive()
            if time.monotonic() > deadline:
                raise ProofError(f"the pool is not open after {ANSWER_SECONDS:g} s")

    def require_alive(self) -> None:
        """Raises with the output of the process when it has exited."""
        if self._process.poll() is not None:
            raise ProofError(f"the process exited with {self._process.returncode}:\n{self.words()}")

    def words(self) -> str:
        """Returns the end of its error output."""
        return self._log.read_text(errors="replace")[-3000:] if self._log.exists() else ""

    def send(self, lane: int, command: str) -> bool:
        """Sends a lane a command; False when the process is gone."""
        self._queue(lane)
        try:
            assert self._process.stdin
            self._process.stdin.write(f"{lane} {command}\n")
        except (BrokenPipeError, ValueError):
            return False
        return True

    def answer(self, lane: int, seconds: float = ANSWER_SECONDS) -> str | None:
        """Returns the next line of a lane, without its number; ``None`` when the process is gone and no line is
        left."""
        try:
            return self._queue(lane).get(timeout=seconds)
        except queue.Empty:
            raise ProofError(f"lane {lane} does not answer:\n{self.words()}") from None

    def answered(self, lane: int) -> list[str]:
        """Returns the lines of a lane that have arrived."""
        lines = []
        while True:
            try:
                line = self._queue(lane).get_nowait()
            except queue.Empty:
                return lines
            if line is None:
                return lines
            lines.append(line)

    def do(self, command: str, lane: int = 0) -> str:
        """Performs a command that must succeed; returns its output."""
        if not self.send(lane, command):
            self.require_alive()
        answer = self.answer(lane)
        if answer is None:
            raise ProofError(f"the process exited during {command}:\n{self.words()}")
        if not answer.startswith("ok"):
            raise ProofError(f"{command}: {answer}")
        return answer[3:]

    def tree(self, lane: int = 0) -> Tree:
        """Returns all names of the file system that a lane has open."""
        self.send(lane, "tree")
        tree: Tree = {}
        while True:
            line = self.answer(lane)
            if line is None:
                raise ProofError(f"the program ended:\n{self.words()}")
            words = line.split()
            if words[0] == "entry":
                tree[words[1]] = Entry.of(words[2:])
            elif words[0] == "ok":
                return tree
            else:
                raise ProofError(f"tree: {line}")

    def kill(self) -> None:
        """SIGKILL; the replies that it sent before can still be read."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        self._forget()

    def export(self, lanes: Sequence[int] = (0,)) -> None:
        """Closes the open files of the lanes, then the pool, then the process."""
        for lane in lanes:
            self.do("close", lane)
        self.do("export")
        self.kill()

    def _queue(self, lane: int) -> queue.Queue[str | None]:
        return self._answers.setdefault(lane, queue.Queue())

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break
            number, _, rest = line.strip().partition(" ")
            if number == "ready":
                self._ready.set()
            else:
                self._queue(int(number)).put(rest)
        for lane in list(self._answers.values()):
            lane.put(None)


def audit(folder: Path) -> str:
    """Returns the findings of stock ``zdb`` in the pool, which no process has open; empty when it is sound."""
    outcome: Outcome = run(["zdb", "-e", "-p", folder, "-bcc", POOL], ZDB_SECONDS)
    return zdb_findings(outcome)


__all__ = ["POOL", "Entry", "Program", "Tree", "audit", "encoded", "program"]
