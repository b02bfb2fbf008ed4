"""A secret that comes back in another spelling: turned round, shifted, spaced out, split up,
counted out in numbers, packed. Pure.

Whoever is sent a secret may answer with it in any spelling, and a model reads most of them. What
comes from outside is therefore also looked at folded: unescaped and unpacked up to three times,
letters and digits only, in small letters. A text that holds a secret in such a way cannot be
cleaned word by word; the caller withholds the whole of it.
"""

import html
import re
import unicodedata
import zlib
from base64 import a85encode, b32encode, b32hexencode, b64decode, b64encode, b85encode
from binascii import Error as NotEncoded
from binascii import b2a_uu
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

from daemon.core import value

HEAD = 8
WORD_CHARS = 12
DEPTH = 3
MAX_UNPACKED = 200_000
MAX_OPENED = 64
GZIP_OR_ZLIB = zlib.MAX_WBITS + 32
ANY = "*"  # no name of a secret
MAX_SIGNS = 30
HIDDEN_SIGNS = "\u0f73\u0f75\u0f81\uff9e\uff9f"  # signs only once they are taken apart
LETTERS: str = "abcdefghijklmnopqrstuvwxyz"
DIGITS: str = "0123456789"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
BASE62 = DIGITS + LETTERS.upper() + LETTERS
FLAGS = "".join(chr(0x1F1E6 + at) for at in range(26))
LOOKALIKES = str.maketrans(
    "аеорсухікмнтвгαορνικτ" + "ᴀʙᴄᴅᴇғꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡʏᴢ" + FLAGS,
    "aeopcyxikmhtbraopvikt" + "abcdeffghijklmnopqrstuvwyz" + LETTERS,
)
LEET = str.maketrans("0134578@$", "oieastbas")
MORSE_SIGNS = str.maketrans({"·": ".", "•": ".", "−": "-", "–": "-", "—": "-", "_": "-"})
MORSE_ROW = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .--"
    " -..- -.-- --.. ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
)
MORSE: dict[str, str] = dict(zip(LETTERS + DIGITS, MORSE_ROW.split(), strict=True))
NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SPOKEN: dict[str, str] = {word: str(number) for number, word in enumerate(NUMBER_WORDS)}
ESCAPED = re.compile(
    r"(?:\\u\{?|\\x\{?|\\U000|\\u00|U\+|=|%u|\\)([0-9A-Fa-f]{6}|[0-9A-Fa-f]{2,5})\}?"
)
OCTAL = re.compile(r"\\0?([0-3][0-7]{2})")
PACKED = re.compile(r"[A-Za-z0-9+/_-]{8,}")
NUMBER = re.compile(r"(?<![0-9A-Za-z])(?:0[xXoObB])?([0-9A-Fa-f]{1,8})(?![0-9A-Za-z])")
BASES = (10, 16, 8, 2)
BESIDES = re.compile(
    r"<[^>]{0,200}>|\"[^\"\n]{0,60}\"\s*:|^[ \t]*\W?\d{1,4}[ \t]*[.:)\]|=-]+|\b(?:dash|hyphen|minus"
    r"|underscore|dot|point|plus|slash|equals?|colon|at|capital|upper|lower|uppercase|lowercase"
    r"|space|and|then|comma)\b",
    re.MULTILINE | re.IGNORECASE,
)
WORDS = re.compile(r"\w+")


class TooMuchPacked(Exception):
    """To open all of it would keep everything else waiting."""


def _encode(secret: str) -> bytes:
    return secret.encode("utf-8", "replace")


def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """In this form, in linear time: of more than 30 combining signs in a row the rest is left out,
    for to put them in order takes time by the square of their number.
    """
    if text.isascii():
        return text
    kept, signs = list[str](), 0
    for char in text:
        signs = signs + 1 if unicodedata.combining(char) or char in HIDDEN_SIGNS else 0
        if signs <= MAX_SIGNS:
            kept.append(char)
    return unicodedata.normalize(form, "".join(kept))


def fold(text: str) -> str:
    """Letters and digits, in small letters, those that only look like others among them."""
    if not text.isascii():
        plain = "".join(chr(ord(c) - 0xE0000) if 0xE0000 < ord(c) < 0xE0080 else c for c in text)
        text = normalize("NFKD", normalize("NFKC", plain)).translate(LOOKALIKES)
    return "".join(filter(str.isalnum, text.casefold().translate(LOOKALIKES)))


def _tighten(text: str) -> str:
    return "".join(text.split()).casefold()


