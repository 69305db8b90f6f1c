"""Linux's own NFS client by RPC with TLS: a kernel that supports it, ``tlshd``, a server with a certificate, and a
client with one or without."""

from __future__ import annotations

import base64
from pathlib import Path

from proof.linux import newer
from proof.linux.machine import Answer, Machine
from proof.linux.network import NETWORKS
from proof.linux.shares import NANOSECONDS, PAUSE_SECONDS_MAX
from proof.linux.steps import FIO, fio_report, require
from proof.linux.target import SHARE, PortalServer
from proof.process import checked
from proof.servers.bulkhead import POOL

NETWORK = NETWORKS[0]
NAME, OTHER_NAME = "tank.proof.example", "other.proof.example"
"""The server's certificate is for the first name; the second resolves to the same address."""
MOUNT = "/mnt/tls"
SOURCE = f"/{POOL}/{SHARE}"
RULE = f"rw={NETWORK.prefix},no_root_squash"
VERSIONS = ("4.2", "4.1", "4.0")
WAYS = ("tls", "mtls")
COMMAND_SECONDS = 60.0
MOUNT_SECONDS = 150.0
USE_SECONDS = 300.0
WRITE_SECONDS = 400.0
KILLS = 2


def make_certificates(folder: Path) -> None:
    """Creates an authority, and certificates of the server and of the client."""
    folder.mkdir()
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    checked([*new, "-subj", "/CN=authority", "-keyout", folder / "ca-key.pem", "-out", folder / "ca.pem"], COMMAND_SECONDS)
    signed = [*new, "-CA", folder / "ca.pem", "-CAkey", folder / "ca-key.pem", "-addext", "basicConstraints=critical,CA:FALSE"]
    for name, host in (("server", NAME), ("client", "guest.proof.example")):
        names = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
        checked([*signed, *names, "-keyout", folder / f"{name}-key.pem", "-out", folder / f"{name}.pem"], COMMAND_SECONDS)


def server_of(scratch: Path) -> PortalServer:
    """Creates a server with the certificates."""
    folder = scratch / "certificates"
    make_certificates(folder)
    words = (("cert", "server.pem"), ("key", "server-key.pem"), ("ca", "ca.pem"))
    return PortalServer(scratch, options=tuple(word for name, file in words for word in (f"--nfs-tls-{name}", str(folder / file))))


