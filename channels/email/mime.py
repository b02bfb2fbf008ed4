"""The pieces of a mail: its tree of parts, its headers, and the text of one part. Each piece has
little time, for a mail may be made to cost much.
"""

import re
import signal
from base64 import b64decode, b64encode
from binascii import a2b_qp
from collections.abc import Callable, Sequence
from email import errors
from email.message import EmailMessage
from email.parser import BytesFeedParser
from email.policy import EmailPolicy
from time import process_time
from typing import TypeVar

from channels.charsets import CODECS, WESTERN, find_codec, guess_codec, list_codecs

T = TypeVar("T")
PIECE_S, LAST_S = 1.5, 0.05
CHUNK, MAX_LONG_VALUE, MAX_VALUE, MAX_HEADER, MAX_PARTS = 8_192, 20_000, 4_000, 900, 200
MAX_BYTES = 4_000_000
LONG_HEADERS = frozenset(("references", "in-reply-to", "to", "cc"))
ENCODING, WORD = "content-transfer-encoding", re.compile(r"[\w-]+")
ENCODED = re.compile(r"\s*[A-Za-z0-9+/]+={0,2}\s*")
FULL = 60  # characters of a line of base64 that another follows, at least
PADDED, NO_LETTERS = re.compile(r"(?<==)\s+"), re.compile(r"[^A-Za-z0-9+/]")
NAMING = ("content-type", "content-disposition")
UNQUOTED = re.compile(
    r'"(?:[^"\\]|\\.)*"|(;\s*(?:file)?name\s*=\s*)([^\s;="][^;="]*)', re.IGNORECASE | re.DOTALL
)
"""A quoted text, or the name of a file without quotes."""
SPLIT = re.compile(
    r"=\?(?!utf-8\?)([\w.:-]{1,40})\?([bq])\?[^?\s]*\?=(?:\s+=\?\1\?\2\?[^?\s]*\?=)+",
    re.IGNORECASE,
)
"""Encoded words in a row: some programs cut a text between the bytes of one letter."""
NAMED = re.compile(
    r"(=\?)([\w.:-]{1,40})(?=(?:\*[\w-]{0,20})?\?[bBqQ]\?)|(\*=\s*)([\w.:-]{1,40})(?=')"
)


class TooSlow(Exception):
    """A piece of a mail takes too long to read."""


BROKEN = (
    TooSlow, errors.MessageError, ValueError, LookupError, AttributeError, TypeError,
    AssertionError, RecursionError, OverflowError,
)  # fmt: skip


class ParseLimit:
    """The time of the processor that one mail gets, piece by piece."""

    ends = 0.0

    @staticmethod
    def stop(*_: object) -> None:
        """The time is over."""
        raise TooSlow

    @classmethod
    def attempt(cls, work: Callable[[], T], otherwise: T) -> T:
        """What `work` gives; `otherwise` where the mail is made to break it, or to take long."""
        try:
            left = max(LAST_S, min(PIECE_S, cls.ends - process_time()))
            signal.setitimer(signal.ITIMER_PROF, left)
            try:
                return work()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except BROKEN:
            return otherwise


def _quote_name(found: re.Match[str]) -> str:
    """A file name of several words, which programs leave without quotes."""
    if not found[1]:
        return found[0]
    words = found[2].split()
    return found[1] + (f'"{" ".join(words)}"' if len(words) > 1 else found[2])


def _name_codec(found: re.Match[str]) -> str:
    lead, charset = found[1] or found[3], found[2] or found[4]
    codec = find_codec(charset)
    return lead + (codec if codec in CODECS.values() else charset)


def _join_words(found: re.Match[str]) -> str:
    """Encoded words in a row, as one."""
    pieces = [word.split("?")[3] for word in found[0].split()]
    is_quoted = found[2] in "qQ"
    try:
        data = b"".join(
            a2b_qp(one, header=True) if is_quoted else b64decode(one + "===") for one in pieces
        )
    except ValueError:
        return found[0]
    return f"=?{found[1]}?B?{b64encode(data).decode()}?="


class Careful(EmailPolicy):
    """Headers are cut to a length that is soon read; bytes in them are UTF-8, or what Windows
    writes; one that cannot be read is plain text.
    """

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """A header as it came."""
        name, text = super().header_source_parse(sourcelines)
        if name.casefold() == ENCODING and (word := WORD.search(text)):
            return name, word[0]
        if name.casefold() in NAMING:
            text = UNQUOTED.sub(_quote_name, text)
        is_long = name.casefold() in LONG_HEADERS
        raw = text[: MAX_LONG_VALUE if is_long else MAX_VALUE].encode("ascii", "surrogateescape")
        try:
            return name, SPLIT.sub(_join_words, NAMED.sub(_name_codec, raw.decode()))
        except UnicodeError:
            return name, raw.decode(guess_codec(raw) or WESTERN, "replace")  # timed with the mail

    def header_fetch_parse(self, name: str, value: str) -> str:
        """A header as it is read."""
        try:
            return super().header_fetch_parse(name, value[:MAX_VALUE])
        except BROKEN:
            return " ".join(value.split())


POLICY = Careful()


def parse(raw: bytes) -> tuple[EmailMessage, bool]:
    """The mail, up to as many parts as we look at, and whether that is all of it."""
    made: list[EmailMessage] = []

    def make(policy: EmailPolicy = POLICY) -> EmailMessage:
        made.append(EmailMessage(policy))
        return made[-1]

    parser = BytesFeedParser(make, policy=POLICY)
    at = 0
    while at < len(raw) and len(made) <= MAX_PARTS:
        parser.feed(raw[at : at + CHUNK])
        at += CHUNK
    message = parser.close()
    assert isinstance(message, EmailMessage)
    return message, at >= len(raw)


