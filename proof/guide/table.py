"""The state that the reader of each page has, and the commands that are not run here."""

from __future__ import annotations

from proof.guide.blocks import Page

TARGET = "iqn.2026-01.org.example:tank"
POOL = "truncate -s 64G /srv/a /srv/b; export BULKHEAD_SEARCH=/srv; bulkhead pool create tank mirror /srv/a /srv/b\n"
VOLUMES = POOL + "serve tank; bulkhead volume create tank/vm0 --size 64M --sparse; bulkhead volume create tank/iso --size 16M --sparse\n"
OFFERED = VOLUMES + f"bulkhead target create {TARGET}; bulkhead target map {TARGET} tank/vm0\n"
DISKS = "mkdir -p /srv/disks; truncate -s 1G /srv/disks/d{1..6} /srv/disks/n{1..3}\n"
MIRROR = (
    "bulkhead pool export tank --in-use 2>/dev/null || true; bulkhead pool destroy tank --yes-destroy-all-data; rm -rf /srv/disks/*; " + DISKS
    + "bulkhead pool create tank mirror /srv/disks/d1 /srv/disks/d2; serve tank\n"
)
SECRET = "a secret of ann"

CERTIFICATES = (
    "openssl req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=tank.example.org -keyout server-key.pem -out server-cert.pem 2>/dev/null\n"
    "cp server-cert.pem ca-cert.pem\n"
)