class Tls:
    """Actions of a client on a share that requires TLS."""

    def __init__(self, machine: Machine, server: PortalServer):
        self._machine = machine
        self._server = server

    def prepare(self) -> str:
        """``tlshd`` runs in the guest, in a root of its own."""
        root = f"/{newer.PLACE}"
        folder = self._server.scratch / "certificates"
        files = "".join(
            f"echo {base64.b64encode((folder / name).read_bytes()).decode()} | base64 -d >{root}/etc/{name}; chmod 600 {root}/etc/{name}\n"
            for name in ("ca.pem", "client.pem", "client-key.pem")
        )
        settings = "x509.truststore=/etc/ca.pem\\nx509.certificate=/etc/client.pem\\nx509.private_key=/etc/client-key.pem"
        self._machine.run(
            f"""
            modprobe nfsv4; modprobe tls; hosts='127.0.0.1 localhost\\n{NETWORK.server} {NAME} {OTHER_NAME}\\n'
            mkdir -p {root}/proc {root}/dev {root}/sys; for folder in proc dev sys; do mount --rbind /$folder {root}/$folder; done
            printf "$hosts" >/etc/hosts; printf "$hosts" >{root}/etc/hosts
            {files}
            printf '[debug]\\nloglevel=1\\n[authenticate.client]\\n{settings}\\n' >{root}/etc/tlshd.conf
            setsid chroot {root} tlshd -s -c /etc/tlshd.conf >>/run/tlshd.log 2>&1 </dev/null & echo $! >/run/tlshd.pid
            sleep 1; kill -0 $(cat /run/tlshd.pid)
            """,
            MOUNT_SECONDS,
        )
        return f"Linux {self._machine.run('uname -r').strip()} and tlshd"

    def _mount(self, options: str, name: str = NAME) -> Answer:
        mounting = f"timeout 90 mount -t nfs -o proto=tcp,{options} {name}:{SOURCE} {MOUNT}; grep ' {MOUNT} ' /proc/mounts"
        answer = self._machine.attempt(f"mkdir -p {MOUNT}; ! mountpoint -q {MOUNT} || umount -l {MOUNT}; {mounting}", MOUNT_SECONDS)
        if answer.status:
            return Answer(answer.status, f"{answer.output}\n{self._machine.run('tail -n 15 /run/tlshd.log')}", answer.seconds)
        return answer

    def _mounted(self, options: str) -> str:
        answer = self._mount(options)
        require(answer.status == 0, f"mount -o {options}: {answer.output}")
        return answer.output.strip()

    def _unmount(self) -> None:
        self._machine.run(f"umount {MOUNT}", MOUNT_SECONDS)

    def use(self, version: str, way: str) -> str:
        """Contents are read back unchanged, a lock excludes, and a tree is walked."""
        self._server.share(f"{RULE},xprtsec={way}")
        shown = self._mounted(f"vers={version},xprtsec={way}")
        require(f"vers={version}" in shown and f"xprtsec={way}" in shown, f"another mount: {shown}")
        self._machine.run(
            f"""
            cd {MOUNT}; rm -rf own; mkdir own; cd own; dd if=/dev/urandom of=/tmp/noise bs=64k count=100 2>/dev/null; cp /tmp/noise noise; sync
            echo 3 >/proc/sys/vm/drop_caches; cmp /tmp/noise noise; mv noise moved; exec 9>lock; flock -n 9; ! flock -n lock true; exec 9>&-
            for n in $(seq 1 100); do echo $n >$n; done; ls | wc -l | grep -qx 102; cd ..; rm -r own
            """,
            USE_SECONDS,
        )
        self._unmount()
        return "6.5 MB compared, a lock, 100 files"

    def refuse(self) -> str:
        """A client without the security that the share requires is refused, and a client refuses a server of another
        name."""
        told = []
        for rule, others in (("mtls", ("none", "tls")), ("tls", ("none", "mtls"))):
            self._server.share(f"{RULE},xprtsec={rule}")
            for other in others:
                refused = self._mount(f"vers=4.2,xprtsec={other}")
                require(refused.status != 0, f"a share with xprtsec={rule} was mounted with {other}")
                told.append(refused.output.strip().splitlines()[0].split(":")[-1].strip())
        refused = self._mount("vers=4.2,xprtsec=tls", OTHER_NAME)
        require(refused.status != 0, "the client accepted a server with a certificate for another name")
        return f"{len(told)} refused ({', '.join(sorted(set(told)))}); another name refused"

    def killed(self, version: str) -> str:
        """``kill -9`` while the client writes by mtls: no error, and no lost data."""
        self._server.share(f"{RULE},xprtsec=mtls")
        self._mounted(f"vers={version},xprtsec=mtls")
        file = f"{MOUNT}/written"
        how = f"--filename={file} --rw=randwrite --bs=16k --size=8m --fsync=1 --rate=,700k"
        job = self._machine.start(f"{FIO} {how}; rm {file}", WRITE_SECONDS)
        for kilobytes in range(1, KILLS + 1):
            self._machine.run(f"until [ $(stat -c %b {file} 2>/dev/null || echo 0) -gt {kilobytes * 2000} ]; do sleep 0.1; done", WRITE_SECONDS)
            self._server.kill()
            self._server.restart()
        report = fio_report(job.output())
        longest = max(report["write"]["clat_ns"]["max"], report["sync"]["lat_ns"]["max"]) / NANOSECONDS
        require(longest < PAUSE_SECONDS_MAX, f"a write took {longest:.1f} s")
        self._unmount()
        return f"{KILLS} kills, {report['write']['total_ios']} writes with fsync verified, longest pause {longest:.1f} s"


__all__ = ["VERSIONS", "WAYS", "Tls", "server_of"]
