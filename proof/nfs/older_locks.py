"""``python3 -m proof.nfs.older_locks --rounds N --seed S``: see docs/guide/proof.md."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from dataclasses import dataclass

from proof import rounds, runtime
from proof.clients import rpc
from proof.clients.xdr import Reader, opaque, u32, u64
from proof.network import leave_the_machines_network
from proof.rounds import Tally
from proof.runtime import ProofError, wait_until
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import POOL, Bulkhead
from proof.stream import receive

SERVER = "127.77.20.49"
HOSTS = 3
ANSWER_SECONDS = 30.0
LOAD_SECONDS = (0.05, 0.6)
PORTMAP, MOUNT, NLM, NSM = (100_000, 2), (100_005, 3), (100_021, 4), (100_024, 1)
NFS = (100_003, 3)
GET_PORT, MNT, MAKE, LOCK, UNLOCK, GRANTED, NOTIFY = 3, 1, 8, 2, 4, 5, 6
TCP = 6
IS_GRANTED, IS_DENIED, IS_BLOCKED, IS_GRACE = 0, 1, 3, 4
RPCBIND = 111


def _ask(source: str, port: int, program: tuple[int, int], procedure: int, arguments: bytes) -> Reader:
    """Calls the server over a connection from ``source``; returns the results."""
    call = rpc.record(rpc.header(random.getrandbits(32), *program, procedure) + arguments)
    with socket.create_connection((SERVER, port), ANSWER_SECONDS, source_address=(source, 0)) as connection:
        connection.sendall(call)
        length = int.from_bytes(receive(connection, 4), "big") & ~rpc.LAST_FRAGMENT
        reader = Reader(receive(connection, length))
    reader.u32()
    rpc.skip_accepted(reader)
    return reader


def _require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise ProofError(otherwise)


class Host:
    """A client host with an address of its own: rpcbind, lockd and statd, and one process that locks."""

    def __init__(self, number: int):
        self.number = number
        self.address = f"127.77.20.{60 + number}"
        self.told: list[int] = []
        """The state numbers of the server's restarts that it was notified of."""
        self.granted = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self.address, RPCBIND))
        threading.Thread(target=self._listen, name=self.address, daemon=True).start()

    def _listen(self) -> None:
        """Serves all RPC programs at one port. Replies to each call."""
        while True:
            call, server = self._socket.recvfrom(4096)
            reader = Reader(call)
            transaction, _, _, program, _, procedure = (reader.u32() for _ in range(6))
            for _ in range(2):
                reader.u32()
                reader.opaque()
            results = b""
            if program == PORTMAP[0]:
                results = u32(RPCBIND)
            elif (program, procedure) == (NSM[0], NOTIFY):
                reader.opaque()
                self.told.append(reader.u32())
            elif (program, procedure) == (NLM[0], GRANTED):
                self.granted += 1
                results = opaque(reader.opaque()) + u32(IS_GRANTED)
            self._socket.sendto(u32(transaction, 1, 0, 0, 0, 0) + results, server)

    def wait_told(self, heard: int) -> None:
        """Blocks until a notification of a restart arrives, after this many; its state number must be new."""
        wait_until(f"{self.address} is told", lambda: len(self.told) > heard, ANSWER_SECONDS)
        _require(self.told[heard] not in self.told[:heard], f"starts have the same number: {self.told}")

    def port(self, program: tuple[int, int]) -> int:
        """Returns the port of an RPC program of the server."""
        return _ask(self.address, RPCBIND, PORTMAP, GET_PORT, u32(*program, TCP, 0)).u32()

    def lock(self, file: bytes, *, waits: bool = False, again: bool = False) -> int:
        """Requests a lock of the whole file; returns the status."""
        arguments = opaque(b"cookie") + u32(waits, 1) + self._lock(file) + u32(again, 3)
        return self._status(LOCK, arguments)

    def unlock(self, file: bytes) -> int:
        """Releases it; returns the status."""
        return self._status(UNLOCK, opaque(b"cookie") + self._lock(file))

    def _lock(self, file: bytes) -> bytes:
        return opaque(f"host{self.number}".encode()) + opaque(file) + opaque(b"owner") + u32(self.number) + u64(0, 0)

    def _status(self, procedure: int, arguments: bytes) -> int:
        reader = _ask(self.address, self.port(NLM), NLM, procedure, arguments)
        reader.opaque()
        return reader.u32()

    def make(self, name: str) -> bytes:
        """Creates a file; returns its handle."""
        reader = _ask(self.address, self.port(MOUNT), MOUNT, MNT, opaque(f"/{POOL}/files".encode()))
        if status := reader.u32():
            raise ProofError(f"mount: {status}")
        nothing_set = u32(0, 0, 0, 0, 0, 0)
        reader = _ask(self.address, self.port(NFS), NFS, MAKE, opaque(reader.opaque()) + opaque(name.encode()) + u32(0) + nothing_set)
        if (status := reader.u32()) or not reader.u32():
            raise ProofError(f"create {name}: {status}")
        return reader.opaque()


