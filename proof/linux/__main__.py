"""``python3 -m proof.linux [--minutes n] [--only part] [--profile name]``: see docs/guide/linux-initiator.md."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from proof import runtime
from proof.linux import filebench, files_disk, foreign_records, judges, judges_disk, kerberos, kernel_build, kernel_files, kernel_log, kernel_zfs, luggage, many_logs, modules, newer, rescue, root, shelf, tls, two_kernels, xfstests
from proof.linux.appliance import NETWORKS, Appliance, LabIncapable
from proof.linux.drills import Drills
from proof.linux.faults import Faults
from proof.linux.fencing import Fencing
from proof.linux.machine import MEMORY_MIB, Machine
from proof.linux.network import make_networks
from proof.linux.shares import SERVER_LOST, Shares
from proof.linux.steps import FileSystems, NetworkBlockDevice, Session, require
from proof.linux.target import PortalServer
from proof.linux.trial import Trial
from proof.nfs import realm
from proof.process import checked, missing_programs
from proof.servers.bulkhead import program

SERVER_MEMORY_MIB = 1024
ROUNDS = 6
"""Each fault of two kernels once."""
FILES_ROUNDS = 2
"""In the second round the kernel reads the files that we replayed in the first."""
PARTS = ("initiator", "shares", "kerberos", "tls", "fencing", "drills", "kernel-zfs", "files", "two-kernels", "rescue", "judges")
MORE_PARTS = ("files-odd-records", "files-both-ways", "files-many-logs", "filebench", "xfstests", "kernel-build")
"""Run only on request: they are slow where the guest's processor is emulated."""


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof.linux", description="A real Linux initiator in a virtual machine judges the server.")
    parser.add_argument("--minutes", type=float, default=0, help="continue to kill the server for this many minutes")
    parser.add_argument("--only", choices=(*PARTS, *MORE_PARTS), action="append", help="only this part; may be repeated")
    parser.add_argument("--profile", choices=("fast", "default", "conservative"), default="conservative", help="time-outs of the two heads")
    parser.add_argument("--rounds", type=int, help=f"faults of two kernels, on either kind of disks ({ROUNDS}); logs of files left and replayed, each way ({FILES_ROUNDS}); runs of filebench (1)")
    parser.add_argument("--logs", type=int, default=many_logs.COUNT, help=f"file systems of each round of files-many-logs, each with a log each way ({many_logs.COUNT})")
    parser.add_argument("--seed", type=int, default=0, help="replays the faults of two kernels, and the changes of files")
    parser.add_argument("--judge", choices=judges.ALL, action="append", help="only this judge of files over NFS; may be repeated")
    parser.add_argument("--side", choices=sorted({*judges.SIDES, *xfstests.SIDES}), action="append", help="only this mount is judged; may be repeated")
    parser.add_argument("--targets", default=kernel_build.DEFAULT_TARGETS, help=f"what kernel-build builds ({kernel_build.DEFAULT_TARGETS})")
    parser.add_argument("--tests", default="", help=f"arguments of xfstests' check (-g {xfstests.GROUP})")
    parser.add_argument("--personality", choices=filebench.PERSONALITIES, action="append", help="only this personality of filebench; may be repeated")
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    return parser.parse_args(argv)


def _reason_to_skip() -> str:
    """Returns why this host cannot run a guest; empty when it can."""
    if missing := missing_programs(root.NEEDED):
        return f"not installed: {', '.join(missing)} (scripts/deps.sh linux)"
    if os.geteuid() != 0 or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "needs root and /dev/net/tun, for networks in a namespace of its own"
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) // 1024
    if available < MEMORY_MIB + SERVER_MEMORY_MIB:
        return f"needs {MEMORY_MIB + SERVER_MEMORY_MIB} MiB of free memory, {available} are left"
    return ""


