"""Half a surrogate pair is no text: JSON can carry one, but nothing can be written down with it.

The ways in which a value may be written: as it is, and as programs write it when they pass it on
(A6 of the reference).

Looking for hundreds of strings at once in long texts: most texts hold none of them, and that is
known fast.

A text is cut into blocks of 8 bytes. Wherever a string of 15 bytes or more lies, one block lies
wholly inside it, and its bytes are one of the string's first eight blocks; so one look-up of a
block in a set settles it. Shorter strings have blocks of 4 bytes, and those of 6 are simply
searched for.

Secrets are taken out of every text that enters the journal, goes to a model, a log or a person (A6
of the reference).

By exact value and the usual ways of writing it; nothing is guessed from what merely looks like a
secret. What is left of one is `[secret NAME]`. The text's label stays what it was.
"""

import base64
import html
import json
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus

from daemon.core import value


def drop_lone_surrogates(text: str) -> str:
    """The text as it can be written, with a "?" in place of each."""
    return text.encode("utf-8", "replace").decode()


MIN_LENGTH = 6
MIN_LINE_LENGTH = 16
SCRIPT_SAFE = "!'()*~"
URL_SAFE = ";/?:@&=+$,#" + SCRIPT_SAFE


def list_encodings(value: str) -> frozenset[str]:
    """Plain, base64, hexadecimal, and as it stands in an address, in JSON, in a page, in a
    program's own listing.

    What is shorter than SHORTEST characters is left out: it would be found where it is not meant.
    """
    raw = value.encode()
    written = {
        value,
        raw.hex(),
        raw.hex().upper(),
        raw.hex(" "),
        *_base64_forms(raw),
        *_url_forms(value),
        *_text_forms(value),
    }
    written |= set(_iter_lines(value))
    return frozenset(form for form in written if len(form) >= MIN_LENGTH)


def _iter_lines(value: str) -> Iterator[str]:
    """A key of several lines may be indented elsewhere; what frames it is no secret."""
    lines = [line.strip() for line in value.splitlines()]
    return (
        line
        for line in lines
        if len(lines) > 1 and len(line) >= MIN_LINE_LENGTH and not line.startswith("-----")
    )


