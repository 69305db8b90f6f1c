"""Attempts the actions open to a compromised server; prints the name of each attempt that succeeded, then END."""

import ctypes
import mmap
import os
import socket
import stat
import struct
import sys

place, victim, abstract = sys.argv[1], int(sys.argv[2]), sys.argv[3]
libc = ctypes.CDLL(None, use_errno=True)
REFUSED = (1, 13, 30, 38)  # EPERM, EACCES, EROFS, ENOSYS
BAD = ctypes.c_void_p(8)  # no address that can be read


def reaches(number, *arguments):
    """Returns whether the kernel checks the arguments of a system call, on x86-64."""
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *arguments)
    return done >= 0 or ctypes.get_errno() not in REFUSED


def reads(path):
    with open(path, "rb") as file:
        return bool(file.read(1))


def opens(path):
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    return True


def is_device(path, kind, flags):
    fd = os.open(path, flags | os.O_NONBLOCK)
    try:
        facts = os.fstat(fd)
        return kind(facts.st_mode) and facts.st_rdev != os.makedev(1, 3)
    finally:
        os.close(fd)


def system_disk():
    """A device with a mounted file system."""
    for line in open("/proc/self/mountinfo"):
        number = line.split()[2]
        if os.path.exists(f"/sys/dev/block/{number}"):
            name = os.path.basename(os.path.realpath(f"/sys/dev/block/{number}"))
            if os.path.exists(f"/dev/{name}"):
                return f"/dev/{name}"
    raise OSError("none")


def changes(call, *arguments, **named):
    call(*arguments, **named)
    return True


def connects(kind, address):
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.connect(address)
    return True


def opened_by_a_ring(path):
    """io_uring carries calls out that no filter of system calls sees."""
    parameters = ctypes.create_string_buffer(120)
    ring = libc.syscall(425, 4, parameters)
    if ring < 0:
        return False
    fields = struct.unpack_from("30I", parameters.raw)
    sq, cq = fields[10:20], fields[20:30]
    rings = mmap.mmap(ring, max(sq[6] + 4 * 4, cq[5] + 16 * fields[1]), offset=0)
    entries = mmap.mmap(ring, 64 * 4, offset=0x10000000)
    name = ctypes.create_string_buffer(path.encode())
    entries[:64] = struct.pack("BBHiQQIIQ24x", 18, 0, 0, -100, 0, ctypes.addressof(name), 0, os.O_RDONLY, 1)
    struct.pack_into("I", rings, sq[6], 0)
    struct.pack_into("I", rings, sq[1], 1)
    if libc.syscall(426, ring, 1, 1, 1, None, 0) < 1:
        return False
    _, result, _ = struct.unpack_from("QiI", rings, cq[5])
    return result >= 0 and bool(os.read(result, 1))


class Limits(ctypes.Structure):
    _fields_ = [("now", ctypes.c_ulong), ("most", ctypes.c_ulong)]


