"""The contents that each block of the volume may have: the last acknowledged write, or a later unacknowledged one."""

from __future__ import annotations

from proof import pattern

BLOCKS = 96
BLOCK_SECTORS = 32
BLOCK_BYTES = BLOCK_SECTORS * pattern.SECTOR
TAG = 0x6C656773


class History:
    """All writes of one run."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self._sequence = 0
        self._allowed: list[set[int]] = [{0} for _ in range(BLOCKS)]

    def begin(self, block: int) -> tuple[int, bytes]:
        """Starts a write to the block: returns its number and its data."""
        self._sequence += 1
        self._allowed[block].add(self._sequence)
        return self._sequence, bytes(pattern.sectors(TAG, self._sequence, block * BLOCK_SECTORS, BLOCK_SECTORS))

    def acknowledge(self, block: int, sequence: int) -> None:
        """The write is durable: the block has its contents until it is written again."""
        self._allowed[block] = {sequence}
        self.acknowledged += 1

    def judge(self, block: int, data: bytes) -> str | None:
        """Returns the fault of a block that was read back. The durable contents are the expected ones from now on."""
        found = pattern.read_back(TAG, block * BLOCK_SECTORS, data)
        allowed = self._allowed[block]
        if len(allowed) == 1 and set(found) != allowed:
            return f"block {block} holds {_short(found)}; write {min(allowed)} was acknowledged"
        if not set(found) <= allowed:
            return f"block {block} holds {_short(found)}; it may hold {sorted(allowed)}"
        if len(set(found)) == 1:
            self._allowed[block] = {found[0]}
        return None


def _short(found: list[int]) -> str:
    return " and ".join("a torn sector" if one == pattern.TORN else f"write {one}" for one in sorted(set(found)))
