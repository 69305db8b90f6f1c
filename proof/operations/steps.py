"""Kills by step: the process dies instead of a chosen write, discard or flush of one leg of the mirror."""

from __future__ import annotations

import re
from pathlib import Path

from proof.process import Child
from proof.runtime import ProofError, wait_until

ARMED = "device fails on command"
COUNTED = re.compile(r"device works again.*\bsteps\b\S*?=\S*?(\d+)")
NEVER = 1 << 60
OBEY_SECONDS = 60.0
COMMAND_FAULTS = "BULKHEAD_COMMAND_FAULTS"
"""The environment variable for the file of a command that opens the pool itself."""


class Steps:
    """The trap on a leg, in the file that the server reads, or in one for a single command."""

    def __init__(self, leg: Path, server_file: Path, command_file: Path):
        self._leg = leg
        self._others = ""
        self._server_file = server_file
        self._command_file = command_file
        # Its presence switches the server's fault driver on.
        server_file.write_text("")

    def _line(self, passed: int) -> str:
        return f"{self._leg} kill-after={passed}\n"

    def delay(self, leg: Path, milliseconds: int) -> None:
        """Delays the server's requests to another leg; 0, or a reset of the trap, removes the delay."""
        self._others = f"{leg} delay={milliseconds}\n" if milliseconds else ""
        _put(self._server_file, self._others)

    def forget(self) -> None:
        """Resets all faults for the next server."""
        self._others = ""
        _put(self._server_file, "")

    def arm(self, server: Child, passed: int = NEVER) -> None:
        """From now on this many steps pass, and the server dies instead of the next."""
        before = _said(server).count(ARMED)
        _put(self._server_file, self._others + self._line(passed))
        wait_until("the server watches its steps", lambda: _said(server).count(ARMED) > before or not server.alive(), OBEY_SECONDS)

    def disarm(self, server: Child) -> int:
        """Removes the trap; returns how many steps there were. The server may be dead."""
        before = len(COUNTED.findall(_said(server)))
        _put(self._server_file, self._others)
        if not server.alive():
            return 0

        def counts() -> list[str]:
            return COUNTED.findall(_said(server))[before:]

        wait_until("the server has counted its steps", lambda: bool(counts()) or not server.alive(), OBEY_SECONDS)
        found = counts()
        if not found:
            raise ProofError(f"the server died on its own:\n{server.log_tail()}")
        return int(found[0])

    def for_command(self, passed: int, leg: Path | None = None) -> dict[str, str]:
        """Returns the environment of a command that dies after this many steps of the leg, or of the given one."""
        _put(self._command_file, f"{leg or self._leg} kill-after={passed}\n")
        return {COMMAND_FAULTS: str(self._command_file)}


def _said(child: Child) -> str:
    return child.log.read_text(errors="replace")


def _put(path: Path, text: str) -> None:
    """Replaces a file; a reader sees the old or the new text."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)
