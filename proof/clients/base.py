"""The interface of every asynchronous client, so that one event loop can drive a mixture of them."""

from __future__ import annotations

import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proof.runtime import ProofError

Done = Callable[[bool], None]
"""Called once for a request: True when the server acknowledged it."""

ReadDone = Callable[[bytes | None], None]
"""Called once for a read: with the data, or None when it failed."""


@dataclass(frozen=True)
class Refusal:
    """The error of a request."""

    words: str
    status: int
    """The SCSI status, or the errno of NBD."""
    sense_key: int = 0
    ascq: int = 0


class ClientError(ProofError):
    """The server refused, or the connection is lost."""


class Client(ABC):
    """One connection to one volume. Offsets and lengths are bytes, multiples of ``granularity``."""

    name: str
    granularity: int
    size: int
    in_flight: int = 0
    errors: int = 0
    """Requests with an error *reply*; a lost connection does not count."""
    last_error: str = ""
    last_refusal: Refusal | None = None
    """The newest of the refusals that ``errors`` counts."""

    @abstractmethod
    def write(self, offset: int, data: bytearray, forced: bool, done: Done) -> None:
        """Writes; ``forced`` sets FUA."""

    @abstractmethod
    def zero(self, offset: int, length: int, forced: bool, done: Done) -> None:
        """Writes zeroes; the server may free the space."""

    @abstractmethod
    def discard(self, offset: int, length: int, done: Done) -> None:
        """Discards the contents of the range."""

    @abstractmethod
    def flush(self, done: Done) -> None:
        """Flushes all acknowledged writes."""

    @abstractmethod
    def read(self, offset: int, length: int, done: ReadDone) -> None:
        """Reads."""

    @abstractmethod
    def descriptor(self) -> int:
        """The socket, or -1 once the connection is dead."""

    @abstractmethod
    def events(self) -> int:
        """Returns the desired ``select.POLLIN`` and ``select.POLLOUT``."""

    @abstractmethod
    def service(self, events: int) -> None:
        """Lets the library handle the events that ``poll`` reported."""

    def catch_up(self) -> None:
        """Checks for changes without an event, such as a handshake that was over before the first poll."""

    @property
    @abstractmethod
    def dead(self) -> bool:
        """Whether the connection is closed."""

    @abstractmethod
    def close(self) -> None:
        """Drops the connection without a logout, and frees the library's memory."""


def drive(clients: Sequence[Client], seconds: float) -> None:
    """One turn of the event loop: blocks at most ``seconds`` on the sockets of all clients."""
    poller = select.poll()
    owners: dict[int, Client] = {}
    for client in clients:
        client.catch_up()
        descriptor = client.descriptor()
        if descriptor < 0 or client.dead:
            continue
        poller.register(descriptor, client.events())
        owners[descriptor] = client
    if not owners:
        return
    for descriptor, events in poller.poll(max(0, int(seconds * 1000))):
        owners[descriptor].service(events)


def drive_until(clients: Sequence[Client], finished: Callable[[], bool], seconds: float, what: str) -> None:
    """Turns the loop until ``finished()``; raises ``ClientError`` after ``seconds`` or when all are dead."""
    deadline = time.monotonic() + seconds
    while not finished():
        if all(client.dead for client in clients):
            raise ClientError(f"{what}: the connection was lost: {clients[0].last_error}")
        if time.monotonic() > deadline:
            raise ClientError(f"{what}: no reply within {seconds:g} s")
        drive(clients, 0.1)


def read_all(client: Client, offset: int, length: int, seconds: float = 30.0) -> bytes:
    """Reads and blocks until the reply."""
    answers: list[bytes | None] = []
    client.read(offset, length, answers.append)
    drive_until([client], lambda: bool(answers), seconds, f"{client.name}: read {length} bytes at {offset}")
    if answers[0] is None:
        raise ClientError(f"{client.name}: read {length} bytes at {offset} failed: {client.last_error}")
    return answers[0]


def wait_done(client: Client, start: Callable[[Done], None], seconds: float = 30.0) -> None:
    """Starts one request with ``start(done)`` and blocks until its reply."""
    answers: list[bool] = []
    start(answers.append)
    drive_until([client], lambda: bool(answers), seconds, f"{client.name}: request")
    if not answers[0]:
        raise ClientError(f"{client.name}: request failed: {client.last_error}")
