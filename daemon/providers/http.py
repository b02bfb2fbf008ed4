"""What all services asked over HTTP share: address, key, connections, errors, streams."""

import asyncio
import codecs
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers.base import (
    MAX_RESPONSE_BYTES,
    NOTHING,
    EncodingCache,
    ReplyBuilder,
    TextCallback,
    encode_body,
    make_too_long_error,
)
from daemon.providers.config import SERVICES
from daemon.providers.errors import CallFailed, make_error, parse_retry_after
from daemon.providers.rules import Json, is_from

T = TypeVar("T")
UTF_8 = codecs.getincrementaldecoder("utf-8-sig")
DRAIN_S, AFTER_S = 1.0, 10.0
GATHER_S = 0.035
EVENT_FIRST_BYTES = (b":", b"d", b"e", b"i", b"r")
LARGE_BODY, MAX_STRAY = 1_000_000, 200
AGAIN = re.compile(r"\A(?:data:\s*)+")  # some proxies write the field's name once more
MIN_SECRET_CHARS = 8
NEEDED = ("model", "messages", "input", "contents", "instructions", "system", "systemInstruction")


@dataclass(slots=True)
class EventStreamParser:
    """Joins events from bytes, however they are cut. An event counts once an empty line ends it."""

    _decoder: codecs.IncrementalDecoder = field(default_factory=partial(UTF_8, "replace"))
    _rest: list[str] = field(default_factory=list)
    _after_cr: bool = False

    def feed(self, received: bytes) -> list[tuple[str, str]]:
        """(event, data) of the events that these bytes complete."""
        if not (text := self._decoder.decode(received)):
            return []
        is_lf_of_crlf = self._after_cr and text[0] == "\n"
        self._after_cr = text[-1] == "\r"
        text = text[is_lf_of_crlf:].replace("\r\n", "\n").replace("\r", "\n")
        self._rest.append(text)
        if "\n" not in text:
            return []
        *blocks, rest = "".join(self._rest).split("\n\n")
        self._rest = [rest]
        events: list[tuple[str, str]] = []
        for block in blocks:
            event, data = "", list[str]()
            for line in block.split("\n"):
                name, _, text = line.partition(":")
                if name == "data":
                    data.append(text.removeprefix(" "))
                elif name == "event":
                    event = text.strip()
            if len(data) > 1 and not _are_whole(data):
                data = ["\n".join(data)]
            events += [(event, text) for text in data]
        return events


def _are_whole(data: Sequence[str]) -> bool:
    """Each line is an event: some servers leave out the empty lines between them."""
    try:
        return all(line.strip() == "[DONE]" or isinstance(json.loads(line), dict) for line in data)
    except ValueError:
        return False


async def read_reply(
    response: aiohttp.ClientResponse,
    builder: ReplyBuilder,
    on_text: TextCallback | None,
    silence_s: float,
    after_s: float,
) -> None:
    """Feed the answer to the builder. Raises CallFailed, TimeoutError.

    The first bytes tell whether it is a stream: some servers stream unasked, some never do.
    """
    first = b""
    async with aclosing(_iter_chunks(response, silence_s)) as chunks:
        async for chunk in chunks:
            if first := chunk.removeprefix(codecs.BOM_UTF8).lstrip():
                break
        is_stream = first.startswith(EVENT_FIRST_BYTES)
        if not is_stream and (first or response.content_type != "text/event-stream"):
            text = builder.feed(b"".join([first, *[chunk async for chunk in chunks]]))
            if text and on_text:
                on_text(text)
            return
        events, chunk, at_end, stray = EventStreamParser(), first, False, ""
        while not (at_end or builder.has_ended):
            at_end, text = not chunk, ""
            # Some servers leave out the empty line after their last event.
            for event, data in events.feed(chunk or b"\n\n"):
                if event == "error":
                    raise make_error(data.encode())
                data = AGAIN.sub("", data.strip())
                if data[:1] in ("{", "[") and not builder.has_ended:
                    text += builder.feed(data)
                elif data:  # a sign of life, or what a proxy says
                    stray = data[:MAX_STRAY]
            if text and on_text:
                on_text(text)
            if not builder.has_ended:
                chunk = await _read_on(chunks, after_s if builder.finish else None)
        if not (builder.has_ended or builder.finish):
            why = f"the answer was cut off: {stray}" if stray else "the answer was cut off"
            raise CallFailed(ErrorClass.NETWORK, why)
    # Read to the end, so that the connection can be used again; the reply is complete.
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(DRAIN_S):
            await response.content.read()


