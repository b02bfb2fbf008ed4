"""Claude, by Anthropic's own API or a server that speaks it.

What may be cached ends at a marker (`cache_control`), of which the API takes four: behind the
tools, behind the system prompt, behind the newest message, and where the newest message ended at
the call before: the API looks back only 20 blocks, so that marker finds what the last call has
stored. A marker is one key at the end of a block and is not compared: with every CACHE_MARK taken
out, the bytes of one call begin those of the next.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from yarl import URL

from daemon.core.errors import ErrorClass
from daemon.core.messages import (
    Message,
    MessageRole,
    ModelRequest,
    Native,
    ToolCall,
    ToolSpec,
)
from daemon.providers.base import (
    ReplyBuilder,
    encode_json,
    encode_list,
    get_count,
    get_object,
    get_text,
    list_objects,
    make_native,
)
from daemon.providers.errors import CallFailed, make_object_error
from daemon.providers.http import HttpProvider
from daemon.providers.rules import (
    EMPTY_TEXT,
    GO_ON,
    MISSING_START,
    Json,
    assign_ids,
    fold_schema,
    is_from,
    make_valid_name,
    parse_arguments,
    split_instructions,
)

VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
FIRST_THINKING = (3, 7)
FIRST_ADAPTIVE = (4, 6)
FIRST_PREFIX_BOUND = (5, 1)
BUDGETS = {"low": 2048, "medium": 8192, "high": 16_384, "max": 24_000}
THINKING_TYPES = ("thinking", "redacted_thinking")
CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'
WITHHELD = {
    "model_context_window_exceeded": (
        ErrorClass.CONTEXT_TOO_LONG,
        "no room was left for an answer",
    ),
    "refusal": (ErrorClass.FILTERED, "it withholds its answer"),
}
# What adds to a block of each type, at its start and in later pieces.
PIECES = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}


@dataclass(slots=True)
class _Part:
    """A block under construction; `text` is text, thinking or arguments."""

    block: Json
    kind: str
    text: str = ""
    signature: str = ""

    def encode_arguments(self) -> str:
        """The arguments of a call, in one spelling however they came; broken ones as they are."""
        try:
            given = self.block.get("input") or {}
            found = json.loads(self.text) if self.text.strip() else given
        except (ValueError, RecursionError):
            return self.text
        return json.dumps(found, ensure_ascii=False)


@dataclass(slots=True)
class AnthropicReplyBuilder(ReplyBuilder):
    """Reads messages and their events. `prefix` names what the reply was thought about."""

    what = "a message"
    withheld = WITHHELD

    prefix: str = ""
    _parts: list[_Part] = field(default_factory=list)
    _by_index: dict[object, _Part] = field(default_factory=dict)

    def read(self, fields: Json) -> str:
        kind = fields.get("type")
        if kind == "error" or fields.get("error"):
            raise make_object_error(fields.get("error") or "the server broke off with an error")
        message, index = get_object(fields, "message"), fields.get("index", 0)
        match kind:
            case "message_start" | "message" | "" | None:
                message = message if kind == "message_start" else fields
                self._read_end(message, message)
                blocks = list_objects(message.get("content"))
                return "".join([self._start_block(len(self._parts), block) for block in blocks])
            case "content_block_start":
                return self._start_block(index, get_object(fields, "content_block"))
            case "content_block_delta":
                return self._add_delta(index, get_object(fields, "delta"))
            case "message_delta":
                self._read_end(get_object(fields, "delta"), fields)
            case "message_stop":
                self.has_ended = True
        return ""

    def _read_end(self, message: Json, fields: Json) -> None:
        """The prompt comes in three counts. Counts only grow, and later events leave some out."""
        self.finish = get_text(message, "stop_reason") or self.finish
        used = get_object(fields, "usage")
        cached = get_count(used, "cache_read_input_tokens")
        sent = cached + get_count(used, "input_tokens", "cache_creation_input_tokens")
        received = get_count(used, "output_tokens")
        self.counts = [*map(max, self.counts, (sent, received, cached))]

    def _start_block(self, index: object, block: Json) -> str:
        part = self._by_index[index] = _Part(block, get_text(block, "type"))
        self._parts.append(part)
        return self._add_delta(index, block)

    def _add_delta(self, index: object, delta: Json) -> str:
        if (part := self._by_index.get(index)) is None:
            raise CallFailed(ErrorClass.MALFORMED, "a piece of a block that was never begun")
        added = get_text(delta, PIECES.get(part.kind, ""))
        part.text += added
        part.signature += get_text(delta, "signature")
        if part.kind != "text":
            return ""
        self.text.append(added)
        return added

    def _list_calls(self) -> list[tuple[str, str, str]]:
        return [
            (get_text(part.block, "id"), get_text(part.block, "name"), part.encode_arguments())
            for part in self._parts
            if part.kind == "tool_use"
        ]

    def _make_native(self, calls: Sequence[ToolCall], raw: str, text: str) -> Native | None:
        """The blocks to send back; None without thinking, as text and calls say it all then."""
        ids, blocks = iter(calls), list[Json]()
        for part in self._parts:
            block: Json = {"type": part.kind}
            match part.kind:
                case "thinking":
                    block |= {"thinking": part.text, "signature": part.signature}
                case "redacted_thinking":
                    block["data"] = get_text(part.block, "data")
                case "tool_use":
                    call = next(ids)
                    arguments = parse_arguments(call.arguments)
                    block |= {"id": call.provider_id, "name": call.name, "input": arguments}
                case _ if part.text.strip():
                    block = {"type": "text", "text": part.text}
                case _:
                    continue
            blocks.append(block)
        if not any(block["type"] in THINKING_TYPES for block in blocks):
            return None
        return make_native({"prefix": self.prefix, "content": blocks})


class Anthropic(HttpProvider):
    """Anthropic's messages."""

    kind = "anthropic"
    path = "/messages"
    needed = ("max_tokens",)
    rejects_native = re.compile(r"\b(signature|thinking)\b", re.IGNORECASE)

    def prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[URL, Json, ReplyBuilder]:
        """Model, tools, system and messages first, what varies last."""
        system, messages = split_instructions(request.messages)
        instructions = [encode_json(_text_block(m.text)) for m in system if m.text.strip()]
        tools = [encode_json(tool) for tool in _list_tools(request, messages)]
        thinking, prefix_bound = get_capabilities(model)
        history = _History((self.name, model), prefix_bound, (*tools, *instructions))
        history.add(messages)
        if thinking == "budget" and not history.allows_thinking():
            thinking = "none"
        is_forbidden = tools and not (request.tools and request.tools_allowed)
        body: Json = {
            "model": model,
            "tools": _encode_marked(tools),
            "system": _encode_marked(instructions),
            "messages": history.encode(),
            **_make_settings(request, thinking),
            "tool_choice": {"type": "none"} if is_forbidden else None,
            "stream": stream or None,
        }
        return self.url, body, AnthropicReplyBuilder(prefix=history.prefix)


