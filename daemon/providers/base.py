"""The Provider protocol, and what the wire formats share: encoding, counts of tokens, replies."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

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
MAX_TOKENS = 10**9
MAX_RESPONSE_BYTES = 64 << 20
MAX_SHOWN_BYTES = 100
MAX_CACHED = 4096
MAX_NAME = 64
DONE_MARKER = "[DONE]"
INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_-]")
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


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


class EncodingCache:
    """Encoded tools and messages, which are the same objects from call to call."""

    def __init__(self) -> None:
        self._encoded: dict[int, tuple[object, bytes]] = {}

    def encode_list(self, values: Iterable[T], to_json: Callable[[T], object]) -> bytes:
        """The elements of a JSON array, without its brackets."""
        if len(self._encoded) > MAX_CACHED:
            self._encoded.clear()
        return b",".join(self._encode(value, to_json) for value in values)

    def _encode(self, value: T, to_json: Callable[[T], object]) -> bytes:
        if (entry := self._encoded.get(id(value))) is None:
            # The entry holds the value, so that no other object gets its id.
            entry = self._encoded[id(value)] = value, encode_json(to_json(value))
        return entry[1]


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


def parse_arguments(written: str) -> dict[str, object]:
    """Arguments as a JSON object, which providers insist on; anything else is wrapped."""
    try:
        found: object = json.loads(written)
        json.dumps(found, allow_nan=False)  # Python reads NaN and 1e999, which are not JSON
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    return {"invalid": written} if written.strip() else {}


def _parse_count(value: object) -> int:
    """A count that is not a number, or is negative, counts as absent."""
    if isinstance(value, str) and value.isdecimal():
        value = float(value)
    return int(min(value, MAX_TOKENS)) if isinstance(value, int | float) and value > 0 else 0


Count = Annotated[int, BeforeValidator(_parse_count)]
# For what is beside the point: a wrong type there must not spoil an answer.
DictOrNone = BeforeValidator(lambda value: value if isinstance(value, dict) else None)


class WireModel(BaseModel):
    """Part of a server's answer."""

    model_config = ConfigDict(coerce_numbers_to_str=True)


def parse_json(kind: type[M], received: str | bytes, what: str) -> M:
    """A JSON object of the server. Raises CallFailed: it is not `what` it should be."""
    try:
        return kind.model_validate_json(received)
    except ValidationError as error:
        raise make_malformed_error(what, received) from error


def make_malformed_error(what: str, received: str | bytes) -> CallFailed:
    """The answer is something else; the error shows how it begins."""
    start = received[:MAX_SHOWN_BYTES]
    shown = start.decode("utf-8", "replace") if isinstance(start, bytes) else start
    return CallFailed(ErrorClass.MALFORMED, f"not {what}: {shown}")


def make_too_long_error() -> CallFailed:
    """An answer that would fill the memory."""
    limit = f"more than {MAX_RESPONSE_BYTES >> 20} MiB"
    return CallFailed(ErrorClass.MALFORMED, f"the answer does not end: {limit}")


def make_native(blocks: object) -> Native | None:
    """A reply's own blocks; None where they hold NaN, which is read but is not JSON."""
    try:
        text = json.dumps(blocks, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return None
    return Native("", "", text)


def make_unique_ids(wanted: Iterable[str]) -> list[str]:
    """Ids of calls are echoed: each call of a reply needs one of its own."""
    ids: list[str] = []
    for index, given in enumerate(wanted):
        ids.append(given if given and given not in ids else f"{given or 'call'}_{index}")
    return ids


def estimate_usage(request: ModelRequest, text: str, calls: Iterable[ToolCall]) -> Usage:
    """Four characters a token, rounded up, where a server does not count."""
    asked = [call for message in request.messages for call in message.calls]
    sent = sum(len(message.text) for message in request.messages)
    sent += sum(len(call.name) + len(call.arguments) for call in asked)
    sent += sum(len(t.name + t.description + json.dumps(t.parameters)) for t in request.tools)
    received = len(text) + sum(len(call.name) + len(call.arguments) for call in calls)
    return Usage(sent // 4 + 1, received // 4 + 1, estimated=True)


@dataclass(slots=True, kw_only=True)
class ReplyBuilder(ABC):
    """A reply under construction: of many pieces, or of one that is the whole.

    `finish` is the server's reason to stop; `has_ended` means that nothing more will come.
    """

    text: list[str] = field(default_factory=list)
    finish: str = ""
    detail: str = ""
    usage: Usage | None = None
    has_ended: bool = False
    _received: int = 0

    def feed(self, received: str | bytes) -> str:
        """Read one JSON object; gives the text that it adds. Raises CallFailed."""
        self._received += len(received)
        if self._received > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
        return self._read(received)

    def feed_whole(self, body: bytes) -> str:
        """Read an answer that came in one piece."""
        return self.feed(body)

    @abstractmethod
    def _read(self, received: str | bytes) -> str:
        """Read one JSON object."""

    @abstractmethod
    def _list_calls(self) -> list[tuple[str, str, str]]:
        """(id, name, arguments) of each call."""

    def _make_native(self) -> Native | None:
        """The reply in the provider's own form, where it must go back unchanged."""
        return None

    def _add_usage(self, used: Usage) -> None:
        if used != Usage():
            self.usage = used

    def _make_empty_error(self) -> CallFailed:
        """A reply with neither text nor calls."""
        return self._make_error(ErrorClass.MALFORMED, "an empty reply")

    def _make_error(self, kind: ErrorClass, what: str) -> CallFailed:
        usual = ("", "stop", "end_turn", "STOP", "completed")
        why = f" ({self.finish})" if self.finish not in usual else ""
        return CallFailed(kind, what + why + (f": {self.detail}" if self.detail else ""))

    def build(self, request: ModelRequest) -> ModelReply:
        """The whole reply. Raises CallFailed when there is nothing in it that can be used."""
        text, asked = "".join(self.text), self._list_calls()
        if not text.strip() and not asked:
            raise self._make_empty_error()
        if not all(name for _, name, _ in asked):
            raise CallFailed(ErrorClass.MALFORMED, "a tool call without a name")
        ids = make_unique_ids(given for given, _, _ in asked)
        calls = tuple(
            ToolCall(call_id, *call[1:]) for call_id, call in zip(ids, asked, strict=True)
        )
        usage = self.usage or estimate_usage(request, text, calls)
        native = self._make_native()
        return ModelReply(text, calls, usage=usage, finish=self.finish, native=native)
