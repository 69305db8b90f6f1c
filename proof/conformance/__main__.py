"""``python3 -m proof.conformance``: see docs/guide/proof.md."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from proof import runtime
from proof.conformance import iscsi_test_cu
from proof.conformance.iscsi_test_cu import Result, Verdict
from proof.conformance.nbd_tools import NbdTools
from proof.conformance.reservations import Reservations
from proof.process import checked
from proof.runtime import ProofError
from proof.servers.base import Server, VolumeSpec
from proof.servers.bulkhead import POOL, Bulkhead

MEBIBYTE = 1 << 20
VOLUME_BYTES = 128 * MEBIBYTE
SECRET_TARGET = "iqn.2026-01.org.example:secret"
USER, SECRET = "judge", "twelve-or-more"
"""CHAP requires secrets of 12 bytes or more (RFC 7143, section 9.2.1)."""


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof.conformance", description="iscsi-test-cu and the stock NBD clients.")
    parser.add_argument("--server", choices=("bulkhead", "peers"), default="bulkhead")
    parser.add_argument("--only", choices=("iscsi", "nbd"))
    parser.add_argument("--family", help="regular expression over iscsi-test-cu's families")
    parser.add_argument("--portal", help="judge a target that already runs: HOST:PORT[,HOST:PORT]/IQN/LUN")
    parser.add_argument("--verbose", action="store_true", help="name the passed tests too")
    return parser.parse_args(argv)


def judge_iscsi(urls: list[str], special: dict[str, str], family_pattern: str | None, verbose: bool) -> list[Result]:
    """Runs all families, those in ``special`` on a unit of their own; prints the notable results."""
    results: list[Result] = []
    for family, tests in iscsi_test_cu.list_families().items():
        if family_pattern and not re.search(family_pattern, family):
            continue
        found = iscsi_test_cu.run_family(family, tests, _urls_for(family, urls, special))
        results += found
        counts = [sum(result.verdict is verdict for result in found) for verdict in Verdict]
        print(f"{family}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
        for result in found:
            if result.verdict is not Verdict.PASSED or verbose:
                print(f"  {result.verdict.value} {result.name} {result.words}")
    return results


def _urls_for(family: str, urls: list[str], special: dict[str, str]) -> list[str]:
    """Returns the URLs for a family: multipath tests need two portals."""
    return urls if family == "MultipathIO" else [special.get(family, urls[0])]


def _special_units(server: Server, scratch: Path) -> dict[str, str]:
    """By family: write protection is judged on a protected unit, CHAP on a target that requires a secret."""
    protected = server.iscsi("protected")
    units = {"ReadOnly": protected.url} if protected else {}
    if isinstance(server, Bulkhead) and protected:
        secret = scratch / "secret"
        secret.write_text(f"{SECRET}\n")
        server.command("target", "create", SECRET_TARGET, "--pool", POOL)
        server.command("volume", "create", f"{POOL}/secret", "--size", "64M")
        server.command("target", "map", SECRET_TARGET, f"{POOL}/secret")
        server.command("target", "chap", "set", SECRET_TARGET, "--user", USER, "--secret-file", str(secret))
        units["iSCSICHAP"] = f"iscsi://{USER}%{SECRET}@{protected.portal}/{SECRET_TARGET}/0"
    return units


def judge_nbd(uri: str, size: int, scratch: Path) -> int:
    """Runs all steps; returns how many failed."""
    return _run_steps(NbdTools(uri, size, scratch).steps())


def judge_reservations(server: Server, volume: str) -> int:
    """Runs all steps, which restart the server; returns how many failed."""
    address = server.iscsi(volume)
    assert address is not None
    reservations = Reservations(server, address)
    try:
        return _run_steps(reservations.steps())
    finally:
        reservations.close()


def _run_steps(steps: list[tuple[str, Callable[[], None]]]) -> int:
    failed = 0
    for name, step in steps:
        try:
            step()
            print(f"  passed {name}")
        except ProofError as error:
            failed += 1
            print(f"  failed {name}: {error}")
    return failed


def _unexpected_skips(results: list[Result]) -> int:
    skipped = [result for result in results if result.verdict is Verdict.SKIPPED]
    by_reason: dict[str, list[Result]] = {}
    for result in skipped:
        reason = iscsi_test_cu.why_accepted(result) or f"NOT ACCEPTED, the feature is supported: {result.words}"
        by_reason.setdefault(reason, []).append(result)
    for reason, results in by_reason.items():
        print(f"  {len(results)} {reason}: {', '.join(result.name for result in results)}")
    return sum(iscsi_test_cu.why_accepted(result) is None for result in skipped)


def _versions() -> str:
    output = checked(["dpkg-query", "-W", "-f", "${Package} ${Version}, ", "libiscsi-bin", "libnbd-bin", "qemu-utils", "fio"], 20)
    return output.rstrip(", ")


def _make_server(kind: str, scratch: Path) -> Server:
    volumes = [VolumeSpec("lun0", VOLUME_BYTES), VolumeSpec("disk", 64 * MEBIBYTE)]
    volumes.append(VolumeSpec("protected", 64 * MEBIBYTE, read_only=True))
    if kind == "peers":
        from proof.servers.peers import Peers

        return Peers(scratch, volumes)
    return Bulkhead(scratch, volumes, portals=2)


def main(argv: list[str]) -> int:
    """Judges iSCSI and NBD; the last line is the verdict."""
    arguments = _arguments(argv)
    print(f"judged by {_versions()}")
    if arguments.portal:
        portals, _, path = arguments.portal.partition("/")
        urls = [f"iscsi://{portal}/{path}" for portal in portals.split(",")]
        return verdict(judge_iscsi(urls, {}, arguments.family, arguments.verbose), 0, 0)
    with runtime.scratch("conformance") as scratch, _make_server(arguments.server, scratch) as server:
        results: list[Result] = []
        nbd_failed = reservations_failed = 0
        if arguments.only != "iscsi":
            address = server.nbd("disk")
            assert address is not None
            print("NBD by nbdinfo, nbdcopy, qemu-img, qemu-io and fio:")
            nbd_failed = judge_nbd(address.uri, 64 * MEBIBYTE, scratch)
        if arguments.only != "nbd":
            print("iSCSI by iscsi-test-cu:")
            urls = [address.url for address in server.iscsi_portals("lun0")]
            results = judge_iscsi(urls, _special_units(server, scratch), arguments.family, arguments.verbose)
            if arguments.server == "bulkhead" and not arguments.family:
                print("Persistent reservations by libiscsi, over restarts:")
                reservations_failed = judge_reservations(server, "disk")
        return verdict(results, nbd_failed, reservations_failed)


def verdict(results: list[Result], nbd_failed: int, reservations_failed: int) -> int:
    """Prints the counts; returns the exit status."""
    unexpected = _unexpected_skips(results)
    counts = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    print(f"nbd: {nbd_failed} failed; reservations: {reservations_failed} failed; skips that are not accepted: {unexpected}")
    print(
        f"iscsi-test-cu: {counts[Verdict.PASSED]} passed, {counts[Verdict.FAILED]} failed, "
        f"{counts[Verdict.SKIPPED]} skipped"
    )
    return 0 if not (counts[Verdict.FAILED] or unexpected or nbd_failed or reservations_failed) else 1


if __name__ == "__main__":
    runtime.command(main)
