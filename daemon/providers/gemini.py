"""Google's Gemini, by generateContent."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from yarl import URL

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelRequest, Native, Usage
from daemon.providers.base import (
    Count,
    DictOrNone,
    ReplyBuilder,
    WireModel,
    make_malformed_error,
    make_native,
)
from daemon.providers.errors import CallFailed, make_object_error
from daemon.providers.gemini_request import encode_request
from daemon.providers.http_provider import HttpProvider

WHAT = "an answer of generateContent"
BAD_CALL_REASONS = (
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
)
BLOCKED_REASONS = (
    "SAFETY",
    "PROHIBITED_CONTENT",
    "BLOCKLIST",
    "SPII",
    "LANGUAGE",
    "MODEL_ARMOR",
    "MISSING_THOUGHT_SIGNATURE",
)


class _Wire(WireModel):
    model_config = ConfigDict(alias_generator=to_camel)


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
    def is_plain_text(self) -> bool:
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


class _Answer(_Wire):
    candidates: list[_Candidate] | None = None
    prompt_feedback: Annotated[_Feedback | None, DictOrNone] = None
    usage_metadata: Annotated[_Usage | None, DictOrNone] = None
    error: object = None


@dataclass(slots=True, kw_only=True)
class GeminiReplyBuilder(ReplyBuilder):
    """Reads answers of generateContent and their pieces."""

    _calls: list[_Call] = field(default_factory=list)
    _parts: list[dict[str, object]] = field(default_factory=list)
    _signed: bool = False
    _last: _Part = field(default_factory=_Part)

    def feed_whole(self, body: bytes) -> str:
        """Read an answer in one piece. Some gateways send a stream as one JSON list."""
        body = body.strip()
        pieces: Sequence[bytes] = [body]
        if body.startswith(b"["):
            try:
                pieces = [json.dumps(piece).encode() for piece in json.loads(body)]
            except (ValueError, RecursionError) as error:
                raise make_malformed_error(WHAT, body) from error
        return "".join([self.feed(piece) for piece in pieces])

    def _read(self, received: str | bytes) -> str:
        try:
            answer = _Answer.model_validate_json(received)
            candidate = answer.candidates[0] if answer.candidates else _Candidate()
            content = candidate.content or _Content()
            parts = [(raw, _Part.model_validate(raw)) for raw in content.parts or ()]
        except ValidationError as error:
            raise make_malformed_error(WHAT, received) from error
        if answer.error:
            raise make_object_error(answer.error)
        if (feedback := answer.prompt_feedback) and feedback.block_reason:
            more = f": {feedback.block_reason_message}" if feedback.block_reason_message else ""
            blocked = f"its filter blocks what it was sent ({feedback.block_reason}){more}"
            raise CallFailed(ErrorClass.BAD_REQUEST, blocked)
        if used := answer.usage_metadata:  # thinking is paid for as output
            sent = used.prompt_token_count + used.tool_use_prompt_token_count
            received_tokens = used.candidates_token_count + used.thoughts_token_count
            self._add_usage(Usage(sent, received_tokens, used.cached_content_token_count))
        self.finish = candidate.finish_reason or self.finish
        self.detail = candidate.finish_message or self.detail
        return "".join([self._add_part(raw, part) for raw, part in parts])

    def _add_part(self, raw: dict[str, object], part: _Part) -> str:
        if part.text == "" and not part.thought_signature and not part.function_call:
            return ""
        last, self._last = self._last, part
        if part.is_plain_text and last.is_plain_text and bool(part.thought) == bool(last.thought):
            joined = f"{self._parts[-1]['text']}{part.text}"
            self._parts[-1] = {**self._parts[-1], "text": joined}
        else:
            self._parts.append(raw)
        self._signed = self._signed or bool(part.thought_signature)
        if part.function_call:
            self._calls.append(part.function_call)
        if part.thought or not part.text:
            return ""
        self.text.append(part.text)
        return part.text

    def _list_calls(self) -> list[tuple[str, str, str]]:
        if self.finish in BAD_CALL_REASONS:
            raise self._make_error(ErrorClass.MALFORMED, "the model spoilt its call of a tool")
        return [
            (call.id or "", call.name or "", json.dumps(call.args or {}, ensure_ascii=False))
            for call in self._calls
        ]

    def _make_empty_error(self) -> CallFailed:
        if self.finish in BLOCKED_REASONS:
            return self._make_error(ErrorClass.BAD_REQUEST, "it withholds its answer")
        return super(GeminiReplyBuilder, self)._make_empty_error()

    def _make_native(self) -> Native | None:
        return make_native(self._parts) if self._signed else None


class Gemini(HttpProvider):
    """generateContent."""

    kind = "gemini"
    own_host = "generativelanguage.googleapis.com"
    rejects_native = re.compile(r"thought.?signature", re.IGNORECASE)

    def _prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[bytes, ReplyBuilder]:
        return encode_request(self.name, model, request, cache=self._cache), GeminiReplyBuilder()

    def _make_url(self, model: str, stream: bool) -> URL:
        """Model and way of answering are part of the address; the key never is."""
        resource = model if "/" in model else f"models/{model}"
        method = "streamGenerateContent" if stream else "generateContent"
        url = self._add_path(f"/{resource}:{method}")
        return url.update_query(alt="sse") if stream else url
