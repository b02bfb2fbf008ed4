"""Runs child processes: output bounded and streamed, time limited, nothing left running (E7)."""

import asyncio
import os
import re
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Literal

from channels.charsets import decode_text
from daemon.core import value
from daemon.settings.redaction import RedactedStream, Redactor
from daemon.tools.calls import to_printable, truncate_middle
from daemon.tools.shell.binary import describe_binary, is_binary
from daemon.tools.shell.process_limit import TOO_MANY, CrowdGuard, kernel_limit, kill_group

SandboxKind = Literal["bubblewrap", "landlock", "none"]
PREVIEW_INTERVAL_S = 0.1
PREVIEW_BYTES = 4000
MAX_ESCAPE = 64
DRAIN_S = 0.5
REAP_S = 5.0
TIMEOUT_EXIT_CODE, KILLED_EXIT_CODE = 124, 137
WAIT_FOR_GO = "echo >&0; read -r go || exit 125; exec </dev/null; "


Check = Callable[[], Awaitable[None]]


@value
class Start:
    """`check` has the last word before it, and raises; `fds` are inherited."""

    check: Check | None = None
    fds: tuple[int, ...] = ()


PLAIN_START = Start()


@value
class ProcessResult:
    """`exit_code` as a shell reports it: 128 and more for a signal, 124 for a timeout."""

    exit_code: int
    output: str = ""
    timed_out: bool = False


@dataclass(slots=True)
class HeadTail:
    """Keeps the first and the last `limit` bytes of a stream."""

    limit: int
    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """More output."""
        self.total += len(data)
        space = max(self.limit - len(self._head), 0)
        self._head += data[:space]
        self._tail += data[space:]
        if len(self._tail) > 2 * self.limit:
            del self._tail[: -self.limit]

    def text(self, max_chars: int, stream: RedactedStream, *, ended: bool = True) -> str:
        """Printable and redacted before it is cut. What may be half a secret, or half an escape, at
        the cut is left out.
        """
        if is_binary(self._head):
            return describe_binary(self._head, self.total)
        tail = self._tail[-self.limit :]
        missing = self.total - len(self._head) - len(tail)
        if not missing:
            text = stream.feed(_decode(self._head + tail)) + (stream.flush() if ended else "")
            return truncate_middle(text, max_chars)
        mark = f"\n[... about {missing} bytes left out ...]\n"
        if is_binary(tail):
            missing += len(tail)
            mark, tail = f"\n[... {missing:,} bytes left out: binary output ...]", bytearray()
        half = max((max_chars - len(mark)) // 2, 0)
        unsafe = stream.redactor.look().longest + MAX_ESCAPE
        start = stream.feed(_decode(self._head)) + stream.flush()
        end = stream.feed(_decode(tail)) + (stream.flush() if ended else "")
        start, end = start[: max(len(start) - unsafe, 0)], end[unsafe:]
        return start[:half] + mark + end[max(len(end) - half, 0) :]


@dataclass(slots=True)
class OutputPreview:
    """Shows output while it is printed: at most ten pieces a second, each of bounded size."""

    show: Callable[[str], object]
    _pending: bytes = b""
    _timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """More output. Too much is cut before a whole word: half a secret is not recognised."""
        data = self._pending + data
        self._pending = data[-PREVIEW_BYTES:]
        if len(data) > PREVIEW_BYTES and (space := re.search(rb"\s", self._pending)):
            self._pending = self._pending[space.end() :]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PREVIEW_INTERVAL_S, self.flush)

    def flush(self) -> None:
        """Show what came since the last time."""
        if self._timer:
            self._timer.cancel()
        self._timer, pending, self._pending = None, self._pending, b""
        if pending and not is_binary(pending):
            self.show(_decode(pending))


class _Pipe(asyncio.Protocol):
    """The reading end of the output pipe."""

    def __init__(self, feed: Callable[[bytes], None]) -> None:
        self.feed = feed
        self.closed = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)


async def run_process(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    max_chars: int,
    on_output: Callable[[str], object] = str,
    redactor: Redactor | None = None,
    start: Start = PLAIN_START,
) -> ProcessResult:
    """Run `argv` to its end and keep both ends of its output; see `stream_process`."""
    output, preview = HeadTail(4 * max_chars), OutputPreview(on_output)

    def feed(data: bytes) -> None:
        output.feed(data)
        preview.feed(data)

    try:
        result = await stream_process(feed, argv, cwd, env, timeout_s, start)
    finally:
        preview.flush()
    stream = RedactedStream(redactor or Redactor())
    return replace(result, output=output.text(max_chars, stream))


async def stream_process(
    feed: Callable[[bytes], None],
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    start: Start = PLAIN_START,
) -> ProcessResult:
    """Run `argv` to its end or its timeout. Raises OSError when it cannot be started, and what
    `start.check` raises at the last moment, with the sandbox built and nothing of the command run.

    The whole process group is dead when this returns or raises, after a cancellation too. `argv`
    is a shell script that begins with WAIT_FOR_GO: a sandbox killed while it is being built can
    leave a child that we do not know yet. The command therefore waits until we, alive, send a
    line; without us it reads end-of-file and exits (K10).
    """
    loop, timed_out, guard = asyncio.get_running_loop(), False, None
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    reading, writing = os.pipe()
    # Our own pipe: asyncio's would make us wait for everybody who holds the output.
    with ours, theirs, FileIO(writing, "wb") as output, kernel_limit() as join:
        transport, pipe = await loop.connect_read_pipe(lambda: _Pipe(feed), FileIO(reading, "rb"))
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *argv, cwd=cwd, env=dict(env), stdin=theirs.fileno(), stdout=output,
                stderr=output, start_new_session=True, pass_fds=start.fds,
            )
        )  # fmt: skip
        try:
            process = await asyncio.shield(starting)
            theirs.close()
            output.close()
            guard = CrowdGuard(process)
            async with asyncio.timeout(timeout_s):
                await _let_go(ours, start.check, partial(join, process.pid))
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            if guard:
                guard.close()
            with closing(transport):
                for end in (ours, theirs, output):
                    end.close()
                # Cancelled while it starts: only when it is known can all of it be killed.
                await asyncio.wait((starting,))
                if not starting.exception():
                    kill_group(starting.result())
                    await asyncio.wait([pipe.closed], timeout=DRAIN_S)
                    async with asyncio.timeout(REAP_S):
                        await starting.result().wait()
    code = starting.result().returncode
    if guard and guard.is_crowded:
        feed(f"\n[killed: {TOO_MANY}]\n".encode())
        return ProcessResult(KILLED_EXIT_CODE)
    if timed_out or code is None:
        return ProcessResult(TIMEOUT_EXIT_CODE, timed_out=timed_out)
    return ProcessResult(code if code >= 0 else 128 - code)


async def _let_go(ours: socket.socket, check: Check | None, join: Callable[[], None]) -> None:
    """The sandbox stands: the last word, and the line that the command waits for."""
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        if await loop.sock_recv(ours, 1):
            join()
            if check:
                await check()
            await loop.sock_sendall(ours, b"\n")


async def exchange(argv: Sequence[str], data: bytes, timeout_s: float) -> bytes | None:
    """Send `data` to a child of ours; its output, or None when it fails or takes longer."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": "/nonexistent"},
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate(data)
    except TimeoutError:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return output if process.returncode == 0 else None


def _decode(data: bytes | bytearray) -> str:
    try:
        return to_printable(data.decode())
    except UnicodeDecodeError:
        return to_printable(decode_text(bytes(data), keeps_ascii=True)[0])
