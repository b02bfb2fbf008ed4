"""Server-sent events, whichever way their bytes are cut.

What a server sends, read by what it does and not by what it was asked or what it calls it: some stream never, some always.

Connections to one model service: kept alive, as many as are needed, cut as soon as a call is cancelled.
"""

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
from pydantic import BaseModel, ValidationError
from yarl import URL

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply
from daemon.providers.base import TextCallback
from daemon.providers.errors import CallFailed, make_event_error, make_response_error


@value
class ServerEvent:
    """One event of a stream."""

    data: str
    event: str = ""
    id: str = ""


@dataclass(slots=True)
class EventStreamParser:
    """Puts events together from bytes. What no empty line ends is not an event yet, and never is if the stream stops there."""

    _rest: bytearray = field(default_factory=bytearray)
    _after_cr: bool = False
    _data: list[str] = field(default_factory=list)
    _event: str = ""
    _id: str = ""
    _started: bool = False

    def feed(self, received: bytes) -> list[ServerEvent]:
        """The events that these bytes complete."""
        if self._after_cr and received.startswith(b"\n"):
            received, self._after_cr = received[1:], False
        if not received:
            return []
        self._after_cr = received.endswith(b"\r")
        if b"\n" not in received and b"\r" not in received:
            self._rest += received
            return []
        lines = bytes(self._rest + received).splitlines(keepends=True)
        self._rest = bytearray() if lines[-1].endswith((b"\n", b"\r")) else bytearray(lines.pop())
        return [event for line in lines if (event := self._feed_line(line))]

    def _feed_line(self, raw: bytes) -> ServerEvent | None:
        line = raw.rstrip(b"\r\n").decode("utf-8", "replace")
        if not self._started:
            self._started, line = True, line.removeprefix("\ufeff")
        if not line:
            return self._finish_event()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id":
            self._id = value
        return None

    def _finish_event(self) -> ServerEvent | None:
        event = ServerEvent("\n".join(self._data), self._event, self._id) if self._data else None
        self._data, self._event, self._id = [], "", ""
        return event


BOM = b"\xef\xbb\xbf"
MAX_RESPONSE_BYTES = 64 << 20
LINGER_S = 1.0
MAX_SHOWN_BYTES = 100
EVENT_FIRST_BYTES = (b":", b"d", b"e", b"i", b"r")
Model = TypeVar("Model", bound=BaseModel)


def make_too_long_error() -> CallFailed:
    """An answer that would fill the memory."""
    return CallFailed(
        ErrorClass.MALFORMED, f"the answer does not end: more than {MAX_RESPONSE_BYTES >> 20} MiB"
    )


def parse_json(kind: type[Model], received: str | bytes, what: str) -> Model:
    """A JSON object of the server's, in its form. Raises Fault: it is not `what` it should be."""
    try:
        return kind.model_validate_json(received)
    except ValidationError as error:
        raise make_malformed_error(what, received) from error


def make_malformed_error(what: str, received: str | bytes) -> CallFailed:
    """What came is something else, and how it begins."""
    begins = received[:MAX_SHOWN_BYTES]
    shown = begins.decode("utf-8", "replace") if isinstance(begins, bytes) else begins
    return CallFailed(ErrorClass.MALFORMED, f"not {what}: {shown}")


def is_stream(response: aiohttp.ClientResponse, first: bytes) -> bool:
    """It sends server-sent events, as its first bytes show; or it promises some and sends none."""
    empty_stream = not first and response.content_type == "text/event-stream"
    return empty_stream or first.startswith(EVENT_FIRST_BYTES)


async def read_first(response: aiohttp.ClientResponse) -> bytes:
    """What comes first, down to something that is more than blank."""
    first = b""
    while not first and not response.content.at_eof():
        first = (await response.content.readany()).removeprefix(BOM).lstrip()
    return first


async def read_rest(response: aiohttp.ClientResponse, first: bytes) -> bytes:
    """All of it, as long as that is an answer and not a flood."""
    received = bytearray(first)
    async for piece in response.content.iter_any():
        received += piece
        if len(received) > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
    return bytes(received)


async def iter_chunks(response: aiohttp.ClientResponse, first: bytes) -> AsyncIterator[bytes]:
    """All of it; and the empty line that some servers leave out after their last event."""
    yield first
    total = len(first)
    async for received in response.content.iter_any():
        total += len(received)
        if total > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
        yield received
    yield b"\n\n"


