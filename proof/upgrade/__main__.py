"""``python3 -m proof.upgrade``: two heads are upgraded and downgraded under qemu's iSCSI and NBD clients.

A fault stops the upgrade in each of its steps: the install fails or installs nothing, the command is killed, the head
loses its power, or the cluster powers it off after the install. After each, the same command continues. No write may fail, and only a move of the pool may pause the clients. The
second release is the same code with another version (``proof.upgrade.release``).
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from proof import runtime
from proof.linux.appliance import POOL, Appliance, LabIncapable
from proof.process import Child, Outcome, run
from proof.runtime import ProofError, wait_until
from proof.stock.client import StockClient
from proof.stock.volumes import clients_of, export
from proof.upgrade.release import Release

UPGRADE_SECONDS = 600.0
STEP_SECONDS = 200.0
CALM_WRITES = 30
POLL_SECONDS = 0.2
HEADS = ("left", "right")
DRIVER = "left"
"""The head on which the command runs; it is upgraded last."""
EXIT_CONFIRM, EXIT_DIFFERENCE, EXIT_STOPPED = 6, 13, 14


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof.upgrade", description="An upgrade head by head, under clients.")
    parser.add_argument("--profile", choices=("fast", "default", "conservative"), default="default", help="time-outs of the two heads")
    parser.add_argument("--without-faults", action="store_true", help="only the upgrade and the downgrade")
    parser.add_argument("--pause-max", type=float, default=30.0, metavar="SECONDS", help="a longer pause of a move fails")
    parser.add_argument("--calm-max", type=float, default=5.0, metavar="SECONDS", help="a longer pause without a move fails")
    return parser.parse_args(argv)


class Drill:
    """The appliance, its clients, and the release that is installed."""

    def __init__(self, appliance: Appliance, clients: list[StockClient], release: Release, folder: Path, arguments: argparse.Namespace):
        self.appliance, self.clients, self.release = appliance, clients, release
        self._folder, self._arguments = folder, arguments
        self.complaints: list[str] = []

    def words(self, version: str, *options: str) -> list[str]:
        """The command of an upgrade to ``version``."""
        return ["bulkhead", "appliance", "upgrade", "--ssh", "--install-command", self.release.command, "--to", version, *options]

    def upgrade(self, version: str, *options: str) -> Outcome:
        """Runs an upgrade to its end."""
        return run(self.appliance.command(DRIVER, *self.words(version, *options)), UPGRADE_SECONDS)

    def begin(self, version: str) -> Child:
        """Starts an upgrade."""
        return Child("upgrade", self.appliance.command(DRIVER, *self.words(version)), self._folder / "upgrade.log")

    def expect(self, what: str, outcome: Outcome, status: int, *parts: str) -> None:
        """Checks the exit status and the output."""
        if outcome.status != status:
            raise ProofError(f"{what}: exit status {outcome.status}, not {status}:\n{outcome.output}")
        for part in parts:
            if part not in outcome.output:
                raise ProofError(f"{what}: the output does not contain {part!r}:\n{outcome.output}")

    def phase(self, name: str, moves: int, act: Callable[[], None]) -> None:
        """Performs a part of the drill with active clients, and judges their longest pauses."""
        for client in self.clients:
            client.wait_writes(CALM_WRITES, STEP_SECONDS)
            client.take_longest()
        started = time.monotonic()
        act()
        took = time.monotonic() - started
        for client in self.clients:
            client.wait_writes(CALM_WRITES, STEP_SECONDS)
        pauses = {client.name: client.take_longest() for client in self.clients}
        limit = self._arguments.pause_max if moves else self._arguments.calm_max
        shown = ", ".join(f"{client} {pause:.2f} s" for client, pause in pauses.items())
        print(f"{name:34} {took:6.1f} s, moves {moves}, longest pause: {shown}", flush=True)
        if max(pauses.values()) > limit:
            self.complaints.append(f"{name}: a pause is longer than {limit:g} s")

    def state(self) -> dict[str, str]:
        """The version that each head has installed."""
        return {head: self.appliance.on(head, "bulkhead", "--version").split()[1] for head in HEADS}

    def require(self, versions: tuple[str, str], server: str) -> None:
        """Checks the versions of the heads, and the head that serves the pool."""
        found = self.state()
        if found != dict(zip(HEADS, versions, strict=True)):
            raise ProofError(f"the heads have {found}, not {versions}")
        # A head in maintenance is no member.
        cluster = self.appliance.status()["cluster"] or {}
        if (serving := cluster.get("pools", {}).get(POOL, {}).get("head")) != server:
            raise ProofError(f"{serving} serves the pool, not {server}")

    def running(self) -> str:
        """The version of the process that serves the pool."""
        status = json.loads(self.appliance.on(DRIVER, "bulkhead", "status", POOL, "--json"))
        version: str = status["server"]["version"]
        return version


def _faults(drill: Drill) -> None:
    """Each fault stops the upgrade of the idle head; the other one serves on."""
    release, old = drill.release, drill.release.old

    def stops(fault: str, *parts: str) -> Callable[[], None]:
        def act() -> None:
            release.fault(fault)
            drill.expect(fault, drill.upgrade(release.new), EXIT_STOPPED, "The heads now:", "--downgrade", *parts)
            release.fault("")
            drill.require((old, old), "left")

        return act

    drill.phase("the install fails", 0, stops("fails", "no space left on device", "right: 0", "in maintenance"))
    drill.phase("the install installs nothing", 0, stops("nothing", "without effect"))

    def killed() -> None:
        release.fault("slow")
        process = drill.begin(release.new)
        wait_until("the install begins", release.is_reached, STEP_SECONDS, POLL_SECONDS)
        second = drill.upgrade(release.new)
        drill.expect("a second upgrade", second, 5, "another run changes the heads already")
        drill.appliance.on(DRIVER, "pkill", "-9", "-f", "appliance upgrade")
        wait_until("the command is gone", lambda: not process.alive(), STEP_SECONDS, POLL_SECONDS)
        release.fault("")

    drill.phase("the command is killed", 0, killed)

    def loses_power() -> None:
        # In a lab the new binary is gone with the power, as after an install that was not written yet.
        drill.appliance.power("right", "off")
        drill.expect("without right", drill.upgrade(release.new), EXIT_STOPPED, "right")
        drill.appliance.power("right", "on")
        wait_until("right is a member", lambda: "right" in (drill.appliance.status()["cluster"] or {}).get("online", []), STEP_SECONDS, 1.0)

    drill.phase("the head loses its power", 0, loses_power)

    def is_fenced() -> None:
        release.fault("dies")
        drill.expect("a fence", drill.upgrade(release.new), EXIT_STOPPED, "right")
        release.fault("")
        wait_until("right is off", lambda: not drill.appliance.status()["heads"]["right"]["powered"], STEP_SECONDS, 1.0)
        drill.appliance.power("right", "on")
        wait_until("right is a member", lambda: "right" in (drill.appliance.status()["cluster"] or {}).get("online", []), STEP_SECONDS, 1.0)

    drill.phase("the head is fenced", 0, is_fenced)


def _completes(drill: Drill) -> None:
    release = drill.release

    def upgraded() -> None:
        drill.expect("the upgrade", drill.upgrade(release.new), 0, f"all heads run {release.new}", "tank: move home to left")
        drill.require((release.new, release.new), "left")
        if drill.running() != release.new:
            raise ProofError(f"the server of the pool is {drill.running()}")

    drill.phase(f"{release.old} to {release.new}", 2, upgraded)

    def again() -> None:
        drill.expect("again", drill.upgrade(release.new), 0, "already")
        drill.expect("older", drill.upgrade(release.old), EXIT_STOPPED, "which is newer", "add --downgrade")
        drill.expect("unconfirmed", drill.upgrade(release.old, "--downgrade"), EXIT_CONFIRM, "formats", "--yes")
        drill.require((release.new, release.new), "left")

    drill.phase("repeated, and refused", 0, again)

    def reverted() -> None:
        drill.expect("back", drill.upgrade(release.old, "--downgrade", "--yes"), 0, f"all heads run {release.old}")
        drill.require((release.old, release.old), "left")

    drill.phase(f"{release.new} to {release.old}", 2, reverted)


def main(argv: list[str]) -> int:
    """Runs the drill and prints the pauses."""
    arguments = _arguments(argv)
    if not shutil.which("qemu-io"):
        print("upgrade: skipped: needs qemu-io (package qemu-utils)")
        return 0
    appliance = Appliance(arguments.profile)
    try:
        appliance.up()
    except LabIncapable as error:
        print(f"upgrade: skipped: {error}")
        return 0
    with runtime.scratch("upgrade") as folder:
        try:
            export(appliance)
            release = Release(folder)
            drill = Drill(appliance, clients_of(appliance), release, folder, arguments)
            shown = drill.upgrade(release.new, "--dry-run")
            drill.expect("the plan", shown, EXIT_DIFFERENCE, "1. right: ", "2. left: ", "each pool moves to its home")
            if not arguments.without_faults:
                _faults(drill)
            _completes(drill)
            written = {client.name: client.finish() for client in drill.clients}
        finally:
            appliance.down()
    counts = ", ".join(f"{count} writes over {name}" for name, count in written.items())
    return runtime.verdict(drill.complaints, f"upgrade: {counts}, 0 errors, all read back")


if __name__ == "__main__":
    runtime.command(main)
