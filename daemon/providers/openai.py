"""Any server that speaks OpenAI's chat completions."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Unpack

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers import reading
from daemon.providers.adapter import Adapter, Connection
from daemon.providers.base import OnText
from daemon.providers.errors import Fault
from daemon.providers.openai_reply import Draft, from_wire
from daemon.providers.openai_request import MessagesMemo, ToolsMemo, dialect_of, to_wire

OWN_HOST = "api.openai.com"
DONE = "[DONE]"


class OpenAI(Adapter):
    """A provider."""

    kind = "openai"
    own_host = OWN_HOST
    path = "/chat/completions"

    def __init__(self, **connection: Unpack[Connection]) -> None:
        super().__init__(**connection)
        self._dialect = dialect_of(self._base.host or "")
        self._tools, self._messages = ToolsMemo(), MessagesMemo()

    async def _ask(self, model: str, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        body = to_wire(model, request, on_text is not None, dialect=self._dialect, tools=self._tools, messages=self._messages)
        async with self._transport.post(body) as response:
            return await reading.reply(response, on_text, partial(from_wire, request=request), partial(_streamed, request))


async def _streamed(request: ModelRequest, data: AsyncGenerator[str], show: OnText) -> ModelReply:
    draft = Draft()
    async for received in data:
        if received == DONE:
            return draft.reply(request)
        if text := draft.add(received):
            show(text)
    if not draft.finish:
        raise Fault(ErrorClass.NETWORK, "the answer was cut off")
    return draft.reply(request)
