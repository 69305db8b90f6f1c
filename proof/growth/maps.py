"""Simulated maps, and the movement between two of them by ``osdmaptool`` alone: the model's judge."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from proof.process import checked, run
from proof.runtime import REPOSITORY, ProofError
from proof.servers.bulkhead import program

TOOL_SECONDS = 300.0
SIMULATED = REPOSITORY / "examples" / "growth" / "simulated-map.sh"
NEEDED = ("crushtool", "osdmaptool")
GROUP = re.compile(r"^(\d+\.[0-9a-f]+)\t\[([\d,]*)\]", re.M)
NO_DISK = 0x7FFF_FFFF


@dataclass(frozen=True)
class Moved:
    """The difference of two placements."""

    copies: int
    moved: int
    groups: int
    touched: int


def simulated(folder: Path, name: str, hosts: int, disks: int, copies: int, racks: int = 0) -> Path:
    """Writes a map of disks of 3.638 TiB (4 TB)."""
    path = folder / name
    checked([SIMULATED, path, str(hosts), str(disks), "3.638", str(copies), str(racks)], TOOL_SECONDS)
    return path


def placement(osdmap: Path) -> dict[str, list[int]]:
    """Returns the disks of each group, as Ceph computes them."""
    return _groups(checked(["osdmaptool", osdmap, "--test-map-pgs-dump"], TOOL_SECONDS))


def _groups(output: str) -> dict[str, list[int]]:
    return {group: [int(disk) for disk in disks.split(",") if disk] for group, disks in GROUP.findall(output)}


def moved(before: dict[str, list[int]], after: dict[str, list[int]]) -> Moved:
    """Counts the copies that are on another disk afterwards."""
    if before.keys() != after.keys() or not before:
        raise ProofError("the placements are of different groups")
    new = [len(set(after[group]) - set(disks) - {NO_DISK}) for group, disks in before.items()]
    return Moved(sum(len(disks) for disks in before.values()), sum(new), len(new), sum(1 for count in new if count))


def grown_by_ceph(folder: Path, small: Path, large: Path, hosts: range, disks: int) -> Moved:
    """Returns the movement from ``small`` by new ``hosts``, computed without Bulkhead.

    ``large`` is a map with as many disks as there are afterwards, because ``osdmaptool`` cannot add any. It gets the
    hierarchy of ``small`` first, then that with new items, each added by ``crushtool``.
    """
    crush, judge = folder / "judge.crush", folder / "judge.osdmap"
    checked(["osdmaptool", small, "--export-crush", crush], TOOL_SECONDS)
    groups = len(placement(small))
    placements = []
    for step in ("before", "after"):
        if step == "after":
            for host in hosts:
                # Like the plan: a host before its first disk.
                words = ["--add-bucket", f"h{host}", "host", "--loc", "root", "default"]
                checked(["crushtool", "-i", crush, "-o", crush, *words], TOOL_SECONDS)
            for host in hosts:
                for osd in range(host * disks, (host + 1) * disks):
                    words = ["--add-item", str(osd), "3.638", f"osd.{osd}", "--loc", "host", f"h{host}", "--loc", "root", "default"]
                    checked(["crushtool", "-i", crush, "-o", crush, *words], TOOL_SECONDS)
        judge.write_bytes(large.read_bytes())
        checked(["osdmaptool", judge, "--import-crush", crush], TOOL_SECONDS)
        # The larger map has more groups: only as many as the smaller one has are placed.
        words = ["--pool", "1", "--pg_num", str(groups), "--test-map-pgs-dump"]
        placements.append(_groups(checked(["osdmaptool", judge, *words], TOOL_SECONDS)))
    return moved(*placements)


def plan(osdmap: Path, *words: str) -> dict:
    """Returns the plan as a document."""
    return json.loads(checked([program(), "growth", "plan", "--osdmap", osdmap, *words, "--json"], TOOL_SECONDS))


def refusal(words: list[str | Path]) -> tuple[int | None, str]:
    """Returns the exit code and the message of a plan that is refused."""
    outcome = run([program(), "growth", "plan", *words], TOOL_SECONDS)
    return outcome.status, outcome.output
