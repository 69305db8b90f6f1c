"""Two heads with a kernel each, on the same disks: virtual machines are paused, lose their power, are cut off.

A pair in one kernel shares its locks, its page cache and its clock, which hides effects between two hosts. Here each
head is a guest. The clients are on the host, and their ledger judges every sector after every takeover, and again
when the pending writes of the loser have arrived or were refused. This proof does the work of Pacemaker: it confirms
a fence only after the head was switched off, except for disks with reservations, which must tolerate a wrong
confirmation.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from proof.clients.base import ClientError
from proof.clients.nbd import NbdAddress, NbdClient
from proof.crash.verify import verify
from proof.crash.workload import Volume, Workload
from proof.linux.guest_server import GuestServer
from proof.linux.machine import Machine
from proof.linux.monitor import Monitor
from proof.linux.network import NETWORKS, StorageNetwork
from proof.linux.root import GuestImage
from proof.linux.shelf import Shelf
from proof.linux.steps import require
from proof.runtime import REPOSITORY, ProofError

POOL = "shared"
EXAMPLE = REPOSITORY / "examples/single.toml"
APPLIANCE = PurePosixPath("/etc/bulkhead/appliance.toml")
NAMES = ("left", "right")
NBD_PORT = 10809
HOST_IDS = {"left": 0x0A, "right": 0x0B}
VOLUMES = {"usual": ("--size 16M --sparse", False, 16 << 20), "durable": ("--size 8M --sparse --sync always --block-size 8K", True, 8 << 20)}
"""The options of each volume, whether every acknowledged write is durable, and its bytes."""
CONNECTIONS = 2
LOAD_SECONDS = (0.5, 3.0)
STILL_SECONDS = (0.2, 4.0)
"""How long a guest is paused: the longest stalls are far longer than the interval in which a server checks the
clock."""
LATE_SECONDS = 30.0
"""By then a loser that resumes has exited."""
AGENT_STOP_SECONDS = 60.0
OWNERSHIP_LOST = 8


def _appliance(disks: Sequence[str]) -> str:
    """Returns the appliance file of the heads, in which the agent finds the pool's disks."""
    text = EXAMPLE.read_text().replace("[pools.tank]", f"[pools.{POOL}]")
    return re.sub(r"^disks = \[.*?^\]", f"disks = {json.dumps(list(disks))}", text, flags=re.M | re.S)


@dataclass
class Head:
    """One guest, and the server of the pool on it."""

    name: str
    network: StorageNetwork
    machine: Machine
    monitor: Monitor
    server: GuestServer

    @property
    def address(self) -> str:
        """The address at which its server accepts NBD clients."""
        return f"{self.network.guest}:{NBD_PORT}"

    def cut(self) -> None:
        """Drops all packets between the guest and other hosts."""
        self.network.unplug()

    def mend(self) -> None:
        """Undoes ``cut``."""
        self.network.plug_in()


