"""What OpenAI's chat completions answer, whole or in pieces, as a ModelReply."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest, ToolCall, Usage
from daemon.providers.errors import Fault, midway


class _Function(BaseModel):
    name: str | None = None
    arguments: str | dict[str, object] | None = None


class _Call(BaseModel):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Part(BaseModel):
    text: str = ""


class _Message(BaseModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None

    def text(self) -> str:
        """A refusal is an answer too."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or self.refusal or ""


class _Choice(BaseModel):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None
    error: object = None


class _Details(BaseModel):
    cached_tokens: int | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None

    def usage(self) -> Usage:
        """DeepSeek counts what was cached under a name of its own."""
        details = self.prompt_tokens_details or _Details()
        cached = details.cached_tokens or self.prompt_cache_hit_tokens or 0
        return Usage(self.prompt_tokens or 0, self.completion_tokens or 0, cached)


class _Completion(BaseModel):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: object = None


@dataclass(slots=True)
class _Pieces:
    """A tool call that comes in pieces."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Draft:
    """A reply under construction: of many pieces, or of one that is the whole."""

    text: list[str] = field(default_factory=list)
    calls: list[_Pieces] = field(default_factory=list)
    finish: str = ""
    usage: Usage | None = None
    _at: dict[int, _Pieces] = field(default_factory=dict)

    def add(self, received: str | bytes) -> str:
        """Take in one JSON object; gives the text that it adds. Raises Fault."""
        try:
            piece = _Completion.model_validate_json(received)
        except ValidationError as error:
            raise Fault(ErrorClass.MALFORMED, f"not a chat completion: {_shown(received)}") from error
        if piece.error:
            raise midway(piece.error)
        if piece.usage:
            self.usage = piece.usage.usage()
        return self._choice(piece.choices[0]) if piece.choices else ""

    def _choice(self, choice: _Choice) -> str:
        if choice.error or choice.finish_reason == "error":
            raise midway(choice.error or "the server broke off with an error")
        self.finish = choice.finish_reason or self.finish
        message = choice.message or choice.delta
        if message is None:
            return ""
        for position, call in enumerate(message.tool_calls or ()):
            self._call(call, position if choice.message else None)
        text = message.text()
        if text:
            self.text.append(text)
        return text

    def _call(self, call: _Call, position: int | None) -> None:
        """Servers number the pieces, or not at all, or all with 0: a new id with a name begins a new call."""
        index = call.index if position is None else position
        known = self._at.get(index) if index is not None else (self.calls[-1] if self.calls else None)
        if known is None or (call.id and call.function.name and call.id != known.id):
            known = _Pieces(call.id or "", call.function.name or "")
            self.calls.append(known)
            self._at[len(self.calls) - 1 if index is None else index] = known
        known.name = known.name or call.function.name or ""
        known.id = known.id or call.id or ""
        written = call.function.arguments
        known.arguments.append(json.dumps(written) if isinstance(written, dict) else written or "")

    def reply(self, request: ModelRequest) -> ModelReply:
        """The whole of it. Raises Fault when there is nothing in it."""
        text = "".join(self.text)
        if not text.strip() and not self.calls:
            why = f" (it stopped because of {self.finish!r})" if self.finish not in ("", "stop") else ""
            raise Fault(ErrorClass.MALFORMED, f"an empty reply{why}")
        if any(not call.name for call in self.calls):
            raise Fault(ErrorClass.MALFORMED, "a tool call without a name")
        calls = tuple(_numbered(self.calls))
        usage = self.usage or _estimate(request, text, calls)
        return ModelReply(text=text, calls=calls, usage=usage, finish=self.finish)


def from_wire(body: bytes, request: ModelRequest) -> ModelReply:
    """A reply that came in one piece. `request` is only looked at to estimate the usage where the server is silent about it."""
    draft = Draft()
    draft.add(body)
    return draft.reply(request)


def _numbered(calls: Iterable[_Pieces]) -> Iterable[ToolCall]:
    """Ids are echoed, so each call of a reply needs one, and one of its own."""
    used: set[str] = set()
    for index, call in enumerate(calls):
        provider_id = call.id if call.id and call.id not in used else f"{call.id or 'call'}_{index}"
        used.add(provider_id)
        yield ToolCall(provider_id, call.name, "".join(call.arguments))


def _estimate(request: ModelRequest, text: str, calls: Iterable[ToolCall]) -> Usage:
    sent = sum(len(m.text) + _length(m.calls) for m in request.messages)
    sent += sum(len(t.name) + len(t.description) + len(json.dumps(t.parameters)) for t in request.tools)
    return Usage(sent // 4 + 1, (len(text) + _length(calls)) // 4 + 1, estimated=True)


def _length(calls: Iterable[ToolCall]) -> int:
    return sum(len(call.name) + len(call.arguments) for call in calls)


def _shown(received: str | bytes) -> str:
    return received[:100].decode("utf-8", "replace") if isinstance(received, bytes) else received[:100]
