"""Google's Gemini, by generateContent."""

import re
from collections.abc import AsyncGenerator
from functools import partial
from typing import Unpack

from yarl import URL

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers import reading
from daemon.providers.adapter import Adapter, Connection
from daemon.providers.base import OnText
from daemon.providers.errors import Fault
from daemon.providers.gemini_reply import Draft, from_wire
from daemon.providers.gemini_request import encode_tools, to_wire
from daemon.providers.openai_request import ToolsMemo

BAD_SIGNATURE = re.compile(r"thought.?signature", re.IGNORECASE)


class Gemini(Adapter):
    """A provider."""

    kind = "gemini"
    own_host = "generativelanguage.googleapis.com"

    def __init__(self, **connection: Unpack[Connection]) -> None:
        super().__init__(**connection)
        self._tools = ToolsMemo(encode_tools)

    def _refuses(self, fault: Fault) -> bool:
        return fault.kind is ErrorClass.BAD_REQUEST and BAD_SIGNATURE.search(fault.detail) is not None

    async def _ask(self, model: str, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        body = to_wire(self.name, model, request, tools=self._tools)
        async with self._transport.post(body, self._url(model, on_text is not None)) as response:
            return await reading.reply(response, on_text, partial(from_wire, request=request), partial(_streamed, request))

    def _url(self, model: str, stream: bool) -> URL:
        """The model is part of the address, and so is the way of answering; the key never is."""
        resource = model if "/" in model else f"models/{model}"
        url = self._below(f"/{resource}:{'streamGenerateContent' if stream else 'generateContent'}")
        return url.update_query(alt="sse") if stream else url


async def _streamed(request: ModelRequest, data: AsyncGenerator[str], show: OnText) -> ModelReply:
    """To the end of the answer, as nothing else tells that it ends: usage may come after the reason to finish."""
    draft = Draft()
    async for received in data:
        if text := draft.add(received):
            show(text)
    if not draft.finish:
        raise Fault(ErrorClass.NETWORK, "the answer was cut off")
    return draft.reply(request)
