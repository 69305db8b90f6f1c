"""Runs the tests of the engine on Ceph on a small real cluster: a monitor, a manager and three disks. Then a shelf is
served over iSCSI and NBD (``--only served``).

The crates of that engine are a workspace of their own, because they link librbd. They are built first, since the
cluster's network namespace reaches no registry.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
from pathlib import Path

from proof import runtime
from proof.ceph import served
from proof.growth.cluster import GROUPS, NEEDED, Ceph
from proof.network import leave_the_machines_network
from proof.process import die_with_parent, missing_programs
from proof.runtime import REPOSITORY, ProofError

CARGO = REPOSITORY / "scripts" / "cargo.sh"
ARGUMENTS = ["--manifest-path", "engines/ceph/Cargo.toml", "--target-dir", "target/ceph", "--locked", "--workspace"]
HEADERS = (Path("/usr/include/rbd/librbd.h"), Path("/usr/include/rados/librados.h"))
SMALL_GROUPS = 8
QUOTA_BYTES = 256 << 20
"""Of the pools that tests fill."""
SERVED = "served"
ROUNDS = 20
BUILD_SECONDS = 1800.0
TEST_SECONDS = 1800.0


def _cargo(words: list[str], seconds: float, env: dict[str, str]) -> bool:
    """Runs Cargo with its output on this one's, and returns whether it succeeded."""
    argv = [str(CARGO), *words]
    try:
        child = subprocess.run(argv, cwd=REPOSITORY, env={**os.environ, **env}, timeout=seconds, preexec_fn=die_with_parent)
    except subprocess.TimeoutExpired as error:
        raise ProofError(f"{' '.join(argv)} did not end within {seconds:g} s") from error
    return child.returncode == 0


def _cluster(folder: Path) -> Ceph:
    cluster = Ceph(folder)
    cluster.add_hosts(3)
    # Otherwise each snapshot and each entry of the blocklist blocks for a second.
    cluster.ceph("config", "set", "mon", "paxos_propose_interval", "0.05")
    rights = [word for service in ("mon", "osd", "mgr") for word in (service, "profile rbd")]
    cluster.ceph("auth", "get-or-create", "client.bulkhead", *rights, "-o", str(folder / "client.bulkhead.keyring"))
    cluster.add_pool("rbd", GROUPS)
    for name in ("small", "full"):
        cluster.add_pool(name, SMALL_GROUPS)
        cluster.ceph("osd", "pool", "set-quota", name, "max_bytes", str(QUOTA_BYTES))
    cluster.wait_until_clean()
    return cluster


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="proof.ceph", description=__doc__)
    parser.add_argument("--seed", type=int, help="replays the random choices of a run")
    parser.add_argument("--only", help=f"runs the tests with this in their names; `{SERVED}` runs the served shelf, `{SERVED}:PART` a part of it")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="kills of the server of a shelf")
    arguments = parser.parse_args(argv)
    missing = [*missing_programs(NEEDED), *(str(path) for path in HEADERS if not path.exists())]
    if missing:
        print(f"ceph: skipped: install ceph-mon ceph-mgr ceph-osd librados-dev librbd-dev ({', '.join(missing)})")
        return 0
    if not _cargo(["test", *ARGUMENTS, "--no-run"], BUILD_SECONDS, {}):
        raise ProofError("the engine on Ceph does not build")
    if not _cargo(["build", *ARGUMENTS], BUILD_SECONDS, {}):
        raise ProofError("bulkhead-ceph does not build")
    leave_the_machines_network()
    seed = arguments.seed if arguments.seed is not None else random.getrandbits(32)
    with runtime.scratch("ceph") as folder:
        cluster = _cluster(folder)
        try:
            complaints = _tests(cluster, arguments.only, seed)
            name, _, part = (arguments.only or SERVED).partition(":")
            if name == SERVED:
                complaints += served.prove(cluster, folder, seed, arguments.rounds, part)
        finally:
            cluster.end()
    return runtime.verdict(complaints, f"ceph: seed {seed}")


def _tests(cluster: Ceph, only: str | None, seed: int) -> list[str]:
    """Runs the tests of the crates."""
    if only and only.startswith(SERVED):
        return []
    env = {"BULKHEAD_CEPH_CONF": str(cluster.conf), "BULKHEAD_SEED": str(seed)}
    # One after the other: each has the cluster for itself, and prints its figures.
    words = ["--include-ignored", "--test-threads", "1", *([only] if only else [])]
    is_passed = _cargo(["test", *ARGUMENTS, "--offline", "--no-fail-fast", "--", *words], TEST_SECONDS, env)
    return [] if is_passed else [f"a test failed; replay with --seed {seed}"]


if __name__ == "__main__":
    runtime.command(main)
