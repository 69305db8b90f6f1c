"""``python3 -m proof.races``: many initiators change the same blocks at the same time, also when the server is killed."""

from __future__ import annotations

import argparse
import random

from proof import runtime
from proof.races.proof import RacesProof
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import Bulkhead

LEG_BYTES = 512 << 20
VOLUME_BYTES = 128 << 20


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="proof.races", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    arguments = parser.parse_args(argv)
    runtime.require_nbd()
    print(f"races: {arguments.rounds} rounds, {arguments.workers} initiators, seed {arguments.seed}")
    with runtime.scratch("races", arguments.keep, base=runtime.memory_base(2 * LEG_BYTES)) as scratch:
        server = Bulkhead(scratch, [VolumeSpec("v", VOLUME_BYTES)], portals=2, leg_bytes=LEG_BYTES)
        try:
            tally = RacesProof(server, arguments.workers, arguments.rounds, arguments.seed).run()
        finally:
            server.kill()
    return runtime.verdict(tally.complaints, tally.verdict())


if __name__ == "__main__":
    runtime.command(main)
