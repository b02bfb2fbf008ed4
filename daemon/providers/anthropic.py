"""Claude, by Anthropic's own API or a server that speaks it."""

import re
from collections.abc import AsyncGenerator
from dataclasses import replace

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers import reading
from daemon.providers.adapter import Adapter
from daemon.providers.anthropic_messages import keep
from daemon.providers.anthropic_reply import Draft, from_wire
from daemon.providers.anthropic_request import to_wire
from daemon.providers.base import OnText
from daemon.providers.errors import Fault

BAD_THINKING = re.compile(r"\b(signature|thinking)\b", re.IGNORECASE)


class Anthropic(Adapter):
    """A provider."""

    kind = "anthropic"
    own_host = "api.anthropic.com"
    path = "/messages"

    def _refuses(self, fault: Fault) -> bool:
        return fault.kind is ErrorClass.BAD_REQUEST and BAD_THINKING.search(fault.detail) is not None

    async def _ask(self, model: str, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        wire = to_wire(model, request, on_text is not None, provider=self.name)

        def replied(draft: Draft) -> ModelReply:
            own = draft.own()
            native = keep(self.name, model, wire.prefix, own) if own else None
            return replace(draft.reply(request), native=native)

        async def streamed(data: AsyncGenerator[str], show: OnText) -> ModelReply:
            return replied(await _drafted(data, show))

        async with self._transport.post(wire.body) as response:
            return await reading.reply(response, on_text, lambda whole: replied(from_wire(whole)), streamed)


async def _drafted(data: AsyncGenerator[str], show: OnText) -> Draft:
    draft = Draft()
    async for received in data:
        if text := draft.add(received):
            show(text)
        if draft.ended:
            return draft
    if not draft.finish:
        raise Fault(ErrorClass.NETWORK, "the answer was cut off")
    return draft