class TwoKernels:
    """A pool, its two heads, the clients, and the checks after every round."""

    def __init__(self, scratch: Path, image: GuestImage, shelf: Shelf, seed: int):
        self._scratch = scratch
        self._image = image
        self._shelf = shelf
        self._seed = seed
        self._heads: dict[str, Head] = {}
        self._active = NAMES[0]
        self._volumes = [Volume(name, tag, size, durable) for tag, (name, (_, durable, size)) in enumerate(VOLUMES.items(), 1)]
        self._rounds = 0
        self._late = 0
        self.faults: dict[str, Callable[[random.Random, Head, Head], str]] = {
            "power lost": self._power_lost,
            "paused, resumes": self._stands_still,
            "server killed": self._server_killed,
            "moved": self._moved,
        }
        if shelf.has_reservations:
            self.faults |= {"paused, is taken over, resumes": self._wakes_up_late, "cut off, is taken over, reconnects": self._comes_back}
        else:
            self.faults |= {"paused, is switched off": self._switched_off_still, "cut off, is switched off": self._switched_off_alone}

    # ------------------------------------------------------------------ the machines

    def boot(self) -> str:
        """Both guests boot once; a guest that lost its power then starts from the state right after that boot."""
        machines = {name: Machine(self._scratch, self._image, (network,), disks=self._shelf.disks, name=name) for name, network in zip(NAMES, NETWORKS, strict=True)}
        for name, machine in machines.items():
            machine.wait_booted()
            machine.run("dmesg --clear; udevadm settle --timeout=60 || true")
            machine.monitor().save(self._saved(name))
            machine.power_off()
        for name in NAMES:
            self._begin(name)
        return f"{len(machines)} guests by {machine.kind}"

    def _saved(self, name: str) -> Path:
        return self._scratch / f"{name}.machine"

    def _begin(self, name: str) -> None:
        """Starts a guest in the state right after its boot."""
        network = NETWORKS[NAMES.index(name)]
        machine = Machine(self._scratch, self._image, (network,), disks=self._shelf.disks, name=name, saved=self._saved(name))
        monitor = machine.monitor()
        monitor.wait_status("running")
        search = self._shelf.attach(machine, name)
        machine.run(f"mkdir -p {APPLIANCE.parent}\ncat >{APPLIANCE} <<'APPLIANCE'\n{_appliance(self._shelf.names(name))}\nAPPLIANCE")
        server = GuestServer(machine, name, search, HOST_IDS[name], nbd=f"{network.guest}:{NBD_PORT}")
        self._heads[name] = Head(name, network, machine, monitor, server)

    def power_off(self) -> None:
        """Cuts the power of both guests."""
        for head in self._heads.values():
            head.machine.power_off()

    # ------------------------------------------------------------------ the pool and its clients

    def make_pool(self) -> str:
        """Creates a mirror with two volumes, served by the first head."""
        head = self._heads[self._active]
        head.server.command(f"pool create {POOL} mirror {' '.join(self._shelf.names(head.name))}")
        for name, (options, _, _) in VOLUMES.items():
            head.server.command(f"volume create {POOL}/{name} {options}")
            allowed = " ".join(f"--allow-network {network.prefix}" for network in NETWORKS)
            head.server.command(f"nbd export {POOL}/{name} --name {name} {allowed}")
        took = head.server.serve(POOL, self._shelf.claims)
        self._connect(head)
        return f"{self._shelf.words}; {head.name} serves after {took:.1f} s"

    def _connect(self, head: Head) -> None:
        for volume in self._volumes:
            volume.disconnect()
            try:
                address = NbdAddress(f"nbd://{head.address}/{volume.name}")
                volume.clients = [NbdClient(address) for _ in range(CONNECTIONS)]
            except ClientError as error:
                raise ProofError(f"{error}; the log of the server of {head.name}:\n{head.server.log()}") from error

    def _disconnect(self) -> None:
        for volume in self._volumes:
            volume.disconnect()

    def _load(self, rng: random.Random, seconds: float) -> None:
        workload = Workload(self._volumes, rng)
        workload.run(seconds)
        refused = [words for words in workload.refused if "ESHUTDOWN" not in words]
        require(not refused, f"a client saw errors: {refused[:4]}")
        require(not workload.violations, "; ".join(map(str, workload.violations[:4])))

    def _verify(self, everything: bool, when: str) -> None:
        for volume in self._volumes:
            try:
                found = verify(volume, volume.clients[0], everything)
            except ClientError as error:
                head = self._heads[self._active]
                raise ProofError(f"{when}: {error}; the log of the server of {head.name}:\n{head.server.log()}") from error
            require(not found, f"{when}: " + "; ".join(map(str, found[:6])))

    def _take_over(self, head: Head, proof: str) -> str:
        """``head`` serves, and all acknowledged writes are there."""
        took = head.server.serve(POOL, f"{self._shelf.claims} {proof}")
        self._active = head.name
        self._connect(head)
        self._verify(False, "after the takeover")
        return f"{head.name} serves after {took:.1f} s"

    # ------------------------------------------------------------------ the rounds

    def perform(self, number: int, fault: str) -> str:
        """One fault under load. Acknowledged writes must be there at once, and still when all late writes have
        arrived."""
        rng = random.Random(f"{self._seed}:{number}")
        head = self._heads[self._active]
        other = next(one for one in self._heads.values() if one is not head)
        before = self.acknowledged
        self._load(rng, rng.uniform(*LOAD_SECONDS))
        words = self.faults[fault](rng, head, other)
        self._verify(True, "at the end of the round")
        return f"{words}; {self.acknowledged - before} acknowledged"

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged changes."""
        return sum(volume.ledger.acknowledged for volume in self._volumes)

    def _replaced(self, head: Head) -> None:
        """Replaces the guest of ``head`` by one in the state right after its boot."""
        head.mend()
        self._begin(head.name)

    def _power_lost(self, rng: random.Random, head: Head, other: Head) -> str:
        self._shelf.slow_down(head.monitor, True)
        self._load(rng, rng.uniform(0.1, 1.0))
        return self._power_lost_now(head, other)

    def _stands_still(self, rng: random.Random, head: Head, _other: Head) -> str:
        """No takeover: clients saw a pause."""
        still = rng.uniform(*STILL_SECONDS)
        head.monitor.execute("stop")
        self._load(rng, still)
        head.monitor.execute("cont")
        self._load(rng, rng.uniform(*LOAD_SECONDS))
        for volume in self._volumes:
            require(not any(client.dead for client in volume.clients), f"a client lost its connection: {head.server.log()}")
            require(Workload([volume], rng).drain(LATE_SECONDS), f"{volume.name}: no replies after the pause")
        return f"paused for {still:.1f} s"

    def _switched_off_still(self, rng: random.Random, head: Head, other: Head) -> str:
        head.monitor.execute("stop")
        self._load(rng, rng.uniform(*STILL_SECONDS))
        return self._power_lost_now(head, other)

    def _switched_off_alone(self, rng: random.Random, head: Head, other: Head) -> str:
        """It still writes its pending data, and replies to no client."""
        head.cut()
        self._load(rng, rng.uniform(*STILL_SECONDS))
        return self._power_lost_now(head, other)

    def _power_lost_now(self, head: Head, other: Head) -> str:
        head.machine.power_off()
        self._shelf.slow_down(other.monitor, False)
        self._disconnect()
        words = self._take_over(other, f"--fenced-owner {head.name}")
        self._replaced(head)
        return words

    def _wakes_up_late(self, rng: random.Random, head: Head, other: Head) -> str:
        """A wrong fence confirmation: the guest was only paused, with writes pending."""
        head.monitor.execute("stop")
        self._load(rng, 0.2)
        self._disconnect()
        words = self._take_over(other, f"--fenced-owner {head.name}")
        self._load(rng, rng.uniform(*LOAD_SECONDS))
        head.monitor.execute("cont")
        return f"{words}; {self._loser_ended(rng, head)}"

    def _comes_back(self, rng: random.Random, head: Head, other: Head) -> str:
        """A wrong fence confirmation: the guest had only lost its network, and its writes are pending in its kernel."""
        head.cut()
        self._load(rng, rng.uniform(*STILL_SECONDS))
        self._disconnect()
        words = self._take_over(other, f"--fenced-owner {head.name}")
        self._load(rng, rng.uniform(*LOAD_SECONDS))
        head.mend()
        return f"{words}; {self._loser_ended(rng, head)}"

    def _loser_ended(self, rng: random.Random, head: Head) -> str:
        """The server of the head that lost the pool exits by itself, while the new owner is at work."""
        since = time.monotonic()
        waiting = head.machine.start(f"until [ -s {head.server.place}/status ]; do sleep 0.1; done; cat {head.server.place}/status", LATE_SECONDS)
        self._load(rng, 1.0)
        status = int(waiting.output())
        ended = time.monotonic() - since
        require(status == OWNERSHIP_LOST, f"the server of {head.name} exited with {status}:\n{head.server.log()}")
        head.machine.power_off()
        self._replaced(head)
        return f"{head.name} exited with {status} within {ended:.1f} s"

    def _server_killed(self, rng: random.Random, head: Head, other: Head) -> str:
        """Only the process is killed: its kernel still writes, and the agent's stop must not report that it has
        stopped."""
        self._shelf.slow_down(head.monitor, True)
        self._load(rng, rng.uniform(0.2, 1.0))
        pending = f"cat {self._shelf.inflight(head.name)} | awk '{{ sum += $2 }} END {{ print sum }}'"
        since = time.monotonic()
        # In one script: pending writes are gone soon after the kill.
        shown = head.machine.run(f"kill -KILL $(cat {head.server.place}/pid); {pending}; {head.server.agent(POOL, 'stop')}; {pending}", AGENT_STOP_SECONDS)
        took = time.monotonic() - since
        at_kill, at_stop = (int(word) for word in (shown.split()[0], shown.split()[-1]))
        require(at_stop == 0, f"the agent's stop of {head.name} succeeded with {at_stop} writes under way:\n{shown}")
        self._shelf.slow_down(head.monitor, False)
        self._disconnect()
        words = self._take_over(other, f"--stopped-owner {head.name}")
        return f"{at_kill} writes were pending at the kill; stopped after {took:.1f} s; {words}"

    def _moved(self, _rng: random.Random, head: Head, other: Head) -> str:
        head.server.stop()
        self._disconnect()
        return self._take_over(other, "")

    def audit(self) -> str:
        """A clean stop, and zdb's findings in the pool."""
        head = self._heads[self._active]
        self._disconnect()
        head.server.stop()
        return head.server.audit(POOL)


def plan(trial: TwoKernels, rounds: int) -> Sequence[str]:
    """Returns every fault in turn."""
    names = list(trial.faults)
    return [names[number % len(names)] for number in range(rounds)]


__all__ = ["TwoKernels", "plan"]
