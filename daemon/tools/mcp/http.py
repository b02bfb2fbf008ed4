"""The way to a server that listens somewhere (streamable HTTP): what fails on it becomes an answer that says how far it got."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp.client.streamable_http import streamable_http_client

from daemon.tools.mcp.session import Address
from daemon.tools.mcp.stdio import Streams
from daemon.tools.mcp.wire import LONGEST_MESSAGE, Wire

NOT_REACHED, CUT_OFF, REFUSED = -32_950, -32_951, -32_952
CONNECT_S, SILENCE_S = 15.0, 300.0
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
SESSION = "mcp-session-id"


@asynccontextmanager
async def http(place: Address, wire: Wire) -> AsyncIterator[Streams]:
    """Streams to that address, which alone gets the headers: no redirect to another is followed."""
    client = httpx2.AsyncClient(
        transport=Guarded(wire),
        headers=dict(place.headers),
        timeout=httpx2.Timeout(CONNECT_S, read=SILENCE_S),
        trust_env=False,
    )
    async with client, streamable_http_client(
        place.url, http_client=client, max_sse_event_size=LONGEST_MESSAGE
    ) as (incoming, outgoing):
        yield incoming, outgoing  # type: ignore[misc]


class Guarded(httpx2.AsyncHTTPTransport):
    """Requests that fail get an answer made here, in the protocol's own form, so that the call that waits learns of it."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self.wire = wire

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it. Only what a call waits for is answered in the server's place."""
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            if isinstance(error, NEVER_SENT):
                self.wire.cut(f"{request.url.host} cannot be reached")
                return _answer(NOT_REACHED)
            return _answer(CUT_OFF)
        return self._judged(request, response) if request.method == "POST" else response

    def _judged(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        if response.status_code == 404 and SESSION in request.headers:
            self.wire.cut("it has forgotten the session")
            return _answer(NOT_REACHED)
        if response.status_code in (401, 403):
            self.wire.cut(f"it refuses us (HTTP {response.status_code}): look at its headers in the config")
            return _answer(REFUSED)
        if response.status_code >= 500:
            return _answer(CUT_OFF)
        if response.headers.get("content-type", "").startswith("application/json"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = Bounded(response.stream)
        return response


class Bounded(httpx2.AsyncByteStream):
    """A body that ends in one kind of error, whether it breaks off or is too long."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self.inner, self.room = inner, LONGEST_MESSAGE

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self.inner:
                self.room -= len(piece)
                if self.room < 0:
                    raise httpx2.StreamError(f"the answer has more than {LONGEST_MESSAGE >> 20} MB")
                yield piece
        except httpx2.TransportError as error:
            raise httpx2.StreamError("the answer broke off") from error

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self.inner.aclose()


def _answer(code: int) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": "answered by the house"}}
    return httpx2.Response(502, headers={"content-type": "application/json"}, content=json.dumps(error).encode())
