"""``python3 -m proof.linux [--minutes n]``: see docs/guide/linux-initiator.md."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from proof import runtime
from proof.linux import kernel_log, root
from proof.linux.faults import Faults
from proof.linux.machine import MEMORY_MIB, Machine
from proof.linux.network import leave_the_machines_network
from proof.linux.steps import FileSystems, NetworkBlockDevice, Session, require
from proof.linux.target import PortalServer
from proof.linux.trial import EssentialStepFailed, Trial

SERVER_MEMORY_MIB = 1024


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof.linux", description="A real Linux initiator in a virtual machine judges the server.")
    parser.add_argument("--minutes", type=float, default=0, help="go on killing the server until so much time has passed")
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    return parser.parse_args(argv)


def _reason_to_skip() -> str:
    """Why this machine cannot run a guest; empty when it can."""
    if missing := root.missing_programs():
        return f"not installed: {', '.join(missing)} (scripts/deps.sh linux)"
    if os.geteuid() != 0 or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "needs root and /dev/net/tun, for networks in a namespace of its own"
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) // 1024
    if available < MEMORY_MIB + SERVER_MEMORY_MIB:
        return f"needs {MEMORY_MIB + SERVER_MEMORY_MIB} MiB of free memory, {available} are left"
    return ""


def _run(trial: Trial, machine: Machine, server: PortalServer, minutes: float) -> None:
    started = time.monotonic()
    session = Session(machine, server)
    trial.step("daemons", session.start_daemons, essential=True)
    trial.step("discovery", session.discover, essential=True)
    trial.step("wrong secret", session.wrong_secret, expected=kernel_log.PATH_LOST)
    trial.step("login", session.log_in, essential=True)
    trial.step("identity", session.identify, essential=True)
    trial.step("multipath", session.multipath, essential=True)
    trial.step("persistent reservations", session.reservations, expected=kernel_log.RESERVED)
    files = FileSystems(session)
    trial.step("write zeroes and discard", files.zero_and_discard)
    trial.step("xfs", files.xfs, essential=True)
    trial.step("grow in use", files.grow)
    trial.step("fstrim", files.trim)
    network_disk = NetworkBlockDevice(machine, server)
    if network_disk.available():
        trial.step("nbd", network_disk.use)
    else:
        trial.skip("nbd", "this kernel has no nbd module")
    trial.step("ext4", files.ext4, essential=True)
    faults = Faults(session)
    lost = kernel_log.PATH_LOST
    trial.step("server killed", faults.killed, expected=lost)
    trial.step("server killed and away for long", faults.long_outage, expected=lost)
    trial.step("server restarted", faults.restarted, expected=lost)
    trial.step("one network dead", faults.path_cut, expected=lost)
    trial.step("one session ended", faults.path_logged_out, expected=lost)
    while time.monotonic() - started < minutes * 60 and not trial.failed:
        trial.step("server killed again", faults.killed, expected=lost)
    trial.step("ext4 after the faults", files.ext4_check)
    trial.step("logout", session.log_out)


def main(argv: list[str]) -> int:
    """Runs the steps and prints the verdict."""
    arguments = _arguments(argv)
    if reason := _reason_to_skip():
        print(f"skipped: {reason}")
        print("linux initiator: 0 passed, 0 failed, 1 skipped")
        return 0
    started = time.monotonic()
    image = root.guest_image()
    print(f"guest: Linux {image.release}, ready after {time.monotonic() - started:.0f} s")
    leave_the_machines_network()
    with runtime.scratch("linux", arguments.keep) as scratch:
        machine = Machine(scratch, image)
        server = PortalServer(scratch)
        trial = Trial(machine)
        try:
            server.prepare()
            server.start()
            server.wait_ready()
            machine.wait_booted()
            print(f"guest: booted by {machine.kind} after {time.monotonic() - started:.0f} s")
            machine.run("dmesg --clear")
            _run(trial, machine, server, arguments.minutes)
            machine.power_off()
            trial.audit(lambda: _audit(server))
        except EssentialStepFailed as error:
            print(error)
        finally:
            machine.power_off()
            server.kill()
    print(f"took {time.monotonic() - started:.0f} s")
    print(trial.verdict())
    return 0 if trial.failed == 0 else 1


def _audit(server: PortalServer) -> str:
    server.stop()
    findings = server.audit()
    require(not findings, f"zdb found: {findings}")
    return "zdb read every block and found nothing"


if __name__ == "__main__":
    runtime.command(main)
