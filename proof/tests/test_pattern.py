"""The pattern identifies each sector's write, and detects every tear."""

import unittest

from proof import pattern


class PatternTest(unittest.TestCase):
    def test_each_sector_names_its_write(self) -> None:
        data = pattern.sectors(tag=9, sequence=70_000, start=100, count=3)
        self.assertEqual(pattern.read_back(9, 100, data), [70_000] * 3)

    def test_zeroes_are_sequence_zero(self) -> None:
        self.assertEqual(pattern.read_back(9, 100, bytes(1024)), [0, 0])

    def test_a_sector_at_a_foreign_place_is_torn(self) -> None:
        data = pattern.sectors(9, 5, 100, 1)
        self.assertEqual(pattern.read_back(9, 101, data), [pattern.TORN])

    def test_another_volume_s_sector_is_torn(self) -> None:
        data = pattern.sectors(9, 5, 100, 1)
        self.assertEqual(pattern.read_back(8, 100, data), [pattern.TORN])

    def test_a_tear_at_any_eight_byte_boundary_is_found(self) -> None:
        old = pattern.sectors(9, 5, 100, 1)
        new = pattern.sectors(9, 6, 100, 1)
        for boundary in range(8, pattern.SECTOR, 8):
            with self.subTest(boundary=boundary):
                mixed = new[:boundary] + old[boundary:]
                self.assertEqual(pattern.read_back(9, 100, mixed), [pattern.TORN])

    def test_a_flipped_bit_is_found(self) -> None:
        data = pattern.sectors(9, 5, 100, 1)
        data[300] ^= 1
        self.assertEqual(pattern.read_back(9, 100, data), [pattern.TORN])


if __name__ == "__main__":
    unittest.main()