def _initiator(trial: Trial, machine: Machine, server: PortalServer, minutes: float) -> None:
    started = time.monotonic()
    session = Session(machine, server)
    trial.step("daemons", session.start_daemons, essential=True)
    trial.step("discovery", session.discover, essential=True)
    trial.step("wrong secret", session.wrong_secret, expected=kernel_log.PATH_LOST)
    trial.step("login", session.log_in, essential=True)
    trial.step("identity", session.identify, essential=True)
    trial.step("multipath", session.multipath, essential=True)
    trial.step("persistent reservations", session.reservations, expected=kernel_log.RESERVED)
    files = FileSystems(session)
    trial.step("write zeroes and discard", files.zero_and_discard)
    trial.step("xfs", files.xfs, essential=True)
    trial.step("grow in use", files.grow)
    trial.step("fstrim", files.trim)
    network_disk = NetworkBlockDevice(machine, server)
    if network_disk.available():
        trial.step("nbd", network_disk.use)
    else:
        trial.skip("nbd", "this kernel has no nbd module")
    trial.step("ext4", files.ext4, essential=True)
    faults = Faults(session)
    lost = kernel_log.PATH_LOST
    trial.step("server killed", faults.killed, expected=lost)
    trial.step("server killed and away for long", faults.long_outage, expected=lost)
    trial.step("server restarted", faults.restarted, expected=lost)
    trial.step("one network dead", faults.path_cut, expected=lost)
    trial.step("one session ended", faults.path_logged_out, expected=lost)
    while time.monotonic() - started < minutes * 60 and not trial.failed:
        trial.step("server killed again", faults.killed, expected=lost)
    trial.step("ext4 after the faults", files.ext4_check)
    trial.step("logout", session.log_out)


def _shares(trial: Trial, machine: Machine, server: PortalServer) -> None:
    """Runs the guest's own NFS client on a file system of the pool."""
    shares = Shares(machine, server)
    if not shares.available():
        trial.skip("shares", "this kernel has no NFS client")
        return
    server.make_share()
    trial.step("shares: mount", shares.mount, essential=True)
    trial.step("shares: use", shares.use)
    trial.step("shares: names", shares.names)
    trial.step("shares: load", shares.load)
    trial.step("shares: version 3", shares.older)
    trial.step("shares: locks by version 3, server killed", shares.older_locks, expected=SERVER_LOST)
    trial.step("shares: snapshots", shares.snapshots)
    trial.step("shares: server killed", shares.killed, expected=SERVER_LOST)
    trial.step("shares: names changed, server killed", shares.names_killed, expected=SERVER_LOST)
    trial.step("shares: version 4.0, server killed", shares.without_sessions, expected=SERVER_LOST)
    trial.step("shares: server restarted", shares.restarted, expected=SERVER_LOST)
    trial.step("shares: rules", shares.rules, expected=SERVER_LOST)
    trial.step("shares: unmount", shares.unmount)


def _kerberos(trial: Trial, scratch: Path, image: root.GuestImage) -> None:
    """The part with a guest, users and a server of a Kerberos realm."""
    if reason := kerberos.reason_to_skip():
        trial.skip("kerberos", reason)
        return
    folder = scratch / "kerberos"
    folder.mkdir()
    with realm.serving(folder / "realm", kerberos.SERVICE, kerberos.NETWORK.server) as center:
        keytab = kerberos.fill(center)
        server = kerberos.head(folder, center)
        machine = Machine(folder, image)
        with _met(trial, machine, server, has_share=True):
            trial.part(lambda: _tickets(trial, kerberos.Kerberos(machine, server, center, keytab)))


def _tickets(trial: Trial, users: kerberos.Kerberos) -> None:
    lost = kerberos.LOST
    trial.step("kerberos: tickets", users.prepare, essential=True)
    for version in kerberos.VERSIONS:
        for security in kerberos.SECURITIES:
            trial.step(f"kerberos: version {version}, {security}", partial(users.use, version, security), expected=lost)
    trial.step("kerberos: without sec=", users.negotiate, expected=lost)
    trial.step("kerberos: root", users.squash, expected=lost)
    trial.step("kerberos: locks", users.locks, expected=lost)
    for version in kerberos.VERSIONS:
        trial.step(f"kerberos: version {version}, server killed", partial(users.killed, version), expected=lost)
    trial.step("kerberos: tickets renewed", users.renewed, expected=lost)
    trial.step("kerberos: a ticket expires", users.expired, expected=lost)
    trial.step("kerberos: a wrong clock", users.clock, expected=lost)


def _tls(trial: Trial, scratch: Path, image: root.GuestImage) -> None:
    """The part with a newer kernel in the guest, which supports RPC with TLS."""
    folder = scratch / "tls"
    folder.mkdir()
    server = tls.server_of(folder)
    machine = Machine(folder, newer.with_tls(image, folder))
    with _met(trial, machine, server, has_share=True):
        trial.part(lambda: _secured(trial, tls.Tls(machine, server)))


