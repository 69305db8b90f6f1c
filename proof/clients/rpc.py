"""ONC RPC version 2 over a stream (RFC 5531), as far as the proofs need it: records of one fragment, calls with
AUTH_SYS, and accepted replies."""

from __future__ import annotations

from proof.clients.base import ClientError
from proof.clients.xdr import Reader, opaque, u32

LAST_FRAGMENT = 1 << 31
CALL, RPC_VERSION, AUTH_SYS = 0, 2, 1
REPLY, ACCEPTED = 1, 0


def record(body: bytes) -> bytes:
    """A record in one fragment."""
    return u32(LAST_FRAGMENT | len(body)) + body


def header(transaction: int, program: int, version: int, procedure: int, *, machine: bytes = b"proof", uid: int = 0, gid: int = 0) -> bytes:
    """Returns the header that precedes the arguments of a call."""
    who = u32(0) + opaque(machine) + u32(uid, gid, 0)
    return u32(transaction, CALL, RPC_VERSION, program, version, procedure, AUTH_SYS) + opaque(who) + u32(0, 0)


def skip_accepted(reader: Reader) -> None:
    """Skips the fields between the transaction and the results of a reply; the call must have been executed."""
    if reader.u32() != REPLY or reader.u32() != ACCEPTED:
        raise ClientError("a call was denied")
    reader.u32()
    reader.opaque()
    if accepted := reader.u32():
        raise ClientError(f"a call was not executed: {accepted}")
