"""Secrets are taken out of every text that enters the journal, goes to a model, a log or a person
(A6 of the reference).

By exact value and by the encodings that services use, as a whole: base64, base64url, hexadecimal,
percent-encoding, JSON escapes (and the escapes of a page), and one of them in another. Nothing is
guessed. What is left of a secret is `[secret NAME]`. The text's label stays what it was.

A needle is the value or one encoding of it. It is found as it stands, and where any of its letters
are escaped: each escape in the text is read, and of the needles that have its letter the one is
followed whose beginning stands before it.

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
from binascii import unhexlify
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import monotonic
from typing import Any, TypeVar, cast
from urllib.parse import quote

from daemon.core import value

MIN_LENGTH = 6
MIN_LINE_LENGTH = 16
BLOCK = 8
LONG = 2 * BLOCK - 1
HEAD_BYTES = 3
LONGEST_ESCAPE = 6
NO_LETTER = b"\xff"
PLAIN = (bool, int, float, type(None))
MAX_CLEAN_TEXTS, MAX_CLEAN_CHARS = 1000, 8000
CONTROLS = dict(zip(b"bfnrt", (b"\b", b"\f", b"\n", b"\r", b"\t"), strict=True))
SIGN = re.compile(rb"[%&\\]")
UNFINISHED = re.compile(rb"(?:%[0-9A-Fa-f]?|&[#\w]{0,9}|\\[\\u0-9A-Fa-f]{0,10})\Z")

T = TypeVar("T")
Span = tuple[int, int, str]
SecretSource = Callable[[], Mapping[str, str]]


def list_encodings(value: str) -> set[str]:
    """The value, its encodings, and each line of a key of several lines, which may be indented
    elsewhere; those that are too short to be searched for are left out.
    """
    raw, quoted = value.encode(), quote(value, safe="")
    written = {value, value.replace(" ", "+"), quoted, quote(value), repr(value)[1:-1]}
    written |= {re.sub("%..", lambda found: found[0].lower(), quoted), repr(raw)[2:-1]}
    written |= {raw.hex(), raw.hex().upper(), raw.hex(" ")}
    written |= {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    for ahead in range(3):  # of base64 the part that is the same whatever stands around it
        inner = slice(-(-8 * ahead // 6), 8 * (ahead + len(raw)) // 6)
        for altchars in (b"+/", b"-_"):
            written.add(b64encode(bytes(ahead) + raw, altchars).decode()[inner])
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
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
class Escape:
    """One way to write a letter by a sign and what follows it; `read` tells the letter's bytes."""

    sign: bytes
    pattern: re.Pattern[bytes]
    read: Callable[[bytes], bytes]

    def follow(self, data: bytes, at: int, needle: bytes, until: int) -> int:
        """Where the needle ends that begins here; 0 where `until` comes first, -1 for none."""
        done = 0
        while done < len(needle):
            if at >= until:
                return 0
            if found := self.pattern.match(data, at):
                piece, at = self.read(found[1]), found.end(1)
            else:
                most = min(until, at + len(needle) - done)
                stop = data.find(self.sign, at + 1, most)
                piece = data[at : stop if stop > 0 else most]
                at += len(piece)
            if not needle.startswith(piece, done):
                return -1
            done += len(piece)
        return at


@lru_cache(maxsize=4096)
def _read_json(rest: bytes) -> bytes:
    if rest[:1] == b"u":
        code = unhexlify(rest.replace(b"\\", b"").replace(b"u", b""))
        return code.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
    return CONTROLS.get(rest[0], rest)


@lru_cache(maxsize=4096)
def _read_html(rest: bytes) -> bytes:
    code = rest[1:-1]
    if rest[:1] != b"#":
        return html.unescape(f"&{rest.decode()}").encode()
    number = int(code[1:], 16) if code[:1] in b"xX" else int(code)
    return chr(number).encode("utf-8", "surrogatepass") if number <= sys.maxunicode else NO_LETTER


AS_IS = Escape(NO_LETTER, re.compile(rb"(?!)"), bytes)
ESCAPES = (
    Escape(b"%", re.compile(rb"%(?=([0-9A-Fa-f]{2}))"), unhexlify),
    Escape(
        b"\\",
        re.compile(
            rb"\\(?=(u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}"
            rb"|[\"'\\/bfnrt]))"
        ),
        _read_json,
    ),
    Escape(
        b"&",
        re.compile(rb"&(?=(#[0-9]{1,7};|#[Xx][0-9A-Fa-f]{1,6};|(?:amp|lt|gt|quot|apos);))"),
        _read_html,
    ),
)


