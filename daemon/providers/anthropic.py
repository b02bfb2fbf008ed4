"""Claude, by Anthropic's own API or a server that speaks it."""

import re
from collections.abc import Mapping
from dataclasses import replace

import aiohttp
from yarl import URL

from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers import reading
from daemon.providers.anthropic_messages import keep
from daemon.providers.anthropic_reply import Draft, from_wire
from daemon.providers.anthropic_request import to_wire
from daemon.providers.base import OnText
from daemon.providers.credentials import credentials
from daemon.providers.errors import Fault, broke_off
from daemon.providers.refused import Refused
from daemon.providers.sse import EventStream, ServerEvent
from daemon.providers.transport import Transport

OWN_HOST = "api.anthropic.com"
BAD_THINKING = re.compile(r"\b(signature|thinking)\b", re.IGNORECASE)


class Anthropic:
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
        url = base.with_path(base.path.rstrip("/") + "/messages", keep_query=True)
        self._host = (url.host or "") if url.is_default_port() else f"{url.host}:{url.port}"
        headers = {**credentials("anthropic", api_key), **(extra_headers or {})}
        self._secrets = (api_key, *(value for value in (extra_headers or {}).values() if len(value) >= 8))
        self._refused = Refused()
        self._transport = Transport(url=url, headers=headers, timeout_s=timeout_s, clock=clock)

    @property
    def name(self) -> str:
        """`anthropic`, with the host where it is not Anthropic's own."""
        return "anthropic" if self._host == OWN_HOST else f"anthropic:{self._host}"

    async def complete(self, model: str, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """The whole reply; with `on_text` its text is shown piece by piece as it comes. Raises ProviderError."""
        try:
            return await self._complete(model, request, on_text)
        except Fault as fault:
            raise fault.told(self._host, self._secrets) from None  # the fault's own words may echo the key

    async def _complete(self, model: str, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        """Thinking that the API will not take back, as after a change of the account's key, must not end a conversation."""
        told = self._refused.without(request)
        try:
            return await self._ask(model, told, on_text)
        except Fault as fault:
            if fault.kind is not ErrorClass.BAD_REQUEST or not BAD_THINKING.search(fault.detail):
                raise
            if not self._refused.learn(told, self.name, model):
                raise
        return await self._ask(model, self._refused.without(told), on_text)

    async def _ask(self, model: str, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        wire = to_wire(model, request, on_text is not None, provider=self.name)
        async with self._transport.post(wire.body) as response:
            draft = await _read(response, on_text or (lambda _: None))
        reply, own = draft.reply(request), draft.own()
        native = keep(self.name, model, wire.prefix, own) if own else None
        return replace(reply, provider=self.name, model=model, native=native)

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._transport.aclose()


async def _read(response: aiohttp.ClientResponse, show: OnText) -> Draft:
    first = await reading.beginning(response)
    if reading.is_stream(response, first):
        return await _stream(response, first, show)
    draft = from_wire(await reading.rest(response, first))
    if text := "".join(piece for part in draft.parts if part.type == "text" for piece in part.text):
        show(text)
    return draft


async def _stream(response: aiohttp.ClientResponse, first: bytes, show: OnText) -> Draft:
    draft, events = Draft(), EventStream()
    async for received in reading.pieces(response, first):
        for event in events.feed(received):
            if text := _add(draft, event):
                show(text)
            if draft.ended:
                await reading.finish(response)
                return draft
    if not draft.finish:
        raise Fault(ErrorClass.NETWORK, "the answer was cut off")
    return draft


def _add(draft: Draft, event: ServerEvent) -> str:
    """The text that the event adds; one without data is there to keep the connection open."""
    if event.event == "error":
        raise broke_off(event.data.encode())
    return draft.add(event.data) if event.data.strip() else ""
