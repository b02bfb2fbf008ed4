"""The client of MCP servers, over pipes or HTTP, by the `mcp` package (an extra); both protocol
generations.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import httpx2
from mcp import types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions, ProgressFnT, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
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
from daemon.tools.base import ToolOutput
from daemon.tools.mcp.answers import (
    INPUT_REFUSED,
    LEFT_OUT,
    NAMES,
    OUTPUT,
    Json,
    ServerTools,
    describe_invalid,
    mend_answer,
    read_result,
    read_tool_page,
)
from daemon.tools.mcp.open_calls import HOLD_S
from daemon.tools.mcp.questions import LAPSED, Ask, ask_nobody
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
from daemon.tools.mcp.transports.http import Connection, open_http
from daemon.tools.mcp.transports.messages import CUT_OFF, REFUSED, SESSION_REFUSED, UNREADABLE
from daemon.tools.mcp.transports.stdio import open_stdio

ANSWER_S, LONGEST_S = 60.0, 2 * HOLD_S
MAX_ROUNDS = 10
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
PageT = TypeVar("PageT", bound=types.PaginatedResult)
LOST_CODES = (CONNECTION_CLOSED, CUT_OFF, REQUEST_TIMEOUT)


@asynccontextmanager
async def connect(
    place: ProcessAddress | UrlAddress, changed: OnChanged, heard: OnStderrLine
) -> AsyncIterator["McpSession"]:
    """A session with a server. It may ask a person back while a call runs (elicitation); its other
    requests (sampling, roots) are refused.

    `changed` is called when its tools change, `heard` with each line of a process's stderr.
    Entering raises NotSent.
    """
    wire = Connection()
    running = RunningCalls(wire)

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
                dispatcher=LenientDispatcher(*await stack.enter_async_context(streams), running),
                read_timeout_seconds=ANSWER_S,
                message_handler=on_message,
                elicitation_callback=running.elicit,
                client_info=types.Implementation(name="aidaemon", version=VERSION),
            )
            await stack.enter_async_context(session)
            await _negotiate(session)
            running.unanswered.clear()
        except (*SDK_ERRORS, ExceptionGroup) as error:
            why = wire.why or _describe_error(error)
            with suppress(*SDK_ERRORS, ExceptionGroup):
                await stack.aclose()
            raise NotSent(why) from error
        listening = asyncio.create_task(_watch_changes(session, changed), name="mcp: changes")
        try:
            yield McpSession(session, wire, running)
        finally:
            wire.close("we left")
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
            with suppress(*SDK_ERRORS, ExceptionGroup):
                await stack.aclose()


@dataclass(slots=True)
class RunningCall:
    """Its limit of time stands still while a person is asked, and goes on with what was left."""

    ask: Ask
    limit: asyncio.Timeout
    wire: Connection
    _open: int = 0
    _left: float = ANSWER_S

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Put the server's form to the person whose call it is. An address is opened for nobody."""
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")
        now = asyncio.get_running_loop().time
        if not self._open:
            ends = self.limit.when()
            self._left = ANSWER_S if ends is None else max(ends - now(), 0.0)
            self._set_limit(None)
        self._open += 1
        self.wire.begin_asking()
        try:
            reply = await self.ask(params.message, params.requested_schema)
        finally:
            self._open -= 1
            self.wire.end_asking()
            if not self._open:
                self._set_limit(now() + self._left)
        return types.ElicitResult.model_validate(reply, from_attributes=True)

    def _set_limit(self, ends: float | None) -> None:
        with suppress(RuntimeError):  # the call may have ended meanwhile
            self.limit.reschedule(ends)


