"""An initiator that sends one command at a time and returns every response, unit attentions too."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from proof.clients import libiscsi
from proof.clients.base import ClientError
from proof.clients.iscsi import OUI, IscsiAddress

ANSWER_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    """The response to a command."""

    status: int
    data: bytes = b""
    sense_key: int = 0
    ascq: int = 0
    """Additional sense code and its qualifier, in one number."""

    @property
    def good(self) -> bool:
        """Whether the command succeeded."""
        return self.status == libiscsi.STATUS_GOOD

    @property
    def is_attention(self) -> bool:
        """Whether the target did not process the command, because it reports a unit attention first."""
        return self.status == libiscsi.STATUS_CHECK_CONDITION and self.sense_key == libiscsi.UNIT_ATTENTION


class CommandInitiator:
    """One session; ``initiator`` and ``qualifier`` are its identity, which a new login repeats."""

    def __init__(self, address: IscsiAddress, initiator: str, qualifier: int):
        self._lib = libiscsi.load()
        self._lun = address.lun
        self._context = self._lib.iscsi_create_context(initiator.encode())
        if not self._context:
            raise ClientError("libiscsi: no context")
        lib, context = self._lib, self._context
        lib.iscsi_set_targetname(context, address.target.encode())
        lib.iscsi_set_session_type(context, libiscsi.SESSION_NORMAL)
        lib.iscsi_set_isid_oui(context, OUI, qualifier)
        lib.iscsi_set_noautoreconnect(context, 1)
        lib.iscsi_set_timeout(context, ANSWER_SECONDS)
        # Not iscsi_full_connect, which discards the unit attentions.
        if lib.iscsi_connect_sync(context, address.portal.encode()) or lib.iscsi_login_sync(context):
            words = self._words()
            self.close()
            raise ClientError(f"{initiator}: login: {words}")

    def _words(self) -> str:
        words: bytes | None = self._lib.iscsi_get_error(self._context)
        return (words or b"").decode(errors="replace").strip()

    def send(self, cdb: bytes, data: bytes = b"", expected: int = 0) -> Answer:
        """Sends a command with ``data`` out, or with at most ``expected`` bytes in."""
        direction = libiscsi.TRANSFER_WRITE if data else libiscsi.TRANSFER_READ if expected else libiscsi.TRANSFER_NONE
        task = self._lib.scsi_create_task(len(cdb), cdb, direction, len(data) or expected)
        out = libiscsi.IscsiData(len(data), data)
        done = self._lib.iscsi_scsi_command_sync(self._context, self._lun, task, ctypes.byref(out) if data else None)
        if not done:
            raise ClientError(f"command {cdb[0]:#x}: {self._words()}")
        found, sense = done.contents, done.contents.sense
        if found.status in libiscsi.TRANSPORT_STATUSES:
            raise ClientError(f"command {cdb[0]:#x}: the connection was lost")
        came = ctypes.string_at(found.datain.data, found.datain.size) if found.datain.size else b""
        told = (sense.key, sense.ascq) if found.status == libiscsi.STATUS_CHECK_CONDITION else (0, 0)
        answer = Answer(found.status, came, *told)
        self._lib.scsi_free_scsi_task(done)
        return answer

    def close(self) -> None:
        """Drops the connection without a logout."""
        if self._context:
            self._lib.iscsi_destroy_context(self._context)
            self._context = None
