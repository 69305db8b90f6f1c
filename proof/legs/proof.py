"""Rounds of seeded faults, on an appliance of one shape, while a client writes. The heads that may open the pool
follow from the members' memories."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proof import rounds, runtime
from proof.legs import faults, record
from proof.legs.cables import LENDS, MEMBERS, Cables
from proof.legs.history import BLOCK_BYTES, BLOCKS, History
from proof.legs.machines import FENCED, START_SECONDS, WITNESS_NUMBER, Head, Machines
from proof.legs.record import Record
from proof.legs.writer import Writer
from proof.process import Child
from proof.runtime import ProofError

ANSWER_SECONDS = 30.0
"""Longest pause of a client while enough members respond. The promise is 3 s; a busy host gets more."""

RECOVERY_SECONDS = 90.0
"""Longest time until a pool is served, and until all of its legs are current, when all required processes run."""

GRACE_SECONDS, WAIT_SECONDS = 0.5, 1.5
"""After a cut, pending writes may still be acknowledged for the first time; then none may be for the second."""

BEGINS_ANEW = "this server ends at once, so that the next one begins"
"""Log line of a server that lost the last leg of a group, when its lender responds again."""

REFUSALS = {
    "stale": "acknowledged writes would be lost",
    "too few members": "too few members respond",
    "other head not heard": "may have continued alone",
    "served elsewhere": "serves it: stop its server",
    "not fenced": "nothing proves that head",
    "word does not count": "does not count: ",
    "outbid": "claims the pool at the same time",
    "taken away at its start": "the record of its legs names another owner",
    "changed": "the record changed in the meantime",
}


@dataclass
class Tally(rounds.Tally):
    """The counts of a run."""

    shape: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    opens: int = 0
    longest_seconds: float = 0.0

    def summary(self) -> str:
        """Returns faults by kind, and the reasons of refusals."""
        kinds, refused = (_counts(one) for one in (self.faults, self.refused))
        return f"{self.shape}: {super().summary()}; longest wait for a write {self.longest_seconds:.1f} s; {kinds}; refused: {refused}"

    def verdict(self) -> str:
        """The last line."""
        return verdict([self])


def verdict(tallies: Sequence[Tally]) -> str:
    """Returns the last line for one run or for several."""
    rounds_done, faults_done, acknowledged, opens, refusals, wrong = (
        sum(numbers)
        for numbers in zip(
            *(
                (one.rounds, one.faults.total(), one.acknowledged, one.opens, one.refused.total(), len(one.complaints))
                for one in tallies
            )
        )
    )
    return (
        f"legs: {rounds_done} rounds, {faults_done} faults, {acknowledged} acknowledged writes, {opens} opens, "
        f"{refusals} refusals, {wrong} wrong"
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items())) or "none"


class LegsProof:
    """One run on existing nodes."""

    def __init__(self, machines: Machines, cables: Cables, seed: int, kind: str | None = None):
        self.machines, self.cables, self.seed = machines, cables, seed
        self._kinds = [faults.named(kind)] if kind else faults.of_shape(machines.shape.name)
        self.history = History()
        self.tally = Tally(shape=machines.shape.name)
        self.owner: Head = machines.a
        self._writer: Writer | None = None
        self._may_lose_connection = False
        self._stopped: set[Child] = set()
        self._started_this_round: set[Head] = set()
        self._set_disk_faults([], "")

    def run(self, first: int, count: int) -> Tally:
        """Runs these rounds, until a failure."""
        # With the same options as all later starts.
        self.stop_server()
        self.serve_again()
        for number in range(first, first + count):
            choice = random.Random(f"{self.seed}:{self.tally.shape}:{number}")
            kind = choice.choice(self._kinds)
            try:
                self._begin_round(choice)
                self.tally.faults[kind.name] += 1
                kind.strike(self, choice)
                self._end_round()
            except (ProofError, OSError) as error:
                logs = "\n".join(head.logs() for head in self.machines.heads)
                self.tally.complaints.append(f"{self.tally.shape}, round {number}, {kind.name}: {error}\n{logs}")
            self.tally.rounds += 1
            if not self.tally.good:
                break
        self.tally.acknowledged = self.history.acknowledged
        return self.tally

    def _begin_round(self, choice: random.Random) -> None:
        if _returns(self.owner.committed()):
            # A server returns a leg three times an hour, and a round may need more: an operator restarts it.
            self.stop_server()
            self.serve_again()
            self.await_current()
        self._started_this_round.clear()
        self.write()
        self.let_pass(choice.uniform(0, 0.2))

    def _end_round(self) -> None:
        """Starts all processes until some head serves: with all members running, every refusal must be temporary."""
        self.cables.mend()
        self._set_disk_faults([], "")
        for head in self.machines.heads:
            if not head.lender:
                head.start_lender()
        if self.machines.shape.has_witness and not self.machines.witness:
            self.machines.start_witness()
        if self.owner.server:
            self.owner.server.require_alive()
            self._end_writer()
        else:
            self.serve_again()
        self._check()
        self.await_current()
        self.await_told()

    # Clients.

    def write(self) -> None:
        """Starts a client, which writes until the server exits or the round is over."""
        assert self._writer is None
        owner = self.owner
        self._may_lose_connection = False
        self._writer = Writer(self.history, lambda: owner.client(ANSWER_SECONDS), random.Random(self.history.acknowledged))
        self._writer.must_go_on(ANSWER_SECONDS)

    def writes_go_on(self) -> None:
        """A write that starts now is acknowledged."""
        assert self._writer
        self._writer.must_go_on(ANSWER_SECONDS)

    def writes_go_on_or_server_begins_anew(self) -> None:
        """All lost legs are reachable again. The server exits if a group had no leg left, and its supervisor
        restarts it."""
        assert self._writer and self.owner.server
        server = self.owner.server
        try:
            self._writer.must_go_on(ANSWER_SECONDS)
        except ProofError:
            if BEGINS_ANEW not in server.log_tail():
                raise
            # Its connections are closed before it exits.
            runtime.wait_until(f"{server.name} ends", lambda: not server.alive(), START_SECONDS)
            self._may_lose_connection = True
            self.owner.kill_server()
            self.serve_again()
            self.write()

    def writes_wait(self) -> None:
        """No write is acknowledged for some time."""
        assert self._writer
        self._writer.must_wait(GRACE_SECONDS, WAIT_SECONDS)

    def _end_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer:
            writer.end(ANSWER_SECONDS)
            self.tally.longest_seconds = max(self.tally.longest_seconds, writer.longest_seconds)
            if writer.lost and not self._may_lose_connection:
                raise ProofError(f"the client's connection was lost: {writer.lost}")

    def _check(self) -> None:
        with contextlib.closing(self.owner.client(ANSWER_SECONDS)) as client:
            client.flush()
            wrong = [self.history.judge(block, client.read(block * BLOCK_BYTES, BLOCK_BYTES)) for block in range(BLOCKS)]
        if found := [one for one in wrong if one]:
            raise ProofError("; ".join(found))

    # Servers.

    def _options(self, head: Head, options: Sequence[str]) -> list[str]:
        # Shorter than the defaults, so that more rounds fit into an hour.
        return ["--leg-faults", str(head.folder / "faults"), "--disk-timeout", "2", "--txg-timeout", "1", *options]

    def open(self, head: Head, *options: str) -> bool:
        """Returns whether it serves now. A refusal must have a reason; a server must have all acknowledged writes."""
        self._end_writer()
        deadline = time.monotonic() + RECOVERY_SECONDS
        while True:
            before = record.possible(self.machines.memories())
            refusal = head.serve(*self._options(head, options))
            if refusal is None:
                self._opened(head, before)
                return True
            self._count_refusal(head, refusal)
            if not self._must_open(head, FENCED in options):
                return False
            if time.monotonic() > deadline:
                raise ProofError(f"head {head.name} still refuses without a reason: {refusal}")

    def _opened(self, head: Head, before: list[Record]) -> None:
        self.tally.opens += 1
        self.owner = head
        if others := [other.name for other in self.machines.others(head) if other.server and other.server.alive()]:
            raise ProofError(f"head {head.name} and head {others[0]} serve the pool at the same time")
        names = {disk: f"{one.name}:{one.disk(disk)}" for one in self.machines.heads for disk in self.machines.disks_at(one)}
        first = head.committed()[0]
        if not any(first <= {names[disk] for disk in one.current} for one in before):
            raise ProofError(f"head {head.name} opened {sorted(first)}; none of the newest records permits it: {before}")
        self._check()

    def overtake(self, head: Head) -> None:
        """Pauses the owner while an administrator confirms that it is off. After it resumes, it acknowledges no new
        write, and exits."""
        before, server, writer = self.owner, self.owner.server, self._writer
        assert server and writer
        # Its client is blocked on it during this time.
        self._writer, before.server = None, None
        with self.stopped(server), self.stopped(before.lender):
            is_overtaken = self.open(head, FENCED)
        if not is_overtaken:
            self._writer, before.server = writer, server
            self.writes_go_on()
            return
        runtime.wait_until(f"{server.name} ends", lambda: not server.alive(), RECOVERY_SECONDS)
        # The writes that it still acknowledges were durable before the pause: the history is checked again.
        writer.end(ANSWER_SECONDS)
        self._check()
        self.write()

    def must_refuse(self, head: Head, *options: str) -> None:
        """Requires that it refuses to serve."""
        if self.owner.server is None:
            self._end_writer()
        refusal = head.serve(*self._options(head, options))
        if refusal is None:
            raise ProofError(f"head {head.name} serves the pool; the newest records are {record.possible(self.machines.memories())}")
        self._count_refusal(head, refusal)

    def race(self, heads: Sequence[Head]) -> None:
        """All of them try to serve concurrently: at most one succeeds."""
        self._end_writer()
        before = record.possible(self.machines.memories())
        servers = [(head, head.begin_to_serve(*self._options(head, [FENCED]))) for head in heads]
        refusals = [(head, head.outcome(server)) for head, server in servers]
        for head, refusal in refusals:
            if refusal is not None:
                self._count_refusal(head, refusal)
        for head, refusal in refusals:
            if refusal is None:
                self._opened(head, before)
        if self.owner.server:
            self.write()

    def serve_again(self) -> None:
        """The previous owner serves again."""
        while not self.open(self.owner):
            if not self._must_open(self.owner, False):
                raise ProofError(f"head {self.owner.name} cannot serve again; the newest records are {record.possible(self.machines.memories())}")

    def kill_server(self) -> None:
        """Kills the server alone (SIGKILL)."""
        self._may_lose_connection = True
        self.owner.kill_server()

    def stop_server(self) -> None:
        """Stops the server like an operator does."""
        self._may_lose_connection = True
        server, self.owner.server = self.owner.server, None
        if server and (status := server.stop()):
            raise ProofError(f"the server of {self.owner.name} exited with {status}")
        self._end_writer()

    def _count_refusal(self, head: Head, refusal: str) -> None:
        kinds = [kind for kind, words in REFUSALS.items() if words in refusal]
        if not kinds:
            raise ProofError(f"head {head.name} does not serve, and reports no reason: {refusal}")
        self.tally.refused[kinds[-1]] += 1

    def _must_open(self, head: Head, is_fenced: bool) -> bool:
        """Whether no refusal is justified: enough members respond, and some of their legs is current."""
        machines = self.machines
        memories = machines.memories()
        newest = record.possible(memories)
        voters = {number for number, memory in zip(self.numbers(), memories) if memory and memory.accepted}
        heard = [other for other in machines.heads if other is head or self.cables.hear_each_other(head.number, other.number, [MEMBERS])]
        heard = [other for other in heard if other.lender and other.lender not in self._stopped]
        if head not in heard or head.number not in voters or any(other.server for other in machines.others(head)):
            return False
        lending = [other for other in heard if self.cables.hear_each_other(head.number, other.number, [LENDS])]
        legs = {disk for other in lending for disk in machines.disks_at(other)}
        if not all(record.is_readable(machines.shape.groups, one.current & legs) for one in newest):
            return False
        is_witness_heard = machines.witness is not None and machines.witness not in self._stopped
        is_witness_heard = is_witness_heard and self.cables.hear_each_other(head.number, WITNESS_NUMBER, [MEMBERS])
        voting = voters & {other.number for other in heard}
        is_owner_known = is_fenced or all(one.owner is None or one.owner in voting for one in newest)
        if machines.shape.name == "pair" and len(heard) == 1:
            # The head has received a message of the other one since it started.
            return is_fenced and head not in self._started_this_round
        return is_owner_known and len(voting) + (is_witness_heard and WITNESS_NUMBER in voters) >= 2

    def _all_current(self) -> bool:
        newest = record.possible(self.machines.memories())
        return all(one.current == self.machines.disks for one in newest) and len(newest) == 1

    def await_current(self) -> None:
        """Blocks until all legs are current."""
        runtime.wait_until("all legs are current", self._all_current, RECOVERY_SECONDS, 0.05)

    def await_told(self) -> None:
        """Blocks until every member has a record."""
        runtime.wait_until(
            "every member stores a record",
            lambda: all(memory and memory.accepted for memory in self.machines.memories()),
            RECOVERY_SECONDS,
            0.05,
        )

    # The parts of faults.

    def choose_other(self, choice: random.Random) -> Head:
        """Returns a head that does not serve."""
        return choice.choice(self.machines.others(self.owner))

    def numbers(self) -> list[int]:
        """Returns the numbers of all nodes."""
        own = [head.number for head in self.machines.heads]
        return [*own, WITNESS_NUMBER] if self.machines.shape.has_witness else own

    def let_pass(self, seconds: float) -> None:
        """Delays a fault to a random time."""
        time.sleep(seconds)

    @contextlib.contextmanager
    def stopped(self, child: Child | None) -> Iterator[None]:
        """Pauses a process."""
        if child is None:
            raise ProofError("there is nothing to stop")
        child.signal(signal.SIGSTOP)
        self._stopped.add(child)
        try:
            yield
        finally:
            child.signal(signal.SIGCONT)
            self._stopped.discard(child)

    def power_off(self, head: Head) -> None:
        """Kills all of its processes, without a restart."""
        if head is self.owner:
            self._may_lose_connection = True
        head.power_off()
        self._started_this_round.add(head)

    def restart_witness(self) -> None:
        """Restarts the witness, which loses its power, too."""
        if self.machines.witness:
            self.machines.kill_witness()
            self.machines.start_witness()

    def fall_behind(self, head: Head) -> None:
        """The owner loses its connection to the legs of a head, and proceeds without them."""
        self.cables.cut(self.owner.number, head.number, [LENDS])
        self.writes_go_on()
        self.must_lack(head)

    def must_lack(self, head: Head) -> None:
        """Blocks until a record marks all legs of a head as stale."""
        disks = set(self.machines.disks_at(head))

        def lacks() -> bool:
            newest = record.possible(self.machines.memories())
            return bool(newest) and not any(disks & one.current for one in newest)

        runtime.wait_until(f"a record marks the legs of {head.name} as stale", lacks, ANSWER_SECONDS, 0.02)

    def harm_disk(self, head: Head, choice: random.Random, how: str) -> None:
        """Fails one disk of a head in this way, for all of its users."""
        self._set_disk_faults([choice.choice(self.machines.disks_at(head))], how)

    def _set_disk_faults(self, disks: Sequence[int], how: str) -> None:
        for head in self.machines.heads:
            new = head.folder / "faults.new"
            new.write_text("".join(f"{head.folder}/run/legs/tank/{disk} {how}\n" for disk in disks))
            new.rename(head.folder / "faults")
        # A fault that is lifted now must not come into effect in the next round.
        owner = self.owner
        if server := owner.server:
            runtime.wait_until(
                f"{server.name} reads the faults of its disks",
                lambda: owner.failing_disks() == set(disks) or not server.alive(),
                ANSWER_SECONDS,
                0.01,
            )


def _returns(records: Sequence[set[str]]) -> int:
    """Returns how often the leg with the most returns did return, by the records that one server committed."""
    counts: Counter[str] = Counter()
    for before, after in zip(records, records[1:]):
        counts.update(after - before)
    return max(counts.values(), default=0)
