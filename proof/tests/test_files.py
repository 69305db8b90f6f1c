"""The judge of files after a crash: permitted effects of the log pass, and other ones are found."""

import unittest

from proof.files.judge import ATOMIC_BYTES, Judge
from proof.files.model import Change, Model

TOKEN, OTHER = "a" * 16, "b" * 16


def made(*changes: Change) -> Model:
    model = Model()
    for change in changes:
        model.perform(change)
    return model


FILE = Change(("make", "file", b"/file", "644", 0, 0))
SECOND = Change(("make", "file", b"/second", "644", 0, 0))
LONG = Change(("write", b"/file", 0, ATOMIC_BYTES + 1, TOKEN))
SHORT = Change(("write", b"/file", 0, ATOMIC_BYTES, TOKEN))


class JudgeTest(unittest.TestCase):
    def place(self, since: list[Change], after: Model, by_kernel: bool = False) -> int | None:
        """Returns the number of changes that the judge finds; none: no possible state matches."""

        def read(path: str, size: int) -> bytes:
            return bytes(after.objects[after.paths()[path]].data[:size])

        model, number, _ = Judge(Model(), since, after.tree(), read, by_kernel).place()
        return number if model else None

    def test_each_state_on_the_way_is_found(self) -> None:
        since = [FILE, LONG, SECOND]
        for number in range(len(since) + 1):
            self.assertEqual(self.place(since, made(*since[:number])), number)

    def test_a_later_name_without_an_earlier_one_is_wrong(self) -> None:
        self.assertIsNone(self.place([FILE, SECOND], made(SECOND)))

    def test_what_nobody_has_given_is_wrong(self) -> None:
        self.assertIsNone(self.place([FILE], made(FILE, SECOND)))
        self.assertIsNone(self.place([FILE], made(FILE, Change(("write", b"/file", 0, 5, TOKEN)))))

    def test_only_a_kernel_may_leave_a_long_write_in_part(self) -> None:
        part = made(FILE, Change(("write", b"/file", 0, 1000, TOKEN)))
        self.assertIsNone(self.place([FILE, LONG], part))
        self.assertEqual(self.place([FILE, LONG], part, by_kernel=True), 1)
        self.assertIsNone(self.place([FILE, SHORT], part, by_kernel=True))
        self.assertIsNone(self.place([FILE, LONG, SECOND], made(FILE, Change(("write", b"/file", 0, 1000, TOKEN)), SECOND), by_kernel=True))

    def test_a_record_may_have_the_bytes_of_a_later_write_and_no_others(self) -> None:
        later = Change(("write", b"/file", 16, 32, OTHER))
        self.assertEqual(self.place([FILE, LONG, later], made(FILE, LONG, later)), 2)
        found = made(FILE, LONG, Change(("write", b"/file", 16, 32, "c" * 16)))
        self.assertIsNone(self.place([FILE, LONG, later], found))

    def test_contents_of_what_is_gone_later_may_be_missing(self) -> None:
        gone = Change(("remove", b"/file"))
        self.assertEqual(self.place([FILE, SHORT, SECOND, gone], made(FILE, SECOND)), 3)
        self.assertIsNone(self.place([FILE, SHORT, SECOND], made(FILE, SECOND)))
