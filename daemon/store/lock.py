"""One daemon per home directory (B5 #26): an advisory lock that the kernel frees when its process dies, however it dies."""

import fcntl
import os
from pathlib import Path
from types import TracebackType

from daemon.core.errors import HomeInUse

NAME = "daemon.lock"


class HomeLock:
    """Held while the process works in HOME. The file stays; only the lock on it counts, so a dead owner is no obstacle."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._fd = -1

    def __enter__(self) -> "HomeLock":
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._home / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            owner = _owner(fd)
            os.close(fd)
            raise HomeInUse(_refusal(self._home, owner)) from exc
        os.truncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.truncate(self._fd, 0)
        os.close(self._fd)
        self._fd = -1


def _owner(fd: int) -> str:
    return os.pread(fd, 32, 0).decode(errors="replace").strip()


def _refusal(home: Path, owner: str) -> str:
    who = f"process {owner}" if owner else "another process"
    stop = f"stop it with `kill {owner}`" if owner else "wait until it has ended"
    return f"{home} is in use by {who}; nothing was changed. Use the aidaemon that runs there, {stop}, or give another --home."
