"""Heads with disks of their own, and a witness or none, as processes of this host: on loopback addresses, or behind
virtual cables."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from proof import process, runtime
from proof.legs import record
from proof.legs.cables import LENDS, MEMBERS, Cables
from proof.legs.client import Client
from proof.legs.record import Group, Memory
from proof.process import Child
from proof.runtime import ProofError

DISK_BYTES = 128 << 20
VOLUME_BYTES = 32 << 20
COMMAND_SECONDS = 120.0
START_SECONDS = 120.0
POOL_NUMBER = 77
WITNESS_NUMBER = 3
MEMBER_PORT, LENDER_PORT = 7071, 7072
FENCED = "--previous-owner-is-stopped"


@dataclass(frozen=True)
class Shape:
    """The nodes of an appliance, and the heads of each group's legs."""

    name: str
    heads: tuple[str, ...]
    has_witness: bool
    groups: tuple[Group, ...]


ONE_MIRROR = Shape("one mirror", ("a", "b"), True, (Group(1, {11: "a", 22: "b"}),))
_MIRRORS = (Group(1, {11: "a", 21: "b"}), Group(1, {12: "a", 22: "b"}))
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("witness", ("a", "b"), True, _MIRRORS),
        Shape("pair", ("a", "b"), False, _MIRRORS),
        Shape("three", ("a", "b", "c"), False, (Group(1, {11: "a", 21: "b"}), Group(1, {22: "b", 31: "c"}), Group(1, {32: "c", 12: "a"}))),
        Shape("raidz", ("a", "b", "c"), False, (Group(2, {11: "a", 21: "b", 31: "c"}),)),
    )
}


def _memory_file(folder: Path) -> Path:
    return folder / f"{POOL_NUMBER}.legs"


def _sparse_disk(path: Path) -> None:
    with path.open("wb") as disk:
        disk.truncate(DISK_BYTES)


