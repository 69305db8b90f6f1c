"""``python3 -m proof.crash --rounds N --seed S``: see docs/guide/proof.md."""

from __future__ import annotations

import argparse

from proof import rounds, runtime
from proof.crash.proof import CrashProof, Plan, file_for_crash, volumes_for_crash
from proof.servers.base import Server
from proof.servers.bulkhead import Bulkhead, MirrorFaults
from proof.servers.peers import Peers


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = rounds.options("crash", "Kill -9 at random times; no acknowledged write may be lost.")
    parser.add_argument("--server", choices=("bulkhead", "peers"), default="bulkhead", help="peers: tgt and nbdkit, to judge the proof itself")
    parser.add_argument("--legs-fault", choices=("none", "eio", "flush", "corrupt", "truncate", "mix"), default="none")
    parser.add_argument("--one-file", action="store_true", help="a pool of one file, which writes its intent log differently from a mirror")
    parser.add_argument("--encrypted", action="store_true", help="volumes with keys, from a file")
    parser.add_argument("--nfs", action="store_true", help="also a file of a file system, by clients of NFS")
    parser.add_argument("--audit-every", type=int, default=50, help="rounds between two checks by zdb")
    arguments = parser.parse_args(argv)
    if arguments.one_file and arguments.legs_fault != "none":
        parser.error("--legs-fault needs a mirror")
    if arguments.nfs and arguments.server != "bulkhead":
        parser.error("--nfs: tgt and nbdkit serve no files")
    return arguments


def main(argv: list[str]) -> int:
    """Runs the rounds and prints the verdict."""
    arguments = _arguments(argv)
    runtime.require_nbd()
    # A damaged leg does not return while a start is blocked on it.
    harmed = arguments.legs_fault != "none"
    variables = f"ROUNDS={arguments.rounds}{f' LEGS={arguments.legs_fault}' if harmed else ''}{' ONE_FILE=1' if arguments.one_file else ''}"
    rounds.say_seed(arguments.seed, f"crash {variables}")
    with runtime.scratch("crash", arguments.keep) as scratch:
        volumes = [*volumes_for_crash(), *([file_for_crash()] if arguments.nfs else [])]
        faults = None
        server: Server
        if arguments.server == "peers":
            server = Peers(scratch, volumes)
        else:
            options = ("--wait-for-devices", "0") if harmed else ()
            legs = 1 if arguments.one_file else 2
            server = Bulkhead(scratch, volumes, leg_count=legs, encrypted=arguments.encrypted, options=options)
            if harmed:
                faults = MirrorFaults(server, arguments.legs_fault)
        plan = Plan(arguments.rounds, arguments.seed, arguments.audit_every)
        try:
            tally = CrashProof(server, plan, faults).run()
        finally:
            server.kill()
    return tally.end(*([faults.summary()] if faults else []))


if __name__ == "__main__":
    runtime.command(main)
