"""``python3 -m proof.runbooks``: every command of ``docs/guide/runbooks.md``, in a lab of two heads with a witness.

The page names the host of each command by its prompt. Hardware events, such as a power cut or a new disk, happen before
their section.
"""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from proof import runtime
from proof.runtime import REPOSITORY, ProofError
from proof.servers import bulkhead

PAGE = REPOSITORY / "docs/guide/runbooks.md"
EXAMPLE = REPOSITORY / "examples/legs-two-heads-witness.toml"
EXIT_INCAPABLE = 15
NAME = "runbooks"
UP_SECONDS = 400.0
COMMAND_SECONDS = 400.0
UNTIL_SECONDS = 180.0
POLL_SECONDS = 1.0
LAB_BYTES = 3 << 30
# The cache of the example does not fit into this host. A busy host is slow to respond.
FILE_CHANGES = (('arc = "32G"', 'arc = "512M"'), ("[quorum]", "[timeouts]\ntoken_ms = 3000\nconsensus_ms = 3600\ntakeover_budget_s = 30\n\n[quorum]"))
# Empty disks in the bays of the old ones.
BLANK = "for disk in /dev/disk/by-id/*; do size=$(stat -L -c %s $disk); truncate -s 0 $disk; truncate -s $size $disk; done"
# It must not be powered on before the other head has it powered off, too.
AWAY = ("exec", "left", "for try in $(seq 120); do crm_mon -1 | grep -q 'OFFLINE: \\[ right' && exit; sleep 1; done; exit 1")
# The state of a new server with the addresses and the passwords of the old one.
EMPTY = (
    "rm -rf /etc/bulkhead/legs /etc/bulkhead/*.toml /etc/bulkhead/await-heads /etc/bulkhead/head/peer-key /etc/corosync/authkey"
    " /etc/corosync/corosync.conf /var/lib/bulkhead/* /var/lib/pacemaker/* /var/lib/corosync/*; " + BLANK
)
# The lab starts the witness with its options as arguments.
WITNESS_CONF = r"tr '\0' ' ' < /proc/$(pgrep -x bulkhead-witnes)/cmdline | sed 's/.* serve /OPTIONS=/' > /etc/bulkhead/witness.conf"
# The pool of another appliance.
VAULT = (
    "mkdir -p /var/lib/vault && truncate -s 1G /var/lib/vault/disk && bulkhead pool create vault /var/lib/vault/disk"
    " && (setsid bulkhead pool-server vault --replication 10.77.9.31:8873 </dev/null >/var/lib/vault/log 2>&1 &)"
    " && for try in $(seq 60); do bulkhead pool status vault && exit; sleep 1; done; exit 1"
)
DISK = "/dev/disk/by-id/nvme-eui.00253852000000"
EVENTS = {
    "Both heads are down": tuple(("power", head, state) for state in ("off", "on") for head in ("left", "right")),
    "Rebuild a head from nothing": (
        ("exec", "witness", WITNESS_CONF), ("exec", "right", EMPTY), ("power", "right", "off"),
        AWAY, ("power", "right", "on"),
    ),
    "All disks of a head are lost": (("exec", "right", BLANK), ("power", "right", "off"), AWAY, ("power", "right", "on")),
    "Replace the witness": (("exec", "witness", "pkill -x bulkhead-witnes; rm -rf /var/lib/bulkhead-witness/*"),),
    "Replace a disk of a leg": (("exec", "right", f"truncate -s $(stat -L -c %s {DISK}01) {DISK}09"),),
    "Restore from a replica on another appliance": (("exec", "witness", VAULT),),
}
"""Commands of the lab before a section."""
HOSTS = {"there": "witness"}
"""Hosts of a lab for hosts of the page: the machine of the witness has the pool of the other appliance."""
INSTEAD = {
    "systemctl restart bulkhead-witness": "pkill -x bulkhead-witnes; sleep 1; setsid bulkhead-witness serve"
    " $(sed -n s/^OPTIONS=//p /etc/bulkhead/witness.conf) </dev/null >/dev/null 2>&1 & sleep 1",
}
"""Commands for which the witness of a lab has no service manager."""


@dataclass(frozen=True)
class Typed:
    """A command of the page."""

    section: str
    line: int
    host: str
    command: str
    until: str
    shows: str
    """The word of later commands for the output of this one."""


