"""The guest's kernel log is judged by its words: lost paths are expected where paths are cut, lost data never."""

import re
import tempfile
import unittest
from pathlib import Path

from proof.linux import kernel_log, root
from proof.linux.steps import fio_report
from proof.runtime import ProofError

LOGIN = """[   17.935556] sd 1:0:0:0: alua: transition timeout set to 60 seconds
[   18.100000] sd 0:0:0:0: Power-on or device reset occurred
[   18.200000] sd 0:0:0:0: [sda] Write Protect is off
"""
PATH_LOST = """[   90.1] connection1:0: detected conn error (1020)
[   95.1] session1: session recovery timed out after 5 secs
[   95.2] sd 0:0:0:0: rejecting I/O to offline device
[   95.3] device-mapper: multipath: 254:0: Failing path 8:16.
"""
DATA_LOST = "[  99.0] Buffer I/O error on dev dm-0, logical block 5, lost async page write\n"


class KernelLogTest(unittest.TestCase):
    def test_a_login_has_no_complaints(self) -> None:
        self.assertEqual(kernel_log.complaints(LOGIN), [])

    def test_a_lost_path_is_a_complaint_only_where_no_path_was_cut(self) -> None:
        self.assertEqual(kernel_log.complaints(PATH_LOST, kernel_log.PATH_LOST), [])
        self.assertEqual(len(kernel_log.complaints(PATH_LOST)), 4)

    def test_lost_data_is_never_expected(self) -> None:
        everything = re.compile("")
        self.assertEqual(kernel_log.complaints(DATA_LOST, everything), [DATA_LOST.strip()])


class FioReportTest(unittest.TestCase):
    def test_warnings_before_the_report_are_passed_over(self) -> None:
        self.assertEqual(fio_report('fio: warning\n{"jobs": [{"error": 0, "jobname": "proof"}]}')["jobname"], "proof")

    def test_an_error_of_the_job_fails(self) -> None:
        with self.assertRaises(ProofError):
            fio_report('{"jobs": [{"error": 5}]}')

    def test_no_report_fails(self) -> None:
        with self.assertRaises(ProofError):
            fio_report("fio: error while loading shared libraries")


class RootTest(unittest.TestCase):
    def test_our_files_carry_settings_that_differ_from_none(self) -> None:
        for name in ("init", "agent", "multipath.conf", "iscsid.conf"):
            self.assertTrue((root.GUEST / name).read_text().strip(), name)

    def test_modules_are_named_as_the_kernel_names_them(self) -> None:
        self.assertEqual(root._module_name("kernel/drivers/md/dm-multipath.ko.xz"), "dm_multipath")

    def test_what_is_left_out_is_removed_and_the_rest_stays(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name)
            for file in ("usr/share/doc/x", "usr/bin/perl5.36", "usr/bin/fio"):
                (path / file).parent.mkdir(parents=True, exist_ok=True)
                (path / file).touch()
            root._leave_out(path)
            left = sorted(file.name for file in path.rglob("*") if file.is_file())
            self.assertEqual(left, ["fio"])


if __name__ == "__main__":
    unittest.main()
