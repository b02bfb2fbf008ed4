"""OpenAI's Responses, and servers that speak it: a model's reasoning goes back in the next call."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from yarl import URL

from daemon.core.messages import (
    Message,
    MessageRole,
    ModelRequest,
    Native,
    Picture,
    ToolCall,
    ToolSpec,
    drop_lone_surrogates,
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
from daemon.providers.errors import make_object_error
from daemon.providers.http import HttpProvider
from daemon.providers.openai import FILTERED
from daemon.providers.rules import (
    EMPTY_TEXT,
    MISSING_START,
    Json,
    assign_ids,
    fold_schema,
    is_from,
    make_valid_arguments,
    make_valid_name,
    render_error,
    split_instructions,
)

PARAGRAPH_BREAK = "\n\n"
END_EVENTS = ("response.completed", "response.incomplete", "response.failed")
TEXT_EVENTS = ("response.output_text.delta", "response.refusal.delta")
ENCRYPTED_REASONING = "reasoning.encrypted_content"
MIN_TOKENS = 16
NON_REASONING = re.compile(r"(ft:)?(gpt-[34]|chatgpt-4)")
VERSION = re.compile(r"gpt-(\d+)\.(\d+)")
FIRST_XHIGH = (5, 2)


@dataclass(slots=True)
class _Output:
    """One item of the answer: announced, continued by pieces, then as it is when it is done."""

    raw: Json = field(default_factory=dict)
    has_text: bool = False
    arguments: str = ""
    done: bool = False


@dataclass(slots=True)
class ResponsesReplyBuilder(ReplyBuilder):
    """Reads responses and their events."""

    what = "a response"
    withheld = FILTERED

    _outputs: dict[int, _Output] = field(default_factory=dict)
    _speaking: int | None = None

    def read(self, fields: Json) -> str:
        kind = fields.get("type")
        if kind == "error":  # the error stands in the event, or is the event
            del fields["type"]
            raise make_object_error(fields.get("error") or fields)
        if kind is None or kind in END_EVENTS:
            return self._finish(get_object(fields, "response") if kind else fields)
        index, delta = fields.get("output_index"), fields.get("delta")
        item = get_object(fields, "item")
        delta = delta if isinstance(delta, str) else ""
        if not (item or delta):
            return ""
        index = index if isinstance(index, int) else self._find_index(item)
        output = self._outputs.setdefault(index, _Output())
        if item:
            output.raw, output.done = item, kind == "response.output_item.done"
            return self._add_missing_text(index) if output.done else ""
        if kind == "response.function_call_arguments.delta":
            output.arguments += delta
        return self._add_text(index, delta) if kind in TEXT_EVENTS else ""

    def _find_index(self, item: Json) -> int:
        """The place of an item where its server gives it no number: another id is another item."""
        last = max(self._outputs, default=0)
        former = self._outputs[last].raw if self._outputs else {}
        ids = [(one.get("id"), one.get("call_id"), one.get("type")) for one in (former, item)]
        return last + (bool(former and item) and ids[0] != ids[1])

    def _finish(self, response: Json) -> str:
        status = get_text(response, "status")
        if response.get("error") or status in ("failed", "cancelled"):
            raise make_object_error(response.get("error") or f"the response is {status}")
        used = get_object(response, "usage")
        cached = get_count(get_object(used, "input_tokens_details"), "cached_tokens")
        self.counts = [get_count(used, "input_tokens"), get_count(used, "output_tokens"), cached]
        reason = get_text(get_object(response, "incomplete_details"), "reason")
        self.finish = reason or status or "completed"
        self.has_ended = True
        if not any(output.done for output in self._outputs.values()):
            for index, raw in enumerate(list_objects(response.get("output"))):
                output = self._outputs.setdefault(index, _Output())
                output.raw, output.done = raw, True
        return "".join([self._add_missing_text(index) for index in sorted(self._outputs)])

    def _add_text(self, index: int, text: str) -> str:
        """Two messages in one answer are two paragraphs."""
        if text and self.text and self._speaking != index:
            text = PARAGRAPH_BREAK + text
        if text:
            self._speaking, self._outputs[index].has_text = index, True
            self.text.append(text)
        return text

    def _add_missing_text(self, index: int) -> str:
        """The text of an item, where no piece has brought it. A refusal is an answer too."""
        output = self._outputs[index]
        if output.has_text or not output.done or output.raw.get("type") != "message":
            return ""
        parts = list_objects(output.raw.get("content"))
        return self._add_text(index, "".join(get_text(part, "text", "refusal") for part in parts))

    def _list_outputs(self) -> list[_Output]:
        return [self._outputs[index] for index in sorted(self._outputs)]

    def _list_calls(self) -> list[tuple[str, str, str]]:
        """Some servers never say that an item is done: then the pieces of its arguments count."""
        return [
            (
                get_text(one.raw, "call_id", "id"),
                get_text(one.raw, "name"),
                (not one.done and one.arguments) or _write_arguments(one.raw.get("arguments")),
            )
            for one in self._list_outputs()
            if one.raw.get("type") == "function_call"
        ]

    def _make_native(self, calls: Sequence[ToolCall], raw: str, text: str) -> Native | None:
        """The items as they came, if a message cannot hold them and the server takes them back."""
        outputs = self._list_outputs()
        items = [output.raw for output in outputs]
        thoughts = [item for item in items if item.get("type") == "reasoning"]
        is_plain = not thoughts and not any(item.get("phase") for item in items)
        sealed = all(thought.get("encrypted_content") for thought in thoughts)
        complete = sealed and all(output.done for output in outputs)
        if is_plain or not complete or items[-1].get("type") == "reasoning":
            return None
        return make_native(items)


def _write_arguments(given: object) -> str:
    return given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)


class Responses(HttpProvider):
    """The Responses API. It refuses reasoning that another key has encrypted."""

    kind = "openai"
    path = "/responses"
    rejects_native = re.compile(r"encrypted.content|\bitem\b.*(not found|required)", re.IGNORECASE)

    def prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[URL, Json, ReplyBuilder]:
        """Model, instructions, tools and input first, what varies last.

        The server stores nothing: reasoning comes to us encrypted, and goes back.
        """
        instructions, messages = split_instructions(request.messages)
        items = list(_encode_input(self.name, model, messages))
        reasons, effort = not NON_REASONING.match(model), request.effort
        if effort == "max":  # E13: more than high is there from GPT-5.2 on
            version = VERSION.match(model)
            newer = version and (int(version[1]), int(version[2])) >= FIRST_XHIGH
            effort = "xhigh" if newer else "high"
        body: Json = {
            "model": model,
            "instructions": PARAGRAPH_BREAK.join(m.text for m in instructions) or None,
            "tools": self.cache.encode(request.tools, _tool_json),
            "input": encode_list(items or [_encode_message("user", MISSING_START)]),
            "store": False,
            "include": [ENCRYPTED_REASONING] if reasons else None,
            "tool_choice": "none" if request.tools and not request.tools_allowed else None,
            "max_output_tokens": max(request.max_tokens, MIN_TOKENS)
            if request.max_tokens
            else None,
            "reasoning": {"effort": effort} if effort and reasons else None,
            "stream": stream or None,
        }
        return self.url, body, ResponsesReplyBuilder()


def _tool_json(tool: ToolSpec) -> Json:
    """Strict, which is the default here, would refuse a schema with an optional argument."""
    described = {"name": tool.name, "description": tool.description}
    parameters = fold_schema(tool.parameters)
    return {"type": "function", **described, "parameters": parameters, "strict": False}


def _encode_input(provider: str, model: str, messages: Sequence[Message]) -> Iterator[bytes]:
    """The input. An item's id stands in it once."""
    used = set[str]()
    for message, ids in assign_ids(messages):
        match message.role:
            case MessageRole.TOOL:
                answer = {"type": "function_call_output", "call_id": ids[0]}
                yield encode_json({**answer, "output": render_error(message)})
            case MessageRole.ASSISTANT:
                yield from _encode_own(message.native, ids, used, (provider, model)) or (
                    _encode_reply(message, ids)
                )
            case MessageRole.SYSTEM:
                yield _encode_message("developer", message.text)
            case _:
                yield _encode_message("user", message.text, message.pictures)


