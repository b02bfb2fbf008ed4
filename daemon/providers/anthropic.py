"""Claude, by Anthropic's own API or a server that speaks it."""

import json
import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BeforeValidator

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelRequest, Native, Usage
from daemon.providers.anthropic_request import (
    THINKING_TYPES,
    Block,
    encode_request,
    make_own_native,
)
from daemon.providers.base import (
    Count,
    DictOrNone,
    ReplyBuilder,
    WireModel,
    make_unique_ids,
    parse_arguments,
    parse_json,
)
from daemon.providers.errors import CallFailed, make_object_error
from daemon.providers.http_provider import HttpProvider

CONTEXT_FULL, REFUSED = "model_context_window_exceeded", "refusal"


class _Block(WireModel):
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


class _Usage(WireModel):
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_input_tokens: Count = 0
    cache_creation_input_tokens: Count = 0


def _normalize_blocks(value: object) -> object:
    """Some servers send a text in place of a list of blocks, or nulls in the list."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [item for item in value if item is not None] if isinstance(value, list) else value


class _Message(WireModel):
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
    """A block under construction; `text` is text, thinking or arguments."""

    block: _Block
    text: str = ""
    signature: str = ""

    @property
    def arguments_json(self) -> str:
        """The arguments of a call, in one spelling however they came; broken ones as they are."""
        try:
            given = self.block.input if self.block.input is not None else {}
            found = json.loads(self.text) if self.text.strip() else given
        except (ValueError, RecursionError):
            return self.text
        return json.dumps(found, ensure_ascii=False)

    def to_block(self, call_id: str) -> Block:
        """As it is sent back."""
        kind = self.block.type
        match kind:
            case "thinking":
                return {"type": kind, "thinking": self.text, "signature": self.signature}
            case "redacted_thinking":
                return {"type": kind, "data": self.block.data or ""}
            case "tool_use":
                arguments = parse_arguments(self.arguments_json)
                return {"type": kind, "id": call_id, "name": self.block.name, "input": arguments}
            case _:
                return {"type": "text", "text": self.text}


@dataclass(slots=True, kw_only=True)
class AnthropicReplyBuilder(ReplyBuilder):
    """Reads messages and their events. `prefix` names what the reply was thought about."""

    prefix: str = ""
    _parts: list[_Part] = field(default_factory=list)
    _by_index: dict[int, _Part] = field(default_factory=dict)

    def _read(self, received: str | bytes) -> str:
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
                self._merge_usage(event.usage)
            case "message_stop":
                self.has_ended = True
            case "message" | "":
                return self._add_message(event)
        return ""

    def _add_message(self, message: _Message) -> str:
        self.finish = message.stop_reason or self.finish
        self._merge_usage(message.usage)
        return "".join(
            self._start_block(len(self._parts), block) for block in message.content or ()
        )

    def _merge_usage(self, used: _Usage | None) -> None:
        """The prompt comes in three counts. Counts only grow, and later events leave some out."""
        if used is None:
            return
        before = self.usage or Usage()
        sent = used.input_tokens + used.cache_read_input_tokens + used.cache_creation_input_tokens
        cached = max(before.cached_tokens, used.cache_read_input_tokens)
        output = max(before.output_tokens, used.output_tokens)
        self._add_usage(Usage(max(before.input_tokens, sent), output, cached))

    def _start_block(self, index: int, block: _Block) -> str:
        part = self._by_index[index] = _Part(block)
        self._parts.append(part)
        return self._add_delta(index, block)

    def _add_delta(self, index: int, delta: _Block) -> str:
        if (part := self._by_index.get(index)) is None:
            raise CallFailed(ErrorClass.MALFORMED, "a piece of a block that was never begun")
        kind = part.block.type
        pieces = {"text": delta.text, "thinking": delta.thinking, "tool_use": delta.partial_json}
        added = pieces.get(kind) or ""
        part.text += added
        part.signature += delta.signature or ""
        if kind != "text":
            return ""
        self.text.append(added)
        return added

    def _list_calls(self) -> list[tuple[str, str, str]]:
        uses = [part for part in self._parts if part.block.type == "tool_use"]
        return [(u.block.id or "", u.block.name or "", u.arguments_json) for u in uses]

    def _make_empty_error(self) -> CallFailed:
        if self.finish == CONTEXT_FULL:
            return CallFailed(ErrorClass.CONTEXT_TOO_LONG, "no room was left for an answer")
        if self.finish == REFUSED:
            return self._make_error(ErrorClass.BAD_REQUEST, "it withholds its answer")
        return super(AnthropicReplyBuilder, self)._make_empty_error()

    def _make_native(self) -> Native | None:
        """The blocks to send back; None without thinking, as text and calls say it all then."""
        kept = (*THINKING_TYPES, "tool_use")
        parts = [part for part in self._parts if part.block.type in kept or part.text.strip()]
        if not any(part.block.type in THINKING_TYPES for part in parts):
            return None
        uses = [part.block.id or "" for part in parts if part.block.type == "tool_use"]
        ids = iter(make_unique_ids(uses))
        blocks = [p.to_block(next(ids) if p.block.type == "tool_use" else "") for p in parts]
        return make_own_native("", "", self.prefix, blocks)


class Anthropic(HttpProvider):
    """Anthropic's messages."""

    kind = "anthropic"
    own_host = "api.anthropic.com"
    path = "/messages"
    rejects_native = re.compile(r"\b(signature|thinking)\b", re.IGNORECASE)

    def _prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[bytes, ReplyBuilder]:
        wire = encode_request(model, request, stream, provider=self.name)
        return wire.body, AnthropicReplyBuilder(prefix=wire.prefix)
