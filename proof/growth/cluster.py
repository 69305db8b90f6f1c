"""A real Ceph cluster in a network namespace: a monitor, a manager, disks as sparse files. Its growth is compared with
the plan."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

from proof.network import leave_the_machines_network
from proof.process import Child, checked, missing_programs
from proof.runtime import ProofError, wait_until
from proof.servers.bulkhead import program

NEEDED = ("ceph-mon", "ceph-mgr", "ceph-osd", "ceph", "rados", "monmaptool", "ceph-authtool")
COMMAND_SECONDS = 60.0
CLEAN_SECONDS = 600.0
POLL_SECONDS = 0.5
DISK_GIB = 12
DATA_MIB = 1536
SAMPLE_SECONDS = 6
"""The manager has new statistics every five seconds."""
PEERING_SECONDS = 20.0
"""Several intervals of the manager."""
GROUPS = 64
COPIES = 2
DIFFERENCE_MAX = 0.02
"""Of the predicted bytes."""

CONFIGURATION = """[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:3300,v1:127.0.0.1:6789]
public_network = 127.0.0.0/8
run_dir = {folder}/run
admin_socket = {folder}/run/$name.$pid.asok
pid_file =
log_file = {folder}/log/$name.log
crash_dir = {folder}/run
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
osd_pool_default_size = {copies}
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
ms_bind_ipv6 = false
[client]
keyring = {folder}/$name.keyring
log_file =
[mon]
mon_data = {folder}/data/mon.$id
keyring = {folder}/data/mon.$id/keyring
mon_data_avail_warn = 5
mon_data_avail_crit = 2
auth_allow_insecure_global_id_reclaim = false
[mgr]
mgr_data = {folder}/data/mgr.$id
keyring = {folder}/data/mgr.$id/keyring
[osd]
osd_data = {folder}/data/osd.$id
keyring = {folder}/data/osd.$id/keyring
osd_crush_update_on_start = false
osd_memory_target = 939524096
bluestore_cache_autotune = false
bluestore_cache_size = 67108864
bluestore_block_size = {disk_bytes}
bluestore_block_create = true
osd_max_pg_log_entries = 500
osd_min_pg_log_entries = 250
osd_op_num_shards = 2
osd_op_num_threads_per_shard = 1
"""


class Ceph:
    """The cluster. Each disk is on a host of its own in the hierarchy, and all processes are on this one."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.conf = folder / "ceph.conf"
        self.keyring = folder / "client.admin.keyring"
        self._children: list[Child] = []
        self._monmap = folder / "monmap"
        for name in ("run", "log", "data/mon.a", "data/mgr.x"):
            (folder / name).mkdir(parents=True)
        fsid = str(uuid.uuid4())
        self.conf.write_text(CONFIGURATION.format(fsid=fsid, folder=folder, copies=COPIES, disk_bytes=DISK_GIB << 30))
        self._monitor(fsid)
        self._manager()

    def _key(self, path: Path, name: str, *caps: str) -> None:
        words = [word for cap in caps for word in ("--cap", *cap.split(" ", 1))]
        checked(["ceph-authtool", "--create-keyring", path, "--gen-key", "-n", name, *words], COMMAND_SECONDS)

    def _start(self, name: str, argv: list[str | Path]) -> None:
        self._children.append(Child(name, [*argv, "-c", self.conf, "-f"], self.folder / "log" / f"{name}.out"))

    def _monitor(self, fsid: str) -> None:
        keys = self.folder / "mon.keys"
        self._key(keys, "mon.", "mon allow *")
        self._key(self.keyring, "client.admin", "mon allow *", "osd allow *", "mgr allow *")
        self._key(self.folder / "data/mgr.x/keyring", "mgr.x", "mon allow profile mgr", "osd allow *", "mds allow *")
        for path in (self.keyring, self.folder / "data/mgr.x/keyring"):
            checked(["ceph-authtool", keys, "--import-keyring", path], COMMAND_SECONDS)
        address = "[v2:127.0.0.1:3300,v1:127.0.0.1:6789]"
        words = ["--create", "--fsid", fsid, "--enable-all-features", "--set-min-mon-release", "pacific", "--addv", "a", address]
        checked(["monmaptool", *words, self._monmap], COMMAND_SECONDS)
        words = ["-c", str(self.conf), "--no-mon-config", "--mkfs", "-i", "a", "--monmap", str(self._monmap), "--keyring", str(keys)]
        checked(["ceph-mon", *words], COMMAND_SECONDS)
        self._start("mon.a", ["ceph-mon", "-i", "a"])
        self.ceph("status")

    def _manager(self) -> None:
        self._start("mgr.x", ["ceph-mgr", "-i", "x"])

    def ceph(self, *words: str) -> str:
        """Runs an administrator's command."""
        options = [f"--conf={self.conf}", f"--keyring={self.keyring}", "--connect-timeout", "30"]
        return checked(["ceph", *options, *words], COMMAND_SECONDS)

    def document(self, *words: str) -> dict:
        """Returns the output of a command as a document."""
        output = self.ceph(*words, "--format", "json")
        return json.JSONDecoder().raw_decode(output[output.index("{") :])[0]

    def add_disk(self, osd: int) -> None:
        """Creates a disk and starts it. It is in no host yet."""
        identity, directory = str(uuid.uuid4()), self.folder / "data" / f"osd.{osd}"
        directory.mkdir()
        key = directory / "keyring"
        self._key(key, f"osd.{osd}", "mon allow profile osd", "mgr allow profile osd", "osd allow *")
        self.ceph("auth", "add", f"osd.{osd}", "-i", str(key))
        words = ["-c", str(self.conf), "-i", str(osd), "--no-mon-config", "--mkfs", "--osd-uuid", identity, "--monmap", str(self._monmap)]
        checked(["ceph-osd", *words], COMMAND_SECONDS)
        self.ceph("osd", "new", identity, str(osd))
        self._start(f"osd.{osd}", ["ceph-osd", "-i", str(osd)])

    def add_hosts(self, count: int) -> None:
        """Creates a disk on each of this number of hosts, and returns when all run."""
        weight = f"{DISK_GIB / 1024:.5f}"
        for osd in range(count):
            self.add_disk(osd)
            self.ceph("osd", "crush", "add", f"osd.{osd}", weight, f"host=c{osd}", "root=default")
        self.wait_until_up(count)

    def add_pool(self, name: str, groups: int) -> None:
        """Creates a pool for images."""
        self.ceph("osd", "pool", "create", name, str(groups), str(groups))
        self.ceph("osd", "pool", "application", "enable", name, "rbd")

    def wait_until_up(self, count: int) -> None:
        """Returns when this number of disks runs."""
        wait_until(f"{count} disks are up", lambda: self.document("osd", "stat")["num_up_osds"] == count, CLEAN_SECONDS, POLL_SECONDS)

    def wait_until_clean(self) -> None:
        """Returns when no group moves."""
        wait_until("all groups are active+clean", self._is_clean, CLEAN_SECONDS, POLL_SECONDS)

    def _is_clean(self) -> bool:
        for child in self._children:
            child.require_alive()
        summary = self.document("pg", "stat")["pg_summary"]
        states = {state["name"] for state in summary["num_pg_by_state"]}
        return states == {"active+clean"} and summary["num_pgs"] >= GROUPS

    def disks(self) -> list[Child]:
        """Returns the processes of all disks."""
        return [child for child in self._children if child.name.startswith("osd.")]

    def recovered_bytes(self, disks: int) -> int:
        """Returns the bytes that all disks sent to other disks to move or repair groups."""
        counters = [self.document("tell", f"osd.{osd}", "perf", "dump")["osd"] for osd in range(disks)]
        return sum(counter["recovery_bytes"] for counter in counters)

    def data_bytes(self, osd: int) -> int:
        """Returns the bytes of objects on a disk."""
        nodes = self.document("osd", "df")["nodes"]
        return sum(node["kb_used_data"] * 1024 for node in nodes if node["id"] == osd)

    def end(self) -> None:
        """Kills all processes: nothing of the cluster is needed any more."""
        for child in reversed(self._children):
            child.kill()


