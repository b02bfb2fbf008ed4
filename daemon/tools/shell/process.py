"""What a process prints, in bounded memory: the beginning and the end are kept, watchers see it as it comes.

A child process in a group of its own: its output streamed, its time limited, nothing of it left behind (E7).
"""

import asyncio
import codecs
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Protocol

from daemon.core import value
from daemon.tools.results import to_printable, truncate_middle

PREVIEW_INTERVAL_S = 0.1
PREVIEW_BYTES = 4000


@dataclass(slots=True)
class HeadTail:
    """The first and the last bytes of a stream of any length."""

    limit: int
    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """The stream goes on."""
        self.total += len(data)
        room = self.limit - len(self._head)
        self._head += data[: max(room, 0)]
        self._tail += data[max(room, 0) :][-self.limit :]
        if len(self._tail) > 2 * self.limit:
            del self._tail[: -self.limit]

    def text(self, max_chars: int, clean: Callable[[str], str] = str) -> str:
        """What is left of it, printable, cleaned, and no longer than this."""
        tail = bytes(self._tail[-self.limit :])
        missing = self.total - len(self._head) - len(tail)
        if not missing:
            return truncate_middle(
                clean(to_printable(_decode(bytes(self._head) + tail))), max_chars
            )
        mark = f"\n[... about {missing} bytes left out ...]\n"
        half = max((max_chars - len(mark)) // 2, 0)
        head, end = (
            clean(to_printable(_decode(bytes(self._head)))),
            clean(to_printable(_decode(tail))),
        )
        return head[:half] + mark + end[len(end) - min(half, len(end)) :]


@dataclass(slots=True)
class OutputPreview:
    """Shows what is printed in pieces, ten a second at most, each of bounded size."""

    show: Callable[[str], None]
    _pending: bytes = b""
    _timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """More was printed."""
        self._pending = _tail(self._pending + data, PREVIEW_BYTES)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PREVIEW_INTERVAL_S, self.flush)

    def flush(self) -> None:
        """Show what has come since the last time."""
        if self._timer:
            self._timer.cancel()
        self._timer, pending, self._pending = None, self._pending, b""
        if pending:
            self.show(to_printable(_decode(pending)))


@dataclass(slots=True)
class UnreadOutput:
    """What was printed since somebody last looked: the newest of it, and how much is gone."""

    limit: int
    lost: int = 0
    _pending: bytes = b""

    def feed(self, data: bytes) -> None:
        """More was printed."""
        whole = self._pending + data
        self._pending = _tail(whole, self.limit)
        self.lost += len(whole) - len(self._pending)

    def take(self, over: bool) -> str:
        """All of it, printable; a character that has only come in part waits for its rest, unless all is `over`."""
        text, used = codecs.utf_8_decode(self._pending, "replace", over)
        mark = f"[... about {self.lost} bytes left out ...]\n" if self.lost else ""
        self._pending, self.lost = self._pending[used:], 0
        return mark + to_printable(text)


def _tail(data: bytes, limit: int) -> bytes:
    """The end, from a whole word on: half a secret could not be known for one."""
    if len(data) <= limit:
        return data
    end = data[-limit:]
    at = re.search(rb"\s", end)
    return end[at.end() :] if at else end


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


DRAIN_S = 0.5
REAP_S = 5.0
STOP_TRIES, STOP_POLL_S = 20, 0.0002
TIMEOUT_EXIT_CODE = 124
WAIT_FOR_GO = "echo >&0; read -r go || exit 125; exec </dev/null; "


@value
class ProcessResult:
    """What became of a process. `exit_code` is as a shell tells it: 128 and more for a signal, 124 when its time was up."""

    exit_code: int
    output: str
    timed_out: bool = False


@value
class ProcessExit:
    """How a process came to its end; `exit_code` as in Ran."""

    exit_code: int
    timed_out: bool = False


class OutputSink(Protocol):
    """Who takes what a process prints."""

    def feed(self, data: bytes) -> None:
        """A piece of the output."""
        ...


@value
class _Tee:
    kept: HeadTail
    ticker: OutputPreview

    def feed(self, data: bytes) -> None:
        self.kept.feed(data)
        self.ticker.feed(data)


