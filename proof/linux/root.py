"""The initiator's kernel and root: Debian's own packages, unpacked into an initramfs.

Nothing is installed and no maintainer script runs: apt resolves the packages against an empty system with this
host's own sources, and their files are unpacked into a directory. The result is cached under ``target/`` by the hash
of its recipe.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from proof.process import SYSTEM_PATH, checked
from proof.runtime import REPOSITORY, ProofError, at_exit

CACHE = REPOSITORY / "target/linux-initiator"
GUEST = Path(__file__).parent / "guest"
CLIENTS_PAGE = REPOSITORY / "docs/guide/clients.md"
"""The page for administrators: the guest is set up by its commands."""
SETTINGS = MULTIPATH_SETTINGS, ISCSI_SETTINGS = "/etc/multipath.conf", "/etc/iscsi/iscsid.conf"
KERNEL_METAPACKAGE = "linux-image-amd64"
DOWNLOAD_SECONDS = 600.0
UNPACK_SECONDS = 300.0
RECIPE_VERSION = 1
"""Raise it when the recipe changes."""

PACKAGES = (
    *("bash", "coreutils", "grep", "sed", "mawk", "diffutils", "util-linux", "mount", "procps", "busybox-static"),
    *("iproute2", "kmod", "udev", "dmsetup"),
    *("open-iscsi", "multipath-tools", "sg3-utils", "nbd-client"),
    *("xfsprogs", "e2fsprogs", "fio", "nfs-common", "rpcbind", "netbase", "krb5-user"),
)

MODULES = (
    *("virtio_pci", "virtio_net", "virtio_console", "virtio_blk"),
    *("iscsi_tcp", "sd_mod", "sg", "dm_multipath", "dm_service_time", "dm_round_robin", "scsi_dh_alua"),
    *("nbd", "nfsv3", "nfsv4", "nfsd", "xfs", "ext4", "crc32c_intel", "crc32c_generic"),
    *("rpcsec_gss_krb5", "aesni_intel", "aes_generic", "cbc", "cts", "sha1_generic", "hmac"),
)

LEFT_OUT = (
    *("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/i18n", "usr/share/zoneinfo"),
    *("usr/share/perl", "usr/share/perl5", "usr/share/bash-completion", "usr/lib/x86_64-linux-gnu/gconv"),
    *("usr/lib/x86_64-linux-gnu/perl", "usr/lib/x86_64-linux-gnu/perl-base", "usr/lib/python3", "usr/lib/python3.11"),
    *("usr/lib/python3.13", "usr/lib/systemd/system", "usr/lib/udev/hwdb.d", "var/lib/dpkg"),
)
"""Modules that no process of the guest needs: the image is unpacked into memory at each start."""

LEFT_OUT_FILES = ("libperl.so.*", "libpython3*", "perl*", "python3*")


@dataclass(frozen=True)
class GuestImage:
    """The files that qemu starts."""

    kernel: Path
    initramfs: Path
    release: str
    """The kernel's release, as in ``uname -r``."""


NEEDED = ("qemu-system-x86_64", "cpio", "dpkg-deb", "apt-get", "tar", "depmod", "ip", "make", "gcc", "strip")
"""Commands for the build and the start of the guest."""


def guest_image() -> GuestImage:
    """Returns the image of this recipe: from the cache, or built now."""
    kernel_package = _kernel_package()
    directory = from_cache(_recipe_hash(kernel_package), partial(_build, kernel_package=kernel_package))
    release = (directory / "release").read_text().strip()
    return GuestImage(directory / "vmlinuz", directory / "initramfs", release)


def from_cache(name: str, build: Callable[[Path], None]) -> Path:
    """Returns the directory that is cached as ``name``, or builds it now: ``build`` receives a directory, and leaves
    a ``result`` there."""
    directory = CACHE / name
    if not directory.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with _build_directory() as building:
            build(building)
            # A concurrent run may have been faster; its result is equivalent.
            with contextlib.suppress(OSError):
                (building / "result").rename(directory)
    return directory


@contextlib.contextmanager
def _build_directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="building-", dir=CACHE))
    forget = at_exit(lambda: shutil.rmtree(path, ignore_errors=True))
    try:
        yield path
    finally:
        forget()
        shutil.rmtree(path, ignore_errors=True)


def _kernel_package() -> str:
    """Returns the package of the newest kernel that the metapackage depends on."""
    shown = checked(["apt-cache", "depends", KERNEL_METAPACKAGE], DOWNLOAD_SECONDS)
    found = re.search(r"Depends: (linux-image-\S+)", shown)
    if not found:
        raise ProofError(f"apt has no {KERNEL_METAPACKAGE}: run apt-get update")
    return found.group(1)


def recommended(file: str) -> str:
    """Returns the contents, or the lines to change, of a file of the initiator, from the guide."""
    paragraph = r"(?:[^\n]|\n(?!\n))*"
    found = re.search(rf"^`{re.escape(file)}`{paragraph}:\n\n```\n(.*?)^```$", CLIENTS_PAGE.read_text(), re.M | re.S)
    if not found:
        raise ProofError(f"{CLIENTS_PAGE} shows no {file}")
    return found.group(1)


def _recipe_hash(kernel_package: str) -> str:
    recipe = hashlib.sha256()
    words = (str(RECIPE_VERSION), kernel_package, *PACKAGES, *MODULES, *LEFT_OUT, *LEFT_OUT_FILES)
    recipe.update("\n".join(words).encode())
    recipe.update(Path("/etc/debian_version").read_bytes())
    for settings in SETTINGS:
        recipe.update(recommended(settings).encode())
    for file in sorted(GUEST.iterdir()):
        recipe.update(file.name.encode() + b"\0" + file.read_bytes())
    return recipe.hexdigest()[:16]


