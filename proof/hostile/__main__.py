"""``python3 -m proof.hostile``: see docs/guide/proof.md."""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from proof import runtime
from proof.clients.base import ClientError
from proof.clients.iscsi import IscsiAddress
from proof.clients.nbd import NbdAddress
from proof.clients.nfs import NfsAddress
from proof.clients.steady import WellBehaved
from proof.hostile import nfs
from proof.hostile.attacks import ATTACKS, Place
from proof.runtime import ProofError
from proof.servers.base import Server, VolumeSpec

RSS_GROWTH_BYTES_MAX = 512 << 20
"""Bound of the growth of the server's memory by all attacks together."""

SLOWEST_ANSWER_SECONDS_MAX = 5.0
PAUSE_SECONDS = 0.02
RECOVERY_SECONDS = 40.0
DESCRIPTORS = 16384
DESCRIPTORS_LEFT_MAX = 64
"""Bound of the descriptors that a server may have open in addition after all attacks: connections that are being
closed, cached files."""


@dataclass(frozen=True)
class Served:
    """The addresses for well-behaved clients."""

    iscsi: IscsiAddress
    export: NbdAddress
    file: NfsAddress | None

    def client(self) -> WellBehaved:
        """Returns one well-behaved client."""
        return WellBehaved(self.iscsi, self.export, self.file)


def _newcomer_is_served(served: Served) -> None:
    """After an attack, a new client can log in: no resource is exhausted."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            newcomer = served.client()
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

    return Bulkhead(scratch, [*volumes, VolumeSpec("files", 64 << 20, is_file=True)])


Attacks = Sequence[tuple[str, Callable[[], str]]]


def _attacks(served: Served, rng: random.Random, only: str) -> Attacks:
    """Returns the attacks with ``only`` in their name."""
    nbd_port, _, name = served.export.uri.rpartition(":")[2].partition("/")
    place = Place(int(served.iscsi.portal.rpartition(":")[2]), served.iscsi.target, int(nbd_port), name, rng)
    attacks: list[tuple[str, Callable[[], str]]] = [(name, partial(attack, place)) for name, attack in ATTACKS]
    if served.file:
        files = nfs.NfsPlace(served.file.port, served.file.path[:-1], rng)
        attacks += [(name, partial(_from_elsewhere, files, number, attack)) for number, (name, attack) in enumerate(nfs.ATTACKS, 1)]
    return [(name, attack) for name, attack in attacks if only in name]


def _from_elsewhere(place: nfs.NfsPlace, number: int, attack: Callable[[nfs.NfsPlace], str]) -> str:
    place.move(number)
    return attack(place)


def _attack(server: Server, served: Served, attacks: Attacks) -> list[str]:
    """Runs all attacks one after the other; returns the failures."""
    wrong: list[str] = []
    good = served.client()
    for name, attack in attacks:
        before, descriptors = server.rss_bytes(), len(server.descriptors())
        with good.at_work():
            try:
                outcome = attack()
            except (ProofError, OSError) as error:
                outcome = f"WRONG: {error}"
                wrong.append(f"{name}: {error}")
            growth = server.rss_bytes() - before
        print(
            f"{name}: {outcome}; well-behaved clients: {good.operations} operations, slowest "
            f"{good.slowest_seconds * 1000:.0f} ms; memory {growth >> 20:+d} MiB, {len(server.descriptors()) - descriptors:+d} descriptors"
        )
        for child in server.children:
            child.require_alive()
        if good.failure:
            wrong.append(f"{name}: a well-behaved client failed: {good.failure}")
            good.close()
            good = served.client()
        if good.slowest_seconds > SLOWEST_ANSWER_SECONDS_MAX:
            wrong.append(f"{name}: a well-behaved client waited {good.slowest_seconds:.1f} s")
        try:
            _newcomer_is_served(served)
        except ClientError as error:
            wrong.append(f"{name}: {RECOVERY_SECONDS:g} s after it a new client is not served: {error}")
    good.close()
    return wrong


def main(argv: list[str]) -> int:
    """Attacks, and prints the verdict."""
    parser = argparse.ArgumentParser(prog="proof.hostile", description="Runs hostile clients; well-behaved clients must stay served.")
    parser.add_argument("--server", choices=("bulkhead", "peers"), default="bulkhead")
    parser.add_argument("--only", default="", help="attacks with this string in their name")
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
        served = Served(address, export, server.nfs("files"))
        attacks = _attacks(served, random.Random(seed), arguments.only)
        start, before = server.rss_bytes(), Counter(server.descriptors())
        wrong = _attack(server, served, attacks)
        growth = server.rss_bytes() - start
        left = Counter(server.descriptors()) - before
        if left.total() > DESCRIPTORS_LEFT_MAX:
            wrong.append(f"{left.total()} descriptors more than before are open: {left.most_common(5)}")
        if growth > RSS_GROWTH_BYTES_MAX:
            wrong.append(f"memory grew by {growth >> 20} MiB")
    for complaint in wrong:
        print(complaint)
    print(f"hostile: {len(attacks)} attacks, {len(wrong)} wrong, memory {growth >> 20:+d} MiB")
    return 1 if wrong else 0


if __name__ == "__main__":
    runtime.command(main)
