"""Every step of the checks. ``make test`` runs those marked ``test``, ``make nightly`` the parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ENGINE = ("engines/", "native/")
SERVERS = (*ENGINE, "protocols/", "services/pool-server/", "services/pool-access/", "core/protocol-list/")
VERBS = ("services/operations/", "core/control/", "core/rendering/", "programs/bulkhead/")
CLUSTER = ("core/appliance/", "core/takeover/", "services/cluster/", "services/agents/", "lab/", "drills/")
LEGS = ("core/takeover/", "legs/")


@dataclass(frozen=True)
class Step:
    """One command."""

    name: str
    command: str
    """For the shell, in the root of the repository."""
    lane: str
    """Steps of a lane run one after the other, lanes concurrently."""
    of: tuple[str, ...] = ()
    """Path prefixes of the sources that the step tests, for ``make check``; empty: ``make check`` never runs it."""
    check: str = ""
    """The shorter form for ``make check``; empty: the same command."""


BUILD = Step("build", "scripts/build-tests.sh", "")
"""Builds all binaries, tests and examples of the steps, in one profile."""

UNITS = "scripts/cargo.sh nextest run --binaries-metadata target/test-binaries.json --cargo-metadata target/cargo-metadata.json --no-fail-fast"
"""Runs from lists of the build's results: it does not block on Cargo's lock, which the steps of the lane `lint` hold
for minutes."""

# The lane `waits` is mostly idle until heads boot and time-outs expire; `computes` mostly computes.
TEST: tuple[Step, ...] = (
    Step("units", UNITS, "units"),
    Step("proof.tests", "/usr/bin/python3 -m proof.tests", "units", ("proof/",)),
    Step("lint", "make lint", "lint"),
    Step("drill-short", "make drill-short", "waits", CLUSTER),
    Step("demo", "make demo", "waits"),
    Step("legs", "make legs ROUNDS=16", "waits", LEGS),
    Step("console", "make console", "waits", ("console/", "services/api/")),
    Step("conformance", "make conformance", "computes", ("protocols/scsi/", "protocols/iscsi/", "protocols/nbd/")),
    Step("crash", "make crash ROUNDS=50", "computes", ENGINE, "make crash ROUNDS=10"),
    Step("crash, legs harmed", "make crash ROUNDS=16 LEGS=mix", "computes"),
    Step("crash, one file", "make crash ROUNDS=12 ONE_FILE=1", "computes"),
    Step("crash, files", "make crash ROUNDS=10 FILES=1", "computes", ("engines/zpl/", "native/"), "make crash ROUNDS=4 FILES=1"),
    Step("repeats", "make repeats ROUNDS=20", "computes", ("protocols/nfs/",), "make repeats ROUNDS=5"),
    Step("older-locks", "make older-locks ROUNDS=3", "computes", ("protocols/nfs/src/locks/",)),
    Step("hostile", "make hostile", "computes", SERVERS),
    Step("rollback", "make rollback ROUNDS=12", "computes", ("services/operations/src/rollback.rs", "native/")),
    Step("operations", "make operations", "computes", VERBS),
    Step("operations-crash", "make operations-crash ROUNDS=16", "computes", ("services/operations/", "native/")),
    Step("requests", "make requests", "computes", ("core/control/",)),
    Step("api", "make api", "computes", ("services/api/", "services/head/", "core/control/")),
    Step("guide", "make guide", "computes", ("docs/guide/",)),
)

NIGHTLY_BUILD = Step("build", "make build && scripts/cargo.sh build --workspace --examples --locked", "")
"""The binaries as they are packaged. The examples, which some steps run, are those of the tests."""

# A part should take at most an hour on two cores: move a step where one does not.
NIGHTLY: dict[int, tuple[Step, ...]] = {
    1: (
        Step("demo", "make demo", "a"),
        Step("demo-legs", "make demo-legs", "a"),
        Step("runbooks", "make runbooks", "a"),
        Step("demo-single", "make demo-single", "a"),
        Step("drill-examples", "make drill-examples", "a"),
        Step("races", "make races", "b"),
        Step("mounted-files", "make mounted-files", "b"),
        Step("crash", "make crash ROUNDS=200", "b"),
        Step("labs", "scripts/cargo.sh nextest run --workspace --exclude xtask --locked --test cluster --run-ignored ignored-only", "b"),
        Step("crash, legs harmed", "make crash ROUNDS=60 LEGS=mix", "b"),
        Step("crash, files", "make crash ROUNDS=60 FILES=1", "b"),
    ),
    2: (
        Step("drill", "make drill ROUNDS=3", "a"),
        Step("drill, legs", "scripts/drill-legs.sh target/release/bulkhead 3", "a"),
    ),
    3: (
        Step("legs", "make legs ROUNDS=150", "a"),
        Step("repeats", "make repeats ROUNDS=100", "a"),
        Step("operations-crash", "make operations-crash ROUNDS=100", "b"),
        Step("rollback", "make rollback ROUNDS=60", "b"),
        Step("requests", "make requests REQUESTS_SECONDS=300", "b"),
        Step("fuzz", "make fuzz SECONDS=900", "b"),
    ),
    4: (
        Step("stock", "make stock", "a"),
        Step("linux", "make linux", "a"),
        Step("kernel build", "/usr/bin/python3 -m proof.linux --only kernel-build", "a"),
        Step("release-check", "make release-check", "b"),
        Step("conformance", "make conformance", "b"),
        Step("hostile", "make hostile", "b"),
        Step("operations-steps", "make operations-steps STRIDE=60", "b"),
        Step("growth", "make growth", "b"),
        Step("ceph", "make ceph", "b"),
    ),
}

PYNFS = "/usr/bin/python3 -m proof.nfs --pool"
GUEST = "/usr/bin/python3 -m proof.linux --only"
FILES: tuple[Step, ...] = (
    *(Step(f"pynfs 4.{minor}", f"{PYNFS} --minor {minor}", "files") for minor in (0, 1, 2)),
    *(Step(f"pynfs 4.{minor}, restarts", f"{PYNFS} --reboot --minor {minor}", "files") for minor in (0, 1, 2)),
    Step("pjdfstest, mounted", "/usr/bin/python3 -m proof.mount --judge pjdfstest", "files"),
    Step("fsx, mounted", "/usr/bin/python3 -m proof.mount --judge fsx", "files"),
    Step("repeated calls", "make repeats ROUNDS=20", "files"),
    Step("locks of NFS 3", "make older-locks ROUNDS=3", "files"),
    Step("crash", "make crash ROUNDS=10 FILES=1", "files"),
    Step("kernel ZFS, both ways", f"{GUEST} files-both-ways", "files"),
    Step("Linux's client", f"{GUEST} shares", "files"),
    Step("kernel build", f"{GUEST} kernel-build", "files"),
    Step("pjdfstest, fsx over NFS", f"{GUEST} judges --side ours-4.2 --side ours-3 --judge pjdfstest --judge fsx", "files"),
)
"""The judges of files, for ``make files``, in one lane: pynfs uses one fixed address, and guests need the memory."""


def touching(paths: Iterable[str]) -> tuple[Step, ...]:
    """Returns the steps of ``make test`` with sources among ``paths``, in their form for ``make check``."""
    changed = tuple(paths)
    return tuple(
        Step(step.name, step.check or step.command, step.lane)
        for step in TEST
        if any(path.startswith(step.of) for path in changed if step.of)
    )
