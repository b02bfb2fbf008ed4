"""The client of MCP servers, over pipes or HTTP, by the `mcp` package (an extra); both protocol
generations.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp.types.methods import validate_server_result
from pydantic import BaseModel, ValidationError

from daemon import VERSION
from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.tools.base import ToolOutput
from daemon.tools.mcp.answers import (
    LEFT_OUT,
    NAMES,
    OUTPUT,
    Json,
    ToolList,
    describe_invalid,
    read_result,
    read_tool_page,
)
from daemon.tools.mcp.http import (
    CUT_OFF,
    MAX_MESSAGE_BYTES,
    REFUSED,
    SESSION_REFUSED,
    Connection,
    Incoming,
    Streams,
    open_http,
)
from daemon.tools.mcp.tools import (
    NoAnswer,
    NotSent,
    OnChanged,
    OnProgress,
    OnStderrLine,
    ProcessAddress,
    Refused,
    ServerTool,
    SessionRefused,
    UnfitTool,
    UnreadableAnswer,
    UrlAddress,
    stable_json,
)
from daemon.tools.mcp.wire import UNREADABLE, OpenRequests, read_message
from daemon.tools.shell.process import TOO_MANY, CrowdGuard

STDERR_BYTES = 64 * 1024
MAX_STRAY_LINES, STRAY_LOGGED = 200, 10
GRACE_S = 1.0
REAP_S = 5.0
ANSWER_S = 60.0
MAX_PAGES, MAX_TOOLS = 100, 1000
NEXT_TOOLS = "(its next tools)"
AS_SENT = "aidaemon/as-sent"
BROKE_OFF = "the connection to its MCP server broke off"
BAD_HEADERS = "left out: an x-mcp-header among its arguments breaks the protocol's rules"
STAND_IN = {
    "content": [], "tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"
}  # fmt: skip
SDK_ERRORS = (MCPError, OSError, ValueError, RuntimeError, TypeError, LookupError, httpx2.HTTPError)
ResultT = TypeVar("ResultT", bound=BaseModel)
LOST_CODES = (CONNECTION_CLOSED, CUT_OFF, REQUEST_TIMEOUT)


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
                    message = read_message(line, asked)
                except ValueError as error:
                    strays += 1
                    if strays <= STRAY_LOGGED:
                        text = line[:200].decode("utf-8", "replace")
                        heard(f"not a message ({str(error)[:80]}): {text}")
                else:
                    strays = 0
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

    streams = (
        open_stdio(place, wire, heard)
        if isinstance(place, ProcessAddress)
        else open_http(place, wire)
    )
    async with AsyncExitStack() as stack:
        try:
            session = ClientSession(
                dispatcher=LenientDispatcher(*await stack.enter_async_context(streams)),
                read_timeout_seconds=ANSWER_S,
                message_handler=on_message,
                client_info=types.Implementation(name="aidaemon", version=VERSION),
            )
            await stack.enter_async_context(session)
            await _negotiate(session)
        except (*SDK_ERRORS, ExceptionGroup) as error:
            why = wire.why or _describe_error(error)
            with suppress(*SDK_ERRORS, ExceptionGroup):
                await stack.aclose()
            raise NotSent(why) from error
        listening = asyncio.create_task(_watch_changes(session, changed), name="mcp: changes")
        try:
            yield McpSession(session, wire)
        finally:
            wire.close("we left")
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
            with suppress(*SDK_ERRORS, ExceptionGroup):
                await stack.aclose()


class LenientDispatcher(JSONRPCDispatcher):
    """Hands the library a list of tools that it can read whole, and a result as it came: the
    library would refuse all for one part that breaks the rules.
    """

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> dict[str, Any]:
        """As the base class."""
        answer = await super().send_raw_request(method, params, opts, **related)
        if method == "tools/call":
            return {**STAND_IN, "_meta": {AS_SENT: answer}}
        if method == "tools/list":
            version = (opts or {}).get("headers", {}).get(MCP_PROTOCOL_VERSION_HEADER, "")
            return {**STAND_IN, **read_tool_page(answer, partial(_check_tool, version))}
        return answer


def _check_tool(version: str, tool: Json) -> None:
    """Raises UnfitTool for what the library would not take, and the whole list with it."""
    try:
        with suppress(KeyError):  # a version that the library has no rules for
            validate_server_result("tools/list", version, {**STAND_IN, "tools": [tool]})
    except ValidationError as error:
        raise UnfitTool(f"it breaks the rules: {describe_invalid(error, skip=2)}") from error


async def _negotiate(session: ClientSession) -> None:
    """The newer protocol where the server knows it, else the handshake. A slow server may have
    taken the first question after all: then it refuses the handshake and is asked once more.
    """
    with suppress(MCPError, ValueError, RuntimeError):
        await session.discover()
        return
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()


async def _watch_changes(session: ClientSession, changed: OnChanged) -> None:
    """Newer servers report changes only to subscribers."""
    with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
        async with listen(session, tools_list_changed=True) as events:
            async for _ in events:
                changed()


def _describe_error(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return f"{error.message} (code {error.code})"
    if isinstance(error, ValidationError):
        return f"its answer cannot be read: {describe_invalid(error)}"
    return f"{type(error).__name__}: {error}"


@value
class McpSession:
    """A session with one server, as long as `connect` is entered."""

    session: ClientSession
    wire: Connection

    async def list_tools(self) -> ToolList:
        """All tools that the server offers now, on all pages. Raises NotSent."""
        found: list[ServerTool] = []
        left_out: dict[str, str] = {}
        cursor: str | None = None
        for number in range(1, MAX_PAGES + 1):
            try:
                page = await self.session.list_tools(
                    params=types.PaginatedRequestParams(cursor=cursor)
                )
            except MCPError as error:
                if not found or error.code in (*LOST_CODES, REFUSED, SESSION_REFUSED):
                    raise NotSent(self.wire.why or _describe_error(error)) from error
                left_out[NEXT_TOOLS] = f"the server refused to list them: {error.message}"
                break
            except SDK_ERRORS as error:
                raise NotSent(self.wire.why or _describe_error(error)) from error
            found += map(_server_tool, page.tools)
            for name, why in _list_left_out(page).items():
                left_out[f"{name} on page {number}" if name in left_out else name] = why
            cursor = page.next_cursor
            if not cursor:
                break
        if cursor or len(found) > MAX_TOOLS:
            left_out[NEXT_TOOLS] = f"there are more than {MAX_TOOLS} tools or {MAX_PAGES} pages"
        return ToolList(tuple(found[:MAX_TOOLS]), left_out)

    async def call_tool(
        self, name: str, arguments: Mapping[str, object], on_progress: OnProgress
    ) -> ToolOutput:
        """Send the request once; stopped, the server is told so. Raises NotSent, NoAnswer,
        UnreadableAnswer; a refusal is an answer.
        """

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            on_progress(f"{share}: {message}" if message else share)

        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=name, arguments=dict(arguments))
        )
        try:
            answer = await self._send(request, types.CallToolResult, tell)
        except Refused as error:
            return ToolOutput(str(error), is_error=True)
        try:
            return read_result((answer.meta or {}).get(AS_SENT, {}))
        except (ValueError, RecursionError) as error:
            raise UnreadableAnswer(_describe_error(error)) from error

    @property
    def has_resources(self) -> bool:
        """It offers texts and files to read."""
        known = self.session.server_capabilities
        return known is not None and known.resources is not None

    async def read_resource(self, uri: str) -> ToolOutput:
        """What stands there; without a `uri` all that there are. Raises as `call_tool`."""
        try:
            if uri:
                params = types.ReadResourceRequestParams(uri=uri)
                request = types.ReadResourceRequest(params=params)
                answer = await self._send(request, types.ReadResourceResult)
                parts = [one.model_dump(mode="json", exclude_none=True) for one in answer.contents]
                return read_result(
                    {"content": [{"type": "resource", "resource": one} for one in parts]}
                )
            listed = await self._send(types.ListResourcesRequest(), types.ListResourcesResult)
        except Refused as error:
            return ToolOutput(str(error), is_error=True)
        lines = [f"{one.uri}: {one.description or one.name}" for one in listed.resources]
        return ToolOutput("\n".join(lines) or "It lists none.")

    async def list_prompts(self) -> dict[str, tuple[str, ...]]:
        """Its prompts, each with the names of its arguments. Raises as `call_tool`."""
        try:
            listed = await self._send(types.ListPromptsRequest(), types.ListPromptsResult)
        except Refused:
            return {}
        return {
            one.name: tuple(part.name for part in one.arguments or ()) for one in listed.prompts
        }

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Its text. Raises Refused, and as `call_tool`."""
        params = types.GetPromptRequestParams(name=name, arguments=arguments)
        request = types.GetPromptRequest(params=params)
        answer = await self._send(request, types.GetPromptResult)
        parts = [one.content.model_dump(mode="json", exclude_none=True) for one in answer.messages]
        return read_result({"content": parts}).text

    async def _send(
        self, request: types.ClientRequest, kind: type[ResultT], tell: ProgressFnT | None = None
    ) -> ResultT:
        """Raises Refused for a no of the server's."""
        if self.wire.why:
            raise NotSent(self.wire.why)
        try:
            return await self.session.send_request(request, kind, ANSWER_S, progress_callback=tell)
        except MCPError as error:
            code = error.code
            if code == REFUSED:
                raise NotSent(self.wire.why) from error
            if code == SESSION_REFUSED:
                raise SessionRefused(error.message, is_certain=error.data is True) from error
            if code in (UNREADABLE, PARSE_ERROR):
                raise UnreadableAnswer(error.message) from error
            if code not in LOST_CODES:
                raise Refused(f"{error.message} (code {code})") from error
            why = f"{BROKE_OFF}: {self.wire.why}" if self.wire.why else BROKE_OFF
            late = f"nothing came within {ANSWER_S:g} s"
            raise NoAnswer(late if code == REQUEST_TIMEOUT else why) from error
        except SDK_ERRORS as error:
            raise NoAnswer(_describe_error(error)) from error


def _list_left_out(page: types.ListToolsResult) -> dict[str, str]:
    """What we left out of its tools, and those that the library did not take from us."""
    sent = page.meta or {}
    taken = {tool.name for tool in page.tools}
    dropped = {name: BAD_HEADERS for name in sent.get(NAMES, ()) if name not in taken}
    return {**sent.get(LEFT_OUT, {}), **dropped}


def _server_tool(tool: types.Tool) -> ServerTool:
    whole = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    return ServerTool(
        tool.name,
        whole.get("description") or whole.get("title") or "",
        stable_json(whole.get("inputSchema") or {}),
        stable_json(whole.get("annotations") or {}),
        stable_json(output) if (output := (tool.meta or {}).get(OUTPUT)) else "",
    )
