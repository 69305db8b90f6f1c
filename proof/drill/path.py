"""One way to a volume: connects, notices silence, connects again, for ever.

The time-outs are those of an initiator that is set up for takeovers in a second: a ping after a
short silence, and a lost connection when the ping is not answered. A patient path has none but TCP's,
as most stock clients within a few seconds: the next owner of the address must reset the connection.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Protocol

from proof.clients.base import Client, ClientError, Done
from proof.clients.iscsi import IscsiAddress, IscsiClient
from proof.clients.nbd import NbdAddress, NbdClient
from proof.clients.nfs import Identity, NfsAddress, NfsClient
from proof.drill.events import Events

SILENCE_S = 0.1
"""Without a reply for this time, while some are due, the path is pinged."""

PING_S_MAX = 0.25
"""A ping without a reply for this time means that the path is lost."""

CONNECT_S_MAX = 0.06
"""For the connection alone. The first packet to a dead address is lost, and TCP sends the next after a second."""

LOGIN_S_MAX = 0.4
"""From the start of the connection to the first command. A frozen head still accepts connections, and when it is
powered off no packet reports that they are gone."""

PATIENT_LOGIN_S_MAX = 15.0
"""The bound of a patient client from the start of a connection to the first command: iscsid's default."""

PAUSE_S = 0.02
"""Pause after a failed attempt. A lost connection is reopened at once, as by initiators that need not wait
(DefaultTime2Wait 0)."""

PING_BYTES = 512


class Way(Protocol):
    """How to reach a volume."""

    @property
    def name(self) -> str:
        """The name in reports."""

    def connect(self, ready: Done) -> Client:
        """Starts a connection."""

    def ping(self, client: Client, done: Done) -> None:
        """Checks that the server responds, without a disk access."""


class IscsiWay:
    """A session through one portal. Its number identifies it to the target, so that a new one replaces the old."""

    def __init__(self, address: IscsiAddress, initiator: str, number: int):
        self.name = address.portal
        self._address = address
        self._initiator = initiator
        self._number = number

    def connect(self, ready: Done) -> Client:
        return IscsiClient(self._address, self._initiator, qualifier=self._number, ready=ready)

    def ping(self, client: Client, done: Done) -> None:
        assert isinstance(client, IscsiClient)
        client.ping(done)


class NbdWay:
    """A connection through one address. NBD has no ping: a small read of cached data replaces it."""

    def __init__(self, address: NbdAddress):
        self.name = address.uri
        self._address = address

    def connect(self, ready: Done) -> Client:
        return NbdClient(self._address, ready=ready)

    def ping(self, client: Client, done: Done) -> None:
        client.read(0, PING_BYTES, lambda data: done(data is not None))


class NfsWay:
    """A connection through one address. The connections of all addresses are one client to the server."""

    def __init__(self, address: NfsAddress, identity: Identity):
        self.name = str(address)
        self._address = address
        self._identity = identity

    def connect(self, ready: Done) -> Client:
        return NfsClient(self._address, self._identity, ready=ready)

    def ping(self, client: Client, done: Done) -> None:
        assert isinstance(client, NfsClient)
        client.ping(done)


