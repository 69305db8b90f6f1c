"""``python3 -m proof.mount``: see docs/guide/proof.md."""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from proof import runtime
from proof.mount.judges import FSX, FSX_RUNS, JUDGES, judge, pjdfstest_findings, pjdfstest_settings
from proof.process import Child, checked, run
from proof.runtime import ProofError, at_exit
from proof.servers.bulkhead import program, zdb_findings

POOL = "proof"
FILES = f"{POOL}/files"
DISK_BYTES = 2 << 30

COMMAND_SECONDS = 60.0
JUDGE_SECONDS = 1200.0
MOUNT_SECONDS = 60.0
ZDB_SECONDS = 300.0

NOBODY = 65534

KNOWN: dict[str, str] = {}
"""Tests of pjdfstest that fail, and the reasons. A failure without a reason here fails the run, and so does a listed
test that passes."""


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof.mount", description="pjdfstest and fsx on a mounted file system of a pool.")
    parser.add_argument("--operations", type=int, default=5000, help="operations of fsx, in each of its runs")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="for fsx")
    parser.add_argument("--judge", choices=tuple(JUDGES), action="append", help="only this judge; both by default")
    parser.add_argument("tests", nargs="*", help="of pjdfstest, by parts of their names; all by default")
    return parser.parse_args(argv)


class Mounted:
    """A pool on files, and its mounted file system."""

    def __init__(self, scratch: Path):
        self._disks = scratch / "disks"
        self.at = scratch / "mnt"
        self._scratch = scratch
        self._run = tempfile.TemporaryDirectory(prefix="bulkhead-run-")
        at_exit(self._run.cleanup)
        state = str(scratch / "state")
        self._env = {"BULKHEAD_RUN_DIR": self._run.name, "BULKHEAD_STATE_DIR": state, "BULKHEAD_SEARCH": str(self._disks)}

    def command(self, *words: str) -> str:
        """Runs ``bulkhead WORDS`` to success."""
        return checked([program(), *words], COMMAND_SECONDS, env=self._env)

    def prepare(self) -> None:
        """Creates the pool and the file system."""
        for folder in (self._disks, self.at):
            folder.mkdir()
        # Users other than root traverse it.
        self._scratch.chmod(0o755)
        disks = [self._disks / name for name in ("a", "b")]
        for disk in disks:
            with disk.open("wb") as file:
                file.truncate(DISK_BYTES)
        self.command("pool", "create", POOL, "mirror", *map(str, disks))
        self.command("filesystem", "create", FILES)

    @contextmanager
    def mounted(self) -> Iterator[Child]:
        """Mounts it until the block exits."""
        child = Child("filesystem mount", [program(), "filesystem", "mount", FILES, self.at], self._scratch / "log", self._env)
        forget = at_exit(lambda: run(["umount", "-l", self.at], COMMAND_SECONDS))

        def is_mounted() -> bool:
            child.require_alive()
            return os.path.ismount(self.at)

        runtime.wait_until("the file system is mounted", is_mounted, MOUNT_SECONDS)
        yield child
        status = child.stop()
        forget()
        if status:
            raise ProofError(f"the mount exited with {status}: {child.log_tail()}")

    def read_on(self) -> list[str]:
        """Returns the faults of a directory that root opens, and that an unprivileged process reads."""
        place = self.at / "closed"
        place.mkdir(0o700)
        (place / "name").touch()
        opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        os.seteuid(NOBODY)
        try:
            names = os.listdir(opened)
        except OSError as error:
            return [f"an open directory cannot be read further by another user: {error}"]
        finally:
            os.seteuid(0)
            os.close(opened)
        return [] if names == ["name"] else [f"an open directory has {names}"]

    def taken_away(self) -> list[str]:
        """Returns the faults when the mount is in use and covered by another mount, and the command receives
        SIGTERM."""
        with self.mounted() as child:
            used = os.open(self.at / "used", os.O_CREAT | os.O_WRONLY)
            checked(["umount", "-l", self.at], COMMAND_SECONDS)
            checked(["mount", "-t", "tmpfs", "foreign", self.at], COMMAND_SECONDS)
            foreign = at_exit(lambda: run(["umount", self.at], COMMAND_SECONDS))
            child.signal(signal.SIGINT)
            runtime.wait_until("the command reports that the mount is in use", lambda: "is in use" in child.log_tail(), COMMAND_SECONDS)
            child.require_alive()
            # The second signal, at the end of the block, lets the command exit without waiting.
        wrong = [] if os.path.ismount(self.at) else ["the command has unmounted the mount of another process"]
        with suppress(OSError):
            os.close(used)
        run(["umount", self.at], COMMAND_SECONDS)
        foreign()
        return wrong

    def faults(self) -> list[str]:
        """Returns the faults of the file system and of the pool."""
        said = self.command("filesystem", "check", FILES)
        found = [] if "fit together" in said else [said.strip()]
        disks = run(["zdb", "-e", "-p", self._disks, "-bcc", POOL], ZDB_SECONDS)
        return [*found, *filter(None, [zdb_findings(disks)])]


