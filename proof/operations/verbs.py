"""What the program's definitions say of the examples, and which of its verbs have none, and why: no verb is forgotten."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from proof.operations.table import STRANGER, Operation
from proof.process import run
from proof.runtime import ProofError

DEFINITIONS_SECONDS = 60.0

ELSEWHERE = {
    "agent": "Pacemaker starts it again: programs/bulkhead/tests/cluster/agent.rs, and it is killed in the drills",
    "appliance": "a second run completes it: programs/bulkhead/tests/cluster/appliance.rs, services/cluster/tests/apply.rs",
    "bench": "changes no pool",
    "completion": "changes nothing",
    "drill": "its lab is removed by the next: programs/bulkhead/tests/cluster/lab.rs",
    "filesystem expire-client": "changes what the server has in memory, and needs a client: proof.nfs.older_locks",
    "filesystem key": "the same as `volume key`",
    "filesystem mount": "killed and mounted again: programs/bulkhead/tests/head/mounted_files.rs",
    "filesystem open-files": "looks at what a server has in memory: proof.nfs.older_locks",
    "filesystem show": "looks: programs/bulkhead/tests/head/file_systems.rs",
    "head": "each file of a head is replaced as a whole: services/api",
    "lab": "changes no pool, and `lab down` removes what was begun: programs/bulkhead/tests/cluster/lab.rs",
    "leg-server": "killed with heads and witness: programs/bulkhead/tests/legs/pair_of_legs.rs",
    "man": "changes no pool",
    "pool add-head": "the owner is killed meanwhile, and both heads afterwards: programs/bulkhead/tests/legs/third_head_of_legs.rs",
    "pool confirm": "a torn word is none: programs/bulkhead/tests/legs/stale_leg.rs",
    "pool discard-leg": "one change of the record of legs, explored in legs/record: programs/bulkhead/tests/legs/pair_of_legs.rs",
    "pool export": "the end of a server, which proof.crash and the drills kill at any moment",
    "pool inspect-legs": "changes nothing: programs/bulkhead/tests/legs/pair_of_legs.rs",
    "pool move": "heads are killed during moves in the drills",
    "pool reidentify": "killed, it is said again with either name: programs/bulkhead/tests/head/copies.rs",
    "pool record-legs": "killed again and again, and said again: programs/bulkhead/tests/legs/recorded_legs.rs",
    "pool set-witness": "owner, leg-server and witness are killed meanwhile: programs/bulkhead/tests/legs/witness_of_legs.rs",
    "pool-server": "killed by every round",
    "portal add": "lasts no longer than its server: programs/bulkhead/tests/cluster/portals.rs",
    "portal remove": "lasts no longer than its server: programs/bulkhead/tests/cluster/portals.rs",
    "portal set": "lasts no longer than its server: programs/bulkhead/tests/cluster/portals.rs",
    "token": "each file of a head is replaced as a whole: services/api",
    "user": "each file of a head is replaced as a whole: services/api",
    "volume discard-log": "one transaction group destroys the log: engines/zpool/tests/unreadable_log.rs",
}
"""Verbs, or nouns with all of theirs, that have no example here; why."""


def defined(program: Path, examples: Sequence[Operation]) -> tuple[list[str], list[Operation]]:
    """The verbs of the program, and the examples with what their definitions say."""
    asked = [json.dumps([_stand_in(word) for word in one.words]) for one in examples]
    outcome = run([program, "definitions", *asked], DEFINITIONS_SECONDS)
    if not outcome.ok:
        raise ProofError(outcome.output.strip())
    told = json.loads(outcome.output)
    verbs = told["verbs"]
    return verbs, [with_definition(one, verbs, effect) for one, effect in zip(examples, told["effects"], strict=True)]


def _stand_in(word: str) -> str:
    """What may stand in a command line where only a world knows the word."""
    return word.replace("PEER", STRANGER).replace("file://KEY", "file:///KEY")


def with_definition(example: Operation, verbs: Iterable[str], effect: object) -> Operation:
    """The example as its definition has it. A look at what goes on beside it may be killed."""
    (verb,) = (verb for verb in verbs if verb.split() == list(example.words[: len(verb.split())]))
    return replace(example, verb=verb, looks=effect == "look" and not example.before)


def complaints(verbs: Iterable[str], examples: Sequence[Operation]) -> list[str]:
    """What is wrong with the examples, for a program with these verbs."""
    shown = {one.verb for one in examples}
    told = {verb: [said for said in ELSEWHERE if f"{verb} ".startswith(f"{said} ")] for verb in verbs}
    return [
        *(f"`bulkhead {verb}` has no example: add one to table.py, or say in verbs.py why not" for verb in told if not told[verb] and verb not in shown),
        *(f"`bulkhead {said}` is named in verbs.py, and the program has no such verb" for said in ELSEWHERE if [said] not in told.values()),
        *(f"`bulkhead {verb}` has an example, and verbs.py says that it has none" for verb in told if told[verb] and verb in shown),
        *(f"two examples are named `{name}`" for name, count in Counter(one.name for one in examples).items() if count > 1),
    ]
