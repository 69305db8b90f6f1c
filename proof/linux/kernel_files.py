"""The kernel's own OpenZFS judges our files: it mounts our file systems, we open its file systems, and each replays
the other's intent log.

Our side is the process of :mod:`proof.files` on this host, and the kernel is the guest's. The disk is one file: the
side that has imported the pool has exported it, or died, before the other one starts.
"""

from __future__ import annotations

import base64
import hashlib
import random
import re
import struct
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from proof.files.crash import KEY
from proof.files.model import UNTOLD, Change, Changes, Model, differences
from proof.files.program import POOL, Entry, Program, Tree, audit, encoded
from proof.linux.files_disk import FilesDisk
from proof.linux.kernel_tree import FUNCTIONS, start_zfs, told
from proof.linux.machine import Machine
from proof.linux.steps import require
from proof.process import checked

STEP_SECONDS = 400.0
TXG_SECONDS = 900
"""Transaction groups hardly close by themselves within a step: durable data is in the log."""
OUR_TXG_SECONDS = 60
"""The same of our process, whose maximum this is."""
RANDOM_CHANGES = 500
LOGGED_CHANGES = 150
SHOWN = 12
CLOCK_SLACK_NS = 2_000_000_000
"""Between this host's clock and the guest's."""
KEY_FILE = "/run/files.key"
OURS, SECRET, THEIRS, THEIR_OTHER = "ours", "secret", "theirs", "their-other"
MADE_BY_US = (OURS, SECRET)
MADE_BY_KERNEL: Mapping[str, str] = {
    THEIRS: "-o dnodesize=auto",
    THEIR_OTHER: "-o recordsize=16k -o xattr=dir -o compression=off -o utf8only=off",
}
ALL = (*MADE_BY_US, *MADE_BY_KERNEL)
TRIED: Mapping[str, int] = {"tried": 400, "tried-secret": 400, "tried-short": 36, "tried-short-secret": 36}
"""File systems with odd records in their logs, and the number of bytes behind a name there."""
WITH_KEY = (SECRET, *(name for name in TRIED if name.endswith(SECRET)))
_OF_THEIRS = (
    *("remove /deep/er/block", "remove /deep/clone", "remove /cut", "remove /link1000", "remove /many/a-name-that-is-long-enough-for-more-than-one-block-9"),
    *("write /random 1000 50 written-over-ooo", "write /sparse 3000000 70000 written-over-ooo", "write /holes 150000 5 written-over-ooo", "size /grown 100"),
    *("rename /deep/moved /many/back", "link /deep/short /many/short", "mode /random 4711", "owner /deep/link 5 6", "times /null 1000 2000"),
)
"""Our changes to the kernel's files."""
_REFUSED = {
    **{command: "not permitted" for command in ("write /fixed 0 5 written-over-ooo", "mode /fixed 600", "remove /fixed", "link /fixed /again", "size /grows 1", "write /grows 0 1 written-over-ooo")},
    "write /quota 0 5 written-over-ooo": "the quota is used up",
    "owner /sparse 4242 0": "the quota is used up",
}
"""Changes to them that must be refused, and the error."""
WITH_ATTRIBUTES = re.compile(r"/random|/deep|/deep/er/block|/from-kernel/new|/begun|/logged-\d+/durable|/logged-\d+/inside|/grown|/large")

_WRITES = r"""
cd $tree
mkdir -p deep/er/est many empty; chmod 2775 deep; chown 1000:100 deep
for number in $(seq 1200); do : >many/a-name-that-is-long-enough-for-more-than-one-block-$number; done
head -c 300000 /dev/urandom >random; head -c 777 /dev/urandom >deep/short; head -c 131072 /dev/urandom >deep/er/block
printf x | dd of=sparse bs=1 seek=4G conv=notrunc status=none; printf y | dd of=sparse bs=1 seek=1M conv=notrunc status=none
for size in 1 511 513 4095 70000; do head -c $size /dev/urandom >>grown; done
head -c 1000000 /dev/urandom >cut; truncate -s 333333 cut; truncate -s 500000 cut
head -c 600000 /dev/urandom >holes; fallocate -p -o 100000 -l 300000 holes
ln random deep/second; ln -s short deep/link; ln -s $(head -c 100 /dev/zero | tr '\0' l) link100; ln -s $(head -c 1000 /dev/zero | tr '\0' l) link1000
mknod null c 1 3; mknod disk b 259 70000; mkfifo deep/pipe; chmod 4755 random; chmod 1777 empty; chmod 0 deep/short
chown 4000000000:4000000001 deep/er/block; : >$'odd \xff\n"%name'; : >$(head -c 255 /dev/zero | tr '\0' n)
touch -h -d '1960-02-03 04:05:06.789' deep/link; touch -d '2400-01-01' grown; touch -a -d '1999-01-01' cut
setfattr -n user.short -v value random; setfattr -n user.long -v $(head -c 3000 /dev/zero | tr '\0' v) random
for number in $(seq 30); do setfattr -n user.many$number -v $number-$number deep; done
setfattr -n user.of-link-free -v x deep/er/block; setfattr -n trusted.t -v y many
mv many/a-name-that-is-long-enough-for-more-than-one-block-7 deep/moved; rm many/*-1?; mkdir gone; rmdir gone
cp --reflink=auto random deep/clone
head -c 300000 /dev/urandom >quota; chown 4242 quota
printf fixed >fixed; printf grows >grows; chattr +i fixed; chattr +a grows
"""
"""One object of each kind that Linux creates."""

