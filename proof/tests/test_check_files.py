"""The verdicts of the judges of files, as counts."""

import unittest

from proof.check import files, table
from proof.check.run import Outcome

STEP = table.FILES[0]


def counts(text: str, code: int | None = 0) -> tuple[int, int, int, int]:
    found = files.counts_of(Outcome(STEP, 1, code, text))
    return found.passed, found.known, found.failed, found.skipped


class CountsTest(unittest.TestCase):
    def test_each_judge_has_a_verdict_that_is_counted(self) -> None:
        verdicts = {
            "pynfs: 581 passed, 2 failed for a known reason, 0 wrong": (581, 2, 0, 0),
            "mount: pjdfstest 1 failed, 14 skipped, 384 passed, 2 expected failures, 401 total; 1 wrong": (384, 2, 1, 14),
            "mount: fsx 10000 operations; 0 wrong": (10000, 0, 0, 0),
            "repeated calls: 20 kills, 1795 calls repeated, 0 answered otherwise": (1795, 0, 0, 0),
            "locks of NFS 3: 3 kills, 48 locks taken back, 1 lost": (48, 0, 1, 0),
            "crash of files: 10 rounds, 5000 changes, 0 lost": (5000, 0, 0, 0),
            "linux initiator: 9 passed, 0 failed, 1 skipped": (9, 0, 0, 1),
        }
        for verdict, expected in verdicts.items():
            with self.subTest(verdict):
                self.assertEqual(counts(f"before\n{verdict}\n", 1 if expected[2] else 0), expected)

    def test_a_judge_that_cannot_run_is_skipped_and_not_passed(self) -> None:
        outcome = Outcome(STEP, 1, 0, "skipped: pynfs is missing\n")
        lines, are_good = files.table([outcome])
        self.assertTrue(are_good)
        self.assertIn("pynfs is missing", lines)
        self.assertTrue(lines.endswith("judges of files: 0 passed, 0 failed, 1 skipped"), lines)

    def test_a_judge_without_a_verdict_and_one_that_exits_with_an_error_have_failed(self) -> None:
        self.assertEqual(counts("nothing"), (0, 0, 1, 0))
        self.assertEqual(counts("skipped: half of it\n", 1), (0, 0, 1, 0))
        self.assertEqual(counts("crash of files: 10 rounds, 5000 changes, 0 lost", None), (5000, 0, 1, 0))
        lines, are_good = files.table([Outcome(STEP, 1, 1, "nothing"), Outcome(STEP, 1, 0, "mount: fsx 7 operations; 0 wrong")])
        self.assertFalse(are_good)
        self.assertTrue(lines.endswith("judges of files: 1 passed, 1 failed, 0 skipped"), lines)

    def test_no_part_of_the_proof_that_is_skipped_counts_as_passed(self) -> None:
        self.assertEqual(counts("skipped: needs root\nlinux initiator: 0 passed, 0 failed, 1 skipped\n"), (0, 0, 0, 1))
