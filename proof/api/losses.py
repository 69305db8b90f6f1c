"""The packet losses after a pulled cable are counted by the client's address, and survive the
connection."""

from __future__ import annotations

import re
import time
from pathlib import Path

from proof.api.head import PASSWORD, Head
from proof.api.web import Web
from proof.network import Neighbour, leave_the_machines_network
from proof.process import Child
from proof.runtime import ProofError, wait_until

PULLED_SECONDS = 0.5
# It can happen that no data is in flight when a cable is pulled.
PULLS_MAX = 5
WAIT_SECONDS = 30.0
# Bound of the age of the connections' data.
LOOK_SECONDS = 1.6
SAMPLE = re.compile(r'^bulkhead_peer_packets_lost_total{peer="([^"]+)",service="nbd",reason="([^"]+)"} (\d+)$', re.M)
LISTENS = re.compile(r"\b0\.0\.0\.0:(\d+)")


def losses_of_peers(folder: Path) -> None:
    """Leaves the host's network namespace for good, so no later step may need it."""
    leave_the_machines_network()
    head = Head(folder)
    head.add_users()
    port = head.start(nbd="0.0.0.0:0")
    children: list[Child] = []
    try:
        _serve(head, port)
        _judge(head, Web(port), folder, children)
    except ProofError:
        print(head.child.log_tail() if head.child else "")
        raise
    finally:
        for child in children:
            child.kill()
        head.stop()


def _serve(head: Head, port: int) -> None:
    anna = Web(port)
    anna.log_in("anna", PASSWORD)
    groups = [{"kind": "stripe", "role": "data", "devices": [str(head.disks[0])]}]
    status, answer = anna.ask("POST", "/pools", {"name": "tank", "groups": groups, "serve": True})
    if status != 200:
        raise ProofError(f"a pool: {answer}")
    for name in ("near", "far"):
        head.command("volume", "create", f"tank/{name}", "--size", "16M")
        head.command("nbd", "export", f"tank/{name}", "--name", name, "--allow-network", "10.78.0.0/16")


def _client(neighbour: Neighbour, ours: str, port: int, volume: str, options: list[str]) -> list[str]:
    uri = f"nbd://{ours}:{port}/{volume}"
    words = ["fio", f"--name={volume}", "--ioengine=nbd", f"--uri={uri}", "--rw=randrw", "--size=16m", "--thread", "--time_based", "--runtime=3600", *options]
    return neighbour.there(words)


def _judge(head: Head, web: Web, folder: Path, children: list[Child]) -> None:
    def text() -> str:
        return web.raw("GET", "/metrics")[2].decode()

    def counts(address: str) -> dict[str, int]:
        return {reason: int(count) for peer, reason, count in SAMPLE.findall(text()) if peer == address}

    listens = LISTENS.search(head.command("status", "tank", "--json"))
    if not listens:
        raise ProofError("the server does not log its address")
    nbd = int(listens[1])
    far, near = (Neighbour(name, f"10.78.{net}.1", f"10.78.{net}.2", folder) for name, net in (("far", 1), ("near", 2)))
    heavy, light = ["--bs=16k", "--iodepth=4"], ["--bs=4k", "--thinktime=500000"]
    children += [Child("far client", _client(far, "10.78.1.1", nbd, "far", heavy), folder / "far-client.log")]
    children += [Child("near client", _client(near, "10.78.2.1", nbd, "near", light), folder / "near-client.log")]
    wait_until("both clients are seen", lambda: bool(counts(far.address) and counts(near.address)), WAIT_SECONDS, 0.2)
    before = sum(counts(far.address).values())

    def has_lost() -> bool:
        far.pull_the_cable()
        time.sleep(PULLED_SECONDS)
        far.plug_in()
        # Connected again, and measured.
        time.sleep(2 * LOOK_SECONDS)
        children[0].require_alive()
        return sum(counts(far.address).values()) > before

    if not any(has_lost() for _ in range(PULLS_MAX)):
        raise ProofError(f"the cable of {far.address} was pulled {PULLS_MAX} times, but no further loss is counted: {counts(far.address)}")
    if any(counts(near.address).values()):
        raise ProofError(f"a client without a pulled cable lost {counts(near.address)}")
    for child in children:
        child.require_alive()
    last = counts(far.address)
    children[0].kill()
    wait_until("the far client is gone", lambda: 'bulkhead_pool_sessions{pool="tank"} 1\n' in text(), WAIT_SECONDS, 0.2)
    time.sleep(LOOK_SECONDS)
    gone = counts(far.address)
    if any(gone.get(reason, 0) < count for reason, count in last.items()):
        raise ProofError(f"the counters of a disconnected client were {last}, and are {gone}")
    print(f"    the far client lost {gone}, {before} packets of them with its cable plugged in, the near one {counts(near.address)}")
    for neighbour in (far, near):
        neighbour.end()
