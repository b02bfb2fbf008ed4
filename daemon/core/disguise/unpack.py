"""What is packed in a text: escapes are read, encoded and compressed words are opened, also in each
other, within a budget. Pure.
"""

import html
import re
import zlib
from base64 import a85decode, b32decode, b64decode, b85decode
from binascii import Error as NotEncoded
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote

DEPTH = 3
MAX_UNPACKED = 200_000
MAX_OPENED = 64
GZIP_OR_ZLIB = zlib.MAX_WBITS + 32
GZIP, BZIP2, XZ = b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\0"
MAX_MEMORY, MAX_BARE = 64 << 20, 4096
ESCAPED = re.compile(
    r"(?:\\u\{?|\\x\{?|\\U000|\\u00|U\+|=|%u|\\)([0-9A-Fa-f]{6}|[0-9A-Fa-f]{2,5})\}?"
)
OCTAL = re.compile(r"\\0?([0-3][0-7]{2})")
PACKED = re.compile(r"[A-Za-z0-9+/_-]{8,}")
WIDE_WORD = re.compile(r"[!-~]{10,}")


class TooMuchPacked(Exception):
    """To open all of it would keep everything else waiting."""


@dataclass(slots=True)
class Opener:
    """Opens what is packed in one text: so many `chars` in all, whatever is packed in what."""

    chars: int
    tries: int = MAX_OPENED
    known: dict[str, list[str]] = field(default_factory=dict)
    raws: list[bytes] = field(default_factory=list)

    def unpack(self, text: str) -> list[str]:
        """The text, and what is in it once escapes are read and packed parts are opened. Raises
        TooMuchPacked.
        """
        layers = [text]
        fresh = layers
        for _ in range(DEPTH):
            found = [new for one in fresh for new in (_unescape(one), self._open(one)) if new]
            fresh = [one[:MAX_UNPACKED] for one in dict.fromkeys(found) if one not in layers]
            self._take(sum(map(len, fresh)))
            layers = layers + fresh
            if not fresh:
                break
        return layers

    def _take(self, chars: int) -> None:
        self.chars -= chars
        if self.chars < 0 or self.tries < 0:
            raise TooMuchPacked

    def _open(self, text: str) -> str:
        """The words that are base64, hexadecimal or either of those around gzip, opened."""
        opened: list[str] = []
        for words in (text, "".join(text.split())):
            for word in dict.fromkeys(PACKED.findall(words)):
                if word not in self.known:
                    self.known[word] = list(self._open_word(word))
                opened += self.known[word]
        for word in dict.fromkeys(WIDE_WORD.findall(text)):
            if word not in self.known and not PACKED.fullmatch(word):
                self.known[word] = list(self._open_wide(word))
            opened += self.known.get(word, ())
        return "\n".join(dict.fromkeys(opened))

    def _open_word(self, word: str) -> Iterator[str]:
        plain = word.replace("-", "+").replace("_", "/")
        ways: list[bytes] = []
        with suppress(ValueError, NotEncoded):
            ways.append(b64decode(plain[: len(plain) - (len(plain) % 4 == 1)] + "==="))
        with suppress(ValueError, NotEncoded):
            ways.append(bytes.fromhex(word))
        yield from self._show(ways, 0.7)
        with suppress(ValueError, NotEncoded):
            yield from self._show([b32decode(word.upper() + "=" * (-len(word) % 8))], 1.0)

    def _open_wide(self, word: str) -> Iterator[str]:
        """Base85, which uses most signs."""
        ways: list[bytes] = []
        for decode in (b85decode, a85decode):
            with suppress(ValueError, NotEncoded):
                ways.append(decode(word))
        yield from self._show(ways, 1.0)

    def _show(self, ways: Iterable[bytes], least: float) -> Iterator[str]:
        """As text, where that much of it can be printed."""
        for raw in ways:
            if len(raw) <= MAX_BARE:  # what is more is a picture, say
                self.raws.append(raw)
            raw = self._decompress(raw) or raw
            shown = raw.replace(b"\0", b"").decode("latin-1")
            if len(shown) >= 4 and sum(map(str.isprintable, shown)) >= least * len(shown):
                yield shown

    def _decompress(self, raw: bytes) -> bytes:
        """What is in gzip, zlib, bzip2 or xz; all else as it is."""
        is_zlib = raw[:1] == b"x" and not int.from_bytes(raw[:2]) % 31
        is_gzip, is_bz2, is_xz = (raw.startswith(head) for head in (GZIP, BZIP2, XZ))
        if not (is_zlib or is_gzip or is_bz2 or is_xz):
            return _inflate(raw) if len(raw) <= MAX_BARE and not raw.isascii() else raw
        self.tries -= 1
        self._take(0)
        import bz2  # lazy: rarely needed
        import lzma  # lazy: rarely needed

        most = self.chars + 1
        try:
            if is_bz2:
                raw = bz2.BZ2Decompressor().decompress(raw, most)
            elif is_xz:
                raw = lzma.LZMADecompressor(memlimit=MAX_MEMORY).decompress(raw, most)
            else:
                raw = zlib.decompressobj(GZIP_OR_ZLIB).decompress(raw, most)
        except (zlib.error, OSError, EOFError, lzma.LZMAError):
            return raw
        self._take(len(raw))
        return raw


def _inflate(raw: bytes) -> bytes:
    """What was packed without any head that says so; b"" for what was not."""
    opener = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        found = opener.decompress(raw, 10 * MAX_BARE)
    except zlib.error:
        return b""
    return found if opener.eof and found.isascii() else b""


def _unescape(text: str) -> str:
    text = html.unescape(text) if "&" in text else text
    text = unquote(text, errors="replace") if "%" in text else text
    if "\\" in text or "=" in text or "+" in text or "%" in text:
        text = re.sub(r"=\r?\n", "", text)
        text = OCTAL.sub(lambda found: chr(int(found[1], 8)), text)
        text = ESCAPED.sub(lambda found: make_sign(int(found[1], 16)), text)
    return text


def make_sign(code: int) -> str:
    """The sign of this code; nothing where there is none."""
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else ""