_CHANGES = r"""
cd $tree
some() { busybox find . -maxdepth 1 -type f -name "$1[0-9]*" | sort | head -n 5; }
mkdir from-kernel; head -c 200000 /dev/urandom >from-kernel/new
for file in $(some a); do printf appended >>$file; mv $file from-kernel/; done
for file in $(some b); do truncate -s 50000 $file; chmod 640 $file; chown 1001 $file; done
for file in $(some c); do rm $file; done
if [ -d large ]; then rm -r large/gone; rm large/*-1[0-3][0-9][1-5]; mv large/*-2 large/renamed; printf over | dd of=long bs=1 seek=4000000 conv=notrunc status=none; fi
setfattr -n user.from -v kernel from-kernel/new
"""
"""The kernel's changes to a tree that we wrote."""

_LOGGED = r"""
cd $tree
mkdir logged logged/inside; printf 'after the commit' >logged/file
head -c 20000 /dev/urandom | dd of=logged/durable bs=20000 iflag=fullblock oflag=dsync status=none
head -c 2000000 /dev/urandom | dd of=logged/large bs=1000000 iflag=fullblock oflag=dsync status=none
ln -s to/somewhere logged/link; mknod logged/device c 5 1; mkfifo logged/pipe; ln logged/file logged/second
mv logged/file logged/inside/moved; truncate -s 777777 logged/large; fallocate -p -o 65536 -l 200000 logged/large
chmod 600 logged/durable; chown 1000:100 logged/durable; touch -d '2001-02-03' logged/inside
: >logged/replaced; : >logged/replacing; mv logged/replacing logged/replaced
: >logged/gone; rm logged/gone; mkdir logged/empty; rmdir logged/empty
printf more >>logged/durable; touch -d '2005-05-05 05:05:05' logged/durable
setfattr -n user.logged -v new logged/durable; setfattr -n user.other -v $(head -c 2000 /dev/zero | tr '\0' v) logged/inside
setfattr -n user.gone -v x logged/durable; setfattr -x user.gone logged/durable; setfattr -n user.early -v changed begun
cp --reflink=auto cloned logged/clone 2>/dev/null || true; printf over | dd of=logged/clone bs=1 seek=140000 conv=notrunc status=none
: >logged/fixed; chattr +i logged/fixed; mkdir logged/swapped; : >logged/x; rename exchange logged/x logged/swapped; rename whiteout logged/inside/moved logged/hidden
sync -f .
"""
"""Changes that are durable only by the kernel's log. Each round has a directory of its own instead of ``logged``."""


LIMITED = 4343
"""A user with quotas that we set."""
_QUOTAS = (f"user {LIMITED} bytes 102400", f"user {LIMITED} objects 50", f"group {LIMITED} bytes 4096", f"group {LIMITED} bytes 0", "project 77 bytes 1048576")
_LIMITED = rf"""
cd $tree; head -c 300000 /dev/urandom >limited; chown {LIMITED} limited; zpool sync
if printf more >>limited; then echo 'a quota that we set is not enforced' >&2; exit 1; fi
rm limited; zpool sync
"""
"""A user's file that is larger than the quota cannot grow."""

_HELD = "printf x >held; (exec setsid sleep 3600 <held >/dev/null 2>&1) & sleep 0.2; rm held"
"""A file that is open without a name while its transaction group is written, and when the power fails."""


