"""The history of writes finds what was lost, what is older than it may be, and what is torn."""

import unittest

from proof.legs.history import BLOCK_BYTES, History


class HistoryTest(unittest.TestCase):
    def setUp(self) -> None:
        self.history = History()
        first, self.old = self.history.begin(3)
        self.history.acknowledge(3, first)

    def test_what_was_acknowledged_is_right(self) -> None:
        self.assertIsNone(self.history.judge(3, self.old))

    def test_a_lost_write_is_found(self) -> None:
        wrong = self.history.judge(3, bytes(BLOCK_BYTES))
        self.assertEqual(wrong, "block 3 holds write 0; write 1 was acknowledged")

    def test_an_older_write_is_found(self) -> None:
        second, _ = self.history.begin(3)
        self.history.acknowledge(3, second)
        self.assertIsNotNone(self.history.judge(3, self.old))

    def test_a_write_that_was_not_acknowledged_may_be_there_or_not(self) -> None:
        _, new = self.history.begin(3)
        self.assertIsNone(self.history.judge(3, self.old))
        _, newer = self.history.begin(3)
        self.assertIsNone(self.history.judge(3, newer))
        self.assertIsNotNone(self.history.judge(3, new), "what was read durably has to stay")

    def test_a_torn_sector_is_found(self) -> None:
        _, new = self.history.begin(3)
        wrong = self.history.judge(3, new[:8] + self.old[8:])
        self.assertIn("a torn sector", wrong or "")

    def test_the_contents_of_another_block_are_found(self) -> None:
        self.assertIn("a torn sector", self.history.judge(4, self.old) or "")


if __name__ == "__main__":
    unittest.main()
