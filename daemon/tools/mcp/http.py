"""MCP over HTTP: what fails is told apart by whether the request was sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from daemon.tools.mcp.tools import UrlAddress

MAX_MESSAGE_BYTES = 16 << 20
CONNECT_S, SILENCE_S = 15.0, 300.0
REFUSED, CUT_OFF = -32_950, -32_951
SESSION_HEADER = "mcp-session-id"
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
