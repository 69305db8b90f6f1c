"""Rounds: an operation, a kill in the middle of it, and a check of the state afterwards."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from proof.operations.table import Operation, Rest
from proof.operations.world import Words, World
from proof.process import Child
from proof.rounds import Tally
from proof.runtime import ProofError, wait_until

BY_STEP = 0.5
"""Share of the rounds in which the kill replaces a write, discard or flush of a device."""

STEPS_MAX = 1000
"""Bound of the steps of an operation when every one of them is tried."""

OFFLINE = 0.35
"""Share of the rounds that kill a command which opens the pool itself."""

LONGEST = 1.3
"""Latest kill, as a multiple of an operation's duration; then it is usually done."""

OPENING_STEPS = 60
"""Approximate number of writes and flushes of a device when a pool is imported and exported."""

OPENING_SECONDS = 2.0
"""Time until a command opens the pool of a server that has just died; some commands wait for the next server
instead."""

OFFLINE_SECONDS = 0.8
"""Assumed duration of a command without a server, until one has completed."""

END_SECONDS = 60.0
AUDIT_EVERY = 25
SHOWN_BYTES = 1200


@dataclass
class OperationsTally(Tally):
    """The counts of a run."""

    operations: int = 0
    """Number of operations."""
    done: int = 0
    undone: int = 0
    between: int = 0
    offline: int = 0
    by_step: int = 0
    """Rounds with a kill by step."""
    judged: set[str] = field(default_factory=set)

    def summary(self) -> str:
        return f"{len(self.judged)} of {self.operations} operations, {self.audits} audits, {super().summary()}"

    def verdict(self) -> str:
        return (
            f"operations: {self.rounds} rounds, {self.rounds - self.offline} servers and {self.offline} commands killed, "
            f"{self.by_step} at a step, "
            f"{self.done} done, {self.undone} not done, {self.between} completed, {len(self.complaints)} wrong"
        )


@dataclass
class Reference:
    """The effect of an operation without a kill."""

    before: dict[str, Any]
    after: dict[str, Any]
    seconds: float
    offline_seconds: float = OFFLINE_SECONDS
    steps: int = 0
    offline_steps: int = 0


def _ways(operation: Operation) -> tuple[bool, ...]:
    """Returns the possible kills: of the command, of the server, or both."""
    if operation.on_spare:
        return (True,)
    return (False,) if operation.needs_server else (False, True)


