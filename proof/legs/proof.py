"""Rounds of faults by a seed. At most one machine is down while clients write; between writes, any may be."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from proof import rounds, runtime
from proof.legs.history import BLOCK_BYTES, BLOCKS, History
from proof.legs.machines import FENCED, Head, Machines
from proof.process import Child
from proof.runtime import ProofError

ANSWER_SECONDS = 30.0
"""Longest time that a client may wait while two of three members answer. The promise is 3 s; a busy machine gets more."""

RECOVERY_SECONDS = 90.0
"""Longest time until a pool is served, and until both of its legs are current, when all members run."""


@dataclass
class Tally(rounds.Tally):
    """What happened."""

    faults: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    refusals: int = 0
    opens: int = 0

    def summary(self) -> str:
        """Faults by kind."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        return f"{super().summary()}; {kinds}"

    def verdict(self) -> str:
        """The last line."""
        return (
            f"legs: {self.rounds} rounds, {self.faults.total()} faults, {self.acknowledged} acknowledged writes, "
            f"{self.opens} opens, {self.refusals} refusals, {len(self.complaints)} wrong"
        )


class LegsProof:
    """One run on machines that exist."""

    def __init__(self, machines: Machines, count: int, seed: int):
        self.machines, self.count, self.seed = machines, count, seed
        self.history = History()
        self.tally = Tally()
        self.owner: Head = machines.a

    def run(self) -> Tally:
        """All rounds, until something is wrong."""
        for number, choice in self.tally.each_round(self.count, self.seed):
            fault = choice.choice(FAULTS)
            name = fault.__name__.strip("_").replace("_", " ")
            try:
                self._write(choice)
                self.tally.faults[name] += 1
                fault(self, choice)
                self._heal()
                self._check()
                runtime.wait_until("both legs are current again", self._all_current, RECOVERY_SECONDS, 0.05)
            except (ProofError, OSError) as error:
                logs = "\n".join(head.logs() for head in self.machines.heads)
                self.tally.complaints.append(f"round {number}, {name}: {error}\n{logs}")
        self.tally.acknowledged = self.history.acknowledged
        return self.tally

    def _all_current(self) -> bool:
        return self.owner.all_current()

    def _write(self, choice: random.Random) -> None:
        client = self.owner.client(ANSWER_SECONDS)
        with contextlib.closing(client):
            for _ in range(choice.randrange(1, 12)):
                block = choice.randrange(BLOCKS)
                sequence, data = self.history.begin(block)
                client.write_durably(block * BLOCK_BYTES, data)
                self.history.acknowledge(block, sequence)

    def _check(self) -> None:
        client = self.owner.client(ANSWER_SECONDS)
        with contextlib.closing(client):
            client.flush()
            wrong = [self.history.judge(block, client.read(block * BLOCK_BYTES, BLOCK_BYTES)) for block in range(BLOCKS)]
        if found := [one for one in wrong if one]:
            raise ProofError("; ".join(found))

    def _open(self, head: Head, *options: str) -> bool:
        """Whether it is served; then all that was acknowledged is there."""
        refusal = head.serve(*options)
        if refusal is not None:
            self.tally.refusals += 1
            return False
        self.tally.opens += 1
        self.owner = head
        self._check()
        return True

    def _heal(self) -> None:
        """Everything runs, and some head serves: with all members there, no refusal is right for long."""
        for head in self.machines.heads:
            if not head.lender:
                head.start_lender()
        if not self.machines.witness:
            self.machines.start_witness()
        if self.owner.server:
            self.owner.server.require_alive()
            return
        deadline = time.monotonic() + RECOVERY_SECONDS
        while not self._open(self.owner):
            if time.monotonic() > deadline:
                raise ProofError(f"head {self.owner.name} refuses while all members run")

    @contextlib.contextmanager
    def _frozen(self, child: Child | None) -> Iterator[None]:
        if child is None:
            raise ProofError("there is nothing to freeze")
        child.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            child.signal(signal.SIGCONT)

    def _power_off(self, head: Head) -> None:
        head.kill_server()
        head.kill_lender()

    def _lender_killed(self, choice: random.Random) -> None:
        self.machines.other(self.owner).kill_lender()
        self._write(choice)

    def _own_lender_killed(self, choice: random.Random) -> None:
        self.owner.kill_lender()
        self._write(choice)

    def _lender_frozen(self, choice: random.Random) -> None:
        with self._frozen(self.machines.other(self.owner).lender):
            self._write(choice)

    def _witness_killed(self, choice: random.Random) -> None:
        self.machines.kill_witness()
        self._write(choice)

    def _witness_frozen(self, choice: random.Random) -> None:
        with self._frozen(self.machines.witness):
            self._write(choice)

    def _server_killed(self, _choice: random.Random) -> None:
        self.owner.kill_server()
        self._heal()

    def _server_frozen(self, choice: random.Random) -> None:
        with self._frozen(self.owner.server):
            # Only its own client notices: the other head has no word that this one is stopped.
            self._must_refuse(self.machines.other(self.owner))
        self._write(choice)

    def _second_owner(self, choice: random.Random) -> None:
        self._must_refuse(self.machines.other(self.owner))
        self._must_refuse(self.machines.other(self.owner), FENCED)
        self._write(choice)

    def _must_refuse(self, head: Head, *options: str) -> None:
        if head.serve(*options) is None:
            raise ProofError(f"head {head.name} serves the pool, and head {self.owner.name} does, too")
        self.tally.refusals += 1

    def _head_lost(self, choice: random.Random) -> None:
        lost, other = self.owner, self.machines.other(self.owner)
        self._power_off(lost)
        # Its leg may be one that still gets what it missed: then it refuses, and the lost one comes back.
        if self._open(other, FENCED):
            self._write(choice)

    def _moved(self, choice: random.Random) -> None:
        other = self.machines.other(self.owner)
        server, self.owner.server = self.owner.server, None
        if server and (status := server.stop()):
            raise ProofError(f"the server of {self.owner.name} ended with {status}")
        if self._open(other):
            self._write(choice)

    def _both_lost_after_a_leg(self, choice: random.Random) -> None:
        """A leg falls behind, all lose power, and the head with it comes back first, with the witness or without."""
        owner, other = self.owner, self.machines.other(self.owner)
        other.kill_lender()
        self._write(choice)
        self._power_off(owner)
        if choice.random() < 0.5:
            self.machines.kill_witness()
        other.start_lender()
        self._must_refuse_stale(other)

    def _must_refuse_stale(self, head: Head) -> None:
        if self._open(head, FENCED):
            raise ProofError(f"head {head.name} alone opens the pool with a stale leg")

    def _all_lost(self, choice: random.Random) -> None:
        for head in self.machines.heads:
            self._power_off(head)
        self.machines.kill_witness()
        self.machines.start_witness()
        first = choice.choice(self.machines.heads)
        first.start_lender()
        if self._open(first, FENCED):
            self._write(choice)


FAULTS = (
    LegsProof._lender_killed,
    LegsProof._own_lender_killed,
    LegsProof._lender_frozen,
    LegsProof._witness_killed,
    LegsProof._witness_frozen,
    LegsProof._server_killed,
    LegsProof._server_frozen,
    LegsProof._second_owner,
    LegsProof._head_lost,
    LegsProof._moved,
    LegsProof._both_lost_after_a_leg,
    LegsProof._all_lost,
)
