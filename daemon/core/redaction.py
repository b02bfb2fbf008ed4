"""Secrets are taken out of every text that enters the journal, goes to a model, a log or a person
(A6 of the reference).

By exact value and the usual ways of writing it; nothing is guessed from what merely looks like a
secret. What is left of one is `[secret NAME]`. The text's label stays what it was.

Most texts hold no secret, and that is known fast: a text is cut into blocks of 8 bytes. Wherever a
string of 15 bytes or more lies, one block lies wholly inside it, and its bytes are one of the
string's first eight blocks; so one look-up of all blocks in a set settles it. Shorter strings are
simply searched for.
"""

import html
import json
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from time import monotonic
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus

from daemon.core import value
from daemon.core.disguise.find import ANY, find_disguised

MIN_LENGTH = 6
MIN_LINE_LENGTH = 16
SCRIPT_SAFE = "!'()*~"
URL_SAFE = ";/?:@&=+$,#" + SCRIPT_SAFE
BLOCK = 8
HEAD_BYTES = 3
PLAIN = (bool, int, float, type(None))
MAX_CLEAN_TEXTS, MAX_CLEAN_CHARS = 1000, 8000
WITHHELD = (
    "[This text is withheld: it repeats the secret {name} in another spelling, or a part of it, and"
    " no secret is shown to a model. Whatever was done has been done; the owner can look at the"
    " service itself.]"
)
TOO_PACKED = (
    "[This text is withheld: so much is packed in it (compressed, in layers) that it could not be"
    " looked through for secrets. Whatever was done has been done; ask for less of it at a time, or"
    " save it to a file and unpack it there.]"
)

T = TypeVar("T")
Span = tuple[int, int, str]
SecretSource = Callable[[], Mapping[str, str]]


