"""``python3 -m proof.legs``: heads without shared disks lose processes, power, cables and disks, and no write is lost.

Appliances of all shapes run concurrently, each in a process and in a network of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from proof import rounds, runtime
from proof.legs.cables import Cables
from proof.legs.machines import DISK_BYTES, SHAPES, WITNESS_NUMBER, Machines, Shape
from proof.legs.proof import LegsProof, Tally, verdict
from proof.process import die_with_parent
from proof.servers.bulkhead import program

DISKS_MAX = 6
"""Of a shape."""


def _numbers(shape: Shape) -> list[int]:
    heads = [1, 2] if shape.has_witness else list(range(1, len(shape.heads) + 1))
    return [*heads, WITNESS_NUMBER] if shape.has_witness else heads


def _run_one(shape: Shape, arguments: argparse.Namespace) -> Tally:
    with runtime.scratch("legs", arguments.keep, runtime.memory_base(2 * DISKS_MAX * DISK_BYTES)) as scratch:
        cables = Cables(_numbers(shape), scratch)
        machines = Machines(program(), scratch, shape=shape, cables=cables)
        try:
            return LegsProof(machines, cables, arguments.seed, arguments.kind).run(arguments.first, arguments.rounds)
        finally:
            machines.kill_all()


def _run_all(arguments: argparse.Namespace) -> list[Tally]:
    """Runs a process for each shape; returns their results."""
    share = -(-arguments.rounds // len(SHAPES))
    with runtime.scratch("legs-tallies") as scratch:
        running = []
        for name in SHAPES:
            words = [sys.executable, "-m", "proof.legs", "--shape", name, "--rounds", str(share), "--seed", str(arguments.seed)]
            words += ["--tally", str(scratch / name), *(["--keep"] if arguments.keep else [])]
            running.append((name, subprocess.Popen(words, preexec_fn=die_with_parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)))
        tallies = []
        for name, child in running:
            output, _ = child.communicate()
            path = scratch / name
            if not path.exists():
                raise runtime.ProofError(f"{name}: ended with {child.returncode}:\n{output}")
            tallies.append(_read(path))
    return tallies


def _read(path: Path) -> Tally:
    found = json.loads(path.read_text())
    counters = {name: Counter(found.pop(name)) for name in ("faults", "refused")}
    return Tally(**found, **counters)


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = rounds.options("legs", __doc__, rounds=48)
    parser.add_argument("--shape", choices=SHAPES, help="appliances of this shape only")
    parser.add_argument("--kind", help="faults of this kind only")
    parser.add_argument("--first", type=int, default=1, help="number of the first round")
    parser.add_argument("--tally", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.shape is None and (arguments.kind or arguments.first != 1):
        parser.error("--kind and --first need --shape")
    started = time.monotonic()
    rounds.say_seed(arguments.seed, "legs")
    tallies = [_run_one(SHAPES[arguments.shape], arguments)] if arguments.shape else _run_all(arguments)
    if arguments.tally:
        arguments.tally.write_text(json.dumps(vars(tallies[0])))
    complaints = [words for one in tallies for words in one.complaints]
    seconds = time.monotonic() - started
    faults = sum(one.faults.total() for one in tallies)
    rate = f"{seconds:.0f} s, {faults / seconds * 60:.0f} faults a minute"
    return runtime.verdict(complaints, *(one.summary() for one in tallies), rate, verdict(tallies))


if __name__ == "__main__":
    runtime.command(main)
