"""What OpenAI's Responses answer, whole or event by event, as a ModelReply.

OpenAI's Responses, and servers that speak it: what a model thought comes back to it in the next call.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Unpack

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelReply, ModelRequest, Native, ToolCall, Usage
from daemon.providers import http as reading
from daemon.providers.base import Count, DictOrNone, TextCallback, estimate_usage, make_native
from daemon.providers.errors import CallFailed, make_object_error
from daemon.providers.http import (
    BOM,
    MAX_RESPONSE_BYTES,
    make_malformed_error,
    make_too_long_error,
    parse_json,
)
from daemon.providers.http_provider import ConnectionOptions, HttpProvider
from daemon.providers.openai import DONE_MARKER, OWN_HOST
from daemon.providers.openai_request import ToolListCache
from daemon.providers.responses_request import encode_request, encode_tools

WHAT = "a response"
PARAGRAPH_BREAK = "\n\n"
END_EVENTS = ("response.completed", "response.incomplete", "response.failed")
TEXT_EVENTS = ("response.output_text.delta", "response.refusal.delta")


class _Wire(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)


class _Part(_Wire):
    text: str | None = None
    refusal: str | None = None


class _Item(_Wire):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Part] | None = None
    encrypted_content: str | None = None
    phase: str | None = None

    def get_text(self) -> str:
        """A refusal is an answer too."""
        return (
            "".join(part.text or part.refusal or "" for part in self.content or ())
            if self.type == "message"
            else ""
        )


class _Details(_Wire):
    cached_tokens: Count = 0


class _Usage(_Wire):
    input_tokens: Count = 0
    output_tokens: Count = 0
    input_tokens_details: Annotated[_Details | None, DictOrNone] = None

    def to_usage(self) -> Usage:
        """Reasoning is part of the output, what was cached of the input."""
        return Usage(
            self.input_tokens,
            self.output_tokens,
            (self.input_tokens_details or _Details()).cached_tokens,
        )


class _Reason(_Wire):
    reason: str | None = None


class _Response(_Wire):
    status: str | None = None
    output: list[dict[str, object]] | None = None
    error: object = None
    incomplete_details: Annotated[_Reason | None, DictOrNone] = None
    usage: Annotated[_Usage | None, DictOrNone] = None


def _text_or_none(value: object) -> object:
    """Events that we do not know may carry anything."""
    return value if isinstance(value, str) else None


class _Event(_Wire):
    type: str = ""
    output_index: int = 0
    delta: Annotated[str | None, BeforeValidator(_text_or_none)] = None
    item: Annotated[dict[str, object] | None, DictOrNone] = None
    response: Annotated[_Response | None, DictOrNone] = None


@dataclass(slots=True)
class _Output:
    """One item of the answer: as it was announced and written on, then as it was when it was done."""

    raw: dict[str, object] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    done: bool = False

    def to_item(self) -> _Item:
        """Its last form; a server that never says that it is done has said all the same what is in it."""
        item = _Item.model_validate(self.raw)
        return (
            item
            if self.done
            else item.model_copy(update={"arguments": "".join(self.arguments) or item.arguments})
        )


@dataclass(slots=True)
class ResponsesReplyBuilder:
    """A reply under construction: of many events, or of one response that is the whole."""

    outputs: dict[int, _Output] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    finish: str = ""
    usage: Usage | None = None
    _speaking: int | None = None
    _received: int = 0

    def feed(self, received: str | bytes) -> str:
        """Take in one event; gives the text that it adds. Raises Fault."""
        self._received += len(received)
        if self._received > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
        event = parse_json(_Event, received, WHAT)
        if event.type == "error":
            raise make_object_error(_find_error(received))
        if event.type in END_EVENTS:
            return self._finish(event.response or _Response())
        if event.item is None and event.delta is None:
            return ""
        output = self.outputs.setdefault(event.output_index, _Output())
        if event.item is not None:
            output.raw, output.done = event.item, event.type == "response.output_item.done"
            return self._add_missing_text(event.output_index) if output.done else ""
        if event.type == "response.function_call_arguments.delta":
            output.arguments.append(event.delta or "")
        return (
            self._add_text(event.output_index, event.delta or "")
            if event.type in TEXT_EVENTS
            else ""
        )

    def feed_response(self, received: bytes) -> str:
        """Take in a response that came in one piece; gives its text."""
        return self._finish(parse_json(_Response, received, WHAT))

    def _finish(self, response: _Response) -> str:
        if response.error or response.status in ("failed", "cancelled"):
            raise make_object_error(response.error or f"the response is {response.status}")
        if response.usage and (used := response.usage.to_usage()) != Usage():
            self.usage = used
        reason = response.incomplete_details.reason if response.incomplete_details else None
        self.finish = reason or response.status or "completed"
        if not any(output.done for output in self.outputs.values()):
            listed = enumerate(response.output or ())
            self.outputs.update(
                {index: _Output(raw, self._get_spoken(index), done=True) for index, raw in listed}
            )
        return "".join([self._add_missing_text(index) for index in sorted(self.outputs)])

    def _get_spoken(self, index: int) -> list[str]:
        return self.outputs[index].text if index in self.outputs else []

    def _add_text(self, index: int, words: str) -> str:
        """Two messages in one answer are two paragraphs."""
        if not words:
            return ""
        gap = PARAGRAPH_BREAK if self.text and self._speaking != index else ""
        self._speaking = index
        self.outputs[index].text.append(words)
        self.text.append(gap + words)
        return gap + words

    def _add_missing_text(self, index: int) -> str:
        """What an item says that no piece has told."""
        output = self.outputs[index]
        return (
            ""
            if output.text or not output.done
            else self._add_text(index, _parse_item(output).get_text())
        )

    def build(self, request: ModelRequest) -> ModelReply:
        """The whole of it. Raises Fault when there is nothing in it."""
        text = "".join(self.text)
        outputs = [self.outputs[index] for index in sorted(self.outputs)]
        asked = [item for item in map(_parse_item, outputs) if item.type == "function_call"]
        if not text.strip() and not asked:
            withheld = self.finish == "content_filter"
            why = f" ({self.finish})" if self.finish != "completed" else ""
            kind = ErrorClass.BAD_REQUEST if withheld else ErrorClass.MALFORMED
            raise CallFailed(
                kind, ("its filter withholds the answer" if withheld else "an empty reply") + why
            )
        if any(not item.name for item in asked):
            raise CallFailed(ErrorClass.MALFORMED, "a tool call without a name")
        calls = tuple(_make_calls(asked))
        usage = self.usage or estimate_usage(request, text, calls)
        return ModelReply(
            text=text, calls=calls, usage=usage, finish=self.finish, native=_make_native(outputs)
        )


def parse_reply(body: bytes, request: ModelRequest) -> ModelReply:
    """A reply that came in one piece. `request` is only for guessing the usage where none is told."""
    draft = ResponsesReplyBuilder()
    draft.feed_response(body.removeprefix(BOM))
    return draft.build(request)


def _parse_item(output: _Output) -> _Item:
    try:
        return output.to_item()
    except ValidationError as error:
        raise make_malformed_error("an output item", json.dumps(output.raw)) from error


def _find_error(received: str | bytes) -> object:
    """The error stands in the event, or is the event."""
    event: dict[str, object] = json.loads(received)
    return event.get("error") or {name: value for name, value in event.items() if name != "type"}


def _make_native(outputs: list[_Output]) -> Native | None:
    """The items as they came, if there is more in them than a message can hold, and the server would take them back."""
    items = [_parse_item(output) for output in outputs]
    thoughts = [item for item in items if item.type == "reasoning"]
    if not thoughts and not any(item.phase for item in items):
        return None
    sound = all(thought.encrypted_content for thought in thoughts) and items[-1].type != "reasoning"
    if not sound or not all(output.done for output in outputs):
        return None
    return make_native([output.raw for output in outputs])


def _make_calls(asked: list[_Item]) -> Iterator[ToolCall]:
    """Ids are echoed, so each call of a reply needs one, and one of its own."""
    used: set[str] = set()
    for index, item in enumerate(asked):
        wanted = item.call_id or item.id or ""
        provider_id = wanted if wanted and wanted not in used else f"{wanted or 'call'}_{index}"
        used.add(provider_id)
        yield ToolCall(provider_id, item.name or "", item.arguments or "")


BAD_NATIVE = re.compile(r"encrypted.content|\bitem\b.*(not found|required)", re.IGNORECASE)


class Responses(HttpProvider):
    """A provider. Thoughts that another key has encrypted are not taken back."""

    kind = "openai"
    own_host = OWN_HOST
    path = "/responses"

    def __init__(self, **connection: Unpack[ConnectionOptions]) -> None:
        super().__init__(**connection)
        self._tools = ToolListCache(encode_tools)

    def _is_native_rejected(self, fault: CallFailed) -> bool:
        wrong = fault.kind in (ErrorClass.BAD_REQUEST, ErrorClass.NOT_FOUND)
        return wrong and BAD_NATIVE.search(fault.detail) is not None

    async def _send(
        self, model: str, request: ModelRequest, on_text: TextCallback | None
    ) -> ModelReply:
        body = encode_request(self.name, model, request, on_text is not None, tools=self._tools)
        async with self._transport.post(body) as response:
            return await reading.read_reply(
                response,
                on_text,
                partial(parse_reply, request=request),
                partial(_read_stream, request),
            )


async def _read_stream(
    request: ModelRequest, data: AsyncGenerator[str], show: TextCallback
) -> ModelReply:
    draft = ResponsesReplyBuilder()
    async for received in data:
        if received != DONE_MARKER and (text := draft.feed(received)):
            show(text)
        if draft.finish:
            return draft.build(request)
    raise CallFailed(ErrorClass.NETWORK, "the answer was cut off")
