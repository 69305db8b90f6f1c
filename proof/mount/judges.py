"""pjdfstest and fsx: third-party tests of a mounted file system. Cargo builds them, outside of the shipped packages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from proof.process import run
from proof.runtime import REPOSITORY, ProofError

JUDGES = {"pjdfstest": "0.2.2", "fsx": "0.3.1"}
"""Crates, with the tested versions."""

FOLDER = REPOSITORY / "target/judges"
BUILD_SECONDS = 1800.0

FEATURES = ("posix_fallocate", "rename_ctime", "utime_now", "utimensat")
"""The features of each of our file systems, by their names in pjdfstest."""

WRONG = r"^\S+ +(?:FAILED|PASSED UNEXPECTEDLY)$(?:\n\t.*)*"
"""The lines of pjdfstest about a failed test, and the reason below."""

PJDFSTEST = """
[features]
{features}

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"], ["bin", "bin"]]

[settings]
naptime = 0.01
expected_failures = [{known}]
"""

FSX = """
flen = {length}

[opsize]
max = {most}

[weights]
close_open = 1
invalidate = 1
truncate = 5
fsync = 0.5
fdatasync = 0.5
punch_hole = {holes}
sendfile = 1
posix_fadvise = 1
copy_file_range = 1
"""

FSX_RUNS = ({"length": 256 << 10, "most": 64 << 10, "holes": 0}, {"length": 4 << 20, "most": 300_000, "holes": 5})
"""A file with one block of ZFS or two, and a file with many blocks and with holes."""


def judge(name: str) -> Path | None:
    """Returns its binary; prints the reason if it is not available."""
    built = FOLDER / "bin" / name
    if not built.exists():
        command = ["cargo", "install", "--locked", "-q", "--root", FOLDER, f"{name}@{JUDGES[name]}"]
        outcome = run(command, BUILD_SECONDS, env={"CARGO_TARGET_DIR": str(FOLDER / "build")})
        if not outcome.ok:
            print(f"skipped: {name} is missing, and cargo does not build it: {outcome.output.strip()[-500:]}")
            return None
    return built


def pjdfstest_settings(known: Iterable[str], *more_features: str) -> str:
    """Returns the settings for a file system that fails ``known``, with further features."""
    features = "\n".join(f"{name} = {{}}" for name in (*FEATURES, *more_features))
    return PJDFSTEST.format(features=features, known=", ".join(f'"{name}"' for name in known))


def pjdfstest_findings(output: str) -> tuple[list[str], str]:
    """Returns the unexpected failures and unexpected passes, and a summary."""
    counts = re.search(r"^Summary: (.*)$", output, re.M)
    if counts is None:
        raise ProofError(f"pjdfstest ended without results:\n{output[-2000:]}")
    return [case.strip() for case in re.findall(WRONG, output, re.M)], counts[1]


__all__ = ["FSX", "FSX_RUNS", "JUDGES", "judge", "pjdfstest_findings", "pjdfstest_settings"]
