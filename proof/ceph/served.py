"""A shelf served over iSCSI and NBD by ``bulkhead-ceph``, with stock clients, from a real cluster."""

from __future__ import annotations

import json
import os
import resource
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proof.ceph import refused
from proof.clients.base import Client, read_all, wait_done
from proof.clients.iscsi import IscsiClient
from proof.clients.nbd import NbdClient
from proof.conformance import __main__ as conformance
from proof.crash.proof import CrashProof, Plan
from proof.growth.cluster import Ceph
from proof.guide.blocks import commands_of
from proof.process import checked
from proof.runtime import REPOSITORY, ProofError, wait_until
from proof.servers.base import VolumeSpec
from proof.servers.shelf import Shelf

MIB = 1 << 20
PIECE = MIB
FROZEN_BYTES = 16 * MIB
LOST = 6
"""The exit status of a server after another host has taken its shelf over."""
EXIT_SECONDS = 30.0
CONFORMANCE_BYTES = 128 * MIB
TOOL_SECONDS = 120.0
FIO_SECONDS = 15
FIO_BYTES = 256 * MIB
DEPTHS = (1, 16)
FAMILIES = "^(?!Sanitize|WriteAtomic)"
"""Both are skipped by every server of ours."""


class Scenario:
    """Runs the parts, and collects the complaints."""

    def __init__(self, cluster: Ceph, scratch: Path, seed: int, rounds: int):
        self.cluster = cluster
        self.scratch = scratch
        self.seed = seed
        self.rounds = rounds
        self.complaints: list[str] = []

    def run(self, only: str | None) -> list[str]:
        """Runs the parts with ``only`` in their names; returns the complaints."""
        parts = (self.guide, self.verbs, self.refusals, self.killed, self.frozen, self.reservations, self.conformance, self.speed)
        for part in parts:
            if only and only not in part.__name__:
                continue
            print(f"{part.__name__}:")
            try:
                part()
            except ProofError as error:
                print(f"  failed: {error}")
                self.complaints.append(f"{part.__name__}: {error}")
        return self.complaints

    @contextmanager
    def _shelf(self, name: str, volumes: list[VolumeSpec], address_moves: bool = True) -> Iterator[Shelf]:
        folder = self.scratch / name
        folder.mkdir()
        shelf = Shelf(folder, volumes, self.cluster.conf, shelf=name, address_moves=address_moves)
        try:
            yield shelf
        except ProofError as error:
            logs = [child.log_tail() for child in (*shelf.children, *shelf.taken_over)]
            raise ProofError("\n".join([str(error), *logs])) from error
        finally:
            shelf.kill()

    def guide(self) -> None:
        """Runs the commands of the guide, unchanged."""
        commands = [command.text for command in commands_of((REPOSITORY / "docs/guide/ceph.md").read_text())]
        with self._shelf("guided", []) as shelf:
            (shelf.scratch / "bin").mkdir()
            (shelf.scratch / "bin/bulkhead-ceph").symlink_to(shelf.program)
            checked(["ip", "address", "add", "10.0.0.1/32", "dev", "lo"], TOOL_SECONDS)
            environment = {**shelf.host.environment, "PATH": f"{shelf.scratch}/bin:{os.environ['PATH']}"}
            served = "for _ in $(seq 300); do bulkhead-ceph status tank --json | grep -q pid && break; sleep 0.1; done"
            lines = [f"{text}\n{served}" if text.endswith("&") else text for text in commands]
            script = "\n".join(["set -e", "trap 'kill $(jobs -p); wait' EXIT", *lines])
            output = checked(["bash", "-c", script], TOOL_SECONDS, env=environment)
            _expect("tank/copy" in output and "ONLINE" in output, output)
            shelf.command("pool", "destroy", "tank", "--yes-destroy-all-data")
        print(f"  {len(commands)} commands of docs/guide/ceph.md: passed")

    def verbs(self) -> None:
        """The daily commands through the control socket, and without a server."""
        with self._shelf("verbs", []) as shelf:
            shelf.prepare()
            shelf.start()
            shelf.wait_ready()
            _daily_work(shelf)
            shelf.stop()
            # Without a server a command claims the shelf, does its work, and exports it.
            listed = json.loads(shelf.command("--json", "volume", "list", "verbs"))
            _expect("verbs/clone" in json.dumps(listed), f"no clone in {listed}")
            shelf.command("pool", "destroy", "verbs", "--yes-destroy-all-data")
            left = json.loads(shelf.command("--json", "pool", "list"))
            _expect("verbs" not in json.dumps(left), f"the shelf is still there: {left}")
        print("  create, list, resize, snapshot, clone, rollback, target, access, status, destroy: passed")

    def refusals(self) -> None:
        """Bad input: one sentence each, in a bounded time, and nothing is changed."""
        with self._shelf("refused", [VolumeSpec("v", 4 * MIB)]) as shelf:
            shelf.prepare()
            shelf.start()
            shelf.wait_ready()
            refused.prove(shelf, self.cluster)

    def killed(self) -> None:
        """Servers are killed under load; the other host takes over each time."""
        volumes = [VolumeSpec("small-blocks", 12 * MIB, 4096), VolumeSpec("usual-blocks", 16 * MIB)]
        with self._shelf("killed", volumes) as shelf:
            proof = CrashProof(shelf, Plan(self.rounds, self.seed, audit_every=10, say=lambda line: print(f"  {line}")))
            tally = proof.run()
            starts = [round(seconds * 1000) for seconds in tally.start_seconds]
            print(f"  {tally.summary()}")
            print(f"  {tally.verdict()}")
            print(f"  start of a server with takeover until clients are served: median {statistics.median(starts)} ms, longest {max(starts)} ms")
            if not tally.good:
                raise ProofError("\n".join(tally.complaints) or tally.verdict())
            if not tally.acknowledged:
                raise ProofError("no write was acknowledged")

    def frozen(self) -> None:
        """The owner is frozen under load and continues after a takeover: none of its writes arrives, no client gets an
        error, and it exits."""
        times = []
        with self._shelf("frozen", [VolumeSpec("v", FROZEN_BYTES)], address_moves=False) as shelf:
            shelf.prepare()
            shelf.start()
            shelf.wait_ready()
            for _ in range(max(2, self.rounds // 4)):
                times.append(_freeze(shelf))
            shelf.stop()
        print(f"  {len(times)} takeovers from a frozen server, decision to the first acknowledged write: median {statistics.median(times)} ms, longest {max(times)} ms")

    def reservations(self) -> None:
        """Persistent reservations survive takeovers after kills."""
        with self._shelf("reserved", [VolumeSpec("disk", 64 * MIB)]) as shelf:
            shelf.prepare()
            shelf.start()
            shelf.wait_ready()
            if failed := conformance.judge_reservations(shelf, "disk"):
                raise ProofError(f"{failed} steps failed")

    def conformance(self) -> None:
        """libiscsi's tests, and the stock NBD clients."""
        volumes = [VolumeSpec("lun0", CONFORMANCE_BYTES), VolumeSpec("disk", 64 * MIB), VolumeSpec("protected", 64 * MIB, read_only=True)]
        with self._shelf("judged", volumes) as shelf:
            shelf.prepare()
            shelf.start()
            shelf.wait_ready()
            nbd_failed = conformance.judge_nbd(shelf.nbd("disk").uri, 64 * MIB, shelf.scratch)
            urls = [address.url for address in shelf.iscsi_portals("lun0")]
            special = {"ReadOnly": shelf.iscsi("protected").url}
            results = conformance.judge_iscsi(urls, special, FAMILIES, False)
            if conformance.verdict(results, nbd_failed, 0):
                raise ProofError("a stock client found a fault")

    def speed(self) -> None:
        """4 KiB random requests by fio, to our server and to librbd itself, in one run."""
        image, conf = "direct", self.scratch / "fio.conf"
        # A cache would acknowledge writes before they are durable, which the server never does.
        conf.write_text(self.cluster.conf.read_text().replace("[client]\n", "[client]\nrbd_cache = false\n"))
        rbd = ["rbd", f"--conf={conf}", "--id=bulkhead", "-p", "rbd"]
        checked([*rbd, "create", image, "--size", f"{FIO_BYTES // MIB}M"], TOOL_SECONDS)
        with self._shelf("speed", [VolumeSpec("v", FIO_BYTES)]) as shelf:
            shelf.prepare()
            shelf.start()
            shelf.wait_ready()
            direct = ["--ioengine=rbd", "--clientname=bulkhead", "--pool=rbd", f"--rbdname={image}"]
            served = ["--ioengine=nbd", f"--uri={shelf.nbd('v').uri}"]
            for words in (direct, served):
                _fio(words, "write", 16, conf, ["--bs=1M", f"--size={FIO_BYTES}"])
            for kind in ("randwrite", "randread"):
                for depth in DEPTHS:
                    timed = ["--bs=4k", f"--size={FIO_BYTES}", "--time_based", f"--runtime={FIO_SECONDS}"]
                    rate, own = _fio(direct, kind, depth, conf, timed)
                    before = shelf.cpu_seconds()
                    through, _ = _fio(served, kind, depth, conf, timed)
                    server = (shelf.cpu_seconds() - before) / (through * FIO_SECONDS) * 1e6
                    print(
                        f"  {kind} 4 KiB, depth {depth}: librbd {rate:.0f}/s with {own:.0f} us of CPU each (fio included), "
                        f"served by NBD {through:.0f}/s ({through / rate:.0%}) with {server:.0f} us of the server"
                    )
            shelf.stop()


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise ProofError(words)


def _daily_work(shelf: Shelf) -> None:
    """The verbs that a shelf has, as an administrator types them."""
    name, target, initiator = shelf.shelf, "iqn.2026-01.org.example:verbs", "iqn.2026-01.org.example:client"
    volume = f"{name}/v"
    shelf.command("volume", "create", volume, "--size", "8M")
    shelf.command("volume", "resize", volume, "--size", "16M")
    shelf.command("snapshot", "create", f"{volume}@monday")
    shelf.command("snapshot", "clone", f"{volume}@monday", f"{name}/clone")
    shelf.command("target", "create", target, "--pool", name)
    shelf.command("target", "map", target, volume)
    shelf.command("target", "allow", target, "--initiator", initiator)
    shelf.command("nbd", "export", volume, "--name", "v")
    client = NbdClient(shelf.nbd("v"))
    wait_done(client, lambda done: client.write(0, bytearray(b"new!" * 1024), True, done))
    client.close()
    shelf.command("volume", "rollback", f"{volume}@monday")
    client = NbdClient(shelf.nbd("v"))
    _expect(read_all(client, 0, 4096) == bytes(4096), "the rollback left the newer contents")
    _expect(client.size == 16 * MIB or client.size == 8 * MIB, f"size {client.size}")
    client.close()
    status = shelf.command("status", name)
    _expect("ONLINE" in status and target in status, status)
    listed = shelf.command("volume", "list", name)
    _expect(volume in listed and f"{name}/clone" in listed, listed)
    unsupported = shelf.try_command("pool", "scrub-schedule", name)
    _expect(not unsupported.ok, unsupported.output)
    shelf.command("nbd", "unexport", volume)
    shelf.command("target", "unmap", target, volume)
    shelf.command("target", "destroy", target)


def _write_all(client: Client, letter: bytes) -> None:
    for start in range(0, client.size, PIECE):
        wait_done(client, lambda done, start=start: client.write(start, bytearray(letter * PIECE), True, done))


def _freeze(shelf: Shelf) -> int:
    """One round; returns the milliseconds from the decision to the first acknowledged write of the new owner."""
    clients: list[Client] = [NbdClient(shelf.nbd("v")), IscsiClient(shelf.iscsi("v"), "iqn.2026-01.org.example:frozen", "none")]
    _write_all(clients[0], b"A")
    answers: list[bool] = []
    for client in clients:
        for start in range(0, 8 * PIECE, PIECE):
            client.write(start, bytearray(b"L" * PIECE), True, answers.append)
    os.kill(shelf.children[0].pid, signal.SIGSTOP)
    old = shelf.leave_running()
    decided = time.monotonic()
    shelf.start()
    shelf.wait_ready()
    successor = NbdClient(shelf.nbd("v"))
    wait_done(successor, lambda done: successor.write(0, bytearray(b"B" * 4096), True, done))
    took = time.monotonic() - decided
    _write_all(successor, b"B")
    old.signal(signal.SIGCONT)
    wait_until("the previous owner has exited", lambda: not old.alive(), EXIT_SECONDS)
    _expect(old.ended_with(LOST), f"the previous owner did not exit with {LOST}:\n{old.log_tail()}")
    shelf.taken_over.clear()
    refused_before = [client.last_error for client in clients if client.errors]
    _expect(not refused_before, f"a client of the previous owner got an error: {refused_before}")
    found = b"".join(read_all(successor, start, PIECE) for start in range(0, FROZEN_BYTES, PIECE))
    _expect(found == b"B" * FROZEN_BYTES, "a late write of the previous owner arrived")
    for client in (*clients, successor):
        client.close()
    return round(took * 1000)


def _fio(engine: list[str], kind: str, depth: int, conf: Path, more: list[str]) -> tuple[float, float]:
    """Runs fio; returns requests per second, and microseconds of its CPU for each."""
    words = ["fio", "--name=x", f"--rw={kind}", f"--iodepth={depth}", "--output-format=json", "--randrepeat=0", *engine, *more]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = checked(words, TOOL_SECONDS, env={"CEPH_CONF": str(conf), "CEPH_ARGS": "--id=bulkhead"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    job = json.loads(output[output.index("{") : output.rindex("}") + 1])["jobs"][0]
    side = job["write" if "write" in kind else "read"]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return side["iops"], cpu / max(side["total_ios"], 1) * 1e6


def prove(cluster: Ceph, scratch: Path, seed: int, rounds: int, only: str | None) -> list[str]:
    """Runs all parts; returns the complaints."""
    folder = scratch / "served"
    folder.mkdir()
    return Scenario(cluster, folder, seed, rounds).run(only)


