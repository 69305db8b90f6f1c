"""The initiator as a virtual machine, and the scripts that run in it."""

from __future__ import annotations

import base64
import os
import queue
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proof.linux.monitor import Monitor
from proof.linux.network import NETWORKS, StorageNetwork
from proof.linux.root import GuestImage
from proof.process import Child, run
from proof.runtime import ProofError, at_exit, wait_until

KVM_PROCESSOR = ["-accel", "kvm", "-cpu", "host"]
EMULATED_PROCESSOR = ["-accel", "tcg", "-cpu", "max"]
MEMORY_MIB = 1536
KVM_TRIAL_SECONDS = 3.0
KVM_BOOT_SECONDS = 90.0
"""Several times the boot time of a guest by KVM. Some hosts have a virtual processor that runs the firmware and no
kernel."""
CONNECT_SECONDS = 60.0
"""qemu connects before it starts the guest."""
BOOT_SECONDS = 600.0
SCRIPT_SECONDS = 120.0
SHOWN_CHARACTERS = 1500
SCRIPT_GRACE_SECONDS = 30.0
"""More than the guest's own time-out, for a reply in flight."""


@dataclass(frozen=True)
class Answer:
    """The result of a script in the guest."""

    status: int
    output: str
    seconds: float


@dataclass
class Job:
    """A script that runs in the guest."""

    machine: Machine
    script: str
    seconds: float
    started: float = field(default_factory=time.monotonic)
    _answers: queue.Queue[Answer | None] = field(default_factory=lambda: queue.Queue(1))
    _answer: Answer | None = None

    def finish(self, answer: Answer | None) -> None:
        """Called once, by the reader: with ``None`` when the guest is gone."""
        self._answers.put(answer)

    def is_done(self) -> bool:
        """Whether it has a result, or its guest is gone."""
        return self._answer is not None or not self._answers.empty()

    def wait(self) -> Answer:
        """Blocks until its result, also of a failure."""
        if self._answer is None:
            left = max(1.0, self.started + self.seconds + SCRIPT_GRACE_SECONDS - time.monotonic())
            try:
                self._answer = self._answers.get(timeout=left)
            except queue.Empty:
                raise ProofError(f"the guest does not respond; it was running:\n{self.script}\n{self.machine.console()}") from None
            if self._answer is None:
                raise ProofError(f"the guest is gone:\n{self.machine.console()}")
        return self._answer

    def output(self) -> str:
        """Returns its output; any failure is an error with the guest's output."""
        answer = self.wait()
        if answer.status != 0:
            raise ProofError(f"in the guest, status {answer.status} of:\n{self.script.strip()}\n{_ends(answer.output.strip())}")
        return answer.output


def _ends(text: str) -> str:
    """Cuts the middle out of a long text: tools complain before their report or after it."""
    return text if len(text) <= 2 * SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}\n...\n{text[-SHOWN_CHARACTERS:]}"