def header(message: EmailMessage, name: str) -> str:
    """A header in one line; "" for none."""
    return " ".join(str(message.get(name) or "").split())[:MAX_HEADER]


def read_text(part: EmailMessage) -> str:
    """The text of a part, whatever its charset claims."""
    data = part.get_payload(decode=True)
    raw = data[:MAX_BYTES] if isinstance(data, bytes) else b""
    if header(part, ENCODING).casefold() == "base64":
        raw = ParseLimit.attempt(lambda: _decode_base64(str(part.get_payload())), raw)[:MAX_BYTES]
    charset = ParseLimit.attempt(lambda: str(part.get_content_charset("")), "")
    known = list_codecs(raw, charset, is_html="html" in part.get_content_subtype())
    text = _decode(raw, known).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    if part.get_content_type() == "text/plain":
        named = ParseLimit.attempt(lambda: dict(part["Content-Type"].params), {})
        if str(named.get("format", "")).casefold() == "flowed":
            return unfold(text, joins=str(named.get("delsp", "")).casefold() == "yes")
    return text


def _decode_base64(text: str) -> bytes:
    """One block or several; the last may break off. What a server has added below is as it is."""
    lines = text.splitlines()
    full = [n for n, line in enumerate(lines) if len(line) >= FULL and ENCODED.fullmatch(line)]
    first = full[-1] + 1 if full else 0  # a line with an odd sign between full ones is encoded, too
    bare = (n for n, line in enumerate(lines) if line.strip() and not ENCODED.fullmatch(line))
    end = next((n for n in bare if n >= first), len(lines))
    blocks = (NO_LETTERS.sub("", one) for one in PADDED.split("\n".join(lines[:end])))
    whole = (one[:-1] if len(one) % 4 == 1 else one for one in blocks)
    data = b"".join(b64decode(one + "=" * (-len(one) % 4)) for one in whole)
    return data + "".join(f"\n{one}" for one in lines[end:]).encode("utf-8", "surrogateescape")


SIGNED = bytes.fromhex("2a864886f70d010702")
"""The name of signed data in CMS (RFC 5652)."""
TNEF, TITLE, BODY = bytes.fromhex("789f3e22"), 0x18010, 0x2800C
Element = tuple[int, "bytes | list[Element]"]


def open_signed(data: bytes) -> bytes:
    """What is signed in it. Raises ValueError for what is not signed, encrypted perhaps, and
    LookupError for what breaks off.
    """
    match _read_element(data, 0)[0]:
        case (_, [(6, name), (_, [(_, [_, _, (_, [_, (_, [content])]), *_])])]) if name == SIGNED:
            return _join_octets(content)
    raise ValueError("it is not signed")


def _read_element(data: bytes, at: int) -> tuple[Element, int]:
    """An element of BER, and where it ends."""
    tag, length, at = data[at], data[at + 1], at + 2
    is_open = length == 0x80  # it goes on until two zeros
    if length > 0x80:
        length, at = int.from_bytes(data[at : at + length - 0x80]), at + length - 0x80
    end = len(data) if is_open else at + length
    if end > len(data):
        raise IndexError("it breaks off")
    if not tag & 0x20:
        return (tag, data[at:end]), end
    inner = list[Element]()
    while at < end and not (is_open and data[at : at + 2] == b"\0\0"):
        element, at = _read_element(data, at)
        inner.append(element)
    return (tag, inner), at + 2 * is_open


def _join_octets(element: Element) -> bytes:
    held = element[1]
    return held if isinstance(held, bytes) else b"".join(map(_join_octets, held))


def read_package(data: bytes) -> tuple[str, list[str]]:
    """The text of Outlook's winmail.dat, and the names of the files in it."""
    if not data.startswith(TNEF):
        raise ValueError("it is no package")
    at, text, names = 6, "", list[str]()
    while at + 9 <= len(data):
        kind, size = (int.from_bytes(data[n : n + 4], "little") for n in (at + 1, at + 5))
        held = data[at + 9 : at + 9 + size]
        at += 9 + size + 2
        if kind in (TITLE, BODY):
            shown = _decode(held.split(b"\0")[0], ["utf-8"]).strip()
            text, names = (shown, names) if kind == BODY else (text, [*names, shown])
    return text, names


def _decode(raw: bytes, known: Sequence[str]) -> str:
    """By the first that reads all of it; a letter at its end may be cut in two."""
    for codec in known:
        for missing in range(4):
            data = raw[: len(raw) - missing]
            text = ParseLimit.attempt(lambda codec=codec, data=data: data.decode(codec), None)
            if text is not None:
                return text
    text = None
    if known[0] not in ("ascii", "utf-8"):
        text = ParseLimit.attempt(lambda: raw.decode(known[0], "replace"), None)
    if text is not None:
        return text
    return raw.decode(ParseLimit.attempt(lambda: guess_codec(raw), "") or WESTERN, "replace")


def unfold(text: str, *, joins: bool) -> str:
    """The paragraphs of a text of RFC 3676 (format=flowed), each in one line. `joins`: the space at
    the end of a line is none of the text (DelSp).
    """
    lines: list[str] = []
    depth, is_open = 0, False
    for line in text.split("\n"):
        rest = line.lstrip(">")
        level, rest = len(line) - len(rest), rest.removeprefix(" ")
        is_flowed = rest.endswith(" ") and rest != "-- "
        shown = rest[:-1] if is_flowed and joins else rest
        if is_open and level == depth and rest != "-- ":
            lines[-1] += shown
        else:
            lines.append(f"{'>' * level}{' ' * bool(level and shown)}{shown}")
        depth, is_open = level, is_flowed
    return "\n".join(lines)
