"""Reads volumes back after a crash and lets the ledger judge every sector."""

from __future__ import annotations

from proof import pattern
from proof.clients.base import Client, drive_until
from proof.crash.workload import Volume
from proof.ledger import Violation
from proof.pattern import SECTOR

CHUNK_SECTORS = 512
READS_IN_FLIGHT = 8
READ_SECONDS = 60.0


def verify(volume: Volume, client: Client, everything: bool) -> list[Violation]:
    """Judges the touched parts of a volume, or all of it; then the read data becomes the expected state."""
    violations: list[Violation] = []
    if everything:
        chunks = list(range(0, volume.sector_count, CHUNK_SECTORS))
    else:
        chunks = sorted({sector // CHUNK_SECTORS * CHUNK_SECTORS for sector in volume.ledger.touched()})
    chunks.reverse()
    failed: list[int] = []

    def next_chunk() -> None:
        if not chunks:
            return
        start = chunks.pop()
        count = min(CHUNK_SECTORS, volume.sector_count - start)

        def answered(data: bytes | None) -> None:
            if data is None:
                failed.append(start)
                chunks.clear()
                return
            violations.extend(volume.ledger.judge(start, pattern.read_back(volume.tag, start, data)))
            next_chunk()

        client.read(start * SECTOR, count * SECTOR, answered)

    for _ in range(READS_IN_FLIGHT):
        next_chunk()
    drive_until([client], lambda: client.in_flight == 0, READ_SECONDS, f"read back volume {volume.name}")
    violations += [
        Violation(volume.name, start, "unreadable", f"read through {client.name}: {client.last_error}")
        for start in failed
    ]
    volume.ledger.forget_flushes()
    return violations
