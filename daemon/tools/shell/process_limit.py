"""Bounds how many processes a command or a server has at once, and kills all of them (K9)."""

import asyncio
import os
import signal
import threading
import time
from asyncio import get_running_loop
from asyncio.subprocess import Process
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex

KILL_POLL_S, KILL_S = 0.0002, 3.0
COUNT_OFTEN_S = 0.01
MAX_PROCESSES, COUNT_EVERY_S = 512, 0.1  # half of what the kernel allows: it grows on
KERNEL_LIMIT = 2 * MAX_PROCESSES
WALK_S = 1.0  # others may have ended meanwhile
FIRST = -15  # of a thread that has to be in time, as nice(2) counts
TOO_MANY = f"it had more than {MAX_PROCESSES} processes at once"
GROUP, OLD_S = "aidaemon-", 60.0


@contextmanager
def kernel_limit(*, wanted: bool = True) -> Iterator[Callable[[int], None]]:
    """Gives what makes the kernel count a process and all below it, for root, whom its ordinary
    limit does not bind. It does nothing for others, and where there are no control groups for
    processes alone: in the one group of version 2 a command would leave its service's other limits.
    """
    group = _make_group() if wanted and not os.getuid() else None
    try:
        yield partial(_join, group)
    finally:
        with suppress(OSError):  # some of it may take a moment to end: a later one removes it
            if group:
                group.rmdir()


def _join(group: Path | None, pid: int) -> None:
    """The process first: what it starts from then on is in the group."""
    waiting = [str(pid)]
    while group and waiting:
        one = waiting.pop()
        with suppress(OSError):  # it has ended
            (group / "cgroup.procs").write_text(one)
            waiting += _list_children(one)


def _make_group() -> Path | None:
    with suppress(OSError):
        if own := find_group():
            _remove_old(own)
            group = own / f"{GROUP}{token_hex(8)}"
            group.mkdir()
            (group / "pids.max").write_text(str(KERNEL_LIMIT))
            return group
    return None


def find_group(pid: int | str = "self") -> Path | None:
    """The control group for processes that a process is in, or this one; what bounds it, bounds
    those in groups below. Raises OSError.
    """
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    own = [place for _, kind, place in (line.split(":", 2) for line in lines) if kind == "pids"]
    return Path(f"/sys/fs/cgroup/pids{own[0]}") if own else None


def _remove_old(place: Path) -> None:
    """What a killed daemon left. The kernel removes none in which something runs; a new one may not
    have been joined yet.
    """
    for group in place.glob(f"{GROUP}*"):
        with suppress(OSError):
            if time.time() > group.stat().st_mtime + OLD_S:
                group.rmdir()


class CrowdGuard:
    """Kills a process that has more below it than may be. For root, of whose processes the kernel
    counts none; for others the kernel counts. A thread looks: a busy event loop would be late.
    """

    def __init__(self, process: Process) -> None:
        self.process, self.killed, self._loop = process, asyncio.Event(), get_running_loop()
        self.is_crowded = False
        self._closed = threading.Event()
        if not os.getuid():
            name = f"count below {process.pid}"
            threading.Thread(target=self._watch, name=name, daemon=True).start()

    def _watch(self) -> None:
        with suppress(OSError):  # what multiplies would leave it no time
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), FIRST)
        others, looked, pause = _count_machine(), time.monotonic(), COUNT_EVERY_S
        while not self._closed.wait(pause):
            count, now = _count_machine(), time.monotonic()
            pause = COUNT_EVERY_S if count < MAX_PROCESSES // 2 else COUNT_OFTEN_S
            # To walk through many takes long enough for as many more: only where it may decide.
            most = count if now >= looked + WALK_S else count - others
            if most <= MAX_PROCESSES:
                continue
            below, looked = _count_below(self.process.pid), now
            others = count - below
            if below > MAX_PROCESSES:
                self.is_crowded = True
                kill_group(self.process)
                with suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self.killed.set)
                return

    def close(self) -> None:
        """The process has ended."""
        self._closed.set()


def _count_machine() -> int:
    """Processes and threads of the whole machine, at the cost of one small file."""
    return int(_read("/proc/loadavg").split()[3].partition(b"/")[2])


def _count_below(pid: int) -> int:
    count, waiting = 0, [str(pid)]
    while waiting and count + len(waiting) <= MAX_PROCESSES:  # what multiplies is not waited for
        one, count = waiting.pop(), count + 1
        with suppress(OSError):
            waiting += _list_children(one)
    return count + len(waiting)


def _list_children(pid: int | str) -> list[str]:
    """Those of all its threads. Raises OSError."""
    found = list[str]()
    for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  fewer calls
        with suppress(OSError):  # it has ended
            found += _read(f"/proc/{pid}/task/{task}/children").decode().split()
    return found


def _read(path: str) -> bytes:
    """By three calls: after each of them a busy event loop may make this thread wait."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 65_536)
    finally:
        os.close(file)


def kill_group(process: Process) -> None:
    """Kill the group, but first the leader's children, which may have groups of their own.

    The leader is stopped meanwhile, so that it cannot fork. A signal takes some microseconds, and
    on a machine without a free processor as long as it takes until what it kills has its turn.
    """
    pid = process.pid
    if process.returncode is None:
        ended, end = set[str](), time.monotonic() + KILL_S
        with suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
            while _state(pid) not in "TtZX" and time.monotonic() < end:
                time.sleep(KILL_POLL_S)
            # Those of one that ends become its children: listed again after the last has ended.
            while (left := set(_list_children(pid)) - ended) and time.monotonic() < end:
                for child in left:
                    with suppress(ProcessLookupError):
                        os.kill(int(child), signal.SIGKILL)
                ended |= {child for child in left if _state(child) in "ZX"}
                time.sleep(KILL_POLL_S)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _state(pid: int | str) -> str:
    """One letter of the kernel's; X where there is none any more."""
    with suppress(OSError):
        return _read(f"/proc/{pid}/stat").rpartition(b")")[2][1:2].decode()
    return "X"
