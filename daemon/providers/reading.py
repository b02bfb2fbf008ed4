"""What a server sends, read by what it does and not by what it was asked or what it calls it: some stream never, some always."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TypeVar

import aiohttp
from pydantic import BaseModel, ValidationError

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply
from daemon.providers.base import OnText
from daemon.providers.errors import Fault, broke_off
from daemon.providers.sse import EventStream

BOM = b"\xef\xbb\xbf"
MOST_RECEIVED = 64 << 20
LINGER_S = 1.0
SHOWN = 100
EVENTS_BEGIN = (b":", b"d", b"e", b"i", b"r")
Model = TypeVar("Model", bound=BaseModel)


def endless() -> Fault:
    """An answer that would fill the memory."""
    return Fault(ErrorClass.MALFORMED, f"the answer does not end: more than {MOST_RECEIVED >> 20} MiB")


def parsed(kind: type[Model], received: str | bytes, what: str) -> Model:
    """A JSON object of the server's, in its form. Raises Fault: it is not `what` it should be."""
    try:
        return kind.model_validate_json(received)
    except ValidationError as error:
        raise not_a(what, received) from error


def not_a(what: str, received: str | bytes) -> Fault:
    """What came is something else, and how it begins."""
    begins = received[:SHOWN]
    shown = begins.decode("utf-8", "replace") if isinstance(begins, bytes) else begins
    return Fault(ErrorClass.MALFORMED, f"not {what}: {shown}")


def is_stream(response: aiohttp.ClientResponse, first: bytes) -> bool:
    """It sends server-sent events, as its first bytes show; or it promises some and sends none."""
    empty_stream = not first and response.content_type == "text/event-stream"
    return empty_stream or first.startswith(EVENTS_BEGIN)


async def beginning(response: aiohttp.ClientResponse) -> bytes:
    """What comes first, down to something that is more than blank."""
    first = b""
    while not first and not response.content.at_eof():
        first = (await response.content.readany()).removeprefix(BOM).lstrip()
    return first


async def rest(response: aiohttp.ClientResponse, first: bytes) -> bytes:
    """All of it, as long as that is an answer and not a flood."""
    received = bytearray(first)
    async for piece in response.content.iter_any():
        received += piece
        if len(received) > MOST_RECEIVED:
            raise endless()
    return bytes(received)


async def pieces(response: aiohttp.ClientResponse, first: bytes) -> AsyncIterator[bytes]:
    """All of it; and the empty line that some servers leave out after their last event."""
    yield first
    total = len(first)
    async for received in response.content.iter_any():
        total += len(received)
        if total > MOST_RECEIVED:
            raise endless()
        yield received
    yield b"\n\n"


async def told(response: aiohttp.ClientResponse, first: bytes) -> AsyncGenerator[str]:
    """The data of each event, but for those that only keep the connection open. Raises Fault for an event that is an error."""
    events = EventStream()
    async for received in pieces(response, first):
        for event in events.feed(received):
            if event.event == "error":
                raise broke_off(event.data.encode())
            if data := event.data.strip():
                yield data


async def reply(
    response: aiohttp.ClientResponse,
    on_text: OnText | None,
    whole: Callable[[bytes], ModelReply],
    streamed: Callable[[AsyncGenerator[str], OnText], Awaitable[ModelReply]],
) -> ModelReply:
    """What the server answers, in the way in which it does; shown as it comes."""
    show = on_text or (lambda _: None)
    first = await beginning(response)
    if is_stream(response, first):
        async with aclosing(told(response, first)) as data:
            found = await streamed(data, show)
        await finish(response)
        return found
    found = whole(await rest(response, first))
    if found.text:
        show(found.text)
    return found


async def at_most(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Its beginning, if there is more."""
    received = bytearray()
    async for piece in response.content.iter_any():
        received += piece
        if len(received) >= most:
            break
    return bytes(received[:most])


async def finish(response: aiohttp.ClientResponse) -> None:
    """Read to the end, so that the connection can be used again; the reply is whole, whatever happens here."""
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(LINGER_S):
            await response.content.read()
