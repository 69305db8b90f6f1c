"""The required state of a file system after a sequence of changes, and random sequences of changes."""

from __future__ import annotations

import copy
import hashlib
import random
from dataclasses import dataclass, field

from proof.files.program import Entry, Tree, encoded

SECOND = 1_000_000_000
FILE_BYTES_MAX = 700_000
"""Several blocks of the usual size."""
OBJECTS_MAX = 120
DEVICE_KINDS = ("block", "character")
OTHER_KINDS = ("socket", "pipe")
PROJECT_KINDS = ("file", "directory")
UNTOLD = -1
"""A time that the clock decided."""


@dataclass
class Object:
    """A file, directory or other object."""

    kind: str
    mode: int
    uid: int
    gid: int
    text: bytes = b""
    """The target of a link, the numbers of a device."""
    links: int = 1
    data: bytearray = field(default_factory=bytearray)
    names: dict[bytes, int] = field(default_factory=dict)
    accessed: int = UNTOLD
    modified: int = UNTOLD
    known_sum: str = ""
    project: int = 0
    inherits: bool = False
    """Whether new entries in it inherit its project."""

    def entry(self) -> Entry:
        """Returns the entry in the form that the example prints."""
        size, contents = 0, "-"
        if self.kind == "file":
            if not self.known_sum:
                self.known_sum = hashlib.sha256(self.data).hexdigest()
            size, contents = len(self.data), self.known_sum
        elif self.kind == "directory":
            size = len(self.names) + 2
        elif self.kind == "link":
            size, contents = len(self.text), encoded(self.text)
        device = self.text.decode() if self.kind in DEVICE_KINDS else "0:0"
        return Entry(self.kind, f"{self.mode:o}", self.uid, self.gid, self.links, size, self.accessed, self.modified, UNTOLD, device, contents)


@dataclass(frozen=True)
class Change:
    """A change, as a command of the example."""

    words: tuple[str | int | bytes, ...]

    def command(self, below: bytes = b"") -> str:
        """Returns the command, for paths below a directory."""
        return " ".join(encoded(below + word if word.startswith(b"/") else word) if isinstance(word, bytes) else str(word) for word in self.words)


