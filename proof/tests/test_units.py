"""Of :mod:`proof.units`: which test programs there are, in which order they begin, and how one is judged."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from proof import units


def artifact(package: str, target: str, test: bool = True) -> str:
    """What cargo says of a program that it built."""
    return json.dumps(
        {
            "reason": "compiler-artifact",
            "manifest_path": f"/work/{package}/Cargo.toml",
            "target": {"name": target},
            "profile": {"test": test},
            "executable": f"/work/target/debug/deps/{target}-0123456789abcdef",
        }
    )


class Programs(unittest.TestCase):
    """What is run."""

    def test_programs_that_are_no_tests_and_other_messages_are_left_out(self) -> None:
        """Binaries, examples, libraries and lines that are no JSON."""
        library = json.dumps({"reason": "compiler-artifact", "profile": {"test": True}, "executable": None})
        lines = ["Compiling zpool", artifact("bulkhead", "bulkhead", test=False), library, artifact("zpool", "pool_faults")]
        found = units.programs(iter(lines))
        self.assertEqual([one.name for one in found], ["zpool/pool_faults"])
        self.assertEqual(found[0].folder, Path("/work/zpool"))

    def test_the_slowest_begin_first_and_integration_tests_before_those_of_libraries(self) -> None:
        """Times of the last run decide, then what usually takes long."""
        found = units.programs(iter([artifact("units", "units"), artifact("zpool", "care"), artifact("api", "api")]))
        order = [one.name for one in units.order(found, {"api/api": 3.0})]
        self.assertEqual(order, ["api/api", "zpool/care", "units/units"])


class Judged(unittest.TestCase):
    """What counts as failed."""

    def outcome(self, script: str) -> units.Outcome:
        """Of a program that runs this."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "test"
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
            return units.run(units.TestProgram("a/b", path, Path(folder)), [])

    def test_a_program_passes_only_with_a_summary_and_status_zero(self) -> None:
        """One that ended without a word has run nothing."""
        summary = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured'"
        good = self.outcome(summary)
        self.assertEqual((good.passed, good.wrong), (3, ""))
        self.assertIn("ended with 101", self.outcome(f"{summary}; exit 101").wrong)
        self.assertIn("ended with -6", self.outcome(f"{summary}; kill -ABRT $$").wrong)
        self.assertIn("without a summary", self.outcome("echo hello").wrong)
