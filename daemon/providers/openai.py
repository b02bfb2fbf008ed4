"""Any server that speaks OpenAI's chat completions."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace

import aiohttp
from yarl import URL

from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers.base import OnText
from daemon.providers.errors import Fault, broke_off
from daemon.providers.openai_reply import BOM, MOST_RECEIVED, Draft, endless, from_wire
from daemon.providers.openai_request import MessagesMemo, ToolsMemo, dialect_of, to_wire
from daemon.providers.sse import EventStream, ServerEvent
from daemon.providers.transport import Transport

OWN_HOST = "api.openai.com"
LINGER_S = 1.0
DONE = "[DONE]"
EVENTS_BEGIN = (b":", b"d", b"e", b"i", b"r")


class OpenAI:
    """A provider. It streams when somebody watches; the reply is the same either way."""

    def __init__(
        self,
        *,
        base_url: str,
        clock: Clock,
        api_key: str = "",
        timeout_s: float = 120.0,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        base = URL(base_url)
        url = base.with_path(base.path.rstrip("/") + "/chat/completions", keep_query=True)
        self._host = (url.host or "") if url.is_default_port() else f"{url.host}:{url.port}"
        headers = dict(extra_headers or {})
        if api_key:
            headers = {"Authorization": f"Bearer {api_key}", **headers}
        self._secrets = (api_key, *(value for value in headers.values() if len(value) >= 8))
        self._dialect = dialect_of(url.host or "")
        self._tools, self._messages = ToolsMemo(), MessagesMemo()
        self._transport = Transport(url=url, headers=headers, timeout_s=timeout_s, clock=clock)

    @property
    def name(self) -> str:
        """`openai`, with the host where it is not OpenAI's own."""
        return "openai" if self._host == OWN_HOST else f"openai:{self._host}"

    async def complete(self, model: str, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """The whole reply; with `on_text` its text is shown piece by piece as it comes. Raises ProviderError."""
        body = to_wire(model, request, on_text is not None, dialect=self._dialect, tools=self._tools, messages=self._messages)
        try:
            async with self._transport.post(body) as response:
                reply = await _read(response, request, on_text)
        except Fault as fault:
            raise fault.told(self._host, self._secrets) from None  # the fault's own words may echo the key
        return replace(reply, provider=self.name, model=model)

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._transport.aclose()


async def _read(response: aiohttp.ClientResponse, request: ModelRequest, on_text: OnText | None) -> ModelReply:
    """By what the server did, not by what it was asked or what it calls it: some stream never, some always."""
    show = on_text or (lambda _: None)
    first = await _beginning(response)
    empty_stream = not first and response.content_type == "text/event-stream"
    if empty_stream or first.startswith(EVENTS_BEGIN):
        return (await _stream(response, first, show)).reply(request)
    reply = from_wire(await _rest(response, first), request)
    if reply.text:
        show(reply.text)
    return reply


async def _rest(response: aiohttp.ClientResponse, first: bytes) -> bytes:
    """All of it, as long as that is an answer and not a flood."""
    received = bytearray(first)
    async for piece in response.content.iter_any():
        received += piece
        if len(received) > MOST_RECEIVED:
            raise endless()
    return bytes(received)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """What comes first, down to something that is more than blank."""
    first = b""
    while not first and not response.content.at_eof():
        first = (await response.content.readany()).removeprefix(BOM).lstrip()
    return first


async def _stream(response: aiohttp.ClientResponse, first: bytes, show: OnText) -> Draft:
    draft, events = Draft(), EventStream()
    async for received in _pieces(response, first):
        for event in events.feed(received):
            if event.data.strip() == DONE:
                await _finish(response)
                return draft
            if text := _add(draft, event):
                show(text)
    if not draft.finish:
        raise Fault(ErrorClass.NETWORK, "the answer was cut off")
    return draft


async def _pieces(response: aiohttp.ClientResponse, first: bytes) -> AsyncIterator[bytes]:
    """All of it; and the empty line that some servers leave out after their last event."""
    yield first
    async for received in response.content.iter_any():
        yield received
    yield b"\n\n"


def _add(draft: Draft, event: ServerEvent) -> str:
    """The text that the event adds; one without data is there to keep the connection open."""
    if event.event == "error":
        raise broke_off(event.data.encode())
    return draft.add(event.data) if event.data.strip() else ""


async def _finish(response: aiohttp.ClientResponse) -> None:
    """Read to the end, so that the connection can be used again; the reply is whole, whatever happens here."""
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(LINGER_S):
            await response.content.read()
