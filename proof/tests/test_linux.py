"""The guest's kernel log is judged by patterns: lost paths are expected where paths are cut, lost data never."""

import contextlib
import io
import os
import random
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from proof.files.model import Change, Model
from proof.linux import filebench, judges, kernel_log, machine, root
from proof.linux.many_logs import CLONED_BYTES, KernelChanges, LoggedLane, _lines, _overwritten, _source
from proof.linux.steps import fio_report
from proof.mount.judges import pjdfstest_findings
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
WAITED = """[  734.4] ------------[ cut here ]------------
[  734.4] workqueue: WQ_MEM_RECLAIM queue_1:2:some_work [module] is flushing !WQ_MEM_RECLAIM events:other_work
[  734.4] WARNING: CPU: 0 PID: 24 at kernel/workqueue.c:2635 check_flush_dependency.part.0+0xb4/0x100
[  734.5] Call Trace:
[  734.5]  __flush_work+0x92/0x1f0
[  734.5]  {}
[  734.6] ---[ end trace 0000000000000000 ]---
"""


class KernelLogTest(unittest.TestCase):
    def test_a_login_has_no_complaints(self) -> None:
        self.assertEqual(kernel_log.judge(LOGIN), kernel_log.Judgement([], []))

    def test_a_lost_path_is_a_complaint_only_where_no_path_was_cut(self) -> None:
        self.assertEqual(kernel_log.judge(PATH_LOST, kernel_log.PATH_LOST).complaints, [])
        self.assertEqual(len(kernel_log.judge(PATH_LOST).complaints), 4)

    def test_lost_data_is_never_expected(self) -> None:
        everything = re.compile("")
        self.assertEqual(kernel_log.judge(DATA_LOST, everything).complaints, [DATA_LOST.strip()])

    def test_a_cancel_that_the_kernel_takes_for_a_wait_is_known_and_told_in_full(self) -> None:
        report = WAITED.format("__cancel_work_timer+0x1a0/0x220")
        found = kernel_log.judge(LOGIN + report + LOGIN)
        self.assertEqual(found, kernel_log.Judgement([], [report.strip()]))

    def test_a_real_wait_of_the_same_kind_is_a_complaint_in_full(self) -> None:
        report = WAITED.format("flush_workqueue+0x1a0/0x220")
        self.assertEqual(kernel_log.judge(report), kernel_log.Judgement([report.strip()], []))

    def test_any_other_report_of_the_kernel_is_a_complaint_even_where_trouble_is_expected(self) -> None:
        report = "[ 1.0] ---[ cut here ]---\n[ 1.0] refcount_t: underflow; use-after-free.\n[ 1.1] ---[ end trace 0 ]---"
        self.assertEqual(kernel_log.judge(report, re.compile("")).complaints, [report])


class _Qemu:
    """A substitute for qemu: connects to the agent's socket, and a guest is up only by emulation."""

    SCRIPT = """#!/usr/bin/python3
import re, socket, sys, time
words = " ".join(sys.argv)
agent = socket.socket(socket.AF_UNIX)
agent.connect(re.search(r"path=([^ ,]+)", words)[1])
if "-accel tcg" in words:
    agent.sendall(b"ready 6.0-stand-in\\n")
time.sleep(600)
"""

    def __init__(self, folder: Path):
        program = folder / "qemu-system-x86_64"
        program.write_text(self.SCRIPT)
        program.chmod(0o755)
        self.environment = {"PATH": f"{folder}:{os.environ['PATH']}"}


