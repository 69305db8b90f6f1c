"""An asynchronous NBD client: libnbd's own state machine, polled by our loop."""

from __future__ import annotations

import errno
import select
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from proof.clients.base import Client, ClientError, Done, ReadDone, Refusal

try:
    import nbd
except ImportError:  # ``require_nbd`` names the package when a command needs it.
    nbd = None  # type: ignore[assignment]

GRANULARITY = 512
MAX_ZERO_BYTES = 1 << 30

_spare: dict[int, list[Memory]] = {}
"""Unused memory, by its length."""


class Memory:
    """Memory of one request, of a fixed length, reused by later ones.

    libnbd's bindings (1.14) retain a reference to each buffer: with a new one for each request a long run fills the
    host's memory.
    """

    def __init__(self, length: int):
        self.bytes = bytearray(length)
        self.buffer = nbd.Buffer.from_buffer(self.bytes)

    @staticmethod
    def take(length: int) -> Memory:
        """Returns unused memory with undefined contents."""
        spare = _spare.get(length)
        return spare.pop() if spare else Memory(length)

    @staticmethod
    def spare_most() -> int:
        """Returns the largest number of unused buffers of one length: the maximum that was in use at a time."""
        return max((len(spare) for spare in _spare.values()), default=0)

    def give_back(self) -> None:
        """Call when libnbd has released it."""
        _spare.setdefault(len(self.bytes), []).append(self)


@dataclass(frozen=True)
class NbdAddress:
    """The address of an export."""

    uri: str

    @staticmethod
    def tcp(port: int, export: str = "") -> NbdAddress:
        """An export behind a loopback port."""
        return NbdAddress(f"nbd://127.0.0.1:{port}/{export}")


class NbdClient(Client):
    """One connection to one export."""

    def __init__(self, address: NbdAddress, ready: Done | None = None):
        """Connects and blocks until it is done; with ``ready`` only starts to, and calls that with the result."""
        self.name = f"nbd {address.uri}"
        self._handle = nbd.NBD()
        self._lost = False
        self._ready = ready
        self._answers: deque[tuple[Callable[[bool], None], int]] = deque()
        self._lent: set[Memory] = set()
        try:
            if ready is None:
                self._handle.connect_uri(address.uri)
                self._learn()
            else:
                self._handle.aio_connect_uri(address.uri)
        except nbd.Error as error:
            raise ClientError(f"{self.name}: connect: {error.string}") from error

    def _learn(self) -> None:
        self.size = int(self._handle.get_size())
        self.granularity = GRANULARITY
        self.can_fua = bool(self._handle.can_fua())
        self.can_zero = bool(self._handle.can_zero())
        self.can_trim = bool(self._handle.can_trim())

    def _submit(self, start: Callable[[Callable[[object], int]], object], finished: Callable[[bool], None]) -> None:
        """Starts one request; ``finished`` is called once, also when it cannot even be queued.

        libnbd holds the handle's lock while it calls back, and ``finished`` may start the next
        request: replies are queued, and delivered when libnbd has returned.
        """

        def completed(error: object) -> int:
            self._answers.append((finished, int(getattr(error, "value", error))))  # type: ignore[arg-type]
            return 1

        self.in_flight += 1
        try:
            start(completed)
        except nbd.Error as error:
            self._answers.append((finished, error.errnum or errno.EIO))
        self._note_death()
        self._tell()

    def _tell(self) -> None:
        while self._answers:
            finished, code = self._answers.popleft()
            self.in_flight -= 1
            if code:
                words = f"errno {code} ({errno.errorcode.get(code, '?')})"
                # A lost connection completes all requests with ENOTCONN; only replies count as errors.
                if not self._lost and code != errno.ENOTCONN:
                    self.errors += 1
                    self.last_refusal = Refusal(words, code)
                self.last_error = words
            finished(not code)

    def _note_death(self) -> None:
        if self._handle is not None and (self._handle.aio_is_dead() or self._handle.aio_is_closed()):
            self._lost = True

    def write(self, offset: int, data: bytearray, forced: bool, done: Done) -> None:
        memory = self._borrow(len(data))
        memory.bytes[:] = data
        flags = nbd.CMD_FLAG_FUA if forced else 0

        def finished(good: bool) -> None:
            self._return(memory)
            done(good)

        self._submit(lambda completed: self._handle.aio_pwrite(memory.buffer, offset, completed, flags), finished)

    def zero(self, offset: int, length: int, forced: bool, done: Done) -> None:
        flags = nbd.CMD_FLAG_FUA if forced else 0
        self._submit(lambda completed: self._handle.aio_zero(length, offset, completed, flags), done)

    def discard(self, offset: int, length: int, done: Done) -> None:
        self._submit(lambda completed: self._handle.aio_trim(length, offset, completed), done)

    def flush(self, done: Done) -> None:
        self._submit(self._handle.aio_flush, done)

    def read(self, offset: int, length: int, done: ReadDone) -> None:
        memory = self._borrow(length)

        def finished(good: bool) -> None:
            data = bytes(memory.bytes) if good else None
            self._return(memory)
            done(data)

        self._submit(lambda completed: self._handle.aio_pread(memory.buffer, offset, completed), finished)

    def _borrow(self, length: int) -> Memory:
        memory = Memory.take(length)
        self._lent.add(memory)
        return memory

    def _return(self, memory: Memory) -> None:
        # Not twice: the close of the connection may have returned it already.
        if memory in self._lent:
            self._lent.remove(memory)
            memory.give_back()

    def descriptor(self) -> int:
        return -1 if self.dead else int(self._handle.aio_get_fd())

    def events(self) -> int:
        direction = int(self._handle.aio_get_direction())
        wanted = select.POLLIN if direction & nbd.AIO_DIRECTION_READ else 0
        return wanted | (select.POLLOUT if direction & nbd.AIO_DIRECTION_WRITE else 0)

    def service(self, events: int) -> None:
        handle = self._handle
        direction = int(handle.aio_get_direction())
        try:
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR) and direction & nbd.AIO_DIRECTION_READ:
                handle.aio_notify_read()
            elif events & (select.POLLOUT | select.POLLHUP | select.POLLERR) and direction & nbd.AIO_DIRECTION_WRITE:
                handle.aio_notify_write()
        except nbd.Error as error:
            self._lost = True
            self.last_error = error.string
        self._note_death()
        self._tell_ready()
        self._tell()

    def catch_up(self) -> None:
        # A server that is close may have sent all its replies before the constructor returned.
        self._note_death()
        self._tell_ready()

    def _tell_ready(self) -> None:
        if self._ready is None or not (self._lost or self._handle.aio_is_ready()):
            return
        ready, self._ready = self._ready, None
        if not self._lost:
            self._learn()
        ready(not self._lost)

    @property
    def dead(self) -> bool:
        return self._lost

    def close(self) -> None:
        self._lost = True
        # The last reference: libnbd closes the socket and completes no more requests.
        self._handle = None
        for memory in tuple(self._lent):
            self._return(memory)
