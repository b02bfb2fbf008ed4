"""Any server that speaks OpenAI's chat completions."""

import json
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BeforeValidator

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelRequest, Usage
from daemon.providers.base import (
    DONE_MARKER,
    Count,
    DictOrNone,
    ReplyBuilder,
    WireModel,
    parse_json,
)
from daemon.providers.errors import CallFailed, make_object_error
from daemon.providers.http_provider import HttpProvider
from daemon.providers.openai_request import encode_request, get_dialect

FILTERED = "content_filter"


def _normalize_list(value: object) -> object:
    """Some servers fill a list with nulls, or send one part without a list around it."""
    if isinstance(value, dict):
        return [value]
    return [item for item in value if item is not None] if isinstance(value, list) else value


class _Function(WireModel):
    name: str | None = None
    arguments: str | dict[str, object] | list[object] | None = None


class _Call(WireModel):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Part(WireModel):
    text: str | None = None


class _Message(WireModel):
    content: Annotated[str | list[_Part | str] | None, BeforeValidator(_normalize_list)] = None
    refusal: str | None = None
    tool_calls: Annotated[list[_Call] | None, BeforeValidator(_normalize_list)] = None


class _Choice(WireModel):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None
    error: object = None


class _Details(WireModel):
    cached_tokens: Count = 0


class _Usage(WireModel):
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    prompt_tokens_details: Annotated[_Details | None, DictOrNone] = None
    prompt_cache_hit_tokens: Count = 0  # DeepSeek's name for it


class _Completion(WireModel):
    choices: list[_Choice] | None = None
    usage: Annotated[_Usage | None, DictOrNone] = None
    error: object = None


@dataclass(slots=True)
class _CallParts:
    """A tool call that comes in pieces."""

    id: str
    name: str
    arguments: str = ""


@dataclass(slots=True, kw_only=True)
class ChatReplyBuilder(ReplyBuilder):
    """Reads chat completions and their chunks."""

    _calls: list[_CallParts] = field(default_factory=list)
    _by_index: dict[int, _CallParts] = field(default_factory=dict)

    def _read(self, received: str | bytes) -> str:
        if received == DONE_MARKER:
            self.has_ended = True
            return ""
        piece = parse_json(_Completion, received, "a chat completion")
        if piece.error:
            raise make_object_error(piece.error)
        if used := piece.usage:
            details = used.prompt_tokens_details or _Details()
            cached = details.cached_tokens or used.prompt_cache_hit_tokens
            self._add_usage(Usage(used.prompt_tokens, used.completion_tokens, cached))
        if not piece.choices:
            return ""
        choice = piece.choices[0]
        if choice.error or choice.finish_reason == "error":
            raise make_object_error(choice.error or "the server broke off with an error")
        self.finish = choice.finish_reason or self.finish
        message = choice.message or choice.delta
        if message is None:
            return ""
        for position, call in enumerate(message.tool_calls or ()):
            self._add_call(call, position if choice.message else call.index)
        text = message.content or message.refusal or ""
        if isinstance(text, list):
            text = "".join(part if isinstance(part, str) else part.text or "" for part in text)
        self.text.append(text)
        return text

    def _add_call(self, call: _Call, index: int | None) -> None:
        """Servers number the pieces, or not, or all with 0: a new id and name begin a new call."""
        function = call.function or _Function()
        name, arguments = function.name or "", function.arguments or ""
        last = self._calls[-1] if self._calls else None
        parts = last if index is None else self._by_index.get(index)
        if parts is None or (call.id and name and call.id != parts.id):
            parts = _CallParts(call.id or "", name)
            self._calls.append(parts)
            self._by_index[len(self._calls) - 1 if index is None else index] = parts
        parts.name = parts.name or name
        parts.id = parts.id or call.id or ""
        parts.arguments += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def _list_calls(self) -> list[tuple[str, str, str]]:
        return [(call.id, call.name, call.arguments) for call in self._calls]

    def _make_empty_error(self) -> CallFailed:
        if self.finish == FILTERED:
            return self._make_error(ErrorClass.BAD_REQUEST, "its filter withholds the answer")
        return super(ChatReplyBuilder, self)._make_empty_error()


class OpenAI(HttpProvider):
    """Chat completions."""

    kind = "openai"
    own_host = "api.openai.com"
    path = "/chat/completions"

    def _prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[bytes, ReplyBuilder]:
        dialect = get_dialect(self._base.host or "")
        body = encode_request(model, request, stream, dialect=dialect, cache=self._cache)
        return body, ChatReplyBuilder()
