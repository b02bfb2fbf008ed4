"""What Anthropic's messages answer, whole or in pieces, as a ModelReply.

Claude, by Anthropic's own API or a server that speaks it.
"""

import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest, ToolCall, Usage
from daemon.providers import http as reading
from daemon.providers.anthropic_request import (
    THINKING_TYPES,
    Block,
    encode_request,
    make_own_native,
    parse_arguments,
)
from daemon.providers.base import Count, DictOrNone, TextCallback, estimate_usage
from daemon.providers.errors import CallFailed, make_object_error
from daemon.providers.http import BOM, MAX_RESPONSE_BYTES, make_too_long_error, parse_json
from daemon.providers.http_provider import HttpProvider

CONTEXT_FULL, REFUSED = "model_context_window_exceeded", "refusal"


class _Wire(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)


class _Block(_Wire):
    """A block, or what a delta adds to one."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: object = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Usage(_Wire):
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_input_tokens: Count = 0
    cache_creation_input_tokens: Count = 0

    def merge(self, before: Usage | None) -> Usage | None:
        """The prompt is told in three parts. The counts of a stream only ever grow, and later ones may leave some out."""
        before = before or Usage()
        sent = self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens
        cached = max(before.cached_tokens, self.cache_read_input_tokens)
        found = Usage(
            max(before.input_tokens, sent), max(before.output_tokens, self.output_tokens), cached
        )
        return found if found != Usage() else None


def _normalize_blocks(value: object) -> object:
    """A text where a list of blocks belongs, and nulls in the list, are no reason to lose an answer."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [item for item in value if item is not None] if isinstance(value, list) else value


class _Message(_Wire):
    content: Annotated[list[_Block] | None, BeforeValidator(_normalize_blocks)] = None
    stop_reason: str | None = None
    usage: Annotated[_Usage | None, DictOrNone] = None


class _Event(_Message):
    """A message, or an event of a stream: each has a type, and fields of its own."""

    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Block | None = None
    error: object = None


@dataclass(slots=True)
class _Part:
    """A block under construction."""

    type: str
    text: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    data: str = ""
    id: str = ""
    name: str = ""
    input: object = None

    @property
    def arguments_json(self) -> str:
        """The arguments of a call, in one spelling however they came; broken ones as they are."""
        text = "".join(self.text)
        if not text.strip():
            return json.dumps(self.input if self.input is not None else {}, ensure_ascii=False)
        try:
            return json.dumps(json.loads(text), ensure_ascii=False)
        except (ValueError, RecursionError):
            return text

    def to_block(self, given: str) -> Block:
        """As it is sent back."""
        match self.type:
            case "thinking":
                return {
                    "type": "thinking",
                    "thinking": "".join(self.text),
                    "signature": "".join(self.signature),
                }
            case "redacted_thinking":
                return {"type": "redacted_thinking", "data": self.data}
            case "tool_use":
                return {
                    "type": "tool_use",
                    "id": given,
                    "name": self.name,
                    "input": parse_arguments(self.arguments_json),
                }
            case _:
                return {"type": "text", "text": "".join(self.text)}


