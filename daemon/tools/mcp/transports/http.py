"""MCP over HTTP: what fails is told apart by whether the request was sent, and by whether it can
have been carried out.
"""

import asyncio
import json
import re
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
    ErrorData,
    JSONRPCError,
    JSONRPCResponse,
    RequestId,
)

from daemon.tools.mcp.tools import UrlAddress, sanitize_line
from daemon.tools.mcp.transports.messages import (
    CUT_OFF,
    REFUSED,
    SESSION_REFUSED,
    UNREADABLE,
    OpenRequests,
    list_messages,
    parse,
    read_messages,
)

MAX_MESSAGE_BYTES = 16 << 20
CONNECT_S, SILENCE_S = 15.0, 300.0
NO_ANSWER, SESSION_HEADER = "no answer from the server", "mcp-session-id"
EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
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
    """`why` it was closed is empty as long as the connection holds. No silence is too long while a
    person is asked.
    """

    why: str = ""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    _asking: int = 0
    _limits: set[asyncio.Timeout] = field(default_factory=set)

    def close(self, why: str) -> None:
        """The first reason counts."""
        self.why = self.why or why
        self.closed.set()

    def begin_asking(self) -> None:
        """A person is asked."""
        self._asking += 1
        self._move_limits()

    def end_asking(self) -> None:
        """They are asked no more."""
        self._asking -= 1
        self._move_limits()

    @asynccontextmanager
    async def limit_silence(self) -> AsyncIterator[asyncio.Timeout]:
        """Raises ReadTimeout inside when nothing has come for too long."""
        try:
            async with asyncio.timeout(None) as limit:
                limit.reschedule(self._find_end())
                self._limits.add(limit)
                try:
                    yield limit
                finally:
                    self._limits.discard(limit)
        except TimeoutError as error:
            raise httpx2.ReadTimeout(NO_ANSWER) from error

    def _find_end(self) -> float | None:
        return None if self._asking else asyncio.get_running_loop().time() + SILENCE_S

    def _move_limits(self) -> None:
        ends = self._find_end()
        for limit in self._limits:
            with suppress(RuntimeError):  # it has just passed
                limit.reschedule(ends)


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


class PatientStream(httpx2.AsyncByteStream):
    """A body in which nothing may come as long as a person is asked."""

    def __init__(self, inner: httpx2.AsyncByteStream, wire: Connection) -> None:
        self.inner, self.connection = inner, wire

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = aiter(self.inner)
        while True:
            async with self.connection.limit_silence():
                part = await anext(parts, None)
            if part is None:
                return
            yield part

    async def aclose(self) -> None:
        """As the base class."""
        await self.inner.aclose()


