"""OpenAI's Responses, and servers that speak it: what a model thought comes back to it in the next call."""

import re
from collections.abc import Mapping
from dataclasses import replace

import aiohttp
from yarl import URL

from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers import reading
from daemon.providers.base import OnText
from daemon.providers.credentials import credentials
from daemon.providers.errors import Fault, broke_off
from daemon.providers.openai import DONE, OWN_HOST
from daemon.providers.openai_request import ToolsMemo
from daemon.providers.refused import Refused
from daemon.providers.responses_reply import Draft, from_wire
from daemon.providers.responses_request import encode_tools, to_wire
from daemon.providers.sse import EventStream, ServerEvent
from daemon.providers.transport import Transport

NOT_TAKEN_BACK = re.compile(r"encrypted.content|\bitem\b.*(not found|required)", re.IGNORECASE)


class Responses:
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
        url = base.with_path(base.path.rstrip("/") + "/responses", keep_query=True)
        self._host = (url.host or "") if url.is_default_port() else f"{url.host}:{url.port}"
        headers = {**credentials("openai", api_key), **(extra_headers or {})}
        self._secrets = (api_key, *(value for value in headers.values() if len(value) >= 8))
        self._tools = ToolsMemo(encode_tools)
        self._refused = Refused()
        self._transport = Transport(url=url, headers=headers, timeout_s=timeout_s, clock=clock)

    @property
    def name(self) -> str:
        """`openai`, with the host where it is not OpenAI's own."""
        return "openai" if self._host == OWN_HOST else f"openai:{self._host}"

    async def complete(self, model: str, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """The whole reply; with `on_text` its text is shown piece by piece as it comes. Raises ProviderError."""
        try:
            return await self._complete(model, request, on_text)
        except Fault as fault:
            raise fault.told(self._host, self._secrets) from None  # the fault's own words may echo the key

    async def _complete(self, model: str, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        """Thoughts that another key has encrypted are not taken back; then the conversation goes on without them."""
        told = self._refused.without(request)
        try:
            return await self._ask(model, told, on_text)
        except Fault as fault:
            if fault.kind not in (ErrorClass.BAD_REQUEST, ErrorClass.NOT_FOUND) or not NOT_TAKEN_BACK.search(fault.detail):
                raise
            if not self._refused.learn(told, self.name, model):
                raise
        return await self._ask(model, self._refused.without(told), on_text)

    async def _ask(self, model: str, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        body = to_wire(self.name, model, request, on_text is not None, tools=self._tools)
        async with self._transport.post(body) as response:
            reply = await _read(response, request, on_text)
        native = replace(reply.native, provider=self.name, model=model) if reply.native else None
        return replace(reply, provider=self.name, model=model, native=native)

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._transport.aclose()


async def _read(response: aiohttp.ClientResponse, request: ModelRequest, on_text: OnText | None) -> ModelReply:
    show = on_text or (lambda _: None)
    first = await reading.beginning(response)
    if reading.is_stream(response, first):
        return (await _stream(response, first, show)).reply(request)
    reply = from_wire(await reading.rest(response, first), request)
    if reply.text:
        show(reply.text)
    return reply


async def _stream(response: aiohttp.ClientResponse, first: bytes, show: OnText) -> Draft:
    draft, events = Draft(), EventStream()
    async for received in reading.pieces(response, first):
        for event in events.feed(received):
            if text := _add(draft, event):
                show(text)
            if draft.finish:
                await reading.finish(response)
                return draft
    raise Fault(ErrorClass.NETWORK, "the answer was cut off")


def _add(draft: Draft, event: ServerEvent) -> str:
    """The text that the event adds; one without data is there to keep the connection open."""
    data = event.data.strip()
    if event.event == "error":
        raise broke_off(data.encode())
    return draft.add(data) if data not in ("", DONE) else ""
