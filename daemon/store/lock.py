"""One daemon per home directory (K26): an advisory lock that the kernel frees when its process
dies, however it dies.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

from daemon.core.errors import HomeInUse

LOCK_FILE = "daemon.lock"
PAUSES_S = (0.02, 0.05, 0.0)


@contextmanager
def lock_home(home: Path) -> Iterator[None]:
    """Held while the process works in HOME. The file stays; only the lock on it counts, so a dead
    owner is no obstacle. Raises HomeInUse.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _try_lock(fd):
        owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
        os.close(fd)
        raise HomeInUse(_in_use_message(home, owner))
    os.truncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    try:
        yield
    finally:
        os.truncate(fd, 0)
        os.close(fd)


def is_locked(home: Path) -> bool:
    """Some process works in HOME now. Looking takes nothing and writes nothing."""
    try:
        fd = os.open(home / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _try_lock(fd: int) -> bool:
    """A command that looks whether a daemon runs shares the lock for a moment: that moment is
    waited out.
    """
    for pause_s in PAUSES_S:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(pause_s)
        else:
            return True
    return False


def _in_use_message(home: Path, owner: str) -> str:
    who = f"process {owner}" if owner else "another process"
    stop = f"stop it with `kill {owner}`" if owner else "wait until it has ended"
    return (
        f"{home} is in use by {who}; nothing was changed."
        f" Use the aidaemon that runs there, {stop}, or give another --home."
    )
