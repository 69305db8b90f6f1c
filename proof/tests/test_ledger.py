"""The judge of the crash proof must detect failures: each kind of broken promise has a test here."""

import unittest

from proof.ledger import Kind, Ledger, Operation
from proof.pattern import TORN

COUNT = 64


class LedgerTest(unittest.TestCase):
    def setUp(self) -> None:
        self.ledger = Ledger("v", COUNT)

    def write(self, start: int, count: int, *, answered: bool = True, forced: bool = False) -> Operation:
        operation = self.ledger.issue(Kind.WRITE, start, count)
        if answered:
            self.ledger.answer(operation, forced)
        return operation

    def verdicts(self, start: int, found: list[int]) -> list[str]:
        return [violation.kind for violation in self.ledger.judge(start, found)]

    def test_forced_write_that_is_not_there_is_lost(self) -> None:
        self.write(0, 1, forced=True)
        self.assertEqual(self.verdicts(0, [0]), ["lost"])

    def test_forced_write_that_is_there_is_good(self) -> None:
        operation = self.write(0, 1, forced=True)
        self.assertEqual(self.verdicts(0, [operation.sequence]), [])

    def test_unflushed_write_may_be_old_or_new(self) -> None:
        operation = self.write(0, 2)
        self.assertEqual(self.verdicts(0, [0, operation.sequence]), [])

    def test_flushed_write_that_is_not_there_is_lost(self) -> None:
        self.write(0, 1)
        self.ledger.flush_answered(self.ledger.flush_issued())
        self.assertEqual(self.verdicts(0, [0]), ["lost"])

    def test_flush_covers_only_writes_answered_before_it_was_sent(self) -> None:
        operation = self.write(0, 1, answered=False)
        flush = self.ledger.flush_issued()
        self.ledger.answer(operation, False)
        self.ledger.flush_answered(flush)
        self.assertEqual(self.verdicts(0, [0]), [])

    def test_unanswered_flush_covers_nothing(self) -> None:
        self.write(0, 1)
        self.ledger.flush_issued()
        self.assertEqual(self.verdicts(0, [0]), [])

    def test_synchronous_volume_makes_every_answer_durable(self) -> None:
        self.ledger = Ledger("v", COUNT, synchronous=True)
        self.write(0, 1)
        self.assertEqual(self.verdicts(0, [0]), ["lost"])

    def test_unflushed_write_must_not_come_back_over_a_newer_durable_one(self) -> None:
        older = self.write(0, 1)
        self.write(0, 1, forced=True)
        self.assertEqual(self.verdicts(0, [older.sequence]), ["lost"])

    def test_concurrent_writes_may_land_in_either_order(self) -> None:
        first = self.ledger.issue(Kind.WRITE, 0, 1)
        second = self.ledger.issue(Kind.WRITE, 0, 1)
        self.ledger.answer(second, True)
        self.ledger.answer(first, True)
        self.assertEqual(self.verdicts(0, [first.sequence]), [])

    def test_durable_zeroes_that_show_the_old_write_are_lost(self) -> None:
        operation = self.write(0, 1, forced=True)
        zero = self.ledger.issue(Kind.ZERO, 0, 1)
        self.ledger.answer(zero, True)
        self.assertEqual(self.verdicts(0, [operation.sequence]), ["lost"])

    def test_discard_may_keep_or_drop(self) -> None:
        for shown_again in (True, False):
            self.setUp()
            operation = self.write(0, 1, forced=True)
            self.ledger.answer(self.ledger.issue(Kind.DISCARD, 0, 1), True)
            self.assertEqual(self.verdicts(0, [operation.sequence if shown_again else 0]), [])

    def test_durable_write_after_a_discard_stays(self) -> None:
        self.ledger.answer(self.ledger.issue(Kind.DISCARD, 0, 1), True)
        self.write(0, 1, forced=True)
        self.assertEqual(self.verdicts(0, [0]), ["lost"])

    def test_torn_sector_is_torn_even_when_unflushed(self) -> None:
        self.write(0, 1)
        self.assertEqual(self.verdicts(0, [TORN]), ["torn"])

    def test_acknowledged_write_must_not_show_in_part_of_a_block(self) -> None:
        operation = self.write(0, 8)
        shown = [operation.sequence] * 4 + [0] * 4
        self.assertEqual(self.verdicts(0, shown), ["torn"] * 4)

    def test_unacknowledged_write_may_show_in_part_of_a_block(self) -> None:
        operation = self.write(0, 8, answered=False)
        self.assertEqual(self.verdicts(0, [operation.sequence] * 4 + [0] * 4), [])

    def test_part_of_a_block_may_be_overwritten_later(self) -> None:
        whole = self.write(0, 8, forced=True)
        part = self.write(2, 2)
        shown = [whole.sequence] * 2 + [part.sequence] * 2 + [whole.sequence] * 4
        self.assertEqual(self.verdicts(0, shown), [])

    def test_untouched_sector_that_changed_is_lost(self) -> None:
        operation = self.write(0, 1, forced=True)
        self.assertEqual(self.verdicts(0, [operation.sequence]), [])
        self.assertEqual(self.verdicts(0, [0]), ["lost"])

    def test_what_was_seen_after_a_crash_must_stay(self) -> None:
        operation = self.write(0, 1)
        self.assertEqual(self.verdicts(0, [operation.sequence]), [])
        self.assertEqual(self.verdicts(0, [0]), ["lost"])

    def test_read_that_misses_an_answered_write_is_stale(self) -> None:
        self.write(0, 1)
        read = self.ledger.read_issued(0)
        self.assertEqual([v.kind for v in self.ledger.judge_live(read, [0])], ["stale"])

    def test_read_may_miss_what_may_be_lost_and_nothing_else(self) -> None:
        kept, lost = self.write(0, 1), self.write(0, 1)
        read = self.ledger.read_issued(0)
        for shown, kinds in ((kept.sequence, []), (lost.sequence, []), (0, ["stale"])):
            found = self.ledger.judge_live(read, [shown], lambda operation: operation is lost)
            self.assertEqual([violation.kind for violation in found], kinds)

    def test_read_beside_a_write_may_show_either(self) -> None:
        read = self.ledger.read_issued(0)
        operation = self.write(0, 1)
        self.assertEqual(self.ledger.judge_live(read, [0]), [])
        self.assertEqual(self.ledger.judge_live(read, [operation.sequence]), [])


if __name__ == "__main__":
    unittest.main()
