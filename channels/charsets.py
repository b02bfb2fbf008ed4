"""Charsets of mails, files and pages: which codec reads what bears a name, or none."""

import codecs
import re
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any

JIS = "iso2022_jp_ms"
CODECS = {
    "gb2312": "gb18030", "gbk": "gb18030", "iso8859-1": "cp1252", "iso8859-9": "cp1254",
    "iso8859-11": "cp874", "tis-620": "cp874", "euc_kr": "cp949", "shift_jis": "cp932",
    "big5": "big5hkscs", "iso2022_jp": JIS, "iso2022_jp_ext": JIS, "cp50220": JIS, "cp50221": JIS,
    "cp50222": JIS, "iso-2022-jp-ms": JIS,
    "x-gbk": "gbk", "gb_2312-80": "gbk", "iso-8859-8-i": "iso8859-8", "windows-874": "cp874",
    "dos-874": "cp874", "x-sjis": "cp932", "windows-31j": "cp932", "ms_kanji": "cp932",
    "windows-949": "cp949", "ks_c_5601-1989": "cp949", "korean": "cp949", "x-x-big5": "big5",
    "cn-big5": "big5", "x-euc-jp": "euc_jp", "koi8-ru": "koi8-u", "x-mac-roman": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic", "unicode-1-1-utf-8": "utf-8", "macintosh": "mac_roman",
}  # fmt: skip
"""By Python's name of a charset, or one that mails bear and Python does not know, the codec that
reads all that is sent under this name, as the Encoding Standard of the web has it.
"""
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""What Unicode texts may begin with."""
NO_CHARSETS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape")
"""Of texts, too, but nothing is sent so; some take minutes."""
META = re.compile(rb"<meta\s[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
MAX_META, MAX_GUESS, MAX_LEAD = 4_096, 20_000, 200
LETTER = re.compile(rb"[\x80-\xff]")
WESTERN, LEAST_SURE, AHEAD, UNREADABLE = "cp1252", 0.03, 1.5, "\ufffd"
PLAIN = b"\\~{+AGE-\x1b$B0!"  # no other signs in a charset that is guessed
CUT_FIRST = re.compile(rb"\A[\x80-\xbf]{1,3}")  # of a letter in UTF-8, what a cut has left
CUT_LAST = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")
LATIN_END, HIGH = "\u0250", [bytes([one]) for one in range(0x80, 0x100)]
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # no text of the old encodings has any
ESCAPES = re.compile(rb"\x1b(\$[@B]|\([BJI])")
KANJI, KANA = (b"$@", b"$B"), b"(I"


def find_codec(charset: str) -> str:
    """The codec that reads what is sent under this name, "" where none is known."""
    name = charset.casefold()
    try:
        known = codecs.lookup(CODECS.get(name, name)).name
        b"\0\0\0\0".decode(known)  # hex, zlib and the like are none of texts
    except (LookupError, ValueError):
        return ""
    return CODECS.get(known, known if known not in NO_CHARSETS else "")


def list_codecs(raw: bytes, charset: str, *, is_html: bool) -> list[str]:
    """Those that may read it: by its first bytes, by the charset of its head, by what HTML says of
    itself.
    """
    names = [codec for mark, codec in MARKS if raw.startswith(mark)]
    names += [charset] if charset else []
    if is_html and (meta := META.search(raw[:MAX_META])):
        name = meta[1].decode("latin-1")
        names.append("utf-8" if name.casefold().startswith(("utf-16", "utf-32")) else name)
    return list(dict.fromkeys(filter(None, map(find_codec, (*names, "utf-8")))))


def guess_codec(raw: bytes, *, keeps_ascii: bool = False) -> str:
    """Of a text that names no charset: UTF-8 where most of it can be read so, else the one in which
    its letters are those of a language; the Western one, if no other fits much better. What is no
    text has none. `keeps_ascii`: none in which an ASCII letter may be a part of another.
    """
    from chardet import EncodingEra, detect_all  # lazy: few texts need it

    part = _take_telling(raw)
    if _is_utf8(part[1:]):
        return "utf-8"
    if CONTROL.search(raw):
        return ""
    part = part.replace(b"\x1b", b"")
    found = detect_all(
        part, ignore_threshold=True, encoding_era=EncodingEra.MODERN_WEB, prefer_superset=True
    )
    fits = {find_codec(one["encoding"] or ""): one["confidence"] for one in reversed(found)}
    least = max(LEAST_SURE, AHEAD * fits.get(WESTERN, 0.0))
    may_be = _is_apart if keeps_ascii else _is_plain
    for codec in sorted(fits, key=fits.__getitem__, reverse=True):
        if fits[codec] >= least and may_be(codec) and _is_readable(codec, part):
            return codec
    return WESTERN


def _is_utf8(part: bytes) -> bool:
    """At least half of its letters are, or what a cut has left of one."""
    core = CUT_LAST.sub(b"", CUT_FIRST.sub(b"", part))
    if core.isascii():
        return len(part) - len(core) > 1
    text = core.decode("utf-8", "replace")
    return 2 * text.count(UNREADABLE) <= len(text) - len(text.encode("ascii", "ignore"))


@cache
def _is_plain(codec: str) -> bool:
    """What is ASCII alone stays that."""
    return bool(codec) and PLAIN.decode(codec, "replace") == PLAIN.decode()


@cache
def _is_apart(codec: str) -> bool:
    """An ASCII letter stays that behind any sign, too."""
    return _is_plain(codec) and all("A" in (one + b"A").decode(codec, "replace") for one in HIGH)


def _is_readable(codec: str, part: bytes) -> bool:
    """All of it can be read so, and its words are not of two scripts."""
    text = part.decode(codec, "replace")
    if UNREADABLE in text[:-1]:
        return False
    kinds = [one < LATIN_END if one.isalpha() else None for one in text]
    others = kinds.count(False)
    mixed = sum({*pair} == {True, False} for pair in pairwise(kinds))
    return 2 * mixed < others or not others


def _take_telling(raw: bytes) -> bytes:
    """Of its lines those with letters other than ASCII's, up to a limit."""
    part, at = bytearray(), 0
    while len(part) < MAX_GUESS and (found := LETTER.search(raw, at)):
        first = found.start()
        begin = max(raw.rfind(b"\n", at, first) + 1, at, first - MAX_LEAD)
        end = raw.find(b"\n", first, first + MAX_GUESS)
        at = end if end >= 0 else first + MAX_GUESS
        part += b"\n" + raw[begin:at]
    return bytes(part[:MAX_GUESS])


