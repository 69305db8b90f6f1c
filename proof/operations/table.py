"""Operations that are killed, each with its preparation and its undo. Examples of the definitions are tried in
addition (``verbs.derived``): a verb without a variant to kill needs no line here."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import Enum

from proof.operations.world import LEG_BYTES, Step, Words, World
from proof.servers.bulkhead import POOL, TARGET

V, W, E = (f"{POOL}/{name}" for name in "vwe")
IQN = "iqn.2026-01.org.example:second"
COPY = f"{POOL}/copy"
FILES = f"{POOL}/files"
SHARE = "sharenfs=rw=192.0.2.0/24"
SECOND = "second"
"""A pool on the spare disk."""
LOST = f"{POOL}/lost"
STRANGER = "5" * 64
"""The fingerprint of a pool that does not exist."""

YES = "--yes-destroy-data"


class Rest(Enum):
    """The states that are allowed after a kill, when the pool is served again."""

    EITHER = "done or not done"
    AS_BEFORE = "as before it began"
    """For state that exists only as long as its server."""
    COMPLETED = "any state that a repetition completes"
    """For operations that resume."""


@dataclass(frozen=True)
class Operation:
    """One operation. Its effect by its definition is read from the binary (``verbs.defined``)."""

    words: Words
    variant: str = ""
    """The difference from the other examples of its verb."""
    before: tuple[Step, ...] = ()
    """Creates its preconditions."""
    after: tuple[Step, ...] = ()
    """Undoes it and its preparation, when it is done."""
    again: Step | None = None
    """Completes it when it was not done; without it the same command is repeated."""
    rest: Rest = Rest.EITHER
    stdin: str | None = None
    """The stream that it reads."""
    stdout: str | None = None
    """The stream that it writes."""
    reads: tuple[str, ...] = ()
    """Volumes with contents that are compared."""
    probe: Words = ()
    """A command, the success of which is part of the observed state."""
    needs_server: bool = False
    on_spare: bool = False
    """It works on a pool of its own on the spare disk, which no server serves: only the command is killed."""
    slow: bool = False
    """Left out of short runs."""
    is_killed: bool = True
    """False if it is another form of another example."""
    is_derived: bool = False
    """It is an example of a definition."""
    verb: str = ""
    """By its definition."""
    looks: bool = False
    """By its definition: it changes nothing."""

    @property
    def name(self) -> str:
        """The verb and the variant."""
        return f"{self.verb} {self.variant}".rstrip()


def _destroy(name: str) -> Step:
    return lambda world: world.destroy_volume(name)


def _destroy_files(name: str) -> tuple[str, ...]:
    return ("filesystem", "destroy", name, "--recursive", "--shared", YES)


def _receive(world: World, name: str, stream: str, *options: str) -> None:
    world.ask("snapshot", "receive", f"{POOL}/{name}", *options, stdin=world.stream(stream))


def _receive_base(of: str) -> Step:
    return lambda world: _receive(world, "copy", f"{of}-base")


def _resume(world: World) -> None:
    """Resumes an interrupted receive, or starts one."""
    left = world.look("snapshot", "receive", COPY, "--token")
    rest = world.stream("rest")
    if left.get("token"):
        world.ask("snapshot", "send", "--resume", left["token"], stdout=rest)
        _receive(world, "copy", "rest", "--resumable")
    elif world.try_ask("volume", "show", COPY).status != 0:
        _receive(world, "copy", "v-base", "--resumable")


def _replicate(world: World) -> None:
    here, peer = f"127.0.0.1:{world.port}", world.fingerprint
    into = ("--into", f"{POOL}/far/v", "--keep", "2")
    world.ask("replicate", "set", V, "--to", here, "--peer", peer, *into)


def _stop_replicating(world: World) -> None:
    world.ask("replicate", "remove", V)
    world.destroy_volume("far/v")
    world.ask("filesystem", "destroy", f"{POOL}/far", YES)
    world.destroy_snapshots("v", "repl-")


def _blank_spare(world: World) -> None:
    world.spare.write_bytes(b"")
    os.truncate(world.spare, LEG_BYTES)


def _attach_spare(world: World) -> None:
    world.ask(*world.named(("pool", "attach", POOL, "LEG0", "SPARE")))
    world.ask("pool", "scrub", POOL, "--wait")


def _begin_slow_scrub(world: World) -> None:
    """Starts a scrub that runs until it is stopped, because a leg is slow."""
    world.slow_down()
    world.ask("pool", "scrub", POOL)


def _pause_scrub(world: World) -> None:
    _begin_slow_scrub(world)
    world.ask("pool", "scrub", POOL, "--pause")


def _end_scrub(world: World) -> None:
    world.speed_up()
    # None may be left.
    world.try_ask("pool", "scrub", POOL, "--stop")


def _lose_an_original(world: World) -> None:
    """Leaves only the copy of a volume, as if it came from another appliance."""
    world.ask("volume", "create", LOST, "--size", "8M", "--sparse")
    world.ask("nbd", "export", LOST, "--name", "lost")
    target = ("--to", f"127.0.0.1:{world.port}", "--peer", world.fingerprint)
    world.ask("replicate", "set", LOST, *target, "--into", f"{POOL}/far/lost")
    world.ask("replicate", "run", LOST)
    world.ask("replicate", "remove", LOST)
    world.destroy_volume("lost")


def _make_second(world: World) -> None:
    _blank_spare(world)
    world.ask(*world.named(("pool", "create", SECOND, "SPARE")))


def _overwriting(*words: str) -> Step:
    """Repeats the command; a disk on which a kill left a partial label is overwritten with the option for that."""

    def ask(world: World) -> None:
        again = world.named(words)
        if not world.try_ask(*again).ok:
            world.ask(*again, "--overwrite-old-labels")

    return ask


def _bring_leg_back(world: World) -> None:
    world.ask(*world.named(("pool", "online", POOL, "LEG0")))
    world.ask("pool", "scrub", POOL, "--wait")


def _take_leg_back(world: World) -> None:
    leg = str(world.server.legs[0])
    replace = ("pool", "replace-disk", POOL, str(world.spare), "--with", leg)
    world.ask(*replace, "--overwrite-old-labels", "--yes")
    _blank_spare(world)


def _forget_moment(world: World) -> None:
    """Destroys the snapshots `s` of all volumes that have one."""
    names = [one["name"] for one in world.look("snapshot", "list", POOL)]
    world.ask("snapshot", "destroy", *(name for name in names if name.endswith("@s")), YES)


def _see_schedule_at_work(world: World) -> None:
    """After any interruption, the number of snapshots soon equals the limit of the rule."""

    def settled() -> bool:
        return len(world.snapshots("w", "auto-")) == 2

    world.wait("the schedule has made and kept two snapshots", settled)
    newest = max(world.snapshots("w", "auto-"))
    world.wait("the schedule resumes", lambda: max(world.snapshots("w", "auto-")) > newest)
    world.wait("the schedule retains two", settled)


def _forget_schedule(world: World) -> None:
    world.ask("snapshot", "schedule", "remove", W)
    world.destroy_snapshots("w", "auto-")


LIMITS = ("-o", "quota=96M", "-o", "refquota=64M", "-o", "reservation=32M")
KEEP = ("--key-format", "raw", "--key-location")

OPERATIONS: tuple[Operation, ...] = (
    Operation(("snapshot", "create", f"{V}@s", f"{W}@s", f"{E}@s"), after=(("snapshot", "destroy", f"{V}@s", f"{W}@s", f"{E}@s", YES),)),
    Operation(("snapshot", "create", "--recursive", f"{POOL}@s"), "recursive", after=(_forget_moment,)),
    Operation(("snapshot", "destroy", f"{V}@s", f"{W}@s", YES), before=(("snapshot", "create", f"{V}@s", f"{W}@s"),)),
    Operation(
        ("snapshot", "rename", f"{V}@s", "t"),
        # A clone refers to its origin by number, and is created from it by either name.
        before=(("snapshot", "create", f"{V}@s"), ("snapshot", "clone", f"{V}@s", COPY)),
        after=(_destroy("copy"), ("snapshot", "destroy", f"{V}@t", YES)),
        reads=("copy",),
    ),
    Operation(
        ("snapshot", "bookmark", f"{V}@s", "mark"),
        before=(("snapshot", "create", f"{V}@s"),),
        # The rollback destroys the bookmark, which is newer than the snapshot, and changes nothing else.
        after=(("volume", "rollback", f"{V}@next", "--destroy-newer"),),
        probe=("snapshot", "send", f"{V}@s", "--from", "#mark", "--estimate"),
    ),
    Operation(
        ("snapshot", "schedule", "set", W, "--daily", "7", "--weekly", "4"),
        after=(("snapshot", "schedule", "remove", W), lambda world: world.destroy_snapshots("w", "auto-")),
    ),
    Operation(
        ("snapshot", "schedule", "remove", W),
        before=(("snapshot", "schedule", "set", W, "--monthly", "1"),),
        after=(lambda world: world.destroy_snapshots("w", "auto-"),),
    ),
    Operation(
        ("snapshot", "list", W),
        "while a schedule works",
        before=(("snapshot", "schedule", "set", W, "every 5s keep 2"), lambda _: time.sleep(5)),
        after=(_see_schedule_at_work, _forget_schedule),
        needs_server=True,
        slow=True,
    ),
    Operation(("snapshot", "clone", f"{V}@base", COPY, "-o", "org.example:a=1"), after=(_destroy("copy"),), reads=("copy",)),
    Operation(("snapshot", "clone", f"{V}@base", COPY, *LIMITS), "with limits", after=(_destroy("copy"),)),
    Operation(
        ("volume", "promote", COPY),
        before=(("snapshot", "clone", f"{V}@base", COPY),),
        after=(("volume", "promote", V), _destroy("copy")),
        reads=("v", "copy"),
    ),
    Operation(
        ("volume", "rollback", f"{V}@s"),
        before=(("snapshot", "create", f"{V}@s"), lambda world: world.scribble()),
        after=(("snapshot", "destroy", f"{V}@s", YES),),
        reads=("v",),
    ),
    Operation(
        ("volume", "rollback", f"{V}@s", "--destroy-newer"),
        "past newer",
        before=(
            ("snapshot", "create", f"{V}@s"),
            lambda world: world.scribble(),
            ("snapshot", "create", f"{V}@t"),
            ("snapshot", "bookmark", f"{V}@t", "t"),
        ),
        after=(("snapshot", "destroy", f"{V}@s", YES),),
        # Snapshots may be destroyed before the contents.
        rest=Rest.COMPLETED,
        reads=("v",),
    ),
    Operation(
        ("volume", "rescue", f"{V}@base", "--writable", "--background"),
        "begin",
        after=(("volume", "rescue", V, "--end"),),
        rest=Rest.AS_BEFORE,
        needs_server=True,
    ),
    Operation(
        ("volume", "rescue", V, "--end"),
        "end",
        before=(("volume", "rescue", f"{V}@base", "--writable", "--background"),),
        rest=Rest.AS_BEFORE,
        needs_server=True,
    ),
    Operation(("volume", "key", "create", f"{POOL}/vms", *KEEP, "file://KEY1"), after=(("filesystem", "destroy", f"{POOL}/vms", YES),)),
    Operation(("volume", "key", "load", E), before=(("volume", "key", "unload", E),), rest=Rest.AS_BEFORE, reads=("e",), needs_server=True),
    Operation(("volume", "key", "unload", E), after=(("volume", "key", "load", E),), rest=Rest.AS_BEFORE, reads=("e",), needs_server=True),
    Operation(("volume", "key", "change", E, *KEEP, "file://KEY1"), after=(("volume", "key", "change", E, *KEEP, "file://KEY0"),), reads=("e",)),
    Operation(
        ("volume", "key", "change", f"{POOL}/vms/a", "--inherit"),
        "inherit",
        before=(
            ("volume", "key", "create", f"{POOL}/vms", *KEEP, "file://KEY1"),
            ("volume", "create", f"{POOL}/vms/a", "--size", "1M", "--sparse", *KEEP, "file://KEY2"),
        ),
        after=(_destroy("vms/a"), ("filesystem", "destroy", f"{POOL}/vms", YES)),
        reads=("vms/a",),
    ),
    Operation(("snapshot", "send", f"{V}@next"), stdout="sent"),
    Operation(("snapshot", "send", f"{E}@next", "--from", "@base", "--raw"), "raw", stdout="sent"),
    Operation(("snapshot", "receive", COPY), stdin="v-base", after=(_destroy("copy"),), reads=("copy",)),
    Operation(("snapshot", "receive", COPY), "incremental", before=(_receive_base("v"),), stdin="v-next", after=(_destroy("copy"),), reads=("copy",)),
    Operation(("snapshot", "receive", COPY), "raw", stdin="e-base", after=(_destroy("copy"),)),
    Operation(("snapshot", "receive", COPY), "raw incremental", before=(_receive_base("e"),), stdin="e-next", after=(_destroy("copy"),)),
    Operation(
        ("snapshot", "receive", COPY, "--resumable"),
        "resumable",
        stdin="v-base",
        again=_resume,
        after=(_destroy("copy"),),
        rest=Rest.COMPLETED,
        reads=("copy",),
    ),
    Operation(("replicate", "run", V), before=(_replicate,), after=(_stop_replicating,), rest=Rest.COMPLETED, reads=("far/v",), needs_server=True),
    Operation(("replicate", "set", V, "--to", "127.0.0.1:1", "--peer", "PEER", "--into", f"{POOL}/far/v"), after=(("replicate", "remove", V),)),
    Operation(("replicate", "remove", W), before=(("replicate", "set", W, "--to", "127.0.0.1:1", "--peer", "PEER", "--into", f"{POOL}/far/w"),)),
    Operation(("replicate", "accept", STRANGER, "--below", f"{POOL}/near"), after=(("replicate", "revoke", STRANGER, "--pool", POOL),)),
    Operation(("replicate", "revoke", STRANGER, "--pool", POOL), before=(("replicate", "accept", STRANGER, "--below", f"{POOL}/near"),)),
    Operation(
        ("replicate", "promote", f"{POOL}/far/lost", "--original-is-lost"),
        before=(_lose_an_original,),
        after=(_destroy("far/lost"), ("filesystem", "destroy", f"{POOL}/far", YES)),
        reads=("far/lost",),
    ),
    Operation(("replicate", "identity", SECOND), before=(_make_second,), after=(_blank_spare,), probe=("pool", "status", SECOND), on_spare=True),
    Operation(("replicate", "rotate-key", SECOND), before=(_make_second,), after=(_blank_spare,), probe=("pool", "status", SECOND), on_spare=True),
    Operation(("pool", "scrub", POOL, "--wait")),
    Operation(("pool", "scrub", POOL, "--pause"), "pause", before=(_begin_slow_scrub,), after=(_end_scrub,), again=_pause_scrub),
    Operation(("pool", "scrub", POOL, "--resume"), "resume", before=(_pause_scrub,), after=(_end_scrub,)),
    Operation(("pool", "scrub", POOL, "--stop"), "stop", before=(_pause_scrub,), after=(_end_scrub,)),
    Operation(("pool", "scrub", POOL, "--schedule", "monthly"), "schedule", after=(("pool", "scrub", POOL, "--schedule", "none"),)),
    Operation(("pool", "replace-disk", POOL, "LEG0", "--with", "SPARE", "--yes"), before=(_blank_spare,), after=(_take_leg_back,), rest=Rest.COMPLETED),
    Operation(("target", "create", IQN, "--pool", POOL), after=(("target", "destroy", IQN, "--pool", POOL, "--mapped"),)),
    Operation(("target", "map", IQN, W), before=(("target", "create", IQN, "--pool", POOL),), after=(("target", "destroy", IQN, "--pool", POOL, "--mapped"),)),
    Operation(
        ("target", "allow", IQN, "--pool", POOL, "--network", "10.0.0.0/24", "--initiator", "iqn.2026-01.org.example:ann"),
        before=(("target", "create", IQN, "--pool", POOL),),
        after=(("target", "destroy", IQN, "--pool", POOL, "--mapped"),),
    ),
    Operation(
        ("target", "destroy", IQN, "--pool", POOL, "--mapped"),
        before=(("target", "create", IQN, "--pool", POOL), ("target", "map", IQN, V), ("target", "map", IQN, W)),
    ),
    Operation(
        ("target", "unmap", IQN, W),
        before=(("target", "create", IQN, "--pool", POOL), ("target", "map", IQN, W)),
        after=(("target", "destroy", IQN, "--pool", POOL, "--mapped"),),
    ),
    Operation(
        ("target", "deny", IQN, "--pool", POOL, "--network", "10.0.0.0/24"),
        before=(("target", "create", IQN, "--pool", POOL), ("target", "allow", IQN, "--pool", POOL, "--network", "10.0.0.0/24")),
        after=(("target", "destroy", IQN, "--pool", POOL, "--mapped"),),
    ),
    Operation(
        ("target", "chap", "set", IQN, "--pool", POOL, "--user", "ann", "--secret-file", "SECRET"),
        before=(("target", "create", IQN, "--pool", POOL),),
        after=(("target", "destroy", IQN, "--pool", POOL, "--mapped"),),
    ),
    Operation(
        ("target", "chap", "mutual", IQN, "--pool", POOL, "--user", "proof", "--secret-file", "SECRET"),
        before=(("target", "create", IQN, "--pool", POOL), ("target", "chap", "set", IQN, "--pool", POOL, "--user", "ann", "--secret-file", "PASSWORD")),
        after=(("target", "destroy", IQN, "--pool", POOL, "--mapped"),),
    ),
    Operation(
        ("target", "chap", "clear", IQN, "--pool", POOL, "--all"),
        before=(("target", "create", IQN, "--pool", POOL), ("target", "chap", "set", IQN, "--pool", POOL, "--user", "ann", "--secret-file", "SECRET")),
        after=(("target", "destroy", IQN, "--pool", POOL, "--mapped"),),
    ),
    Operation(("target", "discovery", "set", POOL, "--user", "finder", "--secret-file", "SECRET"), after=(("target", "discovery", "clear", POOL, "--all"),)),
    Operation(
        ("target", "discovery", "mutual", POOL, "--user", "proof", "--secret-file", "SECRET"),
        before=(("target", "discovery", "set", POOL, "--user", "finder", "--secret-file", "PASSWORD"),),
        after=(("target", "discovery", "clear", POOL, "--all"),),
    ),
    Operation(("target", "discovery", "clear", POOL, "--all"), before=(("target", "discovery", "set", POOL, "--user", "finder", "--secret-file", "SECRET"),)),
    Operation(("nbd", "unexport", W), before=(("nbd", "export", W, "--name", "w"),)),
    Operation(("nbd", "export", W, "--name", "w", "--read-only"), after=(("nbd", "unexport", W),)),
    Operation(("volume", "create", COPY, "--size", "8M", "-o", "org.example:a=1", "--compression", "zstd"), after=(_destroy("copy"),)),
    Operation(("volume", "create", COPY, "--size", "8M", *LIMITS), "with limits", after=(_destroy("copy"),)),
    Operation(("volume", "create", COPY, "--size", "8M", "--sparse", *KEEP, "file://KEY2"), "encrypted", after=(_destroy("copy"),), reads=("copy",)),
    Operation(("volume", "resize", V, "--size", "20M"), after=(("volume", "resize", V, "--size", "12M", "--allow-shrink"),)),
    Operation(("volume", "rename", V, f"{POOL}/x"), after=(("volume", "rename", f"{POOL}/x", V),)),
    Operation(
        ("volume", "destroy", COPY, "--recursive", "--exported", YES),
        before=(
            ("volume", "create", COPY, "--size", "8M"),
            ("snapshot", "create", f"{COPY}@s"),
            ("nbd", "export", COPY, "--name", "copy"),
            ("target", "map", TARGET, COPY),
        ),
        # Its exports are removed first, then the volume and its snapshots are destroyed.
        rest=Rest.COMPLETED,
    ),
    Operation(
        ("volume", "set", W, "compression=zstd", "org.example:a=1", "sync=always"),
        after=(("volume", "inherit", W, "compression", "org.example:a", "sync"),),
    ),
    Operation(
        ("volume", "inherit", W, "compression", "org.example:a"),
        # Properties are set one after the other.
        rest=Rest.COMPLETED,
        before=(("volume", "set", W, "compression=zstd", "org.example:a=1"),),
    ),
    Operation(("volume", "set", POOL, "quota=400M"), "quota", after=(("volume", "set", POOL, "quota=none"),)),
    Operation(("filesystem", "create", FILES, "--owner", "1000", "--mode", "2770", "--quota", "64M", "-o", SHARE), after=(_destroy_files(FILES),)),
    Operation(("filesystem", "create", f"{FILES}/a/b", "--parents", "--reservation", "16M"), "with parents", after=(_destroy_files(FILES),), rest=Rest.COMPLETED),
    Operation(("filesystem", "create", FILES, *KEEP, "file://KEY2"), "encrypted", after=(_destroy_files(FILES),)),
    Operation(("filesystem", "set", FILES, SHARE, "atime=off"), before=(("filesystem", "create", FILES),), after=(_destroy_files(FILES),)),
    Operation(
        ("filesystem", "set", FILES, "userquota@1000=10G", "userobjquota@1000=50000", "projectquota@7=1G"),
        "quotas of users",
        before=(("filesystem", "create", FILES),),
        after=(_destroy_files(FILES),),
    ),
    Operation(
        ("filesystem", "set", FILES, "userquota@1000=none", "userquota@2000=1G", "groupquota@100=2G"),
        "other quotas of users",
        before=(("filesystem", "create", FILES), ("filesystem", "set", FILES, "userquota@1000=10G", "groupquota@100=1G")),
        after=(_destroy_files(FILES),),
    ),
    Operation(
        ("filesystem", "inherit", FILES, "sharenfs", "atime"),
        # Properties are set one after the other.
        rest=Rest.COMPLETED,
        before=(("filesystem", "create", FILES), ("filesystem", "set", FILES, SHARE, "atime=off")),
        after=(_destroy_files(FILES),),
    ),
    Operation(("filesystem", "rename", FILES, f"{POOL}/moved"), before=(("filesystem", "create", FILES),), after=(_destroy_files(f"{POOL}/moved"),)),
    Operation(
        ("filesystem", "destroy", FILES, "--recursive", "--shared", YES),
        before=(("filesystem", "create", f"{FILES}/a", "--parents"), ("filesystem", "set", FILES, SHARE), ("snapshot", "create", f"{FILES}@s")),
        # The datasets below it are destroyed first.
        rest=Rest.COMPLETED,
    ),
    Operation(
        ("filesystem", "rollback", f"{FILES}@s", "--destroy-newer"),
        before=(("filesystem", "create", FILES), ("snapshot", "create", f"{FILES}@s"), ("snapshot", "create", f"{FILES}@t")),
        after=(_destroy_files(FILES),),
        # Snapshots may be destroyed before the files.
        rest=Rest.COMPLETED,
    ),
    Operation(
        ("filesystem", "promote", COPY),
        before=(("filesystem", "create", FILES), ("snapshot", "create", f"{FILES}@s"), ("filesystem", "clone", f"{FILES}@s", COPY)),
        after=(("filesystem", "promote", FILES), _destroy_files(COPY), _destroy_files(FILES)),
    ),
    Operation(("pool", "attach", POOL, "LEG0", "SPARE"), before=(_blank_spare,), after=(("pool", "detach", POOL, "SPARE"), _blank_spare)),
    Operation(("pool", "detach", POOL, "SPARE"), before=(_blank_spare, _attach_spare), after=(_blank_spare,)),
    Operation(
        ("pool", "add", POOL, "spare", "SPARE"),
        before=(_blank_spare,),
        again=_overwriting("pool", "add", POOL, "spare", "SPARE"),
        after=(("pool", "remove", POOL, "SPARE"), _blank_spare),
    ),
    Operation(("pool", "remove", POOL, "SPARE"), before=(_blank_spare, ("pool", "add", POOL, "spare", "SPARE")), after=(_blank_spare,)),
    Operation(("pool", "offline", POOL, "LEG0"), after=(_bring_leg_back,)),
    Operation(("pool", "online", POOL, "LEG0"), before=(("pool", "offline", POOL, "LEG0"),), after=(_bring_leg_back,)),
    Operation(
        ("pool", "create", SECOND, "SPARE"),
        before=(_blank_spare,),
        again=_overwriting("pool", "create", SECOND, "SPARE"),
        after=(_blank_spare,),
        probe=("pool", "status", SECOND),
        on_spare=True,
    ),
    Operation(
        ("pool", "destroy", SECOND, "--yes-destroy-all-data"),
        before=(_make_second,),
        after=(_blank_spare,),
        probe=("pool", "status", SECOND),
        on_spare=True,
    ),
    Operation(
        ("pool", "import", SECOND),
        before=(_make_second, ("--host-id", "00000002", "volume", "list", SECOND)),
        after=(_blank_spare,),
        # The pool exists before and after it.
        probe=("pool", "status", SECOND),
        on_spare=True,
    ),
    Operation(("pool", "clear", POOL)),
    Operation(("pool", "set", POOL, "comment=rack-7"), after=(("pool", "set", POOL, "comment="),)),
    Operation(
        ("filesystem", "clone", f"{FILES}@s", COPY),
        is_killed=False,
        before=(("filesystem", "create", FILES), ("snapshot", "create", f"{FILES}@s")),
        after=(_destroy_files(COPY), _destroy_files(FILES)),
    ),
    Operation(("volume", "clone", f"{V}@base", COPY), is_killed=False, after=(_destroy("copy"),)),
    Operation(("snapshot", "rollback", f"{V}@s"), is_killed=False, before=(("snapshot", "create", f"{V}@s"),), after=(("snapshot", "destroy", f"{V}@s", YES),)),
    Operation(
        ("pool", "replace", POOL, "LEG0", "SPARE"),
        is_killed=False,
        before=(_blank_spare,),
        after=(("pool", "scrub", POOL, "--wait"), _take_leg_back),
    ),
    Operation(("filesystem", "check", FILES), before=(("filesystem", "create", FILES),), after=(_destroy_files(FILES),)),
    # Queries by commands without a definition, or of objects that the world of the definitions' examples does not have.
    Operation(("pool", "list")),
    Operation(("portal", "list", POOL)),
    Operation(("replicate", "list", POOL)),
    Operation(("volume", "key", "status", E)),
)
