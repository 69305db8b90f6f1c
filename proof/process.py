"""Child processes: started with a death signal, measured in CPU time, killed by their process id."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proof.runtime import ProofError, at_exit

PR_SET_PDEATHSIG = 1
LOG_TAIL_BYTES = 4000
SYSTEM_PATH = ":/usr/sbin:/sbin"
STOP_SECONDS = 20.0
"""Time-out of a stop by SIGTERM."""

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Between fork and exec: the child is killed when this process exits, for any reason."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def missing_programs(needed: Iterable[str]) -> list[str]:
    """Returns the missing commands. Users have no sbin in their path; commands there are found all the same."""
    path = os.environ.get("PATH", "") + SYSTEM_PATH
    return [name for name in needed if shutil.which(name, path=path) is None]


class Ended(ProofError):
    """A process that should run has exited."""

    def __init__(self, status: int, words: str):
        super().__init__(words)
        self.status = status


class Child:
    """One child process. Its output is logged to a file; the tail of it explains a failure."""

    def __init__(self, name: str, argv: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None):
        self.name = name
        self.log = log
        self.argv = [str(word) for word in argv]
        self.started = time.monotonic()
        with log.open("ab") as sink:
            try:
                self._process = subprocess.Popen(
                    self.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                    env={**os.environ, **env} if env else None,
                    # This process forwards a terminal's Ctrl-C: the child must not receive it first.
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            except FileNotFoundError as error:
                raise ProofError(f"{self.argv[0]} is not installed") from error
        self._forget = at_exit(self.kill)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def require_alive(self) -> None:
        """Raises with the tail of the log when the process has exited."""
        if not self.alive():
            status = self._process.returncode
            raise Ended(status, f"{self.name} ended with {status}:\n{self.log_tail()}")

    def kill(self) -> None:
        """Sends SIGKILL, and blocks until the kernel has released all resources."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._forget()

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """Sends SIGTERM and returns the exit status; SIGKILL and an error when it does not exit in time."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ProofError(f"{self.name} did not end within {seconds:g} s of SIGTERM:\n{self.log_tail()}") from error
        self._forget()
        return status

    def signal(self, number: int) -> None:
        """Sends a signal."""
        self._process.send_signal(number)

    def died_of(self, number: int) -> bool:
        """Whether a signal killed it."""
        return self._process.poll() == -number

    def ended_with(self, status: int) -> bool:
        """Whether it has exited with this status."""
        return self._process.poll() == status

    def failed(self) -> bool:
        """Whether it has exited with a failure."""
        return bool(self._process.poll())

    def log_tail(self) -> str:
        """Returns the tail of its output."""
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def rss_bytes(self) -> int:
        """Resident memory now; 0 when it has exited."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """User and system time so far, of all its threads, also exited ones."""
        return cpu_seconds(self.pid)


def cpu_seconds(pid: int) -> float:
    """User plus system time of a process, in nanosecond steps.

    The process's CPU clock equals utime + stime of /proc/PID/stat (threads that ended
    and io_uring workers included; kernel threads never), without that file's 10 ms steps.
    """
    return time.clock_gettime(((~pid) << 3) | 2)


def tree(pid: int) -> list[int]:
    """Returns the process and its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        current = queue.pop()
        found.append(current)
        queue.extend(parents.get(current, []))
    return found


def tree_cpu_seconds(pid: int) -> float:
    """CPU time of a process and its descendants."""
    return sum(cpu_seconds(member) for member in tree(pid))


@dataclass(frozen=True)
class Outcome:
    """The result of a tool."""

    status: int | None
    """Exit status; None when the time-out killed it."""
    output: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether it exited with success."""
        return self.status == 0


def run(argv: Sequence[str | Path], seconds: float, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> Outcome:
    """Runs a tool to its end, output and errors together; kills it after ``seconds``.

    Stock clients can hang (``iscsi-ls`` spins when a target vanishes), so none runs without a time-out.
    """
    words = [str(word) for word in argv]
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env} if env else None,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    except FileNotFoundError as error:
        raise ProofError(f"{words[0]} is not installed") from error
    forget = at_exit(process.kill)
    try:
        output, _ = process.communicate(stdin, timeout=seconds)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        # start_new_session created the group, so it contains only the tool and its helpers (sg_*, sh).
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = None
    finally:
        forget()
    return Outcome(status, output.decode(errors="replace"), time.monotonic() - started)


def checked(argv: Sequence[str | Path], seconds: float, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> str:
    """Like ``run``; a failure is a ``ProofError`` with the tool's own output."""
    outcome = run(argv, seconds, stdin, env)
    if not outcome.ok:
        how = "was killed by its time-out" if outcome.status is None else f"ended with {outcome.status}"
        raise ProofError(f"{' '.join(str(word) for word in argv)} {how}:\n{outcome.output.strip()[-LOG_TAIL_BYTES:]}")
    return outcome.output
