"""A newer kernel for the guest, and ``tlshd``, which Debian 12 does not have: from Debian 13, by an apt with no
other source.

The files of ``tlshd`` are a root of their own in the guest, because its libraries are newer than the guest's.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from proof.linux.luggage import PACK_SECONDS
from proof.linux.root import DOWNLOAD_SECONDS, KERNEL_METAPACKAGE, GuestImage, copy_modules, from_cache, unpack
from proof.process import checked
from proof.runtime import ProofError

SUITE = "trixie"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = ("ktls-utils",)
MODULES = ("tls", "gcm", "ctr", "ghash_generic")
PLACE = "opt/tls"
"""The root of ``tlshd``."""
RECIPE_VERSION = 1
"""Raise it when the recipe changes."""


def fetch() -> Path:
    """Returns the kernel, its modules and ``tlshd``: from the cache, or built now."""
    recipe = hashlib.sha256("\n".join((str(RECIPE_VERSION), SUITE, *PACKAGES, *MODULES)).encode())
    return from_cache(f"newer-{recipe.hexdigest()[:16]}", _build)


def with_tls(image: GuestImage, scratch: Path) -> GuestImage:
    """Returns the image with a kernel that supports RPC with TLS, and with ``tlshd``."""
    directory = fetch()
    whole = scratch / "initramfs-newer"
    checked(["sh", "-c", 'cat "$0" "$1" >"$2"', image.initramfs, directory / "more", whole], PACK_SECONDS)
    return GuestImage(directory / "vmlinuz", whole, (directory / "release").read_text().strip())


def _archive() -> str:
    """Returns the archive that this host uses, so that mirrors and proxies are respected."""
    shown = checked(["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)"], DOWNLOAD_SECONDS)
    found = re.search(r"^(\S+/debian/?) main$", shown, re.M)
    if not found:
        raise ProofError("found no archive of Debian in apt's sources")
    return found[1]


def _build(building: Path) -> None:
    result, own, kernel_root, extra = (building / name for name in ("result", "apt", "kernel", "extra"))
    for folder in (result, own / "lists/partial", own / "archives/partial", extra):
        folder.mkdir(parents=True)
    (own / "status").touch()
    (own / "sources.list").write_text(f"deb [signed-by={KEYS}] {_archive()} {SUITE} main\n")
    places = {"Etc::SourceList": "sources.list", "Etc::SourceParts": "none", "State::lists": "lists", "State::status": "status", "Cache::archives": "archives"}
    apt = [word for name, place in places.items() for word in ("-o", f"Dir::{name}={own / place}")]
    apt += ["-o", f"Dir::Cache={own}", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true"]
    checked(["apt-get", *apt, "-q", "update"], DOWNLOAD_SECONDS)
    checked(["apt-get", *apt, "--download-only", "-y", "-q", "--no-install-recommends", "install", "bash", *PACKAGES], DOWNLOAD_SECONDS)
    for archive in sorted((own / "archives").glob("*.deb")):
        unpack(archive, extra / PLACE)
    found = re.search(r"Depends: (linux-image-\S+)", checked(["apt-cache", *apt, "depends", KERNEL_METAPACKAGE], DOWNLOAD_SECONDS))
    if not found:
        raise ProofError(f"{SUITE} has no {KERNEL_METAPACKAGE}")
    download = 'cd "$0" && exec apt-get -q "$@"'
    checked(["sh", "-c", download, building, *apt, "download", found[1]], DOWNLOAD_SECONDS)
    unpack(next(building.glob("linux-image-*.deb")), kernel_root)
    release = next((kernel_root / "usr/lib/modules").iterdir()).name
    link = extra / "lib"
    link.symlink_to("usr/lib")
    copy_modules(kernel_root, extra, release, MODULES)
    # The guest's root already has it.
    link.unlink()
    pack = 'cd "$0" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 >"$1"'
    checked(["sh", "-c", pack, extra, result / "more"], PACK_SECONDS)
    (kernel_root / f"boot/vmlinuz-{release}").rename(result / "vmlinuz")
    (result / "release").write_text(release + "\n")


__all__ = ["PLACE", "fetch", "with_tls"]
