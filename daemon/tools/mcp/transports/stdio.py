"""MCP over the pipes of a process of ours; at its end nothing of it is left."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from daemon.core.clock import run_to_completion
from daemon.tools.mcp.tools import OnStderrLine, ProcessAddress
from daemon.tools.mcp.transports.http import MAX_MESSAGE_BYTES, Connection, Incoming, Streams
from daemon.tools.mcp.transports.messages import OpenRequests, read_message, read_messages
from daemon.tools.shell.process_limit import TOO_MANY, CrowdGuard, kernel_limit

STDERR_BYTES = 64 * 1024
MAX_STRAY_LINES, STRAY_LOGGED = 200, 10
GRACE_S = 1.0
REAP_S = 5.0


@asynccontextmanager
async def open_stdio(
    place: ProcessAddress, wire: Connection, heard: OnStderrLine
) -> AsyncIterator[Streams]:
    """Start the server; at the end its input is closed, then its process group killed.

    Raises OSError in a group when it cannot be started.
    """
    arriving, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    limited = ExitStack()
    join = limited.enter_context(kernel_limit(wanted=place.is_sandboxed))
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *place.argv, env=dict(place.env), cwd=place.cwd, start_new_session=True,
            limit=MAX_MESSAGE_BYTES, stdin=PIPE, stdout=PIPE, stderr=PIPE, pass_fds=place.fds,
        )
    )  # fmt: skip
    watching: asyncio.Task[None] | None = None  # none of the group's, which would wait for it
    try:
        async with anyio.create_task_group() as group:
            try:
                process = await asyncio.shield(starting)
                join(process.pid)
                assert process.stdin and process.stdout and process.stderr
                asked = OpenRequests()
                reading = _read_messages, process.stdout, arriving, wire, heard, asked
                group.start_soon(*reading)
                group.start_soon(_write_messages, process.stdin, leaving, asked)
                group.start_soon(_read_stderr, process.stderr, heard)
                watching = asyncio.create_task(_watch_count(process, wire))
                yield incoming, outgoing
            finally:
                if watching:
                    watching.cancel()
                with anyio.CancelScope(shield=True):
                    await run_to_completion(_end_process(starting))
                group.cancel_scope.cancel()
    finally:
        limited.close()
        for stream in (arriving, incoming, outgoing, leaving):
            stream.close()


async def _watch_count(process: asyncio.subprocess.Process, wire: Connection) -> None:
    """It is killed at once: asked to go, it would make more of them in its time of grace."""
    guard = CrowdGuard(process)
    try:
        await guard.killed.wait()
        wire.close(TOO_MANY)
    finally:
        guard.close()


async def _read_messages(
    stdout: asyncio.StreamReader,
    arriving: MemoryObjectSendStream[Incoming],
    wire: Connection,
    heard: OnStderrLine,
    asked: OpenRequests,
) -> None:
    """Some servers greet on the wrong pipe; one that goes on doing so is cut off, or it would keep
    us from all else.
    """
    strays = 0
    with arriving, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        try:
            while strays < MAX_STRAY_LINES and (line := await stdout.readline()):
                try:
                    is_batch = line.lstrip().startswith(b"[")
                    found = read_messages(line, asked) if is_batch else [read_message(line, asked)]
                except ValueError as error:
                    strays += 1
                    if strays <= STRAY_LOGGED:
                        text = line[:200].decode("utf-8", "replace")
                        heard(f"not a message ({str(error)[:80]}): {text}")
                else:
                    strays = 0
                    for message in found:
                        await arriving.send(SessionMessage(message))
            many = f"it printed {MAX_STRAY_LINES} lines that are no messages; logs go to stderr"
            wire.close(many if strays >= MAX_STRAY_LINES else "it ended")
        except ValueError:
            wire.close(f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MB")
    while await stdout.read(MAX_MESSAGE_BYTES):
        pass  # unread output would hide the end of the process


async def _write_messages(
    stdin: asyncio.StreamWriter,
    leaving: MemoryObjectReceiveStream[SessionMessage],
    asked: OpenRequests,
) -> None:
    with leaving, suppress(ConnectionError):
        async for one in leaving:
            asked.note(one.message)
            text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(text.encode() + b"\n")
            await stdin.drain()


async def _read_stderr(stderr: asyncio.StreamReader, heard: OnStderrLine) -> None:
    """Read to the end, so that the server never waits for us; only the beginning is passed on."""
    left = STDERR_BYTES
    while piece := await stderr.read(4096):
        for line in piece[: max(left, 0)].decode("utf-8", "replace").splitlines():
            heard(line)
        left -= len(piece)


async def _end_process(starting: asyncio.Future[asyncio.subprocess.Process]) -> None:
    """The end of its input tells it to go; what of its group is still there after a while, or
    behind it, is killed. A start goes on to its end, because asyncio would leave its pipes open.
    """
    await asyncio.wait((starting,))
    if starting.cancelled() or starting.exception():
        return
    process = starting.result()
    assert process.stdin
    process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(REAP_S):
            await process.wait()
    transport = process._transport  # type: ignore[missing-attribute] # no public API closes pipes that other processes hold
    transport.close()
