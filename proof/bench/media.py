"""The media of the servers' data: a file, or a block device with direct I/O."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from proof.process import checked, run
from proof.runtime import ProofError, at_exit
from proof.servers.bulkhead import write_out

TOOL_SECONDS = 20.0


def written_file(path: Path, size: int) -> Path:
    """Creates a file with all blocks allocated by the host's file system, like a disk."""
    with path.open("wb") as file:
        file.truncate(size)
        write_out(file)
    return path


def _attach(path: Path) -> Path:
    outcome = run(["losetup", "--find", "--show", "--direct-io=on", path], TOOL_SECONDS)
    if not outcome.ok:
        raise ProofError(f"no loop device for {path}: {outcome.output.strip()} (needs root; leave it out by --where file)")
    device = Path(outcome.output.strip())
    if checked(["losetup", "--list", "--noheadings", "--output", "DIO", device], TOOL_SECONDS).strip() != "1":
        _detach(device)
        raise ProofError(f"the file system of {path} has no direct I/O for loop devices: leave them out by --where file")
    return device


def _detach(device: Path) -> None:
    run(["losetup", "--detach", device], TOOL_SECONDS)


class LoopDevices:
    """Block devices on files, with direct I/O."""

    def __init__(self) -> None:
        self._attached: dict[Path, Path] = {}
        at_exit(self.detach)

    def attach(self, path: Path, size: int) -> Path:
        """Returns a new device on a new file."""
        device = _attach(written_file(path, size))
        self._attached[device] = path
        return device

    def devices(self) -> list[Path]:
        """Returns those that are attached."""
        return list(self._attached)

    def detach(self) -> None:
        """Removes all devices and their files."""
        while self._attached:
            device, path = self._attached.popitem()
            _detach(device)
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def made(where: str, directory: Path, sizes: dict[str, int]) -> Iterator[dict[str, Path]]:
    """Yields files, or loop devices with direct I/O on such files, by name; removes them afterwards."""
    loops = LoopDevices()
    make = loops.attach if where == "loop" else written_file
    try:
        yield {name: make(directory / name, size) for name, size in sizes.items()}
    finally:
        loops.detach()
        for name in sizes:
            (directory / name).unlink(missing_ok=True)


def described(path: Path) -> str:
    """Returns the file system below a path, and its device."""
    outcome = run(["findmnt", "--noheadings", "--output", "FSTYPE,SOURCE", "--target", path], TOOL_SECONDS)
    return " on ".join(outcome.output.split()) if outcome.ok else os.fspath(path)
