"""``python3 -m proof.races``: many initiators change the same blocks concurrently, also when the server is killed."""

from __future__ import annotations

from proof import rounds, runtime
from proof.races.proof import RacesProof
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import Bulkhead

LEG_BYTES = 512 << 20
VOLUME_BYTES = 128 << 20


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = rounds.options("races", __doc__, rounds=9)
    parser.add_argument("--workers", type=int, default=8)
    arguments = parser.parse_args(argv)
    runtime.require_nbd()
    rounds.say_seed(arguments.seed, "races")
    with runtime.scratch("races", arguments.keep, runtime.memory_base(2 * LEG_BYTES)) as scratch:
        server = Bulkhead(scratch, [VolumeSpec("v", VOLUME_BYTES)], portals=2, leg_bytes=LEG_BYTES)
        # Its presence at the start switches the server's fault driver on.
        server.fault_file.write_text("")
        with server:
            tally = RacesProof(server, arguments.workers, arguments.rounds, arguments.seed).run()
    return tally.end()


if __name__ == "__main__":
    runtime.command(main)
