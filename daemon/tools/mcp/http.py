"""MCP over HTTP: what fails is told apart by whether the request was sent, and by whether it can
have been carried out.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCMessage,
)

from daemon.tools.mcp.answers import Json
from daemon.tools.mcp.tools import UrlAddress
from daemon.tools.mcp.wire import UNREADABLE, OpenRequests, read_message

MAX_MESSAGE_BYTES = 16 << 20
CONNECT_S, SILENCE_S = 15.0, 300.0
REFUSED, CUT_OFF, SESSION_REFUSED = -32_950, -32_951, -32_953
SESSION_HEADER = "mcp-session-id"
OTHER_REFUSALS = (408, 413, 429)
"""Statuses that speak of time, size and rate, not of the session."""
NOT_RUN = (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS)
NEVER_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


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
        try:
            response = await super().handle_async_request(request)
            if not _is_json(response):
                return self._judge(request, response)
            body = await _read_body(response)
        except NEVER_SENT:
            return self._refuse(f"{request.url.host} cannot be reached")
        except httpx2.TransportError:
            return _make_answer(CUT_OFF, "no answer from the server")
        if len(body) > MAX_MESSAGE_BYTES:
            return _make_answer(UNREADABLE, f"it has more than {MAX_MESSAGE_BYTES >> 20} MB")
        return self._judge(request, response, body)

    def _judge(
        self, request: httpx2.Request, response: httpx2.Response, body: bytes | None = None
    ) -> httpx2.Response:
        status, asked, message = response.status_code, _find_request(request), None
        with suppress(ValueError):
            message = read_message(body, OpenRequests(set(asked.ids))) if body else None
        in_session = asked.ids and SESSION_HEADER in request.headers
        if in_session and (refusal := _find_refusal(status, message, body, asked)):
            self.connection.close(f"it refuses the session ({refusal['message']})")
            return _make_error(refusal)
        if status in (401, 403):
            return self._refuse(f"it refuses us (HTTP {status}): look at its headers in the config")
        if status >= 500:
            return _make_answer(CUT_OFF, "no answer from the server")
        if message and asked.ids:
            return _make_response(message, response)
        if body is None or status >= 400 or not asked.ids:
            return response if body is None else httpx2.Response(status, content=body)
        return _make_answer(UNREADABLE, f"it is no JSON-RPC message: {body[:200]!r}")

    def _refuse(self, why: str) -> httpx2.Response:
        self.connection.close(why)
        return _make_answer(REFUSED, "no answer from the server")


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("application/json")


async def _read_body(response: httpx2.Response) -> bytes:
    """All of it, or a little more than is allowed. Raises TransportError where it breaks off."""
    found = bytearray()
    try:
        async for piece in response.aiter_bytes():
            found += piece
            if len(found) > MAX_MESSAGE_BYTES:
                break
    except httpx2.DecodingError:
        return b""
    finally:
        await response.aclose()
    return bytes(found)


def _find_request(request: httpx2.Request) -> OpenRequests:
    """The request that this POST carries; none where it is a notification or an answer."""
    asked = OpenRequests()
    sent = json.loads(request.content)
    if "method" in sent and "id" in sent:
        asked.ids.add(sent["id"])
    return asked


def _make_response(message: JSONRPCMessage, former: httpx2.Response) -> httpx2.Response:
    """As it came, but for what was mended."""
    session = former.headers.get(SESSION_HEADER)
    kept = {SESSION_HEADER: session} if session else {}
    table = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return httpx2.Response(former.status_code, json=table, headers=kept)


def _make_answer(code: int, why: str) -> httpx2.Response:
    return _make_error({"code": code, "message": why})


def _make_error(error: Json) -> httpx2.Response:
    return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error})


def _find_refusal(
    status: int, message: JSONRPCMessage | None, body: bytes | None, asked: OpenRequests
) -> Json | None:
    """The error for a request of a session that was turned away, if it was: whatever the words, a
    new session shows whether the old one was the reason. `data`: it was certainly not carried out,
    for the protocol answers so what it does not accept; the error of a request that the server has
    read, under its id, may come later.
    """
    error = message.error if isinstance(message, JSONRPCError) else None
    is_own = error is not None and _get_id(body) in asked.ids
    if is_own and error and error.code in (METHOD_NOT_FOUND, INVALID_PARAMS):
        return None
    is_invalid = error is not None and error.code == INVALID_REQUEST
    if not is_invalid and (not 400 <= status < 500 or status in OTHER_REFUSALS):
        return None
    words = f"HTTP {status}" + (f": {error.message[:300]}" if error else "")
    certain = not is_own or error is None or error.code in NOT_RUN
    return {"code": SESSION_REFUSED, "message": words, "data": certain}


def _get_id(body: bytes | None) -> object:
    """The id that the server itself wrote; None for none that can be ours."""
    given = json.loads(body or b"null")
    found = given.get("id") if isinstance(given, dict) else None
    return found if isinstance(found, int | str) else None
