"""Two heads in the lab for the guest: ``bulkhead lab``, with the guest as its client."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from proof.linux.network import StorageNetwork
from proof.linux.target import INITIATOR
from proof.process import checked, run
from proof.runtime import REPOSITORY, ProofError, at_exit
from proof.servers.bulkhead import program

FILE = REPOSITORY / "examples/pair.toml"
POOL = "tank"
VOLUME = f"{POOL}/linux"
VOLUME_SIZE = "256M"
TARGET = "iqn.2026-01.org.example:tank"
UP_SECONDS = 400.0
SETTLE_SECONDS = 400.0
COMMAND_SECONDS = 120.0
POLL_SECONDS = 1.0
EXIT_INCAPABLE = 15

NETWORKS = (
    StorageNetwork("linux1", "10.77.1.100", "10.77.1.200", "52:54:00:77:01:c8", "10.77.1.0/24"),
    StorageNetwork("linux2", "10.77.2.100", "10.77.2.200", "52:54:00:77:02:c8", "10.77.2.0/24"),
)
"""The addresses of the pool, and those of the guest in the same networks."""


class LabIncapable(ProofError):
    """This host cannot run a lab."""


class Appliance:
    """A pair of heads, and the commands of an operator on them."""

    def __init__(self, profile: str):
        self._program = program()
        self._labs = Path(tempfile.mkdtemp(prefix="bulkhead-lab-"))
        at_exit(self.down)
        self._file = self._labs / "appliance.toml"
        # A cache that this host can have, so that the check of the appliance finds no error.
        text = FILE.read_text().replace('arc = "32G"', 'arc = "1G"')
        self._file.write_text(f'{text}\n[timeouts]\nprofile = "{profile}"\n')
        self.identity = ""

    def _lab(self, *words: str, seconds: float = COMMAND_SECONDS) -> str:
        verb, *rest = words
        return checked([self._program, "lab", verb, "--dir", self._labs, *rest], seconds)

    def up(self) -> float:
        """Starts both heads and the pool; returns the seconds that it took."""
        started = time.monotonic()
        outcome = run([self._program, "lab", "up", "--dir", self._labs, self._file], UP_SECONDS)
        if outcome.status == EXIT_INCAPABLE:
            raise LabIncapable(" ".join(outcome.output.split()))
        if not outcome.ok:
            raise ProofError(f"the lab does not come up: {outcome.output[-2000:]}")
        return time.monotonic() - started

    def down(self) -> None:
        """Stops the lab and removes it."""
        run([self._program, "lab", "down", "--dir", self._labs], COMMAND_SECONDS)
        shutil.rmtree(self._labs, ignore_errors=True)

    def on(self, head: str, *words: str) -> str:
        """Runs a command on a head."""
        return self._lab("exec", head, "--", *words)

    def command(self, head: str, *words: str) -> list[str | Path]:
        """Returns the command that runs ``words`` on a head, with their exit status."""
        return [self._program, "lab", "exec", "--dir", self._labs, head, "--", *words]

    def export(self) -> None:
        """Exports a volume for the guest."""
        head = self.settle()
        self.on(head, "bulkhead", "volume", "create", VOLUME, "--size", VOLUME_SIZE, "--sparse")
        self.on(head, "bulkhead", "target", "create", TARGET, "--pool", POOL)
        networks = [word for network in NETWORKS for word in ("--network", network.prefix)]
        self.on(head, "bulkhead", "target", "allow", TARGET, "--pool", POOL, "--initiator", INITIATOR, *networks)
        self.on(head, "bulkhead", "target", "map", TARGET, VOLUME, "--lun", "0")
        shown = json.loads(self.on(head, "bulkhead", "--json", "volume", "show", VOLUME))
        self.identity = "2" + shown["identity"]["eui"]

    def plug_in(self) -> list[str]:
        """Puts a card of the guest into each storage network, at the port of the lab's client.

        Returns the command prefix that enters the network of that client: qemu must run there.
        """
        enter = self.enter_client()
        links = json.loads(checked([*enter, "ip", "-json", "address"], COMMAND_SECONDS))
        for index, network in enumerate(NETWORKS):
            subnet = ipaddress.ip_network(network.prefix)
            cable = next(link["ifname"] for link in links if any(ipaddress.ip_address(one["local"]) in subnet for one in link["addr_info"]))
            bridge = f"guest{index}"
            for words in (
                f"link add {bridge} type bridge forward_delay 0",
                f"link set {cable} master {bridge}",
                f"tuntap add dev {network.tap} mode tap",
                f"link set {network.tap} mtu 1500 master {bridge} up",
                f"link set {bridge} up",
            ):
                checked([*enter, "ip", *words.split()], COMMAND_SECONDS)
        return enter

    def enter_client(self) -> list[str]:
        """Returns the command prefix that enters the network of the lab's client."""
        return ["nsenter", f"--net={self._client_network()}", "--"]

    def _client_network(self) -> str:
        """Returns the path of the client's network namespace for this process."""
        wanted = self._lab("exec", "client", "--", "readlink", "/proc/self/ns/net").strip()
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                try:
                    if os.readlink(process / "ns/net") == wanted:
                        return str(process / "ns/net")
                except OSError:
                    continue
        raise ProofError("no process of the lab's client is found")

    # ------------------------------------------------------------------ state

    def status(self) -> dict[str, Any]:
        """Returns ``bulkhead lab status --json``."""
        document: dict[str, Any] = json.loads(self._lab("status", "--json"))
        return document

    def _well(self) -> str | None:
        """Returns the head that serves the pool when both heads are members and no cable is cut."""
        status = self.status()
        cluster = status["cluster"] or {}
        if set(cluster.get("online", [])) != set(status["heads"]) or cluster.get("stopped"):
            return None
        if any(head["cut"] or head["frozen"] or not head["powered"] for head in status["heads"].values()):
            return None
        pool = cluster.get("pools", {}).get(POOL, {})
        return pool.get("head") if pool.get("addresses_up") == pool.get("addresses") else None

    def settle(self) -> str:
        """Blocks until all is well; returns the head that serves the pool."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not (head := self._well()):
            if time.monotonic() > deadline:
                raise ProofError(f"the pair does not become well:\n{self._lab('status')}")
            time.sleep(POLL_SECONDS)
        return head

    # ------------------------------------------------------------------ faults

    def other(self, head: str) -> str:
        """Returns the other head."""
        return next(name for name in self.status()["heads"] if name != head)

    def move(self, head: str) -> None:
        """Moves the pool."""
        self.on(head, "bulkhead", "pool", "move", POOL, self.other(head))

    def kill_server(self, head: str) -> None:
        """Kills the pool's server (SIGKILL)."""
        self.on(head, "pkill", "-9", "-f", "pool-server")

    def power(self, head: str, state: str) -> None:
        """Switches the power of a head."""
        self._lab("power", head, state)

    def cut(self, head: str, network: str) -> None:
        """Pulls one cable of a head."""
        self._lab("cut", head, network)

    def mend(self, head: str) -> None:
        """Plugs all cables in again."""
        self._lab("mend", head)


__all__ = ["NETWORKS", "Appliance", "LabIncapable"]
