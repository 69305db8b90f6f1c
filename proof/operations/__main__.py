"""``python3 -m proof.operations``: administrators' operations, killed in the middle, with a server and without."""

from __future__ import annotations

import argparse
import random
import time

from proof import runtime
from proof.operations.proof import OperationsProof
from proof.operations.table import OPERATIONS, Operation
from proof.operations.verbs import all_verbs, complaints
from proof.operations.whole import BUSY, WholeProof
from proof.operations.world import LEG_BYTES, World
from proof.servers.bulkhead import program


def _whole(operations: list[Operation], seed: int, keep: bool) -> int:
    started = time.monotonic()
    with runtime.scratch("operations", keep, base=runtime.memory_base(4 * LEG_BYTES)) as scratch:
        world = World(scratch, seed, (BUSY,))
        proof = WholeProof(world, operations)
        try:
            proof.run()
        finally:
            world.kill()
    return runtime.verdict(proof.complaints, f"{time.monotonic() - started:.0f} s", proof.verdict())


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="proof.operations", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="repeats a run's operations")
    parser.add_argument("--whole", action="store_true", help="each verb once, nobody killed, beside clients at work")
    parser.add_argument("--every-step", action="store_true", help="kill each operation at each of its steps, instead of rounds")
    parser.add_argument("--stride", type=int, default=1, help="with --every-step: only at every so-manieth")
    parser.add_argument("--only", action="append", help="operations whose names contain this; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the operations")
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    arguments = parser.parse_args(argv)
    chosen = [one for one in OPERATIONS if not arguments.only or any(part in one.name for part in arguments.only)]
    if arguments.list:
        print("\n".join(one.name for one in chosen))
        return 0
    runtime.require_nbd()
    if wrong := complaints(all_verbs(program())):
        raise runtime.ProofError("; ".join(wrong))
    if arguments.whole:
        return _whole(chosen, arguments.seed, arguments.keep)
    rounds = len(OPERATIONS) if arguments.every_step else arguments.rounds
    print(f"operations: {'every step' if arguments.every_step else f'{rounds} rounds'}, seed {arguments.seed}")
    started = time.monotonic()
    with runtime.scratch("operations", arguments.keep, base=runtime.memory_base(4 * LEG_BYTES)) as scratch:
        world = World(scratch, arguments.seed)
        try:
            proof = OperationsProof(world, chosen, rounds, arguments.seed)
            tally = proof.run_every_step(arguments.stride) if arguments.every_step else proof.run()
        finally:
            world.kill()
    summary = f"{len(tally.judged)} of {len(OPERATIONS)} operations, {tally.audits} audits, {time.monotonic() - started:.0f} s"
    return runtime.verdict(tally.complaints, summary, tally.verdict())


if __name__ == "__main__":
    runtime.command(main)
