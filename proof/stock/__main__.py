"""``python3 -m proof.stock``: qemu's iSCSI (libiscsi) and NBD clients, as Debian has them, through moves and a crash.

Two heads in the lab. ``qemu-io`` writes over iSCSI and over NBD, each by one address, durably and one write at a time,
with no setting but NBD's ``reconnect-delay``. No write may fail, all are read back, and the longest time between two
replies is reported for each fault.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time

from proof import runtime
from proof.linux.appliance import Appliance, LabIncapable
from proof.runtime import ProofError
from proof.stock.client import StockClient
from proof.stock.volumes import clients_of, export

FAULTS = ("move", "active-power")
CALM_WRITES = 30
"""Before each fault, so that all clients are active."""
WORK_SECONDS = 120.0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof.stock", description="Stock clients through a takeover.")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"which: {', '.join(FAULTS)} [default: all]")
    parser.add_argument("--rounds", type=int, default=3, help="how often each")
    parser.add_argument("--profile", choices=("fast", "default", "conservative"), default="fast", help="time-outs of the two heads")
    parser.add_argument("--pause-max", type=float, default=30.0, metavar="SECONDS", help="a longer pause fails")
    return parser.parse_args(argv)


def _strike(appliance: Appliance, fault: str) -> None:
    head = appliance.settle()
    if fault == "move":
        appliance.move(head)
    else:
        appliance.power(head, "off")


def _rounds(appliance: Appliance, clients: list[StockClient], fault: str, rounds: int) -> dict[str, list[float]]:
    pauses: dict[str, list[float]] = {client.name: [] for client in clients}
    for _ in range(rounds):
        head = appliance.settle()
        for client in clients:
            client.wait_writes(CALM_WRITES, WORK_SECONDS)
            client.take_longest()
        _strike(appliance, fault)
        time.sleep(1)
        for client in clients:
            client.wait_writes(CALM_WRITES, WORK_SECONDS)
            pauses[client.name].append(client.take_longest())
        if fault == "active-power":
            appliance.power(head, "on")
    return pauses


def _skip(why: str) -> int:
    print(f"stock: skipped: {why}")
    return 0


def main(argv: list[str]) -> int:
    """Runs the faults and prints the pauses."""
    arguments = _arguments(argv)
    if unknown := set(arguments.faults) - set(FAULTS):
        raise ProofError(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    if not shutil.which("qemu-io"):
        return _skip("needs qemu-io (package qemu-utils)")
    appliance = Appliance(arguments.profile)
    try:
        appliance.up()
    except LabIncapable as error:
        return _skip(" ".join(str(error).split()))
    failed = False
    try:
        export(appliance)
        clients = clients_of(appliance)
        for fault in arguments.faults or FAULTS:
            for name, pauses in _rounds(appliance, clients, fault, arguments.rounds).items():
                failed |= max(pauses) > arguments.pause_max
                shown = " ".join(f"{pause:.2f}" for pause in pauses)
                print(f"{fault:13} {name:6} median {statistics.median(pauses):.2f} s, worst {max(pauses):.2f} s ({shown})", flush=True)
        written = {client.name: client.finish() for client in clients}
        counts = ", ".join(f"{count} writes over {name}" for name, count in written.items())
        print(f"stock: {counts}, 0 errors, all read back" + (", the pause is too long" if failed else ""))
    finally:
        appliance.down()
    return 1 if failed else 0


if __name__ == "__main__":
    runtime.command(main)
