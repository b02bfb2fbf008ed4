"""The pieces of a mail: its tree of parts, its headers, and the text of one part. Each piece has
little time, for a mail may be made to cost much.
"""

import codecs
import re
import signal
from base64 import b64decode
from collections.abc import Callable
from email import errors
from email.message import EmailMessage
from email.parser import BytesFeedParser
from email.policy import EmailPolicy
from time import process_time
from typing import TypeVar

T = TypeVar("T")
PIECE_S, LAST_S = 1.5, 0.05
CHUNK, MAX_LONG_VALUE, MAX_VALUE, MAX_HEADER, MAX_PARTS = 8_192, 20_000, 4_000, 900, 200
MAX_BYTES = 4_000_000
LONG_HEADERS = frozenset(("references", "in-reply-to", "to", "cc"))
CODECS = {
    "gb2312": "gb18030", "gbk": "gb18030", "iso8859-1": "cp1252", "iso8859-9": "cp1254",
    "iso8859-11": "cp874", "tis-620": "cp874", "euc_kr": "cp949", "shift_jis": "cp932",
    "big5": "big5hkscs", "iso2022_jp": "iso2022_jp_ext",
    "x-gbk": "gbk", "gb_2312-80": "gbk", "iso-8859-8-i": "iso8859-8", "windows-874": "cp874",
    "dos-874": "cp874", "x-sjis": "cp932", "windows-31j": "cp932", "ms_kanji": "cp932",
    "windows-949": "cp949", "ks_c_5601-1989": "cp949", "korean": "cp949", "x-x-big5": "big5",
    "cn-big5": "big5", "x-euc-jp": "euc_jp", "koi8-ru": "koi8-u", "x-mac-roman": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic", "unicode-1-1-utf-8": "utf-8", "macintosh": "mac_roman",
}  # fmt: skip
"""By Python's name of a charset, or one that mails bear and Python does not know, the codec that
reads all that is sent under this name, as the Encoding Standard of the web has it.
"""
NAMED = re.compile(
    r"(=\?)([\w.:-]{1,40})(?=(?:\*[\w-]{0,20})?\?[bBqQ]\?)|(\*=\s*)([\w.:-]{1,40})(?=')"
)


class TooSlow(Exception):
    """A piece of a mail takes too long to read."""


BROKEN = (
    TooSlow, errors.MessageError, ValueError, LookupError, AttributeError, TypeError,
    AssertionError, RecursionError, OverflowError,
)  # fmt: skip


class Work:
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


def find_codec(charset: str) -> str:
    """The codec that reads what is sent under this name, "" where none is known."""
    name = charset.casefold()
    try:
        known = codecs.lookup(CODECS.get(name, name)).name
    except (LookupError, ValueError):
        return ""
    return CODECS.get(known, known)


def _name_codec(found: re.Match[str]) -> str:
    lead, charset = found[1] or found[3], found[2] or found[4]
    codec = find_codec(charset)
    return lead + (codec if codec in CODECS.values() else charset)


class Careful(EmailPolicy):
    """Headers are cut to a length that is soon read; bytes in them are UTF-8, or what Windows
    writes; one that cannot be read is plain text.
    """

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """A header as it came."""
        name, text = super().header_source_parse(sourcelines)
        is_long = name.casefold() in LONG_HEADERS
        raw = text[: MAX_LONG_VALUE if is_long else MAX_VALUE].encode("ascii", "surrogateescape")
        try:
            return name, NAMED.sub(_name_codec, raw.decode())
        except UnicodeError:
            return name, raw.decode("cp1252", "replace")

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
    if any(isinstance(one, errors.InvalidBase64LengthDefect) for one in part.defects):
        letters = re.sub(rb"[^A-Za-z0-9+/]", b"", raw)
        raw = b64decode(letters[: len(letters) // 4 * 4])  # it breaks off
    codec = Work.attempt(lambda: find_codec(str(part.get_content_charset("") or "utf-8")), "")
    text = _decode(raw, codec).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    if part.get_content_type() == "text/plain":
        named = Work.attempt(lambda: dict(part["Content-Type"].params), {})
        if str(named.get("format", "")).casefold() == "flowed":
            return unfold(text, joins=str(named.get("delsp", "")).casefold() == "yes")
    return text


def _decode(raw: bytes, codec: str) -> str:
    for one in (codec, "utf-8"):
        for missing in range(4 if one else 0):  # a letter at its end may be cut in two
            data = raw[: len(raw) - missing]
            text = Work.attempt(lambda one=one, data=data: data.decode(one), None)
            if text is not None:
                return text
    if codec in ("", "ascii", "utf-8"):
        return raw.decode("cp1252", "replace")
    text = Work.attempt(lambda: raw.decode(codec, "replace"), None)
    return raw.decode("cp1252", "replace") if text is None else text


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
