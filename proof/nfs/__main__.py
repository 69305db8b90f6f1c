"""``python3 -m proof.nfs``: see docs/guide/proof.md. pynfs is not packaged by Debian: ``PYNFS`` is the path of a
built checkout."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

from proof import runtime
from proof.nfs import realm, secured
from proof.process import checked, run
from proof.runtime import REPOSITORY, ProofError
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import POOL, SHARE, Bulkhead

ADDRESS = "127.77.20.49"
"""pynfs always connects to port 2049: an address of our own does not conflict with other servers on that port."""

BEHIND = "127.77.20.50"
"""The address of the server behind the relay."""

PORT = 2049
LEASE_SECONDS = 12
"""Some tests sleep until a lease expires, and one sleeps for ten seconds less."""

BUILD_SECONDS = 900
JUDGE_SECONDS = 1800

MINORS = (0, 1, 2)

NO_DELEGATIONS = "there are no delegations"
KNOWN = [(re.compile(r"DELEG\d+"), NO_DELEGATIONS)]
"""Codes of tests that fail, and the reasons. A failure without a reason here fails the run."""

KNOWN_OF_KERBEROS = [(re.compile(r"CSESS10"), "a session of a Kerberos principal is used by no other principal (decision 0084)")]

KNOWN_OF_POOL = [(re.compile(r"ALLOC\d+"), "a copy-on-write file system cannot preallocate space of a file")]
"""The same, for the files of a pool."""

HELPER = """#!/bin/sh
echo "$1" >{folder}/asked
read answer <{folder}/done
"""
"""The script that pynfs runs to restart the server: the names of two pipes are inserted."""

NOT_IN_THE_WAY = "a new open that conflicts with no reclaimable state is not refused"

KNOWN_OF_MINOR = {
    0: [(re.compile("REBT11"), NOT_IN_THE_WAY)],
    1: [(re.compile("REBT[234][ab]"), NOT_IN_THE_WAY)],
    2: [
        (re.compile("REBT[234][ab]"), NOT_IN_THE_WAY),
        (re.compile("EID4"), "it treats a flag of NFS 4.2 as undefined"),
    ],
}


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof.nfs", description="pynfs against files in memory, or in a pool.")
    parser.add_argument("--pool", action="store_true", help="against the server of a pool ($BULKHEAD or the release build)")
    parser.add_argument("--reboot", action="store_true", help="the tests that restart the server, of a pool, which is killed for that")
    parser.add_argument("--tls", action="store_true", help="the server of a pool requires TLS, and pynfs connects through a relay that adds it")
    parser.add_argument("--security", choices=("krb5", "krb5i", "krb5p"), help="pynfs is root by Kerberos, of a realm of its own; with files in memory, minor versions 1 and 2")
    parser.add_argument("--pynfs", type=Path, default=os.environ.get("PYNFS"), help="a built checkout of pynfs (PYNFS)")
    parser.add_argument("--python", default=os.environ.get("PYNFS_PYTHON", "python3"), help="a Python below 3.13 with ply")
    parser.add_argument("--minor", type=int, choices=MINORS, action="append", help="minor version; all by default")
    parser.add_argument("tests", nargs="*", help="flags or codes of pynfs's tests; by default all, or those that restart the server")
    arguments = parser.parse_args(argv)
    arguments.pool |= arguments.reboot or arguments.tls
    if arguments.security and (arguments.pool or 0 in (arguments.minor or [])):
        parser.error("--security is for files in memory, and minor versions 1 and 2")
    if arguments.security:
        arguments.minor = arguments.minor or [1, 2]
    arguments.tests = arguments.tests or (["reboot"] if arguments.reboot else ["all"])
    return arguments


def _kill_when_asked(folder: Path, server: Bulkhead) -> None:
    """Kills and restarts the server on each request of the helper."""
    while "reboot" in (folder / "asked").read_text():
        server.kill()
        server.start()
        server.wait_ready()
        (folder / "done").write_text("done\n")


@contextmanager
def _helper(folder: Path, server: Bulkhead) -> Iterator[None]:
    """A script that requests a kill and restart of the server, until the block exits."""
    helper = _helper_of(folder)
    helper.write_text(HELPER.format(folder=folder))
    helper.chmod(0o755)
    for name in ("asked", "done"):
        os.mkfifo(folder / name)
    killer = threading.Thread(target=_kill_when_asked, args=(folder, server), daemon=True)
    killer.start()
    try:
        yield
    finally:
        if killer.is_alive():
            (folder / "asked").write_text("end\n")
        killer.join()


def _helper_of(folder: Path) -> Path:
    return folder / "reboot.sh"


@contextmanager
def _pool(scratch: Path, *, by_tls: bool) -> Iterator[str]:
    """Serves a file system of a pool until the block exits, with ``by_tls`` only over TLS; yields its path."""
    scratch.mkdir()
    options = ["--nfs", f"{BEHIND if by_tls else ADDRESS}:{PORT}"]
    way: AbstractContextManager[None] = nullcontext()
    if by_tls:
        certificate, key = secured.create_certificate(scratch)
        options += ["--nfs-tls-cert", str(certificate), "--nfs-tls-key", str(key)]
        way = secured.relay((ADDRESS, PORT), (BEHIND, PORT), certificate)
    server = Bulkhead(scratch, [VolumeSpec("files", 0, is_file=True)], options=tuple(options))
    try:
        server.prepare()
        server.start()
        server.wait_ready()
        if by_tls:
            server.command("volume", "set", POOL, f"sharenfs={SHARE},xprtsec=tls")
        with _helper(scratch, server), way:
            yield f"/{POOL}/files"
    finally:
        server.kill()


@contextmanager
def _memory(security: str | None, kerberos: realm.Realm | None) -> Iterator[str]:
    """Serves files in memory until the block exits; it exits with us, too, because its input is closed."""
    checked([REPOSITORY / "scripts/cargo.sh", "build", "--locked", "-q", "-p", "nfs", "--example", "memory_nfs"], BUILD_SECONDS)
    program = REPOSITORY / "target/debug/examples/memory_nfs"
    # Where pynfs acts as another user, it does so by AUTH_SYS.
    by_kerberos = ["--keytab", str(kerberos.keytab), f"{security}:sys"] if kerberos else []
    command = [str(program), str(LEASE_SECONDS), *by_kerberos, f"{ADDRESS}:{PORT}"]
    environment = os.environ | (kerberos.environment if kerberos else {})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise ProofError(f"{program} does not listen on {ADDRESS}:{PORT}")
        try:
            yield "/"
        finally:
            process.terminate()


def _why_known(code: str, minor: int, is_pool: bool, is_kerberos: bool) -> str | None:
    known = KNOWN + KNOWN_OF_MINOR.get(minor, []) + (KNOWN_OF_POOL if is_pool else []) + (KNOWN_OF_KERBEROS if is_kerberos else [])
    return next((reason for pattern, reason in known if pattern.fullmatch(code)), None)


def _judge(arguments: argparse.Namespace, minor: int, scratch: Path) -> tuple[int, int, int]:
    """Returns passed tests, failures with a reason, failures without one."""
    results = scratch / f"minor-{minor}.json"
    program = arguments.pynfs / ("nfs4.1" if minor else "nfs4.0") / "testserver.py"
    folder = scratch / f"pool-{minor}"
    environment = {"PYTHONPATH": str(arguments.pynfs)}
    with ExitStack() as stack:
        kerberos = None
        if arguments.security:
            kerberos = stack.enter_context(realm.serving(scratch / f"realm-{minor}", f"nfs/{ADDRESS}"))
            environment |= kerberos.environment
        path = stack.enter_context(_pool(folder, by_tls=arguments.tls) if arguments.pool else _memory(arguments.security, kerberos))
        command = [arguments.python, program, f"{ADDRESS}:{path}", f"--minorversion={minor}", "--maketree", f"--json={results}"]
        if arguments.reboot:
            command += ["--rundeps", f"--serverhelper={_helper_of(folder)}"]
        if arguments.security:
            command.append(f"--security={arguments.security}")
        outcome = run([*command, *arguments.tests], JUDGE_SECONDS, env=environment)
    if not results.exists():
        raise ProofError(f"pynfs ended without results:\n{outcome.output[-2000:]}")
    passed = known = wrong = 0
    for case in json.loads(results.read_text())["testcase"]:
        if "skipped" in case:
            continue
        if "failure" not in case and "error" not in case:
            passed += 1
            continue
        reason = _why_known(case["code"], minor, arguments.pool, arguments.security is not None)
        words = reason or (case.get("failure") or case["error"])["message"]
        known += reason is not None
        wrong += reason is None
        print(f"  {'known' if reason else 'FAILED'} {case['code']} {case['name']}: {words}")
    return passed, known, wrong


def main(argv: list[str]) -> int:
    """Runs pynfs for each minor version; the last line is the verdict."""
    arguments = _arguments(argv)
    if arguments.pynfs is None:
        print("skipped: pynfs is missing. Clone and build it (python3 setup.py build), then set PYNFS=DIRECTORY")
        return 0
    with runtime.scratch("nfs") as scratch:
        counts = [_judge(arguments, minor, scratch) for minor in arguments.minor or MINORS]
    passed, known, wrong = (sum(column) for column in zip(*counts, strict=True))
    print(f"pynfs: {passed} passed, {known} failed for a known reason, {wrong} wrong")
    return 1 if wrong or not passed else 0


if __name__ == "__main__":
    runtime.command(main)
