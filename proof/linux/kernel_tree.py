"""The contents of a file system of the guest's kernel, as the guest's tools report them."""

from __future__ import annotations

from dataclasses import replace

from proof.files.program import Entry, Tree, encoded
from proof.linux.luggage import PLACE
from proof.linux.machine import Machine
from proof.linux.modules import MODULES, zfs_version
from proof.linux.steps import require

START_SECONDS = 400.0

_KINDS = {0o100000: "file", 0o040000: "directory", 0o120000: "link", 0o060000: "block", 0o020000: "character", 0o140000: "socket", 0o010000: "pipe"}

FUNCTIONS = r"""
told() {
    cd $1
    busybox find . -print0 | busybox xargs -0 -n 500 /usr/bin/stat --printf '%n\0%f %u %g %h %s %.9X %.9Y %.9W %t %T\0'
    printf '\0'
    busybox find . -type f ! -size +65536k -print0 | busybox xargs -0 -r -n 500 /usr/bin/sha256sum -z
    busybox find . -type f -size +65536k -print0 | busybox xargs -0 -r -n 1 bash -c 'sum=$({ head -c 4M "$0"; tail -c 4M "$0"; } | sha256sum); printf "%s  %s\0" "${sum%% *}" "$0"'
    printf '\0'
    busybox find . -type l -print0 | busybox xargs -0 -r -n 500 /usr/bin/readlink -z
}
"""
"""Of the guest's shell: ``told DIRECTORY`` prints a tree."""


def _nanoseconds(text: bytes) -> int:
    seconds, _, fraction = text.partition(b".")
    value = int(seconds) * 1_000_000_000
    return value + (int(fraction or 0) if not seconds.startswith(b"-") else -int(fraction or 0))


def _path(name: bytes) -> str:
    return encoded(name[1:] or b"/")


def told(printed: bytes) -> Tree:
    """Parses the output of the shell function ``told``."""
    entries, sums, links = printed.split(b"\0\0", 2) if printed.count(b"\0\0") >= 2 else (printed, b"", b"")
    tree: Tree = {}
    words = entries.split(b"\0")
    order = []
    for name, told in zip(words[::2], words[1::2], strict=False):
        mode, uid, gid, count, size, accessed, modified, created, major, minor = told.split()
        kind = _KINDS[int(mode, 16) & 0o170000]
        device = f"{int(major, 16)}:{int(minor, 16)}" if kind in ("block", "character") else "0:0"
        times = [_nanoseconds(time) for time in (accessed, modified, created)]
        path = _path(name)
        order.append((path, kind))
        tree[path] = Entry(kind, f"{int(mode, 16) & 0o7777:o}", int(uid), int(gid), int(count), int(size), *times, device, "-")
    for line in sums.split(b"\0"):
        if line:
            checksum, name = line.split(b"  ", 1)
            tree[_path(name)] = replace(tree[_path(name)], contents=checksum.decode())
    for path, target in zip((path for path, kind in order if kind == "link"), links.split(b"\0"), strict=False):
        tree[path] = replace(tree[path], contents=encoded(target))
    return tree


def start_zfs(machine: Machine, key_file: str) -> str:
    """After each start of the guest: loads the modules, the disk, and the key of :data:`proof.files.crash.KEY`."""
    loads = "".join(f"insmod /{PLACE}/{name}.ko\n" for name in MODULES)
    machine.run(
        f"""
        mkdir -p /etc/zfs
        until [ $(ls -d /sys/block/vd* | wc -l) -ge 1 ]; do sleep 0.1; done
        {loads}
        until [ -c /dev/zfs ]; do sleep 0.1; done
        printf 'k%.0s' $(seq 32) >{key_file}
    """,
        START_SECONDS,
    )
    shown = machine.run("cat /sys/module/zfs/version").strip()
    require(shown == zfs_version(), f"the kernel has ZFS {shown}, our library {zfs_version()}")
    return f"ZFS {shown} in Linux {machine.release}"


__all__ = ["FUNCTIONS", "start_zfs", "told"]
