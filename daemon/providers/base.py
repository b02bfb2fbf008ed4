"""The Provider protocol, and what the wire formats share: encoding, JSON fields, replies."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, TypeVar

from pydantic_core import from_json

from daemon.core.errors import ErrorClass
from daemon.core.messages import (
    PICTURE_TOKENS,
    ModelReply,
    ModelRequest,
    Native,
    ToolCall,
    Usage,
    drop_lone_surrogates,
    is_cut,
)
from daemon.providers.errors import CallFailed
from daemon.providers.rules import Json, clean_arguments, find_offered
from daemon.providers.text_calls import (
    VisibleText,
    find_text_calls,
    is_unfinished_thought,
    split_thought,
)

TextCallback = Callable[[str], None]
MAX_TOKENS = 10**9
MAX_RESPONSE_BYTES = 64 << 20
MAX_SHOWN_BYTES = 100
MAX_CACHED = 4096
CUT_THOUGHT = "[The model was still thinking at its limit of tokens, and gave no answer.]"
SPOILT = "the model spoilt its call of a tool"
NOTHING = (None, b"[]")  # is left out of a body
HALF_CHARACTER = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
T = TypeVar("T")
V = TypeVar("V")


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


COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode_json(value: object) -> bytes:
    """Compact JSON. Half a surrogate pair, which no server accepts, becomes U+FFFD."""
    text = COMPACT.encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return drop_lone_surrogates(text).encode()


def encode_list(values: Iterable[bytes]) -> bytes:
    """A JSON array of values that are JSON already."""
    return b"[" + b",".join(values) + b"]"


def encode_body(fields: Mapping[str, object]) -> bytes:
    """A request body in this order; bytes are JSON already."""
    encoded = [
        b'"%s":%s' % (name.encode(), value if isinstance(value, bytes) else encode_json(value))
        for name, value in fields.items()
        if value not in NOTHING
    ]
    return b"{" + b",".join(encoded) + b"}"


class EncodingCache:
    """Encoded tools and messages, which are the same objects from call to call."""

    def __init__(self) -> None:
        self._encoded: dict[object, tuple[object, bytes]] = {}

    def encode(self, values: Iterable[T], to_json: Callable[[T], object]) -> bytes:
        """A JSON array of them."""
        return self.encode_variants([(value, None) for value in values], lambda v, _: to_json(v))

    def encode_variants(
        self, values: Iterable[tuple[T, V]], to_json: Callable[[T, V], object]
    ) -> bytes:
        """A JSON array of them, each in the variant that stands with it."""
        if len(self._encoded) > MAX_CACHED:
            self._encoded.clear()
        encoded: list[bytes] = []
        for value, variant in values:
            key = id(value), variant
            if (entry := self._encoded.get(key)) is None:
                entry = value, encode_json(to_json(value, variant))
                # Pictures are some megabytes, and the same ones for a while only.
                if not getattr(value, "pictures", ()):
                    # The entry holds the value, so that no other object gets its id.
                    self._encoded[key] = entry
            encoded.append(entry[1])
        return encode_list(encoded)


def _read_half_characters(received: str | bytes) -> object:
    """JSON with half a character, as an escape, which becomes U+FFFD. Raises ValueError."""
    if not HALF_CHARACTER.search(received if isinstance(received, str) else received.decode()):
        raise ValueError("not JSON")
    return json.loads(received)


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
    `unread_call` is one that the server could not read, as the model wrote it.
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
    unread_call: str = ""
    _received: int = 0
    _has_halves: bool = False
    _visible: VisibleText = field(default_factory=VisibleText)

    def feed(self, received: str | bytes) -> str:
        """Read a JSON object, or a list of them; gives the text that it adds. Raises CallFailed."""
        self._received += len(received)
        if self._received > MAX_RESPONSE_BYTES:
            raise make_too_long_error()
        if received == "[DONE]":
            self.has_ended = self.has_ended or self.ends_with_marker
            return ""
        try:
            try:
                found = from_json(received)
            except ValueError:
                found, self._has_halves = _read_half_characters(received), True
            raw = "".join([self.read(fields) for fields in list_objects(found)])
            raw = drop_lone_surrogates(raw) if self._has_halves else raw
            return self._visible.feed(raw)
        except (ValueError, TypeError, RecursionError) as error:
            start = received[:MAX_SHOWN_BYTES]
            shown = start.decode("utf-8", "replace") if isinstance(start, bytes) else start
            raise CallFailed(ErrorClass.MALFORMED, f"not {self.what}: {shown}") from error

    @abstractmethod
    def read(self, fields: Json) -> str:
        """Read one JSON object. Raises TypeError for what is wrong in it."""

    @abstractmethod
    def _list_calls(self) -> list[tuple[str, str, str]]:
        """(id, name, arguments) of each call. Raises TypeError."""

    def _get_thought(self) -> str:
        """What the model thought, where that stands apart from the text."""
        return ""

    def _make_native(self, calls: Sequence[ToolCall], raw: str, text: str) -> Native | None:
        """The reply in the provider's own form, where it must go back unchanged; `raw` is its whole
        text, `text` what of it is the answer.
        """
        return None

    def _make_error(self, kind: ErrorClass, what: str) -> CallFailed:
        usual = ("", "stop", "end_turn", "STOP", "completed")
        why = f" ({self.finish})" if self.finish not in usual else ""
        return CallFailed(kind, what + why + (f": {self.detail}" if self.detail else ""))

    def build(self, request: ModelRequest, provider: str = "", model: str = "") -> ModelReply:
        """The whole reply, which they have given. Raises CallFailed when there is nothing in it
        that can be used.
        """
        try:
            raw, asked = "".join(self.text), self._list_calls()
        except TypeError as error:
            raise self._make_error(ErrorClass.MALFORMED, f"not {self.what}: {error}") from error
        raw = drop_lone_surrogates(raw) if self._has_halves else raw
        _, text = split_thought(raw)
        thought = "" if text.strip() or asked else drop_lone_surrogates(self._get_thought())
        if is_cut(self.finish) and (thought.strip() or is_unfinished_thought(text)):
            text = CUT_THOUGHT
        elif thought.strip() and self.finish not in self.withheld:
            text = thought  # a wrong parser of the server's takes the answer for a thought
        raw = raw if raw.strip() else text  # it goes back: no server takes an empty one
        unread = self.unread_call
        if not (text.strip() or asked or unread):
            empty = ErrorClass.MALFORMED, "an empty reply"
            raise self._make_error(*self.withheld.get(self.finish, empty))
        schemas = {one.name: one.parameters for one in request.tools if request.tools_allowed}
        offered = [*schemas]
        before, written = ("", []) if asked else find_text_calls(unread or text, offered)
        if unread and not written:
            raise self._make_error(ErrorClass.MALFORMED, SPOILT)
        if written:
            text, asked = text if unread else before, [("", *call) for call in written]
        ids: list[str] = []  # they are echoed: each call needs one of its own
        named = {given for given, *_ in asked}
        for index, (given, *_) in enumerate(asked):
            wanted, number = given, index
            while not wanted or wanted in ids or (wanted != given and wanted in named):
                wanted, number = f"{given or 'call'}_{number}", number + 1
            ids.append(wanted)
        named_calls = [(find_offered(name, offered), arguments) for _, name, arguments in asked]
        calls = tuple(
            ToolCall(call_id, name, clean_arguments(given, schemas.get(name, {})))
            for call_id, (name, given) in zip(ids, named_calls, strict=True)
        )
        sent, received, cached = self.counts
        usage = Usage(sent, received, cached)
        if not any(self.counts):  # four characters a token where the server counts none
            sent = sum(len(m.text) + _count_chars(m.calls) for m in request.messages)
            sent += sum(4 * PICTURE_TOKENS * len(m.pictures) for m in request.messages)
            sent += sum(
                len(t.name + t.description + json.dumps(t.parameters)) for t in request.tools
            )
            received = len(text) + _count_chars(calls)
            usage = Usage(sent // 4 + 1, received // 4 + 1, estimated=True)
        native = None if written else self._make_native(calls, raw, text)
        native = native and replace(native, provider=provider, model=model)
        return ModelReply(text, calls, usage, provider, model, self.finish, native, bool(written))


def make_too_long_error() -> CallFailed:
    """An answer that would fill the memory."""
    limit = f"more than {MAX_RESPONSE_BYTES >> 20} MiB"
    return CallFailed(ErrorClass.MALFORMED, f"the answer does not end: {limit}")
