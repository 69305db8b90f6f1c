"""The apt repository of ``make repository``, read by a stock apt with a root of its own."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import tempfile
import threading
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proof import runtime

TOOLS = ("gpg", "gpgv", "dpkg-scanpackages", "dpkg-deb", "apt-get")
EPOCH = "1900000000"
"""Later than the key, so that two runs have the same time."""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A web server without a log."""

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serves ``folder`` on loopback."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C", **environment}
    return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=300, check=False)


@unittest.skipIf([tool for tool in TOOLS if shutil.which(tool) is None], f"needs {', '.join(TOOLS)}")
class Repository(unittest.TestCase):
    """A repository with small packages, signed by a key that only this test has."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bulkhead-repository-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.repository = self.folder / "repository"
        self.home = self._key("key")

    def _key(self, name: str) -> Path:
        home = self.folder / name
        home.mkdir(mode=0o700)
        words = ("gpg", "--batch", "--passphrase", "", "--quick-generate-key", f"{name} <{name}@localhost>", "ed25519", "sign", "never")
        made = _run(*words, GNUPGHOME=str(home))
        self.assertEqual(made.returncode, 0, made.stderr)
        self.addCleanup(_run, "gpgconf", "--homedir", home, "--kill", "all")
        return home

    def _package(self, where: str, name: str, version: str, *fields: str, arch: str = "amd64") -> Path:
        """Builds a package with one file, which names its version."""
        folder = self.folder / where
        stage = self.folder / "stage" / where / f"{name}-{version}-{arch}"
        (stage / "DEBIAN").mkdir(parents=True)
        file = stage / f"usr/share/{name}/version"
        file.parent.mkdir(parents=True)
        file.write_text(version + "\n")
        control = [f"Package: {name}", f"Version: {version}", f"Architecture: {arch}", "Maintainer: a <a@localhost>", *fields, "Description: a"]
        (stage / "DEBIAN/control").write_text("\n".join(control) + "\n")
        folder.mkdir(exist_ok=True)
        package = folder / f"{name}_{version}_{arch}.deb"
        built = _run("dpkg-deb", "--root-owner-group", "-Zgzip", "--build", stage, package)
        self.assertEqual(built.returncode, 0, built.stderr)
        return package

    def _make(self, *directories: str, key: str | None = None, repository: Path | None = None) -> subprocess.CompletedProcess[str]:
        key = str(self.home) if key is None else key
        script = runtime.REPOSITORY / "scripts/repository.sh"
        target = str(repository or self.repository)
        places = (self.folder / name for name in directories)
        return _run(script, *places, REPOSITORY_KEY=key, REPOSITORY=target, SOURCE_DATE_EPOCH=EPOCH)

    def _apt(self, url: str, *words: str, suite: str = "bookworm") -> subprocess.CompletedProcess[str]:
        """Runs apt-get in a root of its own, which trusts the key of the repository only."""
        root = self.folder / "root"
        for name in ("etc/apt/sources.list.d", "etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d",
                     "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg/info", "var/lib/dpkg/updates",
                     "var/lib/dpkg/triggers", "var/log/apt"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "var/lib/dpkg/status").touch()
        keyring = root / "keyring.gpg"
        if not keyring.exists():
            shutil.copy(self.repository / "bulkhead-archive-keyring.gpg", keyring)
        source = f"Types: deb\nURIs: {url}\nSuites: {suite}\nComponents: main\nSigned-By: {keyring}\n"
        (root / "etc/apt/sources.list.d/bulkhead.sources").write_text(source)
        options = ("-o", f"Dir={root}", "-o", f"Dir::State::status={root}/var/lib/dpkg/status", "-o", "APT::Architecture=amd64",
                   "-o", "APT::Sandbox::User=root", "-o", "Acquire::http::Proxy=DIRECT",
                   *(part for option in (f"--root={root}", "--force-script-chrootless", "--force-not-root", f"--log={root}/dpkg.log")
                     for part in ("-o", f"Dpkg::Options::={option}")))
        return _run("apt-get", "-q", "-y", *options, *words, APT_CONFIG="/dev/null", DEBIAN_FRONTEND="noninteractive")

    def _version(self, name: str) -> str:
        return (self.folder / f"root/usr/share/{name}/version").read_text().strip()

    def test_stock_apt_installs_and_upgrades_from_the_signed_repository(self) -> None:
        fits = "Pre-Depends: libzpool6linux (>= {0}), libzpool6linux (<< {1}~)"
        self._package("one", "bulkhead", "0.1.0~deb12", fits.format("2.3.2", "2.3.3"))
        self._package("one", "libzpool6linux", "2.3.2-1")
        self._package("other", "bulkhead", "0.1.0~deb13")
        self._package("other", "bulkhead", "0.1.0~deb13", arch="arm64")
        made = self._make("one", "other")
        self.assertEqual(made.returncode, 0, made.stderr)
        for architecture in ("amd64", "arm64"):
            self.assertTrue((self.repository / f"dists/trixie/main/binary-{architecture}/Packages.gz").exists())
        with _served(self.repository) as url:
            self._ok(self._apt(url, "update"))
            self._ok(self._apt(url, "install", "bulkhead", "bulkhead-archive-keyring"))
            self.assertEqual(self._version("bulkhead"), "0.1.0~deb12")
            installed = self.folder / "root/usr/share/keyrings/bulkhead-archive-keyring.gpg"
            self.assertEqual(installed.read_bytes(), (self.repository / installed.name).read_bytes())

            # A later version with another library; the earlier one stays in the repository.
            self._package("two", "bulkhead", "0.2.0~deb12", fits.format("2.3.3", "2.3.4"))
            library = self._package("two", "libzpool6linux", "2.3.3-1")
            self._ok(self._make("two"))
            self._ok(self._apt(url, "update"))
            # dpkg alone does not replace the binary while the library does not fit.
            package = self.folder / "two/bulkhead_0.2.0~deb12_amd64.deb"
            refused = _run("dpkg", f"--root={self.folder / 'root'}", "--force-not-root", "-i", package)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("pre-dependency problem", refused.stderr)
            self.assertEqual(self._version("bulkhead"), "0.1.0~deb12")
            self.assertTrue(library.exists())
            self._ok(self._apt(url, "install", "bulkhead"))
            self.assertEqual(self._version("bulkhead"), "0.2.0~deb12")
            self.assertEqual(self._version("libzpool6linux"), "2.3.3-1")
            self._ok(self._apt(url, "install", "--allow-downgrades", "bulkhead=0.1.0~deb12", "libzpool6linux=2.3.2-1"))
            self.assertEqual(self._version("bulkhead"), "0.1.0~deb12")

    def _ok(self, result: subprocess.CompletedProcess[str]) -> None:
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_changed_lists_and_foreign_signatures_are_refused(self) -> None:
        self._package("one", "bulkhead", "0.1.0~deb12")
        self._ok(self._make("one"))
        good = self.folder / "good"
        shutil.copytree(self.repository, good)
        with _served(self.repository) as url:
            self._ok(self._apt(url, "update"))

            def changed(name: str) -> str:
                shutil.rmtree(self.folder / "root/var/lib/apt/lists")
                path = self.repository / "dists/bookworm" / name
                path.write_bytes(path.read_bytes().replace(b"0.1.0~deb12", b"0.1.1~deb12").replace(b"Label: B", b"Label: X"))
                refused = self._apt(url, "update")
                shutil.rmtree(self.repository)
                shutil.copytree(good, self.repository)
                self.assertNotEqual(refused.returncode, 0, f"{name}: {refused.stdout}{refused.stderr}")
                return refused.stdout + refused.stderr

            packages = self.repository / "dists/bookworm/main/binary-amd64"
            (packages / "Packages.gz").unlink()
            self.assertRegex(changed("main/binary-amd64/Packages"), "Hash Sum mismatch|unexpected size")
            self.assertRegex(changed("InRelease"), "BADSIG|not signed|isn't valid|invalid")

            # A package that was changed after it was listed.
            self._ok(self._apt(url, "update"))
            package = self.repository / "pool/bookworm/main/bulkhead_0.1.0~deb12_amd64.deb"
            package.write_bytes(package.read_bytes()[:-1] + b"x")
            refused = self._apt(url, "install", "bulkhead")
            self.assertNotEqual(refused.returncode, 0)
            self.assertFalse((self.folder / "root/usr/share/bulkhead").exists())

            # The same lists, signed by another key.
            shutil.rmtree(self.repository)
            self._ok(self._make("one", key=str(self._key("other"))))
            shutil.rmtree(self.folder / "root/var/lib/apt/lists")
            refused = self._apt(url, "update")
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("NO_PUBKEY", refused.stdout + refused.stderr)

    def test_two_runs_make_the_same_repository(self) -> None:
        self._package("one", "bulkhead", "0.1.0~deb12")
        self._ok(self._make("one"))
        again = self.folder / "again"
        self._ok(self._make("one", repository=again))
        files = sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
        self.assertGreater(len(files), 7)
        for name in files:
            self.assertEqual((again / name).read_bytes(), (self.repository / name).read_bytes(), name)

    def test_missing_key_and_bad_packages_change_nothing(self) -> None:
        self._package("one", "bulkhead", "0.1.0~deb12")
        self._package("mixed", "bulkhead", "0.1.0~deb12")
        self._package("mixed", "bulkhead", "0.1.0~deb13")
        (self.folder / "empty").mkdir()
        for directory, key, part in (
            ("one", "", "REPOSITORY_KEY=KEY"),
            ("one", "no such key", "0 secret keys match"),
            ("empty", None, "make release"),
            ("mixed", None, "more than one release"),
        ):
            refused = self._make(directory, key=key)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertIn(part, refused.stderr)
            self.assertFalse(self.repository.exists(), part)
        self._ok(self._make("one"))
        # Another file of the same version.
        self._package("changed", "bulkhead", "0.1.0~deb12", "Section: misc")
        refused = self._make("changed")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("give it a new version", refused.stderr)


if __name__ == "__main__":
    unittest.main()