def get_capabilities(model: str) -> tuple[str, bool]:
    """How a model thinks (none, budget, adaptive) by its name (E13), and whether it refuses its
    thinking behind another prefix than it was thought about, as newer models do.

    A server with another name speaks the oldest form.
    """
    if "claude" not in model:
        return "budget", False
    if (found := VERSION.search(model)) is None:
        return "adaptive", True
    version = int(found[1]), int(found[2] or 0)
    if version < FIRST_ADAPTIVE:
        return "none" if version < FIRST_THINKING else "budget", False
    return "adaptive", version >= FIRST_PREFIX_BOUND


def _make_settings(request: ModelRequest, thinking: str) -> Json:
    """A budget of thinking counts towards the maximum."""
    effort, limit = request.effort, request.max_tokens
    if thinking == "adaptive":
        settings: Json = {"max_tokens": limit or (32_000 if effort in ("high", "max") else 16_000)}
        adaptive = {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
        return settings | adaptive if effort else settings
    if thinking == "none" or not effort:
        return {"max_tokens": limit or (4096 if thinking == "none" else 8000)}
    budget = BUDGETS.get(effort, BUDGETS["high"])
    enabled = {"type": "enabled", "budget_tokens": budget}
    return {"max_tokens": (limit or 8000) + budget, "thinking": enabled}


class _History:
    """Messages as they are sent: roles alternate, the user begins and ends, call ids are unique.

    `owner` is the provider and model whose thinking goes back; with `prefix_bound` only where
    nothing before it has changed. `prefix` names exactly what has been said so far.
    """

    def __init__(self, owner: tuple[str, str], prefix_bound: bool, before: Iterable[bytes]) -> None:
        self._messages: list[tuple[str, list[Json], list[bytes]]] = []
        self._owner, self._prefix_bound = owner, prefix_bound
        self._hash = blake2b(b"".join(before), digest_size=12)

    @property
    def prefix(self) -> str:
        """A name for what has been said so far."""
        return self._hash.hexdigest()

    def add(self, messages: Sequence[Message]) -> None:
        """The messages behind tools and system prompt; results answer the calls before them."""
        for message, ids in assign_ids(messages):
            match message.role:
                case MessageRole.ASSISTANT:
                    self._add_reply(message, ids)
                case MessageRole.TOOL:
                    result: Json = {"type": "tool_result", "tool_use_id": ids[0]}
                    result |= {"content": message.text} if message.text.strip() else {}
                    result |= {"is_error": True} if message.is_error else {}
                    self._append("user", result)
                case _:
                    self._append("user", _text_block(message.text))
                    for one in message.pictures:
                        source = {"type": "base64", "media_type": one.mime, "data": one.data}
                        self._append("user", {"type": "image", "source": source})
        if not self._messages or self._messages[-1][0] == "assistant":
            self._append("user", _text_block(GO_ON if self._messages else MISSING_START))

    def _append(self, role: str, block: Json) -> None:
        if not self._messages and role == "assistant":
            self._append("user", _text_block(MISSING_START))
        if not self._messages or self._messages[-1][0] != role:
            self._messages.append((role, [], []))
        encoded = encode_json(block)
        self._hash.update(role.encode() + encoded)
        _, blocks, parts = self._messages[-1]
        blocks.append(block)
        parts.append(encoded)

    def _add_reply(self, message: Message, ids: Sequence[str]) -> None:
        blocks = self._get_native_blocks(message)
        if blocks is None:
            blocks = list(map(_tool_use_block, message.calls))
            if message.text.strip() or not blocks:
                blocks.insert(0, _text_block(message.text))
        left = iter(ids)
        for block in blocks:
            is_call = block.get("type") == "tool_use"
            self._append("assistant", block | {"id": next(left)} if is_call else block)

    def _get_native_blocks(self, message: Message) -> list[Json] | None:
        """The blocks of this reply, if they may be sent again behind this prefix."""
        native = message.native
        if not is_from(native, self._owner):
            return None
        try:
            found: Json = json.loads(native.blocks)
            content, prefix = found["content"], found["prefix"]
        except (ValueError, KeyError, TypeError):
            return None
        if not isinstance(content, list) or (self._prefix_bound and prefix != self.prefix):
            return None
        uses = sum(block.get("type") == "tool_use" for block in content)
        return content if uses == len(message.calls) else None

    def allows_thinking(self) -> bool:
        """With a budget, tool results are thought about only where their calls were."""
        has_results = any(block["type"] == "tool_result" for block in self._messages[-1][1])
        return not has_results or self._messages[-2][1][0]["type"] in THINKING_TYPES

    def encode(self) -> bytes:
        """All of them, the user's last two marked."""
        marked = (len(self._messages) - 1, len(self._messages) - 3)
        return encode_list(
            b'{"role":"%s","content":%s}'
            % (role.encode(), _encode_marked(parts) if n in marked else encode_list(parts))
            for n, (role, _, parts) in enumerate(self._messages)
        )


def _encode_marked(blocks: Sequence[bytes]) -> bytes:
    """A JSON array of blocks, the last one with the marker."""
    return encode_list([*blocks[:-1], *(last[:-1] + CACHE_MARK + b"}" for last in blocks[-1:])])


def _list_tools(request: ModelRequest, history: Sequence[Message]) -> Iterable[Json]:
    """The tools; without any, a history with calls in it still needs them named."""
    if request.tools:
        return map(_tool_block, request.tools)
    names = dict.fromkeys(make_valid_name(call.name) for m in history for call in m.calls)
    return [{"name": name, "input_schema": {"type": "object"}} for name in names]


def _tool_block(tool: ToolSpec) -> Json:
    schema = fold_schema(tool.parameters)
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _tool_use_block(call: ToolCall) -> Json:
    arguments = parse_arguments(call.arguments)
    return {"type": "tool_use", "id": "", "name": make_valid_name(call.name), "input": arguments}


def _text_block(text: str) -> Json:
    return {"type": "text", "text": text if text.strip() else EMPTY_TEXT}