def _secured(trial: Trial, client: tls.Tls) -> None:
    lost = SERVER_LOST
    trial.step("tls: prepare", client.prepare, essential=True)
    for version in tls.VERSIONS:
        for way in tls.WAYS:
            trial.step(f"tls: version {version}, {way}", partial(client.use, version, way), expected=lost)
    trial.step("tls: refused", client.refuse, expected=lost)
    for version in tls.VERSIONS:
        trial.step(f"tls: version {version}, server killed", partial(client.killed, version), expected=lost)


def _fencing(trial: Trial, machine: Machine) -> None:
    """Runs the pool server itself in the guest, on disks of another server."""
    fencing = Fencing(machine)
    refused = kernel_log.RESERVED
    trial.step("two heads, shared disks", fencing.log_in, essential=True)
    trial.step("disks reserved", fencing.claim, expected=refused, essential=True)
    trial.step("taken from a head that still writes", fencing.take_from_the_living, expected=refused, essential=True)
    trial.step("taken from a frozen head that resumes", fencing.take_from_the_frozen, expected=refused, essential=True)
    trial.step("disks given back", fencing.give_back, expected=refused, essential=True)
    trial.step("heads log out", fencing.log_out)


def _drills(trial: Trial, appliance: Appliance, machine: Machine) -> None:
    """Injects the faults of the pair, during the guest's writes."""
    drills = Drills(appliance, machine)
    lost = kernel_log.PATH_LOST
    trial.step("two heads: attach", drills.attach, essential=True)
    for drill in drills.catalogue:
        trial.step(f"two heads: {drill.name}", partial(drills.perform, drill), expected=lost)
    trial.step("two heads: detach", drills.detach)


def _one_server(parts: Sequence[str], trial: Trial, scratch: Path, image: root.GuestImage, minutes: float) -> None:
    """The parts with one server, on two portals."""
    if "fencing" in parts:
        image = luggage.pack(scratch, image, {"bulkhead": program(), "zdb": Path(checked(["which", "zdb"], 10).strip())})
    machine = Machine(scratch, image)
    server = PortalServer(scratch)
    with _met(trial, machine, server):
        if "initiator" in parts:
            trial.part(lambda: _initiator(trial, machine, server, minutes))
        if "shares" in parts:
            trial.part(lambda: _shares(trial, machine, server))
        if "fencing" in parts:
            trial.part(lambda: _fencing(trial, machine))


def _two_heads(trial: Trial, scratch: Path, image: root.GuestImage, profile: str) -> None:
    """The part with the appliance."""
    appliance = Appliance(profile)
    try:
        took = appliance.up()
    except LabIncapable as error:
        trial.skip("two heads", str(error))
        return
    try:
        appliance.export()
        print(f"two heads: the lab is up after {took:.0f} s, profile {profile}")
        machine = Machine(scratch, image, NETWORKS, appliance.plug_in())
        try:
            _boot(trial, machine)
            trial.part(lambda: _drills(trial, appliance, machine))
        finally:
            machine.power_off()
    finally:
        appliance.down()


def _kernel_zfs(trial: Trial, scratch: Path, image: root.GuestImage) -> None:
    """The part with ZFS in the guest's kernel, and our server in the same guest."""
    started = time.monotonic()
    built = modules.kernel_zfs(image)
    print(f"kernel ZFS: modules ready after {time.monotonic() - started:.0f} s")
    image = luggage.pack(scratch, image, {"bulkhead": program(), **kernel_zfs.programs()}, built)
    pools, disks = kernel_zfs.KernelZfs(), kernel_zfs.make_disks(scratch)
    machine = Machine(scratch, image, disks=disks)
    known, lost = kernel_zfs.STARTED, kernel_zfs.SERVER_LOST
    try:
        _boot(trial, machine)
        trial.step("kernel ZFS", partial(pools.enter, machine), expected=known, essential=True)
        trial.step("our pool", pools.make_ours, expected=known, essential=True)
        trial.step("our streams, received by the kernel", pools.send_ours, expected=known, essential=True)
        trial.step("the kernel's streams, received by us", pools.send_theirs, expected=known)
        trial.step("our log, left by a kill", pools.leave_our_log, expected=lost, essential=True)
        trial.step("the kernel imports our pool", pools.kernel_takes_over, expected=known, essential=True)
        trial.step("the kernel's log, left by a power cut", pools.leave_their_log, expected=known, essential=True)
        machine.power_off()
        machine = Machine(scratch, image, disks=disks)
        _boot(trial, machine)
        trial.step("kernel ZFS again", partial(pools.enter, machine), expected=known, essential=True)
        trial.step("we take the pool over", pools.we_take_over, expected=known)
        trial.step("we serve the kernel's pool", pools.we_serve_theirs, expected=known)
    finally:
        machine.power_off()


