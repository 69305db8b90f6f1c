"""The stock client's feeder detects a failed write and a lost one."""

import tempfile
import unittest
from pathlib import Path

from proof.runtime import ProofError
from proof.stock.client import StockClient

SECONDS = 60.0

PROGRAM = """#!/bin/sh
printf 'qemu-io> '
count=0
while read -r command rest; do
    count=$((count + 1))
    case $command in
    write) {write} ;;
    read) {read} ;;
    esac
    printf 'qemu-io> '
done
"""
WROTE = "echo 'wrote 4096/4096 bytes at offset 0'"
READ = "echo 'read 4096/4096 bytes at offset 0'"


class StockClientTest(unittest.TestCase):
    def client(self, write: str, read: str) -> StockClient:
        """Returns a client with such a qemu-io."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = Path(folder.name) / "qemu-io"
        program.write_text(PROGRAM.format(write=write, read=read))
        program.chmod(0o755)
        return StockClient("test", ["env", f"PATH={folder.name}:/usr/bin:/bin"], "nothing")

    def test_answered_writes_are_counted_and_read_back(self) -> None:
        client = self.client(WROTE, READ)
        client.wait_writes(5, SECONDS)
        self.assertGreaterEqual(client.finish(), 5)

    def test_failed_write_is_an_error(self) -> None:
        client = self.client(f"[ $count -lt 4 ] && {WROTE} || echo 'write failed: Input/output error'", READ)
        with self.assertRaisesRegex(ProofError, "Input/output error"):
            client.wait_writes(10, SECONDS)

    def test_forgotten_write_is_an_error(self) -> None:
        client = self.client(WROTE, "echo 'Pattern verification failed at offset 0, 4096 bytes'")
        client.wait_writes(3, SECONDS)
        with self.assertRaisesRegex(ProofError, "differs from the written data"):
            client.finish()

    def test_program_that_is_gone_is_an_error(self) -> None:
        client = self.client("exit 1", READ)
        with self.assertRaisesRegex(ProofError, "qemu-io"):
            client.wait_writes(3, SECONDS)


if __name__ == "__main__":
    unittest.main()
