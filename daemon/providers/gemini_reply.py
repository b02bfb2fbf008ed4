"""What Gemini's generateContent answers, whole or in pieces, as a ModelReply."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest, ToolCall, Usage
from daemon.providers.counting import ASIDE, Count, estimate, kept
from daemon.providers.errors import Fault, midway
from daemon.providers.reading import BOM, MOST_RECEIVED, endless, not_a

ANSWER = "an answer of generateContent"
SPOILT = ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS")
WITHHELD = ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE", "MODEL_ARMOR", "MISSING_THOUGHT_SIGNATURE")


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, coerce_numbers_to_str=True)


class _Call(_Wire):
    id: str | None = None
    name: str | None = None
    args: dict[str, object] | None = None


class _Part(_Wire):
    text: str | None = None
    thought: bool | None = None
    function_call: _Call | None = None
    thought_signature: str | None = None

    @property
    def plain(self) -> bool:
        """Text that may be joined with its neighbour. What is signed stays as it came."""
        return bool(self.text) and not self.thought_signature and not self.function_call


class _Content(_Wire):
    parts: list[dict[str, object]] | None = None


class _Candidate(_Wire):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(_Wire):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Usage(_Wire):
    prompt_token_count: Count = 0
    tool_use_prompt_token_count: Count = 0
    candidates_token_count: Count = 0
    thoughts_token_count: Count = 0
    cached_content_token_count: Count = 0

    def usage(self) -> Usage:
        """Thinking is paid for as output; what was cached is part of the prompt."""
        return Usage(
            self.prompt_token_count + self.tool_use_prompt_token_count,
            self.candidates_token_count + self.thoughts_token_count,
            self.cached_content_token_count,
        )


class _Answer(_Wire):
    candidates: list[_Candidate] | None = None
    prompt_feedback: Annotated[_Feedback | None, ASIDE] = None
    usage_metadata: Annotated[_Usage | None, ASIDE] = None
    error: object = None


@dataclass(slots=True)
class Draft:
    """A reply under construction: of many pieces, or of one that is the whole."""

    text: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    parts: list[dict[str, object]] = field(default_factory=list)
    finish: str = ""
    why: str = ""
    usage: Usage | None = None
    _signed: bool = False
    _last: _Part = field(default_factory=_Part)
    _received: int = 0

    def add(self, received: str | bytes) -> str:
        """Take in one JSON object; gives the text that it adds. Raises Fault."""
        self._received += len(received)
        if self._received > MOST_RECEIVED:
            raise endless()
        try:
            answer = _Answer.model_validate_json(received)
            parts = [_Part.model_validate(part) for part in _parts(answer)]
        except ValidationError as error:
            raise not_a(ANSWER, received) from error
        if answer.error:
            raise midway(answer.error)
        if answer.prompt_feedback and answer.prompt_feedback.block_reason:
            raise _blocked(answer.prompt_feedback)
        if answer.usage_metadata and (used := answer.usage_metadata.usage()) != Usage():
            self.usage = used
        self._ended(answer.candidates[0] if answer.candidates else _Candidate())
        return "".join(self._part(raw, part) for raw, part in zip(_parts(answer), parts, strict=True))

    def _ended(self, candidate: _Candidate) -> None:
        self.finish = candidate.finish_reason or self.finish
        self.why = candidate.finish_message or self.why

    def _part(self, raw: dict[str, object], part: _Part) -> str:
        if part.text == "" and not part.thought_signature and not part.function_call:
            return ""
        if part.plain and self._last.plain and bool(part.thought) == bool(self._last.thought):
            self.parts[-1] = {**self.parts[-1], "text": f"{self.parts[-1]['text']}{part.text}"}
        else:
            self.parts.append(raw)
        self._last = part
        self._signed = self._signed or bool(part.thought_signature)
        if part.function_call:
            self.calls.append(part.function_call)
        if part.thought or not part.text:
            return ""
        self.text.append(part.text)
        return part.text

    def reply(self, request: ModelRequest) -> ModelReply:
        """The whole of it. Raises Fault when there is nothing in it, or nothing that can be used."""
        text = "".join(self.text)
        if self.finish in SPOILT:
            raise Fault(ErrorClass.MALFORMED, self._ending("the model spoilt its call of a tool"))
        if not text.strip() and not self.calls:
            withheld = self.finish in WITHHELD
            kind = ErrorClass.BAD_REQUEST if withheld else ErrorClass.MALFORMED
            raise Fault(kind, self._ending("it withholds its answer" if withheld else "an empty reply"))
        if any(not call.name for call in self.calls):
            raise Fault(ErrorClass.MALFORMED, "a tool call without a name")
        calls = tuple(_numbered(self.calls))
        usage = self.usage or estimate(request, text, calls)
        native = kept(self.parts) if self._signed else None
        return ModelReply(text=text, calls=calls, usage=usage, finish=self.finish, native=native)

    def _ending(self, what: str) -> str:
        reason = f" ({self.finish})" if self.finish not in ("", "STOP") else ""
        return f"{what}{reason}" + (f": {self.why}" if self.why else "")


def from_wire(body: bytes, request: ModelRequest) -> ModelReply:
    """A reply that came in one piece, or as a list of pieces. `request` is only for guessing the usage where none is told."""
    draft = Draft()
    body = body.removeprefix(BOM).strip()
    for piece in _listed(body) if body.startswith(b"[") else [body]:
        draft.add(piece)
    return draft.reply(request)


def _listed(body: bytes) -> list[bytes]:
    """Without alt=sse, which some gateways drop, a stream is one JSON list."""
    try:
        pieces: list[object] = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise not_a(ANSWER, body) from error
    return [json.dumps(piece).encode() for piece in pieces]


def _parts(answer: _Answer) -> list[dict[str, object]]:
    content = answer.candidates[0].content if answer.candidates else None
    return content.parts or [] if content else []


def _blocked(feedback: _Feedback) -> Fault:
    more = f": {feedback.block_reason_message}" if feedback.block_reason_message else ""
    return Fault(ErrorClass.BAD_REQUEST, f"its filter blocks what it was sent ({feedback.block_reason}){more}")


def _numbered(calls: Iterable[_Call]) -> Iterable[ToolCall]:
    """Older models give their calls no ids; each call of a reply needs one of its own."""
    used: set[str] = set()
    for index, call in enumerate(calls):
        provider_id = call.id if call.id and call.id not in used else f"{call.id or 'call'}_{index}"
        used.add(provider_id)
        yield ToolCall(provider_id, call.name or "", json.dumps(call.args or {}, ensure_ascii=False))