@value
class Needles:
    """What to look for: the encodings of each secret, by the secret's name. `heads`: how they
    begin; `places`: how much of each needle stands before a letter, by the letter and the one
    before it; `longest`: how much of a text a secret may take up; `reach`: the same of any needle;
    `clean`: texts without any, for threads that look for others have their own.
    """

    names: Mapping[bytes, str]
    heads: frozenset[bytes]
    blocks: frozenset[int]
    short: tuple[bytes, ...]
    places: Mapping[bytes, Sequence[tuple[bytes, int]]]
    longest: int
    reach: int
    clean: set[str] = field(default_factory=set, repr=False, compare=False)

    @classmethod
    def build(cls, secrets: Mapping[str, str]) -> "Needles":
        """`secrets` are names by value."""
        usable = [one for one in reversed(list(secrets)) if is_usable(one, secrets.values())]
        names = {
            form.encode(): secrets[secret] for secret in usable for form in list_encodings(secret)
        }
        long = [needle for needle in names if len(needle) >= LONG]
        places: dict[bytes, list[tuple[bytes, int]]] = {}
        for needle in names:
            for at in range(min(LONG, len(needle))):
                places.setdefault(needle[max(at - 1, 0) : at + 1], []).append((needle, at))
        return cls(
            names,
            frozenset(needle[:size] for needle in names for size in range(1, HEAD_BYTES + 1)),
            frozenset(
                int.from_bytes(needle[start : start + BLOCK], sys.byteorder)
                for needle in long
                for start in range(BLOCK)
            ),
            tuple(names.keys() - set(long)),
            places,
            LONGEST_ESCAPE * max((len(secret.encode()) for secret in usable), default=0),
            LONGEST_ESCAPE * max(map(len, names), default=0),
        )

    def find(self, data: bytes) -> list[Span]:
        """(start, end, name) of all that is there, by where it starts, the longest first."""
        escapes = [one for one in ESCAPES if one.sign in data]
        starts: set[tuple[int, bytes]] = set()  # where a needle may stand, and which
        blocks = memoryview(data)[: len(data) // BLOCK * BLOCK].cast("Q")
        for needle in self.short if self.blocks.isdisjoint(blocks) else self.names:
            start = data.find(head := needle[:LONG])
            while start >= 0:
                starts.add((start, needle))
                start = data.find(head, start + 1)
        for escape in escapes:
            for found in escape.pattern.finditer(data):
                at, letter = found.start(), escape.read(found[1])[:1]
                for key in {letter, data[max(at - 1, 0) : at] + letter}:
                    for needle, before in self.places.get(key, ()):
                        if before <= at and data.startswith(needle[:before], at - before):
                            starts.add((at - before, needle))
        spans: set[Span] = set()
        for start, needle in starts:
            ends = [one.follow(data, start, needle, len(data)) for one in (AS_IS, *escapes)]
            spans |= {(start, end, self.names[needle]) for end in ends if end > 0}
        return sorted(spans, key=lambda span: (span[0], -span[1]))

    def find_partial(self, data: bytes) -> int:
        """Where the earliest string begins that goes on behind the end; the end when none does."""
        first = max(0, len(data) - self.reach + 1)
        cut = UNFINISHED.search(data, first)
        until = cut.start() if cut else len(data)
        escapes = [one for one in ESCAPES if data.find(one.sign, first) >= 0]
        for start in range(first, until):
            head = data[start : start + HEAD_BYTES]
            if head in self.heads or (escapes and SIGN.search(head)):
                for escape in (AS_IS, *escapes):
                    found = escape.pattern.match(data, start)
                    letter = escape.read(found[1])[:1] if found else head[:1]
                    for needle, _ in self.places.get(letter, ()):
                        if not escape.follow(data, start, needle, until):
                            return start
        return until


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

    def look(self, *, anew: bool = False) -> Needles:
        """What is looked for. `anew`: with the secrets that there are by now."""
        at = monotonic() if self.look_every_s else 0.0
        if not anew and at - self._looked_at < self.look_every_s:
            return self._needles
        secrets, needles = self.source(), self._needles
        if secrets is not self._secrets:
            # Last: another thread that asks meanwhile looks, too, and does not take the old ones.
            self._needles = needles = Needles.build(secrets)
            self._secrets = secrets
        self._looked_at = at
        return needles

    def redact_text(self, text: str, needles: Needles | None = None) -> str:
        """Without any secret; the very same text if none is there. `needles`: of a look at the
        source that was just made.
        """
        needles = needles or self.look()
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

    def redact_value(self, thing: T) -> T:
        """The same with every text in it cleaned: a dataclass, a tuple, a list, a mapping. The very
        thing if none is there.
        """
        needles = self.look()  # of one look at the source, however many texts there are
        return cast(T, self._redact(thing, needles)) if needles.names else thing

    def _redact(self, thing: Any, needles: Needles) -> object:
        kind, cleaned = type(thing), thing
        if kind is str:
            return self.redact_text(thing, needles)
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
            changed = {
                name: new
                for name in names
                if type(item := getattr(thing, name)) not in PLAIN
                and (new := self._redact(item, needles)) is not item
            }
            return replace(thing, **changed) if changed else thing
        return thing if cleaned == thing else cleaned

    def is_clean(self, texts: Iterable[str]) -> bool:
        """No secret is in any of them, as is known now."""
        return all(self.redact_text(text) is text for text in {*texts} - self.look(anew=True).clean)


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
        needles = self.redactor.look()
        if not (needles.names or self._held or self._skip):
            return chunk
        data = self._held + chunk.encode("utf-8", "surrogatepass")
        until = needles.find_partial(data)
        self._held = data[until:]
        return self.remove(data, needles.find(data), until)

    def flush(self) -> str:
        """The rest: nothing more will come."""
        data, self._held = self._held, b""
        rest = self.remove(data, self.redactor.look().find(data), len(data))
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