other = f"{place}/other/state"
TRIES = {
    "read the passwords": lambda: reads("/etc/shadow"),
    "read the cluster's key": lambda: reads(f"{place}/cluster/authkey"),
    "read the heads' key": lambda: reads(f"{place}/head/peer-key"),
    "read a hidden file": lambda: reads(f"{place}/alone"),
    "list the directory of the cluster's key": lambda: bool(os.listdir(f"{place}/cluster")),
    "open the heads' key by io_uring": lambda: opened_by_a_ring(f"{place}/head/peer-key"),
    "write another's state": lambda: opens(other),
    "make a file next to it": lambda: changes(os.mkdir, f"{place}/other/new"),
    "change its mode": lambda: changes(os.chmod, other, 0o666),
    "change its owner": lambda: changes(os.chown, other, 1, 1),
    "change its times": lambda: changes(os.utime, other, (1, 1)),
    "set an attribute of it": lambda: changes(os.setxattr, other, "user.new", b"x"),
    "cut it": lambda: changes(os.truncate, other, 1),
    "link it": lambda: changes(os.link, other, f"{place}/other/link"),
    "name it otherwise": lambda: changes(os.rename, other, other),
    "make a symbolic link": lambda: changes(os.symlink, other, f"{place}/other/symbolic"),
    "make a node of a device": lambda: changes(os.mknod, f"{place}/own/node", stat.S_IFBLK | 0o600, os.makedev(7, 0)),
    "make a node in /dev": lambda: changes(os.mknod, f"/dev/bulkhead-test-{os.getpid()}", stat.S_IFCHR | 0o600, os.makedev(1, 5)),
    "have all programs of a user that crash start another": lambda: opens("/proc/sys/kernel/core_pattern"),
    "command the kernel": lambda: opens("/proc/sysrq-trigger"),
    "set how another is killed": lambda: opens(f"/proc/{victim}/oom_score_adj"),
    "see the machine's disk": lambda: stat.S_ISBLK(os.stat(system_disk()).st_mode),
    "read the machine's disk": lambda: is_device(system_disk(), stat.S_ISBLK, os.O_RDONLY),
    "write the machine's disk": lambda: is_device(system_disk(), stat.S_ISBLK, os.O_WRONLY),
    "open the kernel's log": lambda: is_device("/dev/kmsg", stat.S_ISCHR, os.O_WRONLY),
    "open the maker of loop devices": lambda: is_device("/dev/loop-control", stat.S_ISCHR, os.O_RDWR),
    "mount": lambda: reaches(165, BAD, BAD, BAD, 0, BAD),
    "unmount": lambda: reaches(166, BAD, 0),
    "move a mount": lambda: reaches(429, -1, BAD, -1, BAD, 0),
    "open a tree": lambda: reaches(428, -1, BAD, 0),
    "change a mount": lambda: reaches(442, -1, BAD, 0, BAD, 32),
    "pivot the root": lambda: reaches(155, BAD, BAD),
    "change the root": lambda: reaches(161, BAD),
    "make a name space": lambda: reaches(272, 0x04000000),
    "join a name space": lambda: reaches(308, -1, 0),
    "open by a handle": lambda: reaches(304, -1, BAD, 0),
    "attach to a process": lambda: reaches(101, 0x4206, victim, 0, 0),
    "write a process' memory": lambda: opens(f"/proc/{victim}/mem"),
    "read a process' memory": lambda: reaches(310, victim, BAD, 0, BAD, 0, 0),
    "look into a process' root": lambda: bool(os.listdir(f"/proc/{victim}/root")),
    "signal a process": lambda: reaches(62, victim, 0),
    "signal a thread": lambda: reaches(200, victim, 0),
    "signal a thread of a process": lambda: reaches(234, victim, victim, 0),
    "hold a process": lambda: reaches(434, victim, 0),
    "limit a process": lambda: reaches(302, victim, 7, ctypes.byref(Limits(64, 64)), None),
    "connect to an abstract socket": lambda: connects(socket.SOCK_STREAM, "\0" + abstract),
    "connect to another pool's socket": lambda: connects(socket.SOCK_STREAM, f"{place}/own/socket"),
    "make a socket for packets of its kind": lambda: changes(socket.socket, socket.AF_UNIX, socket.SOCK_SEQPACKET),
    "receive all packets of the network": lambda: changes(socket.socket, 17, socket.SOCK_RAW),
    "set the clock": lambda: reaches(227, 0, BAD),
    "set the time": lambda: reaches(164, BAD, None),
    "adjust the clock": lambda: reaches(159, BAD),
    "name the machine": lambda: reaches(170, BAD, 1),
    "name its domain": lambda: reaches(171, BAD, 1),
    "load a module": lambda: reaches(175, BAD, 0, BAD),
    "load a module from a file": lambda: reaches(313, -1, BAD, 0),
    "remove a module": lambda: reaches(176, BAD, 0),
    "start another kernel": lambda: reaches(246, 0, 99, BAD, 0),
    "turn the host off": lambda: reaches(169, 0, 0, 0, None),
    "swap": lambda: reaches(167, BAD, 0),
    "load BPF code into the kernel": lambda: reaches(321, 99, BAD, 8),
    "watch the machine's events": lambda: reaches(298, BAD, 0, -1, -1, 0),
    "handle faults of pages": lambda: reaches(323, 0),
    "make a key": lambda: reaches(248, BAD, BAD, BAD, 0, 0),
    "use keys": lambda: reaches(250, 0, -3, 0, 0, 0),
    "use ports of devices": lambda: reaches(173, 0x80, 1, 1),
    "use all ports of devices": lambda: reaches(172, 3),
    "watch files of other processes": lambda: reaches(300, 0, 0),
    "read the kernel's log": lambda: reaches(103, 10, None, 0),
    "account for processes": lambda: reaches(163, BAD),
}

for name, attempt in TRIES.items():
    try:
        worked = attempt()
    except OSError:
        worked = False
    if worked:
        print(name)
print("END")