def _rescue(trial: Trial, scratch: Path, image: root.GuestImage) -> None:
    """The part with the contents of a volume, opened by the commands that a rescue prints."""
    image = luggage.pack(scratch, rescue.with_tools(image, scratch), {"bulkhead": program()})
    machine = Machine(scratch, image, disks=[rescue.make_disk(scratch)])
    known = rescue.STARTED
    try:
        _boot(trial, machine)
        rescues = rescue.Rescue(machine)
        trial.step("rescue: a pool and a volume", rescues.prepare, expected=known, essential=True)
        trial.step("rescue: partitions of each kind", rescues.fill, expected=known, essential=True)
        trial.step("rescue: recognition", rescues.recognised, expected=known)
        trial.step("rescue: writable", partial(rescues.opened, False), expected=known, essential=True)
        trial.step("rescue: read-only", partial(rescues.opened, True), expected=known)
        trial.step("rescue: labels changed on request", rescues.labels_changed, expected=known)
    finally:
        machine.power_off()


def _files(trial: Trial, scratch: Path, image: root.GuestImage, seed: int, rounds: int, logs: int, parts: Sequence[str]) -> None:
    """The parts with ZFS in the guest's kernel, and our files on its disk."""
    seed = seed or random.SystemRandom().randrange(1, 1 << 31)
    print(f"files: seed {seed}")
    image = luggage.pack(scratch, image, kernel_files.programs(scratch), modules.kernel_zfs(image))
    disk = files_disk.FilesDisk(scratch)
    files = kernel_files.KernelFiles(scratch, disk, seed)
    if "files-odd-records" in parts:
        trial.judged("odd records: a pool", files.make_pool, essential=True)
        _odd_records(trial, scratch, image, disk, files)
        disk.empty()
        _foreign_records(trial, scratch, image, disk)
        disk.empty()
    if "files-many-logs" in parts:
        _many_logs(trial, scratch, image, disk, seed, rounds, logs)
        disk.empty()
    if "files" in parts or "files-both-ways" in parts:
        _both_ways(trial, scratch, image, disk, files, rounds if "files-both-ways" in parts else 0)


def _odd_records(trial: Trial, scratch: Path, image: root.GuestImage, disk: files_disk.FilesDisk, files: kernel_files.KernelFiles) -> None:
    trial.judged("odd records: we write them", files.we_try, essential=True)
    _kernel_replays(trial, Machine(scratch, image, disks=[disk.path]), "odd records", files.enter, files.kernel_tries)
    trial.judged("odd records: the pool after them", files.audit_tried)


def _foreign_records(trial: Trial, scratch: Path, image: root.GuestImage, disk: files_disk.FilesDisk) -> None:
    records = foreign_records.ForeignRecords(scratch, disk)
    trial.judged("foreign records: we write them", records.leave, essential=True)
    _kernel_replays(trial, Machine(scratch, image, disks=[disk.path]), "foreign records", records.enter, records.kernel_replays)
    trial.judged("foreign records: we replay them, with the same result", records.compare)


def _kernel_replays(trial: Trial, machine: Machine, what: str, enter: Callable[[Machine], str], replays: Callable[[], str]) -> None:
    """Runs in a virtual machine that is off again afterwards."""
    known = kernel_zfs.STARTED
    try:
        _boot(trial, machine)
        trial.step(f"{what}: kernel ZFS", partial(enter, machine), expected=known, essential=True)
        trial.step(f"{what}: the kernel replays them", replays, expected=known, essential=True)
    finally:
        machine.power_off()


