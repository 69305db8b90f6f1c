"""ZFS for the guest's kernel: Debian's source package, built against Debian's headers of that kernel.

Nothing is installed: the packages are unpacked, and the result is cached under ``target/``, by the hash of its
recipe.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from proof.linux.root import DOWNLOAD_SECONDS, GuestImage, download, from_cache, unpack
from proof.process import checked
from proof.runtime import ProofError

MODULES = ("spl", "zfs")
"""In load order."""
BUILD_SECONDS = 5400.0
RECIPE_VERSION = 1
"""Raise it when the recipe changes."""


def zfs_version() -> str:
    """Returns the version of the library that our server is linked with: the guest's kernel gets the same one."""
    return checked(["dpkg-query", "-W", "-f", "${Version}", "libzpool6linux"], DOWNLOAD_SECONDS).strip()


def kernel_zfs(image: GuestImage) -> list[Path]:
    """Returns the modules for the kernel of ``image``: from the cache, or built now, which needs minutes."""
    version = zfs_version()
    recipe = hashlib.sha256("\n".join((str(RECIPE_VERSION), version, image.release, *MODULES)).encode())
    directory = from_cache(f"zfs-{recipe.hexdigest()[:16]}", partial(_build, release=image.release, version=version))
    return [directory / f"{name}.ko" for name in MODULES]


def _build(building: Path, release: str, version: str) -> None:
    archives, root, result = building / "archives", building / "root", building / "result"
    archives.mkdir()
    result.mkdir()
    headers = f"linux-headers-{release}"
    needs = re.findall(r"Depends: (linux-(?:headers|kbuild)-\S+)", checked(["apt-cache", "depends", headers], DOWNLOAD_SECONDS))
    download(archives, f"zfs-dkms={version}", headers, *needs)
    for archive in sorted(archives.glob("*.deb")):
        unpack(archive, root)
    sources = root / "usr/src"
    # Contains the paths of an installed package.
    makefile = sources / headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{sources}/"))
    zfs = _only(list(sources.glob("zfs-*")), "source of ZFS")
    common = _only(list(sources.glob("linux-headers-*-common*")), "headers for all kernels of that version")
    configure = ["./configure", "--disable-dependency-tracking", "--with-config=kernel", f"--with-linux={common}", f"--with-linux-obj={sources / headers}"]
    checked(["sh", "-c", 'cd "$0" && exec "$@"', zfs, *configure], BUILD_SECONDS)
    checked(["make", "-s", "-C", zfs, f"-j{os.cpu_count() or 1}"], BUILD_SECONDS)
    for name in MODULES:
        built = _only(list((zfs / "module").rglob(f"{name}.ko")), f"{name}.ko")
        # Debug data would be unpacked into the guest's memory.
        checked(["strip", "--strip-debug", "-o", result / f"{name}.ko", built], BUILD_SECONDS)


def _only(found: Sequence[Path], what: str) -> Path:
    if len(found) != 1:
        raise ProofError(f"one {what} was expected, and {len(found)} found")
    return found[0]


__all__ = ["MODULES", "kernel_zfs", "zfs_version"]
