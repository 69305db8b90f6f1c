"""Disks that are held to a rate: of each group of processes the kernel writes so many bytes a second to a disk, and no more."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from proof.runtime import ProofError, at_exit

FIRST, SECOND = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
"""Where control groups are, by their version."""


class HeldDisk:
    """Processes that share a disk of so many bytes a second. Only what bypasses the page cache counts."""

    def __init__(self, name: str, on: Path, write_bytes_s: int):
        device = _disk_of(on)
        is_first = FIRST.is_dir()
        self._group = (FIRST if is_first else SECOND) / f"bulkhead-bench-{os.getpid()}-{name}"
        try:
            self._group.mkdir()
            at_exit(self.end)
            if is_first:
                (self._group / "blkio.throttle.write_bps_device").write_text(f"{device} {write_bytes_s}")
            else:
                (SECOND / "cgroup.subtree_control").write_text("+io")
                (self._group / "io.max").write_text(f"{device} wbps={write_bytes_s}")
        except OSError as error:
            raise ProofError(f"the kernel holds no disk to a rate here: {error}") from error

    def take(self, pid: int) -> None:
        """This process, and all that it starts later, writes at that rate."""
        (self._group / "cgroup.procs").write_text(str(pid))

    def there(self, words: Sequence[str | Path]) -> list[str | Path]:
        """The command that runs ``words`` so."""
        return ["sh", "-c", f'echo $$ > {self._group}/cgroup.procs; exec "$@"', "sh", *words]

    def end(self) -> None:
        """Its processes have ended."""
        try:
            self._group.rmdir()
        except OSError:
            pass


def _disk_of(path: Path) -> str:
    number = path.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        raise ProofError(f"{path} is on no disk of its own")
    whole = device.resolve().parent if (device / "partition").exists() else device
    return (whole / "dev").read_text().strip()
