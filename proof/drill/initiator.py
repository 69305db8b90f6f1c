"""An application on a multipath device: it writes and reads numbered blocks without a pause, and sees
no lost path, only time. A request without a reply is sent again; a reply with an error is an error.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from proof import pattern
from proof.clients import libiscsi
from proof.clients.base import Client, ReadDone, Refusal
from proof.drill.events import Events
from proof.drill.path import Path, Way
from proof.ledger import Flush, Kind, Ledger, Operation, Read
from proof.pattern import SECTOR

GAP_S = 0.05
"""A longer time between two replies is reported."""

CHUNK_SECTORS = 512
"""The size of one request of the preparation and of the verification."""

SIZES = (8, 8, 8, 8, 8, 16, 32, 1)
"""Lengths in sectors."""

VIOLATIONS_TOLD_MAX = 20

ALUA_TRANSITION = 0x040A
"""NOT READY, LOGICAL UNIT NOT ACCESSIBLE, ASYMMETRIC ACCESS STATE TRANSITION."""


@dataclass(eq=False)
class Request:
    """One request of the application, sent until it is complete."""

    what: str
    start: int = 0
    count: int = 0
    forced: bool = False
    operation: Operation | None = None
    flush: Flush | None = None
    read: Read | None = None
    server: bytes = b""
    """The verifier of the server that replied: other bytes mean that it restarted."""
    submitted: float = 0.0
    done: Callable[[], None] | None = None


def is_passing(refusal: Refusal) -> bool:
    """Whether initiators retry after such an error, without a report to the application."""
    if refusal.status in (libiscsi.STATUS_BUSY, libiscsi.STATUS_TASK_SET_FULL):
        return True
    attention = refusal.sense_key == libiscsi.UNIT_ATTENTION
    transition = refusal.sense_key == libiscsi.NOT_READY and refusal.ascq == ALUA_TRANSITION
    return refusal.status == libiscsi.STATUS_CHECK_CONDITION and (attention or transition)


@dataclass
class Load:
    """The load of the application."""

    depth: int = 4
    rate: float = 300.0
    """Requests a second, at most: the drills measure pauses, not speed."""
    forced: float = 0.5
    """Share of the writes with FUA."""
    flush: float = 0.05
    read: float = 0.25


@dataclass
class Counts:
    """The counts so far."""

    answers: int = 0
    errors: int = 0
    repeated: int = 0
    violations: list[str] = field(default_factory=list)


class Initiator:
    """One volume, its paths, its ledger."""

    def __init__(
        self, name: str, ways: Sequence[Way], rng: random.Random, load: Load, events: Events, durable_answers: bool, patient: bool = False
    ):
        self.name = name
        self.counts = Counts()
        self.last_answer = events.now()
        self.is_ready = False
        self._events = events
        self._rng = rng
        self._load = load
        self._durable_answers = durable_answers
        self._tag = rng.getrandbits(64)
        self._paths = [Path(way, name, events, self._path_lost, patient) for way in ways]
        self._next_path = 0
        self._queue: deque[Request] = deque()
        self._again: list[Request] = []
        self._in_flight = 0
        self._serial = 0
        self._credit = 0.0
        self._credit_at = events.now()
        self._ledger: Ledger | None = None
        self._ledger_sectors = 0
        self._granularity = 1
        self._chunks_left = 0
        self._is_quiet = True
        """Whether new work is held back: before the preparation is done, and during a verification."""
        self._verifying: Callable[[], None] | None = None

    @property
    def clients(self) -> list[Client]:
        """Returns the clients that the event loop must serve."""
        return [path.client for path in self._paths if path.client is not None]

    def turn(self, now: float) -> None:
        """Checks deadlines, and fills the queue."""
        for path in self._paths:
            path.turn(now)
        if self._ledger is None:
            self._prepare()
        self._earn(now)
        self._queue.extendleft(reversed(self._again))
        self._again.clear()
        while self._in_flight < self._load.depth and (path := self._choose_path()):
            request = self._queue.popleft() if self._queue else self._new_request()
            if request is None:
                break
            self._send(request, path)
        if self._verifying and not (self._in_flight or self._queue or self._again):
            finished, self._verifying = self._verifying, None
            finished()

    def give_up(self) -> None:
        """Closes all connections."""
        for path in self._paths:
            path.give_up()

    def verify(self, finished: Callable[[], None]) -> None:
        """Lets pending requests complete, flushes, reads the touched blocks back, judges them; then resumes."""

        def flushed() -> None:
            assert self._ledger is not None
            chunks = sorted({sector // CHUNK_SECTORS for sector in self._ledger.touched()})
            for chunk in chunks:
                start = chunk * CHUNK_SECTORS
                count = min(CHUNK_SECTORS, self._ledger_sectors - start)
                self._queue.append(Request("verify", start, count))
            self._queue.extend(self._more_to_verify())
            self._verifying = judged

        def judged() -> None:
            assert self._ledger is not None
            self._ledger.forget_flushes()
            self._is_quiet = False
            finished()

        def drained() -> None:
            self._queue.append(Request("flush"))
            self._verifying = flushed

        self._is_quiet = True
        self._verifying = drained

    def report(self) -> dict[str, object]:
        """Returns the result so far."""
        violations = self.counts.violations
        ledger = self._ledger
        return {
            "answers": self.counts.answers,
            "errors": self.counts.errors,
            "repeated": self.counts.repeated,
            "acknowledged": ledger.acknowledged if ledger else 0,
            "durable": ledger.durable if ledger else 0,
            "violations": len(violations),
            "told": violations[:VIOLATIONS_TOLD_MAX],
        }

    def _more_to_verify(self) -> Iterable[Request]:
        """Returns requests in addition to reads of the volume, to judge their replies."""
        return ()

    def _prepare(self) -> None:
        """Zeroes the volume, so that its contents are defined."""
        client = next((path.client for path in self._paths if path.is_up and path.client), None)
        if client is None:
            return
        self._ledger_sectors = client.size // SECTOR
        self._granularity = client.granularity // SECTOR
        self._ledger = Ledger(self.name, self._ledger_sectors, self._durable_answers)
        starts = range(0, self._ledger_sectors, 8 * CHUNK_SECTORS)
        self._chunks_left = len(starts)
        for start in starts:
            count = min(8 * CHUNK_SECTORS, self._ledger_sectors - start)
            self._queue.append(Request("zero", start, count, True, done=self._chunk_zeroed))

    def _chunk_zeroed(self) -> None:
        self._chunks_left -= 1
        if not self._chunks_left:
            self.is_ready = True
            self._is_quiet = False

    def _earn(self, now: float) -> None:
        earned = (now - self._credit_at) * self._load.rate
        self._credit_at = now
        # Requests that could not be sent in a pause are not sent afterwards in a burst.
        self._credit = min(self._credit + earned, self._load.depth)

    def _choose_path(self) -> Path | None:
        """Returns the next connected path, in turn."""
        count = len(self._paths)
        for step in range(count):
            path = self._paths[(self._next_path + step) % count]
            if path.is_up and path.client and not (path.client.dead or path.is_broken):
                self._next_path = (self._next_path + step + 1) % count
                return path
        return None

    def _new_request(self) -> Request | None:
        if self._is_quiet or self._credit < 1 or self._ledger is None:
            return None
        self._credit -= 1
        rng, load = self._rng, self._load
        now = self._events.now()
        choice = rng.random()
        if choice < load.flush:
            return Request("flush", submitted=now)
        count = -(-rng.choice(SIZES) // self._granularity) * self._granularity
        start = rng.randrange(0, self._ledger_sectors - count + 1) // count * count
        if choice < load.flush + load.read:
            return Request("read", start, count, submitted=now)
        operation = self._ledger.issue(Kind.WRITE, start, count)
        return Request("write", start, count, rng.random() < load.forced, operation, submitted=now)

    def _send(self, request: Request, path: Path) -> None:
        client = path.client
        assert client is not None
        # Each attempt has its own number: the reply to an earlier one may arrive late.
        self._serial += 1
        serial = self._serial
        path.sent[serial] = request
        self._in_flight += 1

        def answered(data: bytes | None) -> None:
            if path.sent.pop(serial, None) is not None:
                self._in_flight -= 1
                self._take_answer(request, path, client, data)

        self._begin(request, client, answered)

    def _begin(self, request: Request, client: Client, answered: ReadDone) -> None:
        """Has the client send the request; ``answered`` gets its result, with no bytes unless it is a read."""
        ledger = self._ledger
        assert ledger is not None
        offset, length = request.start * SECTOR, request.count * SECTOR

        def done(good: bool) -> None:
            answered(b"" if good else None)

        if request.what == "write":
            assert request.operation is not None
            data = pattern.sectors(self._tag, request.operation.sequence, request.start, request.count)
            client.write(offset, data, request.forced, done)
        elif request.what == "zero":
            client.zero(offset, length, request.forced, done)
        elif request.what == "flush":
            request.flush = self._flush_issued(client)
            client.flush(done)
        else:
            request.read = ledger.read_issued(request.start)
            client.read(offset, length, answered)

    def _flush_issued(self, client: Client) -> Flush:
        """Returns the writes that the next flush will make durable."""
        assert self._ledger is not None
        return self._ledger.flush_issued()

    def _may_be_lost(self, operation: Operation, read: Request) -> bool:
        """Whether the server that replied to ``read`` may lack an operation that another server acknowledged."""
        return False

    def _was_done_before(self, request: Request, refusal: Refusal) -> bool:
        """Whether a request was refused because an earlier attempt was executed."""
        return False

    def _take_answer(self, request: Request, path: Path, client: Client, data: bytes | None) -> None:
        refusal, client.last_refusal = client.last_refusal, None
        if data is None and refusal is None:
            path.is_broken = path.client is client
            self._repeat(request)
            return
        now = self._events.now()
        path.answered(now)
        if refusal is not None and is_passing(refusal):
            self._repeat(request)
            return
        self._note_answer(request, path, now)
        if refusal is not None and self._was_done_before(request, refusal):
            refusal, data = None, b""
        if refusal is None:
            assert data is not None
            self._judge(request, data)
        else:
            self.counts.errors += 1
            self._events.tell("error", initiator=self.name, path=path.way.name, what=request.what, words=refusal.words)
        if request.done is not None:
            request.done()

    def _note_answer(self, request: Request, path: Path, now: float) -> None:
        self.counts.answers += 1
        if now - self.last_answer > GAP_S:
            self._events.tell("gap", initiator=self.name, path=path.way.name, **{"from": self.last_answer, "to": now})
        self.last_answer = now
        if request.submitted and now - request.submitted > 2 * GAP_S:
            self._events.tell("slow", initiator=self.name, what=request.what, seconds=round(now - request.submitted, 6))

    def _judge(self, request: Request, data: bytes) -> None:
        """Counts a success, and checks the data of a read."""
        ledger = self._ledger
        assert ledger is not None
        if request.operation is not None:
            ledger.answer(request.operation, request.forced)
        elif request.flush is not None:
            ledger.flush_answered(request.flush)
        elif request.read is not None:
            found = pattern.read_back(self._tag, request.start, data)
            if request.what == "verify":
                violations = ledger.judge(request.start, found)
            else:
                violations = ledger.judge_live(request.read, found, lambda operation: self._may_be_lost(operation, request))
            self._complain([str(violation) for violation in violations])

    def _complain(self, violations: list[str]) -> None:
        for words in violations[:VIOLATIONS_TOLD_MAX]:
            self._events.tell("violation", initiator=self.name, words=words)
        self.counts.violations += violations

    def _repeat(self, request: Request) -> None:
        # Not before the next turn: a busy target must not receive retries in a tight loop.
        self.counts.repeated += 1
        self._again.append(request)

    def _path_lost(self, path: Path) -> None:
        """Sends the requests that were pending on this path along another path."""
        waiting = [request for request in path.sent.values() if isinstance(request, Request)]
        path.sent.clear()
        self._in_flight -= len(waiting)
        for request in waiting:
            self._repeat(request)