def _many_logs(trial: Trial, scratch: Path, image: root.GuestImage, disk: files_disk.FilesDisk, seed: int, rounds: int, logs: int) -> None:
    """In each round a new pool, with one log per file system in each direction."""
    known = kernel_zfs.STARTED
    by_kernel = by_us = 0
    for number in range(rounds):
        disk.empty()
        many = many_logs.ManyLogs(scratch, disk, seed + number, logs)
        trial.judged(f"logs of seed {seed + number}: ours, left by a kill", many.we_leave_logs, essential=True)
        machine = Machine(scratch, image, disks=[disk.path])
        try:
            _boot(trial, machine)
            trial.step("logs: kernel ZFS", partial(many.enter, machine), expected=known, essential=True)
            trial.step("logs: the kernel replays ours", many.kernel_replays, expected=known, essential=True)
            trial.step("logs: the kernel's, left by a power cut", many.kernel_leaves_logs, expected=known, essential=True)
        finally:
            machine.power_off()
        trial.judged("logs: we replay the kernel's", many.we_replay, essential=True)
        by_kernel, by_us = by_kernel + many.by_kernel, by_us + many.by_us
    print(f"logs: {by_kernel} of ours replayed by the kernel, {by_us} of the kernel's by us, 0 wrong")


def _both_ways(trial: Trial, scratch: Path, image: root.GuestImage, disk: files_disk.FilesDisk, files: kernel_files.KernelFiles, rounds: int) -> None:
    """Trees that each side reads; in each round each replays the log of the other, and the kernel reads the files
    that we replayed before."""
    trial.judged("files: we write", files.we_write, essential=True)
    known = kernel_zfs.STARTED
    for number in range(max(rounds, 1)):
        machine = Machine(scratch, image, disks=[disk.path])
        try:
            _boot(trial, machine)
            trial.step("files: kernel ZFS", partial(files.enter, machine), expected=known, essential=True)
            if number == 0:
                trial.step("files: the kernel reads our files", files.kernel_reads, expected=known, essential=True)
            if not rounds:
                return
            if number == 0:
                trial.step("files: the kernel writes", files.kernel_writes, expected=known, essential=True)
                trial.judged("files: we read the kernel's files", files.we_read, essential=True)
            trial.judged("files: our log, left by a kill", files.we_leave_a_log, essential=True)
            trial.step("files: the kernel replays our log", files.kernel_replays, expected=known, essential=True)
            trial.step("files: the kernel's log, left by a power cut", files.kernel_leaves_a_log, expected=known, essential=True)
        finally:
            machine.power_off()
        trial.judged("files: a copy of the disk", files.copy_disk, essential=True)
        machine = Machine(scratch, image, disks=[files.twin])
        try:
            _boot(trial, machine)
            trial.step("files: kernel ZFS of the copy", partial(files.enter, machine), expected=known, essential=True)
            trial.step("files: the kernel replays its own log", files.kernel_replays_its_own, expected=known, essential=True)
        finally:
            machine.power_off()
        trial.judged("files: we replay the kernel's log", files.we_replay, essential=True)
    print(f"files: {files.replayed_by_kernel} logs of ours replayed by the kernel, {files.replayed_by_us} of the kernel's by us, 0 wrong")


def _two_kernels(trial: Trial, scratch: Path, image: root.GuestImage, rounds: int, seed: int) -> None:
    """The part with two guests, each of them a head."""
    seed = seed or random.SystemRandom().randrange(1, 1 << 31)
    zdb = Path(checked(["which", "zdb"], 10).strip())
    image = luggage.pack(scratch, image, {"bulkhead": program(), "bulkhead-agent": program().with_name("bulkhead-agent"), "zdb": zdb})
    raw = shelf.RawDisks(scratch)
    trial.part(lambda: _rounds(trial, two_kernels.TwoKernels(scratch, image, raw, seed), rounds, seed))
    server = PortalServer(scratch)
    reserved = shelf.ReservedDisks(server)
    try:
        server.prepare()
        server.start()
        server.wait_ready()
        trial.part(lambda: _rounds(trial, two_kernels.TwoKernels(scratch, image, reserved, seed), rounds, seed))
        trial.audit(lambda: _audit(server))
    finally:
        server.kill()


