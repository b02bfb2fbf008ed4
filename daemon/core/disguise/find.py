"""A secret that comes back in another spelling: turned round, shifted, spaced out, split up,
mixed up, counted out in numbers, packed. Pure.

Whoever is sent a secret may answer with it in any spelling, and a model reads most of them. What
comes from outside is therefore also looked at folded: unescaped and unpacked up to three times,
letters and digits only, in small letters. A text that holds a secret in such a way cannot be
cleaned word by word; the caller withholds the whole of it.
"""

import re
import unicodedata
from base64 import (
    a85encode,
    b32encode,
    b32hexencode,
    b64encode,
    b85encode,
)
from binascii import b2a_uu
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, repeat
from operator import and_, sub, xor
from typing import Literal

from daemon.core import value
from daemon.core.disguise.unpack import MAX_UNPACKED, Opener, TooMuchPacked, make_sign

HEAD = 8
WORD_CHARS = 12
ANY = "*"  # no name of a secret
MAX_SIGNS = 30
HIDDEN_SIGNS = "\u0f73\u0f75\u0f81\uff9e\uff9f"  # signs only once they are taken apart
NO_LETTERS = dict.fromkeys(map(ord, "—–―‘’‚“”„«»…·•→←⇒×÷≤≥≠§°´€£\u00a0\u202f"))
LAST_COMBINING = 0x1F000
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
NUMBER = re.compile(r"(?<![0-9A-Za-z])(?:0[xXoObB])?([0-9A-Fa-f]{1,8})(?![0-9A-Za-z])")
BASES = (10, 16, 8, 2)
BESIDES = re.compile(
    r"<[^>]{0,200}>|\"[^\"\n]{0,60}\"\s*:|^[ \t]*\W?\d{1,4}[ \t]*[.:)\]|=-]+|\b(?:dash|hyphen|minus"
    r"|underscore|dot|point|plus|slash|equals?|colon|at|capital|upper|lower|uppercase|lowercase"
    r"|space|and|then|comma)\b",
    re.MULTILINE | re.IGNORECASE,
)
WORDS = re.compile(r"\w+")
LABEL = re.compile(r"\b\w{1,12}\s*[:=]\s*")
QUOTED = re.compile(r"(?<![\w\"'])[\"'](.)[\"'](?!\s*:)")
WHOLE_NUMBER = re.compile(r"-?\d{1,7}")
BRAILLE: dict[str, str] = dict(zip("⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵", LETTERS, strict=True))
BRAILLE_DIGIT = re.compile("⠼([⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚])")
LEAST_STEPS = 4
FACTORS = (1, -1, 2, 3, 10)
MIXED = 12


def _encode(secret: str) -> bytes:
    return secret.encode("utf-8", "replace")


@lru_cache
def _combining() -> re.Pattern[str]:
    found = (chr(code) for code in range(0x300, LAST_COMBINING) if unicodedata.combining(chr(code)))
    return re.compile(f"[{''.join(map(re.escape, found))}{HIDDEN_SIGNS}]")


def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """In this form, in linear time: of more than 30 combining signs in a row the rest is left out,
    for to put them in order takes time by the square of their number.
    """
    if text.isascii():
        return text
    if not _combining().search(text):  # so are most
        return unicodedata.normalize(form, text)
    kept, signs = list[str](), 0
    for char in text:
        signs = signs + 1 if unicodedata.combining(char) or char in HIDDEN_SIGNS else 0
        if signs <= MAX_SIGNS:
            kept.append(char)
    return unicodedata.normalize(form, "".join(kept))


def fold(text: str) -> str:
    """Letters and digits, in small letters, those that only look like others among them."""
    if not text.isascii() and not (text := text.translate(NO_LETTERS)).isascii():
        if max(text) >= "\u2800" and any("\u2800" <= sign <= "\u28ff" for sign in text):
            text = BRAILLE_DIGIT.sub(lambda found: _braille_digit(found[1]), text)
            text = text.translate({ord(sign): letter for sign, letter in BRAILLE.items()})
        plain = text
        if max(text) > "\U000e0000":
            plain = "".join(
                chr(ord(c) - 0xE0000) if 0xE0000 < ord(c) < 0xE0080 else c for c in text
            )
        text = normalize("NFKD", normalize("NFKC", plain)).translate(LOOKALIKES)
    return "".join(filter(str.isalnum, text.casefold().translate(LOOKALIKES)))


def _braille_digit(sign: str) -> str:
    return str((LETTERS.index(BRAILLE[sign]) + 1) % 10)


def _low_bytes(numbers: Iterable[int]) -> bytes:
    return bytes(map(and_, numbers, repeat(255)))


def _list_steps(codes: Sequence[int]) -> bytes:
    """How far it is from each number to the next: the same whatever is added to all."""
    return _low_bytes(map(sub, codes[1:], codes))


def _list_changes(codes: Sequence[int]) -> bytes:
    """The bits that differ between neighbours: the same whatever all are combined with by XOR."""
    return _low_bytes(map(xor, codes[1:], codes))


class _Weights(dict[str, int]):
    """A number for each sign, such that the sum says which signs there are, in any order."""

    def __missing__(self, sign: str) -> int:
        digest = blake2b(sign.encode("utf-8", "replace"), digest_size=7).digest()
        found = self[sign] = int.from_bytes(digest)
        return found


