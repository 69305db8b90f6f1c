"""``python3 -m proof.files --rounds N --seed S``: see docs/guide/proof.md."""

from __future__ import annotations

import argparse

from proof import rounds, runtime
from proof.files.crash import CrashProof


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = rounds.options("files", "Kill -9 while files change; committed changes are there, and no change is half done.")
    parser.add_argument("--audit-every", type=int, default=25, help="rounds between two checks by zdb")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Runs the rounds and prints the verdict."""
    arguments = _arguments(argv)
    rounds.say_seed(arguments.seed, f"crash FILES=1 ROUNDS={arguments.rounds}")
    with runtime.scratch("files", arguments.keep) as scratch:
        proof = CrashProof(scratch, rounds=arguments.rounds, seed=arguments.seed, audit_every=arguments.audit_every)
        return proof.run().end()


if __name__ == "__main__":
    runtime.command(main)
