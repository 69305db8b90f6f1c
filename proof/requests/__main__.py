"""``python3 -m proof.requests``: random requests over the control socket, about things that are there; the server outlives them all."""

from __future__ import annotations

import argparse
import random

from proof import runtime
from proof.requests.proof import RequestsProof
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import Bulkhead

LEG_BYTES = 256 << 20
VOLUME_BYTES = 16 << 20


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="proof.requests", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=4, help="administrators at a time; a seed replays exactly with one")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    arguments = parser.parse_args(argv)
    print(f"requests: {arguments.seconds:g} s, {arguments.workers} at a time, seed {arguments.seed}")
    with runtime.scratch("requests", arguments.keep, base=runtime.memory_base(8 * LEG_BYTES)) as scratch:
        server = Bulkhead(scratch, [VolumeSpec(name, VOLUME_BYTES) for name in ("a", "b")], leg_bytes=LEG_BYTES)
        try:
            tally = RequestsProof(server, arguments.seconds, arguments.workers, arguments.seed).run()
        finally:
            server.kill()
    return runtime.verdict(tally.complaints, tally.verdict())


if __name__ == "__main__":
    runtime.command(main)
