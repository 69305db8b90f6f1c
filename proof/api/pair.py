"""Two heads, of which the second serves the pool: a request to the first runs on the second, with the rights of its
sender."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from proof.api.head import PASSWORD
from proof.api.web import Web
from proof.process import Child
from proof.runtime import REPOSITORY, ProofError, free_port, wait_until

WAIT_SECONDS = 60.0
DISK_BYTES = 256 << 20
# The output of Pacemaker when right serves tank. The drills use the real one.
MONITOR = """#!/bin/sh
cat <<'END'
<pacemaker-result><nodes><node name="left" online="true" standby="false" unclean="false"/>
<node name="right" online="true" standby="false" unclean="false"/></nodes>
<resources><resource id="pool-tank" role="Started" failed="false"><node name="right" id="2"/></resource></resources>
</pacemaker-result>
END
"""


class _Side:
    """One of the heads; both run on this host, with addresses of their own."""

    def __init__(self, program: Path, folder: Path, name: str, address: str, port: int):
        self.program, self.folder, self.name = program, folder / name, name
        self.folder.mkdir()
        self.env = {
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "BULKHEAD_RUN_DIR": f"{self.folder}/run",
            "BULKHEAD_STATE_DIR": f"{self.folder}/state",
            "BULKHEAD_HEAD_DIR": f"{self.folder}/head",
            "BULKHEAD_SEARCH": str(self.folder),
        }
        self.words = ["head", "--listen", f"{address}:{port}", "--name", name, "--file", f"{folder}/appliance.toml", "--peer-key", f"{folder}/key"]
        self.log = self.folder / "head.log"

    def run(self, *words: str) -> None:
        child = Child(words[0], [self.program, *words], self.folder / "commands.log", self.env)
        wait_until(" ".join(words), lambda: not child.alive(), WAIT_SECONDS)
        if child.stop() != 0:
            raise ProofError(f"{' '.join(words)}: {child.log_tail()}")

    def start(self, words: list[str], sign: str) -> Child:
        child = Child(f"{words[0]} {self.name}", [self.program, *words], self.log, self.env)

        def is_up() -> bool:
            child.require_alive()
            return sign in self.log.read_text()

        wait_until(f"{words[0]} of {self.name} is up", is_up, WAIT_SECONDS)
        return child


def what_another_head_serves(program: Path, folder: Path) -> None:
    """A request is forwarded to the other head; a stranger that claims to be a head has no rights there."""
    (folder / "bin").mkdir()
    monitor = folder / "bin/crm_mon"
    monitor.write_text(MONITOR)
    monitor.chmod(monitor.stat().st_mode | stat.S_IXUSR)
    (folder / "key").write_bytes(os.urandom(128))
    text = (REPOSITORY / "examples/pair.toml").read_text()
    (folder / "appliance.toml").write_text(text.replace("10.77.9.11", "127.0.0.1").replace("10.77.9.12", "127.0.0.2"))
    port = free_port()
    left, right = (_Side(program, folder, name, address, port) for name, address in (("left", "127.0.0.1"), ("right", "127.0.0.2")))
    password = folder / "password"
    password.write_text(PASSWORD)
    left.run("user", "add", "anna", "--role", "admin", "--password-file", str(password))
    for side in (left, right):
        side.run("head", "certificate", "--name", "localhost")
    disk = right.folder / "disk"
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    right.run("pool", "create", "tank", str(disk))
    server = right.start(["pool-server", "tank", "--iscsi", "127.0.0.1:0", "--no-nbd", "--arc-size", "64M", "--ready-fd", "2"], "READY")
    heads = [side.start(side.words, "listening https") for side in (left, right)]
    anna = Web(port, encrypted=True)
    if anna.log_in("anna", PASSWORD) != 200:
        raise ProofError("no login at the left head")
    volume = {"name": "tank/v", "size": 16 << 20, "sparse": True}

    def is_made() -> bool:
        status, _ = anna.ask("POST", "/pools/tank/volumes", {**volume, "exist_ok": True})
        return status == 200

    wait_until("the left head forwards the creation of a volume to the right one", is_made, WAIT_SECONDS, 0.5)
    entries = [json.loads(line) for line in (right.folder / "head/audit.log").read_text().splitlines()]
    if ("anna", "volume.create", "done") not in {(entry["who"], entry["what"], entry["outcome"]) for entry in entries}:
        raise ProofError(f"the right head's audit log does not name anna: {entries}")
    stranger = Web(port, encrypted=True, host="127.0.0.2")
    claims = {"X-Bulkhead-User": "anna", "X-Bulkhead-Role": "admin", "X-Bulkhead-Proof": "00" * 32}
    for path, wanted in (("/api/v1/peer/hello", 403), ("/api/v1/peer/accounts", 403), ("/api/v1/pools/tank", 401)):
        status = stranger.raw("GET", path, None, claims)[0]
        if status != wanted:
            raise ProofError(f"{path} by a stranger returns {status}, not {wanted}")
    # Heads exchange their accounts.
    wait_until("anna is known to the right head", lambda: stranger.log_in("anna", PASSWORD) == 200, 2 * WAIT_SECONDS, 1.0)
    for head in heads:
        head.kill()
    server.stop()
