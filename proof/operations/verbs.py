"""Which verbs of the command line are killed in the middle, and where: none is forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from proof.operations.table import OPERATIONS
from proof.operations.world import Words
from proof.process import checked
from proof.runtime import scratch
from proof.servers.bulkhead import POOL, TARGET

MANUAL_SECONDS = 60.0
SYNOPSIS = re.compile(r"^\.SH SYNOPSIS\n\\fB(bulkhead[a-z \\-]*)\\fR", re.MULTILINE)
PARENT = ".SH SUBCOMMANDS"

LOOKS: dict[str, Words] = {
    "nbd list": ("nbd", "list"),
    "pool events": ("pool", "events", POOL),
    "pool get": ("pool", "get", POOL, "size"),
    "pool iostat": ("pool", "iostat", POOL),
    "pool list": ("pool", "list"),
    "pool status": ("pool", "status", POOL),
    "portal list": ("portal", "list", POOL),
    "replicate list": ("replicate", "list", POOL),
    "snapshot list": ("snapshot", "list", f"{POOL}/v"),
    "snapshot schedule list": ("snapshot", "schedule", "list", POOL),
    "status": ("status", POOL),
    "target chap show": ("target", "chap", "show", TARGET),
    "target discovery show": ("target", "discovery", "show", POOL),
    "target list": ("target", "list"),
    "target show": ("target", "show", TARGET),
    "volume get": ("volume", "get", f"{POOL}/v"),
    "volume key status": ("volume", "key", "status", f"{POOL}/e"),
    "volume list": ("volume", "list", POOL),
    "volume show": ("volume", "show", f"{POOL}/v"),
    "volume space": ("volume", "space", POOL),
}
"""Verbs that ask a pool and change nothing, as they are asked."""

LOOK_ONLY = (
    *LOOKS,
    "appliance check",
    "appliance plan",
    "appliance schema",
    "bench crypto",
    "completion",
    "head openapi",
    "man",
    "token list",
    "user list",
)
"""Verbs that change nothing; those that are not above ask no pool."""

ELSEWHERE = {
    "agent address": "Pacemaker starts it again: programs/bulkhead/tests/agent.rs",
    "agent pool": "killed in the drills",
    "appliance apply": "a second run completes it: programs/bulkhead/tests/appliance.rs",
    "appliance rotate-key": "a second run completes it: crates/cluster/tests/apply.rs",
    "drill": "its lab is removed by the next: programs/bulkhead/tests/lab.rs",
    "head certificate": "each file of a head is replaced as a whole: crates/api",
    "lab bmc": "changes no pool",
    "lab console": "changes no pool",
    "lab cut": "changes no pool",
    "lab down": "asking again completes it: programs/bulkhead/tests/lab.rs",
    "lab exec": "changes no pool",
    "lab freeze": "changes no pool",
    "lab mend": "changes no pool",
    "lab outlet": "changes no pool",
    "lab power": "changes no pool",
    "lab status": "changes no pool",
    "lab thaw": "changes no pool",
    "lab up": "`lab down` removes what was begun: programs/bulkhead/tests/lab.rs",
    "pool export": "the end of a server, which proof.crash and the drills kill at any moment",
    "pool confirm": "a torn word is none: programs/bulkhead/tests/stale_leg.rs",
    "pool move": "heads are killed during moves in the drills",
    "pool replace": "the same request as that of `pool replace-disk`",
    "pool-server": "killed by every round",
    "portal add": "lasts no longer than its server: programs/bulkhead/tests/portals.rs",
    "portal remove": "lasts no longer than its server: programs/bulkhead/tests/portals.rs",
    "portal set": "lasts no longer than its server: programs/bulkhead/tests/portals.rs",
    "token create": "each file of a head is replaced as a whole: crates/api",
    "token revoke": "each file of a head is replaced as a whole: crates/api",
    "user add": "each file of a head is replaced as a whole: crates/api",
    "user passwd": "each file of a head is replaced as a whole: crates/api",
    "user remove": "each file of a head is replaced as a whole: crates/api",
    "snapshot rollback": "another name of `volume rollback`",
    "volume discard-log": "one transaction group destroys the log: crates/zpool/tests/unreadable_log.rs",
    "volume clone": "another name of `snapshot clone`",
}
"""Verbs that are killed elsewhere, or whose state is in no pool; why."""


def all_verbs(program: Path) -> set[str]:
    """The verbs of which the program's own manual has a page."""
    with scratch("manual") as directory:
        checked([program, "man", str(directory)], MANUAL_SECONDS)
        return verbs_of(page.read_text() for page in directory.iterdir())


def verbs_of(pages: Iterable[str]) -> set[str]:
    """The verbs of these pages; a page with verbs below it is none itself."""
    found = set()
    for page in pages:
        synopsis = SYNOPSIS.search(page)
        if synopsis and PARENT not in page:
            found.add(synopsis[1].replace("\\-", "-").removeprefix("bulkhead").strip())
    return found


def complaints(verbs: set[str], killed: Iterable[Words] | None = None) -> list[str]:
    """What is wrong with the list of operations, for a program with these verbs."""
    operations = [one.words for one in OPERATIONS] if killed is None else killed
    judged = {" ".join(words[:count]) for words in operations for count in range(1, len(words) + 1)} & verbs
    named = {*LOOK_ONLY, *ELSEWHERE}
    return [
        *(f"`bulkhead {verb}` is not killed in the middle: add an operation, or say in verbs.py why not" for verb in sorted(verbs - judged - named)),
        *(f"`bulkhead {verb}` is named in verbs.py, and the program has no such verb" for verb in sorted(named - verbs)),
        *(f"`bulkhead {verb}` is killed in the middle, and verbs.py says that it is not" for verb in sorted((judged & named) - {*LOOK_ONLY})),
    ]
