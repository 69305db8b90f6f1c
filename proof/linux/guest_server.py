"""``bulkhead`` in the guest: its commands, and its server as the head of a pool."""

from __future__ import annotations

import time

from proof.linux.machine import Machine
from proof.linux.steps import require
from proof.process import Outcome
from proof.servers.bulkhead import zdb_findings

START_SECONDS = 240.0
END_SECONDS = 120.0
ZDB_SECONDS = 300.0


class GuestServer:
    """One head in the guest, with a name, an identity and devices of its own."""

    def __init__(self, machine: Machine, head: str, search: str, host_id: int, nbd: str = ""):
        """Its NBD clients connect to ``nbd``, or run in the guest and connect to a socket in ``place``."""
        self.place = f"/run/{head}"
        """Its sockets, its state and its log."""
        self._machine = machine
        self._head = head
        self._search = search
        self._nbd = nbd or f"unix:{self.place}/nbd"
        self._environment = f"BULKHEAD_RUN_DIR={self.place} BULKHEAD_STATE_DIR={self.place}/state BULKHEAD_SEARCH={search} BULKHEAD_HOST_ID={host_id:08x}"

    @property
    def words(self) -> str:
        """The words before the arguments of a command."""
        return self._after("true")

    def _after(self, first: str) -> str:
        return f"env {self._environment} unshare --uts bash -c 'busybox hostname {self._head}; {first}; exec bulkhead \"$@\"' bulkhead"

    def agent(self, pool: str, action: str) -> str:
        """Returns the command of Pacemaker's agent of the pool, with the parameters that Pacemaker passes."""
        parameters = f"OCF_ROOT=/usr/lib/ocf OCF_RESKEY_pool={pool} OCF_RESOURCE_INSTANCE={pool} OCF_RESKEY_CRM_meta_timeout=40000"
        return f"env {self._environment} {parameters} bulkhead-agent pool {action}"

    def command(self, words: str) -> str:
        """Runs ``bulkhead WORDS`` to success."""
        # Commands block on udev's probes of a disk, which are very slow on an emulated processor.
        return self._machine.run(f"mkdir -p {self.place}/state; udevadm settle --timeout=60 || true; {self.words} {words} 2>&1", START_SECONDS)

    def start(self, pool: str, options: str) -> None:
        """Starts the server of ``pool``, without waiting for it."""
        place = self.place
        server = f"pool-server {pool} --no-iscsi --nbd {self._nbd} --ready-fd 1 --arc-size 64M --dirty-max 32M --disk-timeout 60 {options}"
        self._machine.run(f"""
            mkdir -p {place}/state
            udevadm settle --timeout=60 || true
            rm -f {place}/status {place}/ready {place}/nbd
            cat >{place}/serve <<'SERVE'
            {self._after(f"echo $$ >{place}/pid")} {server} >{place}/ready 2>>{place}/log </dev/null
            echo $? >{place}/status
SERVE
            setsid bash {place}/serve >/dev/null 2>&1 </dev/null &
        """)

    def serve(self, pool: str, options: str = "") -> float:
        """Starts the server of ``pool``; returns the seconds until clients can connect."""
        started = time.monotonic()
        self.start(pool, options)
        place = self.place
        waiting = f"until grep -q READY {place}/ready 2>/dev/null || [ -s {place}/status ]; do sleep 0.1; done"
        self._machine.run(f"{waiting}; [ ! -s {place}/status ] || {{ tail -n 30 {place}/log; exit 1; }}", START_SECONDS)
        return time.monotonic() - started

    def status(self) -> int:
        """The exit code of the server, once it has exited."""
        return int(self._machine.run(f"until [ -s {self.place}/status ]; do sleep 0.1; done; cat {self.place}/status", END_SECONDS))

    def signal(self, name: str) -> None:
        """Sends the server a signal."""
        self._machine.run(f"kill -{name} $(cat {self.place}/pid)")

    def stop(self) -> None:
        """Stops the server in good order."""
        self.signal("TERM")
        status = self.status()
        require(status == 0, f"the server of {self._head} ended with {status}:\n{self.log()}")

    def audit(self, pool: str) -> str:
        """Returns the findings of zdb in a pool that is not imported: no step passes with a finding."""
        answer = self._machine.attempt(f"zdb -e -p {self._search} -bcc {pool} 2>&1", ZDB_SECONDS)
        findings = zdb_findings(Outcome(answer.status, answer.output, answer.seconds))
        require(not findings, f"zdb found: {findings}")
        return "zdb read every block and found nothing"

    def log(self, lines: int = 20) -> str:
        """Returns the tail of the server's log."""
        return self._machine.run(f"tail -n {lines} {self.place}/log")


__all__ = ["END_SECONDS", "START_SECONDS", "GuestServer"]
