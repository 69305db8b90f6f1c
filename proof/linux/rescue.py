"""The commands that ``bulkhead volume rescue`` prints, run as they are printed by a whole Linux: LVM, LUKS, md and
Btrfs of its kernel, and ZFS of our own engine.

All of it is in one guest: a pool on a disk, a volume in it with a partition for each kind of contents, and a rescue of
that volume. The partitions are created through a writable rescue, with the stock tools, and blkid judges what the
rescue recognises in them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from proof.linux.guest_server import GuestServer
from proof.linux.luggage import PACK_SECONDS, PLACE
from proof.linux.machine import Machine
from proof.linux.root import KERNEL_METAPACKAGE, LEFT_OUT, GuestImage, copy_modules, download, download_whole, from_cache, unpack
from proof.linux.steps import require
from proof.process import checked
from proof.runtime import ProofError

PACKAGES = ("lvm2", "cryptsetup-bin", "mdadm", "btrfs-progs", "ntfs-3g", "dosfstools", "exfatprogs", "libnbd-bin", "fdisk", "fuse3")
MODULES = (
    *("loop", "fuse", "dm_mod", "dm_crypt", "md_mod", "raid1", "btrfs", "ntfs3", "vfat", "exfat", "nls_ascii", "nls_cp437", "nls_iso8859_1", "nls_utf8"),
    *("xts", "ecb", "sha256_generic", "sha512_generic", "essiv", "authenc", "algif_skcipher", "algif_hash", "raid6_pq", "xor", "blake2b_generic", "xxhash_generic"),
)
LEFT_OUT_HERE = ("usr/lib/python3", "usr/share/doc", "usr/share/man", "usr/share/locale", "var/lib/dpkg")
RECIPE_VERSION = 1
"""Raise it when the recipe changes."""

DISK_NAME = "pool"
DISK_BYTES = 2 << 30
DEVICES = "/dev/pools"
HOST_ID, GUEST_ID = 0x0C, 0xBEEF
VOLUME, POOL = "tank/vm0", "tank"
TAG = "tank-vm0"
FILE = f"/run/{TAG}.fuse/nbd"
PASSPHRASE = "correct horse"
STEP_SECONDS = 1200.0
"""A whole step on an emulated processor, which other processes slow down."""
BUILD_SECONDS = 600.0
PATIENCE = 100
"""Attempts of a fifth of a second to unmount what udev still reads."""

STARTED = re.compile(
    r"loop\d|loop:|device-mapper|md/raid|md\d|md:|raid6|xor:|Btrfs|BTRFS|ntfs3|XFS|EXT4-fs|fuse:|alg:|taint|license|module verification|exFAT|FAT-fs", re.I
)
"""Messages of the kernel about drivers that start, mounts without a journal, and arrays without their other half."""

PARTITIONS: dict[str, tuple[int, str]] = {
    "ext4": (64, "mkfs.ext4 -q -F -L of-guest $device"),
    "xfs": (320, "mkfs.xfs -q -f -L of-guest $device"),
    "btrfs": (128, "mkfs.btrfs -q -f -L of-guest $device"),
    "ntfs": (32, "mkfs.ntfs -q -F -f -L of-guest $device"),
    "vfat": (48, "mkfs.vfat -F 32 -n OF-GUEST $device"),
    "exfat": (32, "mkfs.exfat -L of-guest $device"),
    "LUKS": (
        64,
        f"echo -n '{PASSPHRASE}' >/run/key; cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /run/key $device;"
        " cryptsetup open --key-file /run/key $device making; mkfs.ext4 -q /dev/mapper/making; mount /dev/mapper/making /mnt; echo LUKS >/mnt/file; umount /mnt;"
        " cryptsetup close making",
    ),
    "LVM": (
        96,
        "pvcreate -q --devices $device $device; vgcreate -q --devices $device vg0 $device; lvcreate -q --devices $device -Wn -n root -L 48M vg0;"
        " lvcreate -q --devices $device -an -Zn -Wn -n spare -L 4M vg0 || true; mkfs.ext4 -q /dev/vg0/root; mount /dev/vg0/root /mnt; echo LVM >/mnt/file; umount /mnt;"
        " vgchange -q -an --devices $device vg0",
    ),
    "md": (
        64,
        "mdadm --create /dev/md/making --run --level 1 --raid-devices 2 --metadata 1.2 --assume-clean $device missing; udevadm settle --timeout=60; mkfs.ext4 -q /dev/md/making;"
        " mount /dev/md/making /mnt; echo md >/mnt/file; umount /mnt; mdadm --stop /dev/md/making",
    ),
    "swap": (16, "mkswap -q -L of-guest $device"),
    "ZFS": (
        128,
        f"export BULKHEAD_RUN_DIR=/run/inner BULKHEAD_STATE_DIR=/run/inner/state BULKHEAD_HOST_ID={GUEST_ID:08x}; mkdir -p /run/inner/state;"
        " bulkhead pool create tank $device; bulkhead --search $device filesystem mount tank /mnt & until mountpoint -q /mnt; do sleep 0.1; done; echo ZFS >/mnt/file;"
        " umount /mnt; wait $!",
    ),
}
"""For each kind of contents its MiB, and the commands that create it."""

JUDGED = {"LUKS": "crypto_LUKS", "LVM": "LVM2_member", "md": "linux_raid_member", "ZFS": "zfs_member"}
"""The names of blkid, where they differ."""


def fetch() -> Path:
    """Returns the packages and modules of this part: from the cache, or built now."""
    words = (str(RECIPE_VERSION), *PACKAGES, *MODULES, Path("/etc/debian_version").read_text())
    recipe = hashlib.sha256("\n".join(words).encode())
    return from_cache(f"rescue-{recipe.hexdigest()[:16]}", partial(_build))


def _build(building: Path) -> None:
    archives, extra, kernel_root, result = (building / name for name in ("archives", "extra", "kernel", "result"))
    for folder in (archives / "partial", extra, result):
        folder.mkdir(parents=True)
    download_whole(building, archives, *PACKAGES)
    for archive in sorted(archives.glob("*.deb")):
        unpack(archive, extra)
    found = re.search(r"Depends: (linux-image-\S+)", checked(["apt-cache", "depends", KERNEL_METAPACKAGE], BUILD_SECONDS))
    if not found:
        raise ProofError(f"apt has no {KERNEL_METAPACKAGE}")
    kernel = building / "kernel-archive"
    (kernel / "partial").mkdir(parents=True)
    download(kernel, found[1])
    unpack(next(kernel.glob("linux-image-*.deb")), kernel_root)
    release = next((kernel_root / "usr/lib/modules").iterdir()).name
    copy_modules(kernel_root, extra, release, MODULES)
    for name in {*LEFT_OUT, *LEFT_OUT_HERE}:
        shutil.rmtree(extra / name, ignore_errors=True)
    # The guest's root has these links.
    for name in ("bin", "sbin", "lib", "lib64"):
        (extra / name).unlink()
    pack = 'cd "$0" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 >"$1"'
    checked(["sh", "-c", pack, extra, result / "more"], PACK_SECONDS)


def with_tools(image: GuestImage, scratch: Path) -> GuestImage:
    """Returns the image with these packages and modules."""
    whole = scratch / "initramfs-rescue"
    checked(["sh", "-c", 'cat "$0" "$1" >"$2"', image.initramfs, fetch() / "more", whole], PACK_SECONDS)
    return GuestImage(image.kernel, whole, image.release)


def make_disk(scratch: Path) -> Path:
    """Creates the disk of the pool, as a sparse file."""
    disk = scratch / f"{DISK_NAME}.img"
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    return disk


class Rescue:
    """The volume, and its rescues."""

    def __init__(self, machine: Machine):
        self._machine = machine
        self._server = GuestServer(machine, "ours", DEVICES, HOST_ID)

    def prepare(self) -> str:
        """Creates the pool and the volume, and starts the server."""
        modules = " ".join(MODULES)
        home = "/" + PLACE
        # The server starts helpers from its own executable: it runs without the wrapper and its loader.
        self._machine.run(
            f"""
            ln -sfn {home}/bulkhead /usr/bin/bulkhead
            for library in {home}/lib*.so*; do
                [ -e /usr/lib/x86_64-linux-gnu/$(basename $library) ] || ln -s $library /usr/lib/x86_64-linux-gnu/
            done
            for module in {modules}; do modprobe $module 2>/dev/null || true; done
            mkdir -p {DEVICES} /etc/lvm /etc/mdadm
            until grep -qx {DISK_NAME} /sys/block/vd*/serial; do sleep 0.1; done
            ln -sfn /dev/$(basename $(dirname $(grep -lx {DISK_NAME} /sys/block/vd*/serial))) {DEVICES}/{DISK_NAME}
            """,
            STEP_SECONDS,
        )
        self._server.command(f"pool create {POOL} {DEVICES}/{DISK_NAME}")
        self._server.command(f"volume create {VOLUME} --size 1400M --sparse")
        self._server.serve(POOL, "--no-nfs")
        return f"Linux {self._machine.release}"

    def fill(self) -> str:
        """Creates the partitions and their contents through a writable rescue."""
        table, start = "label: gpt\\n", 1
        makers = []
        for mib, maker in PARTITIONS.values():
            table += f"start={start}MiB, size={mib}MiB\\n"
            attach = f"device=$(losetup --find --show --offset {start << 20} --sizelimit {mib << 20} {FILE})"
            makers.append(f"{attach}\n{maker}\nudevadm settle --timeout=60 || true\nlosetup -d $device")
            start += mib
        view = self._begin(VOLUME)
        self._shell(view, f"printf '{table}' | sfdisk -q {FILE}\n" + "\n".join(f"({maker})" for maker in makers))
        self._end()
        return f"{len(PARTITIONS)} kinds of contents"

    def recognised(self) -> str:
        """Compares the rescue's findings with blkid's."""
        view = self._begin(f"{VOLUME} --read-only")
        probes = "".join(f"echo; echo number={one['number']}; blkid -p -o export -O {one['start']} -S {one['size']} {FILE} || true\n" for one in view["partitions"])
        printed = self._shell(view, probes)
        self._end()
        blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in printed.split("\n\n")]
        judged = {block["number"]: block for block in blocks if "number" in block}
        for (kind, _), one in zip(PARTITIONS.items(), view["partitions"], strict=True):
            require(one.get("contents") == kind, f"{kind} was recognised as {one}")
            block = judged[str(one["number"])]
            require(block.get("TYPE") == JUDGED.get(kind, kind), f"blkid: {block}")
            require(kind == "LVM" or block.get("LABEL", "") == one.get("label", ""), f"blkid: {block}, the rescue: {one}")
            require(kind == "ZFS" or block.get("UUID", "") == one.get("uuid", ""), f"blkid: {block}, the rescue: {one}")
        return f"{len(judged)} partitions as blkid recognises them"

    def opened(self, read_only: bool) -> str:
        """Runs the printed commands of each partition: reads a file, tries to write one, and undoes them."""
        before = self._digest()
        view = self._begin(f"{VOLUME} --read-only" if read_only else VOLUME)
        count = 0
        for kind, one in zip(PARTITIONS, view["partitions"], strict=True):
            count += self._open_one(view, kind, one, read_only)
        self._end()
        after = self._digest()
        require(not read_only or before == after, "a read-only rescue changed the volume")
        return f"{count} opened and closed" + (", no byte changed" if read_only else "")

    def _open_one(self, view: dict[str, Any], kind: str, one: dict[str, Any], read_only: bool) -> int:
        commands = [command for command in view["commands"] if command.get("partition") == one["number"]]
        if kind == "swap":
            require(not commands, f"commands for swap: {commands}")
            return 0
        require(len(commands) == 2, f"{kind}: {commands}")
        at = f"/mnt/{TAG}-p{one['number']}" + ("-root" if kind == "LVM" else "")
        # These have their own content from the start; the rest is written by the first, writable, rescue.
        has_file = kind in ("LUKS", "LVM", "md", "ZFS")
        stays_read_only = read_only or kind in ("md", "ZFS")
        act = f"[ $(cat {at}/file) = {kind} ]\n" if has_file or read_only else ""
        act += f"if touch {at}/other 2>/dev/null; then echo 'it can be written'; exit 9; fi" if stays_read_only else f"echo {kind} >{at}/file"
        # An empty logical volume has no file system.
        opening = "\n".join(line for line in commands[0]["lines"] if "-spare" not in line)
        closing = "\n".join(line for line in commands[1]["lines"] if "-spare" not in line)
        self._shell(view, f"{opening}\n{act}\nudevadm settle --timeout=60 || true\n{closing}")
        return 1

    def labels_changed(self) -> str:
        """On a clone that is discarded, with consent: the group under another name, the array for writing."""
        self._server.command(f"snapshot create {VOLUME}@now")
        before = self._digest()
        view = self._begin(f"{VOLUME}@now --writable --allow-label-changes")
        done = []
        for kind, one in zip(PARTITIONS, view["partitions"], strict=True):
            commands = [command for command in view["commands"] if command.get("partition") == one["number"]]
            if kind in ("LVM", "md"):
                opening, closing = ("\n".join(line for line in command["lines"] if "-spare" not in line) for command in commands[-2:])
                at = f"/mnt/{TAG}-p{one['number']}" + ("-root" if kind == "LVM" else "")
                self._shell(view, f"{opening}\necho new >{at}/other\nudevadm settle --timeout=60 || true\n{closing}")
                done.append(kind)
        self._end()
        require(before == self._digest(), "the volume itself changed")
        return " and ".join(done) + " on a clone, with their labels changed"

    def _begin(self, words: str) -> dict[str, Any]:
        printed = self._server.command(f"volume rescue {words} --background --json")
        view: dict[str, Any] = json.loads(printed[printed.index("{") :])
        return view

    def _end(self) -> None:
        self._server.command(f"volume rescue {VOLUME} --end")

    def _digest(self) -> str:
        view = self._begin(f"{VOLUME} --read-only")
        try:
            return self._machine.run(f"nbdcopy '{view['uri']}' - | sha256sum", STEP_SECONDS).split()[0]
        finally:
            self._end()

    def _shell(self, view: dict[str, Any], lines: str) -> str:
        """Runs lines with the disk as a file, made and removed by the printed commands."""
        by_purpose = {command["purpose"]: "\n".join(command["lines"]) for command in view["commands"]}
        make = next(lines for purpose, lines in by_purpose.items() if purpose.startswith("make it a file"))
        remove = next(lines for purpose, lines in by_purpose.items() if purpose.startswith("remove the file"))
        clean = f"for try in $(seq {PATIENCE}); do if {remove} 2>/dev/null; then break; fi; sleep 0.2; done"
        run = self._server.place
        environment = f"export BULKHEAD_RUN_DIR={run} BULKHEAD_STATE_DIR={run}/state BULKHEAD_HOST_ID={HOST_ID:08x}"
        script = f"set -e\n{environment}\n{make.replace(' &', ' >/dev/null 2>&1 &')}\ntrap '{clean}' EXIT\n{lines}\n"
        return self._machine.run(f"cat >/run/lines <<'LINES'\n{script}LINES\nprintf '%s' '{PASSPHRASE}' | bash /run/lines 2>&1", STEP_SECONDS)


__all__ = ["STARTED", "Rescue", "fetch", "make_disk", "with_tools"]
