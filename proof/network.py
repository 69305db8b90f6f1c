"""Network namespaces of this process: networks of the host are not changed."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from proof.process import Child, checked
from proof.runtime import ProofError, wait_until

CLONE_NEWNET = 0x40000000
COMMAND_SECONDS = 10.0


def leave_the_machines_network() -> None:
    """Moves this process and its later children into a network namespace of their own.

    The kernel removes the namespace when its last process exits.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise ProofError(f"no network namespace can be created: {os.strerror(ctypes.get_errno())}")
    checked(["ip", "link", "set", "lo", "up"], COMMAND_SECONDS)


class Place:
    """A network namespace that one process holds: a host of its own, for network purposes."""

    def __init__(self, name: str, folder: Path):
        self._holder = Child(name, ["unshare", "--net", "sleep", "infinity"], folder / f"{name}.log")
        self._network = Path(f"/proc/{self._holder.pid}/ns/net")
        own = Path("/proc/self/ns/net").readlink()
        wait_until(f"{name} has a network", lambda: self._network.readlink() != own, COMMAND_SECONDS)

    @property
    def pid(self) -> int:
        """The pid of the process that holds it."""
        return self._holder.pid

    def there(self, words: Sequence[str | Path]) -> list[str | Path]:
        """Returns the command that runs ``words`` there."""
        return ["nsenter", f"--net={self._network}", *words]

    def end(self) -> None:
        """Removes the namespace and its cables."""
        self._holder.kill()


class Neighbour:
    """A simulated host: a namespace behind a cable, with one address."""

    def __init__(self, name: str, ours: str, theirs: str, folder: Path):
        self.address = theirs
        self._place = Place(name, folder)
        cable = ["ip", "link", "add", name, "type", "veth", "peer", "name", "cable", "netns", str(self._place.pid)]
        for words in (cable, ["ip", "address", "add", f"{ours}/30", "dev", name], ["ip", "link", "set", name, "up"]):
            checked(words, COMMAND_SECONDS)
        for words in (["ip", "address", "add", f"{theirs}/30", "dev", "cable"], ["ip", "link", "set", "cable", "up"]):
            checked(self.there(words), COMMAND_SECONDS)

    def there(self, words: Sequence[str]) -> list[str]:
        """Returns the command that runs ``words`` on that host."""
        return [str(word) for word in self._place.there(words)]

    def pull_the_cable(self) -> None:
        """Drops all packets in flight."""
        checked(self.there(["ip", "link", "set", "cable", "down"]), COMMAND_SECONDS)

    def plug_in(self) -> None:
        """Undoes ``pull_the_cable``."""
        checked(self.there(["ip", "link", "set", "cable", "up"]), COMMAND_SECONDS)

    def end(self) -> None:
        """Removes the host and its cable."""
        self._place.end()
