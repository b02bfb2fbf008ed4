"""The Provider protocol, and what the wire formats share: encoding, JSON fields, replies."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar

from pydantic_core import from_json

from daemon.core.errors import ErrorClass
from daemon.core.messages import (
    Message,
    MessageRole,
    ModelReply,
    ModelRequest,
    Native,
    ToolCall,
    Usage,
)
from daemon.providers.errors import CallFailed

TextCallback = Callable[[str], None]
Json = dict[str, object]
MAX_TOKENS = 10**9
MAX_RESPONSE_BYTES = 64 << 20
MAX_SHOWN_BYTES = 100
MAX_CACHED = 4096
MAX_NAME = 64
MISSING_START = "[the beginning of this conversation is missing]"
GO_ON = "[go on]"
INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_-]")
VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
T = TypeVar("T")


class Provider(Protocol):
    """A service that answers model calls."""

    @property
    def name(self) -> str:
        """Its name in events and messages: the kind, with the host where there are several."""
        ...

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        """The whole reply; `on_text` gets its text while it comes. Raises ProviderError.

        Cancelling stops the call.
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


def encode_json(value: object) -> bytes:
    """Compact JSON. Half a surrogate pair, which no server accepts, becomes a question mark."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def encode_list(values: Iterable[bytes]) -> bytes:
    """A JSON array of values that are JSON already."""
    return b"[" + b",".join(values) + b"]"


def encode_body(fields: Mapping[str, object]) -> bytes:
    """A request body in this order; bytes are JSON already, None and empty lists are left out."""
    given = {name: value for name, value in fields.items() if value not in (None, b"[]")}
    encoded = [
        b'"%s":%s' % (name.encode(), value if isinstance(value, bytes) else encode_json(value))
        for name, value in given.items()
    ]
    return b"{" + b",".join(encoded) + b"}"


class EncodingCache:
    """Encoded tools and messages, which are the same objects from call to call."""

    def __init__(self) -> None:
        self._encoded: dict[int, tuple[object, bytes]] = {}

    def encode(self, values: Iterable[T], to_json: Callable[[T], object]) -> bytes:
        """A JSON array of them."""
        if len(self._encoded) > MAX_CACHED:
            self._encoded.clear()
        encoded: list[bytes] = []
        for value in values:
            if (entry := self._encoded.get(id(value))) is None:
                # The entry holds the value, so that no other object gets its id.
                entry = self._encoded[id(value)] = value, encode_json(to_json(value))
            encoded.append(entry[1])
        return b"[" + b",".join(encoded) + b"]"


class CallIds:
    """Gives each call of a history an id of its own."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def make_unique(self, wanted: str) -> str:
        """The wanted id if it is valid and free; else one by place, the same every time."""
        number = len(self.used)
        while not VALID_ID.fullmatch(wanted) or wanted in self.used:
            wanted = f"call_{number}"
            number += 1
        self.used.add(wanted)
        return wanted


def split_instructions(
    messages: Sequence[Message],
) -> tuple[Sequence[Message], Sequence[Message]]:
    """The system messages at the beginning, and the rest."""
    system = MessageRole.SYSTEM
    first = next((n for n, m in enumerate(messages) if m.role is not system), len(messages))
    return messages[:first], messages[first:]


def make_valid_name(name: str, invalid: re.Pattern[str] = INVALID_NAME_CHAR) -> str:
    """A model may invent a tool name that another provider refuses."""
    return invalid.sub("_", name)[:MAX_NAME] or "unknown"


def parse_arguments(written: str) -> Json:
    """Arguments as a JSON object, which providers insist on; anything else is wrapped."""
    try:
        found: object = json.loads(written)
        json.dumps(found, allow_nan=False)  # Python reads NaN and 1e999, which are not JSON
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    return {"invalid": written} if written.strip() else {}


def make_valid_arguments(written: str) -> str:
    """As the model wrote them, unless that is no JSON object, which many servers refuse."""
    found = parse_arguments(written)
    return json.dumps(found) if found in ({}, {"invalid": written}) else written


def get_text(fields: Json, *keys: str) -> str:
    """The first of these texts that is not empty. Raises TypeError for what is no text."""
    for key in keys:
        if (value := fields.get(key)) is not None and value != "":
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                return str(value)
            raise TypeError(key)
    return ""


def get_count(fields: Json, *keys: str) -> int:
    """The sum of these counts; one that is no number, or is negative, counts as absent."""
    total = 0
    for key in keys:
        value = fields.get(key)
        if isinstance(value, str) and value.isdecimal():
            value = float(value)
        if isinstance(value, int | float) and value > 0:
            total += int(min(value, MAX_TOKENS))
    return total