class _Pipe(asyncio.Protocol):
    """The reading end of what a process prints."""

    def __init__(self, sink: OutputSink) -> None:
        self.sink = sink
        self.closed = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """A piece of the output."""
        self.sink.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody can write any more."""
        if not self.closed.done():
            self.closed.set_result(None)


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    max_chars: int,
    on_output: Callable[[str], None],
    clean: Callable[[str], str] = str,
) -> ProcessResult:
    """Run it to its end and keep both ends of what it prints; `clean` goes over that before anything is cut off.

    Raises OSError when it cannot be started. The rest is as with run_into.
    """
    kept, ticker = HeadTail(4 * max_chars), OutputPreview(on_output)
    try:
        ended = await stream_process(
            _Tee(kept, ticker), argv, cwd=cwd, env=env, timeout_s=timeout_s
        )
    finally:
        ticker.flush()
    return ProcessResult(ended.exit_code, kept.text(max_chars, clean), ended.timed_out)


async def stream_process(
    sink: OutputSink, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> ProcessExit:
    """Run it to its end or to the end of its time. Raises OSError when it cannot be started.

    However this is left, by a stop too, the whole process group is dead by then. `argv` is a shell script that begins with
    GATE: a sandbox that is killed while it is being built can leave a child behind that nothing ties to us yet. So the command
    waits until we, alive, say go; without us it reads the end of its input and leaves (K10).
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        async with _open_pipe(sink) as (pipe, writing):
            process = await _start(argv, cwd=cwd, env=env, stdin=theirs, output=writing)
            writing.close()
            theirs.close()
            timed_out = await _wait(process, ours, pipe, timeout_s)
    return ProcessExit(_exit_code(process.returncode, timed_out), timed_out)


async def _start(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: socket.socket, output: FileIO
) -> asyncio.subprocess.Process:
    """The process. A stop in the middle waits until it is known what there is to kill: asyncio would kill the leader alone."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=dict(env),
            stdin=stdin.fileno(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait((starting,))
        if not starting.cancelled() and not starting.exception():
            _kill(starting.result())
            await asyncio.wait_for(starting.result().wait(), REAP_S)
        raise


@asynccontextmanager
async def _open_pipe(sink: OutputSink) -> AsyncIterator[tuple[_Pipe, FileIO]]:
    """Our own pipe, not the child's handle: who waits for a child need not wait for all who hold its output."""
    reading, writing = os.pipe()
    pipe = _Pipe(sink)
    with FileIO(writing, "wb") as end:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: pipe, FileIO(reading, "rb")
        )
        try:
            yield pipe, end
        finally:
            transport.close()


async def _wait(
    process: asyncio.subprocess.Process, gate: socket.socket, pipe: _Pipe, timeout_s: float
) -> bool:
    """Whether its time was up. What it left running in its group dies with it; what it had printed is still read."""
    try:
        async with asyncio.timeout(timeout_s):
            await _say_go(gate)
            await process.wait()
    except TimeoutError:
        return True
    finally:
        gate.close()
        _kill(process)
        await asyncio.wait([pipe.closed], timeout=DRAIN_S)
        await asyncio.wait_for(process.wait(), REAP_S)
    return False


def _kill(process: asyncio.subprocess.Process) -> None:
    """The group, and first the children of its leader: they may be in groups of their own, and not yet die with it.

    The leader is held still before, so that it makes no child while we look.
    """
    if process.returncode is None:
        with suppress(OSError):
            os.kill(process.pid, signal.SIGSTOP)
            _wait_until_stopped(process.pid)
            for child in (
                Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            ):
                os.kill(int(child), signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _wait_until_stopped(pid: int) -> None:
    """A signal takes some microseconds to arrive; a few milliseconds are waited at most."""
    for _ in range(STOP_TRIES):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TtZX":
            return
        time.sleep(STOP_POLL_S)


async def _say_go(gate: socket.socket) -> None:
    """Once the command is ready to begin; one that ended before has nothing to wait for."""
    gate.setblocking(False)
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        if await loop.sock_recv(gate, 1):
            await loop.sock_sendall(gate, b"\n")


def _exit_code(returncode: int | None, timed_out: bool) -> int:
    if timed_out or returncode is None:
        return TIMEOUT_EXIT_CODE
    return returncode if returncode >= 0 else 128 - returncode
