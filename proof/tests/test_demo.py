"""The demo's interpretation of the drills' output."""

from __future__ import annotations

import contextlib
import io
import unittest

from proof.demo import _judge, _tell_line
from proof.runtime import ProofError
from proof.story import Story

LINE = (
    "active-power (seed 7): left loses its power; pause 1.55 s, detected 0.19, fence asked 0.44, fenced 0.80, "
    "pool start 0.82, imported 1.20, listening 1.21, address 1.40, first I/O 1.46, all addresses 1.47"
)


def _round(**changes: object) -> dict[str, object]:
    return {"broken": [], "errors": [], "violations": [], "double_imports": [], "acknowledged": 9, **changes}


class Telling(unittest.TestCase):
    """Lines become steps of the story."""

    def _told(self, *lines: str) -> tuple[str, Story]:
        story = Story()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for line in lines:
                _tell_line(story, line)
        return printed.getvalue(), story

    def test_a_round_is_told_with_its_pause_and_every_step(self) -> None:
        printed, story = self._told(LINE)
        self.assertEqual(story.found, ["the power of the serving head pulled: I/O paused for 1.55 s and went on"])
        for part in ("0.44 s", "powered off", "1.46 s", "a response again", "left loses its power"):
            self.assertIn(part, printed)

    def test_a_round_without_a_time_line_is_told(self) -> None:
        _, story = self._told("move (seed 7): the pool is moved from left to right; pause 0.31 s")
        self.assertEqual(len(story.found), 1)

    def test_files_that_are_written_are_no_part_of_the_story(self) -> None:
        printed, _ = self._told("left: write /etc/corosync/corosync.conf (new, 65 lines)", "seed 7")
        self.assertEqual(printed, "")


class Verdict(unittest.TestCase):
    """The result of the drills decides."""

    def test_a_broken_promise_fails_the_demo(self) -> None:
        with self.assertRaisesRegex(ProofError, "a pause of 40"):
            _judge(Story(), [_round(), _round(broken=["a pause of 40 s; at most 30 s are promised"])])

    def test_good_rounds_are_counted_once(self) -> None:
        story = Story()
        with contextlib.redirect_stdout(io.StringIO()):
            _judge(story, [_round(acknowledged=100), _round(acknowledged=300)])
        self.assertIn("300 acknowledged writes read back: 0 lost", story.found[0])


if __name__ == "__main__":
    unittest.main()
