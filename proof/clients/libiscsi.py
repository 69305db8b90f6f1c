"""The part of libiscsi's C interface that we call, declared for ctypes."""

from __future__ import annotations

import ctypes
import ctypes.util
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint16, c_uint32, c_uint64, c_void_p

from proof.runtime import ProofError

STATUS_GOOD = 0
STATUS_CHECK_CONDITION = 2
STATUS_CANCELLED = 0x0F000000
STATUS_ERROR = 0x0F000001
STATUS_TIMEOUT = 0x0F000002
TRANSPORT_STATUSES = {STATUS_CANCELLED, STATUS_ERROR, STATUS_TIMEOUT}
"""Statuses without a response of the target: the connection was lost during the command."""

NOT_READY = 2
UNIT_ATTENTION = 6
"""Sense keys."""
STATUS_BUSY = 8
STATUS_RESERVATION_CONFLICT = 0x18
STATUS_TASK_SET_FULL = 0x28

TRANSFER_NONE = 0
TRANSFER_READ = 1
TRANSFER_WRITE = 2

SESSION_NORMAL = 2
DIGESTS = {"none": 0, "crc32c": 3}


LIBRARY = ctypes.util.find_library("iscsi")


def _tells_information() -> bool:
    """Whether sense data has a last field, as from libiscsi 1.20 on, which exports no version but introduced this
    function."""
    return LIBRARY is not None and hasattr(ctypes.CDLL(LIBRARY), "iscsi_force_reconnect_sync")


class ScsiSense(ctypes.Structure):
    """Decoded sense data."""

    _fields_ = [
        ("error_type", c_ubyte),
        ("key", c_uint),
        ("ascq", c_int),
        ("flags", c_ubyte),  # one-bit fields share a byte
        ("bit_pointer", c_ubyte),
        ("field_pointer", c_uint16),
        *([("information", c_uint64)] if _tells_information() else []),
    ]


class ScsiData(ctypes.Structure):
    """Data of a response."""

    _fields_ = [("size", c_int), ("data", c_void_p)]


class ScsiTask(ctypes.Structure):
    """The public start of a task; the rest belongs to the library."""

    _fields_ = [
        ("status", c_int),
        ("cdb_size", c_int),
        ("transfer_direction", c_int),
        ("expected_transfer_length", c_int),
        ("cdb", c_ubyte * 16),
        ("residual_status", c_uint),
        ("residual", c_size_t),
        ("sense", ScsiSense),
        ("datain", ScsiData),
    ]


class UnmapRange(ctypes.Structure):
    """One descriptor of UNMAP."""

    _fields_ = [("lba", c_uint64), ("count", c_uint32)]


class IscsiData(ctypes.Structure):
    """Data of a command."""

    _fields_ = [("size", c_size_t), ("data", c_char_p)]


CALLBACK = CFUNCTYPE(None, c_void_p, c_int, c_void_p, c_void_p)
"""(context, status, command data: the task, private data)."""

Task = POINTER(ScsiTask)


def _declarations() -> dict[str, tuple[object, list[object]]]:
    """Name to (result, arguments), as in <iscsi/iscsi.h> and <iscsi/scsi-lowlevel.h>."""
    context, data = c_void_p, c_void_p
    return {
        "iscsi_create_context": (context, [c_char_p]),
        "iscsi_destroy_context": (c_int, [context]),
        "iscsi_set_targetname": (c_int, [context, c_char_p]),
        "iscsi_set_session_type": (c_int, [context, c_int]),
        "iscsi_set_header_digest": (c_int, [context, c_int]),
        "iscsi_set_initiator_username_pwd": (c_int, [context, c_char_p, c_char_p]),
        "iscsi_set_noautoreconnect": (None, [context, c_int]),
        "iscsi_set_timeout": (c_int, [context, c_int]),
        # OUI, qualifier: the initiator's part of the session's identity.
        "iscsi_set_isid_oui": (c_int, [context, c_uint32, c_uint32]),
        "iscsi_full_connect_sync": (c_int, [context, c_char_p, c_int]),
        "iscsi_connect_async": (c_int, [context, c_char_p, CALLBACK, c_void_p]),
        "iscsi_login_async": (c_int, [context, CALLBACK, c_void_p]),
        # data, length
        "iscsi_nop_out_async": (c_int, [context, CALLBACK, data, c_int, c_void_p]),
        "iscsi_connect_sync": (c_int, [context, c_char_p]),
        "iscsi_login_sync": (c_int, [context]),
        "iscsi_logout_sync": (c_int, [context]),
        # CDB's length, CDB, direction, bytes expected.
        "scsi_create_task": (Task, [c_int, c_char_p, c_int, c_int]),
        "iscsi_scsi_command_sync": (Task, [context, c_int, Task, POINTER(IscsiData)]),
        "iscsi_get_error": (c_char_p, [context]),
        "iscsi_get_fd": (c_int, [context]),
        "iscsi_which_events": (c_int, [context]),
        "iscsi_service": (c_int, [context, c_int]),
        "iscsi_readcapacity16_sync": (Task, [context, c_int]),
        "iscsi_readcapacity16_task": (Task, [context, c_int, CALLBACK, c_void_p]),
        # LBA, data, length, block size, WRPROTECT, DPO, FUA, FUA_NV, group.
        "iscsi_write16_task": (
            Task,
            [context, c_int, c_uint64, data, c_uint32, *[c_int] * 6, CALLBACK, c_void_p],
        ),
        # LBA, length, block size, RDPROTECT, DPO, FUA, FUA_NV, group.
        "iscsi_read16_task": (Task, [context, c_int, c_uint64, c_uint32, *[c_int] * 6, CALLBACK, c_void_p]),
        # LBA, data, length, blocks, ANCHOR, UNMAP, WRPROTECT, group.
        "iscsi_writesame16_task": (
            Task,
            [context, c_int, c_uint64, data, c_uint32, c_uint32, *[c_int] * 4, CALLBACK, c_void_p],
        ),
        "iscsi_unmap_task": (Task, [context, c_int, c_int, c_int, POINTER(UnmapRange), c_int, CALLBACK, c_void_p]),
        # LBA, blocks, SYNC_NV, IMMED.
        "iscsi_synchronizecache16_task": (
            Task,
            [context, c_int, c_uint64, c_uint32, c_int, c_int, CALLBACK, c_void_p],
        ),
        "scsi_free_scsi_task": (None, [Task]),
        "scsi_datain_unmarshall": (c_void_p, [Task]),
    }


def load() -> ctypes.CDLL:
    """Loads the library and its declarations."""
    if LIBRARY is None:
        raise ProofError("libiscsi is missing: apt-get install libiscsi7 libiscsi-bin")
    library = ctypes.CDLL(LIBRARY)
    for function, (result, arguments) in _declarations().items():
        declared = getattr(library, function)
        declared.restype = result
        declared.argtypes = arguments
    return library
