"""The history of writes detects lost, too old and torn blocks; the records decide which heads may open a pool."""

from __future__ import annotations

import struct
import unittest

from proof.legs import faults, record
from proof.legs.history import BLOCK_BYTES, History
from proof.legs.machines import SHAPES
from proof.legs.proof import Tally, _returns, verdict
from proof.legs.record import Group, Memory, Record
from proof.runtime import ProofError


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
        self.assertIsNotNone(self.history.judge(3, new), "data that was read durably must stay")

    def test_a_torn_sector_is_found(self) -> None:
        _, new = self.history.begin(3)
        wrong = self.history.judge(3, new[:8] + self.old[8:])
        self.assertIn("a torn sector", wrong or "")

    def test_the_contents_of_another_block_are_found(self) -> None:
        self.assertIn("a torn sector", self.history.judge(4, self.old) or "")


if __name__ == "__main__":
    unittest.main()


def _session(epoch: int) -> bytes:
    return struct.pack("<QQI", epoch, 99, 1)


def _memory(committed: tuple[int, int], version: tuple[int, int], owner: int | None, current: list[int], stale: list[int]) -> bytes:
    """A file as docs/formats/leg-record.md describes it."""
    body = struct.pack("<QQ", 9, 99) + struct.pack("<QQ", *committed) + struct.pack("<QB", 0, 1)
    body += struct.pack("<QQQQ", 77, version[0], 99, version[1]) + struct.pack("<BQ", owner is not None, owner or 0)
    body += struct.pack("<I", len(current)) + b"".join(struct.pack("<Q", disk) + _session(1) for disk in current)
    entry = struct.pack("<Q", 5) + _session(1) + _session(2) + struct.pack("<QB", 6, 0)
    body += struct.pack("<I", len(stale)) + b"".join(struct.pack("<Q", disk) + entry for disk in stale)
    body += struct.pack("<I", 0)
    # A member that lost its memory.
    body += struct.pack("<IQQ", 1, 2, 5)
    return b"BULKLEGS" + struct.pack("<III", 2, len(body), 0) + body


class RecordTest(unittest.TestCase):
    def test_a_members_file_is_read(self) -> None:
        memory = record.decode(_memory((3, 1), (3, 2), 1, [11, 12], [21]))
        self.assertEqual(memory.committed, (3, 1))
        self.assertEqual(memory.accepted, Record((3, 2), 1, frozenset({11, 12}), frozenset({21})))

    def test_a_file_whose_record_names_its_members_is_read(self) -> None:
        before = _memory((3, 1), (3, 2), 1, [11, 12], [21])
        body = before[20:] + struct.pack("<BQQQ", 3, 1, 2, 3)
        memory = record.decode(before[:8] + struct.pack("<III", 3, len(body), 0) + body)
        self.assertEqual(memory.accepted, Record((3, 2), 1, frozenset({11, 12}), frozenset({21})))

    def test_a_file_that_is_longer_than_it_says_is_refused(self) -> None:
        data = _memory((3, 1), (3, 2), None, [11], []) + b"\0"
        self.assertRaises(ProofError, record.decode, data)

    def test_what_a_member_accepted_before_the_newest_commit_counts_no_more(self) -> None:
        old, new, newer = (Record((3, sequence), 1, frozenset({sequence}), frozenset()) for sequence in (1, 2, 3))
        memories = [Memory((3, 1), old), None, Memory((3, 2), new), Memory((3, 1), newer)]
        self.assertEqual(record.possible(memories), [new, newer])

    def test_what_two_members_have_is_committed_before_they_know_it(self) -> None:
        old, new = (Record((3, sequence), 1, frozenset({sequence}), frozenset()) for sequence in (1, 2))
        memories = [Memory((3, 1), new), Memory((3, 1), old), Memory((3, 1), new)]
        self.assertEqual(record.possible(memories), [new])
        self.assertEqual(record.possible(memories[:2]), [old, new])

    def test_each_group_needs_as_many_disks_as_it_says(self) -> None:
        groups = [Group(1, {11: "a", 21: "b"}), Group(2, {12: "a", 22: "b", 32: "c"})]
        self.assertTrue(record.is_readable(groups, [21, 12, 32]))
        self.assertFalse(record.is_readable(groups, [21, 11, 12]))
        self.assertFalse(record.is_readable(groups, [12, 22, 32]))


class FaultsTest(unittest.TestCase):
    def test_each_kind_has_a_name_of_its_own_and_machines_that_exist(self) -> None:
        names = [kind.name for kind in faults.KINDS]
        self.assertEqual(len(names), len(set(names)))
        for kind in faults.KINDS:
            self.assertLessEqual(set(kind.shapes), set(SHAPES), kind.name)

    def test_all_machines_lose_processes_networks_and_disks(self) -> None:
        for shape in SHAPES:
            names = {kind.name for kind in faults.of_shape(shape)}
            self.assertLessEqual({"server killed", "owner alone", "own disk fails", "stale head alone", "moved"}, names)


class TallyTest(unittest.TestCase):
    def test_the_verdict_sums_up_all_machines(self) -> None:
        one, other = Tally(rounds=2, acknowledged=10, opens=1), Tally(rounds=3, acknowledged=5, complaints=["lost"])
        one.faults["moved"] += 2
        other.refused["stale"] += 4
        self.assertEqual(verdict([one, other]), "legs: 5 rounds, 2 faults, 15 acknowledged writes, 1 opens, 4 refusals, 1 wrong")

    def test_the_leg_that_came_back_most_often_counts(self) -> None:
        records = [{"a", "b"}, {"a"}, {"a", "b"}, {"b"}, {"a", "b"}, {"a"}, {"a", "b"}]
        self.assertEqual(_returns(records), 2)
        self.assertEqual(_returns([]), 0)