class MendedEvents(httpx2.AsyncByteStream):
    """A stream of events with the answer to one request: each event is a message, or is left out as
    what no client can read.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, number: RequestId) -> None:
        self.inner, self.asked = inner, OpenRequests({number})

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kept, seen = bytearray(), 0
        async for part in self.inner:
            kept += part
            while end := EVENT_END.search(kept, seen):
                block, seen = bytes(kept[: end.end()]), 0
                del kept[: end.end()]
                yield self._mend(block)
            seen = max(0, len(kept) - 3)
            if len(kept) > MAX_MESSAGE_BYTES:  # the library refuses it
                yield bytes(kept)
                kept, seen = bytearray(), 0
        yield self._mend(bytes(kept))

    def _mend(self, event: bytes) -> bytes:
        lines = event.splitlines()
        data = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
        if not any(data):
            return event
        head = b"\n".join(line for line in lines if line and not line.startswith(b"data:"))
        try:
            found = read_messages(b"\n".join(data), self.asked)
        except ValueError:
            return b": left out\n\n"
        texts = (one.model_dump_json(by_alias=True, exclude_unset=True) for one in found)
        return b"".join(b"%s\ndata: %s\n\n" % (head, text.encode()) for text in texts).lstrip(b"\n")

    async def aclose(self) -> None:
        """As the base class."""
        await self.inner.aclose()


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """Answers a failed request with a protocol error, so that the waiting call learns of it."""

    def __init__(self, wire: Connection) -> None:
        super().__init__()
        self.connection = wire

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it; only a POST, for which a call waits, gets an answer of our own."""
        if request.method != "POST":
            return await super().handle_async_request(request)
        timeouts = dict(request.extensions.get("timeout") or {}) | {"read": None}
        request.extensions = {**request.extensions, "timeout": timeouts}
        try:
            async with self.connection.limit_silence():
                response = await super().handle_async_request(request)
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = PatientStream(response.stream, self.connection)
            kind = response.headers.get("content-type", "").lower()
            # some servers give their JSON another name, or none
            is_stream = kind.startswith("text/event-stream")
            body = None if is_stream else await _read_body(response)
        except NEVER_SENT:
            return self._refuse(f"{request.url.host} cannot be reached")
        except httpx2.TransportError:
            return _make_error(CUT_OFF, NO_ANSWER)
        if body and len(body) > MAX_MESSAGE_BYTES:
            return _make_error(UNREADABLE, f"it has more than {MAX_MESSAGE_BYTES >> 20} MB")
        sent = json.loads(request.content)
        number = sent.get("id") if "method" in sent else None  # it has one, and waits
        is_plain = "content-encoding" not in response.headers
        if is_stream and is_plain and number is not None and response.status_code < 300:
            response.stream = MendedEvents(response.stream, number)
        has_session = SESSION_HEADER in request.headers
        return self._judge(response, body, number, has_session=has_session)

    def _judge(
        self,
        response: httpx2.Response,
        body: bytes | None,
        number: RequestId | None,
        *,
        has_session: bool,
    ) -> httpx2.Response:
        status, message, given = response.status_code, None, None
        if body and number is not None:
            with suppress(ValueError):
                given = parse(body)
                found = list_messages(given, OpenRequests({number}))
                answers = (one for one in found if isinstance(one, (JSONRPCResponse, JSONRPCError)))
                message = next(answers, None)
        error = message.error if isinstance(message, JSONRPCError) else None
        has_own_id = isinstance(given, dict) and given.get("id") == number
        if number is not None and has_session and _is_refusal(status, error, has_own_id=has_own_id):
            words = f"HTTP {status}" + (f": {error.message[:300]}" if error else "")
            self.connection.close(f"it refuses the session ({words})")
            # an error under the id of a request that was read may come after it was carried out
            is_certain = not has_own_id or error is None or error.code in NOT_RUN
            return _make_error(SESSION_REFUSED, words, is_certain)
        if why := _explain_status(status, response.headers.get("location", "")):
            return self._refuse(f"{why} in the config")
        if status >= 500:
            return _make_error(CUT_OFF, NO_ANSWER)
        if message:
            session = response.headers.get(SESSION_HEADER)
            table = message.model_dump(mode="json", by_alias=True, exclude_unset=True)
            kept = {SESSION_HEADER: session} if session else {}
            return httpx2.Response(status, json=table, headers=kept)
        if body is None or status >= 400 or number is None:
            return response if body is None else httpx2.Response(status, content=body)
        return _make_error(UNREADABLE, f"it is no JSON-RPC message: {body[:200]!r}")

    def _refuse(self, why: str) -> httpx2.Response:
        self.connection.close(why)
        return _make_error(REFUSED, NO_ANSWER)


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


def _is_refusal(status: int, error: ErrorData | None, *, has_own_id: bool) -> bool:
    """A request of a session was turned away: whatever the words, a new session shows whether the
    old one was the reason.
    """
    if error and has_own_id and error.code in (METHOD_NOT_FOUND, INVALID_PARAMS):
        return False  # it is about the request itself
    is_invalid = error is not None and error.code == INVALID_REQUEST
    return is_invalid or (400 <= status < 500 and status not in OTHER_REFUSALS)


def _explain_status(status: int, target: str) -> str:
    """Why nothing can come from this address, and where to look; "" for any other status."""
    if status in (401, 403):
        return f"it refuses us (HTTP {status}): look at its headers"
    if 300 <= status < 400:
        return f"it redirects to {sanitize_line(target) or 'another address'}: look at its url"
    if status == 405:
        return "it does not speak streamable HTTP (HTTP 405 for a POST): look at its url"
    return ""


def _make_error(code: int, why: str, data: object = None) -> httpx2.Response:
    error = {"code": code, "message": why, "data": data}
    return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error})
