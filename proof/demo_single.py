"""``python3 -m proof.demo_single``: one head, from two empty files to a verified crash."""

from __future__ import annotations

import random
import time
from pathlib import Path

from proof import runtime
from proof.clients.iscsi import IscsiAddress
from proof.process import checked
from proof.runtime import ProofError
from proof.servers.base import Server, VolumeSpec
from proof.story import Story

MEBIBYTE = 1 << 20
TOOL_SECONDS = 60.0
KILLS = 3


def _image(path: Path, size: int, seed: int) -> Path:
    """Creates a disk image with verifiable contents: noise, with a hole in the middle."""
    noise = random.Random(seed)
    with path.open("wb") as file:
        for index in range(size // MEBIBYTE):
            if size // 3 <= index * MEBIBYTE < size // 2:
                file.seek(MEBIBYTE, 1)
            else:
                file.write(noise.randbytes(MEBIBYTE))
        file.truncate(size)
    return path


def _iscsi(server: Server, volume: str) -> IscsiAddress:
    address = server.iscsi(volume)
    assert address is not None
    return address


def _nbd(server: Server, volume: str) -> str:
    address = server.nbd(volume)
    assert address is not None
    return address.uri


def _stock_iscsi(story: Story, server: Server, image: Path) -> None:
    address = _iscsi(server, "vm-disk")
    story.tell(f"$ iscsi-ls -s iscsi://{address.portal}")
    for line in checked(["iscsi-ls", "-s", f"iscsi://{address.portal}"], TOOL_SECONDS).strip().splitlines():
        story.tell(f"  {line}")
    story.tell(f"$ qemu-img convert {image.name} {address.url}")
    checked(["qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, address.url], TOOL_SECONDS)
    checked(["qemu-img", "compare", "-f", "raw", "-F", "raw", image, address.url], TOOL_SECONDS)
    script = ["-c", "write -P 0x42 1M 64k", "-c", "flush", "-c", "read -P 0x42 1M 64k"]
    checked(["qemu-io", "-f", "raw", *script, address.url], TOOL_SECONDS)
    with image.open("r+b") as file:
        file.seek(MEBIBYTE)
        file.write(b"\x42" * 65536)
    story.keep(f"iSCSI: qemu-img wrote {image.stat().st_size // MEBIBYTE} MiB and compared them: identical")


def _stock_nbd(story: Story, server: Server, image: Path, scratch: Path) -> None:
    uri = _nbd(server, "archive")
    story.tell(f"$ nbdcopy {image.name} {uri}")
    checked(["nbdcopy", "--flush", image, uri], TOOL_SECONDS)
    back = scratch / "back.raw"
    checked(["nbdcopy", uri, back], TOOL_SECONDS)
    checked(["cmp", image, back], TOOL_SECONDS)
    back.unlink()
    uri = _nbd(server, "scratchpad")
    story.tell(f"$ fio --ioengine=nbd --uri={uri} --rw=randwrite --verify=crc32c")
    argv = ["fio", "--name=demo", "--ioengine=nbd", f"--uri={uri}", "--rw=randwrite", "--bsrange=4k-64k", "--size=16m"]
    checked([*argv, "--iodepth=16", "--verify=crc32c", "--verify_state_save=0", "--verify_fatal=1", "--do_verify=1"], TOOL_SECONDS)
    story.keep("NBD: nbdcopy copied an image there and back unchanged; fio verified 16 MiB of random writes")


def _crash(story: Story, server: Server, seed: int) -> None:
    from proof.crash.proof import CrashProof, Plan, volumes_for_crash

    said: list[str] = []
    loaded = frozenset(spec.name for spec in volumes_for_crash())
    plan = Plan(rounds=KILLS, seed=seed, audit_every=KILLS + 1, volumes=loaded, say=said.append)
    proof = CrashProof(server, plan, prepared=True)
    tally = proof.run()
    for line in said + tally.complaints:
        story.tell(line)
    if not tally.good:
        raise ProofError(tally.verdict())
    starts = sorted(tally.start_seconds[1:])
    story.keep(
        f"{tally.rounds} times kill -9 in mid-write, {tally.acknowledged} acknowledged operations "
        f"({tally.durable} durable) checked: 0 lost"
    )
    story.tell(f"start after a crash: {starts[len(starts) // 2]:.2f} s until clients are served")


def _verify_images(story: Story, server: Server, iscsi_image: Path, nbd_image: Path) -> None:
    checked(["qemu-img", "compare", "-f", "raw", "-F", "raw", iscsi_image, _iscsi(server, "vm-disk").url], TOOL_SECONDS)
    checked(["qemu-img", "compare", "-f", "raw", "-F", "raw", nbd_image, _nbd(server, "archive")], TOOL_SECONDS)
    story.keep("both images are still identical after the crashes")


def main(argv: list[str]) -> int:
    """Runs the demo; the last line is the verdict."""
    if argv and argv[0] in ("-h", "--help"):
        print("usage: python3 -m proof.demo_single   (needs target/release/bulkhead, or $BULKHEAD)")
        return 0
    runtime.require_nbd()
    from proof.crash.proof import volumes_for_crash
    from proof.servers.bulkhead import Bulkhead

    started = time.monotonic()
    story = Story()
    seed = random.SystemRandom().randrange(1 << 32)
    modules_before = Path("/proc/modules").read_text() if Path("/proc/modules").exists() else ""
    with runtime.scratch("demo") as scratch:
        images = [VolumeSpec("vm-disk", 48 * MEBIBYTE), VolumeSpec("archive", 48 * MEBIBYTE, 131072, (("compression", "zstd"),))]
        pad = [VolumeSpec("scratchpad", 32 * MEBIBYTE)]
        server = Bulkhead(scratch, images + pad + volumes_for_crash()[:2], say=story.tell)
        story.step("Two empty files become a mirrored pool, its volumes are exported over iSCSI and NBD")
        server.prepare()
        server.say_nothing()
        story.step("One process serves the pool: no kernel module, loopback only")
        server.start()
        server.wait_ready()
        child = server.children[0]
        story.tell(f"$ bulkhead pool-server {child.argv[2]} ...   (process {child.pid}, {child.rss_bytes() >> 20} MiB)")
        if "zfs " in modules_before:
            story.tell("(this host has the zfs module loaded; Bulkhead does not use it)")
        iscsi_image, nbd_image = _image(scratch / "vm.raw", 48 * MEBIBYTE, seed), _image(scratch / "archive.raw", 48 * MEBIBYTE, seed + 1)
        story.step("Stock iSCSI clients use a volume")
        _stock_iscsi(story, server, iscsi_image)
        story.step("Stock NBD clients use two more")
        _stock_nbd(story, server, nbd_image, scratch)
        server.stop()
        story.step(f"Clients write numbered blocks over both protocols; kill -9 hits the server in mid-write (seed {seed})")
        _crash(story, server, seed)
        story.step("Started once more: is all other data still there?")
        server.start()
        server.wait_ready()
        _verify_images(story, server, iscsi_image, nbd_image)
        story.step("The pool is exported; stock zdb reads every block and verifies every checksum")
        server.stop()
        story.tell(f"$ zdb -e -p {server.directory} -bcc proof")
        if findings := server.audit():
            raise ProofError(f"zdb found: {findings}")
        story.keep("zdb found no damage and no leaked space")
    story.sum_up(time.monotonic() - started)
    return 0


if __name__ == "__main__":
    runtime.command(main)
