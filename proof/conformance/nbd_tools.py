"""Stock NBD clients use an export like administrators do; each step is a check with a name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from proof.process import checked, run
from proof.runtime import ProofError

TOOL_SECONDS = 60.0
MEBIBYTE = 1 << 20


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise ProofError(words)


class NbdTools:
    """Runs the steps in order on one export; later steps build on the writes of earlier ones."""

    def __init__(self, uri: str, size: int, scratch: Path):
        self.uri = uri
        self.size = size
        self.base, _, self.export = uri.rpartition("/")
        self.image = scratch / "image.raw"
        self.copy = scratch / "copy.raw"
        body = bytes(range(256)) * 4096
        # Data, a hole, data again: the map then has several extents.
        self.image.write_bytes(body)
        with self.image.open("r+b") as file:
            file.seek(self.size // 2)
            file.write(body[::-1])
            file.truncate(self.size)

    def steps(self) -> list[tuple[str, Callable[[], None]]]:
        """Returns names and checks, in the order in which they run."""
        return [
            ("nbdinfo shows size and flags", self.info),
            ("nbdinfo --list finds the export", self.listing),
            ("an unknown export is refused", self.unknown_export),
            ("nbdcopy uploads an image", self.upload),
            ("nbdcopy downloads it unchanged", self.download),
            ("nbdinfo --map sees data and holes", self.map),
            ("qemu-img info", self.qemu_info),
            ("qemu-img map agrees", self.qemu_map),
            ("qemu-img compare: identical", self.qemu_compare),
            ("qemu-img convert to qcow2 and back", self.qemu_convert),
            ("qemu-io writes, zeroes, discards and reads at odd places", self.qemu_io),
            ("qemu-io refuses to go beyond the end", self.beyond_end),
            ("fio random writes with verification", self.fio_verify),
            ("fio with FUA-like fsync and several connections", self.fio_fsync),
            ("nbdcopy with several connections leaves no difference", self.multi_connection),
        ]

    def _nbdinfo(self) -> dict[str, object]:
        document = json.loads(checked(["nbdinfo", "--json", self.uri], TOOL_SECONDS))
        export: dict[str, object] = document["exports"][0]
        return {**export, "structured": document.get("structured"), "protocol": document.get("protocol")}

    def info(self) -> None:
        """Compares the size, and the advertised capabilities."""
        export = self._nbdinfo()
        _expect(export["export-size"] == self.size, f"size {export['export-size']} instead of {self.size}")
        _expect(export["structured"] is True, "no structured replies")
        for flag in ("can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn", "can_cache", "can_df"):
            _expect(export.get(flag) is True, f"{flag} is {export.get(flag)}")
        _expect("base:allocation" in json.dumps(export.get("contexts", [])), "no base:allocation context")

    def listing(self) -> None:
        """NBD_OPT_LIST."""
        document = json.loads(checked(["nbdinfo", "--list", "--json", self.base + "/"], TOOL_SECONDS))
        names = [export["export-name"] for export in document["exports"]]
        _expect(self.export in names, f"export {self.export} is not among {names}")

    def unknown_export(self) -> None:
        """An unknown name is an error of the client, without a hang and without another volume."""
        outcome = run(["nbdinfo", f"{self.base}/no-such-export"], TOOL_SECONDS)
        _expect(outcome.status not in (0, None), f"nbdinfo ended with {outcome.status}")

    def upload(self) -> None:
        """File to export, flushed."""
        checked(["nbdcopy", "--flush", self.image, self.uri], TOOL_SECONDS)

    def download(self) -> None:
        """Export to file, byte for byte."""
        checked(["nbdcopy", self.uri, self.copy], TOOL_SECONDS)
        checked(["cmp", self.image, self.copy], TOOL_SECONDS)

    def map(self) -> None:
        """Block status: the first mebibyte is data, and there is a hole."""
        runs = json.loads(checked(["nbdinfo", "--map", "--json", self.uri], TOOL_SECONDS))
        _expect(runs[0]["type"] == 0, f"the first run is {runs[0]}")
        _expect(any(run["type"] != 0 for run in runs), "no hole anywhere")
        _expect(sum(run["length"] for run in runs) == self.size, "the map does not cover the export")

    def qemu_info(self) -> None:
        """qemu reads the size."""
        document = json.loads(checked(["qemu-img", "info", "--output=json", "-f", "raw", self.uri], TOOL_SECONDS))
        _expect(document["virtual-size"] == self.size, f"virtual size {document['virtual-size']}")

    def qemu_map(self) -> None:
        """qemu sees the hole as zero."""
        runs = json.loads(checked(["qemu-img", "map", "--output=json", "-f", "raw", self.uri], TOOL_SECONDS))
        _expect(any(run["zero"] for run in runs), "no zero run")
        _expect(any(run["data"] for run in runs), "no data run")

    def qemu_compare(self) -> None:
        """The contents equal the image."""
        checked(["qemu-img", "compare", "-f", "raw", "-F", "raw", self.image, self.uri], TOOL_SECONDS)

    def qemu_convert(self) -> None:
        """A round trip through qcow2."""
        qcow = self.copy.with_suffix(".qcow2")
        checked(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", self.uri, qcow], TOOL_SECONDS)
        checked(["qemu-img", "convert", "-n", "-W", "-f", "qcow2", "-O", "raw", qcow, self.uri], TOOL_SECONDS)
        self.qemu_compare()

    def qemu_io(self) -> None:
        """Partial blocks, zeroes that preserve and that free space, discard, FUA."""
        commands = [
            "write -P 0x5a 512 1536", "read -P 0x5a 512 1536", "read -P 0x00 2096640 512",
            "write -f -P 0x11 1048576 65536", "write -z 1050624 4096", "read -P 0 1050624 4096",
            "read -P 0x11 1048576 2048", "read -P 0x11 1054720 59392",
            "write -z -u 1048576 65536", "read -P 0 1048576 65536",
            "write -P 0x77 3145728 131072", "discard 3145728 131072", "flush", "aio_write -P 0x33 4194304 1048576",
            "aio_flush", "read -P 0x33 4194304 1048576",
        ]  # fmt: skip
        output = checked(["qemu-io", "-f", "raw", *[word for c in commands for word in ("-c", c)], self.uri], TOOL_SECONDS)
        _expect("verification failed" not in output and "failed" not in output, output)

    def beyond_end(self) -> None:
        """A request behind the last byte fails, and the connection remains usable."""
        output = run(["qemu-io", "-f", "raw", "-c", f"read {self.size} 512", "-c", "read 0 512", self.uri], TOOL_SECONDS).output
        _expect(re.search(r"read 512/512 bytes at offset 0", output) is not None, output)

    def _fio(self, *options: str) -> None:
        checked(["fio", "--name=proof", "--ioengine=nbd", f"--uri={self.uri}", "--group_reporting", *options], TOOL_SECONDS)

    def fio_verify(self) -> None:
        """Mixed block sizes, every block read back and checked."""
        size = min(self.size, 32 * MEBIBYTE)
        self._fio("--rw=randwrite", "--bsrange=512-128k", "--blockalign=512", f"--size={size}", "--iodepth=16",
                  "--verify=crc32c", "--verify_state_save=0", "--verify_fatal=1", "--do_verify=1", "--randseed=7", "--norandommap=0")  # fmt: skip

    def fio_fsync(self) -> None:
        """Four connections concurrently, each on its own part, with flushes in between."""
        part = min(self.size // 4, 4 * MEBIBYTE) // 4096 * 4096
        self._fio("--rw=randwrite", "--bs=4k", f"--size={part}", f"--offset_increment={part}", "--numjobs=4", "--iodepth=8",
                  "--fsync=16", "--verify=crc32c", "--verify_state_save=0", "--verify_fatal=1", "--do_verify=1")  # fmt: skip

    def multi_connection(self) -> None:
        """Four connections read the data that four connections wrote."""
        checked(["nbdcopy", "--connections=4", "--flush", self.image, self.uri], TOOL_SECONDS)
        checked(["nbdcopy", "--connections=4", self.uri, self.copy], TOOL_SECONDS)
        checked(["cmp", self.image, self.copy], TOOL_SECONDS)
