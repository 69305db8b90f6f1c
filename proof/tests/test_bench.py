"""A comparison without its packages reports which are missing, before any measurement."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from proof.bench import __main__ as bench
from proof.bench import nfs
from proof.process import Child, missing_programs
from proof.runtime import ProofError

ALL = (*bench.CLIENTS, "tgtd", "tgtadm", "nbdkit", "qemu-nbd")


class MissingTest(unittest.TestCase):
    def test_what_is_not_installed_is_named_with_the_command_that_installs_it(self) -> None:
        with mock.patch("proof.process.shutil.which", lambda *_, **__: None), self.assertRaises(ProofError) as raised:
            bench.main([])
        words = str(raised.exception)
        for name in (*ALL, "scripts/deps.sh bench"):
            self.assertIn(name, words)

    def test_nothing_is_asked_of_a_server_that_is_left_out(self) -> None:
        with mock.patch("proof.process.shutil.which", lambda *_, **__: None), self.assertRaises(ProofError) as raised:
            bench.main(["--without", "tgt,nbdkit"])
        self.assertNotIn("tgtd", str(raised.exception))
        self.assertNotIn("nbdkit", str(raised.exception))

    def test_a_child_that_is_not_installed_is_one_sentence(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(ProofError) as raised:
            Child("none", ["no-such-program-anywhere"], Path(folder) / "log")
        self.assertEqual(str(raised.exception), "no-such-program-anywhere is not installed")
        self.assertEqual(missing_programs(["sh", "no-such-program-anywhere"]), ["no-such-program-anywhere"])


class FilesTest(unittest.TestCase):
    def test_a_personality_is_a_point_of_its_own(self) -> None:
        self.assertEqual([point.name for point in nfs.chosen("varmail,webproxy")], ["nfs-varmail", "nfs-webproxy"])

    def test_ratios_are_of_one_repetition_each(self) -> None:
        run = nfs.Run.__new__(nfs.Run)
        speeds = {nfs.Ours.name: (1, 20, 9), nfs.Ganesha.name: (2, 10, 10)}
        run.samples = [nfs.Sample(name, "point", speed, 1) for name, all_speeds in speeds.items() for speed in all_speeds]
        self.assertEqual(run.ratio("point", "operations_per_second"), 0.9)

    def test_a_target_is_a_ratio_to_the_server_with_durable_changes(self) -> None:
        run = nfs.Run.__new__(nfs.Run)
        costs = {nfs.Ours.name: 120, nfs.Ganesha.name: 60, nfs.DurableGanesha.name: 100}
        run.samples = [nfs.Sample(name, "nfs-create-qd32", 1, cost) for name, cost in costs.items()]
        point = nfs.chosen("create-qd32")[0]
        self.assertEqual([met for _, met in nfs._verdicts(run, point)], [True])
        run.samples[0].cpu_us_per_operation = 121
        self.assertEqual([met for _, met in nfs._verdicts(run, point)], [False])
