"""The runtime of every proof command: an interpreter with libnbd, a scratch directory, deadlines, and a clean exit."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
"""The checkout this command belongs to."""

DEBIAN_PYTHON = "/usr/bin/python3"
"""Debian installs python3-libnbd for this interpreter only."""

REEXECUTED = "BULKHEAD_PROOF_REEXECUTED"

PORTS = (20_000, 32_000)
"""The range of :func:`free_port`, below every usual ephemeral range; the end is not included."""

PORT_TRIES_MAX = 100

_last_words: list[Callable[[], None]] = []


class ProofError(Exception):
    """The proof could not run, or failed, for a reason that a person should read."""


def use_interpreter_with_libnbd() -> None:
    """Runs the command again under Debian's interpreter when this one has no ``nbd`` module.

    Version managers such as pyenv shadow ``python3`` with an interpreter that does not see Debian's packages. The
    environment variable prevents a second attempt.
    """
    if importlib.util.find_spec("nbd") or REEXECUTED in os.environ:
        return
    if not os.access(DEBIAN_PYTHON, os.X_OK):
        return
    os.environ[REEXECUTED] = "1"
    # Module names survive in orig_argv only: argv[0] is already a path.
    os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.orig_argv[1:]])


def require_nbd() -> None:
    """Names the missing package instead of a traceback."""
    if not importlib.util.find_spec("nbd"):
        raise ProofError("the Python module nbd is missing: apt-get install python3-libnbd")


def at_exit(action: Callable[[], None]) -> Callable[[], None]:
    """Registers ``action`` for every kind of exit, signals included; returns a call that removes it."""
    _last_words.append(action)

    def forget() -> None:
        with contextlib.suppress(ValueError):
            _last_words.remove(action)

    return forget


def clean_up() -> None:
    """Performs the actions of ``at_exit``, newest first, each once."""
    while _last_words:
        action = _last_words.pop()
        with contextlib.suppress(OSError):
            action()


def _leave(signal_number: int, _frame: object) -> None:
    # Not an exception: one raised inside a ctypes callback would be discarded there.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    clean_up()
    sys.stdout.flush()
    os._exit(128 + signal_number)


def command(main: Callable[[list[str]], int]) -> None:
    """Runs a proof command: signals and failures clean up, and a ``ProofError`` is printed as one sentence."""
    use_interpreter_with_libnbd()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        status = main(sys.argv[1:])
    except ProofError as error:
        print(f"failed: {error}")
        status = 1
    finally:
        clean_up()
    sys.exit(status)


def memory_base(free_bytes: int) -> str | None:
    """Returns ``/dev/shm`` if it has that much free memory.

    Files that are fragmented by many small writes are slow to remove from a file system that is mounted with
    ``discard``: minutes for the disks of a lab.
    """
    shared = Path("/dev/shm")
    with contextlib.suppress(OSError):
        if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free >= free_bytes:
            return str(shared)
    return None


@contextlib.contextmanager
def scratch(purpose: str, keep: bool = False, base: str | None = None) -> Iterator[Path]:
    """Yields a directory for this run under ``$BULKHEAD_SCRATCH`` (or ``base``, or the system's), and removes it
    afterwards."""
    base = os.environ.get("BULKHEAD_SCRATCH", base)
    if base:
        Path(base).mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=f"bulkhead-{purpose}-", dir=base))

    def remove() -> None:
        shutil.rmtree(path, ignore_errors=True)

    forget = (lambda: None) if keep else at_exit(remove)
    try:
        yield path
    finally:
        if keep:
            print(f"kept: {path}")
        else:
            forget()
            remove()


def verdict(complaints: Sequence[str], *lines: str) -> int:
    """Prints the complaints, then these lines, of which the last is the verdict; returns the exit status."""
    for line in (*complaints, *lines):
        print(line)
    return bool(complaints)


def free_port() -> int:
    """Returns a TCP port of 127.0.0.1 without a listener. Not from the ephemeral range: the kernel would assign it
    to the next connection before the caller listens on it."""
    for _ in range(PORT_TRIES_MAX):
        port = random.SystemRandom().randrange(*PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise ProofError("no TCP port is free on 127.0.0.1")


def wait_until(what: str, ready: Callable[[], bool], seconds: float, poll_seconds: float = 0.005) -> None:
    """Returns as soon as ``ready()`` holds; raises a ``ProofError`` that names the condition after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise ProofError(f"{what}: not within {seconds:g} s")
        time.sleep(poll_seconds)


def port_answers(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a TCP connection to the port is accepted now."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
