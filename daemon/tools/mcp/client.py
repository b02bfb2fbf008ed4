"""The client of MCP servers, over pipes or HTTP, by the `mcp` package (an extra); both protocol
generations.
"""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import assert_never

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.client import Client
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT, jsonrpc_message_adapter
from pydantic import TypeAdapter

from daemon import VERSION
from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.tools.base import ToolOutput
from daemon.tools.mcp.tools import (
    NoAnswer,
    NotSent,
    OnChanged,
    OnStderrLine,
    ProcessAddress,
    ServerTool,
    UrlAddress,
    stable_json,
)
from daemon.tools.shell.process import TOO_MANY, kill_group, wait_until_crowded

MAX_MESSAGE_BYTES = 16 << 20
STDERR_BYTES = 64 * 1024
MAX_STRAY_LINES, STRAY_LOGGED = 200, 10
GRACE_S = 1.0
REAP_S = 5.0
Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]
REFUSED, CUT_OFF = -32_950, -32_951
CONNECT_S, SILENCE_S = 15.0, 300.0
NEVER_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
SESSION_HEADER = "mcp-session-id"
ANSWER_S = 60.0
MAX_PAGES, MAX_TOOLS = 100, 1000
ANSWER_TYPE: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
SDK_ERRORS = (MCPError, OSError, ValueError, RuntimeError, TypeError, LookupError, httpx2.HTTPError)
LOST_CODES = (CONNECTION_CLOSED, CUT_OFF, PARSE_ERROR, REQUEST_TIMEOUT)
INPUT_REFUSED = (
    "The server asked for a model's text or a person's answer in return; it does not get that here."
)


@dataclass(slots=True)
class Connection:
    """`why` it was closed is empty as long as the connection holds."""

    why: str = ""
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self, why: str) -> None:
        """The first reason counts."""
        self.why = self.why or why
        self.closed.set()


@asynccontextmanager
async def open_stdio(
    place: ProcessAddress, wire: Connection, heard: OnStderrLine
) -> AsyncIterator[Streams]:
    """Start the server; at the end its input is closed, then its process group killed.

    Raises OSError in a group when it cannot be started.
    """
    arriving, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
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
                place.started(process.pid)
                assert process.stdin and process.stdout and process.stderr
                group.start_soon(_read_messages, process.stdout, arriving, wire, heard)
                group.start_soon(_write_messages, process.stdin, leaving)
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
        for stream in (arriving, incoming, outgoing, leaving):
            stream.close()


async def _watch_count(process: asyncio.subprocess.Process, wire: Connection) -> None:
    """Kill it at once: asked to go, it would make more of them in its time of grace."""
    await wait_until_crowded(process.pid)
    wire.close(TOO_MANY)
    kill_group(process)


