"""OpenAI's Responses, and servers that speak it: what a model thought comes back to it in the next call."""

import re
from collections.abc import AsyncGenerator
from functools import partial
from typing import Unpack

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers import reading
from daemon.providers.adapter import Adapter, Connection
from daemon.providers.base import OnText
from daemon.providers.errors import Fault
from daemon.providers.openai import DONE, OWN_HOST
from daemon.providers.openai_request import ToolsMemo
from daemon.providers.responses_reply import Draft, from_wire
from daemon.providers.responses_request import encode_tools, to_wire

NOT_TAKEN_BACK = re.compile(r"encrypted.content|\bitem\b.*(not found|required)", re.IGNORECASE)


class Responses(Adapter):
    """A provider. Thoughts that another key has encrypted are not taken back."""

    kind = "openai"
    own_host = OWN_HOST
    path = "/responses"

    def __init__(self, **connection: Unpack[Connection]) -> None:
        super().__init__(**connection)
        self._tools = ToolsMemo(encode_tools)

    def _refuses(self, fault: Fault) -> bool:
        wrong = fault.kind in (ErrorClass.BAD_REQUEST, ErrorClass.NOT_FOUND)
        return wrong and NOT_TAKEN_BACK.search(fault.detail) is not None

    async def _ask(self, model: str, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        body = to_wire(self.name, model, request, on_text is not None, tools=self._tools)
        async with self._transport.post(body) as response:
            return await reading.reply(response, on_text, partial(from_wire, request=request), partial(_streamed, request))


async def _streamed(request: ModelRequest, data: AsyncGenerator[str], show: OnText) -> ModelReply:
    draft = Draft()
    async for received in data:
        if received != DONE and (text := draft.add(received)):
            show(text)
        if draft.finish:
            return draft.reply(request)
    raise Fault(ErrorClass.NETWORK, "the answer was cut off")
