"""Completes each verb with a running server, while stock clients write, read back and check all the time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from proof.clients.steady import WellBehaved
from proof.operations.table import Operation
from proof.operations.world import World
from proof.rounds import Tally
from proof.runtime import ProofError, wait_until
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import POOL

BUSY = VolumeSpec("busy", 16 << 20)
"""The volume of the clients."""

SLOWEST_ANSWER_SECONDS_MAX = 10.0
"""A pause that no initiator treats as an error; each operation stops its own volume at most."""

END_SECONDS = 60.0


@dataclass
class WholeTally(Tally):
    """The counts of a run."""

    asked: int = 0
    answered: int = 0
    """Number of requests of the clients."""
    slowest: tuple[float, str] = (0.0, "")

    def verdict(self) -> str:
        seconds, during = self.slowest
        return (
            f"operations: {self.asked} done during {self.answered} writes and reads of clients, "
            f"the slowest took {seconds:.2f} s ({during}), {len(self.complaints)} wrong"
        )


class WholeProof:
    """Runs every operation of the table, then stops the server."""

    def __init__(self, world: World, operations: Sequence[Operation], say: Callable[[str], None] = print):
        self._world = world
        self._operations = operations
        self._say = say
        self.tally = WholeTally()

    def run(self) -> WholeTally:
        """Runs all of them; continues after a complaint."""
        world = self._world
        world.prepare()
        clients = WellBehaved(world.server.iscsi(BUSY.name), world.server.nbd(BUSY.name))
        try:
            for operation in self._operations:
                with self._beside(clients, operation.name):
                    self._perform(operation)
            self.tally.asked += 1
            with self.tally.complaining("pool export", world.server):
                self._export()
        finally:
            clients.close()
        return self.tally

    @contextlib.contextmanager
    def _beside(self, clients: WellBehaved, name: str) -> Iterator[None]:
        """Runs the operation, and records its effect on clients."""
        tally = self.tally
        tally.asked += 1
        with clients.at_work(), tally.complaining(name, self._world.server):
            yield
        tally.answered += clients.operations
        tally.slowest = max(tally.slowest, (clients.slowest_seconds, name))
        if clients.failure:
            tally.complaints.append(f"{name}: a client: {clients.failure}")
        elif clients.slowest_seconds > SLOWEST_ANSWER_SECONDS_MAX:
            tally.complaints.append(f"{name}: a client waited for {clients.slowest_seconds:.1f} s")

    def _perform(self, operation: Operation) -> None:
        world = self._world
        started = time.monotonic()
        world.do(operation.before)
        if operation.looks:
            if not world.ask(*operation.words).strip():
                raise ProofError("it says nothing")
            world.look(*operation.words)
            return world.do(operation.after)
        stdin = world.stream(operation.stdin) if operation.stdin else None
        stdout = world.stream(operation.stdout) if operation.stdout else None
        world.ask(*world.named(operation.words), stdin=stdin, stdout=stdout)
        world.observe(operation.reads)
        world.do(operation.after)
        self._say(f"{operation.name}: {time.monotonic() - started:.1f} s")

    def _export(self) -> None:
        """The clients are still connected: with its confirmation it requests their logout, closes the pool, and
        stops the server."""
        self._world.ask("pool", "export", POOL, "--in-use")
        (server,) = self._world.server.children
        wait_until("the exit of the server", lambda: not server.alive(), END_SECONDS)
        self.tally.audit(self._world.server)