async def _read_on(chunks: AsyncGenerator[bytes], after_s: float | None) -> bytes:
    """The next bytes; b"" at the end. Behind the reply itself, where `after_s` is given, only its
    counts may come: a server that goes silent then, or away, has answered.
    """
    try:
        async with asyncio.timeout(after_s):
            return await anext(chunks, b"")
    except (TimeoutError, aiohttp.ClientError):
        if after_s is not None:
            return b""
        raise


async def _iter_chunks(response: aiohttp.ClientResponse, silence_s: float) -> AsyncGenerator[bytes]:
    """The body; of pieces that come quickly, those of 35 ms are read together."""
    loop, content, total = asyncio.get_running_loop(), response.content, 0
    next_read = 0.0
    while not content.at_eof():
        connection = response.connection
        transport = connection.transport if connection else None
        if transport and not transport.is_closing() and (wait := next_read - loop.time()) > 0:
            transport.pause_reading()
            try:
                await asyncio.sleep(wait)
            finally:
                transport.resume_reading()
        # nothing is waited for where all of it is here
        async with asyncio.timeout(None if content.is_eof() else silence_s):
            chunk = await content.readany()
        next_read = loop.time() + GATHER_S
        total += len(chunk)
        if total > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
        yield chunk


def make_auth_headers(kind: str, api_key: str) -> dict[str, str]:
    """The headers that a request to this kind of service begins with."""
    service = SERVICES.get(kind, SERVICES["openai"])  # an add-on's is taken for the usual one
    headers = {"anthropic-version": "2023-06-01"} if kind == "anthropic" else {}
    return headers | ({service.header: service.key_prefix + api_key} if api_key else {})


async def read_whole(response: aiohttp.ClientResponse, silence_s: float) -> bytes:
    """The answer. Raises CallFailed where it is too long."""
    return b"".join([chunk async for chunk in _iter_chunks(response, silence_s)])


