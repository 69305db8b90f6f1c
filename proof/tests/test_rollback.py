"""The rollback proof detects contents that are a mix of old and new."""

import unittest

from proof.rollback.cells import Cells


def cells() -> Cells:
    """Returns three cells that the snapshot has as 1, 2, 3; the first two were written before the rollback started,
    at 10."""
    made = Cells(1, 3)
    made.sequence = 3
    made.now = [1, 2, 3]
    for cell in (0, 1):
        write, _ = made.begin(cell, asked=5)
        write.answered = 6
    return made


class CellsTest(unittest.TestCase):
    def test_old_and_new_contents_are_told_apart(self) -> None:
        self.assertEqual(cells().wrong_if_kept([4, 5, 3], 10), [])
        self.assertEqual(cells().wrong_if_gone([1, 2, 3], 10, 20), [])

    def test_a_mix_is_neither(self) -> None:
        self.assertEqual(cells().wrong_if_kept([4, 2, 3], 10), [1])
        self.assertEqual(cells().wrong_if_gone([4, 2, 3], 10, 20), [0])

    def test_a_write_during_the_rollback_may_be_kept_or_gone(self) -> None:
        made = cells()
        write, _ = made.begin(2, asked=11)
        write.answered = 12
        self.assertEqual(made.wrong_if_gone([1, 2, 6], 10, 20), [])
        self.assertEqual(made.wrong_if_gone([1, 2, 3], 10, 20), [])

    def test_a_write_after_the_rollback_must_be_kept(self) -> None:
        made = cells()
        write, _ = made.begin(2, asked=21)
        write.answered = 22
        self.assertEqual(made.wrong_if_gone([1, 2, 3], 10, 20), [2])
        self.assertEqual(made.wrong_if_gone([1, 2, 6], 10, 20), [])


if __name__ == "__main__":
    unittest.main()