def _encode_own(
    native: Native | None, ids: Sequence[str], used: set[str], owner: tuple[str, str]
) -> list[bytes]:
    """The reply as it came, if it comes from here with these calls, and none of its items was sent
    before.
    """
    if not is_from(native, owner):
        return []
    items: list[Json] = json.loads(native.blocks)
    calls = [str(item.get("call_id")) for item in items if item.get("type") == "function_call"]
    names = [str(item["id"]) for item in items if "id" in item]
    if calls != [*ids] or len({*names} - used) != len(names):
        return []
    used.update(names)
    return [drop_lone_surrogates(native.blocks.strip()[1:-1]).encode()]


def _encode_reply(message: Message, ids: Sequence[str]) -> Iterator[bytes]:
    if message.text.strip() or not message.calls:
        yield _encode_message("assistant", message.text)
    for call_id, call in zip(ids, message.calls, strict=True):
        item = {"type": "function_call", "call_id": call_id, "name": make_valid_name(call.name)}
        yield encode_json({**item, "arguments": make_valid_arguments(call.arguments)})


def _encode_message(role: str, text: str, pictures: Sequence[Picture] = ()) -> bytes:
    text = text if text.strip() else EMPTY_TEXT
    if not pictures:
        return encode_json({"role": role, "content": text})
    urls = [f"data:{one.mime};base64,{one.data}" for one in pictures]
    shown = [{"type": "input_image", "image_url": url} for url in urls]
    return encode_json({"role": role, "content": [{"type": "input_text", "text": text}, *shown]})
