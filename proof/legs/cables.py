"""A network with a switch for a few nodes: packets of one node to another can be dropped, in one direction or in
both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from proof.network import COMMAND_SECONDS, Place, leave_the_machines_network
from proof.process import checked

MEMBERS, LENDS = 1, 2
"""The networks: members vote over one, and heads reach the disks of other heads over the other."""
BOTH = (MEMBERS, LENDS)
SWITCH = "switch"
NOBODY = "02:00:00:00:00:ff"
"""A station that does not exist: the switch drops packets to it."""


class Cables:
    """Nodes by number, each with an address in both networks. This process leaves the host's network namespace."""

    def __init__(self, numbers: Iterable[int], folder: Path):
        leave_the_machines_network()
        self._numbers = list(numbers)
        self._places = {number: Place(f"machine-{number}", folder) for number in self._numbers}
        self._lost: set[tuple[int, int, int]] = set()
        self._unplugged: set[int] = set()
        _ip(f"link add {SWITCH} type bridge forward_delay 0", f"link set {SWITCH} up")
        for number, place in self._places.items():
            cable = f"link add port{number} type veth peer name cable address {_station(number)} netns {place.pid}"
            _ip(cable, f"link set port{number} master {SWITCH}", f"link set port{number} up")
            addresses = [f"address add {self.address(number, network)}/24 dev cable" for network in BOTH]
            self._ip_at(number, "link set lo up", *addresses, "link set cable up")
            others = [other for other in self._numbers if other != number]
            self._ip_at(number, *(self._way(other, network, True) for other in others for network in BOTH))

    def there(self, number: int, words: Sequence[str | Path]) -> list[str | Path]:
        """Returns the command that runs ``words`` on that node."""
        return self._places[number].there(words)

    @staticmethod
    def address(number: int, network: int) -> str:
        """Returns the address of a node in a network."""
        return f"10.79.{network}.{number}"

    def lose(self, sender: int, receiver: int, networks: Iterable[int] = BOTH) -> None:
        """Drops all packets from ``sender`` to ``receiver`` from now on, without an error to the sender."""
        self._set(sender, receiver, networks, False)

    def cut(self, one: int, other: int, networks: Iterable[int] = BOTH) -> None:
        """Drops all packets in both directions."""
        for sender, receiver in ((one, other), (other, one)):
            self._set(sender, receiver, networks, False)

    def unplug(self, number: int) -> None:
        """Pulls the node's cable out of the switch, so that its link is down."""
        self._unplugged.add(number)
        _ip(f"link set port{number} down")

    def mend(self) -> None:
        """Delivers all packets again."""
        for sender, receiver, network in sorted(self._lost):
            self._set(sender, receiver, [network], True)
        for number in sorted(self._unplugged):
            _ip(f"link set port{number} up")
        self._unplugged.clear()

    def hear_each_other(self, one: int, other: int, networks: Iterable[int] = BOTH) -> bool:
        """Whether both directions are intact."""
        lost = {(one, other), (other, one)}
        is_cut = any((sender, receiver) in lost and network in networks for sender, receiver, network in self._lost)
        return one == other or not (is_cut or self._unplugged & {one, other})

    def _set(self, sender: int, receiver: int, networks: Iterable[int], is_whole: bool) -> None:
        self._ip_at(sender, *(self._way(receiver, network, is_whole) for network in networks))
        change = self._lost.discard if is_whole else self._lost.add
        for network in networks:
            change((sender, receiver, network))

    def _way(self, receiver: int, network: int, is_whole: bool) -> str:
        station = _station(receiver) if is_whole else NOBODY
        return f"neighbour replace {self.address(receiver, network)} lladdr {station} nud permanent dev cable"

    def _ip_at(self, number: int, *commands: str) -> None:
        for command in commands:
            checked(self.there(number, ["ip", *command.split()]), COMMAND_SECONDS)


def _station(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


def _ip(*commands: str) -> None:
    for command in commands:
        checked(["ip", *command.split()], COMMAND_SECONDS)