def get_object(fields: Json, key: str) -> Json:
    """An object; empty where there is none."""
    value = fields.get(key)
    return value if isinstance(value, dict) else {}


def list_objects(value: object) -> list[Json]:
    """A list of objects: some servers send one without a list, a text, or nulls in between."""
    found: list[Json] = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            found.append(item)
        elif isinstance(item, str):
            found.append({"type": "text", "text": item})
        elif item is not None:
            raise TypeError(f"{item!r} is no object")
    return found


def make_native(blocks: object) -> Native | None:
    """A reply's own blocks; None where they hold NaN, which is read but is not JSON."""
    try:
        text = json.dumps(blocks, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return None
    return Native("", "", text)


def _count_chars(calls: Iterable[ToolCall]) -> int:
    return sum(len(call.name) + len(call.arguments) for call in calls)


@dataclass(slots=True)
class ReplyBuilder(ABC):
    """A reply under construction: of many pieces, or of one that is the whole.

    `finish` is the server's reason to stop; `has_ended` means that nothing more will come.
    `counts` are tokens sent, received and cached, which only grow.
    `withheld` has the error of an empty reply for each reason that explains it.
    """

    what: ClassVar[str]
    ends_with_marker: ClassVar[bool] = False
    withheld: ClassVar[Mapping[str, tuple[ErrorClass, str]]] = {}

    text: list[str] = field(default_factory=list)
    finish: str = ""
    detail: str = ""
    counts: Sequence[int] = (0, 0, 0)
    has_ended: bool = False
    _received: int = 0

    def feed(self, received: str | bytes) -> str:
        """Read a JSON object, or a list of them; gives the text that it adds. Raises CallFailed."""
        self._received += len(received)
        if self._received > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
        if received == "[DONE]":
            self.has_ended = self.has_ended or self.ends_with_marker
            return ""
        try:
            return "".join([self.read(fields) for fields in list_objects(from_json(received))])
        except (ValueError, TypeError) as error:
            start = received[:MAX_SHOWN_BYTES]
            shown = start.decode("utf-8", "replace") if isinstance(start, bytes) else start
            raise CallFailed(ErrorClass.MALFORMED, f"not {self.what}: {shown}") from error

    @abstractmethod
    def read(self, fields: Json) -> str:
        """Read one JSON object. Raises TypeError for what is wrong in it."""

    @abstractmethod
    def _list_calls(self) -> list[tuple[str, str, str]]:
        """(id, name, arguments) of each call. Raises TypeError."""

    def _make_native(self, calls: Sequence[ToolCall]) -> Native | None:
        """The reply in the provider's own form, where it must go back unchanged."""
        return None

    def _make_error(self, kind: ErrorClass, what: str) -> CallFailed:
        usual = ("", "stop", "end_turn", "STOP", "completed")
        why = f" ({self.finish})" if self.finish not in usual else ""
        return CallFailed(kind, what + why + (f": {self.detail}" if self.detail else ""))

    def build(self, request: ModelRequest) -> ModelReply:
        """The whole reply. Raises CallFailed when there is nothing in it that can be used."""
        try:
            text, asked = "".join(self.text), self._list_calls()
        except TypeError as error:
            raise self._make_error(ErrorClass.MALFORMED, f"not {self.what}: {error}") from error
        if not text.strip() and not asked:
            empty = ErrorClass.MALFORMED, "an empty reply"
            raise self._make_error(*self.withheld.get(self.finish, empty))
        if not all(name for _, name, _ in asked):
            raise CallFailed(ErrorClass.MALFORMED, "a tool call without a name")
        ids: list[str] = []  # they are echoed: each call needs one of its own
        for index, (given, *_) in enumerate(asked):
            ids.append(given if given and given not in ids else f"{given or 'call'}_{index}")
        calls = tuple(
            ToolCall(call_id, *call[1:]) for call_id, call in zip(ids, asked, strict=True)
        )
        sent, received, cached = self.counts
        usage = Usage(sent, received, cached)
        if not any(self.counts):  # four characters a token where the server counts none
            sent = sum(len(m.text) + _count_chars(m.calls) for m in request.messages)
            sent += sum(
                len(t.name + t.description + json.dumps(t.parameters)) for t in request.tools
            )
            received = len(text) + _count_chars(calls)
            usage = Usage(sent // 4 + 1, received // 4 + 1, estimated=True)
        native = self._make_native(calls)
        return ModelReply(text, calls, usage=usage, finish=self.finish, native=native)


def make_too_long_error() -> CallFailed:
    """An answer that would fill the memory."""
    limit = f"more than {MAX_RESPONSE_BYTES >> 20} MiB"
    return CallFailed(ErrorClass.MALFORMED, f"the answer does not end: {limit}")