@dataclass
class LockTally(Tally):
    """The counts of a run."""

    kept: int = 0
    waits: int = 0

    def summary(self) -> str:
        return f"{self.waits} hosts called back, {super().summary()}"

    def verdict(self) -> str:
        return f"locks of NFS 3: {self.rounds} kills, {self.kept} locks taken back, {len(self.complaints)} lost"


def _one_round(server: Bulkhead, hosts: list[Host], other: Host, file_of: dict[int, bytes], load_seconds: float, tally: LockTally) -> None:
    """Each host has a file locked while the server is killed, and still has it afterwards; no other host gets it.
    One more host blocks on each."""
    time.sleep(load_seconds)
    told = [len(host.told) for host in hosts]
    server.kill()
    server.start()
    server.wait_ready()
    for host, heard in zip(hosts, told, strict=True):
        host.wait_told(heard)
        status = other.lock(file_of[host.number])
        _require(status in (IS_GRACE, IS_DENIED), f"another host got the lock of {host.address}: {status}")
        _require((status := host.lock(file_of[host.number], again=True)) == IS_GRANTED, f"{host.address} cannot reclaim its lock: {status}")
        tally.kept += 1
    first = file_of[hosts[0].number]
    wait_until("the grace period is over", lambda: other.lock(first, waits=True) == IS_BLOCKED, ANSWER_SECONDS)
    granted = other.granted
    hosts[0].unlock(first)
    wait_until("the blocked host is called back", lambda: other.granted > granted, ANSWER_SECONDS)
    tally.waits += 1
    _require(hosts[0].lock(first) == IS_DENIED, "a lock was granted twice")
    _require(other.unlock(first) == IS_GRANTED and hosts[0].lock(first) == IS_GRANTED, "a released lock is not free")


def _take_away(server: Bulkhead, gone: Host, other: Host, file: bytes) -> None:
    """A host never reconnects, and another host blocks on its lock: an administrator revokes it."""
    _require(other.lock(file, waits=True) == IS_BLOCKED, "nobody waits")
    granted = other.granted
    files = f"{POOL}/files"
    told = json.loads(server.command("filesystem", "open-files", files, "--json"))
    locked = next(one for one in told["files"] if one["path"] == f"/file{gone.number}")
    holder = next(one for one in told["clients"] if one["client"] == locked["locks"][0]["client"])
    _require((holder["address"], holder["version"]) == (gone.address, "3"), f"another host has it: {holder}")
    _require(len(locked["waiting"]) == 1, f"no host is blocked: {locked}")
    server.command("filesystem", "expire-client", files, holder["client"], "--in-use")
    wait_until("the blocked host is called back", lambda: other.granted > granted, ANSWER_SECONDS)
    refused = server.try_command("filesystem", "expire-client", files, holder["client"], "--in-use")
    _require("no client" in refused.output, f"a client was expired twice: {refused}")


def run(server: Bulkhead, count: int, seed: int) -> LockTally:
    """Runs all rounds; stops at the first lost lock."""
    tally = LockTally()
    server.prepare()
    server.start()
    server.wait_ready()
    hosts, other = [Host(number) for number in range(HOSTS)], Host(HOSTS)
    file_of = {host.number: host.make(f"file{host.number}") for host in hosts}
    for host in hosts:
        _require(host.lock(file_of[host.number]) == IS_GRANTED, "a free lock is refused")
    for number, rng in tally.each_round(count, seed):
        with tally.complaining(f"round {number}", server):
            _one_round(server, hosts, other, file_of, rng.uniform(*LOAD_SECONDS), tally)
    with tally.complaining("at the end", server):
        _take_away(server, hosts[1], other, file_of[1])
        tally.audit(server)
    return tally


def main(argv: list[str]) -> int:
    """Runs the rounds and prints the verdict."""
    purpose = "Kill -9 while clients of NFS 3 have files locked: each is notified, and reclaims its lock."
    arguments = rounds.options("nfs.older_locks", purpose).parse_args(argv)
    rounds.say_seed(arguments.seed, f"older-locks ROUNDS={arguments.rounds}")
    # Hosts and the server use port 111 of addresses that exist only here.
    leave_the_machines_network()
    with runtime.scratch("older-locks", arguments.keep) as scratch:
        server = Bulkhead(scratch, [VolumeSpec("files", 0, is_file=True)], options=("--nfs", f"{SERVER}:2049"))
        return run(server, arguments.rounds, arguments.seed).end()


if __name__ == "__main__":
    runtime.command(main)