def commands_of(text: str) -> list[Typed]:
    """Returns the commands of the page, in their order."""
    found, section, is_shell = [], "", False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if line.strip().startswith("```"):
            is_shell = not is_shell
            continue
        if not is_shell:
            continue
        typed = re.fullmatch(r"\s*(\w+)\$ (.+?)(?:\s+# (?:until (.+)|shows (\w+)))?", line)
        if not typed:
            raise ProofError(f"{PAGE.name}, line {number}: no prompt names the host: {line.strip()}")
        found.append(Typed(section, number, typed[1], typed[2], typed[3] or "", typed[4] or ""))
    return found


class Lab:
    """The lab, which always terminates with this process."""

    def __init__(self, program: Path, folder: Path):
        self._program = program
        self._place = ["--name", NAME, "--dir", str(folder)]
        self._folder = folder
        self._shown: dict[str, str] = {}
        self._forget = runtime.at_exit(self.down)

    def up(self) -> list[str]:
        """Starts it; returns the missing requirements of this host."""
        text = EXAMPLE.read_text()
        for old, new in FILE_CHANGES:
            text = text.replace(old, new)
        file = self._folder / "appliance.toml"
        file.write_text(text)
        done = self._run(["up", str(file), *self._place], UP_SECONDS)
        if done.returncode == EXIT_INCAPABLE:
            return done.stderr.strip().splitlines()
        if done.returncode:
            raise ProofError(f"the lab did not come up:\n{done.stderr}")
        return []

    def _run(self, words: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self._program, "lab", *words], capture_output=True, text=True, timeout=seconds, check=False)

    def event(self, words: tuple[str, str, str]) -> None:
        """Causes an event of the hardware."""
        verb, host, what = words
        rest = ["--", "sh", "-c", what] if verb == "exec" else []
        done = self._run([verb, host, *([] if rest else [what]), *self._place, *rest], COMMAND_SECONDS)
        if done.returncode:
            raise ProofError(f"lab {' '.join(words)}: {done.stdout}{done.stderr}")

    def typed(self, one: Typed) -> None:
        """Types a command on its host, until it shows the words that the page names."""
        command, host = INSTEAD.get(one.command, one.command), HOSTS.get(one.host, one.host)
        for word, shown in self._shown.items():
            command = command.replace(word, shown)
        deadline = time.monotonic() + UNTIL_SECONDS
        while True:
            done = self._run(["exec", *self._place, host, "--", "sh", "-c", command], COMMAND_SECONDS)
            output = done.stdout + done.stderr
            if done.returncode == 0 and one.until in output:
                break
            if not one.until or time.monotonic() > deadline:
                raise ProofError(f"{PAGE.name}, line {one.line}: {one.host}$ {command}: exit code {done.returncode}\n{output}")
            time.sleep(POLL_SECONDS)
        if one.shows:
            self._shown[one.shows] = done.stdout.strip()

    def down(self) -> None:
        """Stops it."""
        self._forget()
        self._run(["down", *self._place], COMMAND_SECONDS)


def walk(program: Path) -> list[str]:
    """Types all commands of the page; returns the missing requirements where this host cannot run two heads."""
    commands = commands_of(PAGE.read_text())
    if unknown := EVENTS.keys() - {one.section for one in commands}:
        raise ProofError(f"{PAGE.name} has no sections {sorted(unknown)}")
    with runtime.scratch(NAME, base=runtime.memory_base(LAB_BYTES)) as folder:
        lab = Lab(program, folder)
        try:
            if missing := lab.up():
                return missing
            section = ""
            for one in commands:
                if one.section != section:
                    section = one.section
                    print(f"\n{section}", flush=True)
                    for words in EVENTS.get(section, ()):
                        print(f"   ({' '.join(words)})", flush=True)
                        lab.event(words)
                started = time.monotonic()
                lab.typed(one)
                print(f"   {one.host}$ {one.command}   ({time.monotonic() - started:.1f} s)", flush=True)
        finally:
            lab.down()
    return []


def main(argv: list[str]) -> int:
    """Runs the proof; the last line is the verdict."""
    if argv:
        print("usage: python3 -m proof.runbooks   (needs target/release/bulkhead, or $BULKHEAD)")
        return 0
    if missing := walk(bulkhead.program()):
        print("runbooks: skipped, this host cannot run two heads:")
        for words in missing:
            print(f" * {words}")
        return 0
    count = len(commands_of(PAGE.read_text()))
    return runtime.verdict([], f"runbooks: {count} commands, 0 wrong")


if __name__ == "__main__":
    runtime.command(main)
