"""Persistent reservations survive a restart of the server (SPC-4: APTPL), as seen by initiators with names of their
own."""

from __future__ import annotations

import struct
from collections.abc import Callable

from proof.clients.commands import Answer, CommandInitiator
from proof.clients.iscsi import IscsiAddress
from proof.clients.libiscsi import STATUS_RESERVATION_CONFLICT
from proof.runtime import ProofError
from proof.servers.base import Server

REGISTER, RESERVE, RELEASE, CLEAR, PREEMPT = 0, 1, 2, 3, 4
"""Service actions of PERSISTENT RESERVE OUT."""
READ_KEYS, READ_RESERVATION = 0, 1
"""Service actions of PERSISTENT RESERVE IN."""
WRITE_EXCLUSIVE = 1
APTPL = 1
"""Activate persist through power loss: the lowest bit of the parameter list's flags."""
BLOCK = 512
ALLOCATION = 1024
ATTENTIONS_MAX = 8
RESET_CODE = 0x29
"""Additional sense code of every unit attention that reports a restart."""
PREEMPTED = (0x2A03, 0x2A05)
"""RESERVATIONS PREEMPTED, REGISTRATIONS PREEMPTED."""

KEY_A, KEY_B = 0xA11CE, 0xB0B


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise ProofError(words)


class Host:
    """An initiator that reconnects under the same name after each restart."""

    def __init__(self, name: str, qualifier: int, address: IscsiAddress):
        self._identity = (f"iqn.2026-01.org.example:{name}", qualifier)
        self._address = address
        self._session: CommandInitiator | None = None

    def log_in(self) -> None:
        """A new session of the same I_T nexus."""
        self.close()
        self._session = CommandInitiator(self._address, *self._identity)

    def close(self) -> None:
        """Closes the session, if there is one."""
        if self._session:
            self._session.close()
            self._session = None

    def first(self, cdb: bytes, data: bytes = b"", expected: int = 0) -> Answer:
        """Returns the first response, which may be a unit attention."""
        if not self._session:
            raise ProofError("not logged in")
        return self._session.send(cdb, data, expected)

    def ask(self, cdb: bytes, data: bytes = b"", expected: int = 0) -> Answer:
        """Returns the first response after all unit attentions."""
        for _ in range(ATTENTIONS_MAX):
            answer = self.first(cdb, data, expected)
            if not answer.is_attention:
                return answer
        raise ProofError(f"more than {ATTENTIONS_MAX} unit attentions in a row")

    def reserve_out(self, action: int, key: int, service_key: int = 0, flags: int = 0) -> Answer:
        """PERSISTENT RESERVE OUT, of type Write Exclusive where the action has a type."""
        cdb = struct.pack(">BBBxxLx", 0x5F, action, WRITE_EXCLUSIVE if action else 0, 24)
        return self.ask(cdb, struct.pack(">QQ4xB3x", key, service_key, flags))

    def keys(self) -> tuple[int, list[int]]:
        """Returns the generation, and all registered keys."""
        data = self._reserve_in(READ_KEYS)
        generation, count = struct.unpack_from(">LL", data)
        return generation, list(struct.unpack_from(f">{count // 8}Q", data, 8))

    def holder(self) -> tuple[int, int] | None:
        """Returns key and type of the reservation."""
        data = self._reserve_in(READ_RESERVATION)
        if not struct.unpack_from(">L", data, 4)[0]:
            return None
        key, kind = struct.unpack_from(">Q5xB", data, 8)
        return key, kind & 0x0F

    def _reserve_in(self, action: int) -> bytes:
        answer = self.ask(struct.pack(">BB5xHx", 0x5E, action, ALLOCATION), expected=ALLOCATION)
        _expect(answer.good, f"PERSISTENT RESERVE IN, action {action}: {answer}")
        return answer.data

    def write(self) -> Answer:
        """Writes the first block."""
        return self.ask(struct.pack(">BBLxHx", 0x2A, 0, 0, 1), b"\x5a" * BLOCK)

    def read(self) -> Answer:
        """Reads the first block."""
        return self.ask(struct.pack(">BBLxHx", 0x28, 0, 0, 1), expected=BLOCK)


