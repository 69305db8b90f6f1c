"""A pool with an object of each kind, its observable state, and processes that are killed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from proof.control import Control
from proof.operations.steps import Steps
from proof.process import Child, Outcome, run
from proof.runtime import ProofError, free_port
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import POOL, Bulkhead

try:
    import nbd
except ImportError:  # ``require_nbd`` names the package when a command needs it.
    nbd = None  # type: ignore[assignment]

LEG_BYTES = 512 << 20
VOLUME = VolumeSpec("v", 12 << 20)
PART_BYTES = 1 << 20
WRITTEN_LATER_BYTES = 3 << 20
KEY_BYTES = 32
COMMAND_SECONDS = 120.0
SETTLE_SECONDS = 60.0
SLOW_MS = 40
"""Added delay of each access to a slow leg: a scrub then runs for seconds."""

Words = tuple[str, ...]
Step = Words | Callable[["World"], None]
"""A command of the administrator, or more than one."""

OF_ITSELF = ("repl-", "auto-", "bulkhead-check", "bulkhead-diff")
"""Prefixes of snapshots that are named by the time, or that a killed check or comparison leaves until the next one."""


class World:
    """One pool, with a server or without."""

    def __init__(self, scratch: Path, seed: int, others: Sequence[VolumeSpec] = ()):
        self.scratch = scratch
        self.keys = [scratch / f"key{number}" for number in range(3)]
        self.port = free_port()
        self.server = Bulkhead(scratch, [VOLUME, *others], leg_bytes=LEG_BYTES, options=("--replication", f"127.0.0.1:{self.port}"))
        self.steps = Steps(self.server.legs[1], self.server.fault_file, scratch / "command-faults")
        self.spare = self.server.directory / "spare.img"
        self.secret = scratch / "secret"
        self.password = scratch / "password"
        self.fingerprint = ""
        self._random = random.Random(f"{seed}:contents")
        self._logs = 0

    def prepare(self) -> None:
        """Creates the pool and the preconditions of all operations; serves it."""
        for key in self.keys:
            key.write_bytes(os.urandom(KEY_BYTES))
        self.secret.write_text("operations-" * 2 + "\n")
        self.password.write_text("initiators-" * 2 + "\n")
        self.server.prepare()
        self.spare.write_bytes(b"")
        os.truncate(self.spare, LEG_BYTES)
        self.serve()
        self._fill("v", 0, VOLUME.size)
        for words in (
            ("volume", "create", f"{POOL}/w", "--size", "8M", "--sparse"),
            ("volume", "create", f"{POOL}/e", "--size", "8M", "--sparse", *self.key(0)),
            ("nbd", "export", f"{POOL}/e", "--name", "e"),
        ):
            self.ask(*words)
        self._fill("e", 0, 8 << 20)
        self.ask("snapshot", "create", *(f"{POOL}/{name}@base" for name in "vwe"))
        for name in "ve":
            self._fill(name, 1 << 20, WRITTEN_LATER_BYTES)
        self.ask("snapshot", "create", *(f"{POOL}/{name}@next" for name in "vwe"))
        self.ask("nbd", "unexport", f"{POOL}/e")
        for name, raw in (("v", ()), ("e", ("--raw",))):
            self.ask("snapshot", "send", f"{POOL}/{name}@base", *raw, stdout=self.stream(f"{name}-base"))
            since = ("--from", "@base")
            self.ask("snapshot", "send", f"{POOL}/{name}@next", *since, *raw, stdout=self.stream(f"{name}-next"))
        self.fingerprint = str(self.look("replicate", "identity", POOL)["fingerprint"])
        self.ask("replicate", "accept", self.fingerprint, "--below", f"{POOL}/far")

    def named(self, words: Words) -> Words:
        """Returns the words, with KEY0, LEG0, SPARE, SECRET, PASSWORD and PEER replaced by the values of this world."""
        known = {f"KEY{number}": str(key) for number, key in enumerate(self.keys)}
        known |= {"LEG0": str(self.server.legs[0]), "SPARE": str(self.spare), "PEER": self.fingerprint}
        known |= {"SECRET": str(self.secret), "PASSWORD": str(self.password)}
        for name, value in known.items():
            words = tuple(word.replace(name, value) for word in words)
        return words

    def key(self, number: int) -> Words:
        """Returns options that name a key in a file."""
        return ("--key-format", "raw", "--key-location", f"file://{self.keys[number]}")

    def stream(self, name: str) -> Path:
        """Returns the path of a file for a stream."""
        return self.scratch / f"{name}.zfs"

    def serve(self) -> None:
        """Starts the server, and blocks until no work of an earlier one is pending."""
        self.server.start()
        self.server.wait_ready()

    def kill(self) -> None:
        """Kills the server, if one runs."""
        self.server.kill()

    def arm(self, passed: int | None = None) -> None:
        """This many steps of a leg pass, and the server dies instead of the next; without a number it never dies."""
        server = self.server.children[0]
        self.steps.arm(server) if passed is None else self.steps.arm(server, passed)

    def disarm(self) -> int:
        """Returns how many steps there were."""
        return self.steps.disarm(self.server.children[0])

    def forget_trap(self) -> None:
        """Resets the trap for the next server."""
        self.steps.forget()

    def slow_down(self) -> None:
        """Slows a leg down, until ``speed_up`` or the next server."""
        self.steps.delay(self.server.legs[0], SLOW_MS)

    def speed_up(self) -> None:
        """Both legs are fast again."""
        self.steps.delay(self.server.legs[0], 0)

    def is_open_in(self, child: Child) -> bool:
        """Whether the process has a leg open."""
        legs = {str(leg) for leg in self.server.legs}
        for entry in Path(f"/proc/{child.pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                if os.readlink(entry) in legs:
                    return True
        return False

    @property
    def is_served(self) -> bool:
        """Whether a server runs."""
        return bool(self.server.children)

    def argv(self, words: Sequence[str], stdin: Path | None = None, stdout: Path | None = None) -> list[str | Path]:
        """Returns the command, with a file instead of a pipe where one is named."""
        whence, whither = stdin or "/dev/null", f" >{stdout}" if stdout else ""
        return ["sh", "-c", f'exec "$0" "$@" <{whence}{whither}', self.server.program, *words]

    def try_ask(self, *words: str, stdin: Path | None = None, stdout: Path | None = None) -> Outcome:
        """Runs a command, and returns its outcome even if it fails."""
        return run(self.argv(words, stdin, stdout), COMMAND_SECONDS, env=self.server.environment)

    def ask(self, *words: str, stdin: Path | None = None, stdout: Path | None = None) -> str:
        """Runs a command to success."""
        outcome = self.try_ask(*words, stdin=stdin, stdout=stdout)
        if not outcome.ok:
            raise ProofError(f"bulkhead {' '.join(words)} exited with {outcome.status}: {outcome.output.strip()}")
        return outcome.output

    def begin(self, words: Sequence[str], stdin: Path | None = None, stdout: Path | None = None, env: dict[str, str] | None = None) -> Child:
        """Starts a command, which may be killed, with additions to its environment."""
        self._logs += 1
        log = self.scratch / f"command-{self._logs % 4}.log"
        log.unlink(missing_ok=True)
        return Child(" ".join(words), self.argv(words, stdin, stdout), log, {**self.server.environment, **(env or {})})

    def do(self, steps: Sequence[Step]) -> None:
        """Runs the steps."""
        for step in steps:
            if callable(step):
                step(self)
            else:
                self.ask(*self.named(step))

    def look(self, *words: str) -> Any:
        """Returns the parsed JSON output of a command."""
        return json.loads(self.ask("--json", *words))

    def snapshots(self, volume: str, prefix: str = "") -> list[str]:
        """Returns names of a volume's snapshots with this prefix, without the volume."""
        names = [one["name"].split("@")[1] for one in self.look("snapshot", "list", f"{POOL}/{volume}")]
        return [name for name in names if name.startswith(prefix)]

    def destroy_volume(self, name: str) -> None:
        """Destroys a volume with its snapshots."""
        self.ask("volume", "destroy", f"{POOL}/{name}", "--recursive", "--exported", "--yes-destroy-data")

    def destroy_snapshots(self, volume: str, prefix: str) -> None:
        """Destroys the snapshots of a volume with this prefix."""
        if found := self.snapshots(volume, prefix):
            self.ask("snapshot", "destroy", *(f"{POOL}/{volume}@{name}" for name in found), "--yes-destroy-data")

    def control(self) -> Control:
        """Opens a connection to the server."""
        return Control(Path(self.server.environment["BULKHEAD_RUN_DIR"]) / f"{POOL}.sock")

    def observe(self, reads: Sequence[str] = (), probe: Words = ()) -> dict[str, Any]:
        """Returns the state that an administrator sees, without values that change by themselves. Requires a server."""
        with self.control() as control:
            ask = control.ask
            found = ask({"volume": "list"})
            files = ask({"filesystem": "list"})
            snapshots = [one["name"] for one in ask({"snapshot": {"list": {"volume": None}}})]
            replication = ask({"replicate": "list"})
            status = ask({"pool": "status"})
            seen: dict[str, Any] = {
                "volumes": {one["name"]: _volume(control, one) for one in found},
                "filesystems": {one["name"]: _files(control, one) for one in files},
                "snapshots": sorted(name for name in snapshots if not name.split("@")[1].startswith(OF_ITSELF)),
                "targets": [_without(one, "sessions") for one in ask({"target": "list"})],
                "discovery": ask({"target": {"discovery": "show"}}),
                "exports": [_without(one, "sessions") for one in ask({"nbd": "list"})],
                "schedules": {one["of"]: [rule["rule"] for rule in one["rules"]] for one in ask({"snapshot": {"schedule": "list"}})},
                "keys": ask({"key": {"status": {"name": None}}}),
                "replicated": {one["dataset"]: one["document"] for one in replication["replicated"]},
                "peers": replication["peers"],
                "own": _own(control, POOL),
                "comment": ask({"pool": {"get": {"names": ["comment"]}}})["comment"]["value"],
                "devices": _leaves(status["devices"]),
                "scan": _scan(status.get("scan")),
                "scrubs": (status.get("scrub_schedule") or {}).get("when"),
            }
        seen["contents"] = {name: self.contents(name) for name in reads if f"{POOL}/{name}" in seen["volumes"]}
        if probe:
            seen["probe"] = self.try_ask(*probe).ok
        return seen

    def scribble(self) -> None:
        """Overwrites a part of ``v``, always with the same data."""
        self._write("v", 0, [bytes([7]) * PART_BYTES])

    def contents(self, name: str) -> str:
        """Returns a digest of the data of a volume."""
        dataset = f"{POOL}/{name}"
        if self.look("volume", "show", dataset).get("locked"):
            return "locked"
        if name == "v":
            return self._digest(self.server.nbd("v").uri)
        rescue = self.look("volume", "rescue", dataset, "--read-only", "--background")
        try:
            return self._digest(rescue["uri"])
        finally:
            self.ask("volume", "rescue", dataset, "--end")

    def _digest(self, uri: str) -> str:
        client = nbd.NBD()
        client.connect_uri(uri)
        digest = hashlib.sha256()
        for at in range(0, client.get_size(), PART_BYTES):
            digest.update(client.pread(min(PART_BYTES, client.get_size() - at), at))
        client.shutdown()
        return digest.hexdigest()[:16]

    def _fill(self, export: str, offset: int, length: int) -> None:
        self._write(export, offset, [self._random.randbytes(PART_BYTES) for _ in range(length // PART_BYTES)])

    def _write(self, export: str, offset: int, parts: list[bytes]) -> None:
        client = nbd.NBD()
        client.connect_uri(self.server.nbd(export).uri)
        for number, part in enumerate(parts):
            client.pwrite(part, offset + number * PART_BYTES)
        client.flush()
        client.shutdown()

    def wait(self, what: str, ready: Callable[[], bool]) -> None:
        """Blocks until the server has completed a background change."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not ready():
            if time.monotonic() > deadline:
                raise ProofError(f"{what}: not within {SETTLE_SECONDS:g} s")
            time.sleep(0.05)


def _volume(control: Control, one: dict[str, Any]) -> dict[str, Any]:
    name = one["name"]
    return {
        **{key: one.get(key) for key in ("size", "block_size", "locked", "sparse", "origin", "exports")},
        # The identity of a new volume is random.
        "identity": one.get("identity") if name in (f"{POOL}/{kept}" for kept in "vwe") else bool(one.get("identity")),
        "own": _own(control, name),
    }


def _files(control: Control, one: dict[str, Any]) -> dict[str, Any]:
    name, kinds = one["name"], () if one.get("locked") else ("user", "group", "project")
    owners = [owner for kind in kinds for owner in control.ask({"filesystem": {"userspace": {"name": name, "of": kind}}})["owners"]]
    limits = [[one["of"], one["id"], one.get("quota"), one.get("object_quota")] for one in owners]
    limits = sorted(limit for limit in limits if limit[2:] != [None, None])
    return {"share": one["share"], "origin": one.get("origin"), "own": _own(control, name), "limits": limits}


def _own(control: Control, dataset: str) -> dict[str, str]:
    """Returns properties that were set on the dataset itself."""
    found = control.ask({"volume": {"get": {"name": dataset, "names": []}}})
    # A quota of none counts as set; an identity is random.
    own = {name: one["value"] for name, one in found.items() if one["source"] == "local" and one["value"] != "0"}
    return {name: "" if name.endswith(":identity") else without_times(value) for name, value in own.items()}


def without_times(document: str) -> str:
    """Returns a document without its times, which differ in a repetition."""
    return re.sub(r'"(\w+_unix_s)":\d+', r'"\1":0', document)


def _without(one: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name != key}


def _scan(scan: Any) -> str:
    """Returns whether a scan is paused: all its other values change by themselves."""
    return "paused" if scan and scan["state"] == "paused" else ""


def _leaves(devices: object) -> list[str]:
    """Returns names of the disks, with the names of their parents."""
    found: list[str] = []
    assert isinstance(devices, list)
    for device in devices:
        members = device.get("members") or []
        state = ":offline" if device["state"] == "OFFLINE" else ""
        found += [f"{device['name']}/{leaf}" for leaf in _leaves(members)] if members else [Path(device["name"]).name + state]
    return found