class Model:
    """A file system that is a dictionary."""

    def __init__(self, *, tells_access: bool = True) -> None:
        self.objects: dict[int, Object] = {0: Object("directory", 0o755, 0, 0, links=2)}
        self.tells_access = tells_access
        """Whether times of access that were set are compared."""
        self._next = 1

    def copy(self) -> Model:
        """Returns a copy with the same files."""
        return copy.deepcopy(self)

    def paths(self) -> dict[str, int]:
        """Returns the numbers of all objects, by their encoded paths."""
        paths: dict[str, int] = {}
        waiting = [(b"/", 0)]
        while waiting:
            path, number = waiting.pop()
            paths[encoded(path)] = number
            for name, inside in self.objects[number].names.items():
                waiting.append((path.rstrip(b"/") + b"/" + name, inside))
        return paths

    def tree(self) -> Tree:
        """Returns the tree that the example must print."""
        return {path: self.objects[number].entry() for path, number in self.paths().items()}

    def projects(self) -> dict[str, int]:
        """Returns the projects of entries that have one, by their encoded paths."""
        return {path: self.objects[number].project for path, number in self.paths().items() if self.objects[number].project}

    def find(self, path: bytes) -> int:
        """Returns the number of the entry at a path."""
        number = 0
        for name in path.split(b"/"):
            if name:
                number = self.objects[number].names[name]
        return number

    def place(self, path: bytes) -> tuple[Object, bytes]:
        """Returns the directory of a path, and its last name."""
        directory, _, name = path.rpartition(b"/")
        return self.objects[self.find(directory)], name

    def perform(self, change: Change) -> None:
        """Performs the change like the example."""
        what, *words = change.words
        getattr(self, f"_{str(what).replace('-', '_')}")(*words)

    def _touched(self, directory: Object) -> None:
        directory.modified = UNTOLD

    def _make(self, kind: str, path: bytes, mode: str, uid: int, gid: int, text: bytes = b"") -> None:
        directory, name = self.place(path)
        made = Object(kind, int(mode, 8), uid, gid, text)
        if kind == "directory":
            made.links = 2
            directory.links += 1
        if directory.mode & 0o2000 and kind == "directory":
            made.mode |= 0o2000
        if directory.inherits and kind in PROJECT_KINDS:
            made.project, made.inherits = directory.project, True
        directory.names[name] = self._next
        self.objects[self._next] = made
        self._next += 1
        self._touched(directory)

    def _write(self, path: bytes, offset: int, length: int, token: str) -> None:
        file = self.objects[self.find(path)]
        if len(file.data) < offset + length:
            file.data.extend(bytes(offset + length - len(file.data)))
        first = offset % 16
        repeated = token.encode() * (length // 16 + 2)
        file.data[offset : offset + length] = repeated[first : first + length]
        self._changed(file)

    def _changed(self, file: Object) -> None:
        """Marks the contents as changed."""
        self._lose_set_id(file)
        file.modified = UNTOLD
        file.known_sum = ""

    def _lose_set_id(self, found: Object) -> None:
        found.mode &= ~0o4000
        if found.mode & 0o010:
            found.mode &= ~0o2000

    def _size(self, path: bytes, size: int) -> None:
        file = self.objects[self.find(path)]
        del file.data[size:]
        file.data.extend(bytes(size - len(file.data)))
        self._changed(file)

    def _punch(self, path: bytes, offset: int, length: int) -> None:
        file = self.objects[self.find(path)]
        end = min(offset + length, len(file.data))
        if offset < end:
            file.data[offset:end] = bytes(end - offset)
            self._changed(file)

    def _clone(self, path: bytes, source: bytes) -> None:
        file = self.objects[self.find(path)]
        file.data[:] = self.objects[self.find(source)].data
        self._changed(file)

    def _mode(self, path: bytes, mode: str) -> None:
        self.objects[self.find(path)].mode = int(mode, 8)

    def _owner(self, path: bytes, uid: int, gid: int) -> None:
        found = self.objects[self.find(path)]
        found.uid, found.gid = uid, gid
        if found.kind != "directory":
            self._lose_set_id(found)

    def _times(self, path: bytes, accessed: int, modified: int) -> None:
        found = self.objects[self.find(path)]
        found.accessed, found.modified = accessed if self.tells_access else UNTOLD, modified

    def _project(self, path: bytes, number: int, inherits: int) -> None:
        found = self.objects[self.find(path)]
        found.project, found.inherits = number, bool(inherits)

    def _rename(self, old: bytes, new: bytes) -> None:
        (source, old_name), (sink, new_name) = self.place(old), self.place(new)
        number = source.names[old_name]
        replaced = sink.names.get(new_name)
        if replaced == number:
            return
        if replaced is not None:
            self._lose(sink, replaced)
        del source.names[old_name]
        sink.names[new_name] = number
        if self.objects[number].kind == "directory" and source is not sink:
            source.links -= 1
            sink.links += 1
        self._touched(source)
        self._touched(sink)

    def _link(self, path: bytes, new: bytes) -> None:
        number = self.find(path)
        directory, name = self.place(new)
        directory.names[name] = number
        self.objects[number].links += 1
        self._touched(directory)

    def _lose(self, directory: Object, number: int) -> None:
        lost = self.objects[number]
        if lost.kind == "directory":
            directory.links -= 1
            lost.links = 0
        else:
            lost.links -= 1
        if lost.links == 0:
            del self.objects[number]

    def _remove(self, path: bytes) -> None:
        directory, name = self.place(path)
        self._lose(directory, directory.names.pop(name))
        self._touched(directory)

    _remove_directory = _remove

    def _commit(self) -> None:
        pass

    def _sync(self) -> None:
        pass

    def _hold(self, path: bytes) -> None:
        pass


def differences(found: Tree, expected: Tree) -> list[str]:
    """Returns the differences; times that the clock decided are ignored."""
    complaints = []
    for path in sorted(found.keys() | expected.keys()):
        if path not in found:
            complaints.append(f"{path} is missing")
        elif path not in expected:
            complaints.append(f"{path} is there: {found[path]}")
        elif not fits(found[path], expected[path]):
            complaints.append(f"{path} is {found[path]}, not {expected[path]}")
    return complaints


def fits(found: Entry, expected: Entry) -> bool:
    """Whether they are the same except for fields that are not reported."""
    told = ("kind", "mode", "uid", "gid", "links", "size", "device", "contents")
    times = ("accessed", "modified", "created")
    same = all(getattr(found, name) == getattr(expected, name) for name in told)
    return same and all(getattr(expected, name) in (UNTOLD, getattr(found, name)) for name in times)


class Changes:
    """Random valid changes of a model, each performed on it."""

    file_bytes_max = FILE_BYTES_MAX
    kinds = {"make": 22, "write": 26, "size": 6, "punch": 4, "mode": 4, "owner": 4, "times": 4, "rename": 12, "link": 5, "remove": 10, "hold": 2}
    modes = (0o644, 0o600, 0o755, 0o777, 0o1777, 0o4755, 0o2711, 0o000, 0o070)

    def __init__(self, model: Model, rng: random.Random):
        self.model = model
        self._rng = rng
        self._number = 0

    def next(self) -> Change:
        """Chooses a change, and performs it on the model."""
        kinds = dict(self.kinds)
        if len(self.model.objects) > OBJECTS_MAX:
            kinds.update({"make": 2, "remove": 40})
        while True:
            kind = self._rng.choices(list(kinds), list(kinds.values()))[0]
            change = getattr(self, f"_{kind}")()
            if change:
                self._number += 1
                self.model.perform(change)
                return change

    def _paths(self) -> list[tuple[bytes, int]]:
        paths = [(b"", 0)]
        for path, number in paths:
            inside = self.model.objects[number].names.items()
            paths.extend((path + b"/" + name, number) for name, number in inside)
        return paths

    def _some(self, *kinds: str) -> bytes | None:
        """Returns the path of an object of one of these kinds, or of any object but the root."""
        paths = [path for path, number in self._paths() if path and (not kinds or self.model.objects[number].kind in kinds)]
        return self._rng.choice(paths) if paths else None

    def _directory(self) -> bytes:
        paths = [path for path, number in self._paths() if self.model.objects[number].kind == "directory" and path.count(b"/") < 6]
        return self._rng.choice(paths)

    def _name(self) -> bytes:
        rng = self._rng
        if rng.random() < 0.1:
            return bytes(rng.choice(b"abcdefgh\xc3\xff~ %'\"\\\n") for _ in range(rng.choice((1, 30, 255))))
        return f"{rng.choice('abcd')}{rng.randrange(40)}".encode()

    def _free(self) -> bytes | None:
        """Returns an unused path."""
        directory = self._directory()
        path = directory + b"/" + self._name()
        parent, name = self.model.place(path)
        return None if name in parent.names else path

    def _mode_of(self) -> str:
        return f"{self._rng.choice(self.modes):o}"

    def _make(self) -> Change | None:
        path = self._free()
        if path is None:
            return None
        rng = self._rng
        kind = rng.choices(("file", "directory", "link", *DEVICE_KINDS, *OTHER_KINDS), (60, 22, 8, 2, 2, 2, 2))[0]
        words: list[str | int | bytes] = ["make", kind, path, self._mode_of(), rng.choice((0, 1000, 4_000_000_000)), rng.choice((0, 100))]
        if kind == "link":
            words.append(b"x" * rng.choice((1, 20, 120, 300, 1000)))
        elif kind in DEVICE_KINDS:
            words.append(f"{rng.randrange(256)}:{rng.randrange(1 << 18)}".encode())
        return Change(tuple(words))

    def _write(self) -> Change | None:
        path = self._some("file")
        if path is None:
            return None
        rng = self._rng
        size = len(self.model.objects[self.model.find(path)].data)
        offset = rng.choice((0, size, rng.randrange(size + 1), rng.randrange(self.file_bytes_max)))
        length = rng.choice((1, 100, 512, 4096, 5000, 40_000, 131_072, 200_000))
        if offset + length > self.file_bytes_max:
            return None
        return Change(("write", path, offset, length, f"{self._number:015x}\n".replace("\n", "~")))

    def _size(self) -> Change | None:
        path = self._some("file")
        if path is None:
            return None
        size = len(self.model.objects[self.model.find(path)].data)
        return Change(("size", path, self._rng.choice((0, size // 2, size + 1000, self._rng.randrange(self.file_bytes_max)))))

    def _punch(self) -> Change | None:
        path = self._some("file")
        if path is None:
            return None
        size = len(self.model.objects[self.model.find(path)].data)
        if size == 0:
            return None
        return Change(("punch", path, self._rng.randrange(size), self._rng.choice((1, 5000, 131_072))))

    def _mode(self) -> Change | None:
        path = self._some("file", "directory", *OTHER_KINDS)
        return path and Change(("mode", path, self._mode_of())) or None

    def _owner(self) -> Change | None:
        path = self._some()
        return path and Change(("owner", path, self._rng.choice((0, 1000, 1001)), self._rng.choice((0, 100, 101)))) or None

    def _times(self) -> Change | None:
        path = self._some()
        if path is None:
            return None
        seconds = self._rng.choice((-5, 0, 1_700_000_000, 5_000_000_000))
        return Change(("times", path, seconds * SECOND + 7, seconds * SECOND + 123_456_789))

    def _rename(self) -> Change | None:
        old = self._some()
        if old is None:
            return None
        new = self._directory() + b"/" + self._name()
        if self._rng.random() < 0.3:
            new = self._some() or new
        moved = self.model.objects[self.model.find(old)]
        if moved.kind == "directory" and (new + b"/").startswith(old + b"/"):
            return None
        parent, name = self.model.place(new)
        if name in parent.names:
            replaced = self.model.objects[parent.names[name]]
            if (replaced.kind == "directory") != (moved.kind == "directory") or replaced.names or replaced is moved:
                return None
        return Change(("rename", old, new))

    def _link(self) -> Change | None:
        path, new = self._some("file", *DEVICE_KINDS), self._free()
        return Change(("link", path, new)) if path and new else None

    def _remove(self) -> Change | None:
        path = self._some()
        if path is None:
            return None
        lost = self.model.objects[self.model.find(path)]
        if lost.kind != "directory":
            return Change(("remove", path))
        return None if lost.names else Change(("remove-directory", path))

    def _hold(self) -> Change | None:
        path = self._some("file")
        return Change(("hold", path)) if path else None


__all__ = ["Change", "Changes", "Model", "Object", "differences", "fits"]
