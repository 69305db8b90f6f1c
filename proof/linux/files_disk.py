"""The disk on which our process and the guest's kernel have a pool, one after the other."""

from __future__ import annotations

from pathlib import Path

from proof.process import checked
from proof.runtime import at_exit

NAME = "files"
DISK_BYTES = 16 << 30
"""Sparse. Where a pool might become full of data that many file systems have in memory, transaction groups close
early."""
STEP_SECONDS = 60.0


class FilesDisk:
    """A sparse file. A kernel opens no pool that was created on a file, so it is a block device for us, too."""

    def __init__(self, scratch: Path, name: str = "files-disk"):
        """``name`` is unique on this host. A guest sees all of them under one name."""
        home = scratch / name
        self.folder = home / "device"
        """Contains only the device, while it is attached."""
        self.folder.mkdir(parents=True)
        self.path = home / f"{NAME}.img"
        self._device = ""
        self.empty()

    def empty(self) -> None:
        """Removes all of its contents."""
        with self.path.open("wb") as file:
            file.truncate(DISK_BYTES)

    def attach(self) -> None:
        """Attaches it as a device of this host."""
        if not self._device:
            self._device = checked(["losetup", "--find", "--show", "--direct-io=on", self.path], STEP_SECONDS).strip()
            self._forget = at_exit(self.detach)
            (self.folder / NAME).symlink_to(self._device)

    def detach(self) -> None:
        """Writes this host's cached data of the device to the file, and drops the cache."""
        if self._device:
            checked(["losetup", "--detach", self._device], STEP_SECONDS)
            (self.folder / NAME).unlink()
            self._device = ""
            self._forget()


__all__ = ["FilesDisk"]