class Machine:
    """A running guest."""

    def __init__(
        self,
        scratch: Path,
        image: GuestImage,
        networks: Sequence[StorageNetwork] = NETWORKS,
        enter: Sequence[str] = (),
        disks: Sequence[Path] = (),
        *,
        name: str = "guest",
        saved: Path | None = None,
    ):
        """Boots ``image`` with a card in each of ``networks``; ``enter`` is the command prefix that enters their
        namespace.

        Each of ``disks`` is a disk with the file's stem as its serial number; other guests may have it, too. A guest
        that was ``saved`` (``Monitor.save``) resumes from there instead of booting.
        """
        # Not below the scratch directory: the name of a Unix socket has 107 bytes.
        self._directory = tempfile.TemporaryDirectory(prefix="bulkhead-guest-")
        at_exit(self._directory.cleanup)
        self._log = scratch / f"{name}-console.log"
        self._what = (image, networks, enter, disks, saved)
        self._accelerated = kvm_works() and Machine.kvm_boots
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self._number = 0
        self._ready = threading.Event()
        self.release = ""
        if saved:
            self.release = image.release
            self._ready.set()
        self._begin()

    kvm_boots = True
    """False once a guest with KVM did not boot in time: KVM is not tried again."""

    def _begin(self) -> None:
        image, networks, enter, disks, saved = self._what
        path = Path(self._directory.name) / "agent"
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(1)
        self._child = Child("qemu", [*enter, *self._argv(image, networks, disks, saved)], self._log)
        listener.settimeout(CONNECT_SECONDS)
        self._socket = listener.accept()[0]
        listener.close()
        threading.Thread(target=self._read_answers, args=(self._socket,), name="guest agent", daemon=True).start()

    def monitor(self) -> Monitor:
        """Opens a connection to the virtual machine's monitor: one at a time."""
        path = Path(self._directory.name) / "monitor"
        wait_until("the monitor of qemu", path.exists, CONNECT_SECONDS)
        return Monitor(path)

    @property
    def kind(self) -> str:
        """Whether the guest is emulated or runs with KVM."""
        return "KVM" if self._accelerated else "software emulation"

    def _argv(self, image: GuestImage, networks: Sequence[StorageNetwork], disks: Sequence[Path], saved: Path | None) -> list[str | Path]:
        processor = KVM_PROCESSOR if self._accelerated else EMULATED_PROCESSOR
        addresses = ",".join(f"{network.guest}/24" for network in networks)
        # Mitigations are expensive on an emulated processor and protect nothing here.
        kernel = f"console=ttyS0 loglevel=5 panic=-1 mitigations=off nokaslr net.ifnames=0 bulkhead.addresses={addresses}"
        argv: list[str | Path] = ["qemu-system-x86_64", "-M", "pc", *processor, "-smp", "1", "-m", str(MEMORY_MIB)]
        argv += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"]
        argv += ["-kernel", image.kernel, "-initrd", image.initramfs, "-append", kernel]
        argv += ["-chardev", f"socket,id=agent,path={self._directory.name}/agent", "-device", "virtio-serial-pci"]
        argv += ["-device", "virtserialport,chardev=agent,name=bulkhead.agent"]
        for network in networks:
            argv += ["-netdev", f"tap,id={network.tap},ifname={network.tap},script=no,downscript=no"]
            argv += ["-device", f"virtio-net-pci,netdev={network.tap},mac={network.mac},romfile="]
        for disk in disks:
            # No cache of the host's: a guest reads the contents of the file.
            argv += ["-drive", f"file={disk},if=none,id={disk.stem},format=raw,cache=none,file.locking=off"]
            argv += ["-device", f"virtio-blk-pci,drive={disk.stem},serial={disk.stem},share-rw=on"]
        argv += ["-qmp", f"unix:{self._directory.name}/monitor,server=on,wait=off"]
        return [*argv, "-incoming", f"exec:cat {saved}"] if saved else argv

    def wait_booted(self) -> None:
        """Returns when the guest accepts scripts; a guest that does not boot by KVM is restarted with emulation."""
        if self._accelerated and not self._boots_within(KVM_BOOT_SECONDS):
            print(f"guest: not up by KVM within {KVM_BOOT_SECONDS:g} s: started again by software emulation")
            self._child.kill()
            Machine.kvm_boots = self._accelerated = False
            self._begin()
        if not self._boots_within(BOOT_SECONDS):
            raise ProofError(f"the guest did not boot within {BOOT_SECONDS:g} s:\n{self.console()}")

    def _boots_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._ready.wait(0.2):
            self._child.require_alive()
            if time.monotonic() > deadline:
                return False
        return True

    def start(self, script: str, seconds: float = SCRIPT_SECONDS) -> Job:
        """Starts a script for bash; the guest kills it after ``seconds``."""
        wrapped = f"timeout -k 5 {seconds:g} bash -e -o pipefail <<'BULKHEAD_SCRIPT'\n{script}\nBULKHEAD_SCRIPT\n"
        job = Job(self, script, seconds)
        with self._lock:
            self._number += 1
            self._jobs[self._number] = job
            self._socket.sendall(f"{self._number} {base64.b64encode(wrapped.encode()).decode()}\n".encode())
        return job

    def run(self, script: str, seconds: float = SCRIPT_SECONDS) -> str:
        """Runs a script to success; returns its output."""
        return self.start(script, seconds).output()

    def attempt(self, script: str, seconds: float = SCRIPT_SECONDS) -> Answer:
        """Runs a script, and returns its result even if it fails."""
        return self.start(script, seconds).wait()

    def console(self) -> str:
        """Returns the end of the output of the guest's kernel and processes."""
        return self._child.log_tail()

    def power_off(self) -> None:
        """Cuts the power."""
        self._child.kill()

    def _read_answers(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            for line in lines:
                words = line.split()
                # The first line of the console may contain noise of the port's previous use.
                if len(words) >= 2 and words[0] == b"ready":
                    self.release = words[1].decode()
                    self._ready.set()
                elif len(words) >= 2 and words[0].isdigit():
                    self._finish(int(words[0]), int(words[1]), words[2] if len(words) > 2 else b"")
        with self._lock:
            jobs, self._jobs = self._jobs, {}
        for job in jobs.values():
            job.finish(None)

    def _finish(self, number: int, status: int, output: bytes) -> None:
        with self._lock:
            job = self._jobs.pop(number, None)
        if job:
            text = base64.b64decode(output).decode(errors="replace")
            job.finish(Answer(status, text, time.monotonic() - job.started))


def kvm_works() -> bool:
    """Whether KVM really works: it is tried, because the device may exist without a guest ever making progress."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    argv = ["qemu-system-x86_64", "-M", "pc", *KVM_PROCESSOR, "-m", "64", "-nodefaults", "-no-user-config", "-display", "none"]
    # The firmware prints to this port first.
    argv += ["-chardev", "stdio,id=words", "-device", "isa-debugcon,iobase=0x402,chardev=words"]
    return "SeaBIOS" in run(argv, KVM_TRIAL_SECONDS).output