def _build(building: Path, kernel_package: str) -> None:
    archives = building / "archives"
    (archives / "partial").mkdir(parents=True)
    _download(building, archives, kernel_package)
    root, kernel_root, result = building / "root", building / "kernel", building / "result"
    result.mkdir()
    kernel_archive = None
    for archive in sorted(archives.glob("*.deb")):
        if archive.name.startswith(kernel_package + "_"):
            kernel_archive = archive
        else:
            unpack(archive, root)
    if kernel_archive is None:
        raise ProofError(f"{kernel_package} was not downloaded")
    unpack(kernel_archive, kernel_root)
    release = next((kernel_root / "usr/lib/modules").iterdir()).name
    copy_modules(kernel_root, root, release)
    _leave_out(root)
    _install_guest(root)
    _pack(root, result / "initramfs")
    shutil.copy(kernel_root / f"boot/vmlinuz-{release}", result / "vmlinuz")
    (result / "release").write_text(release + "\n")


def _download(building: Path, archives: Path, kernel_package: str) -> None:
    download_whole(building, archives, *PACKAGES)
    # Without its dependencies: they build an initramfs, which we do ourselves.
    download(archives, kernel_package)


def download_whole(building: Path, archives: Path, *packages: str) -> None:
    """Downloads the packages' archives, and those of all their dependencies."""
    nothing_installed = building / "status"
    nothing_installed.touch()
    apart = ["-o", f"Dir::Cache::archives={archives}", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true"]
    empty = ["-o", f"Dir::State::status={nothing_installed}"]
    wanted = ["--download-only", "-y", "-q", "--no-install-recommends", *packages]
    checked(["apt-get", *apart, *empty, "install", *wanted], DOWNLOAD_SECONDS)


def download(archives: Path, *packages: str) -> None:
    """Downloads the packages' archives, without dependencies."""
    checked(["sh", "-c", 'cd "$0" && exec apt-get -q -o APT::Sandbox::User=root download "$@"', archives, *packages], DOWNLOAD_SECONDS)


def unpack(archive: Path, root: Path) -> None:
    """Unpacks a package's files below ``root``; none of its scripts runs."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    unpack = 'dpkg-deb --fsys-tarfile "$0" | tar -x --keep-directory-symlink -C "$1"'
    checked(["sh", "-c", unpack, archive, root], UNPACK_SECONDS)


def copy_modules(kernel_root: Path, root: Path, release: str, more: Sequence[str] = ()) -> None:
    """Copies the modules that the guest uses, ``more``, and their dependencies."""
    env = {"PATH": os.environ.get("PATH", "") + SYSTEM_PATH}
    checked(["depmod", "-b", kernel_root, release], UNPACK_SECONDS, env=env)
    source, sink = kernel_root / "usr/lib/modules" / release, root / "usr/lib/modules" / release
    needs: dict[str, list[str]] = {}
    for line in (source / "modules.dep").read_text().splitlines():
        file, _, others = line.partition(":")
        needs[_module_name(file)] = [file, *others.split()]
    for module in (*MODULES, *more):
        # A module that is built into this kernel has no file.
        for file in needs.get(module, []):
            (sink / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / file, sink / file)
    for index in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(source / index, sink / index)
    checked(["depmod", "-b", root, release], UNPACK_SECONDS, env=env)


def _module_name(file: str) -> str:
    return Path(file).name.split(".ko")[0].replace("-", "_")


def _leave_out(root: Path) -> None:
    for name in LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    for pattern in LEFT_OUT_FILES:
        for folder in ("usr/bin", "usr/lib/x86_64-linux-gnu"):
            for path in (root / folder).glob(pattern):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def _install_guest(root: Path) -> None:
    """Installs our own files, and the few that maintainer scripts would have created."""
    for name, place in (("init", "init"), ("agent", "usr/bin/guest-agent")):
        shutil.copy(GUEST / name, root / place)
        (root / place).chmod(0o755)
    (root / MULTIPATH_SETTINGS[1:]).write_text(recommended(MULTIPATH_SETTINGS))
    # The package's own file, with these lines changed: the last line of a name is the effective one.
    with (root / ISCSI_SETTINGS[1:]).open("a") as settings:
        settings.write("\n" + recommended(ISCSI_SETTINGS))
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n_rpc:x:101:65534::/run/rpcbind:/usr/sbin/nologin\n")
    groups = ("root", "disk", "tty", "kmem", "cdrom", "dialout", "audio", "video", "input", "kvm", "sgx", "render", "lp", "tape")
    (root / "etc/group").write_text("".join(f"{name}:x:{index}:\n" for index, name in enumerate(groups)))
    for folder in ("proc", "sys", "dev", "run", "tmp", "mnt", "root"):
        (root / folder).mkdir(exist_ok=True)
    awk = root / "usr/bin/awk"
    if not awk.exists():
        awk.unlink(missing_ok=True)
        awk.symlink_to("mawk")


def _pack(root: Path, initramfs: Path) -> None:
    plain = initramfs.with_suffix(".plain")
    checked(["sh", "-c", 'cd "$0" && find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 >"$1"', root, plain], UNPACK_SECONDS)
    # Not compressed further: under emulation the guest would need more time to unpack it than qemu to copy it.
    plain.rename(initramfs)


__all__ = ["DOWNLOAD_SECONDS", "KERNEL_METAPACKAGE", "NEEDED", "GuestImage", "copy_modules", "download", "download_whole", "from_cache", "guest_image", "unpack"]
