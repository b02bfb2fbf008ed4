"""Any server that speaks OpenAI's chat completions."""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from yarl import URL

from daemon.core.errors import ErrorClass
from daemon.core.messages import (
    Message,
    MessageRole,
    ModelRequest,
    Native,
    Picture,
    ToolCall,
    ToolSpec,
)
from daemon.providers.base import (
    ReplyBuilder,
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
    Json,
    assign_ids,
    fold_schema,
    is_from,
    make_valid_arguments,
    make_valid_name,
    render_error,
)

WITHHELD = ErrorClass.FILTERED, "its filter withholds the answer"
FILTERED = {"content_filter": WITHHELD, "sensitive": WITHHELD}
# What the model thought, and what signs it: servers refuse a history without what they sent.
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details", "extra_content")
OWN_ID = re.compile(r"[!-~]{1,64}")  # Kimi wants its own back, such as functions.read_file:0
PIECES = ("text", "summary")
CALL_KEYS = ("id", "type", "function", "index", "name", "arguments")
THOUGHT_PARTS = ("thinking", "reasoning", "reasoning_text", "thought")
FRAME = ("id", "object", "created", "model", "usage", "choices")
# The server's own trouble, as DeepSeek, Zhipu and vLLM tell it: what came is not the whole answer.
BROKEN_OFF = ("error", "insufficient_system_resource", "network_error", "abort")
# Where servers differ: their names of `max_tokens` and `seed`.
NAMES = {
    "api.openai.com": ("max_completion_tokens", "seed"),
    "openai.azure.com": ("max_completion_tokens", "seed"),
    "api.mistral.ai": ("max_tokens", "random_seed"),
}


