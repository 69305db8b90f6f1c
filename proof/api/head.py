"""A head with private disks, sockets and accounts for this run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from proof.process import Child
from proof.runtime import REPOSITORY, ProofError, wait_until

PASSWORD = "three short words"
USERS = {"anna": "admin", "otto": "operator", "rita": "read-only"}
DISK_BYTES = 256 << 20
START_SECONDS = 60.0


class Head:
    """One head, and the pool servers that it starts."""

    def __init__(self, folder: Path, *, alone: bool = False):
        """``alone``: the head finds no other binaries, so that it reaches no host and creates no lab."""
        self.folder = folder
        self._alone = alone
        self.program = Path(os.environ.get("BULKHEAD", REPOSITORY / "target/release/bulkhead"))
        self.disks = [folder / "disks" / name for name in ("a", "b", "c")]
        (folder / "disks").mkdir()
        for disk in self.disks:
            with disk.open("wb") as file:
                file.truncate(DISK_BYTES)
        self.child: Child | None = None

    @property
    def _places(self) -> list[str]:
        return ["--run-dir", f"{self.folder}/run", "--state-dir", f"{self.folder}/state", "--search", f"{self.folder}/disks"]

    def command(self, *words: str, given: str = "") -> str:
        """Returns the output of the command, which must succeed."""
        argv = [str(self.program), *words]
        if words[0] in ("head", "user", "token"):
            argv += ["--head-dir", f"{self.folder}/head"]
        done = subprocess.run(argv + self._places, input=given, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise ProofError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def add_users(self) -> None:
        """Adds one user of each role."""
        for name, role in USERS.items():
            self.command("user", "add", name, "--role", role, given=PASSWORD)

    def start(self, *, nbd: str = "127.0.0.1:0") -> int:
        """Returns the port of the head. ``nbd``: the address of its pool servers."""
        log = self.folder / "head.log"
        options = f"--iscsi 127.0.0.1:0,1 --nbd {nbd} --arc-size 64M"
        argv = [
            str(self.program), "head", "--listen", "127.0.0.1:0", "--name", "here",
            "--head-dir", f"{self.folder}/head", "--file", f"{self.folder}/appliance.toml", "--pool-options", options,
        ]  # fmt: skip
        argv += ["--lab-dir", f"{self.folder}/lab"]
        env = {"PATH": str(self.folder / "no-programs")} if self._alone else None
        self.child = Child("head", argv + self._places, log, env)
        child = self.child

        def is_listening() -> bool:
            child.require_alive()
            return "listening http" in log.read_text()

        wait_until("the head listens", is_listening, START_SECONDS)
        return int(re.findall(r"listening https?://127\.0\.0\.1:(\d+)", log.read_text())[-1])

    def stop(self) -> None:
        """Stops the head and the processes that it started."""
        if self.child:
            self.child.kill()
        for socket in (self.folder / "run").glob("*.sock"):
            self.command("pool", "export", socket.stem, "--in-use")
