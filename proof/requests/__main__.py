"""``python3 -m proof.requests``: random requests over the control socket, about existing objects; the server
survives them all."""

from __future__ import annotations

from proof import rounds, runtime
from proof.requests.proof import RequestsProof
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import Bulkhead

LEG_BYTES = 256 << 20
VOLUME_BYTES = 16 << 20


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = rounds.options("requests", __doc__, rounds=None)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=4, help="administrators at a time; a seed replays exactly with one")
    arguments = parser.parse_args(argv)
    rounds.say_seed(arguments.seed, f"requests REQUESTS_SECONDS={arguments.seconds:g}")
    volumes = [VolumeSpec(name, VOLUME_BYTES) for name in ("a", "b")]
    base = runtime.memory_base(8 * LEG_BYTES)
    with runtime.scratch("requests", arguments.keep, base) as scratch, Bulkhead(scratch, volumes, leg_bytes=LEG_BYTES) as server:
        tally = RequestsProof(server, arguments.seconds, arguments.workers, arguments.seed).run()
    return tally.end()


if __name__ == "__main__":
    runtime.command(main)
