"""OpenAI's Responses, and servers that speak it: a model's reasoning goes back in the next call."""

import json
import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BeforeValidator, ValidationError

from daemon.core.errors import ErrorClass
from daemon.core.messages import ModelRequest, Native, Usage
from daemon.providers.base import (
    DONE_MARKER,
    Count,
    DictOrNone,
    ReplyBuilder,
    WireModel,
    make_malformed_error,
    make_native,
    parse_json,
)
from daemon.providers.errors import CallFailed, make_object_error
from daemon.providers.http_provider import HttpProvider
from daemon.providers.openai import FILTERED
from daemon.providers.responses_request import encode_request

WHAT = "a response"
PARAGRAPH_BREAK = "\n\n"
END_EVENTS = ("response.completed", "response.incomplete", "response.failed")
TEXT_EVENTS = ("response.output_text.delta", "response.refusal.delta")
# Events that we do not know may carry anything.
TextOrNone = BeforeValidator(lambda value: value if isinstance(value, str) else None)


class _Part(WireModel):
    text: str | None = None
    refusal: str | None = None


class _Item(WireModel):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Part] | None = None
    encrypted_content: str | None = None
    phase: str | None = None


class _Details(WireModel):
    cached_tokens: Count = 0


class _Usage(WireModel):
    input_tokens: Count = 0
    output_tokens: Count = 0
    input_tokens_details: Annotated[_Details | None, DictOrNone] = None


class _Reason(WireModel):
    reason: str | None = None


class _Response(WireModel):
    status: str | None = None
    output: list[dict[str, object]] | None = None
    error: object = None
    incomplete_details: Annotated[_Reason | None, DictOrNone] = None
    usage: Annotated[_Usage | None, DictOrNone] = None


class _Event(WireModel):
    type: str = ""
    output_index: int = 0
    delta: Annotated[str | None, TextOrNone] = None
    item: Annotated[dict[str, object] | None, DictOrNone] = None
    response: Annotated[_Response | None, DictOrNone] = None


@dataclass(slots=True)
class _Output:
    """One item of the answer: announced, continued by pieces, then as it is when it is done."""

    raw: dict[str, object] = field(default_factory=dict)
    has_text: bool = False
    arguments: str = ""
    done: bool = False

    def parse(self) -> _Item:
        """Its last form; some servers never say that it is done. Raises CallFailed."""
        try:
            item = _Item.model_validate(self.raw)
        except ValidationError as error:
            raise make_malformed_error("an output item", json.dumps(self.raw)) from error
        if not self.done:
            item.arguments = self.arguments or item.arguments
        return item


@dataclass(slots=True, kw_only=True)
class ResponsesReplyBuilder(ReplyBuilder):
    """Reads responses and their events."""

    _outputs: dict[int, _Output] = field(default_factory=dict)
    _speaking: int | None = None

    def _read(self, received: str | bytes) -> str:
        if received == DONE_MARKER:
            return ""
        event = parse_json(_Event, received, WHAT)
        if event.type == "error":  # the error stands in the event, or is the event
            found: dict[str, object] = json.loads(received)
            del found["type"]
            raise make_object_error(found.get("error") or found)
        if event.type in END_EVENTS:
            return self._finish(event.response or _Response())
        if event.item is None and event.delta is None:
            return ""
        index = event.output_index
        output = self._outputs.setdefault(index, _Output())
        if event.item is not None:
            output.raw, output.done = event.item, event.type == "response.output_item.done"
            return self._add_missing_text(index) if output.done else ""
        if event.type == "response.function_call_arguments.delta":
            output.arguments += event.delta or ""
        return self._add_text(index, event.delta or "") if event.type in TEXT_EVENTS else ""

    def feed_whole(self, body: bytes) -> str:
        """Read a response that came in one piece."""
        return self._finish(parse_json(_Response, body, WHAT))

    def _finish(self, response: _Response) -> str:
        if response.error or response.status in ("failed", "cancelled"):
            raise make_object_error(response.error or f"the response is {response.status}")
        if used := response.usage:
            details = used.input_tokens_details or _Details()
            self._add_usage(Usage(used.input_tokens, used.output_tokens, details.cached_tokens))
        reason = response.incomplete_details.reason if response.incomplete_details else None
        self.finish = reason or response.status or "completed"
        self.has_ended = True
        if not any(output.done for output in self._outputs.values()):
            for index, raw in enumerate(response.output or ()):
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
        if output.has_text or not output.done or (item := output.parse()).type != "message":
            return ""
        parts = item.content or ()
        return self._add_text(index, "".join(part.text or part.refusal or "" for part in parts))

    def _list_items(self) -> list[_Item]:
        return [self._outputs[index].parse() for index in sorted(self._outputs)]

    def _list_calls(self) -> list[tuple[str, str, str]]:
        return [
            (item.call_id or item.id or "", item.name or "", item.arguments or "")
            for item in self._list_items()
            if item.type == "function_call"
        ]

    def _make_empty_error(self) -> CallFailed:
        if self.finish == FILTERED:
            return self._make_error(ErrorClass.BAD_REQUEST, "its filter withholds the answer")
        return super(ResponsesReplyBuilder, self)._make_empty_error()

    def _make_native(self) -> Native | None:
        """The items as they came, if a message cannot hold them and the server takes them back."""
        items, outputs = self._list_items(), self._outputs
        thoughts = [item for item in items if item.type == "reasoning"]
        if not thoughts and not any(item.phase for item in items):
            return None
        complete = all(output.done for output in outputs.values())
        sealed = all(thought.encrypted_content for thought in thoughts)
        if not (complete and sealed) or items[-1].type == "reasoning":
            return None
        return make_native([outputs[index].raw for index in sorted(outputs)])


class Responses(HttpProvider):
    """The Responses API. It refuses reasoning that another key has encrypted."""

    kind = "openai"
    own_host = "api.openai.com"
    path = "/responses"
    rejects_native = re.compile(r"encrypted.content|\bitem\b.*(not found|required)", re.IGNORECASE)

    def _prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[bytes, ReplyBuilder]:
        body = encode_request(self.name, model, request, stream, cache=self._cache)
        return body, ResponsesReplyBuilder()
