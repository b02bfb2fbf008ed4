"""Any server that speaks OpenAI's chat completions."""

import json
from dataclasses import dataclass, field

from yarl import URL

from daemon.core.errors import ErrorClass
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolSpec
from daemon.providers.base import (
    Json,
    ReplyBuilder,
    encode_body,
    get_count,
    get_object,
    get_text,
    list_objects,
    make_valid_arguments,
)
from daemon.providers.errors import make_object_error
from daemon.providers.http import HttpProvider

FILTERED = {"content_filter": (ErrorClass.BAD_REQUEST, "its filter withholds the answer")}
# Where servers differ: their names of `max_tokens` and `seed`.
NAMES = {
    "api.openai.com": ("max_completion_tokens", "seed"),
    "openai.azure.com": ("max_completion_tokens", "seed"),
    "api.mistral.ai": ("max_tokens", "random_seed"),
}


@dataclass(slots=True)
class _CallParts:
    """A tool call that comes in pieces."""

    id: str
    name: str
    arguments: str = ""


@dataclass(slots=True)
class ChatReplyBuilder(ReplyBuilder):
    """Reads chat completions and their chunks."""

    what = "a chat completion"
    ends_with_marker = True
    withheld = FILTERED

    _calls: list[_CallParts] = field(default_factory=list)
    _by_index: dict[object, _CallParts] = field(default_factory=dict)

    def read(self, fields: Json) -> str:
        if fields.get("error"):
            raise make_object_error(fields["error"])
        if used := get_object(fields, "usage"):
            cached = get_count(get_object(used, "prompt_tokens_details"), "cached_tokens")
            cached = cached or get_count(used, "prompt_cache_hit_tokens")  # DeepSeek's name for it
            sent, received = get_count(used, "prompt_tokens"), get_count(used, "completion_tokens")
            self.counts = [*map(max, self.counts, (sent, received, cached))]
        choice = next(iter(list_objects(fields.get("choices"))), {})
        self.finish = get_text(choice, "finish_reason") or self.finish
        if choice.get("error") or self.finish == "error":
            raise make_object_error(choice.get("error") or "the server broke off with an error")
        whole = get_object(choice, "message")
        message = whole or get_object(choice, "delta")
        for position, call in enumerate(list_objects(message.get("tool_calls"))):
            self._add_call(call, position if whole else call.get("index"))
        parts = [get_text(part, "text") for part in list_objects(message.get("content"))]
        text = "".join(parts) or get_text(message, "refusal")
        self.text.append(text)
        return text

    def _add_call(self, call: Json, index: object) -> None:
        """Servers number the pieces, or not, or all with 0: a new id and name begin a new call."""
        function, call_id = get_object(call, "function"), get_text(call, "id")
        name, arguments = get_text(function, "name"), function.get("arguments") or ""
        last = self._calls[-1] if self._calls else None
        parts = last if index is None else self._by_index.get(index)
        if parts is None or (call_id and name and call_id != parts.id):
            parts = _CallParts(call_id, name)
            self._calls.append(parts)
            self._by_index[len(self._calls) - 1 if index is None else index] = parts
        parts.name = parts.name or name
        parts.id = parts.id or call_id
        parts.arguments += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def _list_calls(self) -> list[tuple[str, str, str]]:
        return [(call.id, call.name, call.arguments) for call in self._calls]


class OpenAI(HttpProvider):
    """Chat completions."""

    kind = "openai"
    path = "/chat/completions"

    def prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[URL, bytes, ReplyBuilder]:
        """Model, tools and messages first, what varies from call to call last."""
        host = self.url.host or ""
        domain = host.partition(".")[2] if host.endswith(".openai.azure.com") else host
        max_tokens, seed = NAMES.get(domain, ("max_tokens", "seed"))
        body: Json = {
            "model": model,
            "tools": self.cache.encode(request.tools, _tool_json),
            "messages": self.cache.encode(request.messages, _message_json),
            "tool_choice": "none" if request.tools and not request.tools_allowed else None,
            max_tokens: request.max_tokens or None,
            "reasoning_effort": "high" if request.effort == "max" else request.effort,
            seed: request.seed,
            "stream": stream or None,
            "stream_options": {"include_usage": True} if stream else None,
        }
        return self.url, encode_body(body), ChatReplyBuilder()


def _tool_json(tool: ToolSpec) -> Json:
    described = {"name": tool.name, "description": tool.description}
    return {"type": "function", "function": {**described, "parameters": tool.parameters}}


def _message_json(message: Message) -> Json:
    match message.role:
        case MessageRole.TOOL:
            answered: Json = {"role": "tool", "tool_call_id": message.provider_id}
            return {**answered, "content": message.text}
        case MessageRole.ASSISTANT if message.calls:
            calls: list[Json] = []
            for call in message.calls:
                function = {"name": call.name, "arguments": make_valid_arguments(call.arguments)}
                calls.append({"id": call.provider_id, "type": "function", "function": function})
            return {"role": "assistant", "content": message.text or None, "tool_calls": calls}
        case _:
            return {"role": message.role.value, "content": message.text}
