"""Binaries of this host for the guest: a second archive that the kernel unpacks over the first."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from proof.linux.root import GuestImage
from proof.process import checked

PLACE = "opt/bulkhead"
LOADER = "ld-linux-x86-64.so.2"
PACK_SECONDS = 120.0


def pack(scratch: Path, image: GuestImage, programs: Mapping[str, Path], files: Sequence[Path] = ()) -> GuestImage:
    """Returns the image, with ``programs`` in the guest's path under these names, and ``files`` in
    ``/opt/bulkhead``.

    Their libraries and their loader are included, in a directory of their own, because the guest's packages may be
    of another point release than this host's.
    """
    folder = scratch / "luggage"
    home, path = folder / PLACE, folder / "usr/bin"
    home.mkdir(parents=True)
    path.mkdir(parents=True)
    for file in files:
        shutil.copy(file, home / file.name)
    for name, program in programs.items():
        shutil.copy(program, home / name)
        # Debug data would be unpacked into the guest's memory.
        checked(["strip", "--strip-unneeded", home / name], PACK_SECONDS)
        for library in _libraries(program):
            shutil.copy(library, home / library.name)
        wrapper = path / name
        wrapper.write_text(f'#!/bin/bash\nexec /{PLACE}/{LOADER} --library-path /{PLACE} /{PLACE}/{name} "$@"\n')
        wrapper.chmod(0o755)
    whole = scratch / "initramfs"
    packing = 'cat "$1" >"$2" && cd "$0" && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 >>"$2"'
    checked(["sh", "-c", packing, folder, image.initramfs, whole], PACK_SECONDS)
    shutil.rmtree(folder)
    return GuestImage(image.kernel, whole, image.release)


def _libraries(program: Path) -> list[Path]:
    """Returns the libraries that the binary is linked with, the loader included, under the names that it requests."""
    shown = checked(["ldd", program], PACK_SECONDS)
    named = re.findall(r"=> (/\S+)", shown) + re.findall(r"^\s+(/\S+)", shown, re.M)
    return [Path(os.path.normpath(name)) for name in named]


__all__ = ["pack"]