def _judges(trial: Trial, scratch: Path, image: root.GuestImage, equipment: judges.Equipment, arguments: argparse.Namespace) -> None:
    """The part with judges of files over NFS in the guest, and the kernel's server next to ours."""
    seed = arguments.seed or random.SystemRandom().randrange(1, 1 << 31)
    image = judges.pack(scratch, image, equipment.programs)
    machine = Machine(scratch, image, disks=[judges_disk.copy_of(equipment.disk, scratch)])
    server = PortalServer(scratch)
    sides = [judges.SIDES[name] for name in arguments.side or judges.SIDES if name in judges.SIDES]
    with _met(trial, machine, server, has_share=True):
        bench = judges.Judges(machine, seed)
        trial.step("judges: prepare", bench.prepare, essential=True)
        for side in sides:
            trial.part(partial(_judge_side, trial, bench, side, arguments.judge or judges.ALL))


def _xfstests(trial: Trial, scratch: Path, image: root.GuestImage, disk: Path, arguments: argparse.Namespace) -> None:
    """The part with xfstests: by each version on the kernel's server, then on ours."""
    machine = Machine(scratch, image, disks=[judges_disk.copy_of(disk, scratch)])
    server = xfstests.Server(scratch)
    with _met(trial, machine, server, has_share=True):
        suite = xfstests.Suite(machine, arguments.tests)
        trial.judged("xfstests: prepare", suite.prepare, essential=True)
        for side in (xfstests.SIDES[name] for name in arguments.side or xfstests.SIDES if name in xfstests.SIDES):
            trial.judged(f"xfstests: {side.name}", partial(suite.perform, side))


def _kernel_build(trial: Trial, scratch: Path, image: root.GuestImage, disk: Path, targets: str, seed: int) -> None:
    """The part with a build of Linux while the server is killed."""
    seed = seed or random.SystemRandom().randrange(1, 1 << 31)
    print(f"kernel build: seed {seed}")
    machine = Machine(scratch, image, disks=[judges_disk.copy_of(disk, scratch)])
    server = kernel_build.Server(scratch)
    with _met(trial, machine, server, has_share=True):
        build = kernel_build.Build(machine, server, targets, seed)
        trial.step("kernel build: prepare", build.prepare, essential=True)
        trial.step("kernel build: unpack", build.unpacked, essential=True)
        trial.step("kernel build: build", build.built)


def _filebench(trial: Trial, scratch: Path, image: root.GuestImage, disk: Path, built: filebench.Built, arguments: argparse.Namespace) -> None:
    """The part that measures. The sides alternate, and each round starts with a different side."""
    image = luggage.pack(scratch, image, {}, [built.archive])
    machine = Machine(scratch, image, disks=[judges_disk.copy_of(disk, scratch)])
    server = filebench.Ours(scratch)
    sides = list(filebench.SIDES)
    with filebench.ganesha(scratch) as peer, _met(trial, machine, server, has_share=True):
        servers = {filebench.OURS: server, filebench.GANESHA: peer}
        load = filebench.Filebench(machine, judges.Judges(machine, 0), built, servers)
        trial.step("filebench: prepare", load.prepare, essential=True)
        trial.step("filebench: the kernel's server", load.serve_by_kernel, expected=judges.KERNEL_SERVER, essential=True)
        trial.step("filebench: idle servers", load.look_at_idle_servers, essential=True)
        for number in range(arguments.rounds or 1):
            first = number % len(sides)
            for name in arguments.personality or filebench.PERSONALITIES:
                for side in sides[first:] + sides[:first]:
                    trial.step(f"filebench: {name} on {side}", partial(load.run, name, side), expected=judges.KERNEL_SERVER)
        print(load.figures.table())


def _judge_side(trial: Trial, bench: judges.Judges, side: judges.Side, names: Sequence[str]) -> None:
    expected = judges.KERNEL_SERVER
    if not side.is_ours:
        trial.step(f"{side.name}: serve", bench.serve_by_kernel, expected=expected, essential=True)
    trial.step(f"{side.name}: mount", partial(bench.mount, side), expected=expected, essential=True)
    for name in names:
        if bench.has(name):
            trial.step(f"{side.name}: {name}", partial(bench.perform, name, side), expected=expected)
        else:
            trial.skip(f"{side.name}: {name}", judges.WHY_MISSING)
    trial.step(f"{side.name}: unmount", partial(bench.unmount, side), expected=expected)


