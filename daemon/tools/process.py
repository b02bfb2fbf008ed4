"""A child process in a group of its own: its output streamed, its time limited, nothing of it left behind (E7)."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Protocol

from daemon.tools.output import HeadTail, Ticker

DRAIN_S = 0.5
REAP_S = 5.0
STILL_TRIES, STILL_S = 20, 0.0002
TIMED_OUT = 124
GATE = "echo >&0; read -r go || exit 125; exec </dev/null; "


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a process. `exit_code` is as a shell tells it: 128 and more for a signal, 124 when its time was up."""

    exit_code: int
    output: str
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process came to its end; `exit_code` as in Ran."""

    exit_code: int
    timed_out: bool = False


class Sink(Protocol):
    """Who takes what a process prints."""

    def feed(self, data: bytes) -> None:
        """A piece of the output."""
        ...


@dataclass(frozen=True, slots=True)
class _Both:
    kept: HeadTail
    ticker: Ticker

    def feed(self, data: bytes) -> None:
        self.kept.feed(data)
        self.ticker.feed(data)


class _Pipe(asyncio.Protocol):
    """The reading end of what a process prints."""

    def __init__(self, sink: Sink) -> None:
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
) -> Ran:
    """Run it to its end and keep both ends of what it prints; `clean` goes over that before anything is cut off.

    Raises OSError when it cannot be started. The rest is as with run_into.
    """
    kept, ticker = HeadTail(4 * max_chars), Ticker(on_output)
    try:
        ended = await run_into(_Both(kept, ticker), argv, cwd=cwd, env=env, timeout_s=timeout_s)
    finally:
        ticker.flush()
    return Ran(ended.exit_code, kept.text(max_chars, clean), ended.timed_out)


async def run_into(sink: Sink, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float) -> Ended:
    """Run it to its end or to the end of its time. Raises OSError when it cannot be started.

    However this is left, by a stop too, the whole process group is dead by then. `argv` is a shell script that begins with
    GATE: a sandbox that is killed while it is being built can leave a child behind that nothing ties to us yet. So the command
    waits until we, alive, say go; without us it reads the end of its input and leaves (B5 #10).
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        async with _piped(sink) as (pipe, writing):
            process = await _started(argv, cwd=cwd, env=env, stdin=theirs, output=writing)
            writing.close()
            theirs.close()
            timed_out = await _ended(process, ours, pipe, timeout_s)
    return Ended(_code(process.returncode, timed_out), timed_out)


async def _started(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: socket.socket, output: FileIO
) -> asyncio.subprocess.Process:
    """The process. A stop in the middle waits until it is known what there is to kill: asyncio would kill the leader alone."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv, cwd=cwd, env=dict(env), stdin=stdin.fileno(), stdout=output, stderr=output, start_new_session=True
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
async def _piped(sink: Sink) -> AsyncIterator[tuple[_Pipe, FileIO]]:
    """Our own pipe, not the child's handle: who waits for a child need not wait for all who hold its output."""
    reading, writing = os.pipe()
    pipe = _Pipe(sink)
    with FileIO(writing, "wb") as end:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: pipe, FileIO(reading, "rb"))
        try:
            yield pipe, end
        finally:
            transport.close()


async def _ended(process: asyncio.subprocess.Process, gate: socket.socket, pipe: _Pipe, timeout_s: float) -> bool:
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
            _until_still(process.pid)
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _until_still(pid: int) -> None:
    """A signal takes some microseconds to arrive; a few milliseconds are waited at most."""
    for _ in range(STILL_TRIES):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TtZX":
            return
        time.sleep(STILL_S)


async def _say_go(gate: socket.socket) -> None:
    """Once the command is ready to begin; one that ended before has nothing to wait for."""
    gate.setblocking(False)
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        if await loop.sock_recv(gate, 1):
            await loop.sock_sendall(gate, b"\n")


def _code(returncode: int | None, timed_out: bool) -> int:
    if timed_out or returncode is None:
        return TIMED_OUT
    return returncode if returncode >= 0 else 128 - returncode