async def _read_messages(
    stdout: asyncio.StreamReader,
    arriving: MemoryObjectSendStream[Incoming],
    wire: Connection,
    heard: OnStderrLine,
) -> None:
    """Some servers greet on the wrong pipe; one that goes on doing so is cut off, or it would keep
    us from all else.
    """
    strays = 0
    with arriving, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        try:
            while strays < MAX_STRAY_LINES and (line := await stdout.readline()):
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    strays += 1
                    if strays <= STRAY_LOGGED:
                        heard(f"not a message: {line[:200].decode('utf-8', 'replace')}")
                else:
                    await arriving.send(SessionMessage(message))
            many = f"it printed {MAX_STRAY_LINES} lines that are no messages; logs go to stderr"
            wire.close(many if strays >= MAX_STRAY_LINES else "it ended")
        except ValueError:
            wire.close(f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MB")
    while await stdout.read(MAX_MESSAGE_BYTES):
        pass  # unread output would hide the end of the process


async def _write_messages(
    stdin: asyncio.StreamWriter, leaving: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    with leaving, suppress(ConnectionError):
        async for one in leaving:
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


@asynccontextmanager
async def open_http(place: UrlAddress, wire: Connection) -> AsyncIterator[Streams]:
    """Streams to the URL. No redirect is followed: only this address gets the headers."""
    client = httpx2.AsyncClient(
        transport=GuardedTransport(wire),
        headers=dict(place.headers),
        timeout=httpx2.Timeout(CONNECT_S, read=SILENCE_S),
        trust_env=False,
    )
    async with (
        client,
        streamable_http_client(
            place.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as (incoming, outgoing),
    ):
        yield incoming, outgoing  # type: ignore[misc]


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """Answers a failed request with a protocol error, so that the waiting call learns of it."""

    def __init__(self, wire: Connection) -> None:
        super().__init__()
        self.connection = wire

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it; only a POST, for which a call waits, gets an answer of our own."""
        if request.method != "POST":
            return await super().handle_async_request(request)
        why = ""
        try:
            response = await super().handle_async_request(request)
        except NEVER_SENT:
            why = f"{request.url.host} cannot be reached"
        except httpx2.TransportError:
            pass
        else:
            status = response.status_code
            if status == 404 and SESSION_HEADER in request.headers:
                why = "it has forgotten the session"
            elif status in (401, 403):
                why = f"it refuses us (HTTP {status}): look at its headers in the config"
            elif status < 500:
                if response.headers.get("content-type", "").startswith("application/json"):
                    assert isinstance(response.stream, httpx2.AsyncByteStream)
                    response.stream = BoundedBody(response.stream)
                return response
        if why:
            self.connection.close(why)
        code = REFUSED if why else CUT_OFF
        error = {"code": code, "message": "no answer from the server"}
        return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error})


class BoundedBody(httpx2.AsyncByteStream):
    """A body that ends in StreamError if it breaks off or is too long."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self.inner, self.room = inner, MAX_MESSAGE_BYTES

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self.inner:
                self.room -= len(piece)
                if self.room < 0:
                    raise httpx2.StreamError(
                        f"the answer has more than {MAX_MESSAGE_BYTES >> 20} MB"
                    )
                yield piece
        except httpx2.TransportError as error:
            raise httpx2.StreamError("the answer broke off") from error

    async def aclose(self) -> None:
        """Release the connection."""
        await self.inner.aclose()


@asynccontextmanager
async def connect(
    place: ProcessAddress | UrlAddress, changed: OnChanged, heard: OnStderrLine
) -> AsyncIterator["McpSession"]:
    """A session with a server; its own requests (sampling, elicitation, roots) are refused.

    `changed` is called when its tools change, `heard` with each line of a process's stderr.
    Entering raises NotSent.
    """
    wire = Connection()

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    client = Client(
        open_stdio(place, wire, heard)
        if isinstance(place, ProcessAddress)
        else open_http(place, wire),
        cache=None,
        read_timeout_seconds=ANSWER_S,
        message_handler=on_message,
        client_info=types.Implementation(name="aidaemon", version=VERSION),
    )
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(client)
        except (*SDK_ERRORS, ExceptionGroup) as error:
            raise NotSent(wire.why or _describe_error(error)) from error
        listening = asyncio.create_task(_watch_changes(client, changed), name="mcp: changes")
        try:
            yield McpSession(client.session, wire)
        finally:
            wire.close("we left")
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
            with suppress(*SDK_ERRORS, ExceptionGroup):
                await stack.aclose()


async def _watch_changes(client: Client, changed: OnChanged) -> None:
    """Newer servers report changes only to subscribers."""
    with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
        async with client.listen(tools_list_changed=True) as events:
            async for _ in events:
                changed()


def _describe_error(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


@value
class McpSession:
    """A session with one server, as long as `connect` is entered."""

    session: ClientSession
    wire: Connection

    async def list_tools(self) -> tuple[ServerTool, ...]:
        """All tools that the server offers now. Raises NotSent."""
        found: list[ServerTool] = []
        cursor: str | None = None
        try:
            for _ in range(MAX_PAGES):
                page = await self.session.list_tools(
                    params=types.PaginatedRequestParams(cursor=cursor)
                )
                found += [_server_tool(tool) for tool in page.tools]
                cursor = page.next_cursor
                if not cursor or len(found) > MAX_TOOLS:
                    break
        except SDK_ERRORS as error:
            raise NotSent(self.wire.why or _describe_error(error)) from error
        return tuple(found[:MAX_TOOLS])

    async def call_tool(self, name: str, arguments: Mapping[str, object]) -> ToolOutput:
        """Send the request once. Raises NotSent and NoAnswer; a refusal is an answer."""
        if self.wire.why:
            raise NotSent(self.wire.why)
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=name, arguments=dict(arguments))
        )
        try:
            answer = await self.session.send_request(
                request, ANSWER_TYPE, request_read_timeout_seconds=ANSWER_S
            )
        except MCPError as error:
            code = error.code
            if code == REFUSED:
                raise NotSent(self.wire.why) from error
            if code not in LOST_CODES:
                return ToolOutput(f"{error.message} (code {code})", is_error=True)
            why = self.wire.why or "the connection broke off"
            late = f"no answer within {ANSWER_S:g} s"
            raise NoAnswer(late if code == REQUEST_TIMEOUT else why) from error
        except SDK_ERRORS as error:
            raise NoAnswer(_describe_error(error)) from error
        if isinstance(answer, types.InputRequiredResult):
            return ToolOutput(INPUT_REFUSED, is_error=True)
        parts = [_block_text(block) for block in answer.content]
        has_text = any(isinstance(block, types.TextContent) for block in answer.content)
        if not has_text and answer.structured_content is not None:
            parts.append(json.dumps(answer.structured_content, ensure_ascii=False))
        structured = answer.structured_content
        records = "" if structured is None else stable_json(structured)
        return ToolOutput("\n".join(parts), bool(answer.is_error), records=records)


def _server_tool(tool: types.Tool) -> ServerTool:
    whole = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    return ServerTool(
        tool.name,
        whole.get("description") or whole.get("title") or "",
        stable_json(whole.get("inputSchema") or {}),
        stable_json(whole.get("annotations") or {}),
        stable_json(whole["outputSchema"]) if whole.get("outputSchema") else "",
    )


def _block_text(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ResourceLink():
            return f"[link to {block.uri}: {block.name}]"
        case types.ImageContent() | types.AudioContent():
            kind, data = f"{block.type}, {block.mime_type}", block.data
        case types.EmbeddedResource():
            resource = block.resource
            if isinstance(resource, types.TextResourceContents):
                return f"[{resource.uri}]\n{resource.text}"
            kind, data = f"{resource.uri}, {resource.mime_type or 'bytes'}", resource.blob
        case never:
            assert_never(never)
    return f"[{kind}, {max(len(data) * 3 // 4 // 1024, 1)} kB: not shown]"