def _rounds(trial: Trial, kernels: two_kernels.TwoKernels, rounds: int, seed: int) -> None:
    try:
        trial.judged("two kernels", kernels.boot, essential=True)
        trial.judged("a pool of two kernels", kernels.make_pool, essential=True)
        for number, fault in enumerate(two_kernels.plan(kernels, rounds)):
            trial.judged(f"round {number + 1} of seed {seed}: {fault}", partial(kernels.perform, number, fault), essential=True)
        trial.judged("the pool", kernels.audit)
        print(f"two kernels: {rounds} rounds, {kernels.acknowledged} acknowledged, 0 lost")
    finally:
        kernels.power_off()


@contextlib.contextmanager
def _met(trial: Trial, machine: Machine, server: PortalServer, has_share: bool = False) -> Iterator[None]:
    """Boots the guest with a server. Its pool is checked afterwards."""
    try:
        server.prepare()
        server.start()
        server.wait_ready()
        if has_share:
            server.make_share()
        _boot(trial, machine)
        yield
        machine.power_off()
        trial.audit(lambda: _audit(server))
    finally:
        machine.power_off()
        server.kill()


def _boot(trial: Trial, machine: Machine) -> None:
    started = time.monotonic()
    machine.wait_booted()
    print(f"guest: booted by {machine.kind} after {time.monotonic() - started:.0f} s")
    machine.run("dmesg --clear")
    trial.machine = machine


def _audit(server: PortalServer) -> str:
    server.stop()
    findings = server.audit()
    require(not findings, f"zdb found: {findings}")
    return "zdb read every block and found nothing"


def main(argv: list[str]) -> int:
    """Runs the parts and prints the verdict."""
    arguments = _arguments(argv)
    if reason := _reason_to_skip():
        print(f"skipped: {reason}")
        print("linux initiator: 0 passed, 0 failed, 1 skipped")
        return 0
    parts = arguments.only or PARTS
    started = time.monotonic()
    image = root.guest_image()
    print(f"guest: Linux {image.release}, ready after {time.monotonic() - started:.0f} s")
    # The networks of the proof have no route to the outside: downloads are finished before.
    if any(part.startswith(("kernel-zfs", "files")) for part in parts):
        modules.kernel_zfs(image)
    if "tls" in parts:
        newer.fetch()
    if "rescue" in parts:
        rescue.fetch()
    equipment = judges.fetch() if "judges" in parts else None
    disk, built = (judges_disk.judges_disk(), filebench.built()) if "filebench" in parts else (None, None)
    suite = xfstests.disk() if "xfstests" in parts else None
    kernel = kernel_build.disk(arguments.targets) if "kernel-build" in parts else None
    make_networks()
    trial = Trial()
    with runtime.scratch("linux", arguments.keep) as scratch:
        if {"initiator", "shares", "fencing"} & set(parts):
            _one_server(parts, trial, scratch, image, arguments.minutes)
        if "kerberos" in parts:
            _kerberos(trial, scratch, image)
        if "tls" in parts:
            _tls(trial, scratch, image)
        if "drills" in parts:
            _two_heads(trial, scratch, image, arguments.profile)
        if "kernel-zfs" in parts:
            trial.part(lambda: _kernel_zfs(trial, scratch, image))
        if any(part.startswith("files") for part in parts):
            trial.part(lambda: _files(trial, scratch, image, arguments.seed, arguments.rounds or FILES_ROUNDS, arguments.logs, parts))
        if "rescue" in parts:
            trial.part(lambda: _rescue(trial, scratch, image))
        if "two-kernels" in parts:
            _two_kernels(trial, scratch, image, arguments.rounds or ROUNDS, arguments.seed)
        if equipment:
            trial.part(partial(_judges, trial, scratch, image, equipment, arguments))
        if disk and built:
            trial.part(partial(_filebench, trial, scratch, image, disk, built, arguments))
        elif "filebench" in parts:
            trial.skip("filebench", filebench.WHY_MISSING)
        if suite:
            trial.part(partial(_xfstests, trial, scratch, image, suite, arguments))
        elif "xfstests" in parts:
            trial.skip("xfstests", xfstests.WHY_MISSING)
        if kernel:
            trial.part(partial(_kernel_build, trial, scratch, image, kernel, arguments.targets, arguments.seed))
        elif "kernel-build" in parts:
            trial.skip("kernel-build", kernel_build.WHY_MISSING)
    print(f"took {time.monotonic() - started:.0f} s")
    print(trial.verdict())
    return 0 if trial.failed == 0 else 1


if __name__ == "__main__":
    runtime.command(main)
