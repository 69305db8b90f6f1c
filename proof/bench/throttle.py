"""Disks that are held to a rate: the kernel writes so many bytes, or reads so often, for a group of processes in a second, and
no more."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from proof.runtime import ProofError, at_exit

FIRST, SECOND = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
"""Where control groups are, by their version."""


class HeldDisks:
    """Processes that use block devices of so many bytes a second each. Only what bypasses the page cache counts."""

    def __init__(self, name: str, devices: Sequence[Path], write_bytes_s: int | None = None, reads_s: int | None = None):
        is_first = FIRST.is_dir()
        self._group = (FIRST if is_first else SECOND) / f"bulkhead-bench-{os.getpid()}-{name}"
        try:
            self._group.mkdir()
            at_exit(self.end)
            if not is_first:
                (SECOND / "cgroup.subtree_control").write_text("+io")
            for device in devices:
                number = os.stat(device).st_rdev
                disk = f"{os.major(number)}:{os.minor(number)}"
                for first, second, rate in (("write_bps", "wbps", write_bytes_s), ("read_iops", "riops", reads_s)):
                    if rate is None:
                        continue
                    if is_first:
                        (self._group / f"blkio.throttle.{first}_device").write_text(f"{disk} {rate}")
                    else:
                        (self._group / "io.max").write_text(f"{disk} {second}={rate}")
        except OSError as error:
            raise ProofError(f"the kernel holds no disk to a rate here: {error}") from error

    def take(self, pid: int) -> None:
        """This process, and all that it starts later, has that rate."""
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