@dataclass(slots=True)
class AnthropicReplyBuilder:
    """A reply under construction: of many pieces, or of one that is the whole."""

    parts: list[_Part] = field(default_factory=list)
    finish: str = ""
    usage: Usage | None = None
    ended: bool = False
    _at: dict[int, _Part] = field(default_factory=dict)
    _received: int = 0

    def feed(self, received: str | bytes) -> str:
        """Take in one JSON object, an event or a whole message; gives the text that it adds. Raises Fault."""
        self._received += len(received)
        if self._received > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
        event = parse_json(_Event, received, "a message")
        if event.type == "error" or event.error:
            raise make_object_error(event.error or "the server broke off with an error")
        match event.type:
            case "message_start":
                return self._add_message(event.message or _Message())
            case "content_block_start":
                return self._start_block(event.index, event.content_block or _Block())
            case "content_block_delta":
                return self._add_delta(event.index, event.delta or _Block())
            case "message_delta":
                self.finish = (event.delta or _Block()).stop_reason or self.finish
                self.usage = event.usage.merge(self.usage) if event.usage else self.usage
            case "message_stop":
                self.ended = True
            case "message" | "":
                return self._add_message(event)
        return ""

    def _add_message(self, message: _Message) -> str:
        self.finish = message.stop_reason or self.finish
        self.usage = message.usage.merge(self.usage) if message.usage else self.usage
        return "".join(self._start_block(len(self.parts), block) for block in message.content or ())

    def _start_block(self, index: int, block: _Block) -> str:
        part = _Part(
            block.type,
            data=block.data or "",
            id=block.id or "",
            name=block.name or "",
            input=block.input,
        )
        self.parts.append(part)
        self._at[index] = part
        return self._add_delta(index, block)

    def _add_delta(self, index: int, delta: _Block) -> str:
        part = self._at.get(index)
        if part is None:
            raise CallFailed(ErrorClass.MALFORMED, "a piece of a block that was never begun")
        added = {
            "text": delta.text,
            "thinking": delta.thinking,
            "tool_use": delta.partial_json,
        }.get(part.type)
        if added:
            part.text.append(added)
        if delta.signature:
            part.signature.append(delta.signature)
        return added or "" if part.type == "text" else ""

    def build(self, request: ModelRequest) -> ModelReply:
        """The whole of it. Raises Fault when there is nothing in it."""
        text = "".join(piece for part in self.parts if part.type == "text" for piece in part.text)
        uses = [part for part in self.parts if part.type == "tool_use"]
        if not text.strip() and not uses:
            raise self._empty_error()
        if any(not use.name for use in uses):
            raise CallFailed(ErrorClass.MALFORMED, "a tool call without a name")
        calls = tuple(
            ToolCall(given, use.name, use.arguments_json)
            for given, use in zip(_make_unique_ids(uses), uses, strict=True)
        )
        return ModelReply(
            text=text,
            calls=calls,
            usage=self.usage or estimate_usage(request, text, calls),
            finish=self.finish,
        )

    def _empty_error(self) -> CallFailed:
        if self.finish == CONTEXT_FULL:
            return CallFailed(ErrorClass.CONTEXT_TOO_LONG, "no room was left for an answer")
        if self.finish == REFUSED:
            return CallFailed(ErrorClass.BAD_REQUEST, f"it withholds its answer ({self.finish})")
        why = (
            f" (it stopped because of {self.finish!r})"
            if self.finish not in ("", "end_turn")
            else ""
        )
        return CallFailed(ErrorClass.MALFORMED, f"an empty reply{why}")

    def native_blocks(self) -> list[Block]:
        """The blocks to be sent back unchanged; none where nothing was thought, as text and calls say it all then."""
        known = [
            part
            for part in self.parts
            if part.type in (*THINKING_TYPES, "tool_use") or "".join(part.text).strip()
        ]
        if not any(part.type in THINKING_TYPES for part in known):
            return []
        ids = iter(_make_unique_ids([part for part in known if part.type == "tool_use"]))
        return [part.to_block(next(ids) if part.type == "tool_use" else "") for part in known]


def parse_reply(body: bytes) -> AnthropicReplyBuilder:
    """A reply that came in one piece."""
    draft = AnthropicReplyBuilder()
    draft.feed(body.removeprefix(BOM))
    return draft


def _make_unique_ids(uses: list[_Part]) -> list[str]:
    """Ids are echoed, so each call of a reply needs one, and one of its own."""
    given: list[str] = []
    for index, use in enumerate(uses):
        given.append(use.id if use.id and use.id not in given else f"{use.id or 'call'}_{index}")
    return given


BAD_THINKING = re.compile(r"\b(signature|thinking)\b", re.IGNORECASE)


class Anthropic(HttpProvider):
    """A provider."""

    kind = "anthropic"
    own_host = "api.anthropic.com"
    path = "/messages"

    def _is_native_rejected(self, fault: CallFailed) -> bool:
        return (
            fault.kind is ErrorClass.BAD_REQUEST and BAD_THINKING.search(fault.detail) is not None
        )

    async def _send(
        self, model: str, request: ModelRequest, on_text: TextCallback | None
    ) -> ModelReply:
        wire = encode_request(model, request, on_text is not None, provider=self.name)

        def replied(draft: AnthropicReplyBuilder) -> ModelReply:
            own = draft.native_blocks()
            native = make_own_native(self.name, model, wire.prefix, own) if own else None
            return replace(draft.build(request), native=native)

        async def streamed(data: AsyncGenerator[str], show: TextCallback) -> ModelReply:
            return replied(await _read_stream(data, show))

        async with self._transport.post(wire.body) as response:
            return await reading.read_reply(
                response, on_text, lambda whole: replied(parse_reply(whole)), streamed
            )


async def _read_stream(data: AsyncGenerator[str], show: TextCallback) -> AnthropicReplyBuilder:
    draft = AnthropicReplyBuilder()
    async for received in data:
        if text := draft.feed(received):
            show(text)
        if draft.ended:
            return draft
    if not draft.finish:
        raise CallFailed(ErrorClass.NETWORK, "the answer was cut off")
    return draft
