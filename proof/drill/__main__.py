"""``python3 -m proof.drill``: initiators that run until a stop command.

Standard input holds commands, one per line: ``verify`` and ``stop``; the end of input is ``stop``. Standard output
reports events (``proof.drill.events``): ``ready`` once, ``tick`` while it runs, ``verified`` after each ``verify``,
``ended`` last.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import sys

from proof import runtime
from proof.clients.base import Client, drive
from proof.clients.iscsi import IscsiAddress
from proof.clients.nbd import NbdAddress
from proof.clients.nfs import NfsAddress
from proof.drill.events import Events
from proof.drill.files import FileInitiator
from proof.drill.initiator import Initiator, Load
from proof.drill.path import IscsiWay, NbdWay

TICK_S = 0.1
TURN_S = 0.005
"""Resolution of the deadlines."""
CALM_TURN_S = 0.02
CALM_RATE = 20.0


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m proof.drill", description=__doc__)
    parser.add_argument("--iscsi", metavar="HOST:PORT[,HOST:PORT]/TARGET/LUN", help="a unit, with all paths to it")
    parser.add_argument("--nbd", metavar="URI[,URI]", help="an export, with all paths to it")
    parser.add_argument("--nfs", metavar="URI[,URI]", help="a file, with all paths to it")
    parser.add_argument("--initiator", default="iqn.2026-01.org.example:drill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--depth", type=int, default=Load.depth)
    parser.add_argument("--rate", type=float, default=Load.rate, help="maximal requests a second of each initiator")
    parser.add_argument("--calm", action="store_true", help="low load: one client of many on a small host")
    parser.add_argument("--patient", action="store_true", help="never ping; wait for TCP, as stock clients do")
    arguments = parser.parse_args(words)
    if arguments.calm:
        arguments.depth, arguments.rate = 1, CALM_RATE
    return arguments


def _load(arguments: argparse.Namespace, forced: float = Load.forced) -> Load:
    return Load(depth=arguments.depth, rate=arguments.rate, forced=forced)


def _iscsi(way: str, arguments: argparse.Namespace, rng: random.Random, events: Events) -> Initiator:
    portals, target, lun = way.split("/")
    addresses = [IscsiAddress(portal, target, int(lun)) for portal in portals.split(",")]
    ways = [IscsiWay(address, arguments.initiator, number) for number, address in enumerate(addresses, 1)]
    # The unit reports no write cache: an acknowledged write is durable.
    return Initiator("iscsi", ways, rng, _load(arguments), events, True, arguments.patient)


def _nbd(way: str, arguments: argparse.Namespace, rng: random.Random, events: Events) -> Initiator:
    runtime.require_nbd()
    ways = [NbdWay(NbdAddress(uri)) for uri in way.split(",")]
    # NBD has no such report: every write sets FUA itself.
    return Initiator("nbd", ways, rng, _load(arguments, forced=1.0), events, False, arguments.patient)


def _nfs(way: str, arguments: argparse.Namespace, rng: random.Random, events: Events) -> Initiator:
    addresses = [NfsAddress.parse(uri) for uri in way.split(",")]
    return FileInitiator("nfs", addresses, rng, _load(arguments), events, arguments.patient)


INITIATORS = {"iscsi": _iscsi, "nbd": _nbd, "nfs": _nfs}
"""Each kind by its option, as ``drills/runner/src/kinds`` names it."""


def _initiators(arguments: argparse.Namespace, events: Events) -> list[Initiator]:
    rng = random.Random(arguments.seed)
    found = []
    for name, kind in INITIATORS.items():
        if way := getattr(arguments, name):
            found.append(kind(way, arguments, random.Random(rng.random()), events))
    if not found:
        raise runtime.ProofError("no initiator has an address: " + ", ".join(f"--{name}" for name in INITIATORS))
    return found


class Commands:
    """The commands on the standard input."""

    def __init__(self) -> None:
        os.set_blocking(0, False)
        self._rest = b""

    def read(self) -> list[str]:
        """Returns the new lines; ``stop`` at the end of the input."""
        if not select.select([0], [], [], 0)[0]:
            return []
        bytes_read = os.read(0, 4096)
        if not bytes_read:
            return ["stop"]
        *lines, self._rest = (self._rest + bytes_read).split(b"\n")
        return [line.decode().strip() for line in lines]


class Session:
    """The event loop."""

    def __init__(self, initiators: list[Initiator], events: Events, turn_s: float = TURN_S):
        self._initiators = initiators
        self._events = events
        self._turn_s = turn_s
        self._is_ready = False
        self._ticked_at = 0.0
        self._verifying = 0

    def run(self) -> None:
        """Runs until the stop command."""
        commands = Commands()
        while True:
            for word in commands.read():
                if word == "stop":
                    return
                if word == "verify":
                    self._verify()
            now = self._events.now()
            for initiator in self._initiators:
                initiator.turn(now)
            clients: list[Client] = [client for initiator in self._initiators for client in initiator.clients]
            if clients:
                drive(clients, self._turn_s)
            if not any(client.descriptor() >= 0 for client in clients):
                select.select([], [], [], self._turn_s)
            self._tell(now)

    def _tell(self, now: float) -> None:
        if not self._is_ready and all(initiator.is_ready for initiator in self._initiators):
            self._is_ready = True
            self._events.tell("ready")
        if now - self._ticked_at >= TICK_S:
            self._ticked_at = now
            answers = {initiator.name: initiator.counts.answers for initiator in self._initiators}
            last = {initiator.name: round(initiator.last_answer, 6) for initiator in self._initiators}
            self._events.tell("tick", answers=answers, last=last)

    def _verify(self) -> None:
        self._verifying = len(self._initiators)

        def finished() -> None:
            self._verifying -= 1
            if not self._verifying:
                self._events.tell("verified", **self._report())

        for initiator in self._initiators:
            initiator.verify(finished)

    def _report(self) -> dict[str, object]:
        return {initiator.name: initiator.report() for initiator in self._initiators}

    def end(self) -> None:
        """Closes the connections and prints the result."""
        self._events.tell("ended", **self._report())
        for initiator in self._initiators:
            initiator.give_up()


def main(words: list[str]) -> int:
    """Runs the initiators."""
    events, arguments = Events(), _arguments(words)
    session = Session(_initiators(arguments, events), events, CALM_TURN_S if arguments.calm else TURN_S)
    session.run()
    session.end()
    return 0


if __name__ == "__main__":
    runtime.command(main)
