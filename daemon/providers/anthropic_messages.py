"""A conversation in the form of Anthropic's messages, with the model's own thinking where it still holds."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count

from daemon.core.messages import Message, Native, Role, ToolCall

Block = dict[str, object]

THOUGHTS = ("thinking", "redacted_thinking")
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
EARLIER = "[earlier messages are left out]"
GO_ON = "[go on]"
BLANK = "[an empty message]"


def encode(value: object) -> bytes:
    """JSON, compact. Half a surrogate pair, which no server takes, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def keep(provider: str, model: str, prefix: str, content: Sequence[Block]) -> Native:
    """A reply's own blocks, to be sent back; `prefix` names what stood before it when it was thought."""
    return Native(provider, model, json.dumps({"prefix": prefix, "content": content}))


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose thinking goes back: this provider's and model's.

    `bound` asks for nothing to have changed before it: where a newer Claude is shown its thinking behind other words, other
    tools or another system prompt than it was thought about, it refuses the request.
    """

    provider: str
    model: str
    bound: bool = True

    def content(self, message: Message, prefix: str) -> list[Block] | None:
        """The blocks that this reply consisted of, if they may be sent again behind this prefix."""
        native = message.native
        if native is None or (native.provider, native.model) != (self.provider, self.model):
            return None
        try:
            kept: dict[str, object] = json.loads(native.blocks)
            content, thought_behind = kept["content"], kept["prefix"]
        except (ValueError, KeyError, TypeError):
            return None
        if not isinstance(content, list) or (self.bound and thought_behind != prefix):
            return None
        whole = sum(block.get("type") == "tool_use" for block in content) == len(message.calls)
        return content if whole else None


@dataclass(slots=True)
class Said:
    """One message: its blocks, and the bytes of each."""

    role: str
    blocks: list[Block] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Conversation:
    """Messages under construction. Roles alternate, the first and the last are the user's; every call has an id of its own."""

    owner: Owner
    messages: list[Said] = field(default_factory=list)
    _hash: blake2b = field(default_factory=lambda: blake2b(digest_size=12))
    _ids: set[str] = field(default_factory=set)
    _waiting: list[tuple[str, str]] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        """A name for exactly what has been said so far."""
        return self._hash.hexdigest()

    def begin(self, before: Iterable[bytes]) -> None:
        """What stands before the messages: tools and system prompt."""
        for part in before:
            self._hash.update(part)

    def add(self, message: Message) -> None:
        """The next message of a repaired history."""
        match message.role:
            case Role.ASSISTANT:
                self._reply(message)
            case Role.TOOL:
                self._result(message)
            case _:
                self._say("user", [_text(message.text)])

    def end(self) -> None:
        """A conversation that waits for an answer ends with the user."""
        if not self.messages or self.messages[-1].role == "assistant":
            self._say("user", [_text(GO_ON if self.messages else EARLIER)])

    def _say(self, role: str, blocks: Sequence[Block]) -> None:
        if not self.messages and role == "assistant":
            self._say("user", [_text(EARLIER)])
        if not self.messages or self.messages[-1].role != role:
            self.messages.append(Said(role))
        for block in blocks:
            encoded = encode(block)
            self._hash.update(role.encode() + encoded)
            self.messages[-1].blocks.append(block)
            self.messages[-1].encoded.append(encoded)

    def _reply(self, message: Message) -> None:
        ids = [self._id(call) for call in message.calls]
        self._waiting = [(call.provider_id, given) for call, given in zip(message.calls, ids, strict=True)]
        own = self.owner.content(message, self.prefix)
        if own is not None:
            self._say("assistant", _with_ids(own, ids))
            return
        uses = [_use(call, given) for call, given in zip(message.calls, ids, strict=True)]
        spoken = [_text(message.text)] if message.text.strip() or not uses else []
        self._say("assistant", [*spoken, *uses])

    def _result(self, message: Message) -> None:
        given = next((pair for pair in self._waiting if pair[0] == message.provider_id), None)
        if given is None:
            return
        self._waiting.remove(given)
        block: Block = {"type": "tool_result", "tool_use_id": given[1]}
        if message.text.strip():
            block["content"] = message.text
        self._say("user", [block | {"is_error": True} if message.is_error else block])

    def _id(self, call: ToolCall) -> str:
        """The call's own, if the API takes it and no other call has it; else one by its place, the same at every request."""
        given = call.provider_id
        if not ID.fullmatch(given) or given in self._ids:
            given = next(name for n in count(len(self._ids)) if (name := f"call_{n}") not in self._ids)
        self._ids.add(given)
        return given


def call_names(history: Iterable[Message]) -> list[str]:
    """Names of all tools that were ever called in it."""
    return list(dict.fromkeys(_name(call.name) for message in history for call in message.calls))


def _text(text: str) -> Block:
    return {"type": "text", "text": text if text.strip() else BLANK}


def _use(call: ToolCall, given: str) -> Block:
    return {"type": "tool_use", "id": given, "name": _name(call.name), "input": arguments(call.arguments)}


def _with_ids(content: Sequence[Block], ids: Sequence[str]) -> list[Block]:
    left = iter(ids)
    return [block | {"id": next(left)} if block.get("type") == "tool_use" else block for block in content]


def _name(name: str) -> str:
    """A name from another model's imagination is still sent where only names of tools are taken."""
    return NOT_IN_A_NAME.sub("_", name)[:64] or "unnamed"


def arguments(written: str) -> dict[str, object]:
    """As the model wrote them, unless that is no JSON object: the API takes nothing else."""
    try:
        found: object = json.loads(written)
        json.dumps(found, allow_nan=False)  # Python reads NaN and 1e999, and would write what is no JSON
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    return {"invalid": written} if written.strip() else {}