class Path:
    """Maintains a connection along one way."""

    def __init__(self, way: Way, initiator: str, events: Events, lost: Callable[[Path], None], patient: bool = False):
        self.way = way
        self.client: Client | None = None
        self.is_up = False
        self.connected_once = False
        self.is_broken = False
        """Whether a request was returned without a reply, on a connection that seems to work."""
        self.sent: dict[int, object] = {}
        """The pending requests of the workload on this path, by number."""
        self._initiator = initiator
        self._events = events
        self._tell_lost = lost
        self._patient = patient
        self._since = 0.0
        self._retry_at = 0.0
        self._answered_at = 0.0
        self._pinged_at: float | None = None
        self._complaint = ""

    def turn(self, now: float) -> None:
        """Checks the deadlines."""
        client = self.client
        if client is None:
            if now >= self._retry_at:
                self._connect(now)
        elif client.dead:
            self._drop(now, client.last_error or "connection lost", _is_target_refusing(client))
        elif not self.is_up:
            self._watch_login(client, now)
        elif self.is_broken:
            # Such as after a logout that the target requested: libiscsi sends no more requests then.
            self._drop(now, client.last_error or "the connection accepts no requests")
        else:
            self._watch_answers(client, now)

    def answered(self, now: float) -> None:
        """Called for each message from the other side."""
        self._answered_at = now
        self._pinged_at = None

    def give_up(self) -> None:
        """Closes the connection for good."""
        if self.client is not None:
            self.client.close()
            self.client = None

    def _connect(self, now: float) -> None:
        self._since = now
        attempt: list[Client] = []

        def ready(good: bool) -> None:
            # Of an attempt that was abandoned, or that failed at once: ``turn`` handles it.
            if good and attempt and attempt[0] is self.client:
                self._came_up()

        try:
            attempt.append(self.way.connect(ready))
        except ClientError as error:
            self._complain(str(error))
            self._retry_at = now + PAUSE_S
            return
        self.client = attempt[0]

    def _came_up(self) -> None:
        now = self._events.now()
        self.is_up = self.connected_once = True
        self._complaint = ""
        self.answered(now)
        if self.client is not None:
            # Unit attentions of the login are no reason for later failures.
            self.client.last_error, self.client.last_refusal = "", None
        self._events.tell("path", initiator=self._initiator, path=self.way.name, state="up", started=self._since)

    def _watch_login(self, client: Client, now: float) -> None:
        elapsed = now - self._since
        if elapsed > (PATIENT_LOGIN_S_MAX if self._patient else LOGIN_S_MAX):
            self._drop(now, "no login in time")
        elif not self._patient and elapsed > CONNECT_S_MAX and not _is_connected(client):
            self._drop(now, "no connection in time")
        elif client.last_refusal is not None or (client.last_error and not client.in_flight):
            self._drop(now, client.last_error, _is_target_refusing(client))

    def _watch_answers(self, client: Client, now: float) -> None:
        if self._pinged_at is not None:
            if now - self._pinged_at > PING_S_MAX:
                self._drop(now, "no answer")
        elif not self._patient and self.sent and now - self._answered_at > SILENCE_S:
            self._pinged_at = now

            def pinged(good: bool) -> None:
                if good and client is self.client:
                    self.answered(self._events.now())

            self.way.ping(client, pinged)

    def _drop(self, now: float, why: str, by_target: bool = False) -> None:
        client, was_up = self.client, self.is_up
        self.client, self.is_up, self.is_broken, self._pinged_at = None, False, False, None
        self._retry_at = now if was_up else now + PAUSE_S
        if client is not None:
            if not client.dead:
                _close_at_once(client)
            client.close()
        if was_up:
            self._events.tell("path", initiator=self._initiator, path=self.way.name, state="lost", why=why)
            self._tell_lost(self)
        else:
            self._complain(why, by_target)

    def _complain(self, why: str, by_target: bool = False) -> None:
        """Reports why attempts fail, once for each reason."""
        if why != self._complaint:
            self._complaint = why
            fields = {"initiator": self._initiator, "path": self.way.name, "why": why, "by_target": by_target}
            self._events.tell("path", state="refused", **fields)


def _is_target_refusing(client: Client) -> bool:
    """Whether a target was reached but refuses the login: an administrator's mistake, or exports that are not ready
    yet."""
    return client.last_refusal is not None or "log in" in client.last_error


def _is_connected(client: Client) -> bool:
    """Whether the TCP connection is established."""
    descriptor = client.descriptor()
    if descriptor < 0:
        return False
    with socket.socket(fileno=socket.dup(descriptor)) as other:
        try:
            other.getpeername()
        except OSError:
            return False
    return True


def _close_at_once(client: Client) -> None:
    """Lets the coming close drop unsent data: it must not arrive after its retry."""
    descriptor = client.descriptor()
    if descriptor < 0:
        return
    with socket.socket(fileno=socket.dup(descriptor)) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
