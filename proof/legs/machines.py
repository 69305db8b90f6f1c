"""Two heads with a disk each, and a witness, as processes of this machine on loopback addresses of their own."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from proof import process, runtime
from proof.legs.client import Client
from proof.process import Child
from proof.runtime import ProofError

DISK_BYTES = 128 << 20
VOLUME_BYTES = 32 << 20
COMMAND_SECONDS = 120.0
START_SECONDS = 120.0
FENCED = "--previous-owner-is-stopped"


def _sparse_disk(path: Path) -> None:
    with path.open("wb") as disk:
        disk.truncate(DISK_BYTES)


class Head:
    """One head: its folder, its disk and its two processes."""

    def __init__(self, program: Path, folder: Path, name: str, address: str, make_disk: Callable[[Path], object]):
        self.program, self.folder, self.name, self.address = program, folder, name, address
        self.lender: Child | None = None
        self.server: Child | None = None
        self._starts = 0
        folder.mkdir()
        make_disk(folder / "disk")

    @property
    def _env(self) -> dict[str, str]:
        return {
            "BULKHEAD_RUN_DIR": str(self.folder / "run"),
            "BULKHEAD_STATE_DIR": str(self.folder / "state"),
            "BULKHEAD_CLUSTER_KEY": str(self.folder / "authkey"),
        }

    def command(self, *words: str) -> str:
        """A command on this head, which succeeds; what it says."""
        return process.checked([self.program, *words], COMMAND_SECONDS, env=self._env)

    @property
    def config(self) -> Path:
        """Its ``legs.toml``."""
        return self.folder / "legs.toml"

    def start_lender(self) -> None:
        """Its leg-server."""
        words = [self.program, "leg-server", "--config", self.config]
        self.lender = Child(f"leg-server of {self.name}", words, self.folder / "lender.log", self._env)

    def kill_lender(self) -> None:
        """kill -9, if it runs."""
        if self.lender:
            self.lender.kill()
        self.lender = None

    def kill_server(self) -> None:
        """kill -9, if it runs."""
        if self.server:
            self.server.kill()
        self.server = None

    def serve(self, *options: str) -> str | None:
        """Serves the pool; nothing, or what the refusal says."""
        self._starts += 1
        socket = self.folder / "nbd.sock"
        socket.unlink(missing_ok=True)
        log = self.folder / f"server{self._starts}.log"
        words = ["pool-server", "tank", "--no-iscsi", "--nbd", f"unix:{socket}", "--ready-fd", "1", "--legs", str(self.config)]
        server = Child(f"pool server of {self.name}", [self.program, *words, *options], log, self._env)

        def ready() -> bool:
            return b"READY\n" in log.read_bytes()

        runtime.wait_until(f"{server.name} is ready or refuses", lambda: ready() or not server.alive(), START_SECONDS, 0.02)
        if ready():
            self.server = server
            return None
        server.kill()
        return server.log_tail()

    def all_current(self) -> bool:
        """Whether both legs hold everything, by the last record that its server committed."""
        text = (self.folder / f"server{self._starts}.log").read_text(errors="replace")
        records = [line for line in text.splitlines() if "the record of the pool's legs" in line]
        current = records[-1].partition("current=")[2].partition("stale=")[0] if records else ""
        return all(f'"{name}:' in current for name in ("a", "b"))

    def client(self, seconds: float) -> Client:
        """A new connection to the volume."""
        return Client(self.folder / "nbd.sock", "v", seconds)

    def logs(self) -> str:
        """The ends of what its processes said last."""
        newest = self.folder / f"server{self._starts}.log"
        parts = [path.read_bytes()[-6000:].decode(errors="replace") for path in (self.folder / "lender.log", newest) if path.exists()]
        return "\n".join(f"--- {self.name}\n{part}" for part in parts)


class Machines:
    """All of them, and pool ``tank`` with volume ``v``."""

    def __init__(
        self,
        program: Path,
        scratch: Path,
        make_disk: Callable[[Path], object] = _sparse_disk,
        volume_bytes: int = VOLUME_BYTES,
    ):
        self.folder = scratch
        self._witness_program = program.with_name("bulkhead-witness")
        if not self._witness_program.exists():
            raise ProofError(f"{self._witness_program} is not there: run `make build` first")
        # Nobody else on this machine has these addresses.
        network = f"127.{random.SystemRandom().randrange(130, 250)}.{os.getpid() % 250}"
        self.a = Head(program, scratch / "a", "a", f"{network}.1", make_disk)
        self.b = Head(program, scratch / "b", "b", f"{network}.2", make_disk)
        self.heads = (self.a, self.b)
        self._witness_address = f"{network}.3:7071"
        self.witness: Child | None = None
        self._configure()
        self.start_witness()
        for head in self.heads:
            head.start_lender()
        self.a.command("pool", "create", "tank", "--legs", str(self.a.config))
        if refusal := self.a.serve():
            raise ProofError(f"the new pool is not served: {refusal}")
        self.a.command("volume", "create", "tank/v", "--size", str(volume_bytes), "--sparse")
        self.a.command("nbd", "export", "tank/v", "--name", "v")

    def other(self, head: Head) -> Head:
        """The other one."""
        return self.b if head is self.a else self.a

    @property
    def _witness_folders(self) -> list[str | Path]:
        return ["--folder", self.folder / "witness", "--desk", self.folder / "desk"]

    def _configure(self) -> None:
        words: list[str | Path] = [self._witness_program, "identity", *self._witness_folders]
        witness = process.checked(words, COMMAND_SECONDS).strip()
        prints = [head.command("leg-server", "fingerprint", "--folder", str(head.folder / "keys")).strip() for head in self.heads]
        self._heads_of_witness = [word for number, one in enumerate(prints, 1) for word in ("--head", f"{number}={one}")]
        members = ""
        for number, (head, one) in enumerate(zip(self.heads, prints, strict=True), 1):
            members += (
                f'[members.{head.name}]\nnumber = {number}\nkind = "head"\nmembers = ["{head.address}:7071"]\n'
                f'lends = ["{head.address}:7072"]\nfingerprint = "{one}"\n'
            )
        members += f'[members.w]\nnumber = 3\nkind = "witness"\nmembers = ["{self._witness_address}"]\nfingerprint = "{witness}"\n'
        legs = ", ".join(
            f'{{ disk = {disk}, head = "{head.name}", path = "{head.folder}/disk" }}'
            for disk, head in ((11, self.a), (22, self.b))
        )
        for head in self.heads:
            keys = head.folder / "keys"
            head.config.write_text(
                f'me = "{head.name}"\ncertificate = "{keys}/cert.pem"\nkey = "{keys}/key.pem"\n{members}'
                f"[pools.tank]\nguid = 77\n[[pools.tank.groups]]\nneeded = 1\nlegs = [{legs}]\n"
            )

    def start_witness(self) -> None:
        """With what it remembers."""
        words = [self._witness_program, "serve", *self._witness_folders, "--number", "3", "--listen", self._witness_address]
        self.witness = Child("witness", [*words, *self._heads_of_witness], self.folder / "witness.log")

    def kill_witness(self) -> None:
        """kill -9, if it runs."""
        if self.witness:
            self.witness.kill()
        self.witness = None

    def kill_all(self) -> None:
        """The end."""
        for head in self.heads:
            head.kill_server()
            head.kill_lender()
        self.kill_witness()
