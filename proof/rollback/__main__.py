"""``python3 -m proof.rollback``: volumes are rolled back under load, and killed in the middle of it."""

from __future__ import annotations

import argparse
import random

from proof import runtime
from proof.rollback.proof import VOLUME, RollbackProof
from proof.servers.bulkhead import Bulkhead

LEG_BYTES = 512 << 20


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="proof.rollback", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="repeats a run")
    arguments = parser.parse_args(argv)
    runtime.require_nbd()
    print(f"rollback: {arguments.rounds} rounds, seed {arguments.seed}")
    with runtime.scratch("rollback", base=runtime.memory_base(4 * LEG_BYTES)) as scratch:
        server = Bulkhead(scratch, [VOLUME], leg_bytes=LEG_BYTES)
        try:
            tally = RollbackProof(server, arguments.rounds, arguments.seed).run()
        finally:
            server.kill()
    return runtime.verdict(tally.complaints, tally.verdict())


if __name__ == "__main__":
    runtime.command(main)
