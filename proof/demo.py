"""``python3 -m proof.demo``: two heads on this host, and the effect on clients when one of them loses its power.

``bulkhead drill`` injects the faults and measures, and this prints its results as a story. Where the host cannot run
two heads, the demo of one head runs instead (``proof.demo_single``).
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from proof import demo_single, runtime
from proof.runtime import ProofError
from proof.servers import bulkhead
from proof.story import Story

EXIT_INCAPABLE = 15
EXIT_BROKEN = 16
DRILLS = ("move", "active-power")
PAUSE_S_MAX = 30
"""Enough for any busy host; ``bulkhead drill`` judges by the promised bound."""
END_SECONDS = 60.0
LAB_BYTES = 2 << 30
"""Bound of the space of the lab's disks."""
BAR_COLUMNS = 32

PICTURE = """\
        clients: libiscsi on two paths, libnbd, NFS with a lock
              |                     |
  storage-a ==+======+=========+====|====      10.77.1.100 and 10.77.2.100
  storage-b =========|==+======|==+=+====      belong to the pool, and follow it
                  +--+--+--+ +-+--+---+
                  |  left  | | right  |        each with its own Corosync, Pacemaker,
                  +---+----+ +---+----+        and a BMC that speaks real IPMI
                      +- disks --+             both heads see the same six"""

MEANINGS = {
    "detected": "Corosync misses a sign of life",
    "membership": "the other head is alone, and logs it",
    "fence asked": "Pacemaker wants the lost head powered off",
    "fenced": "fence_ipmilan: its BMC confirms that it is off",
    "pool stop": "the addresses are gone, the pool shall stop",
    "stopped": "the pool is exported",
    "pool start": "the other head may start it",
    "claimed": "its disks are the new owner's, the addresses come up",
    "imported": "the pool is imported, its log replayed",
    "listening": "its server serves the clients that have connected",
    "address": "Pacemaker has found the first address up",
    "all addresses": "and the last one",
    "first I/O": "an initiator has a response again",
}

TITLES = {
    "move": "While they write, the pool is handed over: `bulkhead pool move`",
    "active-power": "While they write, the power of the serving head is pulled",
}

ROUND = re.compile(r"(?P<drill>\S+) \(seed \d+\): (?P<fault>.*); pause (?P<pause>[0-9.]+) s(?:, (?P<steps>.*))?")


