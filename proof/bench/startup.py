"""From exec to the first read served, with few and with many volumes."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from proof import runtime
from proof.clients.base import ClientError, read_all
from proof.clients.iscsi import IscsiClient
from proof.runtime import ProofError
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import Bulkhead

REPETITIONS = 9
ALLOWED_DIFFERENCE_MS = 100.0
FIRST_READ_SECONDS = 60.0
VOLUME_BYTES = 64 << 20


def first_read_ms(server: Bulkhead) -> float:
    """Starts once; returns the milliseconds from exec until a read of the last volume is complete."""
    volume = server.volumes[-1].name
    address = server.iscsi(volume)
    port = int(address.portal.rpartition(":")[2])
    started = time.perf_counter()
    server.start()
    child = server.children[0]
    while not runtime.port_answers(port):
        child.require_alive()
        if time.perf_counter() - started > FIRST_READ_SECONDS:
            raise ProofError(f"no listener within {FIRST_READ_SECONDS:g} s:\n{child.log_tail()}")
        time.sleep(0.001)
    while True:
        try:
            client = IscsiClient(address, "iqn.2026-01.org.example:proof-startup")
            break
        except ClientError:
            # The port may listen before the target exists; bounded by the same deadline.
            if time.perf_counter() - started > FIRST_READ_SECONDS:
                raise
    read_all(client, 0, 4096)
    taken = (time.perf_counter() - started) * 1000
    client.log_out()
    server.wait_ready()
    return taken


def measure(scratch: Path, count: int, repetitions: int) -> list[float]:
    """Starts the server repeatedly with ``count`` volumes, all exported over iSCSI and NBD."""
    directory = scratch / f"volumes-{count}"
    directory.mkdir()
    server = Bulkhead(directory, [VolumeSpec(f"v{index:05}", VOLUME_BYTES) for index in range(count)], leg_bytes=4 << 30)
    print(f"making {count} volumes ...")
    server.prepare()
    taken = []
    try:
        for _ in range(repetitions):
            taken.append(first_read_ms(server))
            server.stop()
    finally:
        server.kill()
    return taken


def main(scratch: Path, counts: list[int], repetitions: int = REPETITIONS) -> int:
    """Measures each count; the last may cost at most ``ALLOWED_DIFFERENCE_MS`` more than the first."""
    medians = []
    for count in counts:
        taken = measure(scratch, count, repetitions)
        medians.append(statistics.median(taken))
        print(
            f"{count} volume{'s' if count != 1 else ''}: exec to first read {medians[-1]:.0f} ms "
            f"(median of {len(taken)}, {min(taken):.0f} to {max(taken):.0f})"
        )
    difference = medians[-1] - medians[0]
    met = difference <= ALLOWED_DIFFERENCE_MS
    print(f"startup: difference {difference:.0f} ms, allowed {ALLOWED_DIFFERENCE_MS:.0f} ms: {'met' if met else 'MISSED'}")
    return 0 if met else 1