@dataclass(slots=True)
class _CallParts:
    """A tool call that comes in pieces; `extra` is what goes back with it unchanged."""

    id: str
    name: str
    arguments: str = ""
    extra: Json = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Its arguments are a whole JSON object."""
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False


@dataclass(slots=True)
class ChatReplyBuilder(ReplyBuilder):
    """Reads chat completions and their chunks."""

    what = "a chat completion"
    ends_with_marker = True
    withheld = FILTERED

    _instead: Json = field(default_factory=dict)
    _in_pieces: bool = False
    _thoughts: Json = field(default_factory=dict)
    _pieces: dict[str, list[str]] = field(default_factory=dict)
    _calls: list[_CallParts] = field(default_factory=list)
    _by_index: dict[object, _CallParts] = field(default_factory=dict)

    def read(self, fields: Json) -> str:
        if fields.get("error") or fields.get("object") == "error":  # vLLM's is the whole object
            raise make_object_error(fields.get("error") or fields)
        known, choices = {call.id for call in self._calls}, list_objects(fields.get("choices"))
        # Groq's place for it, and Moonshot's; what is thought stands in the total only for some.
        for table in (fields, get_object(fields, "x_groq"), *choices):
            if used := get_object(table, "usage"):
                sent = get_count(used, "prompt_tokens") or get_count(used, "input_tokens")
                given = get_count(used, "completion_tokens") or get_count(used, "output_tokens")
                if sent and given:
                    given = max(given, get_count(used, "total_tokens") - sent)
                cached = get_count(get_object(used, "prompt_tokens_details"), "cached_tokens")
                cached = cached or get_count(used, "cached_tokens")
                cached = cached or get_count(used, "prompt_cache_hit_tokens")  # DeepSeek's name
                self.counts = [*map(max, self.counts, (sent, given, cached))]
        # Nobody asks for a second choice: where one comes, it goes on with the first.
        texts = [self._read_choice(choice, known) for choice in choices]
        text = next(filter(None, texts), "")
        self.text.append(text)
        others = {key: one for key, one in fields.items() if one and key not in FRAME}
        if others and not choices:  # it says why there is no answer
            self.detail = json.dumps(others, ensure_ascii=False)
            self._instead = others
        return text

    def _read_choice(self, choice: Json, known: Collection[str]) -> str:
        """Its text. A whole message behind pieces repeats them, as do calls with a `known` id."""
        self.finish = get_text(choice, "finish_reason") or self.finish
        if choice.get("error") or self.finish in BROKEN_OFF:
            raise make_object_error(choice.get("error") or f"the server broke off: {self.finish}")
        whole, delta = get_object(choice, "message"), get_object(choice, "delta")
        has_piece = any(piece for key, piece in delta.items() if key != "role")
        self._in_pieces = self._in_pieces or has_piece
        message = delta if has_piece or not whole else whole
        if not message and "text" in choice and "type" not in choice:  # of the older kind
            message = {"content": choice["text"]}
        first, older = len(self._calls), get_object(message, "function_call")
        given = list_objects(message.get("tool_calls")) or [{"function": older}] * bool(older)
        for position, call in enumerate(given, first):
            if message is delta:
                self._add_call(call, call.get("index"))
            elif not (self._in_pieces and get_text(call, "id") in known):
                self._add_call(call, position)
        if message is whole and self._in_pieces:
            return ""
        for key in THOUGHTS:
            if isinstance(piece := message.get(key), str):
                self._pieces.setdefault(key, []).append(piece)
            elif piece is not None:
                self._thoughts[key] = _join(self._thoughts.get(key), piece)
        parts = list_objects(message.get("content"))
        said = [get_text(one, "text") for one in parts if one.get("type") not in THOUGHT_PARTS]
        return "".join(said) or get_text(message, "refusal")

    def _add_call(self, call: Json, index: object) -> None:
        """Servers number the pieces, or not, or all with 0, and some give all calls one id: a new
        id begins a new call, and so does a name behind arguments that are complete.
        """
        function, call_id = get_object(call, "function") or call, get_text(call, "id")
        name, arguments = get_text(function, "name"), function.get("arguments") or ""
        last = self._calls[-1] if self._calls else None
        parts = last if index is None else self._by_index.get(index)
        if call_id and not name:  # it goes on with the call of its id, whatever its number
            parts = next((one for one in self._calls if one.id == call_id), parts)
        if parts and index is None and name != parts.name and name and parts.name:
            parts = None  # a call without arguments stood before it
        if parts is None or (name and ((call_id and call_id != parts.id) or parts.is_complete)):
            parts = _CallParts(call_id, name)
            self._calls.append(parts)
            self._by_index[len(self._calls) - 1 if index is None else index] = parts
        if name and not (call_id or parts.arguments) and name != parts.name:
            # it comes in pieces, or each time as far as it is known
            parts.name = name if name.startswith(parts.name) else parts.name + name
        parts.name = parts.name or name
        parts.id = parts.id or call_id
        parts.arguments += arguments if isinstance(arguments, str) else json.dumps(arguments)
        for key, piece in call.items():
            if key not in CALL_KEYS and piece is not None:
                parts.extra[key] = _join(parts.extra.get(key), piece)

    def _list_calls(self) -> list[tuple[str, str, str]]:
        return [(call.id, call.name, call.arguments) for call in self._calls]

    def _make_error(self, kind: ErrorClass, what: str) -> CallFailed:
        """What the server says in place of an answer."""
        told = make_object_error(self._instead)
        return told if str(told).strip() else ReplyBuilder._make_error(self, kind, what)

    def _get_thought(self) -> str:
        return next(("".join(pieces) for pieces in self._pieces.values()), "")

    def _make_native(self, calls: Sequence[ToolCall], raw: str, text: str) -> Native | None:
        """What a message has no place for."""
        extras = [call.extra for call in self._calls]
        written = {key: "".join(pieces) for key, pieces in self._pieces.items()}
        message = self._thoughts | written | ({"content": raw} if raw != text else {})
        if not message and not any(extras):
            return None
        return make_native({"message": message, "calls": extras})


def _join(before: object, piece: object) -> object:
    """Texts go on, objects get more members, and lists more items; one of the same index and type
    goes on with the last.
    """
    match before, piece:
        case str(), str():
            return before + piece
        case dict(), dict():
            return {**before, **piece}
        case list(), list():
            joined: list[object] = [*before]
            for one in piece:
                last = joined[-1] if joined else None
                if isinstance(last, dict) and isinstance(one, dict) and _goes_on(last, one):
                    joined[-1] = {
                        **last,
                        **one,
                        **{
                            key: last[key] + one[key]
                            for key in PIECES
                            if isinstance(last.get(key), str) and isinstance(one.get(key), str)
                        },
                    }
                else:
                    joined.append(one)
            return joined
        case _:
            return piece


def _goes_on(last: Json, piece: Json) -> bool:
    return "index" in piece and all(last.get(key) == piece.get(key) for key in ("index", "type"))


class OpenAI(HttpProvider):
    """Chat completions."""

    kind = "openai"
    path = "/chat/completions"
    rejects_native = re.compile(r"reasoning|extra_content|thought|signature", re.IGNORECASE)

    def prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[URL, Json, ReplyBuilder]:
        """Model, tools and messages first, what varies from call to call last."""
        host = self.url.host or ""
        domain = host.partition(".")[2] if host.endswith(".openai.azure.com") else host
        max_tokens, seed = NAMES.get(domain, ("max_tokens", "seed"))
        owner = self.name, model
        messages = [
            (message, (ids, bool(message.native) and is_from(message.native, owner)))
            for message, ids in assign_ids(request.messages, OWN_ID)
        ]
        body: Json = {
            "model": model,
            "tools": self.cache.encode(request.tools, _tool_json),
            "messages": self.cache.encode_variants(messages, _message_json),
            "tool_choice": "none" if request.tools and not request.tools_allowed else None,
            max_tokens: request.max_tokens or None,
            "reasoning_effort": "high" if request.effort == "max" else request.effort,
            seed: request.seed,
            "stream": stream or None,
            "stream_options": {"include_usage": True} if stream else None,
        }
        return self.url, body, ChatReplyBuilder()


def _tool_json(tool: ToolSpec) -> Json:
    described = {"name": tool.name, "description": tool.description}
    parameters = fold_schema(tool.parameters)
    return {"type": "function", "function": {**described, "parameters": parameters}}


def _add_pictures(text: str, pictures: Sequence[Picture]) -> list[Json]:
    urls = [{"url": f"data:{one.mime};base64,{one.data}"} for one in pictures]
    shown: list[Json] = [{"type": "image_url", "image_url": url} for url in urls]
    return [{"type": "text", "text": text}, *shown]


def _message_json(message: Message, variant: tuple[tuple[str, ...], bool]) -> Json:
    """The message with these ids; with what the provider itself has sent for it, if it is its
    own.
    """
    ids, is_own = variant
    text = render_error(message) if message.is_error else message.text
    text = text if text.strip() else EMPTY_TEXT
    if message.role is MessageRole.TOOL:
        return {"role": "tool", "tool_call_id": ids[0], "content": text}
    if message.role is not MessageRole.ASSISTANT:
        content = _add_pictures(text, message.pictures) if message.pictures else text
        return {"role": message.role.value, "content": content}
    native = json.loads(message.native.blocks) if is_own and message.native else {}
    extras = native.get("calls", [])
    said: Json = {"role": "assistant", "content": text}
    if message.calls:
        extras = extras if len(extras) == len(message.calls) else [{}] * len(message.calls)
        calls: list[Json] = []
        for call_id, call, extra in zip(ids, message.calls, extras, strict=True):
            arguments = make_valid_arguments(call.arguments)
            function = {"name": make_valid_name(call.name), "arguments": arguments}
            calls.append({"id": call_id, "type": "function", "function": function, **extra})
        said |= {"content": message.text or None, "tool_calls": calls}
    return said | native.get("message", {})
