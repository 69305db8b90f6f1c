"""The cost of encryption: the same loads on an encrypted volume and on a plain one, in one run."""

from __future__ import annotations

import statistics
from pathlib import Path

from proof.bench.load import fio
from proof.bench.points import POINTS
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import Bulkhead

VOLUME_BYTES = 256 << 20
LEG_BYTES = 2 << 30
NAMES = ("1m-write-qd4", "1m-read-qd4", "128k-write-qd8", "128k-read-qd8")

# Cached blocks are plain: without the cache each read decrypts.
VOLUME = VolumeSpec("large", VOLUME_BYTES, 128 << 10, (("compression", "off"), ("primarycache", "metadata")))


def main(scratch: Path, repetitions: int, seconds: float) -> int:
    """Prints the table; medians over the repetitions."""
    servers = {}
    figures: dict[tuple[str, str], list[tuple[float, float]]] = {}
    try:
        for kind in ("plain", "encrypted"):
            directory = scratch / kind
            directory.mkdir()
            server = Bulkhead(directory, [VOLUME], leg_bytes=LEG_BYTES, leg_count=1, encrypted=kind == "encrypted")
            server.prepare()
            server.start()
            server.wait_ready()
            servers[kind] = server
        points = [point for point in POINTS if point.name in NAMES]
        for _ in range(repetitions):
            for point in sorted(points, key=lambda point: NAMES.index(point.name)):
                for kind, server in servers.items():
                    cpu = server.cpu_seconds()
                    done = fio(server.nbd(VOLUME.name), point, VOLUME_BYTES, seconds)
                    megabytes = done.operations * point.block / 1e6
                    cpu = server.cpu_seconds() - cpu
                    figures.setdefault((point.name, kind), []).append((megabytes / done.seconds, cpu * 1e6 / megabytes))
    finally:
        for server in servers.values():
            server.kill()
    _print(figures)
    return 0


def _print(figures: dict[tuple[str, str], list[tuple[float, float]]]) -> None:
    print(f"{'point':<18}{'plain MB/s':>12}{'encrypted':>12}{'ratio':>8}{'plain us CPU/MB':>18}{'encrypted':>12}")
    for name in NAMES:
        plain, secret = figures[name, "plain"], figures[name, "encrypted"]
        ratio = statistics.median(ours[0] / theirs[0] for ours, theirs in zip(secret, plain, strict=True))
        speed = [statistics.median(one[0] for one in found) for found in (plain, secret)]
        cpu = [statistics.median(one[1] for one in found) for found in (plain, secret)]
        print(f"{name:<18}{speed[0]:>12.0f}{speed[1]:>12.0f}{ratio:>8.2f}{cpu[0]:>18.0f}{cpu[1]:>12.0f}")
    worst = min(
        statistics.median(ours[0] / theirs[0] for ours, theirs in zip(figures[name, "encrypted"], figures[name, "plain"], strict=True))
        for name in NAMES
    )
    print(f"bench: with a key, {worst:.2f} of the speed without one, or more")