class Drill:
    """``bulkhead drill`` and its lab, which always terminate with this process."""

    def __init__(self, program: Path, folder: Path):
        self._program = program
        self.labs = folder / "labs"
        self.labs.mkdir()
        self._report = folder / "report.json"
        self._summary = tempfile.TemporaryFile(mode="w+")
        words = [*DRILLS, "--profile", "fast", "--budget", str(PAUSE_S_MAX), "--dir", self.labs, "--report", self._report]
        # In a session of its own: this process forwards a terminal's Ctrl-C.
        self.process = subprocess.Popen(
            [program, "drill", *words],
            stdin=subprocess.DEVNULL,
            # A file, not a pipe: it is not read while the other one is read.
            stdout=self._summary,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._forget = runtime.at_exit(self.end)

    def outcome(self) -> tuple[int, list[str], list[dict[str, Any]]]:
        """Blocks until the end; returns its exit code, the lines of its summary, and the rounds."""
        code = self.process.wait(END_SECONDS)
        self._summary.seek(0)
        summary = self._summary.read().splitlines()
        if not self._report.exists():
            return code, summary, []
        report = json.loads(self._report.read_text())
        return code, summary, [one for drill in report["drills"] for one in drill["rounds"]]

    def end(self) -> None:
        """Kills the drill if it still runs, and stops the lab."""
        self._forget()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
        if any(self.labs.iterdir()):
            words = [self._program, "lab", "down", "--dir", self.labs]
            subprocess.run(words, capture_output=True, timeout=END_SECONDS, check=False)


def _tell_round(story: Story, found: re.Match[str]) -> None:
    """One fault: the action, the pause, and its parts."""
    drill = found["drill"]
    story.step(TITLES.get(drill, drill))
    story.tell(found["fault"])
    steps = [step.rsplit(" ", 1) for step in (found["steps"] or "").split(", ") if " " in step]
    last = max((float(at) for _, at in steps), default=0.0)
    for name, at in steps:
        bar = "#" * max(1, round(BAR_COLUMNS * float(at) / last)) if last else ""
        story.tell(f"{float(at):6.2f} s  {bar:<{BAR_COLUMNS}}  {MEANINGS.get(name, name)}")
    words = "a planned hand-over" if drill == "move" else "the power of the serving head pulled"
    story.keep(f"{words}: I/O paused for {float(found['pause']):.2f} s and went on")


def _tell_line(story: Story, line: str) -> None:
    """Prints one line of the drill's progress, if it belongs to the story."""
    if found := ROUND.fullmatch(line):
        _tell_round(story, found)
    elif line.startswith("start "):
        story.step("Two heads start on this host, each in namespaces of its own, without mocks")
        story.tell(f"$ bulkhead drill {' '.join(DRILLS)} --profile fast      (the appliance: examples/pair.toml)")
        print(PICTURE)
        story.tell(line)
    elif line.startswith(("create ", "configure ")):
        story.tell(line)
    elif line.startswith("wait "):
        story.tell(line)
        story.step("Stock initiators write numbered blocks over iSCSI and NBD, and a client of NFS to a file that it has locked, until the end")
    elif "broken" in line:
        story.tell(line.strip())


def _judge(story: Story, rounds: list[dict[str, Any]]) -> None:
    """Adds the verdict of the drills to the story; raises ``ProofError`` for a bad one."""
    if complaints := [complaint for one in rounds for complaint in one["broken"]]:
        raise ProofError("; ".join(complaints))
    errors = sum(len(one["errors"]) for one in rounds)
    lost = sum(len(one["violations"]) for one in rounds)
    doubles = sum(len(one["double_imports"]) for one in rounds)
    acknowledged = max(one["acknowledged"] for one in rounds)
    story.step("Every block is read back")
    story.keep(f"{acknowledged} acknowledged writes read back: {lost} lost, {errors} errors seen by the clients")
    story.keep("the locked file stayed locked: a second client of NFS requested the lock all the time, and never got it")
    story.keep(f"the pool never had two owners at once: {doubles} double imports")


def two_heads(story: Story, program: Path) -> list[str]:
    """Runs the story; returns the missing requirements where this host cannot run two heads."""
    with runtime.scratch("demo", base=runtime.memory_base(LAB_BYTES)) as folder:
        drill = Drill(program, folder)
        try:
            assert drill.process.stderr is not None
            said = []
            for line in drill.process.stderr:
                said.append(line.rstrip())
                _tell_line(story, said[-1])
            code, summary, rounds = drill.outcome()
            if code == EXIT_INCAPABLE:
                return [line.strip() for line in summary[1:]]
            if code not in (0, EXIT_BROKEN) or len(rounds) != len(DRILLS):
                last = "\n".join(said[-5:])
                raise ProofError(f"bulkhead drill ended with {code}:\n{last}")
            _judge(story, rounds)
        finally:
            drill.end()
        if left := [path.name for path in drill.labs.iterdir()]:
            raise ProofError(f"the lab left {', '.join(left)} behind")
        story.tell("the lab is gone: no process, mount, network or file of it is left")
    return []


def main(argv: list[str]) -> int:
    """Runs the demo; the last line is the verdict."""
    if argv and argv[0] in ("-h", "--help"):
        print("usage: python3 -m proof.demo   (needs target/release/bulkhead, or $BULKHEAD)")
        return 0
    started = time.monotonic()
    story = Story()
    missing = two_heads(story, bulkhead.program())
    if missing:
        print("\nThis host cannot run two heads:")
        for words in missing:
            print(f" * {words}")
        print("So this is the demo of one head, without a takeover:")
        return demo_single.main(argv)
    story.sum_up(time.monotonic() - started)
    return 0


if __name__ == "__main__":
    runtime.command(main)
