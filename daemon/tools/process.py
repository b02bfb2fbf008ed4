"""A child process in a group of its own: its output streamed, its time limited, nothing of it left behind (E7)."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from daemon.tools.output import HeadTail, Ticker

DRAIN_S = 0.5
REAP_S = 5.0
TIMED_OUT = 124


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a process. `exit_code` is as a shell tells it: 128 and more for a signal, 124 when its time was up."""

    exit_code: int
    output: str
    timed_out: bool = False


class _Pipe(asyncio.Protocol):
    """The reading end of what a process prints."""

    def __init__(self, kept: HeadTail, ticker: Ticker) -> None:
        self.kept, self.ticker = kept, ticker
        self.closed = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """A piece of the output."""
        self.kept.feed(data)
        self.ticker.feed(data)

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
) -> Ran:
    """Run it to its end or to the end of its time. Raises OSError when it cannot be started.

    However this is left, by a stop too, the whole process group is dead by then.
    """
    async with _piped(HeadTail(4 * max_chars), Ticker(on_output)) as (pipe, writing):
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=cwd, env=dict(env), stdin=asyncio.subprocess.DEVNULL, stdout=writing, stderr=writing,
            start_new_session=True,
        )  # fmt: skip
        writing.close()
        timed_out = await _ended(process, pipe, timeout_s)
    return Ran(_code(process.returncode, timed_out), pipe.kept.text(max_chars), timed_out)


@asynccontextmanager
async def _piped(kept: HeadTail, ticker: Ticker) -> AsyncIterator[tuple[_Pipe, FileIO]]:
    """Our own pipe, not the child's handle: who waits for a child need not wait for all who hold its output."""
    reading, writing = os.pipe()
    pipe = _Pipe(kept, ticker)
    with FileIO(writing, "wb") as end:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: pipe, FileIO(reading, "rb"))
        try:
            yield pipe, end
        finally:
            transport.close()
            ticker.flush()


async def _ended(process: asyncio.subprocess.Process, pipe: _Pipe, timeout_s: float) -> bool:
    """Whether its time was up. What it left running in its group dies with it; what it had printed is still read."""
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        return True
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.wait([pipe.closed], timeout=DRAIN_S)
        await asyncio.wait_for(process.wait(), REAP_S)
    return False


def _code(returncode: int | None, timed_out: bool) -> int:
    if timed_out or returncode is None:
        return TIMED_OUT
    return returncode if returncode >= 0 else 128 - returncode
