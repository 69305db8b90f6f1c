"""``python3 -m proof.legs``: two heads without shared disks and a witness lose processes and power, and no write is lost."""

from __future__ import annotations

from proof import rounds, runtime
from proof.legs.machines import DISK_BYTES, Machines
from proof.legs.proof import LegsProof
from proof.servers.bulkhead import program


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    arguments = rounds.options("legs", __doc__, rounds=20).parse_args(argv)
    rounds.say_seed(arguments.seed, "legs")
    with runtime.scratch("legs", arguments.keep, runtime.memory_base(2 * DISK_BYTES)) as scratch:
        machines = Machines(program(), scratch)
        try:
            tally = LegsProof(machines, arguments.rounds, arguments.seed).run()
        finally:
            machines.kill_all()
    return tally.end()


if __name__ == "__main__":
    runtime.command(main)
