"""The files that ``make install`` and ``make deb`` install."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from proof import runtime

STAND_IN = """#!/bin/sh
case $1 in
man) echo page >"$2/bulkhead.1" ;;
completion) echo "completion of $2" ;;
esac
"""


def _run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(runtime.REPOSITORY / "scripts" / script), *arguments]
    environment = {**os.environ, **environment}
    return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=300, check=False)


class Install(unittest.TestCase):
    """Installs into a directory."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bulkhead-install-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def _install(self, prefix: str) -> Path:
        program = self.folder / "program"
        program.write_text(STAND_IN)
        program.chmod(0o755)
        root = self.folder / "root"
        result = _run("install.sh", PREFIX=prefix, DESTDIR=str(root), BULKHEAD_PROGRAM=str(program))
        self.assertEqual(result.returncode, 0, result.stderr)
        return root

    def test_everything_names_the_program_where_it_is(self) -> None:
        root = self._install("/opt/storage")
        agent = root / "usr/lib/ocf/resource.d/bulkhead/pool"
        self.assertIn("exec /opt/storage/bin/bulkhead agent pool", agent.read_text())
        self.assertIn("exec /opt/storage/bin/bulkhead-agent pool", agent.read_text())
        self.assertTrue(os.access(agent, os.X_OK))
        unit = root / "opt/storage/lib/systemd/system/bulkhead-pool@.service"
        self.assertIn("ExecStart=/opt/storage/bin/bulkhead pool-server", unit.read_text())
        for path in (
            "bin/bulkhead",
            "share/man/man1/bulkhead.1",
            "share/bash-completion/completions/bulkhead",
            "share/doc/bulkhead/examples/pair.toml",
            "share/doc/bulkhead/docs/guide/README.md",
        ):
            self.assertTrue((root / "opt/storage" / path).exists(), path)
        self.assertEqual((root / "etc/bulkhead/secrets").stat().st_mode & 0o777, 0o700)

    def test_the_agent_under_usr_is_the_one_that_apply_writes(self) -> None:
        root = self._install("/usr")
        for agent in ("pool", "address"):
            written = (root / "usr/lib/ocf/resource.d/bulkhead" / agent).read_bytes()
            self.assertEqual(written, (runtime.REPOSITORY / "packaging/ocf" / agent).read_bytes())

    def test_a_missing_program_is_told(self) -> None:
        result = _run("install.sh", DESTDIR=str(self.folder), BULKHEAD_PROGRAM=str(self.folder / "none"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("make build", result.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_package_holds_program_agent_and_dependencies(self) -> None:
        program = runtime.REPOSITORY / "target/debug/bulkhead"
        for tool in ("dpkg-deb", "dpkg-shlibdeps"):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")
        for needed in (program, program.with_name("bulkhead-witness")):
            if not needed.exists():
                self.skipTest(f"{needed} is not built")
        result = _run("deb.sh", str(self.folder), BULKHEAD_PROGRAM=str(program))
        self.assertEqual(result.returncode, 0, result.stderr)
        package, witness = result.stdout.split()
        self._check_witness(witness)
        fields = subprocess.run(["dpkg-deb", "--field", package, "Pre-Depends"], text=True, capture_output=True, check=True)
        openzfs = subprocess.run(["pkg-config", "--modversion", "libzfs"], text=True, capture_output=True, check=True).stdout
        self.assertIn(f"libzpool6linux (>= {openzfs.strip()})", fields.stdout)
        self.assertRegex(fields.stdout, r"libzpool6linux \(<< [0-9.]+~\)")
        subprocess.run(["dpkg-deb", "--extract", package, self.folder / "root"], check=True)
        version = subprocess.run(
            [self.folder / "root/usr/bin/bulkhead", "--version"], text=True, capture_output=True, timeout=60, check=True
        )
        self.assertTrue(version.stdout.startswith("bulkhead "), version.stdout)
        self.assertTrue((self.folder / "root/usr/lib/ocf/resource.d/bulkhead/pool").exists())
        formats = json.loads((self.folder / "root/usr/share/bulkhead/formats.json").read_text())
        self.assertIn("record of legs", formats["formats"])
        self.assertIn("async_destroy", formats["features"])
        about = self.folder / "root/usr/share/doc/bulkhead"
        self.assertIn("/usr/share/common-licenses/Apache-2.0", (about / "copyright").read_text())
        self.assertTrue(gzip.decompress((about / "changelog.gz").read_bytes()).startswith(b"bulkhead ("))

    def _check_witness(self, package: str) -> None:
        """The witness package installs on a host without ZFS."""
        fields = subprocess.run(["dpkg-deb", "--field", package, "Depends"], text=True, capture_output=True, check=True)
        self.assertNotIn("zfs", fields.stdout)
        self.assertNotIn("zpool", fields.stdout)
        root = self.folder / "witness"
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
        program = root / "usr/bin/bulkhead-witness"
        version = subprocess.run([program, "--version"], text=True, capture_output=True, timeout=60, check=True)
        self.assertTrue(version.stdout.startswith("bulkhead-witness "), version.stdout)
        unit = (root / "usr/lib/systemd/system/bulkhead-witness.service").read_text()
        self.assertIn("ExecStart=/usr/bin/bulkhead-witness serve", unit)


if __name__ == "__main__":
    unittest.main()
