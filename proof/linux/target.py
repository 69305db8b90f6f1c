"""The server on two portals, in two networks, with CHAP in both directions, for discovery and for logins."""

from __future__ import annotations

import json
import time
from pathlib import Path

from proof.linux.network import NETWORKS
from proof.runtime import ProofError, wait_until
from proof.servers.base import VolumeSpec
from proof.servers.bulkhead import POOL, TARGET, Bulkhead

MEBIBYTE = 1 << 20
INITIATOR = "iqn.1993-08.org.debian:01:bulkhead-proof"
USER, SECRET = "linux", "guest-says-sesame"
TARGET_USER, TARGET_SECRET = "bulkhead", "server-says-sesame"
FINDER, FINDER_SECRET = "finder", "finder-says-sesame"
"""The initiator that may discover targets."""
NBD_PORT = 10809
NFS_PORT = 2049
DISK = VolumeSpec("disk", 512 * MEBIBYTE)
RAW = VolumeSpec("raw", 64 * MEBIBYTE)
NETWORK_DISK = VolumeSpec("network-disk", 128 * MEBIBYTE)
SHARE = "share"
"""A file system for NFS."""
SHELF = "iqn.2026-01.org.example:shelf"
"""Two disks that two heads share: the disks of the pool of ``proof.linux.fencing``."""
SHELF_DISKS = (VolumeSpec("shelf0", 256 * MEBIBYTE), VolumeSpec("shelf1", 256 * MEBIBYTE))
HEADS = {"left": "iqn.2026-01.org.example:left", "right": "iqn.2026-01.org.example:right"}
"""The two heads, with the names of their initiators."""
SPACE_SECONDS = 40.0
"""Freed space is counted after a transaction group or two."""


class PortalServer(Bulkhead):
    """``bulkhead pool-server`` with portals in two storage networks."""

    def __init__(self, scratch: Path, *, options: tuple[str, ...] = (), binary: Path | None = None, **shape: int | bool):
        portals = [word for group, network in enumerate(NETWORKS, 1) for word in ("--iscsi", f"{network.server}:3260,{group}")]
        nbd = ["--nbd", f"{NETWORKS[0].server}:{NBD_PORT}", "--nfs", f"{NETWORKS[0].server}:{NFS_PORT}"]
        super().__init__(scratch, [DISK, RAW, NETWORK_DISK, *SHELF_DISKS], portals=0, options=(*portals, *nbd, *options), binary=binary, **shape)

    def prepare(self) -> None:
        super().prepare()
        secret, target_secret, finder_secret = (self.scratch / name for name in ("secret", "target-secret", "finder-secret"))
        secret.write_text(SECRET + "\n")
        target_secret.write_text(TARGET_SECRET + "\n")
        finder_secret.write_text(FINDER_SECRET + "\n")
        networks = [word for network in NETWORKS for word in ("--network", network.prefix)]
        self.command("target", "allow", TARGET, "--pool", POOL, "--initiator", INITIATOR, *networks)
        self.command("target", "chap", "set", TARGET, "--pool", POOL, "--user", USER, "--secret-file", str(secret))
        self.command("target", "chap", "mutual", TARGET, "--pool", POOL, "--user", TARGET_USER, "--secret-file", str(target_secret))
        self.command("target", "discovery", "set", POOL, "--user", FINDER, "--secret-file", str(finder_secret))
        self.command("target", "discovery", "mutual", POOL, "--user", TARGET_USER, "--secret-file", str(target_secret))
        self.command("target", "map", TARGET, f"{POOL}/{DISK.name}", "--lun", "0")
        self._prepare_shelf(networks)
        self.command("nbd", "export", f"{POOL}/{NETWORK_DISK.name}", "--name", NETWORK_DISK.name, "--allow-network", NETWORKS[0].prefix)

    def make_share(self) -> None:
        """Creates a file system without root squashing."""
        self.command("filesystem", "create", f"{POOL}/{SHARE}", "--mode", "0777")
        self.share(f"rw={NETWORKS[0].prefix},no_root_squash")

    def share(self, rule: str) -> None:
        """Changes its rule, while it is in use."""
        self.command("filesystem", "set", f"{POOL}/{SHARE}", f"sharenfs={rule}")

    def log(self) -> str:
        """Returns the log of the running server."""
        return self.children[0].log.read_text(errors="replace")

    def _prepare_shelf(self, networks: list[str]) -> None:
        """Exports disks of a target of their own, for the two heads only."""
        self.command("target", "create", SHELF, "--pool", POOL)
        for initiator in HEADS.values():
            self.command("target", "allow", SHELF, "--pool", POOL, "--initiator", initiator, *networks)
        for lun, spec in enumerate(SHELF_DISKS):
            self.command("target", "unmap", TARGET, f"{POOL}/{spec.name}")
            self.command("target", "map", SHELF, f"{POOL}/{spec.name}", "--lun", str(lun))

    def wwid(self, spec: VolumeSpec) -> str:
        """The volume's identity as Linux names it.

        Of the designators in VPD page 83h udev uses the EUI-64 (a 2 before it), because it does not support
        locally assigned NAA.
        """
        return "2" + self._identity(spec)["eui"]

    def serial(self, spec: VolumeSpec) -> str:
        """Returns the unit serial number."""
        return self._identity(spec)["serial"]

    def _identity(self, spec: VolumeSpec) -> dict[str, str]:
        document = json.loads(self.command("--json", "volume", "show", f"{POOL}/{spec.name}"))
        identity: dict[str, str] = document["identity"]
        return identity

    def used(self, spec: VolumeSpec) -> int:
        """Returns the space that the volume uses in the pool, in bytes."""
        document = json.loads(self.command("--json", "volume", "get", f"{POOL}/{spec.name}", "referenced"))
        return int(document["referenced"]["value"])

    def wait_used(self, what: str, spec: VolumeSpec, low: int, high: int) -> int:
        """Blocks until the volume uses between ``low`` and ``high`` bytes; returns how many."""
        try:
            wait_until(what, lambda: low <= self.used(spec) <= high, SPACE_SECONDS, poll_seconds=0.5)
        except ProofError as error:
            raise ProofError(f"{error}; {self.used(spec)} bytes are held") from error
        return self.used(spec)

    def resize(self, spec: VolumeSpec, size: int) -> None:
        """Resizes the volume while it is in use."""
        self.command("volume", "resize", f"{POOL}/{spec.name}", "--size", str(size))

    def restart(self) -> float:
        """Starts the server again; returns the seconds until it served."""
        started = time.monotonic()
        self.start()
        self.wait_ready()
        return time.monotonic() - started
