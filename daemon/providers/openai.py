"""Any server that speaks OpenAI's chat completions."""

from collections.abc import Mapping
from dataclasses import replace

import aiohttp
from yarl import URL

from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers import reading
from daemon.providers.base import OnText
from daemon.providers.errors import Fault, broke_off
from daemon.providers.openai_reply import Draft, from_wire
from daemon.providers.openai_request import MessagesMemo, ToolsMemo, dialect_of, to_wire
from daemon.providers.sse import EventStream, ServerEvent
from daemon.providers.transport import Transport

OWN_HOST = "api.openai.com"
DONE = "[DONE]"


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
            if event.data.strip() == DONE:
                await reading.finish(response)
                return draft
            if text := _add(draft, event):
                show(text)
    if not draft.finish:
        raise Fault(ErrorClass.NETWORK, "the answer was cut off")
    return draft


def _add(draft: Draft, event: ServerEvent) -> str:
    """The text that the event adds; one without data is there to keep the connection open."""
    if event.event == "error":
        raise broke_off(event.data.encode())
    return draft.add(event.data) if event.data.strip() else ""