def _base64_forms(raw: bytes) -> Iterator[str]:
    """The part that is the same whatever stands around it, padded or not."""
    for ahead in range(3):
        bits = 8 * ahead, 8 * (ahead + len(raw))
        inner = slice(-(-bits[0] // 6), bits[1] // 6)
        standard = base64.b64encode(bytes(ahead) + raw).decode()[inner]
        yield standard
        yield standard.translate({ord("+"): "-", ord("/"): "_"})


def _url_forms(value: str) -> Iterator[str]:
    for written in (
        *(quote(value, safe=kept) for kept in ("", "/", SCRIPT_SAFE, URL_SAFE)),
        quote_plus(value),
    ):
        yield written
        yield _lower_escapes(written)
    every = "".join(f"%{byte:02X}" for byte in value.encode())
    yield every
    yield every.lower()


def _lower_escapes(written: str) -> str:
    first, *rest = written.split("%")
    return first + "".join(f"%{piece[:2].lower()}{piece[2:]}" for piece in rest)


def _text_forms(value: str) -> Iterator[str]:
    for inner in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield inner
        yield inner.replace("/", "\\/")
        yield json.dumps(inner, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield repr(value.encode())[2:-1]
    page = html.escape(value, quote=False)
    yield page
    for quotes in (
        ("&quot;", "&#x27;"),
        ("&quot;", "&#39;"),
        ("&#34;", "&#39;"),
        ("&quot;", "&apos;"),
    ):
        yield page.replace('"', quotes[0]).replace("'", quotes[1])


WIDE, NARROW = 8, 4
HEAD_BYTES = 3

Span = tuple[int, int, str]


@value
class BlockTable:
    """Strings that are at least twice as long as a block, less one byte: where each possible block
    lies in which of them.
    """

    width: int
    known: frozenset[int]
    places: Mapping[int, tuple[tuple[bytes, int], ...]]

    @classmethod
    def build(cls, needles: Iterable[bytes], width: int) -> "BlockTable":
        """Made once for a set of strings."""
        places: dict[int, list[tuple[bytes, int]]] = defaultdict(list)
        for needle in needles:
            for offset in range(width):
                places[int.from_bytes(needle[offset : offset + width], sys.byteorder)].append(
                    (needle, offset)
                )
        return cls(width, frozenset(places), {key: tuple(found) for key, found in places.items()})

    def find(self, data: bytes) -> list[tuple[int, bytes]]:
        """Where which of them begins."""
        whole = memoryview(data)[: len(data) // self.width * self.width]
        blocks = whole.cast("Q") if self.width == WIDE else whole.cast("I")
        return [] if self.known.isdisjoint(blocks) else list(self._confirm(data, blocks))

    def _confirm(self, data: bytes, blocks: memoryview) -> Iterator[tuple[int, bytes]]:
        for index, block in enumerate(blocks):
            for needle, offset in self.places.get(block, ()):
                start = index * self.width - offset
                if start >= 0 and data.startswith(needle, start):
                    yield start, needle


@value
class SubstringIndex:
    """Strings to look for, each with the name it goes by."""

    names: Mapping[bytes, str]
    ordered: tuple[bytes, ...]
    heads: frozenset[bytes]
    blocks: tuple[BlockTable, ...]
    short: tuple[bytes, ...]
    longest: int

    @classmethod
    def build(cls, names: Mapping[bytes, str]) -> "SubstringIndex":
        """Made once for a set of strings."""
        groups: dict[int, list[bytes]] = {WIDE: [], NARROW: []}
        short: list[bytes] = []
        for needle in names:
            width = next((width for width in groups if len(needle) >= 2 * width - 1), 0)
            groups.get(width, short).append(needle)
        blocks = tuple(BlockTable.build(group, width) for width, group in groups.items() if group)
        heads = frozenset(needle[:HEAD_BYTES] for needle in names)
        return cls(
            names,
            tuple(sorted(names)),
            heads,
            blocks,
            tuple(short),
            max(map(len, names), default=0),
        )

    def find(self, data: bytes) -> list[Span]:
        """(start, end, name) of all that is there, by where it starts, the longest first."""
        found: list[tuple[int, bytes]] = []
        for table in self.blocks:
            found += table.find(data)
        for needle in self.short:
            start = data.find(needle)
            while start >= 0:
                found.append((start, needle))
                start = data.find(needle, start + 1)
        if not found:
            return []
        spans = [(start, start + len(needle), self.names[needle]) for start, needle in found]
        return sorted(spans, key=lambda span: (span[0], -span[1]))

    def find_partial(self, data: bytes) -> int:
        """Where the earliest string begins that goes on behind the end; the end when none does."""
        for start in range(max(0, len(data) - self.longest + 1), len(data)):
            head = data[start : start + HEAD_BYTES]
            if (len(head) < HEAD_BYTES or head in self.heads) and self._is_prefix(data[start:]):
                return start
        return len(data)

    def _is_prefix(self, piece: bytes) -> bool:
        at = bisect_left(self.ordered, piece)
        if at < len(self.ordered) and self.ordered[at] == piece:
            at += 1
        return at < len(self.ordered) and self.ordered[at].startswith(piece)


T = TypeVar("T")
SecretSource = Callable[[], Mapping[str, str]]
SEPARATOR = "\0"
MAX_CLEAN_TEXTS, MAX_CLEAN_CHARS = 1000, 8000


def format_marker(name: str) -> str:
    """What stands where a secret was."""
    return f"[secret {name}]"


def format_handle(name: str) -> str:
    """How the model names a secret to a tool; it is passed on as it is."""
    return f"{{{{secret:{name}}}}}"


def is_usable(value: str, names: Iterable[str]) -> bool:
    """It can be looked for: long enough, and no part of the very words that stand for secrets."""
    return len(value) >= MIN_LENGTH and not any(
        value in format_marker(name) or value in format_handle(name) for name in names
    )


def no_secrets() -> Mapping[str, str]:
    """For who has none."""
    return _NONE


_NONE: Mapping[str, str] = {}


def build_index(secrets: Mapping[str, str]) -> SubstringIndex:
    """Everything to look for; `secrets` are names by value."""
    names, needles = set(secrets.values()), dict[bytes, str]()
    for secret, name in secrets.items():
        if is_usable(secret, names):
            for form in list_encodings(secret):
                needles.setdefault(form.encode(), name)
    return SubstringIndex.build(needles)


@dataclass(slots=True)
class Redactor:
    """`source` gives the names by value, the same mapping as long as nothing changed; new ones are
    looked for at once.
    """

    source: SecretSource = no_secrets
    _seen: Mapping[str, str] | None = field(default=None, repr=False)
    _search: "SecretSearch" = field(
        default_factory=lambda: SecretSearch(SubstringIndex.build({})), repr=False
    )

    @property
    def needles(self) -> SubstringIndex:
        """What is looked for."""
        return self._get_search().needles

    def _get_search(self) -> "SecretSearch":
        secrets = self.source()
        if secrets is not self._seen:
            self._seen, self._search = secrets, SecretSearch(build_index(secrets))
        return self._search

    def redact_text(self, text: str) -> str:
        """Without any secret."""
        search = self._get_search()
        return text if search.is_clean((text,)) else _redact_text(text, search.needles)

    def redact_value(self, thing: T) -> T:
        """The same with every text in it cleaned: a dataclass, a tuple, a list, a mapping. The very
        thing if none is there.
        """
        search = self._get_search()
        if not search.needles.names or search.is_clean(_iter_texts(thing)):
            return thing
        return cast(T, _redact_value(thing, search.needles))

    def is_clean(self, texts: Iterable[str]) -> bool:
        """No secret is in any of them."""
        return self._get_search().is_clean(texts)

    def open_stream(self) -> "RedactedStream":
        """For a text that comes in pieces."""
        return RedactedStream(self)


@dataclass(slots=True)
class SecretSearch:
    """A search for these strings. Texts without any are known again: most are sent to a model many
    times over.
    """

    needles: SubstringIndex
    _clean: set[str] = field(default_factory=set)

    def is_clean(self, texts: Iterable[str]) -> bool:
        """None of them is in any of these; what is new is looked through at once."""
        if not self.needles.names:
            return True
        new = [text for text in texts if text not in self._clean]
        if new and self.needles.find(SEPARATOR.join(new).encode("utf-8", "surrogatepass")):
            return False
        if len(self._clean) + len(new) > MAX_CLEAN_TEXTS:
            self._clean.clear()
        self._clean.update(text for text in new if len(text) <= MAX_CLEAN_CHARS)
        return True


def _redact_text(text: str, needles: SubstringIndex) -> str:
    data = text.encode("utf-8", "surrogatepass")
    spans = needles.find(data)
    return SpanRemover().remove(data, spans, len(data)) if spans else text


def _redact_value(thing: object, needles: SubstringIndex) -> object:
    if type(thing) is str:
        return _redact_text(thing, needles)
    if isinstance(thing, tuple | list):
        items = [_redact_value(item, needles) for item in thing]
        return thing if _is_same(items, thing) else type(thing)(items)
    if isinstance(thing, Mapping):
        pairs = [
            (_redact_value(key, needles), _redact_value(item, needles))
            for key, item in thing.items()
        ]
        same = all(
            key is old and item is thing[old] for (key, item), old in zip(pairs, thing, strict=True)
        )
        return thing if same else dict(pairs)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    held = {one.name: getattr(thing, one.name) for one in fields(thing) if one.init}
    cleaned = {name: _redact_value(item, needles) for name, item in held.items()}
    changed = {name: item for name, item in cleaned.items() if item is not held[name]}
    return replace(thing, **changed) if changed else thing


def _iter_texts(thing: object) -> Iterator[str]:
    """Every text that `_cleaned` looks at, in no order."""
    waiting = [thing]
    while waiting:
        one = waiting.pop()
        if type(one) is str:
            yield one
        else:
            waiting += _get_parts_reader(type(one))(one)


@lru_cache(maxsize=512)
def _get_parts_reader(kind: type) -> Callable[[Any], Iterable[object]]:
    """What gives the parts of a thing of this type."""
    if issubclass(kind, tuple | list):
        return iter
    if issubclass(kind, Mapping):
        return lambda thing: (*thing.keys(), *thing.values())
    names = [one.name for one in fields(kind) if one.init] if is_dataclass(kind) else []
    return lambda thing: [getattr(thing, name) for name in names]


def _is_same(items: list[object], old: tuple[object, ...] | list[object]) -> bool:
    return all(item is before for item, before in zip(items, old, strict=True))


@dataclass(slots=True)
class SpanRemover:
    """Takes spans out of a text, piece by piece: `at` is how much of what comes is already gone,
    `last` what it was.
    """

    at: int = 0
    last: str = ""

    def remove(self, data: bytes, spans: list[Span], until: int) -> str:
        """The text up to there; a span that begins before and ends behind it is taken out with its
        whole.
        """
        kept: list[str] = []
        for start, end, name in spans:
            if end <= self.at or start >= until:
                continue
            if start >= self.at or name != self.last:
                kept += (
                    data[self.at : start].decode("utf-8", "surrogatepass"),
                    format_marker(name),
                )
            self.at, self.last = end, name
        kept.append(data[self.at : until].decode("utf-8", "surrogatepass"))
        self.at = max(self.at - until, 0)
        return "".join(kept)


@dataclass(slots=True)
class RedactedStream:
    """A text in pieces. Held back is only what may be the beginning of a secret, at most the
    longest of them.
    """

    redactor: Redactor
    _held: bytes = b""
    _cut: SpanRemover = field(default_factory=SpanRemover)

    def feed(self, chunk: str) -> str:
        """What can be shown by now."""
        needles = self.redactor.needles
        if not (needles.names or self._held or self._cut.at):
            return chunk
        data = self._held + chunk.encode("utf-8", "surrogatepass")
        until = needles.find_partial(data)
        self._held = data[until:]
        return self._cut.remove(data, needles.find(data), until)

    def flush(self) -> str:
        """The rest: nothing more will come."""
        if not self._held:
            self._cut = SpanRemover()
            return ""
        data, self._held = self._held, b""
        shown = self._cut.remove(data, self.redactor.needles.find(data), len(data))
        self._cut = SpanRemover()
        return shown
