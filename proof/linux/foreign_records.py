"""Records that kernels of other systems leave: creations with flags and with access control lists, and the project
records of Linux.

Linux's kernel replays them on one disk, and we on a copy. The results of both are compared, by our process and by
``zdb``.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from proof.files.program import POOL, Entry, Program, audit
from proof.linux.files_disk import FilesDisk
from proof.linux.kernel_tree import start_zfs
from proof.linux.machine import Machine
from proof.linux.steps import require
from proof.process import checked

NAME = "foreign"
KEY_FILE = "/run/files.key"
TXG_SECONDS = 60
STEP_SECONDS = 400.0
CREATE, MKDIR, SETATTR, CREATE_ACL, CREATE_ATTR, CREATE_ACL_ATTR, MKDIR_ACL, MKDIR_ATTR, MKDIR_ACL_ATTR, WRITE2 = 1, 2, 11, 14, 15, 16, 17, 18, 19, 20
HIDDEN, IMMUTABLE, OFFLINE, PROJECT_INHERITS, PROJECT = 0x10, 0x40, 0x8000, 0x20000, 0x40000
"""Flags and other attributes, as a record encodes them (``XAT0_*``)."""
SET_OPTIONS = 1 << 31
FLAG_PROJECT, FLAG_AUTO_INHERIT = 0x800000000000, 0x40
"""Flags of an object: the first means that it has a project field, and the second is never read. A kernel sets the
first, with the project 0, on each new file, and the second on each new directory."""
FLAG_HIDDEN, FLAG_INHERITS = 0x200000000, 0x400000000000
OF_CREATION = {"/with-flags": FLAG_HIDDEN, "/with-both": FLAG_HIDDEN, "/folder-with-both": FLAG_INHERITS}
"""Flags that came with a creation. Linux's kernel, which logs none of them, drops them; we retain them, like the
systems that log them."""
OWNER, GROUP, EVERYONE, ALLOW, DENY = 0x1000, 0x2040, 0x4000, 0, 1
PASSED_ON = 0x3
LISTED = ("/with-list", "/with-both", "/folder-with-list", "/folder-with-both", "/folder-with-list/inside")


def _words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def _options(which: int, values: int = 0, project: int = 0) -> bytes:
    """``lr_attr_t``, with a map of three words."""
    return _words(3 | which << 32, 0, values, 0, 0, project, 0, 0, 0)


def _list(passes_on: int) -> tuple[bytes, bytes]:
    """Returns the header of a list, and the list, padded."""
    entries = ((4711, 0x1, passes_on, DENY), (0xFFFFFFFF, 0x1E01BF, OWNER, ALLOW), (0xFFFFFFFF, 0x120089, GROUP, ALLOW), (0xFFFFFFFF, 0x120081, EVERYONE, ALLOW))
    listed = b"".join(struct.pack("<IIHH", *entry) for entry in entries)
    return _words(len(entries), 0, 0, len(listed), 0), listed.ljust(-(-len(listed) // 8) * 8, b"\0")


def _records(root: int, plain: int, listed: int, fresh: int) -> list[tuple[int, bytes]]:
    """Returns type and body of each record."""

    def new(number: int, mode: int, directory: int = root) -> bytes:
        return _words(directory, fresh + number, mode, 1000, 100, 77, 1_700_000_000, 5, 0)

    def set_options(number: int, options: bytes) -> bytes:
        return _words(number, SET_OPTIONS, 0, 0, 0, 0, 0, 0, 0, 0) + options

    file, folder = 0o100640, 0o040750
    head, entries = _list(0)
    folder_head, folder_entries = _list(PASSED_ON)
    inherits = _options(PROJECT_INHERITS, PROJECT_INHERITS)
    return [
        (CREATE_ATTR, new(0, file) + _options(HIDDEN | OFFLINE, HIDDEN) + b"with-flags\0"),
        (MKDIR_ATTR, new(1, folder) + inherits + b"folder-with-flags\0"),
        (CREATE_ACL, new(2, file) + head + entries + b"with-list\0"),
        (CREATE_ACL_ATTR, new(3, file) + head + _options(HIDDEN, HIDDEN) + entries + b"with-both\0"),
        (MKDIR_ACL, new(4, folder) + folder_head + folder_entries + b"folder-with-list\0"),
        (MKDIR_ACL_ATTR, new(5, folder) + folder_head + inherits + folder_entries + b"folder-with-both\0"),
        (SETATTR, set_options(fresh + 1, _options(PROJECT | PROJECT_INHERITS, PROJECT_INHERITS, 7))),
        (CREATE, new(6, file, fresh + 1) + b"inside\0"),
        (MKDIR, new(7, folder, fresh + 1) + b"folder\0"),
        (CREATE, new(8, file, fresh + 4) + b"inside\0"),
        (SETATTR, set_options(plain, _options(PROJECT, project=70_000))),
        (SETATTR, set_options(listed, _options(PROJECT | IMMUTABLE, IMMUTABLE, 9))),
        (WRITE2, _words(plain, 0, 3000, 0) + bytes(128)),
    ]


@dataclass(frozen=True)
class Found:
    """The result of one replay."""

    tree: dict[str, Entry]
    lists: dict[str, str]
    projects: str
    flags: dict[str, int]
    """By paths, without the flags that only a kernel sets."""


class ForeignRecords:
    """The file system, on a disk and on a copy."""

    def __init__(self, scratch: Path, disk: FilesDisk):
        self._disk, self._twin = disk, FilesDisk(scratch, "foreign-twin")
        self._log = scratch / "foreign-program.log"

    def leave(self) -> str:
        """Leaves the records in the log of a killed process, then copies the disk."""
        self._disk.attach()
        ours = Program(self._disk.folder, "create", self._log, txg_seconds=TXG_SECONDS)
        ours.wait_ready()
        ours.do(f"create {POOL}/{NAME}")
        ours.do(f"set {POOL}/{NAME} acltype nfsv4")
        root = int(ours.do(f"open {POOL}/{NAME}"))
        plain = int(ours.do("make file /plain 644 0 0"))
        listed = int(ours.do("make file /listed 600 0 0"))
        ours.do("write /plain 0 2000 before-the-crash")
        ours.do(f"list /listed {' '.join(f'+,0,1,u{number}' for number in range(10_000, 10_400))}")
        ours.do(f"attribute /listed long {'l' * 20_000}")
        ours.do("sync")
        # The log begins with a committed change, by a transaction group that includes it.
        ours.do("mode /plain 640")
        ours.do("commit")
        records = _records(root, plain, listed, listed + 64)
        for kind, body in records:
            ours.do(f"log {kind} {body.hex()}")
        ours.do("commit")
        ours.kill()
        self._disk.detach()
        checked(["cp", "--sparse=always", self._disk.path, self._twin.path], STEP_SECONDS)
        return f"{len(records)} records, and a copy of the disk"

    def enter(self, machine: Machine) -> str:
        """Prepares the guest after its start."""
        self._machine = machine
        return start_zfs(machine, KEY_FILE)

    def kernel_replays(self) -> str:
        """The kernel mounts the file system, and exports the pool."""
        self._machine.run(
            f"""
            zpool import -f -N -R /mnt -d /dev -o cachefile=none {POOL}
            zfs mount -o noatime {POOL}/{NAME}
            ls -lR /mnt/{POOL}/{NAME}
            zpool export {POOL}
            """,
            STEP_SECONDS,
        )
        return "mounted and exported"

    def compare(self) -> str:
        """Replays them on the copy, and requires equal results."""
        theirs, ours = self._look(self._disk), self._look(self._twin)
        for path, flag in OF_CREATION.items():
            require(ours.flags[path] & flag != 0, f"{path} has lost a flag of its creation")
            theirs.flags[path] |= flag
        for what in ("tree", "lists", "projects", "flags"):
            mine, other = getattr(ours, what), getattr(theirs, what)
            require(mine == other, f"{what} by our replay: {mine}\nby the kernel's: {other}")
        return f"{len(ours.tree)} names, {len(ours.lists)} lists, flags and projects ({ours.projects}) are the same by both replays; zdb found nothing"

    def _look(self, disk: FilesDisk) -> Found:
        disk.attach()
        program = Program(disk.folder, "import", self._log)
        program.wait_ready()
        program.do(f"open {POOL}/{NAME}")
        tree = {path: _without_times(entry) for path, entry in program.tree().items()}
        lists = {path: program.do(f"entries {path}") for path in (*LISTED, "/listed")}
        projects = " ".join(sorted(program.do("projects").split()))
        program.export()
        shown = checked(["sh", "-c", f"zdb -e -p {disk.folder} -ddddd {POOL}/{NAME} 2>&1 || true"], STEP_SECONDS)
        findings = audit(disk.folder)
        disk.detach()
        require(not findings, f"zdb found: {findings}")
        flags = {path: int(flags, 16) & ~(FLAG_PROJECT | FLAG_AUTO_INHERIT) for path, flags in re.findall(r"^\s+path\t(/\S*)$.*?^\s+pflags\t(\w+)$", shown, re.M | re.S)}
        require(len(flags) >= len(tree), f"zdb shows {sorted(flags)}")
        return Found(tree, lists, projects, flags)


def _without_times(entry: Entry) -> Entry:
    return Entry(entry.kind, entry.mode, entry.uid, entry.gid, entry.links, entry.size, 0, 0, entry.created, entry.device, entry.contents)


__all__ = ["ForeignRecords"]
