"""One of the initiators: increments counters by COMPARE AND WRITE in blocks that all of them share, and copies by
EXTENDED COPY."""

from __future__ import annotations

import random
import struct
import threading

from proof.clients.base import ClientError
from proof.clients.commands import Answer, CommandInitiator
from proof.clients.iscsi import IscsiAddress
from proof.runtime import ProofError

BLOCK = 512
WORKERS_MAX = 16
COUNTERS = 4
"""Number of counter blocks, from LBA 0."""

REGION = 4096
"""First LBA of the first worker's own region."""

REGION_BLOCKS = 4096
COPY_BLOCKS = 256
ATTENTIONS_MAX = 10
MISCOMPARE = 0x0E
"""Sense key."""

LAYOUT = f">Q{WORKERS_MAX}Q"
"""A counter: the sum, and the share of each worker."""

FUA = 0x08
"""Bit of the second byte of a CDB: the write is on stable storage before its response."""


def read_16(lba: int, blocks: int) -> bytes:
    """READ(16)."""
    return struct.pack(">BBQLBB", 0x88, 0, lba, blocks, 0, 0)


def write_16(lba: int, blocks: int) -> bytes:
    """WRITE(16)."""
    return struct.pack(">BBQLBB", 0x8A, 0, lba, blocks, 0, 0)


def compare_and_write(lba: int) -> bytes:
    """COMPARE AND WRITE of a block (SBC-4, 5.3), with FUA."""
    return struct.pack(">BBQ3xBBB", 0x89, FUA, lba, 1, 0, 0)


def unmap_parameters(lba: int, blocks: int) -> bytes:
    """One descriptor of UNMAP."""
    return struct.pack(">HH4xQL4x", 22, 16, lba, blocks)


def copy_parameters(designator: bytes, source: int, destination: int, blocks: int) -> bytes:
    """EXTENDED COPY (LID1) of blocks within a unit: one descriptor of the unit, one segment (SPC-4, 6.4)."""
    head = struct.pack(">BB", 0xE4, 0) + struct.pack(">H", 0)
    unit = head + designator.ljust(24, b"\0") + struct.pack(">B", 0) + BLOCK.to_bytes(3, "big")
    segment = struct.pack(">BBHHHxxHQQ", 0x02, 0, 0x18, 0, 0, blocks, source, destination)
    header = struct.pack(">BBH4xLL", 0, 0, len(unit), len(segment), 0)
    return header + unit + segment


def counts(block: bytes) -> tuple[int, list[int]]:
    """Returns the sum, and the share of each worker."""
    total, *each = struct.unpack_from(LAYOUT, block)
    return total, each


class Worker(threading.Thread):
    """Counts and copies until it is stopped, or until the connection is lost."""

    def __init__(self, number: int, address: IscsiAddress, seed: str):
        super().__init__(name=f"worker-{number}", daemon=True)
        self.number = number
        self._random = random.Random(f"{seed}:{number}")
        self._session = CommandInitiator(address, f"iqn.2026-01.org.example:worker-{number}", number + 1)
        self._ended = threading.Event()
        self._designator = self._find_designator()
        self.acknowledged = [0] * COUNTERS
        """Acknowledged increments."""
        self.unsure: int | None = None
        """The counter with an unacknowledged increment."""
        self.miscompares = 0
        self.copies = 0
        self.failure: str | None = None

    def stop(self) -> None:
        """Stops after the pending command."""
        self._ended.set()

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                self._count(self._random.randrange(COUNTERS))
                if self._random.random() < 0.1:
                    self._copy()
        except ClientError:
            # The server was killed; the caller that joins this thread checks that.
            pass
        except ProofError as error:
            self.failure = f"{self.name}: {error}"
        finally:
            self._session.close()

    def _ask(self, cdb: bytes, data: bytes = b"", expected: int = 0) -> Answer:
        for _ in range(ATTENTIONS_MAX):
            answer = self._session.send(cdb, data, expected)
            if not answer.is_attention:
                return answer
        raise ProofError("too many unit attentions")

    def _require(self, cdb: bytes, data: bytes = b"", expected: int = 0) -> bytes:
        answer = self._ask(cdb, data, expected)
        if not answer.good:
            raise ProofError(f"command {cdb[0]:#x}: {answer}")
        return answer.data

    def _find_designator(self) -> bytes:
        """Returns the NAA designator of the unit, as in EXTENDED COPY (VPD page 83h)."""
        page = self._require(struct.pack(">BBBHB", 0x12, 1, 0x83, 1024, 0), expected=1024)
        at, end = 4, 4 + int.from_bytes(page[2:4], "big")
        while at + 4 <= end:
            length = page[at + 3]
            if page[at + 1] & 0x3F == 3:
                return page[at : at + 4 + length]
            at += 4 + length
        raise ProofError("the unit has no NAA designator")

    def _count(self, counter: int) -> None:
        """Adds one increment, and retries while other workers are faster."""
        while not self._ended.is_set():
            old = self._require(read_16(counter, 1), expected=BLOCK)
            total, each = counts(old)
            if total != sum(each):
                raise ProofError(f"counter {counter} is torn: {total} is not the sum of {each}")
            each[self.number] += 1
            new = struct.pack(LAYOUT, total + 1, *each).ljust(BLOCK, b"\0")
            self.unsure = counter
            answer = self._ask(compare_and_write(counter), old + new)
            self.unsure = None
            if answer.good:
                self.acknowledged[counter] += 1
                return
            if answer.sense_key != MISCOMPARE:
                raise ProofError(f"COMPARE AND WRITE: {answer}")
            self.miscompares += 1

    def _copy(self) -> None:
        """Writes a part of its own region, copies it with EXTENDED COPY, and reads the copy while other workers do
        the same."""
        begin = REGION + self.number * REGION_BLOCKS
        source = begin + self._random.randrange(REGION_BLOCKS // 2 - COPY_BLOCKS)
        destination = begin + REGION_BLOCKS // 2 + self._random.randrange(REGION_BLOCKS // 2 - COPY_BLOCKS)
        data = self._random.randbytes(COPY_BLOCKS * BLOCK)
        self._require(write_16(source, COPY_BLOCKS), data)
        parameters = copy_parameters(self._designator, source, destination, COPY_BLOCKS)
        self._require(struct.pack(">BB8xLBB", 0x83, 0, len(parameters), 0, 0), parameters)
        if self._require(read_16(destination, COPY_BLOCKS), expected=len(data)) != data:
            raise ProofError("a copy differs from its source")
        self.copies += 1