def programs(scratch: Path) -> dict[str, Path]:
    """Returns the stock tools for the guest, by their names there, and ours."""
    names = ("zpool", "zfs", "setfattr", "getfattr")
    ours = {name: scratch / name for name in ("rename", "perform")}
    for name, program in ours.items():
        checked(["gcc", "-Wall", "-Werror", "-O1", "-o", program, Path(__file__).with_name(f"{name}.c")], 60)
    return {**ours, **{name: Path(checked(["sh", "-c", f"PATH=$PATH:/usr/sbin:/sbin command -v {name}"], 10).strip()) for name in names}}


DENIED, READER = 4711, 4712
"""The users of access control lists."""
_ALL_RIGHTS = 0x1F01FF
_LISTS = (
    "make directory /lists 755 0 0",
    f"list /lists -,0,6,u{DENIED} +,3,1,u{READER} +,0,{_ALL_RIGHTS},o +,0,{_ALL_RIGHTS},g +,0,{_ALL_RIGHTS},e",
    "make file /lists/ours 644 0 0",
    "mode /lists/ours 640",
    "make file /lists/chosen 600 0 0",
    f"list /lists/chosen -,0,2,u{DENIED} +,0,3,o +,0,1,e",
    "make directory /lists/below 750 0 0",
    *(f"make file /lists/many{number} 600 0 0" for number in range(3)),
    f"list /lists/many1 {' '.join(f'+,0,1,u{number}' for number in range(10_000, 10_400))}",
)
"""Lists that a directory passes on, that a mode replaces, and that do not fit next to the other attributes."""


