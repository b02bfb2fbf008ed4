"""Any server that speaks OpenAI's chat completions."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import aiohttp
from yarl import URL

from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers.base import OnText
from daemon.providers.errors import Fault
from daemon.providers.openai_reply import Draft, from_wire
from daemon.providers.openai_request import ToolsMemo, dialect_of, to_wire
from daemon.providers.sse import EventStream
from daemon.providers.transport import Transport

OWN_HOST = "api.openai.com"
LINGER_S = 1.0


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
        self._tools = ToolsMemo()
        self._transport = Transport(url=url, headers=headers, timeout_s=timeout_s, clock=clock)

    @property
    def name(self) -> str:
        """`openai`, with the host where it is not OpenAI's own."""
        return "openai" if self._host == OWN_HOST else f"openai:{self._host}"

    async def complete(self, model: str, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """The whole reply; with `on_text` its text is shown piece by piece as it comes. Raises ProviderError."""
        body = to_wire(model, request, on_text is not None, dialect=self._dialect, tools=self._tools)
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
    """By what the server did, not by what it was asked: some stream never, some always."""
    show = on_text or (lambda _: None)
    kind = response.content_type
    if kind == "text/event-stream" or (on_text and "json" not in kind):
        return (await _stream(response, show)).reply(request)
    reply = from_wire(await response.read(), request)
    if reply.text:
        show(reply.text)
    return reply


async def _stream(response: aiohttp.ClientResponse, show: OnText) -> Draft:
    draft, events = Draft(), EventStream()
    async for received in response.content.iter_any():
        for event in events.feed(received):
            if event.data.strip() == "[DONE]":
                await _finish(response)
                return draft
            if text := draft.add(event.data):
                show(text)
    if not draft.finish:
        raise Fault(ErrorClass.NETWORK, "the answer was cut off")
    return draft


async def _finish(response: aiohttp.ClientResponse) -> None:
    """Read to the end, so that the connection can be used again; the reply is whole, whatever happens here."""
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(LINGER_S):
            await response.content.read()
