"""Bad input to ``bulkhead-ceph``: each is refused in one sentence and a bounded time, and nothing is changed."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path

from proof.growth.cluster import Ceph
from proof.process import checked
from proof.runtime import ProofError
from proof.servers.shelf import Shelf

TOOL_SECONDS = 60.0
BOUND_SECONDS = 20.0
"""Of a connection 10 s, of a read 15 s."""
USAGE, NOT_FOUND, EXISTS, BUSY, NEEDS_CONFIRMATION, DENIED = 2, 3, 4, 5, 6, 10
LINES_MAX = 2
"""The sentence, and the advice."""


@dataclass(frozen=True)
class Case:
    """A command with its refusal."""

    name: str
    words: tuple[str, ...]
    status: int
    sentence: str
    """A part of it."""
    env: dict[str, str] = field(default_factory=dict)


def _cases(shelf: Shelf, cluster: Ceph, folder: Path) -> list[Case]:
    wrong, empty, silent, garbage = (folder / name for name in ("wrong.keyring", "empty.keyring", "silent.conf", "garbage.conf"))
    checked(["ceph-authtool", "--create-keyring", wrong, "--gen-key", "-n", "client.bulkhead"], TOOL_SECONDS)
    empty.write_text("")
    text = cluster.conf.read_text()
    address = next(line for line in text.splitlines() if line.startswith("mon_host"))
    silent.write_text(text.replace(address, "mon_host = [v2:127.0.0.1:9,v1:127.0.0.1:10]"))
    garbage.write_bytes(b"\x7fELF\x00[[[\n" * 16)
    listing = ("pool", "list")
    create = ("pool", "create", "other")
    return [
        Case("a wrong key", listing, DENIED, "refuses the key of client.bulkhead", {"BULKHEAD_CEPH_KEYRING": str(wrong)}),
        Case("a keyring without the user", listing, DENIED, "keyring", {"BULKHEAD_CEPH_KEYRING": str(empty)}),
        Case("a missing keyring", listing, NOT_FOUND, "keyring", {"BULKHEAD_CEPH_KEYRING": str(folder / "none")}),
        Case("an unknown user", listing, DENIED, "client.nobody", {"BULKHEAD_CEPH_USER": "nobody", "BULKHEAD_CEPH_KEYRING": str(_other_user(folder))}),
        Case("monitors that do not respond", listing, 1, "no monitor of the cluster responded", {"BULKHEAD_CEPH_CLUSTER": str(silent)}),
        Case("a missing configuration", listing, NOT_FOUND, "No such file", {"BULKHEAD_CEPH_CLUSTER": str(folder / "none.conf")}),
        Case("an invalid configuration", listing, 1, "configuration", {"BULKHEAD_CEPH_CLUSTER": str(garbage)}),
        Case("a missing pool", (*create, "--in", "nowhere"), USAGE, "the cluster has no pool nowhere"),
        Case("a namespace with a shelf", (*create, "--in", "rbd", "--namespace", shelf.shelf), USAGE, f"holds the shelf {shelf.shelf}"),
        Case("a namespace with foreign images", (*create, "--in", "rbd", "--namespace", "foreign"), USAGE, "holds the image guest"),
        Case("a shelf that exists", ("pool", "create", shelf.shelf, "--in", "rbd"), EXISTS, "already a pool"),
        Case("an unknown shelf", ("pool-server", "nothing"), NOT_FOUND, "no pool nothing was found"),
        Case("an option of disks", ("pool-server", "nothing", "--arc-size", "1G"), USAGE, "a shelf has no such setting"),
    ]


def _other_user(folder: Path) -> Path:
    path = folder / "nobody.keyring"
    checked(["ceph-authtool", "--create-keyring", path, "--gen-key", "-n", "client.nobody"], TOOL_SECONDS)
    return path


def _entries(shelf: Shelf, cluster: Ceph) -> str:
    """All state of the shelf, and its images."""
    words = [f"--conf={cluster.conf}", f"--keyring={cluster.keyring}", "-p", "rbd", "--namespace", shelf.shelf]
    entries = checked(["rados", *words, "listomapvals", "bulkhead.shelf"], TOOL_SECONDS)
    return entries + checked(["rbd", *words, "ls"], TOOL_SECONDS)


def _judge(shelf: Shelf, case: Case) -> None:
    free = ("--no-iscsi", "--no-nbd") if case.words[0] == "pool-server" else ()
    outcome = shelf.try_command(*case.words, *free, env=case.env, seconds=BOUND_SECONDS)
    lines = outcome.output.strip().splitlines()
    problems = []
    if outcome.status != case.status:
        problems.append(f"exit status {outcome.status} instead of {case.status}")
    if case.sentence not in outcome.output:
        problems.append(f"no {case.sentence!r}")
    if case.words[0] != "pool-server" and len(lines) > LINES_MAX:
        problems.append(f"{len(lines)} lines")
    if problems:
        raise ProofError(f"{case.name}: {', '.join(problems)}:\n{outcome.output}")
    sentence = next(line for line in lines if case.sentence in line)
    print(f"  {case.name}, {outcome.seconds:.1f} s: {sentence.strip()[:200]}")


def _second_owner(shelf: Shelf) -> None:
    """Another host refuses to serve a shelf that is in use, without a confirmation."""
    other = shelf.hosts[0] if shelf.host is shelf.hosts[1] else shelf.hosts[1]
    case = Case("a shelf of another host", ("pool-server", shelf.shelf), NEEDS_CONFIRMATION, "which may still use it", other.environment)
    _judge(shelf, case)
    same = Case("a shelf that is served here", ("pool-server", shelf.shelf), BUSY, "already")
    _judge(shelf, same)


def _silent_disks(shelf: Shelf, cluster: Ceph) -> None:
    """The monitors respond, and the disks do not."""
    for disk in cluster.disks():
        disk.signal(signal.SIGSTOP)
    try:
        _judge(shelf, Case("disks that do not respond", ("pool", "create", "other", "--in", "rbd"), 1, "did not respond within"))
    finally:
        for disk in cluster.disks():
            disk.signal(signal.SIGCONT)
    cluster.wait_until_clean()


def prove(shelf: Shelf, cluster: Ceph) -> None:
    """Runs all cases while the shelf is served."""
    rbd = ["rbd", f"--conf={cluster.conf}", f"--keyring={cluster.keyring}"]
    checked([*rbd, "namespace", "create", "rbd/foreign"], TOOL_SECONDS)
    checked([*rbd, "create", "rbd/foreign/guest", "--size", "8M"], TOOL_SECONDS)
    folder = shelf.scratch / "refused"
    folder.mkdir()
    before = _entries(shelf, cluster)
    problems = []
    for case in _cases(shelf, cluster, folder):
        try:
            _judge(shelf, case)
        except ProofError as error:
            problems.append(str(error))
    if problems:
        raise ProofError("\n".join(problems))
    _second_owner(shelf)
    _silent_disks(shelf, cluster)
    shelf.children[0].require_alive()
    if _entries(shelf, cluster) != before:
        raise ProofError(f"a refused command changed the shelf:\n{before}\nis now:\n{_entries(shelf, cluster)}")
