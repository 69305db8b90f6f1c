"""A realm of MIT Kerberos, with a key distribution center on this host until the block exits."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from proof.process import checked
from proof.runtime import ProofError

NAME = "PROOF.EXAMPLE"
COMMAND_SECONDS = 60
START_SECONDS = 30
PAUSE_SECONDS = 0.02
PASSWORD = "open sesame"
LOOPBACK = "127.0.0.1"

CONFIGURATION = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 {realm} = {{
  kdc = {address}:{port}
 }}
"""
CENTER = """[kdcdefaults]
 kdc_listen = {address}:{port}
 kdc_tcp_listen = {address}:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/kadm5.acl
 }}
"""


@dataclass(frozen=True)
class Realm:
    """The paths of its files."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment with which commands find the realm, and the tickets of root."""
        folder = self.folder
        return {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder}/tickets",
        }

    @property
    def keytab(self) -> Path:
        """The path of the server's keys."""
        return self.folder / "nfs.keytab"

    def _do(self, *command: str | Path, typed: str = "") -> None:
        checked([*command], COMMAND_SECONDS, env=self.environment, stdin=typed.encode())

    def fill(self, service: str) -> None:
        """Creates the database, the keys of the service, and root."""
        self._do("/usr/sbin/kdb5_util", "create", "-s", "-P", "master")
        self.add_service(service, self.keytab)
        self.add_user("root")

    def add_service(self, service: str, keytab: Path) -> None:
        """Creates keys of a service, or of a host, and writes them to a file."""
        for query in (f"addprinc -randkey {service}", f"ktadd -k {keytab} {service}"):
            self._do("/usr/sbin/kadmin.local", "-q", query)

    def add_user(self, name: str) -> None:
        """Creates a user with the one password."""
        self._do("/usr/sbin/kadmin.local", "-q", f'addprinc -pw "{PASSWORD}" {name}')

    def log_in(self) -> None:
        """Obtains tickets of root."""
        self._do("kinit", "root", typed=f"{PASSWORD}\n")


def _free_port(address: str) -> int:
    with socket.socket() as one:
        one.bind((address, 0))
        port: int = one.getsockname()[1]
    return port


def _wait_for(center: subprocess.Popen[bytes], address: str, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and center.poll() is None:
        with suppress(OSError), socket.create_connection((address, port)):
            return
        time.sleep(PAUSE_SECONDS)
    raise ProofError("krb5kdc does not listen: apt-get install krb5-kdc krb5-admin-server krb5-user")


@contextmanager
def serving(folder: Path, service: str, address: str = LOOPBACK) -> Iterator[Realm]:
    """A realm with root, which has tickets, and a service with a keytab. Its center listens at the address."""
    folder.mkdir()
    realm, port = Realm(folder), _free_port(address)
    words = {"realm": NAME, "address": address, "port": port, "folder": folder}
    (folder / "krb5.conf").write_text(CONFIGURATION.format(**words))
    (folder / "kdc.conf").write_text(CENTER.format(**words))
    realm.fill(service)
    command = ["/usr/sbin/krb5kdc", "-n"]
    with subprocess.Popen(command, env=os.environ | realm.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as center:
        try:
            _wait_for(center, address, port)
            realm.log_in()
            yield realm
        finally:
            center.terminate()