class Reservations:
    """The steps build on each other; each restarts the server in its own way."""

    def __init__(self, server: Server, address: IscsiAddress):
        self._server = server
        self.a = Host("host-a", 1, address)
        self.b = Host("host-b", 2, address)

    def steps(self) -> list[tuple[str, Callable[[], None]]]:
        """Returns names and checks, in the order in which they run."""
        return [
            ("a reservation refuses the writes of other hosts", self.reserve),
            ("it persists over kill -9, and a unit attention reports the restart", self.after_kill),
            ("it does so after a clean stop", self.after_stop),
            ("a registrant that was away can be preempted", self.preempt),
            ("a preempted registration is not restored after kill -9", self.after_preempt),
            ("registrations without APTPL are gone after kill -9", self.volatile),
        ]

    def close(self) -> None:
        """Closes the sessions."""
        self.a.close()
        self.b.close()

    def _restart(self, *, kill: bool) -> None:
        self.close()
        if kill:
            self._server.kill()
        else:
            self._server.stop()
        self._server.start()
        self._server.wait_ready()
        self.a.log_in()
        self.b.log_in()

    def reserve(self) -> None:
        """Two registrants, one holder."""
        self.a.log_in()
        self.b.log_in()
        for host, key in ((self.a, KEY_A), (self.b, KEY_B)):
            answer = host.reserve_out(REGISTER, 0, key, APTPL)
            _expect(answer.good, f"REGISTER: {answer}")
        answer = self.a.reserve_out(RESERVE, KEY_A)
        _expect(answer.good, f"RESERVE: {answer}")
        self._expect_reserved()

    def _expect_reserved(self) -> None:
        generation, keys = self.b.keys()
        _expect(sorted(keys) == [KEY_B, KEY_A], f"keys {keys}, generation {generation}")
        _expect(self.b.holder() == (KEY_A, WRITE_EXCLUSIVE), f"holder {self.b.holder()}")
        refused, done, read = self.b.write(), self.a.write(), self.b.read()
        _expect(refused.status == STATUS_RESERVATION_CONFLICT, f"a write of another host: {refused}")
        _expect(done.good and read.good, f"the holder's write: {done}; a read: {read}")

    def after_kill(self) -> None:
        """The state is unchanged, except for one unit attention for each nexus."""
        self._restart(kill=True)
        for host in (self.a, self.b):
            told = host.first(bytes(6))
            _expect(told.is_attention and told.ascq >> 8 == RESET_CODE, f"the first response is {told}")
        self._expect_reserved()

    def after_stop(self) -> None:
        """The same after SIGTERM."""
        self._restart(kill=False)
        self._expect_reserved()

    def preempt(self) -> None:
        """The second host preempts the first, which receives a unit attention."""
        answer = self.b.reserve_out(PREEMPT, KEY_B, KEY_A)
        _expect(answer.good, f"PREEMPT: {answer}")
        told = self.a.first(bytes(6))
        _expect(told.is_attention and told.ascq in PREEMPTED, f"the response to the preempted host is {told}")
        self._expect_preempted()

    def _expect_preempted(self) -> None:
        _expect(self.a.keys()[1] == [KEY_B], f"keys {self.a.keys()}")
        refused, done = self.a.write(), self.b.write()
        _expect(refused.status == STATUS_RESERVATION_CONFLICT, f"the preempted host's write: {refused}")
        _expect(done.good, f"the new holder's write: {done}")

    def after_preempt(self) -> None:
        """The newest state is the persistent one."""
        self._restart(kill=True)
        self._expect_preempted()

    def volatile(self) -> None:
        """The last registration decides; without APTPL no state persists."""
        answer = self.b.reserve_out(REGISTER, KEY_B, KEY_B)
        _expect(answer.good, f"REGISTER without APTPL: {answer}")
        _expect(self.b.holder() == (KEY_B, WRITE_EXCLUSIVE), f"holder {self.b.holder()}")
        self._restart(kill=True)
        _expect(self.a.keys()[1] == [] and self.a.holder() is None, f"keys {self.a.keys()}, holder {self.a.holder()}")
        _expect(self.a.write().good, "a write to an unreserved unit")
