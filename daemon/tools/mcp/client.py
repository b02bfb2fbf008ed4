"""Conversations with MCP servers, spoken by the `mcp` package (extra `mcp`): both generations of the protocol."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import assert_never

import httpx2
from mcp import types
from mcp.client import Client
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT
from pydantic import TypeAdapter

from daemon import VERSION
from daemon.tools.mcp.http import CUT_OFF, NOT_REACHED, REFUSED, http
from daemon.tools.mcp.session import (
    Address,
    Definition,
    Launch,
    NoAnswer,
    NotSent,
    OnChanged,
    OnLine,
    Said,
    ServerLost,
    Session,
    as_json,
)
from daemon.tools.mcp.stdio import stdio
from daemon.tools.mcp.wire import Wire

LIST_S = 60.0
CALL_S = 60.0
MOST_PAGES, MOST_TOOLS = 100, 1000
ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
FAULTS = (MCPError, OSError, ValueError, RuntimeError, TypeError, LookupError, httpx2.HTTPError)
LOST = (CONNECTION_CLOSED, CUT_OFF, PARSE_ERROR, REQUEST_TIMEOUT)
ASKED_BACK = "The server asked for something in return (words of a model, or a person's answer), which it does not get from here."


@asynccontextmanager
async def connect(place: Launch | Address, *, changed: OnChanged, heard: OnLine) -> AsyncIterator[Session]:
    """See session.Connect. What a server asks of us (a model's words, a person's answer, our folders) is refused."""
    wire = Wire()

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    client = Client(
        stdio(place, wire, heard) if isinstance(place, Launch) else http(place, wire),
        cache=None,
        read_timeout_seconds=LIST_S,
        message_handler=on_message,
        client_info=types.Implementation(name="aidaemon", version=VERSION),
    )
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(client)
        except (*FAULTS, ExceptionGroup) as error:
            raise ServerLost(wire.why or _why(error)) from error
        listening = asyncio.create_task(_listen(client, changed), name="mcp: changes")
        try:
            yield SdkSession(client.session, wire)
        finally:
            wire.cut("we left")
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
            with suppress(*FAULTS, ExceptionGroup):
                await stack.aclose()


async def _listen(client: Client, changed: OnChanged) -> None:
    """Servers of the newer kind tell changes only to those who asked for them."""
    with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
        async with client.listen(tools_list_changed=True) as events:
            async for _ in events:
                changed()


def _why(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class SdkSession:
    """See session.Session."""

    session: ClientSession
    wire: Wire

    async def lost(self) -> str:
        """Waits until the connection is gone; why it is."""
        return await self.wire.gone()

    async def list_tools(self) -> tuple[Definition, ...]:
        """All pages of the list."""
        found: list[Definition] = []
        cursor: str | None = None
        try:
            for _ in range(MOST_PAGES):
                page = await self.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                found += [_definition(tool) for tool in page.tools]
                cursor = page.next_cursor
                if not cursor or len(found) > MOST_TOOLS:
                    break
        except FAULTS as error:
            raise ServerLost(self.wire.why or _why(error)) from error
        return tuple(found[:MOST_TOOLS])

    async def call_tool(self, name: str, arguments: Mapping[str, object]) -> Said:
        """One request, sent once."""
        if self.wire.why:
            raise NotSent(self.wire.why)
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=dict(arguments)))
        try:
            answer = await self.session.send_request(request, ANSWER, request_read_timeout_seconds=CALL_S)
        except MCPError as error:
            return self._refusal(error)
        except FAULTS as error:
            raise NoAnswer(_why(error)) from error
        if isinstance(answer, types.InputRequiredResult):
            return Said(ASKED_BACK, is_error=True)
        return Said(_text(answer), bool(answer.is_error))

    def _refusal(self, error: MCPError) -> Said:
        if error.code in (NOT_REACHED, REFUSED):
            raise NotSent(self.wire.why) from error
        if error.code == REQUEST_TIMEOUT:
            raise NoAnswer(f"no answer within {CALL_S:g} s") from error
        if error.code in LOST:
            raise NoAnswer(self.wire.why or "the connection broke off") from error
        return Said(f"{error.message} (code {error.code})", is_error=True)


def _definition(tool: types.Tool) -> Definition:
    whole = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    title = whole.get("title") or ""
    description = whole.get("description") or title
    return Definition(
        tool.name, description, as_json(whole.get("inputSchema") or {}), as_json(whole.get("annotations") or {})
    )


def _text(answer: types.CallToolResult) -> str:
    parts = [_part(block) for block in answer.content]
    if not any(isinstance(block, types.TextContent) for block in answer.content) and answer.structured_content is not None:
        parts.append(json.dumps(answer.structured_content, ensure_ascii=False))
    return "\n".join(parts)


def _part(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return f"[{block.type}, {block.mime_type}, {_size(block.data)}: not shown]"
        case types.ResourceLink():
            return f"[link to {block.uri}: {block.name}]"
        case types.EmbeddedResource():
            return _embedded(block.resource)
        case never:
            assert_never(never)


def _embedded(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(resource, types.TextResourceContents):
        return f"[{resource.uri}]\n{resource.text}"
    return f"[{resource.uri}, {resource.mime_type or 'bytes'}, {_size(resource.blob)}: not shown]"


def _size(base64: str) -> str:
    return f"{max(len(base64) * 3 // 4 // 1024, 1)} kB"
