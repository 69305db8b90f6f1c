"""Profiles the server: ``perf`` while one point runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from proof.bench.compare import LIKE_THE_PEERS, VOLUME_BYTES, fill
from proof.bench.load import IscsiLoad
from proof.bench.points import POINTS
from proof.process import Child, checked
from proof.runtime import ProofError
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import Bulkhead

SECONDS = 5.0
LINES = 45


def main(scratch: Path, image: Path, point_name: str) -> int:
    """Profiles our server under one point over iSCSI and prints the hottest functions."""
    if shutil.which("perf") is None:
        raise ProofError("perf is not installed: apt-get install linux-perf")
    point = next((point for point in POINTS if point.name == point_name), None)
    if point is None:
        raise ProofError(f"no point {point_name}; there are {', '.join(point.name for point in POINTS)}")
    off = (("compression", "off"),)
    block = 4096 if point.volume == "small" else 131072
    with Bulkhead(scratch, [VolumeSpec(point.volume, VOLUME_BYTES, block, off)], **LIKE_THE_PEERS) as server:
        fill(server, image)
        address = server.iscsi(point.volume)
        load = IscsiLoad()
        load.calibrate(server.name, address, point, VOLUME_BYTES, SECONDS)
        data = scratch / "perf.data"
        argv = ["perf", "record", "-F", "997", "-o", data, "-p", str(server.children[0].pid)]
        recorder = Child("perf", argv, scratch / "perf.log")
        result = load.run(server.name, address, point, VOLUME_BYTES, SECONDS)
        recorder.signal(2)
        recorder.stop()
    print(f"{point.name}: {result.iops():.0f} IOPS")
    for sort, lines in (("dso", 8), ("dso,symbol", LINES)):
        argv = ["perf", "report", "--stdio", "-i", data, "--percent-limit", "0.7", "--fields", f"overhead,{sort}"]
        report = checked([*argv, "--sort", sort], 120)
        rows = [line.rstrip() for line in report.splitlines() if line.strip() and not line.startswith("#")]
        print("\n".join(rows[:lines]) + "\n")
    return 0