PAGES: dict[str, Page] = {
    "getting-started": Page(
        elsewhere=(
            ("make ", "builds and installs: make build, proof.demo"),
            *((start, "needs a client's kernel: proof.linux") for start in ("iscsiadm", "nbd-client", "lsblk")),
        ),
    ),
    "volumes": Page(
        before=POOL + "serve tank\n",
        first=(
            ("bulkhead volume destroy tank/vm0 --recursive", "bulkhead volume create tank/vm0 --size 1M\n"),
        ),
    ),
    "snapshots": Page(
        before=VOLUMES + "bulkhead volume create tank/db/log --size 16M --sparse --parents; bulkhead volume create tank/scratch/a --size 1M --parents\n",
    ),
    "scrub": Page(
        before=VOLUMES,
        elsewhere=(
            ("scan:", "an answer"), ("48K repaired", "an answer"), ("scrubs:", "an answer"), ("next:", "an answer"), ("damaged:", "an answer"),
            ("bulkhead pool scrub tank --pause", "proof.operations slows a disk down for it"),
            ("bulkhead pool scrub tank --resume", "as above"), ("bulkhead pool scrub tank --stop", "as above"),
        ),
    ),
    "iscsi": Page(
        before=VOLUMES + f"mkdir -p /root; printf '%s' '{SECRET}' > /root/ann.secret; printf '%s' '{SECRET}' > /root/finder.secret\n",
        typed=((f"bulkhead target chap set {TARGET} --user ann   ", SECRET), (f"bulkhead target chap mutual {TARGET}", "another secret"),
               ("bulkhead target discovery set tank --user finder   ", SECRET), ("bulkhead target discovery mutual tank", "another secret")),
        after=f"bulkhead target show {TARGET}\n",
        elsewhere=(("bulkhead portal", "wants addresses of its own: programs/bulkhead/tests/cluster/portals.rs"),),
    ),
    "nbd": Page(
        before=OFFERED + "mkdir -p /etc/pki/nbd; cd /etc/pki/nbd; echo 127.0.0.1 tank.example.org >> /etc/hosts\n",
        instead=(("10.0.0.1:10809", "127.0.0.1:10809"),),
        first=(("nbdinfo 'nbds://", "serve tank --nbd 127.0.0.1:10809 --nbd unix:/run/bulkhead/tank.nbd --nbd-tls-cert server-cert.pem"
                " --nbd-tls-key server-key.pem --nbd-tls-ca ca-cert.pem\nbulkhead nbd export tank/vm0 --name vm0 --allow-certificate hypervisor1\n"),),
    ),
    "files": Page(
        before=POOL + CERTIFICATES + "serve tank\n",
        instead=(("10.0.0.1:2049", "127.0.0.1:2049"),),
        elsewhere=(
            *((start, "needs a client's kernel: proof.linux") for start in ("mount -t nfs", "ls /mnt/home/", "cp /mnt/home/")),
            *((start, "needs a client's kernel: pynfs sets and reads lists") for start in ("nfs4_setfacl", "nfs4_getfacl")),
            *((start, "needs a kernel's ZFS") for start in ("find /tank/home", "zfs ", "rsync ")),
            ("bulkhead portal add", "as for NBD: programs/bulkhead/tests/cluster/portals.rs"),
            ("bulkhead filesystem expire-client", "needs a client: proof.nfs.older_locks"),
            ("systemctl start rpc-gssd", "needs a client's kernel: proof.linux.kerberos"),
            *((start, "needs a realm: cargo test -p nfs --test kerberos")
              for start in ("kadmin -q", "bulkhead pool-server tank --nfs 10.0.0.1:2049 --nfs-keytab")),
        ),
    ),
    "file-systems": Page(before=POOL + "serve tank\n"),
    "pools": Page(
        before="export BULKHEAD_SEARCH=/srv/disks\n" + DISKS,
        instead=(*((f"DISK{number}", f"/srv/disks/d{number}") for number in range(1, 7)),
                 *((f"NVME{number}", f"/srv/disks/n{number}") for number in range(1, 4)), ("OLD", "/srv/disks/d1"), ("NEW", "/srv/disks/d3")),
        elsewhere=(
            ("space:", "an answer"), ("61T are", "an answer"),
            ("bulkhead pool events tank --follow", "never ends"), ("bulkhead pool replace tank OLD        #", "needs a replaced disk"),
            ("bulkhead pool replace-disk tank     ", "needs a bad disk: tests/care.rs"), ("bulkhead pool replace-disk tank --yes", "as above"),
            *((start, "an answer") for start in ("BAD DEVICE", "/dev/loop", "UNUSED DISK", "a new disk needs", "1. ", "2. ", "3. ", "to do it")),
        ),
        first=(("bulkhead pool create tank", "bulkhead pool destroy tank --yes-destroy-all-data --in-use 2>/dev/null || true; rm -rf /srv/disks/*\n" + DISKS),
               ("bulkhead pool set tank autoexpand=on", MIRROR + "truncate -s 2G /srv/disks/d5 /srv/disks/d6\n"),
               ("bulkhead pool online tank DISK5 --expand", "bulkhead pool list --json | python3 -c 'import json, sys; assert json.load(sys.stdin)[0][\"size\"] > 1_900_000_000'\n"),
               ("bulkhead pool events tank", MIRROR), ("bulkhead pool offline", MIRROR),
               ("bulkhead pool replace tank OLD NEW", "rm -f /srv/disks/d3; truncate -s 1G /srv/disks/d3\n")),
    ),
    "pool-growth": Page(
        before="export BULKHEAD_SEARCH=/srv/disks\n" + DISKS + "bulkhead pool create tank mirror /srv/disks/d1 /srv/disks/d2; serve tank\n"
        "bulkhead volume create tank/vm0 --size 64M --sparse\n",
        instead=tuple((f"DISK{number}", f"/srv/disks/d{number}") for number in range(1, 7)),
        elsewhere=(("bulkhead pool growth", "needs a history of days: programs/bulkhead/tests/head/growth.rs"),),
    ),
    "encryption": Page(
        before=POOL + "install -d /etc/bulkhead/key-programs; printf '#!/bin/sh\\necho a passphrase of $1\\n' > /etc/bulkhead/key-programs/vault;"
        " chmod 755 /etc/bulkhead/key-programs/vault; serve tank\n",
        elsewhere=(("bulkhead pool move", "needs two heads: the drills"), ("bulkhead bench crypto", "runs for a minute: programs/bulkhead/tests/head/encryption.rs")),
        first=(("bulkhead volume key change tank/vm1", "od -An -tx1 -N32 /dev/urandom | tr -d ' \\n' > /etc/bulkhead/keys/new\n"),),
        typed=(("bulkhead volume create tank/vm0", "a long passphrase"), ("bulkhead volume key change tank/vm0", "another passphrase")),
    ),
    "rescue": Page(
        before=VOLUMES + "bulkhead snapshot create tank/vm0@monday\n",
        elsewhere=(
            ("bulkhead volume rescue", "lasts until it is ended: programs/bulkhead/tests/head/rescue.rs"),
            ("mkdir", "tests/head/rescued_contents.rs runs the printed commands"), ("nbdfuse", "as above"), ("until", "as above"), ("mount", "as above"),
            ("...", "no command"), ("umount", "as above"), ("tank_vm0_p3=", "proof.linux.rescue runs the printed commands"),
            ("vgchange", "as above"), ("losetup", "as above"),
            ("bulkhead filesystem mount", "lasts until it is unmounted: programs/bulkhead/tests/head/mounted_files.rs"),
        ),
    ),
    "recovery": Page(before=POOL.replace("/srv", "/srv/moved").replace("truncate", "mkdir -p /srv/moved; truncate") + "unset BULKHEAD_SEARCH; rm -rf /var/lib/bulkhead/*\n"),
    "replication": Page(
        before=VOLUMES + "truncate -s 64G /srv/c; bulkhead pool create vault /srv/c; serve vault --iscsi 127.0.0.1:3261,1 --nbd 127.0.0.1:10810\n",
        instead=((" | ssh other ", " | "), ("$(ssh other ", "$("), ("there$ ", ""), ("here$  ", "")),
        first=(("bulkhead snapshot send tank/vm0@tuesday --from @monday | ssh other bulkhead", "bulkhead snapshot create tank/vm0@tuesday\n"),),
        elsewhere=(
            ("bulkhead snapshot send tank/vm0@tuesday --from @monday | ssh other zfs", "needs a kernel's ZFS"),
            ("bulkhead snapshot receive vault/vm0 --resumable <", "needs an interrupted stream: proof.operations"), ("token=", "as above"),
            ("bulkhead snapshot send --resume", "as above"), ("bulkhead snapshot receive vault/vm0 --abort", "as above"),
            ("there$", "needs two appliances: programs/bulkhead/tests/head/replication.rs"), ("here$", "as above"),
        ),
    ),
    "monitoring": Page(
        before="mkdir -p /etc/prometheus\n",
        elsewhere=(
            ("bulkhead watch drops --interface", "names the card of a head: programs/bulkhead/tests/head/lost_packets.rs"),
            ("bulkhead bench network", "needs two hosts: programs/bulkhead/tests/head/network_bench.rs"),
        ),
        typed=(("bulkhead user add", "a long enough password"),),
    ),
    "notifications": Page(
        before="install -d /etc/bulkhead; printf '%s\\n' 'format = 1' 'name = \"shed\"' '[networks]' '[heads]' '[alerts.receivers.duty.program]'"
        " 'path = \"/usr/bin/true\"' > /etc/bulkhead/appliance.toml\n",
    ),
    "api": Page(
        before=VOLUMES,
        elsewhere=(("bulkhead head  ", "runs until it is stopped: proof.api"), ("curl", "proof.api")),
        typed=(("bulkhead user add", "a long enough password"),),
    ),
    "command-line": Page(
        before="mkdir -p /usr/local/share/man/man1; truncate -s 64G /srv/a /srv/b; export BULKHEAD_SEARCH=/srv\n",
        instead=(("/dev/disk/by-id/scsi-a", "/srv/a"), ("/dev/disk/by-id/scsi-b", "/srv/b")),
        typed=((f"bulkhead target chap set {TARGET}", SECRET),),
    ),
}
"""The pages that are run."""

NOT_RUN: dict[str, str] = {
    "appliance": "needs heads: programs/bulkhead/tests/cluster/appliance.rs, the drills",
    "pair": "needs heads: the drills, console/tests/setup.test.mjs",
    "upgrade": "needs heads: proof.upgrade",
    "failures": "needs heads: the drills",
    "legs": "needs heads: programs/bulkhead/tests/legs/pair_of_legs.rs, proof.demo_legs",
    "lab": "needs namespaces of its own: programs/bulkhead/tests/cluster/lab.rs",
    "drills": "needs a lab: drill-short",
    "clients": "settings of other systems",
    "ceph": "needs a Ceph cluster: proof.ceph --only served:guide",
    "growth": "needs Ceph's tools: proof.growth --only guide",
    "linux-initiator": "proof.linux",
    "hardware": "needs disks with health and an enclosure: programs/bulkhead/tests/head/hardware.rs, core/hardware",
    "host": "settings of real hosts: services/cluster/src/tuning.rs",
    "power": "needs heads and systemd: services/cluster/tests/upsd.rs",
    "running-as-a-service": "needs systemd: packaging's tests, the drills",
}
"""The pages that are not run, and the tests that cover them."""