def _pjdfstest(pjdfstest: Path, mounted: Mounted, tests: list[str], scratch: Path) -> tuple[list[str], str]:
    """Returns the faults, and a summary."""
    config = scratch / "pjdfstest.toml"
    config.write_text(pjdfstest_settings(KNOWN, "stat_st_birthtime"))
    outcome = run([pjdfstest, "-c", config, "-p", mounted.at, "-s", scratch, *tests], JUDGE_SECONDS, env={"RUST_BACKTRACE": "0"})
    wrong, counts = pjdfstest_findings(outcome.output)
    for name, reason in KNOWN.items():
        print(f"  known {name}: {reason}")
    if not outcome.ok and not wrong:
        wrong.append(outcome.output.strip()[-2000:])
    return wrong, counts


def _fsx(fsx: Path, mounted: Mounted, arguments: argparse.Namespace, scratch: Path) -> list[str]:
    """Returns the faults."""
    wrong = []
    for number, shape in enumerate(FSX_RUNS):
        config = scratch / "fsx.toml"
        config.write_text(FSX.format(**shape))
        command = [fsx, "-N", str(arguments.operations), "-S", str(arguments.seed), "-P", scratch, "-f", config, mounted.at / f"fsx{number}"]
        outcome = run(command, JUDGE_SECONDS)
        if not outcome.ok:
            wrong.append(f"fsx with {shape}: {outcome.output.strip()[-3000:]}")
    return wrong


def main(argv: list[str]) -> int:
    """Runs the judges; the last line is the verdict."""
    arguments = _arguments(argv)
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("skipped: mounts need root and /dev/fuse")
        return 0
    print(f"seed {arguments.seed}")
    pjdfstest, fsx = (judge(name) if name in (arguments.judge or JUDGES) else None for name in ("pjdfstest", "fsx"))
    if arguments.judge and not (pjdfstest or fsx):
        return 0
    wrong: list[str] = []
    done: list[str] = []
    with runtime.scratch("mount", base=runtime.memory_base(2 * DISK_BYTES)) as scratch:
        mounted = Mounted(scratch)
        mounted.prepare()
        with mounted.mounted():
            if pjdfstest:
                complaints, counts = _pjdfstest(pjdfstest, mounted, arguments.tests, scratch)
                wrong += complaints
                done.append(f"pjdfstest {counts}")
            if fsx and not arguments.tests:
                wrong += _fsx(fsx, mounted, arguments, scratch)
                done.append(f"fsx {len(FSX_RUNS) * arguments.operations} operations")
            wrong += mounted.read_on()
        wrong += mounted.taken_away()
        wrong += mounted.faults()
    return runtime.verdict(wrong, f"mount: {'; '.join(done) or 'no judge'}; {len(wrong)} wrong")


if __name__ == "__main__":
    runtime.command(main)
