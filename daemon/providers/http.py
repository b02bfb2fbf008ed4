"""Answers of HTTP servers: server-sent events, or one body, whichever the server sends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

import aiohttp

from daemon.core import value
from daemon.core.errors import ErrorClass
from daemon.providers.base import (
    MAX_RESPONSE_BYTES,
    ReplyBuilder,
    TextCallback,
    make_too_long_error,
)
from daemon.providers.errors import CallFailed, make_event_error

BOM = b"\xef\xbb\xbf"
DRAIN_S = 1.0
GATHER_S = 0.035
EVENT_FIRST_BYTES = (b":", b"d", b"e", b"i", b"r")


@value
class ServerEvent:
    """One event of a stream."""

    data: str
    event: str = ""
    id: str = ""


@dataclass(slots=True)
class EventStreamParser:
    """Joins events from bytes, however they are cut. An event counts once an empty line ends it."""

    _rest: bytearray = field(default_factory=bytearray)
    _after_cr: bool = False
    _started: bool = False
    _data: list[str] = field(default_factory=list)
    _fields: dict[str, str] = field(default_factory=dict)

    def feed(self, received: bytes) -> list[ServerEvent]:
        """The events that these bytes complete."""
        if self._after_cr and received.startswith(b"\n"):
            received, self._after_cr = received[1:], False
        if not received:
            return []
        self._after_cr = received.endswith(b"\r")
        self._rest += received
        if b"\n" not in received and b"\r" not in received:
            return []
        lines = bytes(self._rest).splitlines(keepends=True)
        self._rest = bytearray(b"" if lines[-1].endswith((b"\n", b"\r")) else lines.pop())
        events: list[ServerEvent] = []
        for raw in lines:
            line = raw.rstrip(b"\r\n").decode("utf-8", "replace")
            if not self._started:
                self._started, line = True, line.removeprefix("\ufeff")
            name, _, text = line.partition(":")
            if name == "data":
                self._data.append(text.removeprefix(" "))
            elif name in ("event", "id"):
                self._fields[name] = text.removeprefix(" ")
            elif not line:
                if self._data:
                    events.append(ServerEvent("\n".join(self._data), **self._fields))
                self._data, self._fields = [], {}
        return events


async def read_reply(
    response: aiohttp.ClientResponse,
    builder: ReplyBuilder,
    on_text: TextCallback | None,
    silence_s: float,
) -> None:
    """Feed the answer to the builder. Raises CallFailed, TimeoutError.

    The first bytes tell whether it is a stream: some servers stream unasked, some never do.
    """
    show = on_text or (lambda _: None)
    first = b""
    async with aclosing(_iter_chunks(response, silence_s)) as chunks:
        async for chunk in chunks:
            if first := chunk.removeprefix(BOM).lstrip():
                break
        if not first.startswith(EVENT_FIRST_BYTES) and (
            first or response.content_type != "text/event-stream"
        ):
            body = b"".join([first, *[chunk async for chunk in chunks]])
            if text := builder.feed_whole(body):
                show(text)
            return
        await _read_events(first, chunks, builder, show)
    # Read to the end, so that the connection can be used again; the reply is complete.
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(DRAIN_S):
            await response.content.read()


async def _read_events(
    first: bytes, chunks: AsyncGenerator[bytes], builder: ReplyBuilder, show: TextCallback
) -> None:
    events, chunk, at_end = EventStreamParser(), first, False
    while not (at_end or builder.has_ended):
        at_end, text = not chunk, ""
        # Some servers leave out the empty line after their last event.
        for event in events.feed(chunk or b"\n\n"):
            if event.event == "error":
                raise make_event_error(event.data.encode())
            if (data := event.data.strip()) and not builder.has_ended:
                text += builder.feed(data)
        if text:
            show(text)
        if not builder.has_ended:
            chunk = await anext(chunks, b"")
    if not (builder.has_ended or builder.finish):
        raise CallFailed(ErrorClass.NETWORK, "the answer was cut off")


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
        async with asyncio.timeout(silence_s):
            chunk = await content.readany()
        next_read = loop.time() + GATHER_S
        total += len(chunk)
        if total > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
        yield chunk


async def read_at_most(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The beginning of the body."""
    received = bytearray()
    async for piece in response.content.iter_any():
        received += piece
        if len(received) >= limit:
            break
    return bytes(received[:limit])
