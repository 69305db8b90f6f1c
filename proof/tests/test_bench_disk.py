"""The counters of the kernel and of fio, and the choice of points, without a disk measurement."""

import json
import os
import tempfile
import unittest
from pathlib import Path

from proof.bench.counters import FioResult, Traffic, cached_bytes, drop_cached, parse_fio, parse_io, size_of
from proof.bench.disk import DiskComparison, DiskSeries, sample_of
from proof.bench.scaling import lock_share
from proof.bench.disk_points import DISK_POINTS, Work, chosen, require_known
from proof.runtime import ProofError

IO = "rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1024\n"


def _direction(operations: int, size: int, runtime: int, p99: int) -> dict[str, object]:
    percentile = {"percentile": {"50.000000": 1, "99.000000": p99}} if operations else {}
    return {"total_ios": operations, "io_bytes": size, "runtime": runtime, "clat_ns": percentile}


def _fio(read: dict[str, object], write: dict[str, object], error: int = 0) -> str:
    return json.dumps({"jobs": [{"error": error, "read": read, "write": write}]})


NOTHING = _direction(0, 0, 0, 0)

PERF = """# Overhead  Symbol
    40.00%  [.] dbuf_find
     6.00%  [.] pthread_mutex_lock@@GLIBC_2.2.5
     2.00%  [k] native_queued_spin_lock_slowpath
     2.00%  [k] futex_wake
"""


class LocksTest(unittest.TestCase):
    def test_locks_are_counted_in_the_program_and_in_the_kernel(self) -> None:
        self.assertAlmostEqual(lock_share(PERF), 0.2)

    def test_a_report_without_samples_is_no_zero(self) -> None:
        with self.assertRaises(ProofError):
            lock_share("# nothing\n")


class CountersTest(unittest.TestCase):
    def test_what_was_taken_back_before_it_reached_the_disk_is_not_written(self) -> None:
        self.assertEqual(parse_io(IO), Traffic(4096, 7168))
        self.assertEqual(parse_io(IO) - Traffic(96, 168), Traffic(4000, 7000))

    def test_a_kernel_that_does_not_count_is_named(self) -> None:
        with self.assertRaisesRegex(ProofError, "read_bytes"):
            parse_io("rchar: 9\n")

    def test_fio_warnings_before_its_json_are_no_figures(self) -> None:
        told = "fio: time_based needs a runtime\n" + _fio(_direction(500, 2048000, 2000, 900_000), NOTHING)
        self.assertEqual(parse_fio(told), FioResult(500, 2048000, 0, 2.0, 900.0))

    def test_both_directions_of_a_mixed_load_count_and_the_tail_is_that_of_reads(self) -> None:
        told = _fio(_direction(70, 7000, 1000, 5000), _direction(30, 3000, 1001, 1))
        self.assertEqual(parse_fio(told), FioResult(100, 7000, 3000, 1.001, 5.0))

    def test_a_load_that_failed_or_did_nothing_is_no_measurement(self) -> None:
        for told in ("fio: no such engine", _fio(NOTHING, NOTHING), _fio(_direction(1, 1, 1, 1), NOTHING, error=5)):
            with self.assertRaises(ProofError):
                parse_fio(told)

    def test_the_page_cache_of_a_file_is_counted_and_dropped(self) -> None:
        # On a real disk: files in memory file systems are page cache only.
        with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
            file = Path(folder) / "data"
            file.write_bytes(os.urandom(1 << 20))
            self.assertEqual(size_of(file), 1 << 20)
            self.assertEqual(cached_bytes(file), 1 << 20)
            drop_cached(file)
            self.assertEqual(cached_bytes(file), 0)
            empty = Path(folder) / "empty"
            empty.touch()
            self.assertEqual(cached_bytes(empty), 0)


class PointsTest(unittest.TestCase):
    def test_points_are_chosen_by_parts_of_their_names(self) -> None:
        names = [point.name for point in chosen("fill-16k,128k-read")]
        self.assertEqual(names, ["disk-fill-16k-blocks", "disk-128k-read-qd8"])
        self.assertEqual(chosen(None), list(DISK_POINTS))
        self.assertEqual(chosen("4k-sync"), [])

    def test_a_misspelt_point_is_refused_with_those_that_exist(self) -> None:
        names = [point.name for point in DISK_POINTS]
        require_known("disk-fill,128k", names)
        require_known(None, names)
        with self.assertRaisesRegex(ProofError, "no point is called flil; .*disk-fill-4k-blocks"):
            require_known("disk,flil", names)

    def test_every_volume_can_be_filled_before_it_is_read(self) -> None:
        filled = set()
        for point in DISK_POINTS:
            if point.first:
                filled.add(point.volume)
            self.assertIn(point.volume, filled, point.name)

    def test_a_fill_ends_with_a_flush_and_the_others_with_their_time(self) -> None:
        for point in DISK_POINTS:
            words = point.fio_words(1 << 30, 3, 7)
            self.assertEqual("--end_fsync=1" in words, point.work is Work.FILL, point.name)
            self.assertEqual("--time_based" in words, point.work is not Work.FILL, point.name)
            self.assertEqual("--rwmixread=70" in words, point.work is Work.MIXED, point.name)


class FiguresTest(unittest.TestCase):
    def test_figures_are_by_operation_and_by_byte_of_the_client(self) -> None:
        sample = sample_of(FioResult(1000, 3_000_000, 1_000_000, 2.0, 50.0), 0.1, Traffic(6_000_000, 2_000_000), 3 << 20)
        self.assertEqual((sample.operations_per_second, sample.megabytes_per_second), (500.0, 2.0))
        self.assertEqual((sample.disk_share, sample.page_cache_mib), (2.0, 3.0))
        assert sample.cpu_us_per_operation is not None
        self.assertAlmostEqual(sample.cpu_us_per_operation, 100.0)
        self.assertIsNone(sample_of(FioResult(1, 1, 0, 1.0, None), None, Traffic(0, 0), 0).cpu_us_per_operation)

    def test_the_share_of_the_bare_disk_is_taken_within_a_repetition(self) -> None:
        comparison = DiskComparison([], 0, 0)
        for server, speeds in (("raw", (10, 20, 40)), ("bulkhead", (5, 20, 10))):
            series = DiskSeries("file", server, "disk-4k-read-qd1")
            series.samples = [sample_of(FioResult(1, speed, 0, 1.0, None), None, Traffic(0, 0), 0) for speed in speeds]
            comparison.series["file", server, "disk-4k-read-qd1"] = series
        self.assertEqual(comparison.of_raw(comparison.series["file", "bulkhead", "disk-4k-read-qd1"]), 0.5)
        self.assertIsNone(comparison.of_raw(DiskSeries("loop", "bulkhead", "disk-4k-read-qd1")))
