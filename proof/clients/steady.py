"""Well-behaved clients that run during an attack or a fault."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from proof.clients.base import Client, ClientError, read_all, wait_done
from proof.clients.iscsi import IscsiAddress, IscsiClient
from proof.clients.nbd import NbdAddress, NbdClient
from proof.clients.nfs import Identity, NfsAddress, NfsClient
from proof.pattern import read_back, sectors
from proof.runtime import ProofError

PAUSE_SECONDS = 0.02
OPERATIONS_AT_LEAST = 20
UNIT_ATTENTION = 6
"""The sense key."""
ATTENTIONS_MAX = 4
"""This many changes may be reported one after the other."""
Result = TypeVar("Result")


def _heeding(client: Client, ask: Callable[[], Result]) -> Result:
    """Sends a request; a unit attention about the target's other units is not its result, so the request is sent
    again, as every initiator does."""
    for _ in range(ATTENTIONS_MAX):
        client.last_refusal = None
        try:
            return ask()
        except ClientError:
            if client.last_refusal is None or client.last_refusal.sense_key != UNIT_ATTENTION:
                raise
    return ask()


class WellBehaved:
    """An iSCSI and an NBD client of one volume, and one of a file if there is one. They stay connected, and write,
    read back and check."""

    def __init__(self, iscsi: IscsiAddress, export: NbdAddress, file: NfsAddress | None = None):
        self._clients: list[Client] = [IscsiClient(iscsi, "iqn.2026-01.org.example:well-behaved"), NbdClient(export)]
        if file:
            self._clients.append(NfsClient(file, Identity(b"well-behaved-" + os.urandom(8).hex().encode())))
        self._sequence = 0
        self.operations = 0
        self.slowest_seconds = 0.0
        self.failure: str | None = None

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Runs the clients as long as the block, and a little longer."""
        self.operations, self.slowest_seconds, self.failure = 0, 0.0, None
        done = threading.Event()
        worker = threading.Thread(target=self._work, args=(done,), name="well-behaved", daemon=True)
        worker.start()
        try:
            yield
        finally:
            done.set()
            worker.join()

    def _work(self, done: threading.Event) -> None:
        try:
            while not done.wait(PAUSE_SECONDS) or self.operations < OPERATIONS_AT_LEAST:
                for tag, client in enumerate(self._clients, 1):
                    self._write_and_check(tag, client)
        except ProofError as error:
            self.failure = str(error)

    def _write_and_check(self, tag: int, client: Client) -> None:
        self._sequence += 1
        self.operations += 1
        # Each protocol has its own part of the volume, behind the blocks that attackers address.
        start = 8192 + tag * 64 + self._sequence % 32
        started = time.monotonic()
        written = sectors(tag, self._sequence, start, 16)
        _heeding(client, lambda: wait_done(client, lambda done: client.write(start * 512, written, True, done)))
        data = _heeding(client, lambda: read_all(client, start * 512, 16 * 512))
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
        if read_back(tag, start, data) != [self._sequence] * 16:
            raise ProofError("a read does not return the data that was written before it")

    def close(self) -> None:
        """Drops the connections."""
        for client in self._clients:
            client.close()