@dataclass(slots=True)
class RunningCalls:
    """The calls of a session that run now. `unanswered`: ids of requests that were given up and
    that the server may still be at; CUT_OFF for those to which no answer can come.
    """

    wire: Connection
    calls: list[RunningCall] = field(default_factory=list)
    unanswered: set[types.RequestId] = field(default_factory=set)

    async def elicit(
        self, context: object, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """A server does not say for which call it asks: where several run, or one that was given
        up, it could be anybody's, so nobody is asked.
        """
        if len(self.calls) != 1 or self.unanswered:
            return types.ElicitResult.model_validate(LAPSED, from_attributes=True)
        return await self.calls[0].elicit(params)

    @contextmanager
    def note(self, ask: Ask, limit: asyncio.Timeout) -> Iterator[None]:
        """A call runs."""
        call = RunningCall(ask, limit, self.wire)
        self.calls.append(call)
        try:
            yield
        finally:
            self.calls.remove(call)


class LenientDispatcher(JSONRPCDispatcher):
    """Hands the library a list of tools that it can read whole, and a result as it came: the
    library would refuse all for one part that breaks the rules. Notes which requests were given up.
    """

    def __init__(self, incoming: Any, outgoing: Any, running: RunningCalls) -> None:
        super().__init__(incoming, outgoing)
        self.running = running

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> None:
        """As the base class."""
        if method == "notifications/cancelled" and params:
            self.running.unanswered.add(params.get("requestId", ""))
        await super().notify(method, params, opts, **related)

    def _resolve_pending(self, request_id: Any, outcome: Any) -> None:
        self.running.unanswered.discard(coerce_request_id(request_id))
        super()._resolve_pending(request_id, outcome)

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
        mended = mend_answer(method, answer)
        return answer if mended is answer else {**STAND_IN, **mended}


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
    running: RunningCalls

    async def list_tools(self) -> ServerTools:
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
        return ServerTools(tuple(found[:MAX_TOOLS]), left_out)

    async def call_tool(
        self, name: str, arguments: Mapping[str, object], on_progress: OnProgress, ask: Ask
    ) -> ToolOutput:
        """Send the request once, and, to servers of the newer protocol, again with what they asked
        for; stopped, the server is told so. Raises NotSent, NoAnswer, UnreadableAnswer; a refusal
        is an answer.
        """

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            on_progress(f"{share}: {message}" if message else share)

        params = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        for _ in range(MAX_ROUNDS):
            try:
                request = types.CallToolRequest(params=params)
                answer = await self._send(request, types.CallToolResult, tell, ask)
            except Refused as error:
                return ToolOutput(str(error), is_error=True)
            sent = (answer.meta or {}).get(AS_SENT, {})
            try:
                if sent.get("resultType") != "input_required":
                    return read_result(sent)
                needed = types.InputRequiredResult.model_validate(sent, by_name=False)
            except (ValueError, RecursionError) as error:
                raise UnreadableAnswer(_describe_error(error)) from error
            wanted = needed.input_requests or {}
            if not wanted or any(
                not isinstance(one, types.ElicitRequest) for one in wanted.values()
            ):
                break
            said: dict[str, types.InputResponse] = {}
            for key, one in wanted.items():
                assert isinstance(one, types.ElicitRequest)
                async with asyncio.timeout(None) as limit:
                    said[key] = await RunningCall(ask, limit, self.wire).elicit(one.params)
            state = {"input_responses": said, "request_state": needed.request_state}
            params = params.model_copy(update=state)
        return ToolOutput(INPUT_REFUSED, is_error=True)

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
            pages = await self._list_pages(types.ListResourcesRequest, types.ListResourcesResult)
        except Refused as error:
            return ToolOutput(str(error), is_error=True)
        found = [one for page in pages for one in page.resources]
        lines = [f"{one.uri}: {one.description or one.name}" for one in found]
        lines += await self._list_templates()
        return ToolOutput("\n".join(lines) or "It lists none.")

    async def _list_templates(self) -> list[str]:
        """Its addresses with a part to fill in; many servers do not know the question. Raises
        NotSent.
        """
        request, kind = types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult
        try:
            pages = await self._list_pages(request, kind)
        except (Refused, NoAnswer, UnreadableAnswer):
            return []
        found = [one for page in pages for one in page.resource_templates]
        filled = "put a value in place of each {...}"
        return [f"{one.uri_template} ({filled}): {one.description or one.name}" for one in found]

    async def list_prompts(self) -> dict[str, tuple[str, ...]]:
        """Its prompts, each with the names of its arguments. Raises as `call_tool`."""
        try:
            pages = await self._list_pages(types.ListPromptsRequest, types.ListPromptsResult)
        except Refused:
            return {}
        found = [one for page in pages for one in page.prompts]
        return {one.name: tuple(part.name for part in one.arguments or ()) for one in found}

    async def _list_pages(self, request: Any, kind: type[PageT]) -> list[PageT]:
        """All pages. Raises as `_send`."""
        pages: list[PageT] = []
        cursor: str | None = None
        while len(pages) < MAX_PAGES and (cursor or not pages):
            params = types.PaginatedRequestParams(cursor=cursor)
            pages.append(await self._send(request(params=params), kind))
            cursor = pages[-1].next_cursor if pages[-1].next_cursor != cursor else None
        return pages

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Its text. Raises Refused, and as `call_tool`."""
        params = types.GetPromptRequestParams(name=name, arguments=arguments)
        request = types.GetPromptRequest(params=params)
        answer = await self._send(request, types.GetPromptResult)
        parts = [one.content.model_dump(mode="json", exclude_none=True) for one in answer.messages]
        return read_result({"content": parts}).text

    async def _send(
        self,
        request: types.ClientRequest,
        kind: type[ResultT],
        tell: ProgressFnT | None = None,
        ask: Ask = ask_nobody,
    ) -> ResultT:
        """Raises Refused for a no of the server's."""
        if self.wire.why:
            raise NotSent(self.wire.why)
        late = f"nothing came within {ANSWER_S:g} s"
        try:
            async with asyncio.timeout(ANSWER_S) as limit:
                with self.running.note(ask, limit):
                    return await self.session.send_request(
                        request, kind, LONGEST_S, progress_callback=tell
                    )
        except TimeoutError as error:
            raise NoAnswer(late) from error
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
            if code != REQUEST_TIMEOUT:  # there it has been noted with its id
                self.running.unanswered.add(CUT_OFF)
            why = f"{BROKE_OFF}: {self.wire.why}" if self.wire.why else BROKE_OFF
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
