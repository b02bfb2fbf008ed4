"""Makes what a sandbox beside the daemon may write of a folder read-only for it, and back; with the
standard library alone. A program of its own, for who enters another's mounts does not come back.

`remount.py find PID FOLDER` prints its mounts there, as JSON; `remount.py ro|rw PID MOUNTS`
changes them.
"""

import ctypes
import errno
import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

NS_GET_USERNS = 0xB701
READ_ONLY, REMOUNT, BIND = 1, 32, 4096
FLAGS = {
    "nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048,
    "relatime": 1 << 21,
}  # fmt: skip
BUSY_S, POLL_S = 1.0, 0.02
Mount = tuple[str, str, str, str]  # device, its folder there, place, options


def main(words: list[str]) -> int:
    """0, or 1 where one cannot be changed, as while a file there stays open for writing."""
    what, pid, given = words
    if what == "find":
        found = find_writable(pid, Path(given))
        sys.stdout.write(json.dumps(found))
        return 0
    enter(pid)
    for place, options in json.loads(given):
        if error := remount(place, options, read_only=what == "ro"):
            sys.stderr.write(f"{place}: {os.strerror(error)}\n")
            return 1
    return 0


def find_writable(pid: str, folder: Path) -> list[tuple[str, str]]:
    """Where this process may write in the folder, or above it, with the options of each mount."""
    own = [one for one in read_mounts("self") if folder.is_relative_to(one[2])]
    device, top, place, _ = max(own, key=lambda one: len(one[2]))
    real = Path(top, folder.relative_to(place))
    return [
        (where, options)
        for one, root, where, options in read_mounts(pid)
        if one == device and (real.is_relative_to(root) or Path(root).is_relative_to(real))
        if "rw" in options.split(",")
    ]


def read_mounts(pid: str) -> Iterator[Mount]:
    for line in Path("/proc", pid, "mountinfo").read_text().splitlines():
        _, _, device, root, place, options, *_ = line.split(" ")
        yield device, _unescape(root), _unescape(place), options


def _unescape(text: str) -> str:
    return re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), text)


def enter(pid: str) -> None:
    """Its mounts, with the rights of who made them. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    libc.setns(fcntl.ioctl(mounts, NS_GET_USERNS), 0)  # not where it is ours already
    if libc.setns(mounts, 0):
        raise OSError(ctypes.get_errno(), "its mounts cannot be entered")


def remount(place: str, options: str, *, read_only: bool) -> int:
    """The number of the error, or 0. What is being written is waited for."""
    libc = ctypes.CDLL(None, use_errno=True)
    flags = sum(FLAGS.get(option, 0) for option in options.split(","))
    flags |= REMOUNT | BIND | (READ_ONLY if read_only else 0)
    end = time.monotonic() + BUSY_S
    while libc.mount(None, os.fsencode(place), None, ctypes.c_ulong(flags), None):
        if ctypes.get_errno() != errno.EBUSY or time.monotonic() > end:
            return ctypes.get_errno()
        time.sleep(POLL_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
