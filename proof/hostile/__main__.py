"""``python3 -m proof.hostile``: see docs/guide/proof.md."""

from __future__ import annotations

import argparse
import random
import resource
import time
from pathlib import Path

from proof import runtime
from proof.clients.base import ClientError
from proof.clients.iscsi import IscsiAddress
from proof.clients.nbd import NbdAddress
from proof.clients.steady import WellBehaved
from proof.hostile.attacks import ATTACKS, Place
from proof.runtime import ProofError
from proof.servers.base import Server, VolumeSpec

RSS_GROWTH_BYTES_MAX = 512 << 20
"""What all attacks together may add to the server's memory."""

SLOWEST_ANSWER_SECONDS_MAX = 5.0
PAUSE_SECONDS = 0.02
RECOVERY_SECONDS = 40.0
DESCRIPTORS = 16384


def _newcomer_is_served(address: IscsiAddress, export: NbdAddress) -> None:
    """After an attack, somebody new gets in: nothing is used up."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            newcomer = WellBehaved(address, export)
            break
        except ClientError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
    newcomer.close()


def _server(kind: str, scratch: Path) -> Server:
    volumes = [VolumeSpec("disk", 64 << 20)]
    if kind == "peers":
        from proof.servers.peers import Peers

        return Peers(scratch, volumes)
    from proof.servers.bulkhead import Bulkhead

    return Bulkhead(scratch, volumes)


def _attack(server: Server, place: Place, only: str | None) -> list[str]:
    """All attacks one after the other; what went wrong."""
    wrong: list[str] = []
    address, export = server.iscsi("disk"), server.nbd("disk")
    assert address and export
    good = WellBehaved(address, export)
    for name, attack in ATTACKS:
        if only and only not in name:
            continue
        before = server.rss_bytes()
        with good.at_work():
            try:
                outcome = attack(place)
            except (ProofError, OSError) as error:
                outcome = f"WRONG: {error}"
                wrong.append(f"{name}: {error}")
            growth = server.rss_bytes() - before
        print(
            f"{name}: {outcome}; well-behaved clients: {good.operations} operations, slowest "
            f"{good.slowest_seconds * 1000:.0f} ms; memory {growth >> 20:+d} MiB"
        )
        for child in server.children:
            child.require_alive()
        if good.failure:
            wrong.append(f"{name}: a well-behaved client failed: {good.failure}")
            good.close()
            good = WellBehaved(address, export)
        if good.slowest_seconds > SLOWEST_ANSWER_SECONDS_MAX:
            wrong.append(f"{name}: a well-behaved client waited {good.slowest_seconds:.1f} s")
        try:
            _newcomer_is_served(address, export)
        except ClientError as error:
            wrong.append(f"{name}: {RECOVERY_SECONDS:g} s after it a new client is not served: {error}")
    good.close()
    return wrong


def main(argv: list[str]) -> int:
    """Attacks, and prints the verdict."""
    parser = argparse.ArgumentParser(prog="proof.hostile", description="Hostile clients; the others keep being served.")
    parser.add_argument("--server", choices=("bulkhead", "peers"), default="bulkhead")
    parser.add_argument("--only", help="attacks whose names contain this")
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args(argv)
    runtime.require_nbd()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, most), most))
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    with runtime.scratch("hostile") as scratch, _server(arguments.server, scratch) as server:
        address, export = server.iscsi("disk"), server.nbd("disk")
        assert address and export
        nbd_port, _, name = export.uri.rpartition(":")[2].partition("/")
        place = Place(int(address.portal.rpartition(":")[2]), address.target, int(nbd_port), name, random.Random(seed))
        start = server.rss_bytes()
        wrong = _attack(server, place, arguments.only)
        growth = server.rss_bytes() - start
        if growth > RSS_GROWTH_BYTES_MAX:
            wrong.append(f"memory grew by {growth >> 20} MiB")
    for complaint in wrong:
        print(complaint)
    print(f"hostile: {len(ATTACKS)} attacks, {len(wrong)} wrong, memory {growth >> 20:+d} MiB")
    return 1 if wrong else 0


if __name__ == "__main__":
    runtime.command(main)