WEIGHTS = _Weights()


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
    yield bytes(int(f"{byte:08b}"[::-1], 2) for byte in raw).hex()
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
    spaces, `dots` in Morse, `steps` and `changes` between the codes of signs or between numbers,
    `counted` in numbers; `size` letters in any order weigh `whole`, 0 for too few.
    """

    folded: tuple[str, ...]
    tight: tuple[str, ...]
    dots: str
    steps: tuple[bytes, ...]
    changes: bytes
    counted: tuple[bytes, ...]
    size: int
    whole: int


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
    codes, plain = [*map(ord, secret)], fold(secret)
    ways = [codes, [*map(ord, secret.lower())], [*map(ord, plain)]]
    steps = [_list_steps([factor * c for c in way]) for way in ways for factor in FACTORS]
    steps = [one for one in dict.fromkeys(steps) if len(set(one)) >= LEAST_STEPS]
    changes = _list_changes(codes)
    counted = [
        bytes(int(c) if c in DIGITS else LETTERS.index(c) + first for c in plain)
        for first in (0, 1, 10)
        if set(plain) <= {*LETTERS, *DIGITS}
    ]
    return Disguises(
        tuple(kept),
        tightened,
        _morse(secret),
        tuple(one for one in steps if len(one) >= HEAD - 1),
        changes if len(set(changes)) >= LEAST_STEPS else b"",
        (*counted, *steps[:1]),
        len(plain) if len(plain) >= MIXED and len(set(plain)) > LEAST_STEPS else 0,
        sum(map(WEIGHTS.__getitem__, plain)),
    )


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
    opener = Opener(8 * len(text) + MAX_UNPACKED)
    try:
        layers = opener.unpack(text)
    except TooMuchPacked:
        return ANY
    return next(_iter_found(layers, opener.raws, known), "")


def _iter_found(
    layers: Sequence[str], raws: Sequence[bytes], known: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """The names of those that are in these layers."""
    ways = [(_disguise(secret), name) for secret, name in known]
    heads, tight_heads = _collect(tuple(known))
    sizes = {one.size for one, _ in ways if one.size}
    for layer in layers:
        for view in dict.fromkeys(_list_views(layer)):
            if _has_head(view, heads):
                yield from (name for one, name in ways if any(way in view for way in one.folded))
        view = _tighten(layer)
        dots = "".join(c for c in layer.translate(MORSE_SIGNS) if c in ".-")
        yield from (name for one, name in ways if one.dots in dots)
        if _has_head(view, tight_heads):
            yield from (name for one, name in ways if any(way in view for way in one.tight))
        for view in dict.fromkeys(_list_rows(layer)):
            sums = [0, *accumulate(map(WEIGHTS.__getitem__, view))]
            windows = {size: set(map(sub, sums[size:], sums)) for size in sizes}
            yield from (name for one, name in ways if one.whole in windows.get(one.size, ()))
    for codes in _list_codes(layers, raws):
        steps, changes, signs = _list_steps(codes), _list_changes(codes), _low_bytes(codes)
        for one, name in ways:
            if (
                any(way in steps for way in one.steps)
                or any(way in signs for way in one.counted)
                or (one.changes and one.changes in changes)
            ):
                yield name


def _list_codes(layers: Sequence[str], raws: Sequence[bytes]) -> Iterator[Sequence[int]]:
    """Rows of numbers: the codes of signs, what numbers are written, and bytes."""
    for layer in layers:
        tight = "".join(layer.split())
        yield [*map(ord, tight)]
        if not tight.islower():
            yield [*map(ord, tight.lower())]
        numbers = [int(number) for number in WHOLE_NUMBER.findall(layer)]
        yield numbers
        if min(numbers, default=0) < 0:
            yield [*map(abs, numbers)]
        for base in BASES[1:]:
            yield from _read_row(NUMBER.findall(layer), base)
    yield b"".join(raw for raw in raws if len(raw) >= HEAD)


def _read_row(numbers: Sequence[str], base: int) -> Iterator[Sequence[int]]:
    """Those that are numbers of this base."""
    digits = frozenset("0123456789abcdefABCDEF" if base == 16 else DIGITS[:base])
    found = [int(number, base) for number in numbers if digits.issuperset(number)]
    if len(found) >= HEAD:
        yield found


def _list_rows(text: str) -> Iterator[str]:
    """Where the letters of a secret may stand in another order."""
    plain = fold(text)
    yield plain
    bare = fold(LABEL.sub(" ", BESIDES.sub(" ", text)))
    if bare != plain:
        yield bare
    lines = [line.strip() for line in text.splitlines()]
    yield fold("".join(line[-1:] for line in lines))
    yield fold("".join(QUOTED.findall(text)))
    columns = [WORDS.findall(line) for line in lines]
    for at in (0, 1, 2, -1):
        cells = [words[at] for words in columns if -len(words) <= at < len(words)]
        yield fold("".join(cell for cell in cells if len(cell) == 1))


def _has_head(view: str, heads: frozenset[str]) -> bool:
    return not heads.isdisjoint([view[at : at + HEAD] for at in range(len(view) - HEAD + 1)])


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
    firsts = [word[0] for word in words]
    for step in (2, 3, 4):
        yield from (fold("".join(firsts[start::step])) for start in range(step))
    yield from (fold("".join(word[at : at + 1] for word in words)) for at in (1, 2))
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
                signs.append(make_sign(int(number, base)))
            except ValueError:
                continue
        if len(signs) >= HEAD:
            yield "".join(signs)
