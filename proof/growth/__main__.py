"""``python3 -m proof.growth``: plans of growth, compared with Ceph's own tools, with the field report, and with a real
cluster."""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from proof import runtime
from proof.growth import cluster, maps
from proof.growth.maps import NEEDED, TOOL_SECONDS, plan, refusal, simulated
from proof.guide.blocks import commands_of
from proof.process import checked, missing_programs
from proof.runtime import ProofError
from proof.servers.bulkhead import program

NEW = ("--add", "h17=10x3.638T", "--add", "h18=10x3.638T", "--add", "h19=10x3.638T")
"""Three hosts of ten disks, as in the report."""
RATES = ("--disk-rate", "162.125M", "--journal-rate", "496M", "--journals", "2", "--rate", "31.2M")
"""Of the report: 170 MB/s a disk, two journals of 520 MB/s a host, and 32.7 MB/s as it was measured."""
SMALL_SECONDS_MAX = 1.0
LARGE_SECONDS_MAX = 60.0


def _expect(what: str, holds: bool, found: object) -> None:
    print(f"{'ok' if holds else 'WRONG'}: {what}: {found}")
    if not holds:
        raise ProofError(f"{what}: {found}")


def judge(folder: Path) -> None:
    """The plan and Ceph's tools count the same copies: 17 hosts get three more, with 2 and 3 copies."""
    for copies in (2, 3):
        small = simulated(folder, f"small-{copies}", 17, 10, copies)
        large = simulated(folder, f"large-{copies}", 20, 10, copies)
        expected = maps.grown_by_ceph(folder, small, large, range(17, 20), 10)
        figures = plan(small, *NEW)["at_once"]
        found = maps.Moved(figures["copies"], figures["copies_moved"], figures["groups"], figures["groups_touched"])
        _expect(f"{copies} copies, moved as osdmaptool places them", found == expected, f"{found}, {expected}")


def report(folder: Path) -> None:
    """The case of the field report, with its 368 TB of raw data, at 2 copies."""
    small = simulated(folder, "report", 17, 10, 2)
    document = plan(small, *NEW, "--pool-bytes", "rbd=167.6T", *RATES)
    figures = document["at_once"]
    hours = figures["hours"]
    print(f"copies {figures['copies_moved_share']:.2%}, at least {document['ideal_share']:.2%}; groups {figures['groups_touched_share']:.2%}")
    print(f"bytes {figures['bytes_moved'] / 1e12:.1f} TB of {figures['bytes'] / 1e12:.1f} TB; of touched groups {figures['bytes_touched'] / 1e12:.1f} TB")
    for name in ("disk", "journal"):
        bound = hours[name]
        print(f"{name}: slowest {bound['hours']:.2f} h, evenly {bound['hours_evenly']:.2f} h, touched {bound['hours_touched']:.2f} h")
    _expect("28.77 % of objects touched, within 1", abs(figures["groups_touched_share"] - 0.2877) < 0.01, f"{figures['groups_touched_share']:.4f}")
    _expect("5.8 h by disk, within 5 %", abs(hours["disk"]["hours_touched"] / 5.8 - 1) < 0.05, f"{hours['disk']['hours_touched']:.2f}")
    _expect("9.5 h by journal, within 5 %", abs(hours["journal"]["hours_touched"] / 9.5 - 1) < 0.05, f"{hours['journal']['hours_touched']:.2f}")
    stages = [len(stage["raised"]) for stage in document["stages"]]
    _expect("one disk, then its host, then the rest", stages == [1, 9, 20], stages)


def timing(folder: Path) -> None:
    """Seconds for 200 disks, and for 10,000 disks in 50 racks that get 200 more. The bounds are of CPU time, with the
    tools: other load of the host does not change it."""
    small = simulated(folder, "timed", 17, 10, 3)
    words = [program(), "growth", "plan", "--osdmap", small, *NEW, "--pool-bytes", "rbd=100T"]
    wall, cpu = min(_seconds(words) for _ in range(3))
    _expect(f"200 disks, three stages, under {SMALL_SECONDS_MAX:g} s of CPU time", cpu < SMALL_SECONDS_MAX, f"{cpu:.2f} s, {wall:.2f} s of wall time")
    large = simulated(folder, "large", 1000, 10, 3, racks=50)
    added = [word for number in range(20) for word in ("--add", f"r{number}/n{number}=10x3.638T")]
    words = [program(), "growth", "plan", "--osdmap", large, *added, "--pool-bytes", "rbd=5P"]
    wall, cpu = _seconds(words)
    _expect(f"10,000 disks, three stages, under {LARGE_SECONDS_MAX:g} s of CPU time", cpu < LARGE_SECONDS_MAX, f"{cpu:.1f} s, {wall:.1f} s of wall time")


