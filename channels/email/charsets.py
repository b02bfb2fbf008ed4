"""Charsets of mails: which codec reads what is sent under a name, and what stands in the text."""

import codecs
import re
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
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""What Unicode texts may begin with."""
NO_CHARSETS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape")
"""Of texts, too, but nothing is sent so; some take minutes."""
META = re.compile(rb"<meta\s[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
MAX_META = 4_096
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
        names.append(meta[1].decode("latin-1"))
    return list(dict.fromkeys(filter(None, map(find_codec, (*names, "utf-8")))))


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
