"""The examples of the binary's definitions, and the verbs without one, with the reasons: no verb is forgotten."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proof.operations.table import STRANGER, YES, Operation, Rest
from proof.process import run
from proof.runtime import ProofError
from proof.servers.bulkhead import POOL, TARGET

DEFINITIONS_SECONDS = 60.0

ELSEWHERE = {
    "agent": "Pacemaker starts it again: programs/bulkhead/tests/cluster/agent.rs, and it is killed in the drills",
    "appliance": "a second run completes it: programs/bulkhead/tests/cluster/appliance.rs, services/cluster/tests/apply.rs",
    "alert": "changes no pool",
    "audit": "changes nothing",
    "bench": "changes no pool",
    "completion": "changes nothing",
    "drill": "its lab is removed by the next: programs/bulkhead/tests/cluster/lab.rs",
    "filesystem key": "the same as `volume key`",
    "filesystem mount": "killed and mounted again: programs/bulkhead/tests/head/mounted_files.rs",
    "growth": "changes nothing: proof.growth",
    "watch": "changes nothing: programs/bulkhead/tests/head/lost_packets.rs",
    "head": "each file of a head is replaced as a whole: services/api",
    "lab": "changes no pool, and `lab down` removes a partial lab: programs/bulkhead/tests/cluster/lab.rs",
    "leg-server": "killed with heads and witness: programs/bulkhead/tests/legs/pair_of_legs.rs",
    "man": "changes no pool",
    "pool confirm": "a torn confirmation is invalid: programs/bulkhead/tests/legs/stale_leg.rs",
    "pool export": "the exit of a server, which proof.crash and the drills kill at any time",
    "pool forget": "removes one file: programs/bulkhead/tests/head/offline.rs",
    "pool growth": "changes nothing: programs/bulkhead/tests/head/growth.rs",
    "pool inspect-legs": "changes nothing: programs/bulkhead/tests/legs/pair_of_legs.rs",
    "pool move": "heads are killed during moves in the drills",
    "pool reidentify": "after a kill, it is repeated with either name: programs/bulkhead/tests/head/copies.rs",
    "pool record-legs": "killed again and again, and repeated: programs/bulkhead/tests/legs/recorded_legs.rs",
    "pool-server": "killed by every round",
    "target export": "repeats each step: programs/bulkhead/tests/head/server.rs",
    "token": "each file of a head is replaced as a whole: services/api",
    "user": "each file of a head is replaced as a whole: services/api",
    "volume discard-log": "one transaction group destroys the log: engines/zpool/tests/unreadable_log.rs",
}
"""Commands that are no operations (a noun alone: all of its verbs), and operations that are not killed; with the
reasons."""

WORLD = {"tank": POOL, "vm0": "v", "iso": "w", "web": "v", "monday": "base", "iqn.2026-01.org.example:tank": TARGET}
"""Maps names of the examples' world to the names of this one."""
HOME = ("filesystem", "create", f"{POOL}/home")
"""Objects of the examples' world that this one does not have."""


def defined(program: Path, examples: Sequence[Operation]) -> tuple[list[str], list[Operation]]:
    """Returns the verbs of the binary that this proof tries, and its examples with those of the definitions."""
    described = _definitions(program, ())
    verbs = [verb for verb in described["verbs"] if not _only_elsewhere(verb, described["examples"])]
    examples = [*examples, *(one for one in map(derived, described["examples"]) if one)]
    effects = _definitions(program, [json.dumps([_stand_in(word) for word in one.words]) for one in examples])["effects"]
    found = [with_definition(one, described["verbs"], effect) for one, effect in zip(examples, effects, strict=True)]
    return verbs, _once([one for one in found if one.looks or one.is_killed or not one.is_derived])


def _definitions(program: Path, lines: Sequence[str]) -> Any:
    outcome = run([program, "definitions", *lines], DEFINITIONS_SECONDS)
    if not outcome.ok:
        raise ProofError(outcome.output.strip())
    return json.loads(outcome.output)


def _words(line: str) -> list[str]:
    """Returns the arguments of a command line, as the help prints it."""
    return shlex.split(line.replace("\\\n", " "))[1:]


def _only_elsewhere(verb: str, examples: Sequence[dict[str, Any]]) -> bool:
    """Whether the definition of a verb has examples, all of which are shown elsewhere."""
    own = [one for one in examples if f"{' '.join(_words(one['line']))} ".startswith(f"{verb} ")]
    return bool(own) and all(one["elsewhere"] for one in own)


def derived(example: dict[str, Any]) -> Operation | None:
    """Translates an example of a definition to the world of this proof. None if it is shown elsewhere."""
    if example["elsewhere"]:
        return None
    words = _here(example["line"])
    before, after = ([_here(line) for line in example[key] or ()] for key in ("prepared_by", "undone_by"))
    if any(word.startswith(f"{POOL}/home") for word in words):
        before, after = [HOME, *before], [*after, ("filesystem", "destroy", f"{POOL}/home", "--recursive", YES)]
    ends = example["ends_with_the_server"]
    return Operation(
        tuple(word for word in words if word != "--json"),
        before=tuple(before),
        after=tuple(after),
        rest=Rest.AS_BEFORE if ends else Rest.EITHER,
        needs_server=ends,
        is_killed=example["undone_by"] is not None,
        is_derived=True,
    )


def _here(line: str) -> tuple[str, ...]:
    """Returns the arguments of a command line, with the names of this world."""
    return tuple(
        WORLD.get(word) or "".join(WORLD.get(part, part) for part in re.split("([/@#])", word)) for word in _words(line)
    )


def _once(examples: Sequence[Operation]) -> list[Operation]:
    """Leaves out derived examples where this proof has one of the same name."""
    own = {one.name for one in examples if not one.is_derived}
    found: dict[str, Operation] = {}
    for one in examples:
        if not one.is_derived:
            found[f"{len(found)}"] = one
        elif one.name not in own:
            found.setdefault(one.name, one)
    return list(found.values())


def _stand_in(word: str) -> str:
    """Returns a valid substitute for an argument that only a world can resolve."""
    return word.replace("PEER", STRANGER).replace("file://KEY", "file:///KEY")


def with_definition(example: Operation, verbs: Iterable[str], effect: object) -> Operation:
    """Returns the example with the properties of its definition. A query of concurrent work may be killed."""
    (verb,) = (verb for verb in verbs if verb.split() == list(example.words[: len(verb.split())]))
    return replace(example, verb=verb, looks=effect == "look" and (example.is_derived or not example.before))


def definition(verb: str) -> str:
    """Returns the location of an operation's definition."""
    return f"core/control/src/operations/{verb.replace(' ', '/').replace('-', '_')}.rs"


def complaints(verbs: Iterable[str], examples: Sequence[Operation]) -> list[str]:
    """Returns the errors of the examples, for a binary with these verbs."""
    shown = {one.verb for one in examples}
    told = {verb: [said for said in ELSEWHERE if f"{verb} ".startswith(f"{said} ")] for verb in verbs}
    return [
        *(f"`bulkhead {verb}` has no example that can be tried: add `undone_by` to one in {definition(verb)}, or a line to table.py, or give the reason in verbs.py" for verb in told if not told[verb] and verb not in shown),
        *(f"`bulkhead {said}` is named in verbs.py, but the binary has no such verb" for said in ELSEWHERE if [said] not in told.values()),
        *(f"`bulkhead {verb}` has an example, but verbs.py lists it as one without" for verb in told if told[verb] and verb in shown),
        *(f"two examples are named `{name}`" for name, count in Counter(one.name for one in examples).items() if count > 1),
    ]
