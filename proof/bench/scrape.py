"""The cost of a scrape of the metrics: CPU time of the head and of the pool's server."""

from __future__ import annotations

import time
from pathlib import Path

from proof.api.head import PASSWORD, Head
from proof.api.web import Web
from proof.process import cpu_seconds
from proof.runtime import ProofError, wait_until

SCRAPES = 20
SAMPLE = b"bulkhead_volume_operations_total{"
SEEN_SECONDS = 60.0
IDLE_SECONDS = 10.0
VOLUME_BYTES = 8 << 20


def _servers(run: Path) -> list[int]:
    """Returns the processes that serve pools in ``run``."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"pool-server" in words and str(run).encode() in words:
            found.append(int(place.name))
    return found


def main(folder: Path, volumes: int) -> int:
    """Prints the milliseconds of a scrape, and the CPU use without any."""
    head = Head(folder)
    head.add_users()
    port = head.start()
    try:
        web = Web(port)
        web.log_in("anna", PASSWORD)
        groups = [{"kind": "stripe", "role": "data", "devices": [str(disk) for disk in head.disks]}]
        requests = [("/pools", {"name": "tank", "groups": groups, "properties": {}, "overwrite": False, "serve": True})]
        names = [f"tank/v{index:04}" for index in range(volumes)]
        requests += [("/pools/tank/volumes", {"name": name, "size": VOLUME_BYTES, "sparse": True}) for name in names]
        # Volumes that are not exported have no figures.
        requests += [("/pools/tank/nbd", {"volume": name}) for name in names]
        print(f"making {volumes} volumes ...")
        for path, body in requests:
            status, answer = web.ask("POST", path, body)
            if status != 200:
                raise ProofError(f"{path}: {answer}")
        assert head.child is not None
        processes = {"head": [head.child.pid], "server": _servers(head.folder / "run")}

        def cpu() -> dict[str, float]:
            return {name: sum(map(cpu_seconds, pids)) for name, pids in processes.items()}

        def are_all_there() -> bool:
            return web.raw("GET", "/metrics")[2].count(SAMPLE) >= 2 * volumes

        wait_until("the metrics have all volumes", are_all_there, SEEN_SECONDS)
        before = cpu()
        time.sleep(IDLE_SECONDS)
        idle = {name: (after - before[name]) / IDLE_SECONDS for name, after in cpu().items()}
        before, started, length = cpu(), time.monotonic(), 0
        for _ in range(SCRAPES):
            length = len(web.raw("GET", "/metrics")[2])
        took = time.monotonic() - started
        for name, after in cpu().items():
            each = (after - before[name] - idle[name] * took) / SCRAPES * 1000
            print(f"{name}: {each:.1f} ms of CPU a scrape, {idle[name] * 100:.1f} % of a processor without any")
        print(f"{volumes} volumes: {length} bytes, {took / SCRAPES * 1000:.0f} ms a scrape")
    finally:
        head.stop()
    return 0