class KernelFiles:
    """The pool, and the contents of its file systems."""

    def __init__(self, scratch: Path, disk: FilesDisk, seed: int):
        self._disk = disk
        self.twin = disk.path.parent / "twin" / disk.path.name
        """A copy of the disk. Its file name is the serial number that a guest sees."""
        self._log = scratch / "files-program.log"
        self._seed = seed
        self._round = 0
        self.replayed_by_us = self.replayed_by_kernel = 0
        """Numbers of replayed logs, with records that zdb saw before."""
        self._twin_since = 0
        """When the kernel started to replay its own log, in nanoseconds."""
        self._trees: dict[str, Tree] = {}
        """The contents of each file system, as its last writer reported them."""
        self._models: dict[str, Model] = {}
        self._attributes: dict[tuple[str, str], dict[str, str]] = {}
        """Extended attributes by file system and path."""

    # ---------------------------------------------------------------- our side

    def we_write(self) -> str:
        """Creates a pool with trees of all object kinds that we support."""
        self._disk.attach()
        ours = Program(self._disk.folder, "create", self._log)
        ours.wait_ready()
        ours.do(f"create {POOL}/{OURS}")
        ours.do(f"create-secret {POOL}/{SECRET} {KEY}")
        ours.do(f"set {POOL}/{SECRET} recordsize 16384")
        for lane, name in enumerate(MADE_BY_US):
            ours.do(f"open {POOL}/{name}", lane)
            self._models[name] = Model()
            self._perform(ours, lane, name, _large(), RANDOM_CHANGES)
            # Random changes may have removed one of them.
            self._give_attributes(ours, lane, name, *({"/grown", "/large"} & ours.tree(lane).keys()))
            for quota in _QUOTAS:
                ours.do(f"quota {quota}", lane)
            found = self._trees[name] = ours.tree(lane)
            _require_same(name, found, self._models[name].tree())
        ours.export(range(len(MADE_BY_US)))
        self._audit()
        return f"{sum(map(len, self._trees.values()))} names in {len(MADE_BY_US)} file systems; zdb found nothing"

    def we_read(self) -> str:
        """Compares all file systems of the kernel, its tree and ours."""
        ours = self._open(ALL)
        self._judge_ours(ours, ALL)
        ours.export(range(len(ALL)))
        self._audit()
        return f"{sum(map(len, self._trees.values()))} names in {len(ALL)} file systems equal the kernel's report; zdb found nothing"

    def we_leave_a_log(self) -> str:
        """Leaves changes that only the log has, in all file systems, in a process that is killed."""
        self._round += 1
        below = f"/logged-by-us-{self._round}"
        ours = self._open(ALL, OUR_TXG_SECONDS)
        for name in ALL:
            # This call needs a transaction group.
            ours.do(f"set {POOL}/{name} acltype nfsv4")
        for lane, name in enumerate(ALL):
            # The log begins with the first committed change, by a transaction group that includes it.
            ours.do(f"make file /log-begins-{self._round} 644 0 0", lane)
            ours.do("commit", lane)
        for lane, name in enumerate(ALL):
            is_theirs = name in MADE_BY_KERNEL and self._round == 1
            for command in (*(_OF_THEIRS if is_theirs else ()), f"make directory {below} 755 0 0"):
                ours.do(command, lane)
            if is_theirs:
                self._judge_refusals(ours, lane)
            self._models[name] = Model()
            self._perform(ours, lane, name, [], LOGGED_CHANGES, below.encode())
            ours.do(f"make file {below}-attributes 644 0 0", lane)
            self._give_attributes(ours, lane, name, f"{below}-attributes", *(("/random",) if name in MADE_BY_KERNEL else ()))
            for command in _LISTS:
                ours.do(command.replace("/lists", f"{below}-lists"), lane)
            ours.do("commit", lane)
            tree = self._trees[name] = ours.tree(lane)
            found = {path.removeprefix(below) or "/": entry for path, entry in tree.items() if (path + "/").startswith(below + "/")}
            _require_same(name, found, self._models[name].tree())
        ours.kill()
        return self._records("we were killed", LOGGED_CHANGES // 2)

    def we_replay(self) -> str:
        """Replays the changes that the kernel had made durable before its power failed."""
        records = self._records("the kernel lost its power", 10)
        ours = self._open(ALL)
        for name in ALL:
            self._trees[name] = _with_late_times(self._trees[name], self._twin_since)
        self._judge_ours(ours, ALL, self._twin_since)
        for lane, name in enumerate(ALL):
            ours.do("commit", lane)
            ours.do(f"make directory /after-the-replay-{self._round} 755 0 0", lane)
            self._trees[name] = ours.tree(lane)
        ours.export(range(len(ALL)))
        self._require_drained()
        self._audit()
        self.replayed_by_us += len(ALL)
        return f"{records}; all is there, and zdb found nothing"

    # --------------------------------------------------------- the kernel's side

    def enter(self, machine: Machine) -> str:
        """After each start of the guest: loads the modules and the key."""
        self._machine = machine
        return start_zfs(machine, KEY_FILE)

    def kernel_reads(self) -> str:
        """The kernel mounts our file systems, and finds no damage."""
        self._import(MADE_BY_US, "-o ro -o noatime")
        self._judge_kernel(MADE_BY_US)
        counted = self._judge_counts(OURS)
        for name in MADE_BY_US:
            self._judge_quotas(name)
        self._scrub()
        return f"{sum(len(self._trees[name]) for name in MADE_BY_US)} names equal our report; {counted}; quotas are as we set them; its scrub repaired 0B"

    def kernel_writes(self) -> str:
        """Creates file systems of the kernel, and changes ours by the kernel."""
        self._run("".join(f"zfs umount {POOL}/{name}; zfs mount -o noatime {POOL}/{name}\n" for name in MADE_BY_US))
        for name, options in MADE_BY_KERNEL.items():
            self._run(f"zfs create -o atime=off {options} -o mountpoint=/mnt/{name} {POOL}/{name}\ntree=/mnt/{name}\n({_WRITES})")
        for name in MADE_BY_US:
            self._run(f"tree=/mnt/{name}\n({_CHANGES})")
            self._run(f"tree=/mnt/{name}\n({_LIMITED})")
        for name in MADE_BY_KERNEL:
            self._run(f"zpool sync; zfs set userquota@4242=100K {POOL}/{name}")
        self._keep(ALL)
        self._export()
        return f"{sum(len(self._trees[name]) for name in ALL)} names in {len(ALL)} file systems"

    def kernel_replays(self) -> str:
        """The kernel imports the pool of our killed process, and replays our logs."""
        since = time.time_ns() - CLOCK_SLACK_NS
        self._import(ALL, "-o noatime", "-f")
        self._judge_kernel(ALL, since)
        self._scrub()
        # A file that lost its last name while it was open is gone, too. A directory of attributes is an object without
        # a name.
        counted = [self._judge_counts(name) for name in ALL if name != THEIR_OTHER]
        self.replayed_by_kernel += len(ALL)
        return f"our committed changes are there; in {len(counted)} file systems the objects of all users are counted; its scrub repaired 0B"

    def kernel_leaves_a_log(self) -> str:
        """Makes changes that only the kernel's log has. The caller then cuts the power."""
        self._run(f"echo {TXG_SECONDS} >/sys/module/zfs/parameters/zfs_txg_timeout; zpool sync; zpool sync")
        for name in ALL:
            # A log begins with a commit that blocks on a transaction group, which would include records of other file
            # systems' logs. Only blocks on disk can be cloned.
            self._run(f"cd /mnt/{name}; : >begun; setfattr -n user.early -v early begun; head -c 400000 /dev/urandom >cloned; {_HELD}; zpool sync; printf x | dd of=begins oflag=dsync status=none")
        for name in ALL:
            self._run(f"tree=/mnt/{name}\n({_LOGGED.replace('logged', f'logged-{self._round}')})")
        self._keep(ALL)
        return f"{sum(len(self._trees[name]) for name in ALL)} names"

    def copy_disk(self) -> str:
        """Copies the disk, so that another kernel replays the log of the copy."""
        self.twin.parent.mkdir(exist_ok=True)
        checked(["cp", "--sparse=always", self._disk.path, self.twin], STEP_SECONDS)
        return "two copies of the disk"

    def kernel_replays_its_own(self) -> str:
        """The kernel's replay of its own log, in which changes of attributes may follow later changes of names: our
        replay must have the same result."""
        self._twin_since = time.time_ns() - CLOCK_SLACK_NS
        self._import(ALL, "-o noatime", "-f")
        for name in ALL:
            before, after = self._trees[name], self._kernel_tree(name)
            _require_same(name, after, {path: replace(entry, accessed=UNTOLD, modified=UNTOLD) for path, entry in before.items()})
            # A kernel sets no time of access when it replays.
            self._trees[name] = {path: replace(entry, accessed=before[path].accessed) for path, entry in after.items()}
        self._judge_attributes(self._kernel_attributes, ALL)
        return f"{sum(len(self._trees[name]) for name in ALL)} names"

    def make_pool(self) -> str:
        """Creates an empty pool."""
        self._disk.attach()
        ours = Program(self._disk.folder, "create", self._log)
        ours.wait_ready()
        ours.export(())
        self._disk.detach()
        return "an empty pool"

    def we_try(self) -> str:
        """Writes records that no ZFS writes, to the logs of file systems with a key and without, to observe the
        kernel's replay."""
        ours = self._open((), OUR_TXG_SECONDS)
        odd: list[list[tuple[int, bytes]]] = []
        for lane, (name, tail_bytes) in enumerate(TRIED.items()):
            ours.do(f"create-secret {POOL}/{name} {KEY}" if name in WITH_KEY else f"create {POOL}/{name}")
            root = int(ours.do(f"open {POOL}/{name}", lane))
            numbers = [int(ours.do(f"make file /{file} 644 0 0", lane)) for file in ("written", "kept", "gone", "old")]
            ours.do("make directory /gone-too 755 0 0", lane)
            for file in ("written", "kept"):
                ours.do(f"write /{file} 0 2000 before-the-crash", lane)
            orphan = int(ours.do("orphan", lane))
            ours.do(f"note bulkhead-state {orphan}", lane)
            odd.append(_odd_records(root, numbers, tail_bytes))
        # A transaction group that closes after them would turn them into records of the past.
        ours.do("sync")
        for lane in range(len(TRIED)):
            # The log begins with the first committed change, by a transaction group that includes it.
            ours.do("mode /old 600", lane)
            ours.do("commit", lane)
        for lane, records in enumerate(odd):
            for kind, body in records:
                ours.do(f"log {kind} {body.hex()}", lane)
            ours.do("commit", lane)
        ours.kill()
        self._disk.detach()
        return f"{sum(map(len, odd))} records in {len(TRIED)} file systems: bytes behind their names, writes of no length; an object without a name that the master node refers to"

    def kernel_tries(self) -> str:
        """Checks the result of the kernel's replay."""
        self._import(tuple(TRIED), "-o noatime", "-f")
        seen = set()
        for name in TRIED:
            tree = self._kernel_tree(name)
            expected = {"/", "/created", "/folder", "/link", "/second", "/new", "/written", "/kept"}
            require(set(tree) == expected, f"{name}: {sorted(tree)}")
            require(tree["/link"].contents == "leads/to", f"the link leads to {tree['/link'].contents}")
            require(tree["/kept"].mode == "4711" and tree["/second"].links == 2, f"{tree['/kept']}")
            whole = hashlib.sha256(b"before-the-crash" * 125).hexdigest()
            zeroed = hashlib.sha256(bytes(512) + b"before-the-crash" * 93).hexdigest()
            require(tree["/kept"].contents == whole, f"{name}: a write of no length with bytes behind it has changed the file")
            seen.add({whole: "whole", zeroed: "without its first 512 bytes"}.get(tree["/written"].contents, "something else"))
        self._scrub()
        self._export()
        return f"bytes behind names are ignored; after a write of no length without bytes the file is {' or '.join(sorted(seen))}; with bytes it is whole; {len(TRIED)} file systems, no record lost"

    def audit_tried(self) -> str:
        """Checks the pool after the trials."""
        self._audit()
        return "zdb found nothing"

    # ------------------------------------------------------------------ hands

    def _judge_quotas(self, name: str) -> None:
        """The kernel's tools show the quotas that we set."""
        dataset = f"{POOL}/{name}"
        shown = self._run(f"zfs get -Hp -o value userquota@{LIMITED},userobjquota@{LIMITED},groupquota@{LIMITED} {dataset}").split()
        require(shown[:2] == ["102400", "50"] and shown[2:] in (["none"], ["0"]), f"{name}: the quotas are {shown}")
        users = self._run(f"zfs userspace -Hpn -o name,quota,objquota {dataset}")
        require([str(LIMITED), "102400", "50"] in [line.split() for line in users.splitlines()], f"{name}: zfs userspace shows\n{users}")
        projects = self._run(f"zfs projectspace -Hpn -o name,quota {dataset}")
        require(["77", "1048576"] in [line.split() for line in projects.splitlines()], f"{name}: zfs projectspace shows\n{projects}")

    def _run(self, script: str) -> str:
        return self._machine.run(FUNCTIONS + script, STEP_SECONDS)

    def _import(self, names: tuple[str, ...], options: str, force: str = "") -> None:
        keys = "".join(f"zfs load-key -L file://{KEY_FILE} {POOL}/{name}\n" for name in names if name in WITH_KEY)
        mounts = "".join(f"zfs set -u mountpoint=/mnt/{name} {POOL}/{name}; zfs mount {options} {POOL}/{name}\n" for name in names)
        self._run(f"zpool import {force} -N -d /dev -o cachefile=none {POOL}; {keys}\n{mounts}")

    def _export(self) -> None:
        self._run(f"cd /; zpool export {POOL}")

    def _scrub(self) -> None:
        shown = self._run(f"zpool scrub -w {POOL}; zpool status -p {POOL}")
        require("errors: No known data errors" in shown and "repaired 0B" in shown, f"the kernel's ZFS found:\n{shown}")

    def _keep(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._trees[name] = self._kernel_tree(name)
            paths = [path for path in self._trees[name] if WITH_ATTRIBUTES.fullmatch(path)]
            for path, attributes in self._kernel_attributes(name, paths).items():
                self._attributes[name, path] = attributes

    def _kernel_attributes(self, name: str, paths: Sequence[str]) -> dict[str, dict[str, str]]:
        """Returns the extended attributes of users by paths, their values in hex."""
        if not paths:
            return {}
        files = " ".join(f"/mnt/{name}{path}" for path in paths)
        shown = self._run(f"getfattr -h --absolute-names -d -m '^user' -e hex {files}")
        told = {path: "" for path in paths}
        for block in shown.split(f"# file: /mnt/{name}")[1:]:
            path, _, lines = block.partition("\n")
            told[path] = lines
        return {path: dict(re.findall(r"^user\.(\S+?)=0x(\w*)$", lines, re.M)) for path, lines in told.items()}

    def _our_attributes(self, ours: Program, lane: int, path: str) -> dict[str, str]:
        shown = (word.split("=") for word in ours.do(f"attributes {path}", lane).split())
        return {name: _decoded(value).hex() for name, value in shown}

    def _judge_attributes(self, told: Callable[[str, Sequence[str]], dict[str, dict[str, str]]], names: Sequence[str]) -> None:
        for name in names:
            expected = {path: attributes for (of, path), attributes in self._attributes.items() if of == name and path in self._trees[name]}
            found = told(name, list(expected))
            for path, attributes in expected.items():
                require(found[path] == attributes, f"extended attributes of {name}{path}: {str(found[path])[:500]}, not {str(attributes)[:500]}")

    def _kernel_tree(self, name: str) -> Tree:
        return told(base64.b64decode(self._run(f"told /mnt/{name} | base64 -w0").split()[-1]))

    def _judge_kernel(self, names: tuple[str, ...], replayed_since: int | None = None) -> None:
        for name in names:
            found, expected = self._kernel_tree(name), self._trees[name]
            if replayed_since:
                # A kernel sets no time of access when it replays.
                expected = {path: replace(entry, accessed=UNTOLD) for path, entry in expected.items()}
            _require_same(name, found, expected, replayed_since)
            self._trees[name] = found
        self._judge_attributes(self._kernel_attributes, names)

    def _judge_ours(self, ours: Program, names: tuple[str, ...], replayed_since: int | None = None) -> None:
        """After a replay the expected tree has late times, too."""
        for lane, name in enumerate(names):
            found = ours.tree(lane)
            _require_same(name, _with_late_times(found, replayed_since) if replayed_since else found, self._trees[name])
        self._judge_attributes(lambda name, paths: {path: self._our_attributes(ours, names.index(name), path) for path in paths}, names)

    def _judge_counts(self, name: str) -> str:
        """Compares the kernel's object counts of each user with the owners in the tree."""
        shown = self._run(f"zfs userspace -n -H -p -o name,objused {POOL}/{name}")
        told = {int(user): int(count) for user, count in (line.split() for line in shown.splitlines() if line)}
        counted: dict[int, int] = {}
        seen: set[tuple[int, int, str]] = set()
        for entry in self._trees[name].values():
            identity = (entry.uid, entry.created, entry.contents)
            if entry.links > 1 and entry.kind != "directory" and identity in seen:
                continue
            seen.add(identity)
            counted[entry.uid] = counted.get(entry.uid, 0) + 1
        require(told == counted, f"files of each user: the kernel counts {told}, the tree has {counted}")
        return f"the objects of {len(told)} users are counted"

    def _open(self, names: tuple[str, ...], txg_seconds: int = 5) -> Program:
        self._disk.attach()
        ours = Program(self._disk.folder, "import", self._log, txg_seconds=txg_seconds)
        ours.wait_ready()
        if SECRET in names:
            ours.do(f"key {POOL}/{SECRET} {KEY}")
        for lane, name in enumerate(names):
            ours.do(f"open {POOL}/{name}", lane)
        return ours

    def _perform(self, ours: Program, lane: int, name: str, first: list[Change], count: int, below: bytes = b"") -> None:
        model = self._models[name]
        changes = Changes(model, random.Random(f"{self._seed}:{name}:{count}"))
        for change in first:
            model.perform(change)
            ours.do(change.command(below), lane)
        for _ in range(count):
            ours.do(changes.next().command(below), lane)

    def _judge_refusals(self, ours: Program, lane: int) -> None:
        for command, why in _REFUSED.items():
            ours.send(lane, command)
            answer = ours.answer(lane)
            require(answer == f"error {why}", f"{command}: {answer}, not {why}")

    def _give_attributes(self, ours: Program, lane: int, name: str, *paths: str) -> None:
        for path in paths:
            for number in range(1, 25):
                ours.do(f"attribute {path} many{number} {'v' * number}", lane)
            ours.do(f"attribute {path} long {'l' * 20_000}", lane)
            ours.do(f"attribute {path} many3 changed", lane)
            ours.do(f"attribute {path} many4", lane)
            self._attributes[name, path] = self._our_attributes(ours, lane, path)

    def _audit(self) -> None:
        self._disk.attach()
        findings = audit(self._disk.folder)
        self._disk.detach()
        require(not findings, f"zdb found: {findings}")

    def _records(self, when: str, least: int) -> str:
        counts = {name: self._count_records(name) for name in ALL}
        self._disk.detach()
        plain = {name: count for name, count in counts.items() if name != SECRET}
        require(all(count >= least for count in plain.values()), f"records of the log when {when}: {counts}")
        return f"when {when}, zdb found " + ", ".join(f"{count} records of {name}" for name, count in plain.items())

    def _require_drained(self) -> None:
        """Requires that no unlinked object is left."""
        self._disk.attach()
        for name in ALL:
            if name == SECRET:
                continue
            queue = re.findall(r"DELETE_QUEUE = (\d+)", self._zdb("-dddd", name, "1"))
            left = re.findall(r"^\s+[0-9a-f]+ = \d+", self._zdb("-dddd", name, *queue), re.M)
            require(len(queue) == 1 and not left, f"objects of {name} without a name are left: {left}")
        self._disk.detach()

    def _zdb(self, how: str, name: str, *objects: str) -> str:
        return checked(["sh", "-c", f"zdb -e -p {self._disk.folder} {how} {POOL}/{name} {' '.join(objects)} 2>&1 || true"], STEP_SECONDS)

    def _count_records(self, name: str) -> int:
        self._disk.attach()
        return len(re.findall(r"^\s*TX_\w+\s+len", self._zdb("-iiiii", name), re.M))


def _odd_records(root: int, numbers: list[int], tail_bytes: int) -> list[tuple[int, bytes]]:
    """Returns type and body of records with ``tail_bytes`` more than a kernel writes."""
    written, kept, _, _ = numbers
    behind = (b"BULKHEAD" + bytes(range(256)) + b"\xff" * tail_bytes)[:tail_bytes]
    fresh = max(numbers) + 64

    def words(*numbers: int) -> bytes:
        return struct.pack(f"<{len(numbers)}Q", *numbers)

    def new(number: int, mode: int) -> bytes:
        return words(root, number, mode, 0, 0, 77, 1_700_000_000, 5, 0)

    setting = words(kept, 0x1, 0o4711, 0, 0, 0, 0, 0, 0, 0)
    return [
        (1, new(fresh, 0o100644) + b"created\0" + behind),
        (2, new(fresh + 1, 0o040755) + b"folder\0" + behind),
        (4, new(fresh + 2, 0o120777) + b"link\0leads/to\0" + behind),
        (5, words(root) + b"gone\0" + behind),
        (6, words(root) + b"gone-too\0" + behind),
        (7, words(root, kept) + b"second\0" + behind),
        (8, words(root, root) + b"old\0new\0" + behind),
        (11, setting + behind),
        (9, words(written, 0, 0, 0) + bytes(128)),
        (9, words(kept, 0, 0, 0) + bytes(128) + behind),
    ]


def _decoded(word: str) -> bytes:
    return urllib.parse.unquote_to_bytes(word)


def _large() -> list[Change]:
    """Returns changes that random ones do not include: a directory of many names, long files, odd names."""
    changes: list[Change] = [Change(("make", "directory", b"/large", "755", 0, 0))]
    for number in range(1500):
        changes.append(Change(("make", "file", b"/large/a-name-that-is-long-enough-for-many-blocks-%d" % number, "644", number % 3, 0)))
    for number in range(0, 1500, 7):
        changes.append(Change(("remove", b"/large/a-name-that-is-long-enough-for-many-blocks-%d" % number)))
    changes += [
        Change(("make", "directory", b"/large/gone", "755", 0, 0)),
        Change(("make", "file", b"/large/gone/too", "644", 0, 0)),
        Change(("make", "file", b"/long", "4750", 7, 8)),
        Change(("write", b"/long", 0, 5_000_000, "0123456789abcde\u007e")),
        Change(("write", b"/long", 9_000_001, 70_000, "fedcba987654321~")),
        Change(("mode", b"/long", "4750")),
        Change(("make", "file", b"/grown", "640", 1000, 100)),
        *(Change(("write", b"/grown", offset, length, "growing-growing~")) for offset, length in ((0, 1), (1, 510), (511, 5), (600, 9000), (3, 100_000), (131_072, 3))),
        Change(("make", "link", b"/link", "777", 1, 1, b"t" * 4000)),
        Change(("make", "file", b"/odd \xff\n\"%name", "600", 0, 0)),
        Change(("make", "file", b"/" + b"n" * 255, "600", 4_000_000_000, 4_000_000_001)),
        Change(("times", b"/grown", -300_000_000 * 1_000_000_000 - 1, 13_569_465_600 * 1_000_000_000 + 999)),
    ]
    return changes


def _require_same(name: str, found: Tree, expected: Tree, replayed_since: int | None = None) -> None:
    """A replay of a change happens later than the change: its time may be that of the replay."""
    if replayed_since:
        is_later = {path for path, entry in found.items() if entry.modified >= replayed_since}
        expected = {path: replace(entry, modified=UNTOLD) if path in is_later else entry for path, entry in expected.items()}
    if complaints := differences(found, expected):
        shown = "\n  ".join(complaints[:SHOWN])
        require(False, f"{name}: {len(complaints)} of {len(expected)} names differ:\n  {shown}")


def _with_late_times(tree: Tree, since: int) -> Tree:
    """Two replays of one log result in the same times except those of the replay itself, which are at least
    ``since``."""
    return {path: replace(entry, modified=min(entry.modified, since)) for path, entry in tree.items()}


__all__ = ["KernelFiles", "programs"]
