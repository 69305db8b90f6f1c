"""``python3 -m proof.api``: tests a real head that has a real pool, with a client that is written from the OpenAPI
document alone."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import time
from pathlib import Path

from proof.api import checks
from proof.api.generated import PACKAGES, requests_made_of_the_document
from proof.api.head import PASSWORD, USERS, Head
from proof.api.losses import losses_of_peers
from proof.api.pair import what_another_head_serves
from proof.api.web import Web
from proof.process import run
from proof.runtime import REPOSITORY, ProofError, command, memory_base, scratch

JUDGES = ("openapi-spec-validator==0.7.1", *PACKAGES)
SCRATCH_BYTES = 1 << 30
PROBE_SECONDS = 20.0


def _judges() -> Path:
    """Returns a Python with the tools that judge the document, in a virtual environment of its own below target/."""
    folder = REPOSITORY / "target" / "openapi-validator"
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    wanted = " ".join(JUDGES)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    for words in (["/usr/bin/python3", "-m", "venv", folder], [python, "-m", "pip", "install", "--quiet", *JUDGES]):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ProofError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    stamp.write_text(wanted)
    return python


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="proof.api", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the files of the run")
    arguments = parser.parse_args(argv)
    validator = _judges()
    with scratch("api", arguments.keep, memory_base(SCRATCH_BYTES)) as folder:
        head = Head(folder)
        port = head.start()
        nobody = Web(port)
        refusals = [nobody.ask("GET", path) for path in ("/session", "/overview")]
        if any(status != 401 or not document["no_users"] for status, document in refusals):
            raise ProofError("a head without users does not report that")
        head.add_users()
        place = checks.Place(head, port, nobody, {name: Web(port) for name in USERS}, validator)
        for name, web in place.users.items():
            checks.expect(200, web.log_in(name, PASSWORD), f"{name} logs in")
        try:
            for check in checks.CHECKS:
                started = time.monotonic()
                check(place)
                print(f"ok  {check.__name__.replace('_', ' ')}  {time.monotonic() - started:.1f} s")
        except ProofError:
            print(head.child.log_tail() if head.child else "")
            raise
        finally:
            head.stop()
    with scratch("api", arguments.keep, memory_base(SCRATCH_BYTES)) as folder:
        started = time.monotonic()
        what_another_head_serves(head.program, folder)
        print(f"ok  requests for a pool of another head  {time.monotonic() - started:.1f} s")
    with scratch("api", arguments.keep, memory_base(SCRATCH_BYTES)) as folder:
        started = time.monotonic()
        requests_made_of_the_document(folder, validator)
        print(f"ok  requests generated from the document  {time.monotonic() - started:.1f} s")
    done = len(checks.CHECKS) + 2
    # Last, because this process leaves the host's network namespace for it.
    if (probe := run(["unshare", "--net", "true"], PROBE_SECONDS)).ok:
        with scratch("api", arguments.keep, memory_base(SCRATCH_BYTES)) as folder:
            started = time.monotonic()
            losses_of_peers(folder)
            print(f"ok  losses of peers  {time.monotonic() - started:.1f} s")
        done += 1
    else:
        print(f"skipped: losses of peers: this host cannot create namespaces: {probe.output.strip()}")
    print(f"api: {done} checks, 0 failed")
    return 0


if __name__ == "__main__":
    command(main)
