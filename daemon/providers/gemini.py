"""What Gemini's generateContent answers, whole or in pieces, as a ModelReply.

Google's Gemini, by generateContent.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Unpack

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from yarl import URL

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest, ToolCall, Usage
from daemon.providers import http as reading
from daemon.providers.base import Count, DictOrNone, TextCallback, estimate_usage, make_native
from daemon.providers.errors import CallFailed, make_object_error
from daemon.providers.gemini_request import encode_request, encode_tools
from daemon.providers.http import BOM, MAX_RESPONSE_BYTES, make_malformed_error, make_too_long_error
from daemon.providers.http_provider import ConnectionOptions, HttpProvider
from daemon.providers.openai_request import ToolListCache

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

    def to_usage(self) -> Usage:
        """Thinking is paid for as output; what was cached is part of the prompt."""
        return Usage(
            self.prompt_token_count + self.tool_use_prompt_token_count,
            self.candidates_token_count + self.thoughts_token_count,
            self.cached_content_token_count,
        )


class _Answer(_Wire):
    candidates: list[_Candidate] | None = None
    prompt_feedback: Annotated[_Feedback | None, DictOrNone] = None
    usage_metadata: Annotated[_Usage | None, DictOrNone] = None
    error: object = None


@dataclass(slots=True)
class GeminiReplyBuilder:
    """A reply under construction: of many pieces, or of one that is the whole."""

    text: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    parts: list[dict[str, object]] = field(default_factory=list)
    finish: str = ""
    finish_message: str = ""
    usage: Usage | None = None
    _signed: bool = False
    _last: _Part = field(default_factory=_Part)
    _received: int = 0

    def feed(self, received: str | bytes) -> str:
        """Take in one JSON object; gives the text that it adds. Raises Fault."""
        self._received += len(received)
        if self._received > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
        try:
            answer = _Answer.model_validate_json(received)
            parts = [_Part.model_validate(part) for part in _get_parts(answer)]
        except ValidationError as error:
            raise make_malformed_error(WHAT, received) from error
        if answer.error:
            raise make_object_error(answer.error)
        if answer.prompt_feedback and answer.prompt_feedback.block_reason:
            raise _blocked_error(answer.prompt_feedback)
        if answer.usage_metadata and (used := answer.usage_metadata.to_usage()) != Usage():
            self.usage = used
        self._note_finish(answer.candidates[0] if answer.candidates else _Candidate())
        return "".join(
            self._add_part(raw, part) for raw, part in zip(_get_parts(answer), parts, strict=True)
        )

    def _note_finish(self, candidate: _Candidate) -> None:
        self.finish = candidate.finish_reason or self.finish
        self.finish_message = candidate.finish_message or self.finish_message

    def _add_part(self, raw: dict[str, object], part: _Part) -> str:
        if part.text == "" and not part.thought_signature and not part.function_call:
            return ""
        if (
            part.is_plain_text
            and self._last.is_plain_text
            and bool(part.thought) == bool(self._last.thought)
        ):
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

    def build(self, request: ModelRequest) -> ModelReply:
        """The whole of it. Raises Fault when there is nothing in it, or nothing that can be used."""
        text = "".join(self.text)
        if self.finish in BAD_CALL_REASONS:
            raise CallFailed(
                ErrorClass.MALFORMED, self._describe_finish("the model spoilt its call of a tool")
            )
        if not text.strip() and not self.calls:
            withheld = self.finish in BLOCKED_REASONS
            kind = ErrorClass.BAD_REQUEST if withheld else ErrorClass.MALFORMED
            raise CallFailed(
                kind,
                self._describe_finish("it withholds its answer" if withheld else "an empty reply"),
            )
        if any(not call.name for call in self.calls):
            raise CallFailed(ErrorClass.MALFORMED, "a tool call without a name")
        calls = tuple(_make_calls(self.calls))
        usage = self.usage or estimate_usage(request, text, calls)
        native = make_native(self.parts) if self._signed else None
        return ModelReply(text=text, calls=calls, usage=usage, finish=self.finish, native=native)

    def _describe_finish(self, what: str) -> str:
        reason = f" ({self.finish})" if self.finish not in ("", "STOP") else ""
        return f"{what}{reason}" + (f": {self.finish_message}" if self.finish_message else "")


def parse_reply(body: bytes, request: ModelRequest) -> ModelReply:
    """A reply that came in one piece, or as a list of pieces. `request` is only for guessing the usage where none is told."""
    draft = GeminiReplyBuilder()
    body = body.removeprefix(BOM).strip()
    for piece in _split_list(body) if body.startswith(b"[") else [body]:
        draft.feed(piece)
    return draft.build(request)


def _split_list(body: bytes) -> list[bytes]:
    """Without alt=sse, which some gateways drop, a stream is one JSON list."""
    try:
        pieces: list[object] = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise make_malformed_error(WHAT, body) from error
    return [json.dumps(piece).encode() for piece in pieces]


def _get_parts(answer: _Answer) -> list[dict[str, object]]:
    content = answer.candidates[0].content if answer.candidates else None
    return content.parts or [] if content else []


def _blocked_error(feedback: _Feedback) -> CallFailed:
    more = f": {feedback.block_reason_message}" if feedback.block_reason_message else ""
    return CallFailed(
        ErrorClass.BAD_REQUEST,
        f"its filter blocks what it was sent ({feedback.block_reason}){more}",
    )


def _make_calls(calls: Iterable[_Call]) -> Iterable[ToolCall]:
    """Older models give their calls no ids; each call of a reply needs one of its own."""
    used: set[str] = set()
    for index, call in enumerate(calls):
        provider_id = call.id if call.id and call.id not in used else f"{call.id or 'call'}_{index}"
        used.add(provider_id)
        yield ToolCall(
            provider_id, call.name or "", json.dumps(call.args or {}, ensure_ascii=False)
        )


BAD_SIGNATURE = re.compile(r"thought.?signature", re.IGNORECASE)


class Gemini(HttpProvider):
    """A provider."""

    kind = "gemini"
    own_host = "generativelanguage.googleapis.com"

    def __init__(self, **connection: Unpack[ConnectionOptions]) -> None:
        super().__init__(**connection)
        self._tools = ToolListCache(encode_tools)

    def _is_native_rejected(self, fault: CallFailed) -> bool:
        return (
            fault.kind is ErrorClass.BAD_REQUEST and BAD_SIGNATURE.search(fault.detail) is not None
        )

    async def _send(
        self, model: str, request: ModelRequest, on_text: TextCallback | None
    ) -> ModelReply:
        body = encode_request(self.name, model, request, tools=self._tools)
        async with self._transport.post(
            body, self._model_url(model, on_text is not None)
        ) as response:
            return await reading.read_reply(
                response,
                on_text,
                partial(parse_reply, request=request),
                partial(_read_stream, request),
            )

    def _model_url(self, model: str, stream: bool) -> URL:
        """The model is part of the address, and so is the way of answering; the key never is."""
        resource = model if "/" in model else f"models/{model}"
        url = self._build_url(
            f"/{resource}:{'streamGenerateContent' if stream else 'generateContent'}"
        )
        return url.update_query(alt="sse") if stream else url


async def _read_stream(
    request: ModelRequest, data: AsyncGenerator[str], show: TextCallback
) -> ModelReply:
    """To the end of the answer, as nothing else tells that it ends: usage may come after the reason to finish."""
    draft = GeminiReplyBuilder()
    async for received in data:
        if text := draft.feed(received):
            show(text)
    if not draft.finish:
        raise CallFailed(ErrorClass.NETWORK, "the answer was cut off")
    return draft.build(request)
