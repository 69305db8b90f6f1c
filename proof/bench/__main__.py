"""``python3 -m proof.bench``: see docs/guide/benchmarks.md."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from proof import runtime
from proof.bench import compare, disk, encryption, legs, many_clients, nfs, profile, restart, scaling, scrape, sizing, startup
from proof.bench.disk_points import DISK_POINTS, chosen, require_known
from proof.bench.points import POINTS
from proof.process import missing_programs
from proof.runtime import ProofError
from proof.servers.bulkhead import program

CLIENTS = ("qemu-img", "nbdcopy", "fio")
"""The stock tools of the measurements."""


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof.bench", description="Compares our speed with tgt, nbdkit and qemu-nbd.")
    verbs = parser.add_subparsers(dest="verb")
    parser.add_argument("--seconds-per-point", type=float, default=2.0)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", help="points with one of these strings in their name, separated by commas")
    parser.add_argument("--protocols", default="iscsi nbd")
    parser.add_argument("--small-block-size", type=int, default=4096, help="block size of our volume for the 4k points")
    parser.add_argument("--without", default="", help="leave servers out: bulkhead, tgt, nbdkit, qemu-nbd")
    parser.add_argument("--beside", type=Path, help="another bulkhead that is measured in turn with this one")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    start = verbs.add_parser("startup", help="exec to first read, with 1 and with 1,000 volumes")
    start.add_argument("--volumes", default="1,1000")
    start.add_argument("--repetitions", type=int, default=startup.REPETITIONS, dest="starts")
    again = verbs.add_parser("restart", help="exec to serving again after a kill during synchronous writes, by phase")
    again.add_argument("--volumes", default="1,200")
    again.add_argument("--rounds", type=int, default=restart.ROUNDS)
    again.add_argument("--written", action="store_true", help="devices with all blocks allocated, like a disk")
    secret = verbs.add_parser("encryption", help="an encrypted volume compared with a plain one")
    secret.add_argument("--repetitions", type=int, default=3, dest="turns")
    asked = verbs.add_parser("scrape", help="the cost of a scrape of the metrics, with 1,000 volumes")
    asked.add_argument("--volumes", type=int, default=1000)
    uncached = verbs.add_parser("disk", help="uncached reads, and volumes being filled, compared with the bare disk")
    uncached.add_argument("--only", help="as above", dest="disk_only")
    uncached.add_argument("--where", default="file,loop", help="the device of the pool: file, loop (a block device with direct I/O)")
    uncached.add_argument("--repetitions", type=int, default=1, dest="rounds")
    uncached.add_argument("--seconds-per-point", type=float, default=3.0, dest="seconds")
    uncached.add_argument("--volume-mib", type=int, default=disk.VOLUME_BYTES >> 20)
    sizes = verbs.add_parser("sizing", help="the benefit of memory, a cache device and a log device on a slow disk")
    sizes.add_argument("--seconds-per-point", type=float, default=5.0, dest="seconds")
    many = verbs.add_parser("scaling", help="the cost of an operation with up to 32 connections, on one volume and on eight")
    many.add_argument("--seconds-per-point", type=float, default=4.0, dest="seconds")
    spread = verbs.add_parser("legs", help="a pool with legs on two heads, compared with the cost of its parts")
    spread.add_argument("--only", help="as above", dest="legs_only")
    spread.add_argument("--repetitions", type=int, default=3, dest="rounds")
    spread.add_argument("--seconds-per-point", type=float, default=5.0, dest="seconds")
    files = verbs.add_parser("nfs", help="files over NFS 4.1, compared with nfs-ganesha")
    files.add_argument("--only", help="as above", dest="nfs_only")
    files.add_argument("--repetitions", type=int, default=3, dest="rounds")
    files.add_argument("--seconds-per-point", type=float, default=3.0, dest="seconds")
    going_on = verbs.add_parser("clients", help="clients of NFS with locks while the server is killed and stopped, with 1 and with 1,000 file systems")
    going_on.add_argument("--file-systems", default="1,1000")
    going_on.add_argument("--clients", type=int, default=many_clients.CLIENTS)
    going_on.add_argument("--rounds", type=int, default=many_clients.ROUNDS)
    going_on.add_argument("--seed", type=int, default=1)
    hot = verbs.add_parser("profile", help="where the server's time goes")
    hot.add_argument("--point", default="4k-random-read-qd32")
    return parser.parse_args(argv)


def _require_known(only: str | None) -> None:
    require_known(only, [*(point.name for point in (*POINTS, *DISK_POINTS, *nfs.POINTS)), *legs.POINTS])


def _disk(arguments: argparse.Namespace, scratch: Path) -> int:
    _require_known(arguments.disk_only)
    if not chosen(arguments.disk_only):
        print(f"bench disk: none of its points is called {arguments.disk_only}")
        return 0
    where = arguments.where.split(",")
    if unknown := [word for word in where if word not in disk.WHERE]:
        raise ProofError(f"--where {','.join(unknown)}: there are {', '.join(disk.WHERE)}")
    if missing := missing_programs(["fio", "nbdkit", "qemu-nbd", "losetup", "findmnt"]):
        raise ProofError(f"not installed: {', '.join(missing)}: run `scripts/deps.sh bench`")
    out = runtime.REPOSITORY / "target/bench-disk.json"
    return disk.main(scratch, out, arguments.disk_only, where, arguments.rounds, arguments.seconds, arguments.volume_mib)


def _legs(arguments: argparse.Namespace, scratch: Path) -> int:
    _require_known(arguments.legs_only)
    if not legs.chosen(arguments.legs_only):
        print(f"bench legs: none of its points is called {arguments.legs_only}")
        return 0
    if missing := missing_programs(["fio", "nbdkit", "qemu-nbd"]):
        raise ProofError(f"not installed: {', '.join(missing)}: run `scripts/deps.sh bench`")
    out = runtime.REPOSITORY / "target/bench-legs.json"
    return legs.main(program(), scratch, out, arguments.legs_only, arguments.seconds, arguments.rounds)


def _nfs(arguments: argparse.Namespace, scratch: Path) -> int:
    _require_known(arguments.nfs_only)
    if not nfs.chosen(arguments.nfs_only):
        print(f"bench nfs: none of its points is called {arguments.nfs_only}")
        return 0
    if missing := missing_programs(nfs.NEEDED):
        raise ProofError(f"not installed: {', '.join(missing)}: run `scripts/deps.sh bench`")
    out = runtime.REPOSITORY / "target/bench-nfs.json"
    return nfs.main(scratch, out, arguments.nfs_only, arguments.seconds, arguments.rounds)


def _image(scratch: Path) -> Path:
    """Creates incompressible contents, so that every block is stored in full."""
    image = scratch / "image.raw"
    piece = os.urandom(1 << 20)
    with image.open("wb") as file:
        for index in range(compare.VOLUME_BYTES // len(piece)):
            file.write(index.to_bytes(16, "little") + piece[16:])
    return image


def _compare(arguments: argparse.Namespace, scratch: Path) -> int:
    _require_known(arguments.only)
    if not compare.chosen(arguments.only):
        print(f"bench: no point of data that is cached is called {arguments.only}")
        return 0
    without = arguments.without.split(",")
    programs = [name for kind, _ in compare.KINDS if kind.name not in without for name in kind.programs]
    if missing := missing_programs([*CLIENTS, *programs]):
        raise ProofError(f"not installed: {', '.join(missing)}: run `scripts/deps.sh bench`, or leave servers out by --without")
    runtime.require_nbd()
    all_servers = compare.make_servers(scratch, arguments.small_block_size, arguments.beside)
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
    compare.print_beside(comparison, arguments.protocols)
    print("targets, medians of the ratio ours / peer within a repetition:")
    verdicts = compare.judge(comparison)
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in vars(arguments).items() if name != "verb"}
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
        if arguments.verb == "disk":
            return _disk(arguments, scratch)
        if arguments.verb == "sizing":
            return sizing.main(scratch, arguments.seconds)
        if arguments.verb == "scaling":
            return scaling.main(scratch, runtime.REPOSITORY / "target/bench-scaling.json", arguments.seconds)
        if arguments.verb == "legs":
            return _legs(arguments, scratch)
        if arguments.verb == "nfs":
            return _nfs(arguments, scratch)
        if arguments.verb == "clients":
            counts = [int(count) for count in arguments.file_systems.split(",")]
            return many_clients.main(scratch, counts, arguments.clients, arguments.rounds, arguments.seed)
        if arguments.verb == "profile":
            return profile.main(scratch, _image(scratch), arguments.point)
        return _compare(arguments, scratch)


if __name__ == "__main__":
    runtime.command(main)