def decode_text(
    raw: bytes, charset: str = "", *, is_html: bool = False, keeps_ascii: bool = False
) -> tuple[str, str]:
    """The text and its codec, whatever it is written in; signs that cannot be read are replaced.
    The codec is "" for what is no text. `keeps_ascii`: see guess_codec.
    """
    known = list_codecs(raw, charset, is_html=is_html)
    for codec in known:
        with suppress(LookupError, ValueError):
            return raw.decode(codec), codec
    codec = known[0]
    if codec in ("ascii", "utf-8"):
        codec = guess_codec(raw, keeps_ascii=keeps_ascii)
    return raw.decode(codec or "utf-8", "replace"), codec


def is_wide(raw: bytes) -> bool:
    """It says that it is UTF-16."""
    return raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def decode_jis(data: Any, errors: str = "strict", /) -> tuple[str, int]:
    """ISO-2022-JP with the signs of Windows, such as numbers in circles, which most programs send
    under its name.
    """
    raw = bytes(data)
    try:
        return raw.decode("iso2022_jp_ext"), len(raw)
    except UnicodeDecodeError:
        first, *rest = ESCAPES.split(raw)
    parts = [first.decode("ascii", errors)]
    for mode, part in zip(rest[::2], rest[1::2], strict=True):
        if mode in KANJI:
            part = b"".join(_to_windows(*pair) for pair in zip(part[::2], part[1::2], strict=False))
        elif mode == KANA:
            part = bytes(sign | 0x80 for sign in part)
        parts.append(part.decode("cp932", errors))
    return "".join(parts), len(raw)


def _to_windows(first: int, second: int) -> bytes:
    """A sign of JIS X 0208, in Windows' encoding."""
    row, cell = first - 0x21, second - 0x21
    if not (0 <= row < 94 and 0 <= cell < 94):
        return bytes((first, second))
    lead = row // 2 + (0x81 if row < 62 else 0xC1)
    return bytes((lead, cell + 0x9F if row % 2 else cell + 0x40 + (cell >= 63)))


def _find_jis(name: str) -> codecs.CodecInfo | None:
    if name != JIS:
        return None
    return codecs.CodecInfo(codecs.lookup("iso2022_jp_ext").encode, decode_jis, name=JIS)


codecs.register(_find_jis)
