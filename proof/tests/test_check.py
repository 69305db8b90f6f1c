"""Tests of :mod:`proof.check`: a failed step does not stop the run, and a change selects its crates and steps."""

from __future__ import annotations

import contextlib
import io
import os
import unittest

from proof import runtime
from proof.check import __main__ as command
from proof.check import run, table
from proof.check.table import Step


def outcomes(*steps: Step) -> tuple[list[run.Outcome], str]:
    """Runs them, and returns the printed text too."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        ended = run.run_lanes(steps, os.environ)
    return ended, printed.getvalue()


class Lanes(unittest.TestCase):
    def test_a_failed_step_stops_neither_its_lane_nor_another(self) -> None:
        ended, printed = outcomes(
            Step("bad", "echo because; exit 3", "a"), Step("after", "true", "a"), Step("other", "true", "b")
        )
        self.assertEqual({one.step.name: one.code for one in ended}, {"bad": 3, "after": 0, "other": 0})
        self.assertIn("because\n=== FAILED (exit code 3): bad", printed)

    def test_the_closing_line_counts_failures(self) -> None:
        ended, _ = outcomes(Step("good", "true", "a"), Step("bad", "false", "a"))
        self.assertEqual(run.summary(ended, 90.0).splitlines()[-2:], ["1.5 minutes", "1 passed, 1 failed"])

    def test_a_background_process_ends_with_its_step(self) -> None:
        _, printed = outcomes(Step("leaves one", "sleep 600 & echo child $!", "a"))
        child = int(printed.split("\nchild ")[1].split()[0])

        def is_gone() -> bool:
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{child}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
            return True

        # A killed process exits when it is scheduled next, which a busy host delays.
        runtime.wait_until(f"process {child} outlives its step", is_gone, 10)


class Changes(unittest.TestCase):
    def test_a_file_leads_to_its_crate(self) -> None:
        paths = ["protocols/nfs/src/lib.rs", "native/zfs-shim/device.c", "README.md", "fuzz/targets/pdu.rs"]
        self.assertEqual(command.crates(paths), ["nfs", "zpool"])

    def test_a_file_leads_to_its_steps_in_their_short_form(self) -> None:
        steps = {step.name: step.command for step in table.touching(["protocols/nfs/src/lib.rs"])}
        self.assertEqual(steps["repeats"], "make repeats ROUNDS=5")
        self.assertIn("hostile", steps)
        self.assertNotIn("drill-short", steps)

    def test_every_path_of_the_table_exists(self) -> None:
        for step in table.TEST:
            for path in step.of:
                with self.subTest(step=step.name, path=path):
                    self.assertTrue((run.runtime.REPOSITORY / path).exists())


if __name__ == "__main__":
    unittest.main()
