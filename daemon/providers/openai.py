"""What OpenAI's chat completions answer, whole or in pieces, as a ModelReply.

Any server that speaks OpenAI's chat completions.
"""

import json
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Unpack

from pydantic import BaseModel, BeforeValidator, ConfigDict

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest, ToolCall, Usage
from daemon.providers import http as reading
from daemon.providers.base import Count, DictOrNone, TextCallback, estimate_usage
from daemon.providers.errors import CallFailed, make_object_error
from daemon.providers.http import BOM, MAX_RESPONSE_BYTES, make_too_long_error, parse_json
from daemon.providers.http_provider import ConnectionOptions, HttpProvider
from daemon.providers.openai_request import MessageCache, ToolListCache, encode_request, get_dialect

FILTERED = "content_filter"


def _normalize_list(value: object) -> object:
    """Some servers fill a list with nulls, or send one part without a list around it."""
    if isinstance(value, dict):
        return [value]
    return [item for item in value if item is not None] if isinstance(value, list) else value


class _Wire(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)


class _Function(_Wire):
    name: str | None = None
    arguments: str | dict[str, object] | list[object] | None = None


class _Call(_Wire):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Part(_Wire):
    text: str | None = None


class _Message(_Wire):
    content: Annotated[str | list[_Part | str] | None, BeforeValidator(_normalize_list)] = None
    refusal: str | None = None
    tool_calls: Annotated[list[_Call] | None, BeforeValidator(_normalize_list)] = None

    def get_text(self) -> str:
        """A refusal is an answer too."""
        if isinstance(self.content, list):
            return "".join(
                part if isinstance(part, str) else part.text or "" for part in self.content
            )
        return self.content or self.refusal or ""


class _Choice(_Wire):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None
    error: object = None


class _Details(_Wire):
    cached_tokens: Count = 0


class _Usage(_Wire):
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    prompt_tokens_details: Annotated[_Details | None, DictOrNone] = None
    prompt_cache_hit_tokens: Count = 0

    def to_usage(self) -> Usage:
        """DeepSeek counts what was cached under a name of its own."""
        details = self.prompt_tokens_details or _Details()
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            details.cached_tokens or self.prompt_cache_hit_tokens,
        )


class _Completion(_Wire):
    choices: list[_Choice] | None = None
    usage: Annotated[_Usage | None, DictOrNone] = None
    error: object = None


@dataclass(slots=True)
class _CallParts:
    """A tool call that comes in pieces."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ChatReplyBuilder:
    """A reply under construction: of many pieces, or of one that is the whole."""

    text: list[str] = field(default_factory=list)
    calls: list[_CallParts] = field(default_factory=list)
    finish: str = ""
    usage: Usage | None = None
    _at: dict[int, _CallParts] = field(default_factory=dict)
    _received: int = 0

    def feed(self, received: str | bytes) -> str:
        """Take in one JSON object; gives the text that it adds. Raises Fault."""
        self._received += len(received)
        if self._received > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
        piece = parse_json(_Completion, received, "a chat completion")
        if piece.error:
            raise make_object_error(piece.error)
        if piece.usage and (used := piece.usage.to_usage()) != Usage():
            self.usage = used
        return self._add_choice(piece.choices[0]) if piece.choices else ""

    def _add_choice(self, choice: _Choice) -> str:
        if choice.error or choice.finish_reason == "error":
            raise make_object_error(choice.error or "the server broke off with an error")
        self.finish = choice.finish_reason or self.finish
        message = choice.message or choice.delta
        if message is None:
            return ""
        for position, call in enumerate(message.tool_calls or ()):
            self._add_call(call, position if choice.message else None)
        text = message.get_text()
        if text:
            self.text.append(text)
        return text

    def _add_call(self, call: _Call, position: int | None) -> None:
        """Servers number the pieces, or not at all, or all with 0: a new id with a name begins a new call."""
        index = call.index if position is None else position
        function = call.function or _Function()
        known = (
            self._at.get(index) if index is not None else (self.calls[-1] if self.calls else None)
        )
        if known is None or (call.id and function.name and call.id != known.id):
            known = _CallParts(call.id or "", function.name or "")
            self.calls.append(known)
            self._at[len(self.calls) - 1 if index is None else index] = known
        known.name = known.name or function.name or ""
        known.id = known.id or call.id or ""
        written = function.arguments
        known.arguments.append(
            written or "" if isinstance(written, str | None) else json.dumps(written)
        )

    def build(self, request: ModelRequest) -> ModelReply:
        """The whole of it. Raises Fault when there is nothing in it."""
        text = "".join(self.text)
        if not text.strip() and not self.calls:
            if self.finish == FILTERED:
                raise CallFailed(
                    ErrorClass.BAD_REQUEST, f"its filter withholds the answer ({self.finish})"
                )
            why = (
                f" (it stopped because of {self.finish!r})"
                if self.finish not in ("", "stop")
                else ""
            )
            raise CallFailed(ErrorClass.MALFORMED, f"an empty reply{why}")
        if any(not call.name for call in self.calls):
            raise CallFailed(ErrorClass.MALFORMED, "a tool call without a name")
        calls = tuple(_make_calls(self.calls))
        usage = self.usage or estimate_usage(request, text, calls)
        return ModelReply(text=text, calls=calls, usage=usage, finish=self.finish)


def parse_reply(body: bytes, request: ModelRequest) -> ModelReply:
    """A reply that came in one piece. `request` is only looked at to estimate the usage where the server is silent about it."""
    draft = ChatReplyBuilder()
    draft.feed(body.removeprefix(BOM))
    return draft.build(request)


def _make_calls(calls: Iterable[_CallParts]) -> Iterable[ToolCall]:
    """Ids are echoed, so each call of a reply needs one, and one of its own."""
    used: set[str] = set()
    for index, call in enumerate(calls):
        provider_id = call.id if call.id and call.id not in used else f"{call.id or 'call'}_{index}"
        used.add(provider_id)
        yield ToolCall(provider_id, call.name, "".join(call.arguments))


OWN_HOST = "api.openai.com"
DONE_MARKER = "[DONE]"


class OpenAI(HttpProvider):
    """A provider."""

    kind = "openai"
    own_host = OWN_HOST
    path = "/chat/completions"

    def __init__(self, **connection: Unpack[ConnectionOptions]) -> None:
        super().__init__(**connection)
        self._dialect = get_dialect(self._base.host or "")
        self._tools, self._messages = ToolListCache(), MessageCache()

    async def _send(
        self, model: str, request: ModelRequest, on_text: TextCallback | None
    ) -> ModelReply:
        body = encode_request(
            model,
            request,
            on_text is not None,
            dialect=self._dialect,
            tools=self._tools,
            messages=self._messages,
        )
        async with self._transport.post(body) as response:
            return await reading.read_reply(
                response,
                on_text,
                partial(parse_reply, request=request),
                partial(_read_stream, request),
            )


async def _read_stream(
    request: ModelRequest, data: AsyncGenerator[str], show: TextCallback
) -> ModelReply:
    draft = ChatReplyBuilder()
    async for received in data:
        if received == DONE_MARKER:
            return draft.build(request)
        if text := draft.feed(received):
            show(text)
    if not draft.finish:
        raise CallFailed(ErrorClass.NETWORK, "the answer was cut off")
    return draft.build(request)