def drop_lone_surrogates(text: str) -> str:
    """Half a surrogate pair cannot be written down: U+FFFD stands in its place. Two halves that
    belong together become one character.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def list_encodings(value: str) -> set[str]:
    """Plain, base64, hexadecimal, and as it stands in an address, in JSON, in a page, in a
    program's own listing; those that are too short to be searched for are left out.
    """
    raw = value.encode()
    written = {value, raw.hex(), raw.hex().upper(), raw.hex(" "), repr(value)[1:-1]}
    written |= {repr(raw)[2:-1], html.escape(value, quote=False)}
    for ahead in range(3):  # of base64 the part that is the same whatever stands around it
        inner = slice(-(-8 * ahead // 6), 8 * (ahead + len(raw)) // 6)
        for altchars in (b"+/", b"-_"):
            written.add(b64encode(bytes(ahead) + raw, altchars).decode()[inner])
    escaped = [quote(value, safe=safe) for safe in ("", "/", SCRIPT_SAFE, URL_SAFE)]
    for form in (*escaped, quote_plus(value), "".join(f"%{byte:02X}" for byte in raw)):
        pieces = re.split("(%..)", form)
        written |= {form, "".join(one.lower() if one[:1] == "%" else one for one in pieces)}
    for ascii_only in (True, False):
        inner = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        written |= {inner, inner.replace("/", "\\/"), json.dumps(inner, ensure_ascii=False)[1:-1]}
    for double, single in product(("&quot;", "&#34;"), ("&#x27;", "&#39;", "&apos;")):
        page = html.escape(value, quote=False)
        written.add(page.replace('"', double).replace("'", single))
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:  # a key of several lines may be indented elsewhere
        long = (line for line in lines if len(line) >= MIN_LINE_LENGTH)
        written |= {line for line in long if not line.startswith("-----")}  # no secret: its frame
    return {form for form in written if len(form) >= MIN_LENGTH}


def format_marker(name: str) -> str:
    """What stands where a secret was."""
    return f"[secret {name}]"


def format_handle(name: str) -> str:
    """How the model names a secret to a tool; it is passed on as it is."""
    return f"{{{{secret:{name}}}}}"


def is_usable(value: str, names: Iterable[str]) -> bool:
    """It can be looked for: long enough, and no part of the very words that stand for secrets."""
    return len(value) >= MIN_LENGTH and not any(
        value in format_marker(name) + "\0" + format_handle(name) for name in names
    )


@value
class Needles:
    """What to look for: all ways of writing each secret, by the secret's name. `heads`: how they
    begin; `clean`: texts without any, for threads that look for others have their own.
    """

    names: Mapping[bytes, str]
    heads: frozenset[bytes]
    blocks: frozenset[int]
    short: tuple[bytes, ...]
    longest: int
    clean: set[str] = field(default_factory=set, repr=False, compare=False)

    @classmethod
    def build(cls, secrets: Mapping[str, str]) -> "Needles":
        """`secrets` are names by value."""
        names = {
            form.encode(): name
            for secret, name in reversed(list(secrets.items()))
            if is_usable(secret, secrets.values())
            for form in list_encodings(secret)
        }
        long = [needle for needle in names if len(needle) >= 2 * BLOCK - 1]
        return cls(
            names,
            frozenset(needle[:size] for needle in names for size in range(1, HEAD_BYTES + 1)),
            frozenset(
                int.from_bytes(needle[start : start + BLOCK], sys.byteorder)
                for needle in long
                for start in range(BLOCK)
            ),
            tuple(names.keys() - set(long)),
            max(map(len, names), default=0),
        )

    def find(self, data: bytes) -> list[Span]:
        """(start, end, name) of all that is there, by where it starts, the longest first."""
        blocks = memoryview(data)[: len(data) // BLOCK * BLOCK].cast("Q")
        if self.blocks.isdisjoint(blocks) and not any(needle in data for needle in self.short):
            return []
        spans: list[Span] = []
        for needle, name in self.names.items():
            start = data.find(needle)
            while start >= 0:
                spans.append((start, start + len(needle), name))
                start = data.find(needle, start + 1)
        return sorted(spans, key=lambda span: (span[0], -span[1]))

    def find_partial(self, data: bytes) -> int:
        """Where the earliest string begins that goes on behind the end; the end when none does."""
        for start in range(max(0, len(data) - self.longest + 1), len(data)):
            if data[start : start + HEAD_BYTES] in self.heads:
                piece = data[start:]
                if any(len(one) > len(piece) and one.startswith(piece) for one in self.names):
                    return start
        return len(data)


@dataclass(slots=True)
class Redactor:
    """`source` gives the names by value, the same mapping as long as nothing changed; new ones are
    looked for `look_every_s` after it was asked last, and before anything is sent to a model. Texts
    without any are known again: most are sent to a model many times over.
    """

    source: SecretSource = dict
    look_every_s: float = 0.0
    _looked_at: float = float("-inf")
    _secrets: Mapping[str, str] = field(init=False, repr=False)
    _needles: Needles = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._secrets = self.source()
        self._needles = Needles.build(self._secrets)

    @property
    def needles(self) -> Needles:
        """What is looked for."""
        if self.look_every_s:
            if (now := monotonic()) - self._looked_at < self.look_every_s:
                return self._needles
            self._looked_at = now
        secrets = self.source()
        if secrets is not self._secrets:
            self._secrets, self._needles = secrets, Needles.build(secrets)
        return self._needles

    def redact_text(self, text: str) -> str:
        """Without any secret; the very same text if none is there."""
        return self._redact_text(text, self.needles)

    def _redact_text(self, text: str, needles: Needles) -> str:
        clean = needles.clean
        if not text or not needles.names or text in clean:
            return text
        data = text.encode("utf-8", "surrogatepass")
        if spans := needles.find(data):
            return RedactedStream(self).remove(data, spans, len(data))
        if len(text) <= MAX_CLEAN_CHARS:
            if len(clean) >= MAX_CLEAN_TEXTS:
                clean.clear()
            clean.add(text)
        return text

    def withhold(self, text: str) -> str:
        """A stranger's text that is redacted already, unless a secret is left in it in a spelling
        that cannot be cut out: then a line in place of all of it.
        """
        name = find_disguised(text, self.source())
        if name == ANY:
            return TOO_PACKED
        return WITHHELD.format(name=name) if name else text

    def redact_value(self, thing: T) -> T:
        """The same with every text in it cleaned: a dataclass, a tuple, a list, a mapping. The very
        thing if none is there.
        """
        needles = self.needles  # of one look at the source, however many texts there are
        return cast(T, self._redact(thing, needles)) if needles.names else thing

    def _redact(self, thing: Any, needles: Needles) -> object:
        kind, cleaned = type(thing), thing
        if kind is str:
            return self._redact_text(thing, needles)
        if kind in PLAIN:
            return thing
        if isinstance(thing, tuple | list):
            cleaned = kind([self._redact(item, needles) for item in thing])
        elif isinstance(thing, Mapping):
            cleaned = {
                self._redact(key, needles): self._redact(item, needles)
                for key, item in thing.items()
            }
        elif names := getattr(kind, "__dataclass_fields__", ()):
            held = {name: getattr(thing, name) for name in names}
            new = {name: self._redact(item, needles) for name, item in held.items()}
            changed = {name: item for name, item in new.items() if item is not held[name]}
            return replace(thing, **changed) if changed else thing
        return thing if cleaned == thing else cleaned

    def is_clean(self, texts: Iterable[str]) -> bool:
        """No secret is in any of them, as is known now."""
        self._looked_at = float("-inf")
        needles = self.needles
        return all(self._redact_text(text, needles) is text for text in texts)


@dataclass(slots=True)
class RedactedStream:
    """A text in pieces. Held back is only what may be the beginning of a secret, at most the
    longest of them. `_skip` is how much of what comes is already removed, `_last` what it was.
    """

    redactor: Redactor
    _held: bytes = b""
    _skip: int = 0
    _last: str = ""

    def feed(self, chunk: str) -> str:
        """What can be shown by now."""
        needles = self.redactor.needles
        if not (needles.names or self._held or self._skip):
            return chunk
        data = self._held + chunk.encode("utf-8", "surrogatepass")
        until = needles.find_partial(data)
        self._held = data[until:]
        return self.remove(data, needles.find(data), until)

    def flush(self) -> str:
        """The rest: nothing more will come."""
        data, self._held = self._held, b""
        rest = self.remove(data, self.redactor.needles.find(data), len(data))
        self._skip, self._last = 0, ""
        return rest

    def remove(self, data: bytes, spans: Iterable[Span], until: int) -> str:
        """The text up to there; a span that begins before and ends behind it is taken out with its
        whole.
        """
        clean: list[str] = []
        for start, end, name in spans:
            if end <= self._skip or start >= until:
                continue
            if start >= self._skip or name != self._last:
                before = data[self._skip : start]
                clean += (before.decode("utf-8", "surrogatepass"), format_marker(name))
            self._skip, self._last = end, name
        clean.append(data[self._skip : until].decode("utf-8", "surrogatepass"))
        self._skip = max(self._skip - until, 0)
        return "".join(clean)
