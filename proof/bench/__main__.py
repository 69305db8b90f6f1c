"""``python3 -m proof.bench``: see docs/guide/benchmarks.md."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from proof import runtime
from proof.bench import compare, encryption, profile, restart, scrape, startup
from proof.process import missing_programs
from proof.runtime import ProofError

CLIENTS = ("qemu-img", "nbdcopy", "fio")
"""The stock tools that measure."""


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof.bench", description="Our speed beside tgt, nbdkit and qemu-nbd.")
    verbs = parser.add_subparsers(dest="verb")
    parser.add_argument("--seconds-per-point", type=float, default=2.0)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", help="points whose names contain one of these words, separated by commas")
    parser.add_argument("--protocols", default="iscsi nbd")
    parser.add_argument("--small-block-size", type=int, default=4096, help="block size of our volume for the 4k points")
    parser.add_argument("--without", default="", help="leave servers out: bulkhead, tgt, nbdkit, qemu-nbd")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    start = verbs.add_parser("startup", help="exec to first read, with 1 and with 1,000 volumes")
    start.add_argument("--volumes", default="1,1000")
    start.add_argument("--repetitions", type=int, default=startup.REPETITIONS, dest="starts")
    again = verbs.add_parser("restart", help="exec to serving again after a kill during synchronous writes, by phase")
    again.add_argument("--volumes", default="1,200")
    again.add_argument("--rounds", type=int, default=restart.ROUNDS)
    again.add_argument("--written", action="store_true", help="devices whose blocks are all allocated, as a disk's are")
    secret = verbs.add_parser("encryption", help="a volume with a key beside one without")
    secret.add_argument("--repetitions", type=int, default=3, dest="turns")
    asked = verbs.add_parser("scrape", help="what it costs to be asked for metrics, with 1,000 volumes")
    asked.add_argument("--volumes", type=int, default=1000)
    hot = verbs.add_parser("profile", help="where the server's time goes")
    hot.add_argument("--point", default="4k-random-read-qd32")
    return parser.parse_args(argv)


def _image(scratch: Path) -> Path:
    """Contents that do not compress, so that every block is stored as it is."""
    image = scratch / "image.raw"
    piece = os.urandom(1 << 20)
    with image.open("wb") as file:
        for index in range(compare.VOLUME_BYTES // len(piece)):
            file.write(index.to_bytes(16, "little") + piece[16:])
    return image


def _compare(arguments: argparse.Namespace, scratch: Path) -> int:
    without = arguments.without.split(",")
    programs = [name for kind, _ in compare.KINDS if kind.name not in without for name in kind.programs]
    if missing := missing_programs([*CLIENTS, *programs]):
        raise ProofError(f"not installed: {', '.join(missing)}: run `scripts/deps.sh bench`, or leave servers out by --without")
    runtime.require_nbd()
    all_servers = compare.make_servers(scratch, arguments.small_block_size)
    servers = [(server, protocols) for server, protocols in all_servers if server.name not in without]
    image = _image(scratch)
    try:
        for server, _ in servers:
            server.prepare()
            server.start()
            server.wait_ready()
            fill_before = server.cpu_seconds()
            compare.fill(server, image)
            print(f"{server.name}: filled, {server.cpu_seconds() - fill_before:.1f} s of CPU")
        comparison = compare.Comparison(servers, arguments.seconds_per_point, arguments.repetitions, arguments.only)
        comparison.run(arguments.protocols)
    finally:
        for server, _ in servers:
            server.kill()
    compare.print_table(comparison)
    print("targets, medians of the ratio ours / peer within a repetition:")
    verdicts = compare.judge(comparison)
    settings = {name: value for name, value in vars(arguments).items() if name != "verb"}
    compare.write_json(runtime.REPOSITORY / "target/bench.json", comparison, verdicts, settings)
    met = sum(bool(verdict["met"]) for verdict in verdicts)
    print(f"bench: {met} of {len(verdicts)} targets met; all figures in target/bench.json")
    return 1 if arguments.strict and met < len(verdicts) else 0


def main(argv: list[str]) -> int:
    """Compares, or measures starts, or profiles."""
    arguments = _arguments(argv)
    with runtime.scratch("bench") as scratch:
        if arguments.verb == "startup":
            return startup.main(scratch, [int(count) for count in arguments.volumes.split(",")], arguments.starts)
        if arguments.verb == "restart":
            return restart.main(scratch, [int(count) for count in arguments.volumes.split(",")], arguments.rounds, arguments.written)
        if arguments.verb == "encryption":
            return encryption.main(scratch, arguments.turns, arguments.seconds_per_point)
        if arguments.verb == "scrape":
            return scrape.main(scratch, arguments.volumes)
        if arguments.verb == "profile":
            return profile.main(scratch, _image(scratch), arguments.point)
        return _compare(arguments, scratch)


if __name__ == "__main__":
    runtime.command(main)