class Head:
    """One head: its directory, its disks and its two processes."""

    def __init__(self, program: Path, folder: Path, name: str, number: int, cables: Cables | None, address: str):
        self.program, self.folder, self.name, self.number = program, folder, name, number
        self.address = address
        self.lender: Child | None = None
        self.server: Child | None = None
        self._cables = cables
        self._starts = 0
        folder.mkdir()

    @property
    def _env(self) -> dict[str, str]:
        return {
            "BULKHEAD_RUN_DIR": str(self.folder / "run"),
            "BULKHEAD_STATE_DIR": str(self.folder / "state"),
            "BULKHEAD_CLUSTER_KEY": str(self.folder / "authkey"),
        }

    def _here(self, words: list[str | Path]) -> list[str | Path]:
        return self._cables.there(self.number, words) if self._cables else words

    def command(self, *words: str) -> str:
        """Runs a command on this head, which must succeed; returns its output."""
        return process.checked(self._here([self.program, *words]), COMMAND_SECONDS, env=self._env)

    @property
    def config(self) -> Path:
        """The path of its ``legs.toml``."""
        return self.folder / "legs.toml"

    def disk(self, number: int) -> Path:
        """The file of this disk."""
        return self.folder / f"disk-{number}"

    def member_address(self) -> str:
        """The address of its member."""
        return f"{self._cables.address(self.number, MEMBERS) if self._cables else self.address}:{MEMBER_PORT}"

    def lender_address(self) -> str:
        """The address of its lender."""
        return f"{self._cables.address(self.number, LENDS) if self._cables else self.address}:{LENDER_PORT}"

    def start_lender(self) -> None:
        """Starts its leg-server."""
        words = self._here([self.program, "leg-server", "--config", self.config])
        self.lender = Child(f"leg-server of {self.name}", words, self.folder / "lender.log", self._env)

    def kill_lender(self) -> None:
        """Kills the leg-server (SIGKILL), if it runs."""
        if self.lender:
            self.lender.kill()
        self.lender = None

    def kill_server(self) -> None:
        """Kills the pool server (SIGKILL), if it runs."""
        if self.server:
            self.server.kill()
        self.server = None

    def power_off(self) -> None:
        """Kills both processes (SIGKILL)."""
        self.kill_server()
        self.kill_lender()

    def begin_to_serve(self, *options: str) -> Child:
        """Starts a new server of the pool, without waiting for the result."""
        self._starts += 1
        socket = self.folder / "nbd.sock"
        socket.unlink(missing_ok=True)
        words = ["pool-server", "tank", "--no-iscsi", "--nbd", f"unix:{socket}", "--ready-fd", "1", "--legs", str(self.config)]
        server = self._here([self.program, *words, *options])
        return Child(f"pool server of {self.name}", server, self._server_log, self._env)

    @property
    def _server_log(self) -> Path:
        return self.folder / f"server{self._starts}.log"

    def outcome(self, server: Child) -> str | None:
        """Blocks until a new server serves; returns nothing, or the text of the refusal."""

        def ready() -> bool:
            return b"READY\n" in self._server_log.read_bytes()

        runtime.wait_until(f"{server.name} is ready or refuses", lambda: ready() or not server.alive(), START_SECONDS, 0.02)
        if ready() and server.alive():
            self.server = server
            return None
        server.kill()
        return server.log_tail()

    def serve(self, *options: str) -> str | None:
        """Serves the pool; returns nothing, or the text of the refusal."""
        return self.outcome(self.begin_to_serve(*options))

    def memory(self) -> Memory | None:
        """Returns the memory of the pool in its leg-server."""
        return record.read(_memory_file(self.folder / "state/legs"))

    def forget(self) -> None:
        """Kills its leg-server, removes its memory of the pool, and starts it again."""
        self.kill_lender()
        _memory_file(self.folder / "state/legs").unlink()
        self.start_lender()

    def readmit(self) -> None:
        """Readmits the member, as an administrator does."""
        self.command("leg-server", "readmit", str(POOL_NUMBER), "--forget", "--config", str(self.config))

    def _server_lines(self) -> list[str]:
        return self._server_log.read_text(errors="replace").splitlines() if self._server_log.exists() else []

    def committed(self) -> list[set[str]]:
        """Returns the current legs of each record that its server committed, the first one first; as ``head:path``."""
        records = [line.partition("current=")[2].partition("stale=")[0] for line in self._server_lines() if "the record of the pool's legs" in line]
        return [set(one.strip().strip("[]").replace('"', "").split(", ")) - {""} for one in records]

    def failing_disks(self) -> set[int]:
        """Returns the disks that fail on command, according to its server's log."""
        failing: set[int] = set()
        for line in self._server_lines():
            for words, change in (("device fails on command", failing.add), ("device works again", failing.discard)):
                if words in line:
                    change(int(line.partition("path=")[2].split()[0].rpartition("/")[2]))
        return failing

    def all_current(self) -> bool:
        """Whether a leg of each head is current, by the last record that its server committed."""
        records = self.committed()
        return bool(records) and {leg.partition(":")[0] for leg in records[-1]} >= {"a", "b"}

    def client(self, seconds: float) -> Client:
        """Opens a new connection to the volume."""
        return Client(self.folder / "nbd.sock", "v", seconds)

    def logs(self) -> str:
        """Returns the tails of the logs of its processes."""
        parts = [path.read_bytes()[-6000:].decode(errors="replace") for path in (self.folder / "lender.log", self._server_log) if path.exists()]
        return "\n".join(f"--- {self.name}\n{part}" for part in parts)


