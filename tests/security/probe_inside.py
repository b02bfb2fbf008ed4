"""Runs inside a sandbox, imports nothing of ours: `probe_inside.py OUTSIDE` prints {probe: whether it may}.

Each is harmless where nothing holds it back: files are opened, not written; system calls get arguments that the kernel
refuses after it has looked whether the caller may ask at all.
"""

import ctypes
import errno
import json
import os
import platform
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

OUTSIDE, PARENT, PORT, SCREEN = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
C = ctypes.CDLL(None, use_errno=True)
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
AT = 0 if platform.machine() == "x86_64" else 1
NEW_USER = 0x10000000


def asks(x86: int, arm: int, *words: int) -> Callable[[], bool]:
    """Whether the kernel listens to this call at all."""

    def ask() -> bool:
        found = C.syscall(ctypes.c_long((x86, arm)[AT]), *map(ctypes.c_long, words))
        return found >= 0 or ctypes.get_errno() not in REFUSED

    return ask


def opens(path: str | Path, flags: int = os.O_WRONLY) -> Callable[[], bool]:
    def ask() -> bool:
        os.close(os.open(path, flags))
        return True

    return ask


def forked(deed: Callable[[], bool]) -> Callable[[], bool]:
    """In a child, because it changes the process."""

    def ask() -> bool:
        child = os.fork()
        if not child:
            found = False
            with suppress(OSError):
                found = deed()
            os._exit(0 if found else 1)
        return os.waitpid(child, 0)[1] == 0

    return ask


def connects(
    family: int, address: str | tuple[str, int], kind: int = socket.SOCK_STREAM
) -> Callable[[], bool]:
    def ask() -> bool:
        with socket.socket(family, kind) as made:
            made.settimeout(2)
            made.connect(address)
            return True

    return ask


def changes_mode() -> bool:
    place = OUTSIDE / "secret.txt"
    place.chmod(0o666)
    return True


def is_root() -> bool:
    """As the machine outside counts."""
    rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return os.getuid() == 0 and rows[0][:2] == ["0", "0"]


def has_capabilities() -> bool:
    line = next(
        one
        for one in Path("/proc/self/status").read_text().splitlines()
        if one.startswith("CapEff")
    )
    return int(line.split()[1], 16) != 0


def opens_vsock() -> bool:
    socket.socket(40, socket.SOCK_STREAM).close()
    return True


def sees_processes() -> bool:
    return Path("/proc", str(PARENT)).exists()


def lists_keys() -> bool:
    return bool(Path("/proc/keys").read_text())


def mounts() -> bool:
    """A kind of file system that there is not."""
    C.mount(b"none", b"made", b"nosuch", ctypes.c_ulong(0), None)
    return ctypes.get_errno() not in REFUSED


def dumps_daemon() -> bool:
    return bool(Path(f"/proc/{PARENT}/environ").read_bytes())


PROBES: dict[str, Callable[[], bool]] = {
    "is root of the machine": is_root,
    "has capabilities": has_capabilities,
    "write core_pattern": opens("/proc/sys/kernel/core_pattern"),
    "write kernel.modprobe": opens("/proc/sys/kernel/modprobe"),
    "write sysrq-trigger": opens("/proc/sysrq-trigger"),
    "write in /sys": opens("/sys/kernel/uevent_helper"),
    "write a system program": opens("/usr/bin/env"),
    "write /etc/passwd": opens("/etc/passwd"),
    "read /etc/shadow": opens("/etc/shadow", os.O_RDONLY),
    "read a file outside": opens(OUTSIDE / "secret.txt", os.O_RDONLY),
    "write a file outside": opens(OUTSIDE / "secret.txt"),
    "change the mode of a file outside": changes_mode,
    "read a disk": opens("/dev/vda", os.O_RDONLY),
    "read the kernel's memory": opens("/proc/kcore", os.O_RDONLY),
    "see other processes": sees_processes,
    "read the daemon's environment": dumps_daemon,
    "signal the daemon": lambda: os.kill(PARENT, 0) is None,
    "ask the session keyring": asks(250, 219, 0, -3, 0),
    "add a key": asks(248, 217, 0, 0, 0, 0, 0),
    "list keys": lists_keys,
    "new user namespace": forked(asks(272, 97, NEW_USER)),
    "mount": forked(mounts),
    "ptrace": forked(asks(101, 117, 0, 0, 0, 0)),
    "bpf": asks(321, 280, 0, 0, 0),
    "perf_event_open": asks(298, 241, 0, 0, -1, -1, 0),
    "userfaultfd": asks(323, 282, -1),
    "io_uring": asks(425, 425, 0, 0),
    "open_by_handle_at": asks(304, 265, -1, 0, 0),
    "read another's memory": asks(310, 270, 1, 0, 0, 0, 0, 0),
    "type into the terminal": lambda: (
        C.ioctl(0, 0x5412, 0) == 0 or ctypes.get_errno() == errno.EFAULT
    ),
    "reach a service of this machine": connects(socket.AF_INET, ("127.0.0.1", PORT)),
    "reach a local socket": connects(socket.AF_UNIX, str(OUTSIDE / "service")),
    "reach an abstract socket": connects(socket.AF_UNIX, "\0" + SCREEN),
    "reach the virtual machine's host": opens_vsock,
}

if __name__ == "__main__":
    found = {}
    for name, probe in PROBES.items():
        try:
            found[name] = probe()
        except OSError:
            found[name] = False
    sys.stdout.write("PROBED " + json.dumps(found))
