"""Faults of the server and of its networks under a file system in use."""

from __future__ import annotations

from proof.linux.machine import Job
from proof.linux.network import NETWORKS
from proof.linux.steps import Session, begin_writes, fio_report, require

WRITE_SECONDS = 150.0
NANOSECONDS = 1_000_000_000
PAUSE_SECONDS_MAX = 60.0
"""Linux reports a hung task after 120 s; no fault here may come near."""


class Faults:
    """Injects each fault while verified writes run; the application must see a pause and no error."""

    def __init__(self, session: Session):
        self._session = session
        self._machine = session.machine
        self._server = session.server
        self._files = 0

    def _write(self) -> Job:
        """Starts about ten seconds of writes, read back and verified after; returns once they run."""
        self._files += 1
        file = f"/mnt/fault{self._files}"
        return begin_writes(self._machine, self._session.disk, file, "--rate=,2500k", 100, WRITE_SECONDS)

    def _pause(self, job: Job) -> str:
        report = fio_report(job.output())
        longest = report["write"]["clat_ns"]["max"] / NANOSECONDS
        require(longest < PAUSE_SECONDS_MAX, f"a write took {longest:.1f} s")
        return f"{report['write']['total_ios']} writes verified, longest pause {longest:.1f} s"

    def killed(self) -> str:
        """kill -9, followed by a restart at once."""
        job = self._write()
        self._server.kill()
        served = self._server.restart()
        words = self._pause(job)
        self._session.wait_paths(2)
        return f"{words} (server back after {served:.1f} s)"

    def long_outage(self) -> str:
        """kill -9, and a restart only when the initiator has failed both paths."""
        job = self._write()
        self._server.kill()
        self._session.wait_paths(0)
        served = self._server.restart()
        words = self._pause(job)
        self._session.wait_paths(2)
        return f"{words} (both paths given up before the start; server back after {served:.1f} s)"

    def restarted(self) -> str:
        """A clean stop notifies the initiator and exports the pool; the next start takes over."""
        job = self._write()
        self._server.stop()
        served = self._server.restart()
        words = self._pause(job)
        self._session.wait_paths(2)
        return f"{words} (server back after {served:.1f} s)"

    def path_cut(self) -> str:
        """One network drops all packets: the other path serves alone until it is restored."""
        job = self._write()
        NETWORKS[0].unplug()
        try:
            self._session.wait_paths(1)
            words = self._pause(job)
        finally:
            NETWORKS[0].plug_in()
        self._session.wait_paths(2)
        return f"{words}; both paths again"

    def path_logged_out(self) -> str:
        """One session is closed and opened again."""
        job = self._write()
        node = f"iscsiadm -m node -p {NETWORKS[1].server}"
        self._machine.run(f"{node} --logout >/dev/null; {node} --login >/dev/null", 60)
        words = self._pause(job)
        self._session.wait_paths(2)
        return words
