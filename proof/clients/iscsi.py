"""An asynchronous iSCSI initiator: libiscsi's own event loop through ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from proof.clients import libiscsi
from proof.clients.base import Client, ClientError, Done, ReadDone, Refusal

LOGIN_SECONDS = 10
OUI = 0x001B32
"""Arbitrary; with the qualifier it identifies a session for reinstatement."""
ATTENTIONS_MAX = 10
"""Unit attentions that may precede the first other response."""
_library: ctypes.CDLL | None = None


def _lib() -> ctypes.CDLL:
    global _library
    if _library is None:
        _library = libiscsi.load()
    return _library


@dataclass(frozen=True)
class IscsiAddress:
    """The address of a logical unit."""

    portal: str
    """host:port"""
    target: str
    lun: int

    @property
    def url(self) -> str:
        """The form of libiscsi's tools and of qemu."""
        return f"iscsi://{self.portal}/{self.target}/{self.lun}"


class IscsiClient(Client):
    """One session with one connection to one logical unit."""

    def __init__(
        self,
        address: IscsiAddress,
        initiator: str,
        digest: str = "none",
        qualifier: int | None = None,
        ready: Done | None = None,
    ):
        """Logs in and blocks until it is done; with ``ready`` only starts to, and calls that with the result.

        Two sessions with the same ``qualifier`` are one to the target: the newer replaces the older.
        """
        self.name = f"iscsi {address.target} lun {address.lun}"
        self._lun = address.lun
        self._lib = _lib()
        self._pending: dict[int, tuple[object, object]] = {}
        self._next_key = 1
        self._dead = False
        self._callback = libiscsi.CALLBACK(self._completed)
        self._plain_callback = libiscsi.CALLBACK(self._told)
        self._context = self._lib.iscsi_create_context(initiator.encode())
        if not self._context:
            raise ClientError("libiscsi: no context")
        self._describe_session(address, digest, qualifier)
        try:
            if ready is None:
                self._log_in(address)
                self._read_capacity()
            else:
                self._start_login(address, ready)
        except ClientError:
            self.close()
            raise

    def _describe_session(self, address: IscsiAddress, digest: str, qualifier: int | None) -> None:
        lib, context = self._lib, self._context
        lib.iscsi_set_targetname(context, address.target.encode())
        lib.iscsi_set_session_type(context, libiscsi.SESSION_NORMAL)
        lib.iscsi_set_header_digest(context, libiscsi.DIGESTS[digest])
        if qualifier is not None:
            lib.iscsi_set_isid_oui(context, OUI, qualifier)
        # A crash must end the session: libiscsi's own reconnect would repeat commands without our knowledge.
        lib.iscsi_set_noautoreconnect(context, 1)

    def _start_login(self, address: IscsiAddress, ready: Done) -> None:
        """Connects, logs in, and reads the size, one step per response."""
        lib, context = self._lib, self._context
        attentions = 0

        def connected(answer: bytes | None) -> None:
            if answer is None or self._dead:
                ready(False)
                return
            key = self._begin(logged_in, None)
            self._sent(key, lib.iscsi_login_async(context, self._plain_callback, key) == 0)

        def logged_in(answer: bytes | None) -> None:
            if answer is None or self._dead:
                ready(False)
            else:
                ask_size()

        def ask_size() -> None:
            key = self._begin(size_known, None)
            self._sent(key, lib.iscsi_readcapacity16_task(context, self._lun, self._callback, key))

        def size_known(answer: bytes | None) -> None:
            nonlocal attentions
            refusal = self.last_refusal
            if answer is None and not self._dead and refusal and refusal.sense_key == libiscsi.UNIT_ATTENTION:
                self.last_refusal = None
                attentions += 1
                if attentions <= ATTENTIONS_MAX:
                    ask_size()
                    return
            if answer:
                self._take_capacity(answer)
            ready(bool(answer))

        key = self._begin(connected, None)
        started = lib.iscsi_connect_async(context, address.portal.encode(), self._plain_callback, key)
        self._sent(key, started == 0)

    def ping(self, done: Done) -> None:
        """Sends a NOP-Out, which the target replies to independently of pending commands."""
        key = self._begin(lambda answer: done(answer is not None), None)
        self._sent(key, self._lib.iscsi_nop_out_async(self._context, self._plain_callback, None, 0, key) == 0)

    def _log_in(self, address: IscsiAddress) -> None:
        lib, context = self._lib, self._context
        lib.iscsi_set_timeout(context, LOGIN_SECONDS)
        if lib.iscsi_full_connect_sync(context, address.portal.encode(), address.lun) != 0:
            raise ClientError(f"{self.name}: login: {self._library_error()}")
        # Our own deadline must detect a stuck server, not a cancelled command.
        lib.iscsi_set_timeout(context, 0)

    def _read_capacity(self) -> None:
        task = self._lib.iscsi_readcapacity16_sync(self._context, self._lun)
        if not task:
            raise ClientError(f"{self.name}: READ CAPACITY(16): {self._library_error()}")
        answer = task.contents
        if answer.status != libiscsi.STATUS_GOOD or answer.datain.size < 12:
            self._lib.scsi_free_scsi_task(task)
            raise ClientError(f"{self.name}: READ CAPACITY(16): status {answer.status}")
        parameter = ctypes.string_at(answer.datain.data, answer.datain.size)
        self._lib.scsi_free_scsi_task(task)
        self._take_capacity(parameter)

    def _take_capacity(self, parameter: bytes) -> None:
        self.granularity = int.from_bytes(parameter[8:12], "big")
        self.size = (int.from_bytes(parameter[:8], "big") + 1) * self.granularity

    def _library_error(self) -> str:
        words: bytes | None = self._lib.iscsi_get_error(self._context)
        return (words or b"").decode(errors="replace").strip()

    def _begin(self, done: object, keep: object) -> int:
        """Stores the callback, and the buffers that C reads until then; returns the key."""
        key = self._next_key
        self._next_key += 1
        self._pending[key] = (done, keep)
        self.in_flight += 1
        return key

    def _sent(self, key: int, task: object) -> None:
        if not task:
            done, _ = self._pending.pop(key)
            self.in_flight -= 1
            self.last_error = self._library_error()
            done(None)  # type: ignore[operator]

    def _completed(self, _context: int, status: int, command_data: int, key: int) -> None:
        done, _ = self._pending.pop(key)
        self.in_flight -= 1
        task = ctypes.cast(command_data, libiscsi.Task) if command_data else None
        data = b""
        if status != libiscsi.STATUS_GOOD:
            data = None  # type: ignore[assignment]
            self._note_error(status, task)
        elif task and task.contents.datain.size:
            data = ctypes.string_at(task.contents.datain.data, task.contents.datain.size)
        if task:
            self._lib.scsi_free_scsi_task(task)
        done(data)  # type: ignore[operator]

    def _told(self, _context: int, status: int, _data: int, key: int) -> None:
        """Called when an action that is no SCSI command is decided: a connection, a login, a NOP-Out."""
        done, _ = self._pending.pop(key)
        self.in_flight -= 1
        if status != libiscsi.STATUS_GOOD:
            self.last_error = self._library_error() or "connection lost"
        done(b"" if status == libiscsi.STATUS_GOOD else None)  # type: ignore[operator]

    def _note_error(self, status: int, task: object) -> None:
        if status in libiscsi.TRANSPORT_STATUSES:
            self.last_error = "connection lost"
            return
        self.errors += 1
        key = ascq = 0
        self.last_error = f"SCSI status {status:#x}"
        if status == libiscsi.STATUS_CHECK_CONDITION and task:
            sense = task.contents.sense  # type: ignore[attr-defined]
            key, ascq = sense.key, sense.ascq
            self.last_error += f", sense key {key:#x} ascq {ascq:#06x}"
        self.last_refusal = Refusal(self.last_error, status, key, ascq)

    def write(self, offset: int, data: bytearray, forced: bool, done: Done) -> None:
        block = self.granularity
        buffer = (ctypes.c_char * len(data)).from_buffer(data)
        key = self._begin(lambda answer: done(answer is not None), buffer)
        task = self._lib.iscsi_write16_task(
            self._context, self._lun, offset // block, buffer, len(data), block,
            0, 0, int(forced), 0, 0, self._callback, key,
        )  # fmt: skip
        self._sent(key, task)

    def zero(self, offset: int, length: int, forced: bool, done: Done) -> None:
        block = self.granularity
        zeroes = bytearray(block)
        buffer = (ctypes.c_char * block).from_buffer(zeroes)

        # WRITE SAME has no FUA: durability requires a flush after it.
        def written(answer: bytes | None) -> None:
            if answer is None or not forced:
                done(answer is not None)
            else:
                self.flush(done)

        key = self._begin(written, buffer)
        task = self._lib.iscsi_writesame16_task(
            self._context, self._lun, offset // block, buffer, block, length // block,
            0, 1, 0, 0, self._callback, key,
        )  # fmt: skip
        self._sent(key, task)

    def discard(self, offset: int, length: int, done: Done) -> None:
        ranges = (libiscsi.UnmapRange * 1)(libiscsi.UnmapRange(offset // self.granularity, length // self.granularity))
        key = self._begin(lambda answer: done(answer is not None), ranges)
        task = self._lib.iscsi_unmap_task(self._context, self._lun, 0, 0, ranges, 1, self._callback, key)
        self._sent(key, task)

    def flush(self, done: Done) -> None:
        key = self._begin(lambda answer: done(answer is not None), None)
        task = self._lib.iscsi_synchronizecache16_task(self._context, self._lun, 0, 0, 0, 0, self._callback, key)
        self._sent(key, task)

    def read(self, offset: int, length: int, done: ReadDone) -> None:
        key = self._begin(done, None)
        task = self._lib.iscsi_read16_task(
            self._context, self._lun, offset // self.granularity, length, self.granularity,
            0, 0, 0, 0, 0, self._callback, key,
        )  # fmt: skip
        self._sent(key, task)

    def descriptor(self) -> int:
        return -1 if self._dead else int(self._lib.iscsi_get_fd(self._context))

    def events(self) -> int:
        return int(self._lib.iscsi_which_events(self._context))

    def service(self, events: int) -> None:
        if self._lib.iscsi_service(self._context, events) < 0 or self._lib.iscsi_get_fd(self._context) < 0:
            self._dead = True
            self.last_error = self.last_error or "connection lost"

    @property
    def dead(self) -> bool:
        return self._dead

    def log_out(self) -> None:
        """Logs out of the session."""
        if not self._dead:
            self._lib.iscsi_logout_sync(self._context)
        self.close()

    def close(self) -> None:
        self._dead = True
        if self._context:
            # Cancels pending requests: each callback runs once, here.
            self._lib.iscsi_destroy_context(self._context)
            self._context = None


__all__ = ["IscsiAddress", "IscsiClient"]