class Machines:
    """All nodes, and pool ``tank`` with volume ``v``."""

    def __init__(
        self,
        program: Path,
        scratch: Path,
        make_disk: Callable[[Path], object] = _sparse_disk,
        volume_bytes: int = VOLUME_BYTES,
        shape: Shape = ONE_MIRROR,
        cables: Cables | None = None,
        block_size: str = "16K",
    ):
        self.folder, self.shape, self.cables = scratch, shape, cables
        self._witness_program = program.with_name("bulkhead-witness")
        if not self._witness_program.exists():
            raise ProofError(f"{self._witness_program} is missing: run `make build` first")
        # No other process on this host uses these addresses.
        self._loopback = f"127.{random.SystemRandom().randrange(130, 250)}.{os.getpid() % 250}"
        self.heads = tuple(
            Head(program, scratch / name, name, number, cables, f"{self._loopback}.{number}")
            for name, number in zip(shape.heads, (number for number in range(1, 9) if not (shape.has_witness and number == WITNESS_NUMBER)))
        )
        self.a, self.b = self.heads[:2]
        for group in shape.groups:
            for disk, name in group.disks.items():
                make_disk(self.head(name).disk(disk))
        self.witness: Child | None = None
        self._configure()
        if shape.has_witness:
            self.start_witness()
        for head in self.heads:
            head.start_lender()
        self.a.command("pool", "create", "tank", "--legs", str(self.a.config))
        if refusal := self.a.serve():
            raise ProofError(f"the new pool is not served: {refusal}")
        self.a.command("volume", "create", "tank/v", "--size", str(volume_bytes), "--block-size", block_size, "--sparse")
        self.a.command("nbd", "export", "tank/v", "--name", "v")

    def head(self, name: str) -> Head:
        """Returns the head of this name."""
        return next(head for head in self.heads if head.name == name)

    def others(self, head: Head) -> list[Head]:
        """Returns all heads except this one."""
        return [other for other in self.heads if other is not head]

    def other(self, head: Head) -> Head:
        """Returns the other one of two heads."""
        return self.others(head)[0]

    def disks_at(self, head: Head) -> list[int]:
        """Returns the pool's disks at this head."""
        return [disk for group in self.shape.groups for disk, name in group.disks.items() if name == head.name]

    @property
    def disks(self) -> set[int]:
        """Returns all disks of the pool."""
        return {disk for group in self.shape.groups for disk in group.disks}

    def memories(self) -> list[Memory | None]:
        """Returns the memory of each member about the pool."""
        own = [head.memory() for head in self.heads]
        return [*own, self.witness_memory()] if self.shape.has_witness else own

    def witness_memory(self) -> Memory | None:
        """Returns the memory of the witness about the pool."""
        return record.read(_memory_file(self.folder / "witness"))

    def forget_witness(self) -> None:
        """Kills the witness, removes its memory of the pool, and starts it again."""
        self.kill_witness()
        _memory_file(self.folder / "witness").unlink()
        self._desk.unlink()
        self.start_witness()
        runtime.wait_until("the witness listens", self._desk.exists, COMMAND_SECONDS)

    def readmit_witness(self) -> None:
        """Readmits the witness, as an administrator does."""
        words: list[str | Path] = [self._witness_program, "readmit", *self._witness_folders, str(POOL_NUMBER), "--forget"]
        process.checked(words, COMMAND_SECONDS)

    @property
    def _desk(self) -> Path:
        return self.folder / "desk"

    @property
    def _witness_folders(self) -> list[str | Path]:
        return ["--folder", self.folder / "witness", "--desk", self._desk]

    @property
    def _witness_address(self) -> str:
        host = self.cables.address(WITNESS_NUMBER, MEMBERS) if self.cables else f"{self._loopback}.{WITNESS_NUMBER}"
        return f"{host}:{MEMBER_PORT}"

    def _configure(self) -> None:
        members, self._heads_of_witness = "", list[str | Path]()
        for head in self.heads:
            one = head.command("leg-server", "fingerprint", "--folder", str(head.folder / "keys")).strip()
            self._heads_of_witness += ["--head", f"{head.number}={one}"]
            members += (
                f'[members.{head.name}]\nnumber = {head.number}\nkind = "head"\nmembers = ["{head.member_address()}"]\n'
                f'lends = ["{head.lender_address()}"]\nfingerprint = "{one}"\n'
            )
        if self.shape.has_witness:
            words: list[str | Path] = [self._witness_program, "identity", *self._witness_folders]
            one = process.checked(words, COMMAND_SECONDS).strip()
            members += (
                f'[members.w]\nnumber = {WITNESS_NUMBER}\nkind = "witness"\nmembers = ["{self._witness_address}"]\n'
                f'fingerprint = "{one}"\n'
            )
        groups = ""
        for group in self.shape.groups:
            legs = ", ".join(
                f'{{ disk = {disk}, head = "{name}", path = "{self.head(name).disk(disk)}" }}' for disk, name in group.disks.items()
            )
            groups += f"[[pools.tank.groups]]\nneeded = {group.needed}\nlegs = [{legs}]\n"
        for head in self.heads:
            keys = head.folder / "keys"
            head.config.write_text(
                f'me = "{head.name}"\ncertificate = "{keys}/cert.pem"\nkey = "{keys}/key.pem"\n{members}'
                f"[pools.tank]\nguid = {POOL_NUMBER}\n{groups}"
            )

    def start_witness(self) -> None:
        """Starts it with its memory."""
        words: list[str | Path] = [self._witness_program, "serve", *self._witness_folders, "--number", str(WITNESS_NUMBER)]
        words += ["--listen", self._witness_address, *self._heads_of_witness]
        if self.cables:
            words = self.cables.there(WITNESS_NUMBER, words)
        self.witness = Child("witness", words, self.folder / "witness.log")

    def kill_witness(self) -> None:
        """Kills the witness (SIGKILL), if it runs."""
        if self.witness:
            self.witness.kill()
        self.witness = None

    def kill_all(self) -> None:
        """Kills all processes."""
        for head in self.heads:
            head.power_off()
        self.kill_witness()