def proof(folder: Path) -> None:
    """Three disks get a fourth: as many bytes move as predicted, and to the predicted groups."""
    if missing := missing_programs(NEEDED):
        print(f"cluster: skipped: install ceph-mon ceph-mgr ceph-osd ({', '.join(missing)})")
        return
    leave_the_machines_network()
    cluster = Ceph(folder)
    try:
        _grow(cluster)
    finally:
        cluster.end()


def _fill(cluster: Ceph) -> None:
    cluster.add_hosts(3)
    cluster.add_pool("rbd", GROUPS)
    cluster.wait_until_clean()
    options = [f"--conf={cluster.conf}", f"--keyring={cluster.keyring}", "-p", "rbd"]
    writes = ["bench", "600", "write", "--no-cleanup", "-b", "1M", "-t", "4", "--max-objects", str(DATA_MIB)]
    checked(["rados", *options, *writes], CLEAN_SECONDS)
    wait_until("the statistics are complete", lambda: _stored(cluster) >= DATA_MIB << 20, COMMAND_SECONDS, POLL_SECONDS)


def _stored(cluster: Ceph) -> int:
    return sum(pool["stats"]["stored"] for pool in cluster.document("df")["pools"] if pool["name"] == "rbd")


def _grow(cluster: Ceph) -> None:
    _fill(cluster)
    options = [f"--conf={cluster.conf}", f"--keyring={cluster.keyring}"]
    saved = cluster.folder / "plan.json"
    words = ["--add", f"c3=1x{DISK_GIB}G", "--stages", "once", "--save", str(saved), "--json"]
    checked([program(), "growth", "plan", *options, *words], COMMAND_SECONDS)
    plan = json.loads(saved.read_text())
    before = cluster.recovered_bytes(3)
    for command in plan["commands"]["prepare"]:
        cluster.ceph(*command.split()[1:])
    cluster.add_disk(3)
    cluster.ceph("osd", "crush", "add", "osd.3", "0", "host=c3")
    cluster.wait_until_up(4)
    cluster.wait_until_clean()
    idle = cluster.data_bytes(3)
    samples, picture = cluster.folder / "samples.jsonl", cluster.folder / "fill.svg"
    words = ["growth", "watch", str(saved), *options, "--interval", str(SAMPLE_SECONDS), "--samples", str(samples), "--svg", str(picture), "--all"]
    watch = Child("growth watch", [program(), *words], cluster.folder / "log" / "watch.out")
    wait_until("the first sample", samples.exists, COMMAND_SECONDS, POLL_SECONDS)
    figures, misplaced = plan["at_once"], 0.0
    started = time.monotonic()
    for command in plan["commands"]["stages"][0]:
        if command == "ceph osd unset norebalance":
            misplaced = _misplaced(cluster)
            started = time.monotonic()
        cluster.ceph(*command.split()[1:])
    cluster.wait_until_clean()
    seconds = time.monotonic() - started
    moved, gained = cluster.recovered_bytes(4) - before, cluster.data_bytes(3) - idle
    print(f"misplaced by ceph {misplaced:.2%}; predicted: copies {figures['copies_moved_share']:.2%}, bytes {figures['bytes_moved_share']:.2%}")
    predicted_in = next(disk["stages"][0]["bytes_in"] for disk in plan["disks"] if disk["osd"] == 3)
    _compare("bytes moved", figures["bytes_moved"], moved)
    _compare("bytes of the new disk", predicted_in, gained)
    print(f"moved in {seconds:.0f} s")
    wait_until("growth watch has exited", lambda: not watch.alive(), CLEAN_SECONDS, POLL_SECONDS)
    print(watch.log_tail())
    if watch.failed() or picture.read_text().count("<polyline") < 4:
        raise ProofError("growth watch failed, or drew no picture")


def _misplaced(cluster: Ceph) -> float:
    """Returns the largest share that ``ceph -s`` prints while nothing moves yet: groups peer one after the other."""
    deadline, found = time.monotonic() + PEERING_SECONDS, 0.0
    while time.monotonic() < deadline:
        found = max(found, cluster.document("status")["pgmap"].get("misplaced_ratio", 0.0))
    return found


def _compare(what: str, predicted: int, found: int) -> None:
    difference = found / predicted - 1
    mib = 1 << 20
    print(f"{what}: {predicted / mib:.0f} MiB predicted, {found / mib:.0f} MiB found: {difference:+.2%}")
    if abs(difference) > DIFFERENCE_MAX:
        raise ProofError(f"{what} differ by {difference:+.2%}, more than {DIFFERENCE_MAX:.0%}")
