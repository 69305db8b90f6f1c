"""``python3 -m proof.crash --rounds N --seed S``: see docs/guide/proof.md."""

from __future__ import annotations

import argparse
import random
import time

from proof import runtime
from proof.servers.base import Server


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof.crash", description="Kill -9 at random moments; nothing acknowledged may be lost.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, help="repeats a run's operations (moments of the kill vary with the machine)")
    parser.add_argument("--server", choices=("bulkhead", "peers"), default="bulkhead", help="peers: tgt and nbdkit, to judge the proof itself")
    parser.add_argument("--legs-fault", choices=("none", "eio", "flush", "corrupt", "truncate", "mix"), default="none")
    parser.add_argument("--one-file", action="store_true", help="a pool of one file, which writes its intent log another way than a mirror")
    parser.add_argument("--encrypted", action="store_true", help="volumes with keys, from a file")
    parser.add_argument("--audit-every", type=int, default=50, help="rounds between two looks of zdb")
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    arguments = parser.parse_args(argv)
    if arguments.one_file and arguments.legs_fault != "none":
        parser.error("--legs-fault needs a mirror")
    return arguments


def main(argv: list[str]) -> int:
    """Runs the rounds and prints the verdict."""
    arguments = _arguments(argv)
    runtime.require_nbd()
    from proof.crash.proof import CrashProof, Plan, volumes_for_crash

    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}: make crash ROUNDS={arguments.rounds} SEED={seed} repeats this run's operations")
    started = time.monotonic()
    with runtime.scratch("crash", arguments.keep) as scratch:
        volumes = volumes_for_crash()
        faults = None
        server: Server
        if arguments.server == "peers":
            from proof.servers.peers import Peers

            server = Peers(scratch, volumes)
        else:
            from proof.servers.bulkhead import Bulkhead, MirrorFaults

            # A leg that was harmed does not come back while a start waits for it.
            harmed = arguments.legs_fault != "none"
            options = ("--wait-for-devices", "0") if harmed else ()
            legs = 1 if arguments.one_file else 2
            server = Bulkhead(scratch, volumes, leg_count=legs, encrypted=arguments.encrypted, options=options)
            if harmed:
                faults = MirrorFaults(server, arguments.legs_fault)
        plan = Plan(arguments.rounds, seed, arguments.audit_every)
        try:
            tally = CrashProof(server, plan, faults).run()
        finally:
            server.kill()
    for complaint in tally.complaints:
        print(complaint)
    print(f"{tally.durable} durable, {tally.starts_killed} starts killed, {tally.audits} audits, {time.monotonic() - started:.0f} s")
    if faults:
        print(faults.summary())
    print(tally.verdict())
    return 0 if tally.good else 1


if __name__ == "__main__":
    runtime.command(main)