async def iter_event_data(response: aiohttp.ClientResponse, first: bytes) -> AsyncGenerator[str]:
    """The data of each event, but for those that only keep the connection open. Raises Fault for an event that is an error."""
    events = EventStreamParser()
    async for received in iter_chunks(response, first):
        for event in events.feed(received):
            if event.event == "error":
                raise make_event_error(event.data.encode())
            if data := event.data.strip():
                yield data


async def read_reply(
    response: aiohttp.ClientResponse,
    on_text: TextCallback | None,
    whole: Callable[[bytes], ModelReply],
    streamed: Callable[[AsyncGenerator[str], TextCallback], Awaitable[ModelReply]],
) -> ModelReply:
    """What the server answers, in the way in which it does; shown as it comes."""
    show = on_text or (lambda _: None)
    first = await read_first(response)
    if is_stream(response, first):
        async with aclosing(iter_event_data(response, first)) as data:
            found = await streamed(data, show)
        await drain(response)
        return found
    found = whole(await read_rest(response, first))
    if found.text:
        show(found.text)
    return found


async def read_at_most(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Its beginning, if there is more."""
    received = bytearray()
    async for piece in response.content.iter_any():
        received += piece
        if len(received) >= most:
            break
    return bytes(received[:most])


async def drain(response: aiohttp.ClientResponse) -> None:
    """Read to the end, so that the connection can be used again; the reply is whole, whatever happens here."""
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(LINGER_S):
            await response.content.read()


LARGE_BODY = 1_000_000


class Transport:
    """Posts JSON. `timeout_s` is the longest silence, of whichever kind; a long answer that keeps coming may take any time."""

    def __init__(
        self, *, url: URL, headers: Mapping[str, str], timeout_s: float, clock: Clock
    ) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/json", **headers}
        self._timeout_s = timeout_s
        self._clock = clock
        self._proxy = _find_proxy(url)
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def post(
        self, body: bytes, url: URL | None = None
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The response to be read, if its status is a success. Raises Fault, for troubles of reading too.

        `url` is another address of the same server.
        """
        try:
            # Connecting and waiting are two silences; this one also ends an upload that nobody reads.
            async with asyncio.timeout(2 * self._timeout_s):
                to = url or self._url
                response = await self._get_session().post(
                    to, data=_make_payload(body), proxy=self._proxy, allow_redirects=False
                )
            async with response:
                if response.status >= 300:
                    raise await self._read_error(response)
                yield response
        except TimeoutError as error:
            raise CallFailed(
                ErrorClass.TIMEOUT, f"it was silent for {self._timeout_s:g} s"
            ) from error
        except (
            aiohttp.ClientError,
            OSError,
            UnicodeError,
        ) as error:  # a name that is none is told as a UnicodeError
            raise CallFailed(ErrorClass.NETWORK, _describe_error(error)) from error

    async def _read_error(self, response: aiohttp.ClientResponse) -> CallFailed:
        if response.status < 400:
            return CallFailed(
                ErrorClass.BAD_REQUEST,
                f"it redirects to {response.headers.get('Location')}",
                status=response.status,
            )
        try:
            async with asyncio.timeout(self._timeout_s):
                words = await read_at_most(response, LARGE_BODY)
        except TimeoutError:
            words = b""  # the status says enough
        return make_response_error(response.status, response.headers, words, self._clock.now())

    def _get_session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(
                    total=None, connect=self._timeout_s, sock_read=self._timeout_s
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
            )
        return self._session

    async def aclose(self) -> None:
        """Let go of the connections."""
        if self._session:
            await self._session.close()


def _find_proxy(url: URL) -> str | None:
    """What HTTP(S)_PROXY and NO_PROXY say, looked up once: aiohttp would read them, and ~/.netrc, at every call."""
    return None if proxy_bypass(url.host or "") else getproxies().get(url.scheme)


def _make_payload(body: bytes) -> bytes | io.BytesIO:
    return (
        body if len(body) < LARGE_BODY else io.BytesIO(body)
    )  # large bytes would be written in one go


def _describe_error(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection without an answer"
        case aiohttp.ClientPayloadError():
            return "the answer was cut off"
        case aiohttp.ClientOSError():
            return str(getattr(error, "certificate_error", "")) or error.strerror or str(error)
        case _:
            return str(error) or type(error).__name__
