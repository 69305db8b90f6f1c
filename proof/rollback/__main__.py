"""``python3 -m proof.rollback``: volumes are rolled back under load, with kills in the middle of it."""

from __future__ import annotations

from proof import rounds, runtime
from proof.rollback.proof import VOLUME, RollbackProof
from proof.servers.bulkhead import Bulkhead

LEG_BYTES = 512 << 20


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    arguments = rounds.options("rollback", __doc__).parse_args(argv)
    runtime.require_nbd()
    rounds.say_seed(arguments.seed, f"rollback ROUNDS={arguments.rounds}")
    base = runtime.memory_base(4 * LEG_BYTES)
    with runtime.scratch("rollback", arguments.keep, base) as scratch, Bulkhead(scratch, [VOLUME], leg_bytes=LEG_BYTES) as server:
        tally = RollbackProof(server).run(arguments.rounds, arguments.seed)
    return tally.end()


if __name__ == "__main__":
    runtime.command(main)
