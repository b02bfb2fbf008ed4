"""A sandbox for machines without bubblewrap: the kernel's landlock and a system call filter (E5).

Run as a program of its own (`python -I -S landlock.py [--network] [--read PLACE] [--write PLACE] --
COMMAND ...`) it runs COMMAND in a child that restricts itself, so nothing has to happen between the
daemon's fork and exec, and kills what outlives it. It imports nothing of ours. Unlike bubblewrap it
does not hide other processes, and does not keep modes and owners of files elsewhere from being
changed by their owner.
"""

import ctypes
import os
import platform
import resource
import signal
import stat
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

LEAST_ABI = 4  # the first that restricts the network
CREATE, ADD, RESTRICT = 444, 445, 446
VERSION, BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL = 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL
READ_RIGHTS = EXECUTE | READ_FILE | READ_DIR
DEVICE_RIGHTS = READ_FILE | WRITE_FILE | TRUNCATE
KNOWN = {4: (1 << 15) - 1, 5: (1 << 16) - 1}  # every right over files, by ABI
TCP, ABSTRACT_AND_SIGNALS = 0b11, 0b11
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
PROC_FILES = (
    "cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems",
    "sys/kernel", "sys/vm", "sys/fs",
)  # fmt: skip

DIE_WITH, SECCOMP, DROP_BOUND, REAP_ALL, NO_NEW_RIGHTS = 1, 22, 24, 36, 38
FILTER, LAST_CAPABILITY = 2, 63
# The machine's number in the kernel, and its numbers of socket, ioctl, clone and unshare.
MACHINES = {
    "x86_64": (0xC000003E, 41, 16, 56, 272),
    "aarch64": (0xC00000B7, 198, 29, 220, 97),
}
# Keys, tracing, the kernel's own programs, mounts and namespaces: of no use to a command.
REFUSED_CALLS = {
    "x86_64": (
        250, 248, 249, 101, 321, 298, 323, 165, 166, 155, 161, 246, 320, 304, 310, 311, 308, 312,
        175, 313, 176, 167, 168, 169, 179, 163, 103, 172, 173,
    ),
    "aarch64": (
        219, 217, 218, 117, 280, 241, 282, 40, 39, 41, 51, 104, 294, 265, 270, 271, 268, 272,
        105, 273, 106, 224, 225, 142, 60, 89, 116,
    ),
}  # fmt: skip
# The same everywhere: pidfd_getfd, io_uring, and the newer calls about mounts.
REFUSED_CALLS_BY_ALL = (438, 425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 467)
# Calls that give a file its mode, and which argument that is; of openat2 it cannot be seen.
WITH_MODE = {
    "x86_64": (
        (90, 1), (91, 1), (268, 2), (452, 2), (85, 1), (133, 1), (259, 2),
    ),
    "aarch64": ((52, 1), (53, 2), (452, 2), (33, 2)),
}  # fmt: skip
# Of these only if they make a file, as the argument before it says.
OPEN_WITH_MODE = {"x86_64": ((2, 2), (257, 3)), "aarch64": ((56, 3),)}
MAKES_FILE = 0o100 | 0o20000000
SET_USER, OPENAT2 = 0o6000, 437
CLONE3, FOREIGN = 435, 0x40000000
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
NEW_NAMESPACES = 0x7E020080
TYPE_INTO_TERMINAL = (0x5412, 0x541C)
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, REFUSE, ABSENT, KILL = 0x7FFF0000, 0x00050000 | 13, 0x00050000 | 38, 0x80000000
MORE_PROCESSES = 1024
EXIT_FAILED = 126


def get_abi() -> int:
    """The kernel's version of landlock; 0 without it, or where the filter does not know the CPU."""
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        return 0
    with suppress(OSError):
        return _call("syscall", CREATE, None, 0, VERSION)
    return 0


def restrict(*, readable: Iterable[Path], writable: Iterable[Path], network: bool) -> None:
    """From now on this process and its children reach only these places. Raises OSError."""
    version = get_abi()
    if version < LEAST_ABI:
        raise OSError(0, f"landlock {LEAST_ABI} is needed, the kernel has {version}")
    files = KNOWN[min(version, max(KNOWN))]
    attributes = struct.pack("QQQ", files, 0 if network else TCP, ABSTRACT_AND_SIGNALS)
    attributes = attributes[: 24 if version >= 6 else 16]
    ruleset = _call("syscall", CREATE, attributes, len(attributes), 0)
    for rights, places in (
        (READ_RIGHTS, (*readable, *(f"/proc/{name}" for name in PROC_FILES))),
        (files, writable),
        (DEVICE_RIGHTS, (f"/dev/{name}" for name in DEVICES)),
    ):
        for place in places:
            _allow(ruleset, place, files & rights)
    _call("prctl", NO_NEW_RIGHTS, 1, 0, 0, 0)
    if os.geteuid() == 0:
        with suppress(OSError):  # the kernel knows fewer
            for capability in range(LAST_CAPABILITY):
                _call("prctl", DROP_BOUND, capability, 0, 0, 0)
    _call("syscall", RESTRICT, ruleset, 0)
    os.close(ruleset)
    _filter_calls(network)


