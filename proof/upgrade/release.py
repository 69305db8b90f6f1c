"""Another release of the binary for a lab: the same code, which reports another version, and the command that installs it.

The heads of a lab share the files of this host. So the command replaces the binary of one head by a mount, which the
head's processes do not see before they are started again, as with a package.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from proof.process import checked
from proof.runtime import ProofError
from proof.servers.bulkhead import program

STRIP_SECONDS = 120.0
IN_HEAD = "/run/lab/bin/bulkhead"
"""The binary of a head of a lab."""

SCRIPT = """#!/bin/sh
# install.sh VERSION: the binary of this head becomes that of VERSION, or fails as the file `fault` requires.
set -e
fault=$(cat '{folder}/fault' 2>/dev/null || true)
case "$fault" in
fails) echo 'no space left on device' >&2; exit 1 ;;
nothing) exit 0 ;;
slow) : >'{folder}/reached'; sleep 20 ;;
dies)
    # Corosync is killed as soon as the head is a member again.
    setsid sh -c 'until crm_mon -1 2>/dev/null | grep -q "Node $(uname -n): standby"; do sleep 0.2; done; kill -9 $(pidof corosync)' \
        </dev/null >/dev/null 2>&1 &
    ;;
esac
case "$1" in
'{new}') mount --bind '{folder}/bulkhead' {place} ;;
'{old}') umount --lazy {place} ;;
*) echo "no version $1" >&2; exit 1 ;;
esac
"""


class Release:
    """The release after the one under test, in a folder that all heads see."""

    def __init__(self, folder: Path):
        self._folder = folder
        output = checked([program(), "--version"], STRIP_SECONDS)
        self.old = output.split()[1]
        *begin, last = self.old.split(".")
        digit = last[-1]
        if not digit.isdigit() or digit == "9":
            raise ProofError(f"no version of the same length follows {self.old}")
        self.new = ".".join([*begin, last[:-1] + str(int(digit) + 1)])
        binary = folder / "bulkhead"
        shutil.copy(program(), binary)
        checked(["strip", "--strip-debug", binary], STRIP_SECONDS)
        binary.write_bytes(binary.read_bytes().replace(self.old.encode(), self.new.encode()))
        script = folder / "install.sh"
        script.write_text(SCRIPT.format(folder=folder, new=self.new, old=self.old, place=IN_HEAD))
        # Root of a head reads it.
        folder.chmod(0o755)
        self.command = f'sh {script} "$1"'

    def fault(self, name: str) -> None:
        """Sets how an install goes: it `fails`, does `nothing`, is `slow`, or as it should (empty)."""
        (self._folder / "reached").unlink(missing_ok=True)
        (self._folder / "fault").write_text(name)

    def is_reached(self) -> bool:
        """Whether a slow install has begun."""
        return (self._folder / "reached").exists()


__all__ = ["Release"]
