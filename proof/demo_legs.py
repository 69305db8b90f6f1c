"""``python3 -m proof.demo_legs``: two heads without shared disks, and a witness, on this host.

The power of the serving head is pulled. A leg is cut off, and receives the data that it missed. Both heads lose
their power, and the one with the stale leg starts alone: it refuses to serve, and reports which head is newer.
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

from proof import runtime
from proof.process import checked
from proof.runtime import REPOSITORY, ProofError
from proof.servers import bulkhead
from proof.story import Story

EXAMPLE = REPOSITORY / "examples/legs-two-heads-witness.toml"
EXIT_INCAPABLE = 15
NAME = "demo-legs"
POOL = "tank"
ADDRESS = "10.77.1.100"
COMMAND_SECONDS = 60.0
UP_SECONDS = 240.0
TAKEOVER_SECONDS = 60.0
RETURN_SECONDS = 120.0
# A head that boots alone decides after 60 s and its boot.
REFUSAL_SECONDS = 150.0
LAB_BYTES = 3 << 30
PAUSE_S_MAX = 30.0

PICTURE = """\
            an NBD client                        the witness stores
                  |                              which legs are current
  storage ==+=====+=====+==                                |
        +---+--+     +--+---+                              |
        | left |     | right|  == legs-a, legs-b: each head lends its disks to the other one
        +--+---+     +--+---+
        own disks    own disks                   the pool: mirrors of a disk on either side"""

# Writes blocks of noise derived from the seed, each durable before the next one, and prints the longest pause. The
# other end of its connection can lose its power: the connection is closed after three seconds of silence.
WRITE = """
import nbd, random, socket, sys, time
address, first, count, seed, patience = sys.argv[1], *map(int, sys.argv[2:6])
def connect():
    until = time.monotonic() + patience
    while True:
        try:
            way = socket.create_connection((address, 10809), 1)
            way.settimeout(None)
            way.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2), (socket.TCP_USER_TIMEOUT, 3000)):
                way.setsockopt(socket.IPPROTO_TCP, option, value)
            handle = nbd.NBD()
            handle.set_export_name("v")
            handle.connect_socket(way.detach())
            return handle
        except (nbd.Error, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
handle, worst = connect(), 0.0
for block in range(first, first + count):
    data = random.Random(seed * 100000 + block).randbytes(1 << 20)
    begun = time.monotonic()
    while True:
        try:
            handle.pwrite(data, block << 20)
            handle.flush()
            break
        except nbd.Error:
            if time.monotonic() > begun + patience:
                raise
            handle = connect()
    worst = max(worst, time.monotonic() - begun)
    print(f"{worst:.2f}", flush=True)
"""

READ = """
import nbd, random, sys
address, first, count, seed = sys.argv[1], *map(int, sys.argv[2:5])
handle = nbd.NBD()
handle.connect_uri(f"nbd://{address}/v")
noise = lambda block: random.Random(seed * 100000 + block).randbytes(1 << 20)
print(sum(handle.pread(1 << 20, block << 20) != noise(block) for block in range(first, first + count)))
"""


class LegsLab:
    """A lab of the example, which always terminates with this process."""

    def __init__(self, program: Path, labs: Path):
        self._program = program
        self._place = ["--name", NAME, "--dir", str(labs)]
        self._forget = runtime.at_exit(self.down)

    def up(self) -> list[str]:
        """Starts it; returns the missing requirements of this host."""
        words = [self._program, "lab", "up", EXAMPLE, *self._place]
        done = subprocess.run(words, capture_output=True, text=True, timeout=UP_SECONDS, check=False)
        if done.returncode == EXIT_INCAPABLE:
            return done.stderr.strip().splitlines()
        if done.returncode:
            raise ProofError(f"the lab did not come up:\n{done.stderr}")
        return []

    def lab(self, *words: str) -> str:
        """Runs a command of the lab."""
        return checked([self._program, "lab", *words, *self._place], COMMAND_SECONDS)

    def on(self, machine: str, *words: str) -> str:
        """Runs a command on a node of the lab."""
        return checked([self._program, "lab", "exec", *self._place, machine, "--", *words], COMMAND_SECONDS)

    def client(self, script: str, *words: object) -> list[str]:
        """Returns the command that runs a script as the client."""
        place = [self._program, "lab", "exec", *self._place, "client", "--"]
        return [str(word) for word in (*place, "/usr/bin/python3", "-c", script, ADDRESS, *words)]

    def serving(self) -> str | None:
        """Returns the head that serves the pool."""
        found = re.search(rf"pool {POOL}: served by (\S+)", self.lab("status"))
        return found[1] if found else None

    def down(self) -> None:
        """Stops it."""
        self._forget()
        words = [self._program, "lab", "down", *self._place]
        subprocess.run(words, capture_output=True, timeout=COMMAND_SECONDS, check=False)


class Blocks:
    """The client's durable writes: seeds by block."""

    def __init__(self, lab: LegsLab):
        self._lab = lab
        self._written: dict[int, int] = {}
        self._seed = 0

    def begin(self, first: int, count: int) -> subprocess.Popen[str]:
        """Starts to overwrite blocks, concurrently with the faults of the caller."""
        self._seed += 1
        self._written |= {block: self._seed for block in range(first, first + count)}
        words = self._lab.client(WRITE, first, count, self._seed, int(PAUSE_S_MAX))
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def end(writer: subprocess.Popen[str]) -> float:
        """Blocks until all writes are durable; returns the longest pause for one block, in seconds."""
        out, err = writer.communicate(timeout=COMMAND_SECONDS)
        if writer.returncode:
            raise ProofError(f"a write failed: {err}")
        return float(out.split()[-1])

    def write(self, first: int, count: int) -> float:
        """Overwrites blocks; returns the longest pause of one, in seconds."""
        return self.end(self.begin(first, count))

    def check(self) -> int:
        """Reads all blocks back; returns how many there are. Raises ``ProofError`` if one differs from its last
        write."""
        lost = 0
        for seed in sorted(set(self._written.values())):
            blocks = sorted(block for block, one in self._written.items() if one == seed)
            for first, count in _runs(blocks):
                lost += int(checked(self._lab.client(READ, first, count, seed), COMMAND_SECONDS))
        if lost:
            raise ProofError(f"{lost} acknowledged blocks are lost")
        return len(self._written)


def _runs(blocks: list[int]) -> list[tuple[int, int]]:
    """Groups consecutive blocks into runs: the first block, and how many."""
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and block == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((block, 1))
    return runs


def _power_pulled(story: Story, lab: LegsLab, blocks: Blocks) -> tuple[str, str]:
    story.step("While the client writes, the power of the serving head is pulled")
    before = lab.serving()
    writer = blocks.begin(0, 64)
    assert writer.stdout is not None
    writer.stdout.readline()
    lab.lab("power", str(before), "off")
    pause = blocks.end(writer)
    runtime.wait_until("the pool is served", lambda: lab.serving() not in (None, before), TAKEOVER_SECONDS, 0.2)
    now = lab.serving()
    story.tell(f"{before} is off; {now} opened the pool with its own legs, because the witness confirmed that they are current")
    story.keep(f"the serving head lost its power: I/O paused for {pause:.2f} s and went on")
    story.keep(f"{blocks.check()} acknowledged blocks of 1 MiB read back: 0 lost")
    lab.lab("power", str(before), "on")
    return str(now), str(before)


def _whole(lab: LegsLab, head: str) -> bool:
    said = lab.on(head, "bulkhead", "status", POOL)
    return "is missing all writes" not in said and "does not answer" not in said


def _leg_away_and_back(story: Story, lab: LegsLab, blocks: Blocks, serving: str, other: str) -> None:
    story.step(f"The cables between the heads are pulled: the legs of {other} are cut off")
    runtime.wait_until(f"the legs of {other} are whole", lambda: _whole(lab, serving), RETURN_SECONDS, 0.5)
    _cut(lab, other)
    count = 24
    pause = blocks.write(32, count)
    story.keep(f"a leg was cut off: I/O paused for {pause:.2f} s and went on with the other one")
    for line in re.findall(r"leg \S+ is missing all writes since transaction group \d+", lab.on(serving, "bulkhead", "status", POOL)):
        story.tell(line)
    story.step("The cables are plugged in again: the legs receive the data that they missed, and no more")
    _mend(lab, other)
    runtime.wait_until(f"the legs of {other} are whole", lambda: _whole(lab, serving), RETURN_SECONDS, 0.5)
    scan = re.search(r"resilver finished, 100%, (\S+) repaired", lab.on(serving, "bulkhead", "status", POOL))
    if not scan:
        raise ProofError("no data was copied to the returned legs")
    story.keep(f"{count}M were written during the outage; {scan[1]} were copied when the legs returned")
    # The other head reports that the witness responds to it.
    runtime.wait_until("each head can be lost", lambda: "any one head" in lab.on(serving, "bulkhead", "status", POOL), RETURN_SECONDS, 0.5)


def _cut(lab: LegsLab, head: str) -> None:
    for network in ("legs-a", "legs-b"):
        lab.lab("cut", head, network)


def _mend(lab: LegsLab, head: str) -> None:
    for network in ("legs-a", "legs-b"):
        lab.lab("mend", head, network)


def _stale_alone(story: Story, lab: LegsLab, blocks: Blocks, serving: str, other: str) -> None:
    story.step(f"The legs of {other} fall behind again, both heads lose their power, and {other} starts alone")
    _cut(lab, other)
    blocks.write(16, 16)
    for head in (serving, other):
        lab.lab("power", head, "off")
    _mend(lab, other)
    lab.lab("power", other, "on")
    refusal: dict[str, Any] = {}

    def refused() -> bool:
        status = lab.on(other, "sh", "-c", "bulkhead status 2>&1 || true")
        said = re.findall(r"this head waits for the other one: (.*)", status)
        refusal["said"] = said[-1] if said else ""
        return POOL in refusal["said"]

    runtime.wait_until(f"{other} refuses", refused, REFUSAL_SECONDS, 0.5)
    for sentence in re.split(r"(?<=[;.]) ", refusal["said"]):
        story.tell(f"{other}: {sentence}")
    if lab.serving():
        raise ProofError("a stale leg was served")
    story.keep(f"{other} has a stale leg, and refused to serve it alone")
    story.step(f"{serving} starts, too")
    lab.lab("power", serving, "on")
    runtime.wait_until("the pool is served", lambda: lab.serving() is not None, TAKEOVER_SECONDS, 0.5)
    story.keep(f"{blocks.check()} acknowledged blocks of 1 MiB read back: 0 lost")


def tell(story: Story, program: Path) -> list[str]:
    """Runs the story; returns the missing requirements where this host cannot run two heads."""
    with runtime.scratch("demo", base=runtime.memory_base(LAB_BYTES)) as folder:
        lab = LegsLab(program, folder)
        try:
            story.step("Two heads with disks of their own, and a witness, start on this host")
            story.tell(f"$ bulkhead lab up examples/{EXAMPLE.name}")
            print(PICTURE)
            if missing := lab.up():
                return missing
            serving = lab.serving()
            story.tell(f"pool {POOL} is served by {serving}")
            lab.on(str(serving), "bulkhead", "volume", "create", f"{POOL}/v", "--size", "256M")
            export = ["nbd", "export", f"{POOL}/v", "--name", "v", "--allow-network", "10.77.1.0/24"]
            lab.on(str(serving), "bulkhead", *export)
            blocks = Blocks(lab)
            serving, other = _power_pulled(story, lab, blocks)
            _leg_away_and_back(story, lab, blocks, serving, other)
            _stale_alone(story, lab, blocks, serving, other)
        finally:
            lab.down()
    return []


def main(argv: list[str]) -> int:
    """Runs the demo; the last line is the verdict."""
    if argv and argv[0] in ("-h", "--help"):
        print("usage: python3 -m proof.demo_legs   (needs target/release/bulkhead, or $BULKHEAD)")
        return 0
    started = time.monotonic()
    story = Story()
    if missing := tell(story, bulkhead.program()):
        print("\nThis host cannot run two heads:")
        for words in missing:
            print(f" * {words}")
        return 0
    story.sum_up(time.monotonic() - started)
    return 0


if __name__ == "__main__":
    runtime.command(main)