def _shift(text: str, by: int, digits: int = 0) -> str:
    turned = LETTERS[by:] + LETTERS[:by], DIGITS[digits:] + DIGITS[:digits]
    return text.translate(str.maketrans(LETTERS + DIGITS, "".join(turned)))


def _rotate_47(text: str) -> str:
    return "".join(chr(33 + (ord(c) + 14) % 94) if "!" <= c <= "~" else c for c in text)


def _in_base(raw: bytes, alphabet: str) -> str:
    number, found = int.from_bytes(raw), ""
    while number:
        number, rest = divmod(number, len(alphabet))
        found = alphabet[rest] + found
    return found


def _morse(text: str) -> str:
    return "".join(MORSE.get(sign, "") for sign in fold(text))


def _list_packed(raw: bytes) -> Iterator[str]:
    """The spellings of these bytes as a whole."""
    yield from (raw.hex(), b32encode(raw).decode(), b32hexencode(raw).decode())
    yield from (_in_base(raw, base) for base in (BASE58, BASE62, DIGITS, DIGITS + LETTERS))
    yield from ("".join(format(byte, form) for byte in raw) for form in ("d", "03d", "03o", "o"))
    yield from ("".join(format(byte, form) for byte in raw) for form in ("08b", "07b", "b"))
    for ahead in range(3):  # of base64 and base32 what is the same whatever stands around it
        inner = slice(-(-8 * ahead // 6), 8 * (ahead + len(raw)) // 6)
        yield b64encode(bytes(ahead) + raw).decode()[inner]
    for ahead in range(1, 5):
        inner = slice(-(-8 * ahead // 5), 8 * (ahead + len(raw)) // 5)
        yield b32encode(bytes(ahead) + raw).decode()[inner]


def _list_spellings(secret: str) -> Iterator[str]:
    """Folded: how it may be written with letters and digits."""
    plain = fold(secret)
    mirrored = plain.translate(str.maketrans(LETTERS + DIGITS, LETTERS[::-1] + DIGITS[::-1]))
    letters_mirrored = plain.translate(str.maketrans(LETTERS, LETTERS[::-1]))
    for way in (plain, mirrored, letters_mirrored, _shift(plain, 13, 5)):
        yield from (way, way[::-1])
    for by in range(1, len(LETTERS)):
        yield from (_shift(plain, by), _shift(plain, by)[::-1])
    yield from (plain.translate(LEET), plain.translate(LEET)[::-1])
    for raw in (_encode(secret), _encode(secret[::-1])):
        for way in map(fold, _list_packed(raw)):
            yield from (way, way[::-1])
    for wide in ("utf-16-le", "utf-16-be", "utf-32-be"):
        yield fold(secret.encode(wide, "replace").hex())
    size = max(HEAD, len(plain) // 3)
    for way in (plain, plain[::-1]):  # a third of it is too much
        for start in range(len(way) - size + 1):
            piece = way[start : start + size]
            if not (piece.isalpha() and size < WORD_CHARS):  # a word that many texts have
                yield piece


@value
class Disguises:
    """Of one secret: `folded` is looked for among letters and digits, `tight` among all signs but
    spaces, `dots` in Morse.
    """

    folded: tuple[str, ...]
    tight: tuple[str, ...]
    dots: str


@lru_cache(maxsize=256)
def _disguise(secret: str) -> Disguises:
    raw = _encode(secret)
    tight = (
        b85encode(raw).decode(), a85encode(raw).decode(), _rotate_47(secret), secret,
        secret[::-1], _rotate_47(secret)[::-1],
        b2a_uu(raw[:45]).decode()[1:],
    )  # fmt: skip
    kept = dict.fromkeys(one for one in _list_spellings(secret) if len(one) >= HEAD)
    tightened = tuple(one for way in tight if len(one := _tighten(way)) >= HEAD)
    return Disguises(tuple(kept), tightened, _morse(secret))


@lru_cache(maxsize=2)
def _collect(secrets: tuple[tuple[str, str], ...]) -> tuple[frozenset[str], frozenset[str]]:
    """How the spellings of all of them begin: folded, tight."""
    known = [_disguise(secret) for secret, _ in secrets]
    return (
        frozenset(way[:HEAD] for one in known for way in one.folded),
        frozenset(way[:HEAD] for one in known for way in one.tight),
    )


def find_disguised(text: str, secrets: Mapping[str, str]) -> str:
    """The name of a secret that this text holds in some spelling, "" for none; ANY where so much is
    packed in it that it was not looked through. `secrets`: names by value; those of fewer than
    eight letters and digits are not looked for.
    """
    known = tuple((secret, name) for secret, name in secrets.items() if len(fold(secret)) >= HEAD)
    if not known or len(text) < HEAD:
        return ""
    heads, tight_heads = _collect(known)
    try:
        layers = _Opener(8 * len(text) + MAX_UNPACKED).unpack(text)
    except TooMuchPacked:
        return ANY
    for layer in layers:
        for view in dict.fromkeys(_list_views(layer)):
            if _has_head(view, heads):
                for secret, name in known:
                    if any(way in view for way in _disguise(secret).folded):
                        return name
        view = _tighten(layer)
        dots = "".join(c for c in layer.translate(MORSE_SIGNS) if c in ".-")
        is_tight = _has_head(view, tight_heads)
        for secret, name in known:
            ways = _disguise(secret)
            if ways.dots in dots or (is_tight and any(way in view for way in ways.tight)):
                return name
    return ""


def _has_head(view: str, heads: frozenset[str]) -> bool:
    return not heads.isdisjoint([view[at : at + HEAD] for at in range(len(view) - HEAD + 1)])


@dataclass(slots=True)
class _Opener:
    """Opens what is packed in one text: so many `chars` in all, whatever is packed in what."""

    chars: int
    tries: int = MAX_OPENED
    known: dict[str, list[str]] = field(default_factory=dict)

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
        return "\n".join(dict.fromkeys(opened))

    def _open_word(self, word: str) -> Iterator[str]:
        plain = word.replace("-", "+").replace("_", "/")
        ways: list[bytes] = []
        try:
            ways.append(b64decode(plain[: len(plain) - (len(plain) % 4 == 1)] + "==="))
            ways.append(bytes.fromhex(word))
        except (ValueError, NotEncoded):
            pass
        for raw in ways:
            raw = self._decompress(raw)
            shown = raw.replace(b"\0", b"").decode("latin-1")
            if len(shown) >= 4 and sum(map(str.isprintable, shown)) >= 0.7 * len(shown):
                yield shown

    def _decompress(self, raw: bytes) -> bytes:
        """What is in gzip or zlib; all else as it is."""
        is_zlib = raw[:1] == b"x" and not int.from_bytes(raw[:2]) % 31
        if not is_zlib and raw[:3] != b"\x1f\x8b\x08":
            return raw
        self.tries -= 1
        self._take(0)
        opener = zlib.decompressobj(GZIP_OR_ZLIB)
        try:
            raw = opener.decompress(raw, self.chars + 1)
        except zlib.error:
            return raw
        self._take(len(raw))
        return raw


def _unescape(text: str) -> str:
    text = html.unescape(text) if "&" in text else text
    text = unquote(text, errors="replace") if "%" in text else text
    if "\\" in text or "=" in text or "+" in text or "%" in text:
        text = re.sub(r"=\r?\n", "", text)
        text = OCTAL.sub(lambda found: chr(int(found[1], 8)), text)
        text = ESCAPED.sub(lambda found: _sign(int(found[1], 16)), text)
    return text


def _sign(code: int) -> str:
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else ""


def _list_views(text: str) -> Iterator[str]:
    """The same text, folded in the ways in which a reader could put it together."""
    plain = fold(text)
    yield plain
    bare = BESIDES.sub(" ", text)
    if bare != text:
        yield fold(bare)
    if not plain.isalpha():
        yield plain.translate(LEET)
    signs = "".join(text.split())
    for step in (2, 3, 4):  # letters of no meaning in between
        yield from (plain[start::step] for start in range(step))
        if len(signs) != len(plain):
            yield from (fold(signs[start::step]) for start in range(step))
    words = WORDS.findall(bare)
    yield fold("".join(SPOKEN.get(word.lower(), word[0]) for word in words))
    yield fold("".join(SPOKEN.get(word.lower(), word) for word in words))
    yield fold("".join(word[-1] for word in words))
    lines = [line.strip() for line in text.splitlines()]
    yield from (
        fold("".join(line[:1] for line in lines)),
        fold("".join(line[-1:] for line in lines)),
    )
    yield from map(fold, _read_numbers(NUMBER.findall(text)))


def _read_numbers(numbers: Iterable[str]) -> Iterator[str]:
    """A row of numbers as signs, in each base in which all or most of them are some."""
    for base in BASES:
        signs: list[str] = []
        for number in numbers:
            try:
                signs.append(_sign(int(number, base)))
            except ValueError:
                continue
        if len(signs) >= HEAD:
            yield "".join(signs)
