"""zdb's output is judged by its wording: progress lines are no complaints, its complaints are."""

import unittest

from proof.process import Outcome
from proof.servers.bulkhead import zdb_findings

GOOD = """loading concrete vdev 0, metaslab 14 of 15 ...
Traversing all blocks to verify checksums and verify nothing leaked ...

\tNo leaks (block sum matches space maps exactly)

\tbp count:                    58
"""

BAD_BLOCK = GOOD + """zdb_blkptr_cb: Got error 52 reading <68, 1, 0, 3>  -- skipping
Error counts:

\terrno  count
\t   52  1
"""

LEAK = """Traversing all blocks to verify checksums and verify nothing leaked ...
leaked space: vdev 0, offset 0x4000000, size 131072
block traversal size 385024 != alloc 516096 (leaked 131072)
"""


class ZdbTest(unittest.TestCase):
    def findings(self, text: str, status: int | None = 0) -> str:
        return zdb_findings(Outcome(status, text, 1.0))

    def test_a_sound_pool_has_no_findings(self) -> None:
        self.assertEqual(self.findings(GOOD), "")

    def test_an_unreadable_block_is_found(self) -> None:
        self.assertIn("Got error 52", self.findings(BAD_BLOCK))

    def test_leaked_space_is_found(self) -> None:
        self.assertIn("leaked space", self.findings(LEAK))

    def test_a_failed_zdb_is_a_finding(self) -> None:
        self.assertIn("exited with 1", self.findings(GOOD, status=1))
        self.assertIn("exited with None", self.findings(GOOD, status=None))

    def test_silence_is_a_finding(self) -> None:
        self.assertNotEqual(self.findings(""), "")


if __name__ == "__main__":
    unittest.main()
