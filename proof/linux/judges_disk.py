"""A disk with a compiler, dbench and the tools of the kernel's NFS server, from Debian's packages: too large for the
guest's memory."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from proof.linux.root import UNPACK_SECONDS, download_whole, from_cache, unpack
from proof.process import checked

NAME = "judges"
PACKAGES = ("bash", "dash", "coreutils", "grep", "sed", "mawk", "tar", "gcc", "libc6-dev", "make", "dbench", "nfs-kernel-server")
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/i18n")
DISK_BYTES = 2 << 30
"""Sparse. The kernel's server exports its free space."""
SERVED = "srv"
RECIPE_VERSION = 1
"""Raise it when the recipe changes."""


def judges_disk() -> Path:
    """Returns the disk, of which a guest gets a copy: from the cache, or built now."""
    return disk_of(NAME, PACKAGES, DISK_BYTES, RECIPE_VERSION)


def disk_of(name: str, packages: Sequence[str], size: int, version: int | str, finish: Callable[[Path], None] | None = None) -> Path:
    """Returns a disk of ``size`` bytes with these packages, from the cache, or built now. ``finish`` completes its
    root."""
    recipe = hashlib.sha256("\n".join((str(version), str(size), *packages, *LEFT_OUT)).encode())
    recipe.update(Path("/etc/debian_version").read_bytes())
    return from_cache(f"{name}-{recipe.hexdigest()[:16]}", lambda building: _build(building, packages, size, finish)) / "disk"


def copy_of(disk: Path, scratch: Path) -> Path:
    """Returns a copy that a guest may change."""
    copy = scratch / f"{NAME}.img"
    checked(["cp", "--sparse=always", disk, copy], UNPACK_SECONDS)
    return copy


def _build(building: Path, packages: Sequence[str], size: int, finish: Callable[[Path], None] | None) -> None:
    archives, root, result = building / "archives", building / "root", building / "result"
    (archives / "partial").mkdir(parents=True)
    result.mkdir()
    download_whole(building, archives, *packages)
    for archive in sorted(archives.glob("*.deb")):
        unpack(archive, root)
    for name in LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    for folder in ("proc", "sys", "dev", "run", "tmp", "mnt", SERVED):
        (root / folder).mkdir(exist_ok=True)
    # Links that maintainer scripts would have created.
    for name, program in (("sh", "dash"), ("awk", "mawk")):
        if not (root / "usr/bin" / name).is_symlink():
            (root / "usr/bin" / name).symlink_to(program)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\nstatd:x:102:65534::/var/lib/nfs:/usr/sbin/nologin\n")
    (root / "etc/group").write_text("root:x:0:\n")
    if finish:
        finish(root)
    checked(["mke2fs", "-q", "-t", "ext4", "-d", root, result / "disk", f"{size >> 10}k"], UNPACK_SECONDS)


__all__ = ["NAME", "SERVED", "copy_of", "disk_of", "judges_disk"]