def main(words: Sequence[str]) -> int:
    """Run the command in a child that restricts itself; kill what outlives it. The exit code."""
    at = words.index("--")
    options, command = iter(words[:at]), words[at + 1 :]
    places: dict[str, list[Path]] = {"--read": [], "--write": []}
    network = False
    for option in options:
        if option == "--network":
            network = True
        else:
            places[option].append(Path(next(options)))
    try:
        _call("prctl", REAP_ALL, 1, 0, 0, 0)
        if child := os.fork():
            return _supervise(child)
        _call("prctl", DIE_WITH, signal.SIGKILL, 0, 0, 0)
        _limit_processes()
        with suppress(OSError):  # when memory runs out, the kernel kills this before the daemon
            Path("/proc/self/oom_score_adj").write_text("1000")
        restrict(readable=places["--read"], writable=places["--write"], network=network)
        os.execvp(command[0], list(command))
    except OSError as error:
        sys.stderr.write(f"the command could not be sandboxed: {error}\n")
    return EXIT_FAILED


def _supervise(child: int) -> int:
    """Whoever leaves the command's session becomes our child when its parent has gone."""
    signal.signal(signal.SIGTERM, lambda *_: _kill_children())
    _call("prctl", DIE_WITH, signal.SIGTERM, 0, 0, 0)
    code: int | None = None
    with suppress(ChildProcessError):
        while True:
            ended, status = os.wait()
            if ended == child:
                code = os.waitstatus_to_exitcode(status)
            if code is not None:
                _kill_children()
    return EXIT_FAILED if code is None else code if code >= 0 else 128 - code


def _kill_children() -> None:
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)


def _allow(ruleset: int, place: Path | str, rights: int) -> None:
    """A missing place needs no rule; a file has fewer rights than a directory."""
    try:
        handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= FILE_RIGHTS
        rule = struct.pack("=Qi", rights, handle)
        _call("syscall", ADD, ruleset, BENEATH, rule, 0)
    finally:
        os.close(handle)


def build_filter(families: Iterable[int], machine: str = platform.machine()) -> bytes:
    """The system calls of a command, as the kernel's filter reads it; sockets of these families.

    What it refuses reaches past a sandbox of files and processes. A program that asks for clone3 is
    told that there is none, because its flags cannot be looked at, and takes clone.
    """
    number, socket, ioctl, clone, unshare = MACHINES[machine]
    steps = [
        (LOAD, 0, 0, 4), (EQUAL, 1, 0, number), (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0), (AT_LEAST, 0, 1, FOREIGN), (RETURN, 0, 0, REFUSE),
        (EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ABSENT),
        (EQUAL, 0, 1, OPENAT2), (RETURN, 0, 0, ABSENT),
    ]  # fmt: skip
    for call in (*REFUSED_CALLS[machine], *REFUSED_CALLS_BY_ALL):
        steps += [(EQUAL, 0, 1, call), (RETURN, 0, 0, REFUSE)]
    known = [step for one in families for step in ((EQUAL, 0, 1, one), (RETURN, 0, 0, ALLOW))]
    typing = [
        (EQUAL, len(TYPE_INTO_TERMINAL) - at, 0, one) for at, one in enumerate(TYPE_INTO_TERMINAL)
    ]
    modes = [(ANY_BIT, 1, 0, SET_USER), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    makes = [(ANY_BIT, 1, 0, MAKES_FILE), (RETURN, 0, 0, ALLOW)]
    spaces = [(ANY_BIT, 1, 0, NEW_NAMESPACES)]
    for call, argument, checks in (
        (socket, 16, [*known, (RETURN, 0, 0, REFUSE)]),
        (ioctl, 24, [*typing, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]),
        (clone, 16, [*spaces, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]),
        (unshare, 16, [*spaces, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]),
        *((call, 16 + 8 * at, modes) for call, at in WITH_MODE[machine]),
        *(
            (call, 8 + 8 * at, [*makes, (LOAD, 0, 0, 16 + 8 * at), *modes])
            for call, at in OPEN_WITH_MODE[machine]
        ),
    ):
        steps += [(EQUAL, 0, len(checks) + 1, call), (LOAD, 0, 0, argument), *checks]
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _filter_calls(network: bool) -> None:
    """No socket at all; with the network, none of the local kind: local services obey anybody."""
    code = build_filter((INET, INET6, NETLINK) if network else ())
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    _call("prctl", SECCOMP, FILTER, program, 0, 0)


def _limit_processes() -> None:
    """The kernel counts all processes of the user, so the limit lies above what runs now."""
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = running + MORE_PROCESSES
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def _call(function: str, *words: int | bytes | None) -> int:
    """A function of the C library; whole words, as the kernel takes them. Raises OSError."""
    whole = (ctypes.c_ulong(word) if isinstance(word, int) else word for word in words)
    found = int(ctypes.CDLL(None, use_errno=True)[function](*whole))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
