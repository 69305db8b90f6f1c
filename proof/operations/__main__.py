"""``python3 -m proof.operations``: administrators' operations, killed in the middle, with a server and without."""

from __future__ import annotations

from proof import rounds, runtime
from proof.operations.proof import OperationsProof
from proof.operations.table import OPERATIONS
from proof.operations.verbs import complaints, defined
from proof.operations.whole import BUSY, WholeProof
from proof.operations.world import LEG_BYTES, World
from proof.servers.bulkhead import program


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = rounds.options("operations", __doc__)
    parser.add_argument("--whole", action="store_true", help="each verb once, without kills, while clients work")
    parser.add_argument("--every-step", action="store_true", help="kill each operation at each of its steps, instead of rounds")
    parser.add_argument("--stride", type=int, default=1, help="with --every-step: only at every so-manieth")
    parser.add_argument("--only", action="append", help="operations with this string in their name; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the operations")
    arguments = parser.parse_args(argv)
    verbs, operations = defined(program(), OPERATIONS)
    if wrong := complaints(verbs, operations):
        raise runtime.ProofError("; ".join(wrong))
    chosen = [one for one in operations if not arguments.only or any(part in one.name for part in arguments.only)]
    killed = [one for one in chosen if one.is_killed and not one.looks]
    if arguments.list:
        print("\n".join(one.name for one in killed))
        return 0
    runtime.require_nbd()
    seed = arguments.seed
    if arguments.every_step:
        rounds.say_seed(seed, f"operations-steps STRIDE={arguments.stride}")
    elif not arguments.whole:
        rounds.say_seed(seed, f"operations-crash ROUNDS={arguments.rounds}")
    with runtime.scratch("operations", arguments.keep, runtime.memory_base(4 * LEG_BYTES)) as scratch:
        world = World(scratch, seed, (BUSY,) if arguments.whole else ())
        tally: rounds.Tally
        try:
            if arguments.whole:
                tally = WholeProof(world, chosen).run()
            elif arguments.every_step:
                tally = OperationsProof(world, killed, len(killed), seed).run_every_step(arguments.stride)
            else:
                tally = OperationsProof(world, killed, arguments.rounds, seed).run()
        finally:
            world.kill()
    return tally.end()


if __name__ == "__main__":
    runtime.command(main)