def _seconds(words: list[str | Path]) -> tuple[float, float]:
    """Returns wall time and CPU time of a command and its children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    before = used.ru_utime + used.ru_stime
    started = time.monotonic()
    checked(words, TOOL_SECONDS)
    wall = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, used.ru_utime + used.ru_stime - before


def mistakes(folder: Path) -> None:
    """Each mistake has a sentence of its own, and the map is not touched."""
    small = simulated(folder, "mistaken", 17, 10, 3)
    before = small.read_bytes()
    text = folder / "text"
    text.write_text("no map\n")
    racks = simulated(folder, "racks", 4, 2, 2, racks=2)
    cases: list[tuple[list[str | Path], int, str]] = [
        (["--osdmap", text, *NEW], 2, "is no OSD map"),
        (["--osdmap", folder / "none", *NEW], 3, "there is no file"),
        (["--osdmap", small], 2, "nothing is added"),
        (["--osdmap", small, "--add", "h17=10x0"], 2, "too small"),
        (["--osdmap", small, "--add", "h17=0x4T"], 2, "the count is 0"),
        (["--osdmap", small, "--add", "rack9/h17=1x4T"], 3, "no bucket rack9"),
        (["--osdmap", small, "--add", "h17=1x4T", "--first-osd", "3"], 4, "osd.3 exists"),
        (["--osdmap", small, "--add", "h17=1x4T:ssd", "--pool-bytes", "vm=1T"], 3, "no pool vm"),
        (["--osdmap", small, "--remove", "osd.999"], 3, "no osd.999"),
        (["--osdmap", small, "--add", "h17=1x4T", "--stages", "some"], 2, "no stages"),
        (["--osdmap", racks, "--add", "new=1x4T"], 3, "several buckets"),
        ([*NEW], 2, "no cluster and no map"),
    ]
    for words, code, sentence in cases:
        status, output = refusal(words)
        _expect(f"exit {code} with {sentence!r}", status == code and sentence in output, output.strip().replace("\n", " | "))
    other = simulated(folder, "other-root", 3, 2, 2)
    _other_root(folder, other)
    status, output = refusal(["--osdmap", other, "--add", "second/x=1x4T"])
    _expect("a rule that does not reach the new host", status == 2 and "no pool's rule reaches" in output, output.strip())
    _expect("the map is as before", small.read_bytes() == before, f"{len(before)} bytes")


def _other_root(folder: Path, osdmap: Path) -> None:
    crush = folder / "second.crush"
    checked(["osdmaptool", osdmap, "--export-crush", crush], TOOL_SECONDS)
    checked(["crushtool", "-i", crush, "-o", crush, "--add-bucket", "second", "root"], TOOL_SECONDS)
    checked(["osdmaptool", osdmap, "--import-crush", crush], TOOL_SECONDS)


def guide(folder: Path) -> None:
    """Runs each command of the guide's page that needs no cluster."""
    (folder / "examples").symlink_to(runtime.REPOSITORY / "examples")
    text = (runtime.REPOSITORY / "docs/guide/growth.md").read_text()
    path = f"{program().resolve().parent}:{os.environ['PATH']}"
    commands = commands_of(text)
    for command in commands:
        script = f"cd {shlex.quote(str(folder))}; {command.text}"
        checked(["bash", "-ec", script], TOOL_SECONDS, env={"PATH": path})
    _expect("commands of the guide", len(commands) > 3, len(commands))


CHECKS: dict[str, Callable[[Path], None]] = {
    "judge": judge,
    "report": report,
    "mistakes": mistakes,
    "guide": guide,
    "timing": timing,
    "cluster": cluster.proof,
}


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="proof.growth", description=__doc__)
    parser.add_argument("--only", action="append", choices=CHECKS, help="checks; may be repeated")
    arguments = parser.parse_args(argv)
    if missing := missing_programs(NEEDED):
        print(f"growth: skipped: install ceph-base ({', '.join(missing)})")
        return 0
    complaints = []
    for name, check in CHECKS.items():
        if arguments.only and name not in arguments.only:
            continue
        with runtime.scratch(f"growth-{name}") as folder:
            try:
                check(folder)
            except ProofError as error:
                complaints.append(f"{name}: {error}")
    return runtime.verdict(complaints, f"growth: {len(complaints)} wrong")


if __name__ == "__main__":
    runtime.command(main)
