"""An application on files: one file is used as a volume and stays locked, while names of a directory change.

A second client of the same host tries to lock the file, and must not get the lock.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from proof.clients.base import Client, Done, ReadDone, Refusal
from proof.clients.nfs import DELAY, DENIED, EXIST, GRACE, NOENT, OK, FilePath, Identity, NfsAddress, NfsClient
from proof.drill.events import Events
from proof.drill.initiator import Initiator, Load, Request
from proof.drill.names import Change, Names
from proof.drill.path import NfsWay, Path, Way
from proof.ledger import Flush, Operation

LOCKED = (0, 4096)
"""The locked range of the file."""

RIVAL_S = 0.2
"""Pause between two attempts of the second client."""

NAMES_SHARE = 0.15
"""Share of the requests that change names."""

DIRECTORY = b"names"


@dataclass(eq=False)
class NameRequest(Request):
    """A change of a name."""

    change: Change = field(default_factory=lambda: Change(0, None, None))


class Quiet(Events):
    """Discards events: a client that tries to get a lock does no work that another process depends on."""

    def tell(self, event: str, **fields: object) -> None:
        pass


class Rival:
    """The second client."""

    def __init__(self, addresses: Sequence[NfsAddress], events: Events, patient: bool):
        self.denied = 0
        self.complaints: list[str] = []
        identity = Identity(b"drill-rival")
        ways = [NfsWay(address, identity) for address in addresses]
        self._paths = [Path(way, "rival", Quiet(), lambda _: None, patient) for way in ways]
        self._events = events
        self._asked: Client | None = None
        self._due = 0.0

    @property
    def clients(self) -> list[Client]:
        """Returns the clients that the event loop must serve."""
        return [path.client for path in self._paths if path.client is not None]

    def turn(self, now: float) -> None:
        """Maintains its connections, and tries to get the lock."""
        for path in self._paths:
            path.turn(now)
        if self._asked is not None and self._asked.dead:
            self._asked = None
        usable = [path for path in self._paths if path.is_up and path.client and not path.client.dead]
        if self._asked is None and now >= self._due and usable and not self.complaints:
            self._try(usable[0], now)

    def _try(self, path: Path, now: float) -> None:
        client = path.client
        assert isinstance(client, NfsClient)
        self._asked, self._due = client, now + RIVAL_S
        path.sent[0] = self

        def answered(status: int) -> None:
            path.sent.clear()
            path.answered(self._events.now())
            self._asked = None
            if status == DENIED:
                self.denied += 1
            elif status == OK:
                self.complaints.append("lost: another client got the lock that is held")
            elif status not in (DELAY, GRACE):
                # The server has no state of this client, for example because it is another server.
                client.close()

        client.try_lock(LOCKED, answered)

    def give_up(self) -> None:
        """Closes its connections."""
        for path in self._paths:
            path.give_up()


class FileInitiator(Initiator):
    """One file, one directory, their paths and ledgers."""

    def __init__(self, name: str, addresses: Sequence[NfsAddress], rng: random.Random, load: Load, events: Events, patient: bool = False):
        path = addresses[0].path
        self._identity = Identity(b"drill", locks={path: LOCKED})
        ways: list[Way] = [NfsWay(address, self._identity) for address in addresses]
        super().__init__(name, ways, rng, load, events, durable_answers=False, patient=patient)
        self._rival = Rival(addresses, events, patient)
        self._directory: FilePath = (*path[:-1], DIRECTORY)
        self._names = Names(random.Random(rng.random()))
        self._verifiers: dict[Operation, bytes] = {}
        """Operations that are not durable, with the verifier of their reply."""
        self._denied_before = 0
        self._finished: Callable[[], None] | None = None
        """Called at the end of a verification."""

    @property
    def clients(self) -> list[Client]:
        return super().clients + self._rival.clients

    def turn(self, now: float) -> None:
        super().turn(now)
        if self.is_ready:
            # The lock is held from here on.
            self._rival.turn(now)
        found = self._identity.lost + self._rival.complaints
        if found:
            self._identity.lost.clear()
            self._complain([words for words in found if words not in self.counts.violations])
        if self._finished and (self._rival.denied > self._denied_before or self._rival.complaints):
            finished, self._finished = self._finished, None
            finished()

    def give_up(self) -> None:
        super().give_up()
        self._rival.give_up()

    def report(self) -> dict[str, object]:
        report = super().report()
        names = self._names.acknowledged
        return {**report, "acknowledged": int(str(report["acknowledged"])) + names, "names": names, "denied": self._rival.denied}

    def verify(self, finished: Callable[[], None]) -> None:
        self._denied_before = self._rival.denied

        def judged() -> None:
            self._verifiers.clear()
            # Not before the other client has received a refusal of the lock.
            self._finished = finished

        super().verify(judged)

    def _prepare(self) -> None:
        super()._prepare()
        if self._ledger is not None:
            self._queue.appendleft(Request("directory"))

    def _new_request(self) -> Request | None:
        if self._is_quiet or self._credit < 1 or self._rng.random() >= NAMES_SHARE:
            return super()._new_request()
        change = self._names.next()
        if change is None:
            return super()._new_request()
        self._credit -= 1
        request = NameRequest("name", submitted=self._events.now(), change=change)
        request.done = lambda: self._names.ended(change)
        return request

    def _more_to_verify(self) -> Iterable[Request]:
        return [Request("names")]

    def _begin(self, request: Request, client: Client, answered: ReadDone) -> None:
        assert isinstance(client, NfsClient)
        request.server = client.verifier

        def done(good: bool) -> None:
            answered(b"" if good else None)

        if isinstance(request, NameRequest):
            request.change.sendings += 1
            self._begin_change(request.change, client, done)
        elif request.what == "directory":
            client.make_directory(self._directory, done)
        elif request.what == "names":
            client.list(self._directory, lambda names: answered(None if names is None else b"/".join(names)))
        else:
            super()._begin(request, client, lambda data: self._take_verifier(request, client, data, answered))

    def _take_verifier(self, request: Request, client: NfsClient, data: bytes | None, answered: ReadDone) -> None:
        if request.operation is not None and not request.forced and data is not None:
            self._verifiers[request.operation] = client.verifier
        answered(data)

    def _may_be_lost(self, operation: Operation, read: Request) -> bool:
        # Clients cache uncommitted data, and read it there: they read nothing from the server that may be lost.
        return not operation.durable and self._verifiers.get(operation) != read.server

    def _judge(self, request: Request, data: bytes) -> None:
        if isinstance(request, NameRequest):
            self._names.answered(request.change)
        elif request.what == "names":
            self._complain(self._names.judge({name for name in data.split(b"/") if name}))
        else:
            super()._judge(request, data)

    def _begin_change(self, change: Change, client: NfsClient, done: Done) -> None:
        if change.old is None:
            assert change.new is not None
            client.make_file((*self._directory, change.new), done)
        elif change.new is None:
            client.remove(self._directory, change.old, done)
        else:
            client.rename(self._directory, change.old, change.new, done)

    def _was_done_before(self, request: Request, refusal: Refusal) -> bool:
        if request.what == "directory":
            return refusal.status == EXIST
        if not isinstance(request, NameRequest) or request.change.sendings < 2:
            return False
        request.change.was_refused = refusal.status == (EXIST if request.change.old is None else NOENT)
        return request.change.was_refused

    def _flush_issued(self, client: Client) -> Flush:
        flush = super()._flush_issued(client)
        assert isinstance(client, NfsClient)
        # A server that restarted since has lost uncommitted data: its commit must not count for that data.
        flush.covered = [operation for operation in flush.covered if self._verifiers.get(operation) == client.verifier]
        return flush
