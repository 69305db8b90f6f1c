"""The parser of the suite's report, tested with the output of Debian's tool."""

import unittest

from proof.conformance.iscsi_test_cu import Result, Verdict, parse, why_accepted

REPORT = """
Suite: Unmap
  Test: Simple ...passed
  Test: VPD ...    [SKIPPED] Logical unit is fully provisioned. Skipping test
passed
  Test: ZeroBlocks ...    [FAILED] UNMAP command failed with status 2
FAILED
    1. test_unmap_0blocks.c:80  - CU_ASSERT_EQUAL(_r,0)
  Test: Single ...FAILED
    1. test_single.c:135  - CU_FAIL("[FAILED] GETLBASTATUS command")
  Test: LUNReset ...passed    [FAILED] PRIN command: failed with sense.

  Test: Hangs ..."""


class ParseTest(unittest.TestCase):
    def setUp(self) -> None:
        self.results = {result.name: result for result in parse("Unmap", REPORT)}

    def test_a_pass_is_a_pass(self) -> None:
        self.assertEqual(self.results["Unmap.Simple"].verdict, Verdict.PASSED)

    def test_a_skip_that_the_tool_calls_passed_is_a_skip(self) -> None:
        self.assertEqual(self.results["Unmap.VPD"].verdict, Verdict.SKIPPED)
        self.assertIn("fully provisioned", self.results["Unmap.VPD"].words)

    def test_failures_are_failures_with_their_words(self) -> None:
        self.assertEqual(self.results["Unmap.ZeroBlocks"].verdict, Verdict.FAILED)
        self.assertIn("UNMAP command failed", self.results["Unmap.ZeroBlocks"].words)
        self.assertEqual(self.results["Unmap.Single"].verdict, Verdict.FAILED)

    def test_complaints_of_the_clean_up_behind_a_pass_do_not_fail_it(self) -> None:
        self.assertEqual(self.results["Unmap.LUNReset"].verdict, Verdict.PASSED)

    def test_a_test_without_a_verdict_failed(self) -> None:
        self.assertEqual(self.results["Unmap.Hangs"].verdict, Verdict.FAILED)

    def test_only_listed_skips_are_accepted(self) -> None:
        atomic = Result("WriteAtomic16.Simple", Verdict.SKIPPED, "WRITEATOMIC16 is not implemented.")
        self.assertIsNotNone(why_accepted(atomic))
        unmap = Result("Unmap.Simple", Verdict.SKIPPED, "Logical unit is fully provisioned. Skipping test")
        self.assertIsNone(why_accepted(unmap))


if __name__ == "__main__":
    unittest.main()