class MachineTest(unittest.TestCase):
    def test_a_guest_that_does_not_boot_by_kvm_is_emulated_and_later_ones_at_once(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            image = root.GuestImage(folder / "kernel", folder / "initramfs", "6.0")
            patches = (
                mock.patch.dict(os.environ, _Qemu(folder).environment),
                mock.patch.object(machine, "kvm_works", lambda: True),
                mock.patch.object(machine, "KVM_BOOT_SECONDS", 0.5),
                mock.patch.object(machine.Machine, "kvm_boots", True),
            )
            with contextlib.ExitStack() as stack:
                for patch in patches:
                    stack.enter_context(patch)
                told = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
                for words in ("started again by software emulation", ""):
                    told.truncate(told.seek(0))
                    guest = machine.Machine(folder, image, networks=())
                    stack.callback(guest.power_off)
                    guest.wait_booted()
                    self.assertEqual((guest.kind, guest.release), ("software emulation", "6.0-stand-in"))
                    self.assertIn(words, told.getvalue())
                    self.assertEqual(bool(words), bool(told.getvalue()))


class KernelChangesTest(unittest.TestCase):
    def test_what_a_kernel_would_refuse_or_do_otherwise_is_not_chosen(self) -> None:
        model = Model()
        changes = KernelChanges(model, random.Random(7))
        kinds = set()
        for _ in range(400):
            what, *words = changes.next().words
            kinds.add(what)
            if what == "make" and words[0] == "link":
                self.assertEqual(words[2], "777")
            for change in (changes._rename(), changes._link()):
                if change:
                    directory, _ = model.place(bytes(change.words[2]))
                    moved = model.objects[model.find(bytes(change.words[1]))]
                    self.assertTrue(not directory.inherits or directory.project == moved.project)
        self.assertEqual(kinds, set(KernelChanges.kinds) | {"remove-directory"})
        self.assertTrue(all(not each.mode & 0o6000 for each in model.objects.values()))

    def test_files_that_are_written_twice_end_with_the_second_write(self) -> None:
        lane = LoggedLane(0, random.Random(7))
        lines = _lines(lane, [*_source(), *_overwritten()])
        self.assertIn("usual/n0 clone /cloned-and-overwritten /cloned\n", lines)
        for name, size, rest in (("cut", 50_000, b"\0"), ("halved", 60_000, b"\0"), ("holed", CLONED_BYTES, b"f"), ("cloned", CLONED_BYTES, b"c")):
            data = lane.durable.objects[lane.durable.find(f"/{name}-and-overwritten".encode())].data
            self.assertEqual((len(data), data[10_000:50_000], data[65_000:]), (size, b"l" * 40_000, rest * max(size - 65_000, 0)))

    def test_what_is_made_belongs_to_the_project_of_a_directory_that_passes_it_on(self) -> None:
        model = Model()
        for words in (("make", "directory", b"/d", "755", 0, 0), ("project", b"/d", 7, 1), ("make", "file", b"/d/f", "644", 0, 0), ("make", "pipe", b"/d/p", "644", 0, 0)):
            model.perform(Change(words))
        self.assertEqual(model.projects(), {"/d": 7, "/d/f": 7})


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
    def test_our_files_are_there(self) -> None:
        for name in ("init", "agent"):
            self.assertTrue((root.GUEST / name).read_text().strip(), name)

    def test_the_guest_has_the_settings_of_the_guide(self) -> None:
        self.assertIn("no_path_retry queue", root.recommended(root.MULTIPATH_SETTINGS))
        self.assertIn("node.session.timeo.replacement_timeout = 5", root.recommended(root.ISCSI_SETTINGS))
        with self.assertRaises(ProofError):
            root.recommended("/etc/none.conf")

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


VARMAIL = """
set $dir=/tmp
set $nfiles=1000
define fileset name=mails,path=$dir,entries=$nfiles
run 60
"""
FILEBENCH_SAYS = """1.100: Running...
11.1: Run took 10 seconds...
deletefile1          9863ops     1965ops/s   0.0mb/s    0.929ms/op [0.020ms - 27.938ms]
11.1: IO Summary: 128159 ops 12550.014 ops/s 3930/3931 rd/wr  95.0mb/s 0.308ms/op
"""


class FilebenchTest(unittest.TestCase):
    def test_a_personality_gets_its_settings_and_waits_before_it_runs(self) -> None:
        lines = filebench.adapted(VARMAIL, {"nfiles": 5}).split("\n")
        self.assertIn("set $nfiles=5", lines)
        self.assertIn(f"set $dir={filebench.LOAD}", lines)
        self.assertNotIn("run 60", lines)
        self.assertLess(lines.index("create files"), lines.index(f"run {filebench.RUN_SECONDS}"))

    def test_a_setting_that_the_personality_does_not_have_is_refused(self) -> None:
        with self.assertRaises(ProofError):
            filebench.adapted(VARMAIL, {"nthreads": 5})

    def test_the_operations_are_those_of_all_kinds(self) -> None:
        self.assertEqual(filebench.result(FILEBENCH_SAYS), (128159, 12550.014))

    def test_a_run_that_ended_early_has_no_figure(self) -> None:
        for said in ("", "1.5: WARNING! Run stopped early:\n" + FILEBENCH_SAYS, FILEBENCH_SAYS.replace("128159", "0")):
            with self.assertRaises(ProofError):
                filebench.result(said)

    def test_ratios_are_of_one_round_each_and_what_was_not_measured_is_left_open(self) -> None:
        figures = filebench.Figures()
        for side, speeds in ((filebench.OURS, (1, 20, 9)), (filebench.GANESHA, (2, 10, 10))):
            figures.all += [filebench.Figure(side, "varmail", speed, speed * 2) for speed in speeds]
        figures.all.append(filebench.Figure(filebench.OURS, "webproxy", 7, 3))
        title, varmail, webproxy = (line.split() for line in figures.table().splitlines())
        self.assertEqual(varmail, ["varmail", "9", "10", "-", "0.90", "18.0", "20.0", "0.90"])
        self.assertEqual(webproxy, ["webproxy", "7", "-", "-", "-", "3.0", "-", "-"])


if __name__ == "__main__":
    unittest.main()


PJDFSTEST_SAYS = """open::etxtbsy          PASSED
unlink::open_file_not_freed          FAILED
\tassertion `left == right` failed
mkdir::mode          PASSED UNEXPECTEDLY
Summary: 1 failed, 1 skipped
"""


class JudgesTest(unittest.TestCase):
    def test_failures_and_passes_that_were_not_expected_are_found(self) -> None:
        wrong, counts = pjdfstest_findings(PJDFSTEST_SAYS)
        self.assertEqual([words.split()[0] for words in wrong], ["unlink::open_file_not_freed", "mkdir::mode"])
        self.assertEqual(counts, "1 failed, 1 skipped")
        with self.assertRaises(ProofError):
            pjdfstest_findings("killed")

    def test_what_fails_on_ours_fails_the_step_and_what_fails_on_the_kernels_server_is_told(self) -> None:
        with self.assertRaises(ProofError):
            judges.judged(judges.SIDES["ours-4.2"], ["mkdir"], "done")
        self.assertIn("mkdir", judges.judged(judges.SIDES["knfsd-4.2"], ["mkdir"], "done"))