class HttpService:
    """A service of models. `timeout_s` is the longest silence, `total_timeout_s` the longest
    call.
    """

    kind: ClassVar[str]
    path: ClassVar[str]

    def __init__(
        self,
        *,
        base_url: str,
        clock: Clock,
        api_key: str = "",
        timeout_s: float = 120.0,
        total_timeout_s: float = 900.0,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        extra, base = extra_headers or {}, URL(base_url)
        self._clock, self._timeout_s, self._total_timeout_s = clock, timeout_s, total_timeout_s
        # As providers print it: with the path of a call, or a slash, at its end.
        root = base.path.rstrip("/").removesuffix(self.path).rstrip("/")
        self.url = base.with_path(root + self.path, keep_query=True)
        self._host = base.host or ""
        if not base.is_default_port():
            self._host += f":{base.port}"
        own = SERVICES.get(self.kind)
        is_own = own and self._host == URL(own.url).host
        self.name = self.kind if is_own else f"{self.kind}:{self._host}"
        self._secrets = [api_key, *(v for v in extra.values() if len(v) >= MIN_SECRET_CHARS)]
        self._headers = {"Content-Type": "application/json"}
        self._headers |= {**make_auth_headers(self.kind, api_key), **extra}
        # Looked up once: aiohttp would read the environment, and ~/.netrc, at every call.
        bypass = proxy_bypass(base.host or "")
        self._proxy = None if bypass else getproxies().get(base.scheme)
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, url: URL, body: bytes, read: Callable[[aiohttp.ClientResponse, float], Awaitable[T]]
    ) -> T:
        """What `read` makes of the answer, within so long a silence. Raises CallFailed."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._timeout_s),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
            )
        # Large bytes would be written in one go.
        data = body if len(body) < LARGE_BODY else io.BytesIO(body)
        ends = asyncio.get_running_loop().time() + self._total_timeout_s
        # Until the answer begins it ends a silence, and an upload that nobody reads.
        limit = asyncio.timeout(min(self._timeout_s, self._total_timeout_s))
        try:
            async with limit:
                response = await self._session.post(
                    url, data=data, proxy=self._proxy, allow_redirects=False
                )
                limit.reschedule(ends)
                async with response:
                    if response.status >= 300:
                        raise await self._read_error(response)
                    return await read(response, self._timeout_s)
        except TimeoutError as error:
            silence = f"it was silent for {self._timeout_s:g} s"
            if limit.expired() and (limit.when() or 0.0) >= ends:
                silence = f"its answer was not complete after {self._total_timeout_s:g} s"
            raise CallFailed(ErrorClass.TIMEOUT, silence) from error
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # UnicodeError: a bad name
            raise CallFailed(ErrorClass.NETWORK, _describe_error(error)) from error

    def to_provider_error(self, error: CallFailed) -> ProviderError:
        """As a person is told it."""
        return error.to_provider_error(self._host, self._secrets)

    async def aclose(self) -> None:
        """Close connections."""
        if self._session:
            await self._session.close()

    async def _read_error(self, response: aiohttp.ClientResponse) -> CallFailed:
        if response.status < 400:
            target = f"it redirects to {response.headers.get('Location')}"
            return CallFailed(ErrorClass.BAD_REQUEST, target, status=response.status)
        body = bytearray()
        with suppress(TimeoutError):  # the status says enough
            async with asyncio.timeout(self._timeout_s):
                async for piece in response.content.iter_any():
                    body += piece
                    if len(body) >= LARGE_BODY:
                        break
        wait = parse_retry_after(response.headers, self._clock.now())
        return make_error(bytes(body[:LARGE_BODY]), response.status, wait)


class HttpProvider(HttpService, ABC):
    """A provider. It streams when somebody watches; the reply is the same either way.

    `rejects_native` finds the error of a service that refuses its own former reply; `needed` is
    what it requires besides the usual; `after_s` is the longest silence behind a reply.
    """

    rejects_native: ClassVar[re.Pattern[str] | None] = None
    needed: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        after_s: float = AFTER_S,
        **given: Any,
    ) -> None:
        super().__init__(**given)
        self._after_s = after_s
        self._rejected: set[int] = set()
        self.cache = EncodingCache()

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        """The whole reply; `on_text` gets its text while it comes. Raises ProviderError."""
        if self._rejected:
            messages = tuple(
                replace(m, native=None)
                if m.native and hash(m.native.blocks) in self._rejected
                else m
                for m in request.messages
            )
            request = replace(request, messages=messages)
        try:
            return await self._send(model, request, on_text)
        except CallFailed as error:
            if self._is_native_rejected(error, model, request):
                return await self.complete(model, request, on_text)
            raise self.to_provider_error(error) from None  # may echo the key

    @abstractmethod
    def prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[URL, Json, ReplyBuilder]:
        """The address and the fields of the body, in the order in which they change least; what is
        bytes is JSON already. And what reads the answer.
        """

    async def _send(
        self, model: str, request: ModelRequest, on_text: TextCallback | None
    ) -> ModelReply:
        """One call. Raises CallFailed."""
        stream = on_text is not None
        url, fields, builder = self.prepare(model, request, stream)
        for name in request.without:
            fields.pop(name, None)
        try:
            await self.post(
                url,
                encode_body(fields),
                lambda response, silence_s: read_reply(
                    response, builder, on_text, silence_s, self._after_s
                ),
            )
        except CallFailed as error:
            sent = (name for name, value in fields.items() if value not in NOTHING)
            error.parameters = tuple(name for name in sent if name not in (*NEEDED, *self.needed))
            raise
        return builder.build(request, self.name, model)

    def _is_native_rejected(self, error: CallFailed, model: str, request: ModelRequest) -> bool:
        """After a change of the account's key a service may refuse its own former thinking.

        What this request gave back is left out from now on. False if that is nothing new.
        """
        wrong = error.kind in (ErrorClass.BAD_REQUEST, ErrorClass.NOT_FOUND)
        if not (wrong and self.rejects_native and self.rejects_native.search(str(error))):
            return False
        natives = [message.native for message in request.messages if message.native]
        sent = {hash(n.blocks) for n in natives if is_from(n, (self.name, model))}
        is_new = bool(sent - self._rejected)
        self._rejected |= sent
        return is_new


def _describe_error(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection without an answer"
        case aiohttp.ClientPayloadError():
            return "the answer was cut off"
        case aiohttp.ClientOSError():
            words = str(getattr(error, "certificate_error", ""))
            return words or error.strerror or str(error)
        case _:
            return str(error) or type(error).__name__
