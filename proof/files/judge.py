"""Whether the state after a crash is one that some number of the changes had led to.

For names and attributes that is the whole question. Contents are looser, here as in a kernel: the intent log fetches
the bytes of a write when it is committed, so that a record may carry the bytes of a later write; it has zeros for
bytes that were cut by then; and it leaves out the bytes of files that are gone by then. It splits long writes, too:
we leave the last one out if its end is missing, and a kernel does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from proof.files.model import UNTOLD, Change, Model, Object, differences, fits
from proof.files.program import Entry, Tree

ATOMIC_BYTES = 4096
"""A write of this size is atomic even if a kernel has replayed the log."""
CELL = 16
SHOWN = 8

Read = Callable[[str, int], bytes]
"""Reads the bytes of a file, by its encoded path and its size."""


class Judge:
    """Judges one file system after one crash."""

    def __init__(self, durable: Model, since: Sequence[Change], found: Tree, read: Read, by_kernel: bool = False):
        """``durable`` is the certain state; some of the changes ``since`` may have happened. ``by_kernel``: a kernel
        wrote or replayed the log."""
        self._by_kernel = by_kernel
        self._durable, self._since, self._found, self._read = durable, since, found, read
        self._contents: dict[int, list[tuple[int, bytes]]] = {}
        """The contents of files after a change, by their numbers in the model."""
        self._gone: dict[int, int] = {}
        """The change after which an object is gone."""
        self.in_part = False
        """Whether only the beginning of a long write was found."""
        self._look_ahead()

    def _look_ahead(self) -> None:
        model = self._durable.copy()
        for number, change in enumerate(self._since, 1):
            there = set(model.objects)
            what, *words = change.words
            file = model.find(bytes(words[0])) if what in ("write", "size", "punch") else None
            model.perform(change)
            if file is not None:
                self._contents.setdefault(file, []).append((number, bytes(model.objects[file].data)))
            for gone in there - set(model.objects):
                self._gone[gone] = number

    def place(self) -> tuple[Model | None, int, list[str]]:
        """Returns the model of the found state, and after how many changes; or the differences from the closest
        state."""
        model = self._durable.copy()
        best: list[str] | None = None
        best_number = 0
        # The last of several equal ones: the changes behind it did not happen.
        for number in range(len(self._since) + 1):
            if number:
                model.perform(self._since[number - 1])
            complaints = self._compare(model, number)
            if not complaints:
                return model, number, []
            if best is None or len(complaints) <= len(best):
                best, best_number = complaints, number
        return None, best_number, best or []

    def _compare(self, model: Model, number: int) -> list[str]:
        """Compares names and attributes; then the contents, if these fit. The model gets the found contents."""
        paths = model.paths()
        found = self._found
        expected = {path: model.objects[each].entry() for path, each in paths.items()}
        doubtful = {path: each for path, each in paths.items() if path in found and expected[path].kind == "file" and found[path] != expected[path]}
        loosened = {path: self._loosened(model, number, each, found[path], expected[path]) for path, each in doubtful.items()}
        complaints = differences(found, {**expected, **loosened})
        if complaints:
            return complaints[:SHOWN]
        for path, each in doubtful.items():
            if found[path].contents != expected[path].contents or not fits(found[path], expected[path]):
                complaints += self._take_contents(model.objects[each], number, each, path)
        return complaints[:SHOWN]

    def _loosened(self, model: Model, number: int, file: int, found: Entry, expected: Entry) -> Entry:
        """Returns the expected entry, with the found values where several are allowed."""
        if self._gone.get(file, 0) > number:
            return replace(found, uid=expected.uid, gid=expected.gid, links=expected.links)
        if self._is_torn(model, number, file):
            after = len(next(data for at, data in self._contents[file] if at == number + 1))
            if expected.size <= found.size <= after:
                return replace(found, uid=expected.uid, gid=expected.gid, links=expected.links)
        return replace(expected, contents=found.contents)

    def _is_torn(self, model: Model, number: int, file: int) -> bool:
        """Whether the next change is a write to the file that may be there only in part."""
        if not self._by_kernel or number == len(self._since):
            return False
        what, *words = self._since[number].words
        return what == "write" and int(words[2]) > ATOMIC_BYTES and model.find(bytes(words[0])) == file

    def _take_contents(self, file: Object, number: int, each: int, path: str) -> list[str]:
        size = self._found[path].size
        there = self._read(path, size)
        # The log has zeros for bytes that are cut later.
        later = [data.ljust(size, b"\0") for at, data in self._contents.get(each, []) if at > number]
        is_gone = self._gone.get(each, 0) > number
        wrong = [] if is_gone else _wrong_places(there, [bytes(file.data), *later])
        if len(there) != size or wrong:
            shown = [f"{at}: {there[at : at + CELL]!r}, not {bytes(file.data[at : at + CELL])!r}" for at in (*wrong[:2], *wrong[-2:])]
            return [f"{path}: {len(there)} bytes of {size}, {len(wrong)} ranges that match no write", *shown]
        self.in_part |= size != len(file.data)
        file.data[:] = there
        file.mode, file.modified = int(self._found[path].mode, 8), UNTOLD
        file.known_sum = ""
        return []


def _wrong_places(there: bytes, versions: Sequence[bytes]) -> list[int]:
    """Returns ranges of bytes that match no version."""
    wrong = []
    for at in range(0, len(there), CELL):
        cell = there[at : at + CELL]
        cells = [version[at : at + CELL] for version in versions]
        if cell not in cells and not all(any(one[place : place + 1] == cell[place : place + 1] for one in cells) for place in range(len(cell))):
            wrong.append(at)
    return wrong


__all__ = ["ATOMIC_BYTES", "Judge", "Read"]
