"""The measurements of data that does not fit into any cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from proof.bench.points import KIBIBYTE, MEBIBYTE
from proof.runtime import ProofError

FILL_DEPTH = 4
READ_SHARE_OF_MIXED = 70


class Work(Enum):
    """The workload of the client, in the terms of fio."""

    FILL = "write"
    READ = "randread"
    MIXED = "randrw"
    SYNC = "randwrite"
    """Each write is followed by a flush."""


EXTRA_WORDS = {Work.MIXED: [f"--rwmixread={READ_SHARE_OF_MIXED}"], Work.SYNC: ["--fsync=1"]}


@dataclass(frozen=True)
class DiskPoint:
    """One load."""

    name: str
    work: Work
    volume_block: int
    """Block size of the volume. Peers have none."""
    request: int = MEBIBYTE
    depth: int = FILL_DEPTH
    first: bool = False
    """The volume has no blocks yet."""

    @property
    def volume(self) -> str:
        """The volume with blocks of this size."""
        return volume_name(self.volume_block)

    def fio_words(self, volume_bytes: int, seconds: float, seed: int) -> list[str]:
        """Returns the load for fio, for any of its engines."""
        words = [f"--rw={self.work.value}", f"--bs={self.request}", f"--iodepth={self.depth}", f"--size={volume_bytes}"]
        if self.work is Work.FILL:
            # Until all data is on stable storage.
            return [*words, "--end_fsync=1"]
        words += ["--time_based", f"--runtime={seconds}", "--norandommap", f"--randseed={seed}"]
        return words + EXTRA_WORDS.get(self.work, [])


def volume_name(block: int) -> str:
    """``blocks16k``."""
    return f"blocks{block // KIBIBYTE}k"


def _fills() -> tuple[DiskPoint, ...]:
    return tuple(
        DiskPoint(f"disk-{verb}-{block}k-blocks", Work.FILL, block * KIBIBYTE, first=verb == "fill")
        for block in (4, 16, 128)
        for verb in ("fill", "overwrite")
    )


def _random(name: str, work: Work, blocks: int, request: int, depth: int) -> DiskPoint:
    return DiskPoint(f"disk-{name}", work, blocks * KIBIBYTE, request * KIBIBYTE, depth)


DISK_POINTS = (
    *_fills(),
    _random("4k-read-qd1", Work.READ, 4, 4, 1),
    _random("4k-read-qd32", Work.READ, 4, 4, 32),
    _random("4k-read-qd32-16k-blocks", Work.READ, 16, 4, 32),
    _random("16k-read-qd32", Work.READ, 16, 16, 32),
    _random("128k-read-qd8", Work.READ, 128, 128, 8),
    _random("4k-mixed-qd32", Work.MIXED, 4, 4, 32),
    _random("16k-mixed-qd32", Work.MIXED, 16, 16, 32),
)


def chosen(only: str | None) -> list[DiskPoint]:
    """Returns the points with one of these comma-separated strings in their name; without any, all points."""
    return [point for point in DISK_POINTS if not only or any(word in point.name for word in only.split(","))]


def require_known(only: str | None, names: Sequence[str]) -> None:
    """Refuses a string that no point has in its name: a misspelt one would measure no point, with success."""
    unknown = [word for word in (only or "").split(",") if word and not any(word in name for name in names)]
    if unknown:
        raise ProofError(f"no point is called {', '.join(unknown)}; there are: {', '.join(names)}")
