"""Two storage networks in a namespace of this process: nothing outside of it changes."""

from __future__ import annotations

from dataclasses import dataclass

from proof.network import COMMAND_SECONDS, leave_the_machines_network
from proof.process import checked


@dataclass(frozen=True)
class StorageNetwork:
    """One network between the server and the initiator."""

    tap: str
    server: str
    guest: str
    mac: str
    prefix: str

    def unplug(self) -> None:
        """Frames are dropped in both directions; the guest's card still sees its link, as behind a dead switch."""
        checked(["ip", "link", "set", self.tap, "down"], COMMAND_SECONDS)

    def plug_in(self) -> None:
        """Undoes ``unplug``."""
        checked(["ip", "link", "set", self.tap, "up"], COMMAND_SECONDS)


NETWORKS = (
    StorageNetwork("storage1", "10.77.1.1", "10.77.1.2", "52:54:00:77:01:02", "10.77.1.0/24"),
    StorageNetwork("storage2", "10.77.2.1", "10.77.2.2", "52:54:00:77:02:02", "10.77.2.0/24"),
)


def make_networks() -> None:
    """Creates them in a network namespace of this process."""
    leave_the_machines_network()
    for network in NETWORKS:
        checked(["ip", "tuntap", "add", "dev", network.tap, "mode", "tap"], COMMAND_SECONDS)
        checked(["ip", "address", "add", f"{network.server}/24", "dev", network.tap], COMMAND_SECONDS)
        checked(["ip", "link", "set", network.tap, "up"], COMMAND_SECONDS)
