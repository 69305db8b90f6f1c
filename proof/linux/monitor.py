"""qemu's monitor (QMP): pauses, resumes or saves a whole virtual machine."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

from proof.runtime import ProofError

ANSWER_SECONDS = 120.0
SAVE_SECONDS = 300.0
POLL_SECONDS = 0.1


class Monitor:
    """One connection to a running qemu."""

    def __init__(self, path: Path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_SECONDS)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("r")
        self._read()
        self.execute("qmp_capabilities")

    def _read(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            raise ProofError("qemu closed its monitor")
        document: dict[str, Any] = json.loads(line)
        return document

    def execute(self, command: str, **arguments: Any) -> Any:
        """Runs one command; returns its result."""
        self._socket.sendall((json.dumps({"execute": command, "arguments": arguments}) + "\n").encode())
        while True:
            answer = self._read()
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise ProofError(f"qemu refuses {command}: {answer['error']['desc']}")

    def wait_status(self, wanted: str) -> None:
        """Returns when the virtual machine is in that state."""
        deadline = time.monotonic() + SAVE_SECONDS
        while (found := self.execute("query-status")["status"]) != wanted:
            if time.monotonic() > deadline:
                raise ProofError(f"the guest is {found}, not {wanted}")
            time.sleep(POLL_SECONDS)

    def save(self, path: Path) -> None:
        """Saves the virtual machine to a file, from which a new one starts. This one stays paused from then on."""
        self.execute("migrate", uri=f"exec:cat >{path}")
        deadline = time.monotonic() + SAVE_SECONDS
        while (state := self.execute("query-migrate").get("status")) != "completed":
            if state == "failed" or time.monotonic() > deadline:
                raise ProofError(f"the guest could not be saved: {state}")
            time.sleep(POLL_SECONDS)

    def throttle(self, disk: str, write_bytes_per_second: int) -> None:
        """Bounds the write rate of a disk; 0 removes the bound."""
        rates = dict.fromkeys(("bps", "bps_rd", "iops", "iops_rd", "iops_wr"), 0)
        self.execute("block_set_io_throttle", device=disk, bps_wr=write_bytes_per_second, **rates)


__all__ = ["Monitor"]
