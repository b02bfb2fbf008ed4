"""The pipes to a server that is a process of ours: messages of bounded size, its complaints heard, nothing of it left behind."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from daemon.tools.mcp.session import Launch, OnLine
from daemon.tools.mcp.wire import LONGEST_MESSAGE, Wire

HEARD_BYTES = 64 * 1024
MOST_STRAY, STRAY_TOLD = 200, 10
GRACE_S = 1.0
REAP_S = 5.0

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def stdio(place: Launch, wire: Wire, heard: OnLine) -> AsyncIterator[Streams]:
    """Start it; on the way out it is asked to go, then its whole group is killed. Raises OSError when it cannot be started."""
    process = await _started(place)
    arriving, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    pipes = _Pipes(process, wire, heard)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(pipes.read, arriving)
            group.start_soon(pipes.write, leaving)
            group.start_soon(pipes.listen)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await _ended(process)
                group.cancel_scope.cancel()
    finally:
        for stream in (arriving, incoming, outgoing, leaving):
            stream.close()


async def _started(place: Launch) -> asyncio.subprocess.Process:
    """The process. A stop in the middle waits until it is known what there is to end: asyncio would leave its pipes open."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *place.argv, env=dict(place.env), cwd=place.cwd, start_new_session=True, limit=LONGEST_MESSAGE,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )
    )  # fmt: skip
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait((starting,))
        if not starting.cancelled() and not starting.exception():
            await _ended(starting.result())
        raise


@dataclass(slots=True)
class _Pipes:
    """What runs to and fro while the server lives."""

    process: asyncio.subprocess.Process
    wire: Wire
    heard: OnLine
    stray: int = 0

    async def read(self, arriving: MemoryObjectSendStream[Incoming]) -> None:
        assert self.process.stdout
        with arriving, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            try:
                while self.stray < MOST_STRAY and (line := await self.process.stdout.readline()):
                    await self._take(line, arriving)
                many = f"it printed {MOST_STRAY} lines that are no messages; what it says to people belongs on its stderr"
                self.wire.cut(many if self.stray >= MOST_STRAY else "it ended")
            except ValueError:
                self.wire.cut(f"it sent a message of more than {LONGEST_MESSAGE >> 20} MB")
        while await self.process.stdout.read(LONGEST_MESSAGE):
            pass  # nobody listens any more; but what it still says would keep it from being seen to end

    async def _take(self, line: bytes, arriving: MemoryObjectSendStream[Incoming]) -> None:
        """Some servers greet on the wrong pipe; one that goes on doing so is cut off, or it would keep us from all else."""
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self.stray += 1
            if self.stray <= STRAY_TOLD:
                self.heard(f"not a message: {line[:200].decode('utf-8', 'replace')}")
        else:
            await arriving.send(SessionMessage(message))

    async def write(self, leaving: MemoryObjectReceiveStream[SessionMessage]) -> None:
        assert self.process.stdin
        with leaving, suppress(ConnectionError):
            async for one in leaving:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                self.process.stdin.write(text.encode() + b"\n")
                await self.process.stdin.drain()

    async def listen(self) -> None:
        """What it prints on its stderr is read to the end, so that it never waits for us; the first of it is told."""
        assert self.process.stderr
        room = HEARD_BYTES
        while piece := await self.process.stderr.read(4096):
            for line in piece[: max(room, 0)].decode("utf-8", "replace").splitlines():
                self.heard(line)
            room -= len(piece)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """The end of its input tells it to go; what of its group is still there after a while, or behind it, is killed."""
    assert process.stdin
    process.stdin.close()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), REAP_S)
    transport = process._transport  # type: ignore[missing-attribute] # nothing public lets go of pipes that others hold, too
    transport.close()