class OperationsProof:
    """Runs the rounds in one world."""

    def __init__(self, world: World, operations: Sequence[Operation], rounds: int, seed: int, say: Callable[[str], None] = print):
        self._world = world
        # A short run leaves out operations that depend on the clock.
        self._operations = [one for one in operations if rounds >= len(operations) or not one.slow]
        self._rounds = rounds
        self._seed = seed
        self._say = say
        self._references: dict[str, Reference] = {}
        self._base: dict[str, Any] = {}
        self.tally = OperationsTally(operations=len(operations))

    def run(self) -> OperationsTally:
        """Runs all rounds; stops at the first complaint."""
        self._world.prepare()
        self._base = self._observe(())
        for number, rng in self.tally.each_round(self._rounds, self._seed):
            operation = self._choose(number)
            with self._numbered(operation, number == self._rounds):
                self._round(operation, rng)
        return self.tally

    def run_every_step(self, stride: int) -> OperationsTally:
        """Kills each operation at its first step, at the next one, and so on, until it completes."""
        self._world.prepare()
        self._base = self._observe(())
        for operation in self._operations:
            if operation.slow:
                continue
            for offline in _ways(operation):
                began = self.tally.rounds
                for step in range(0, STEPS_MAX, stride):
                    killed = self.tally.by_step
                    with self._numbered(operation):
                        self._step_round(operation, step, offline)
                    if not self.tally.good:
                        return self.tally
                    if self.tally.by_step == killed:
                        break
                self._say(f"{operation.name}: {self.tally.rounds - began} kills of the {'command' if offline else 'server'}")
        with self.tally.complaining("the end", self._world.server):
            self._audit()
        return self.tally

    @contextlib.contextmanager
    def _numbered(self, operation: Operation, is_last: bool = False) -> Iterator[None]:
        """Runs one round."""
        number = self.tally.rounds + 1
        with self.tally.complaining(f"round {number}, {operation.name}", self._world.server):
            yield
            if number % AUDIT_EVERY == 0 or is_last:
                self._audit()
        self.tally.rounds = number

    def _step_round(self, operation: Operation, step: int, offline: bool) -> None:
        self._world.do(operation.before)
        reference = self._reference(operation)
        begun = self._trap_command(operation, step) if offline else self._trap_server(operation, step)
        self._finish(operation, reference, begun, offline)

    def _choose(self, number: int) -> Operation:
        """Chooses every operation once, in a seeded order, before one is repeated."""
        turn, place = divmod(number - 1, len(self._operations))
        order = random.Random(f"{self._seed}:order:{turn}").sample(self._operations, len(self._operations))
        return order[place]

    def _observe(self, reads: tuple[str, ...], probe: Words = ()) -> dict[str, Any]:
        return self._world.observe(reads, probe)

    def _reference(self, operation: Operation) -> Reference:
        """Performs the operation once without a kill."""
        if operation.name in self._references:
            return self._references[operation.name]
        before = self._observe(operation.reads, operation.probe)
        self._world.arm()
        started = time.monotonic()
        child = self._begin(operation)
        self._await(child)
        seconds = time.monotonic() - started
        steps = self._world.disarm()
        after = self._observe(operation.reads, operation.probe)
        self._require(child)
        self._take_back(operation)
        # Opening and closing the pool adds steps of its own.
        reference = Reference(before, after, seconds, steps=steps, offline_steps=2 * steps + OPENING_STEPS)
        self._references[operation.name] = reference
        self._world.do(operation.before)
        return reference

    def _begin(self, operation: Operation, env: dict[str, str] | None = None) -> Child:
        world = self._world
        stdin = world.stream(operation.stdin) if operation.stdin else None
        stdout = world.stream(operation.stdout) if operation.stdout else None
        return world.begin(world.named(operation.words), stdin, stdout, env)

    def _await(self, child: Child) -> None:
        wait_until(f"the end of {child.name}", lambda: not child.alive(), END_SECONDS)

    def _require(self, child: Child) -> None:
        if child.stop() != 0:
            raise ProofError(f"{child.name} failed in peace: {child.log_tail()}")

    def _take_back(self, operation: Operation) -> None:
        self._world.do(operation.after)
        self._same(self._base, self._observe(()), f"undoing {operation.name} leaves traces")

    def _round(self, operation: Operation, rng: random.Random) -> None:
        world = self._world
        world.do(operation.before)
        reference = self._reference(operation)
        offline = rng.random() < OFFLINE
        if offline not in _ways(operation):
            offline = not offline
        if rng.random() < BY_STEP and not operation.slow:
            begun = (
                self._trap_command(operation, rng.randint(0, reference.offline_steps))
                if offline
                else self._trap_server(operation, rng.randint(0, reference.steps))
            )
        else:
            begun = self._kill_command(operation, reference, rng) if offline else self._kill_server(operation, reference, rng)
        self._finish(operation, reference, begun, offline)

    def _finish(self, operation: Operation, reference: Reference, begun: Child, offline: bool) -> None:
        self._world.serve()
        self._await(begun)
        said_done = begun.stop() == 0
        self._judge(operation, reference, said_done, offline)
        self._take_back(operation)

    def _trap_server(self, operation: Operation, step: int) -> Child:
        """The server dies instead of a step; at the end of the operation if there are fewer."""
        world = self._world
        world.arm(step)
        server = world.server.children[0]
        child = self._begin(operation)
        wait_until(f"the exit of {child.name} or of the server", lambda: not (child.alive() and server.alive()), END_SECONDS)
        if child.failed():
            # Its connection may be closed shortly before the server is seen to be dead.
            with contextlib.suppress(ProofError):
                wait_until("the exit of the server", lambda: not server.alive(), OPENING_SECONDS)
        self.tally.by_step += not server.alive()
        world.kill()
        world.forget_trap()
        # A step of the pool itself may have come before the command reached the server: then the command opens the
        # pool.
        with contextlib.suppress(ProofError):
            wait_until("it exits or opens the pool", lambda: not child.alive() or world.is_open_in(child), OPENING_SECONDS)
        if world.is_open_in(child):
            self._await(child)
        return child

    def _trap_command(self, operation: Operation, step: int) -> Child:
        """The command, which has opened the pool that a killed server left, dies instead of a step."""
        self._world.kill()
        leg = self._world.spare if operation.on_spare else None
        child = self._begin(operation, self._world.steps.for_command(step, leg))
        self._await(child)
        self.tally.by_step += child.died_of(9)
        self.tally.offline += 1
        return child

    def _kill_server(self, operation: Operation, reference: Reference, rng: random.Random) -> Child:
        """Kills the server while the command is blocked on it. The command exits by itself; some commands retry with
        the next server."""
        child = self._begin(operation)
        time.sleep(rng.uniform(0, reference.seconds * LONGEST))
        self._world.kill()
        return child

    def _kill_command(self, operation: Operation, reference: Reference, rng: random.Random) -> Child:
        """Kills the command itself, which has opened the pool that a killed server left."""
        self._world.kill()
        child = self._begin(operation)
        started = time.monotonic()
        time.sleep(rng.uniform(0, reference.offline_seconds * LONGEST))
        if child.alive():
            # Its exit comes from the kill, so it is no measure of the duration.
            child.signal(9)
            reference.offline_seconds *= 1.1
        else:
            reference.offline_seconds = min(reference.offline_seconds, time.monotonic() - started)
        self._await(child)
        self.tally.offline += 1
        return child

    def _judge(self, operation: Operation, reference: Reference, said_done: bool, offline: bool) -> None:
        how = "a killed command" if offline else "a killed server"
        self.tally.judged.add(operation.name)
        if operation.rest is Rest.AS_BEFORE:
            self._wait_for_base(operation, how)
            self.tally.undone += 1
            self._world.do(operation.before)
            self._complete(operation)
            return
        found = self._observe(operation.reads, operation.probe)
        done, undone = found == reference.after, found == reference.before
        if not (done or undone) and operation.rest is not Rest.COMPLETED:
            raise ProofError(
                f"half done after {how}: from not done {self._difference(reference.before, found)}, "
                f"from done {self._difference(reference.after, found)}"
            )
        if said_done and not done and operation.rest is not Rest.COMPLETED:
            raise ProofError(f"reported as done, but not done after {how}: {self._difference(reference.after, found)}")
        self.tally.done += done
        self.tally.undone += undone and not done
        self.tally.between += not (done or undone)
        if not done:
            self._complete(operation)
            again = self._observe(operation.reads, operation.probe)
            self._same(reference.after, again, "a repetition does not complete it")

    def _wait_for_base(self, operation: Operation, how: str) -> None:
        """After a start, a server repairs the state that the last one left, while it serves clients."""
        deadline = time.monotonic() + END_SECONDS
        found: dict[str, Any] = {}
        while found != self._base and time.monotonic() < deadline:
            # A listed object may be gone when it is read.
            with contextlib.suppress(ProofError):
                found = self._observe(())
        self._same(self._base, found, f"{operation.name} and {how} leave traces")

    def _complete(self, operation: Operation) -> None:
        if operation.again is not None:
            self._world.do((operation.again,))
            return
        child = self._begin(operation)
        self._await(child)
        if child.stop() != 0:
            raise ProofError(f"repeated, it fails: {child.log_tail()}")

    def _same(self, wanted: dict[str, Any], found: dict[str, Any], what: str) -> None:
        if wanted != found:
            raise ProofError(f"{what}: {self._difference(wanted, found)}")

    def _difference(self, wanted: Any, found: Any, place: str = "") -> str:
        """Returns the location of the first difference between two observations."""
        if isinstance(wanted, dict) and isinstance(found, dict):
            parts = [
                self._difference(wanted.get(name), found.get(name), f"{place}.{name}")
                for name in sorted(wanted.keys() | found.keys())
                if wanted.get(name) != found.get(name)
            ]
            return "; ".join(parts)[:SHOWN_BYTES]
        return f"{place} is {json.dumps(found)[:300]}, not {json.dumps(wanted)[:300]}"

    def _audit(self) -> None:
        self.tally.audit(self._world.server)
        self._world.serve()
