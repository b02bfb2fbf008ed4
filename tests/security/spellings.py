"""In how many ways a server may spell the secret that it was sent."""

import bz2
import codecs
import gzip
import json
import lzma
import random
import zlib
from base64 import a85encode, b32encode, b64encode, b85encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote

from daemon.core.disguise.find import MORSE

Spelling = Callable[[str], str]


def _each(form: str, between: str = "") -> Spelling:
    return lambda v: between.join(form.format(byte) for byte in v.encode())


def _caesar(v: str) -> str:
    return "".join(chr((ord(c) - 94) % 26 + 97) if c.isalpha() else c for c in v.lower())


def _atbash(v: str) -> str:
    return "".join(chr(219 - ord(c)) if c.isalpha() else c for c in v.lower())


def _bold(v: str) -> str:
    return "".join(chr(0x1D3BF + ord(c)) if c.isupper() else c for c in v.swapcase())


def _half(v: str) -> str:
    return f"the second: {v[len(v) // 2 :]}, behind the first, {v[: len(v) // 2]}"


def _spoken(v: str) -> str:
    return " ".join(
        {"-": "dash", "_": "underscore", "/": "slash", "+": "plus"}.get(c, c) for c in v
    )


def _base36(v: str) -> str:
    number, found = int.from_bytes(v.encode()), ""
    while number:
        number, rest = divmod(number, 36)
        found = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + found
    return found


def _flag(c: str) -> str:
    return chr(0x1F1E6 + ord(c) - 97) if "a" <= c <= "z" else c


SMALL_CAPITALS = str.maketrans("abcdefghijklmnopqrstuvwyz", "ᴀʙᴄᴅᴇғɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡʏᴢ")


SPELLINGS: dict[str, Spelling] = {
    "one large number": lambda v: str(int.from_bytes(v.encode())),
    "one large number, from the other end": lambda v: str(int.from_bytes(v.encode(), "little")),
    "base36": _base36,
    "small capitals": lambda v: v.lower().translate(SMALL_CAPITALS),
    "flags": lambda v: " ".join(_flag(c) for c in v.lower()),
    "the last sign of each line": lambda v: "\n".join(f"letter {c}" for c in v),
    "the last sign of each word": lambda v: " ".join(f"of{c}" for c in v if c.isalnum()),
    "each sign four times": lambda v: "".join(c * 4 for c in v),
    "as it is": str,
    "base64": lambda v: b64encode(v.encode()).decode(),
    "base64 for addresses": lambda v: urlsafe_b64encode(v.encode()).decode(),
    "base64 in the middle": lambda v: b64encode(f"me:{v}@host".encode()).decode(),
    "base64 in lines": lambda v: "\n".join(
        b64encode(v.encode()).decode()[at : at + 5] for at in range(0, 40, 5)
    ),
    "base64 twice": lambda v: b64encode(b64encode(v.encode())).decode(),
    "base64 turned round": lambda v: b64encode(v.encode()).decode()[::-1],
    "base64 of it turned round": lambda v: b64encode(v[::-1].encode()).decode(),
    "base64 of UTF-16": lambda v: b64encode(v.encode("utf-16")).decode(),
    "base64 of gzip": lambda v: b64encode(gzip.compress(v.encode())).decode(),
    "base64 of zlib": lambda v: b64encode(zlib.compress(v.encode())).decode(),
    "base64 of hexadecimal": lambda v: b64encode(v.encode().hex().encode()).decode(),
    "base32": lambda v: b32encode(v.encode()).decode(),
    "base32 in small letters": lambda v: b32encode(v.encode()).decode().lower(),
    "base85": lambda v: b85encode(v.encode()).decode(),
    "ascii85": lambda v: a85encode(v.encode()).decode(),
    "uuencode": lambda v: codecs.encode(v.encode(), "uu").decode(),
    "hexadecimal": lambda v: v.encode().hex(),
    "hexadecimal with spaces": lambda v: v.encode().hex(" "),
    "hexadecimal with colons": lambda v: v.encode().hex(":"),
    "hexadecimal of UTF-16": lambda v: v.encode("utf-16-le").hex(),
    "hexadecimal turned round": lambda v: v.encode()[::-1].hex(),
    "hexadecimal numbers": _each("0x{:02x}", ", "),
    "hexadecimal escapes": _each("\\x{:02x}"),
    "in an address": lambda v: quote(v, safe=""),
    "in an address twice": lambda v: quote(quote(v, safe=""), safe=""),
    "every byte in an address": _each("%{:02x}"),
    "every byte in an address twice": _each("%25{:02x}"),
    "in a page": _each("&#{};"),
    "in a page, hexadecimal": _each("&#x{:x};"),
    "unicode escapes": _each("\\u{:04x}"),
    "unicode escapes in braces": _each("\\u{{{:x}}}"),
    "unicode names": _each("U+{:04X}", " "),
    "quoted-printable": _each("={:02X}"),
    "octal escapes": _each("\\{:03o}"),
    "octal numbers": _each("{:o}", " "),
    "decimal numbers": _each("{}", " "),
    "decimal numbers in JSON": lambda v: json.dumps(list(v.encode())),
    "decimal numbers in a row": _each("{:03d}"),
    "binary": _each("{:08b}", " "),
    "binary in a row": _each("{:08b}"),
    "turned round": lambda v: v[::-1],
    "rot13": lambda v: codecs.encode(v, "rot13"),
    "rot13 turned round": lambda v: codecs.encode(v, "rot13")[::-1],
    "shifted by three": _caesar,
    "alphabet turned round": _atbash,
    "capitals": str.upper,
    "small letters": str.lower,
    "capitals and small letters exchanged": str.swapcase,
    "spaces between": " ".join,
    "dots between": ".".join,
    "dashes between": "-".join,
    "stars between pairs": lambda v: "*".join(v[at : at + 2] for at in range(0, len(v), 2)),
    "a letter a line": "\n".join,
    "a letter a line, numbered": lambda v: "\n".join(f"{n}. {c}" for n, c in enumerate(v)),
    "zero-width signs between": "\u200b".join,
    "accents on each": lambda v: "".join(f"{c}\u0301" for c in v),
    "full width": lambda v: "".join(chr(ord(c) + 0xFEE0) for c in v),
    "bold signs of mathematics": _bold,
    "invisible tags": lambda v: "".join(chr(ord(c) + 0xE0000) for c in v),
    "letters that look alike": lambda v: v.replace("e", "е").replace("x", "х").replace("k", "к"),
    "digits that look alike": lambda v: v.replace("e", "3").replace("t", "7"),
    "each twice": lambda v: "".join(c + c for c in v),
    "an x behind each": lambda v: "".join(f"{c}x" for c in v),
    "each in bold type": lambda v: "".join(f"<b>{c}</b>" for c in v),
    "in two halves, exchanged": _half,
    "in parts of JSON": lambda v: json.dumps({f"part{at}": v[at : at + 4] for at in range(0, 40, 4)}),
    "a list of JSON": lambda v: json.dumps(list(v)),
    "JSON in JSON": lambda v: json.dumps(json.dumps(v)),
    "read aloud": _spoken,
    "the first letters of words": lambda v: " ".join(f"{c}abc" for c in v if c.isalnum()),
    "the first letters of lines": lambda v: "\n".join(f"{c} is a sign" for c in v),
    "in Morse": lambda v: " ".join(MORSE.get(c, "") for c in v.lower()),
}  # fmt: skip


LETTERS = "abcdefghijklmnopqrstuvwxyz"
BRAILLE = "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵"


def _pairs(v: str) -> str:
    return "".join(v[at : at + 2][::-1] for at in range(0, len(v), 2))


def _zigzag(v: str, rows: int) -> str:
    """Rail fence."""
    lines, at, step = [""] * rows, 0, 1
    for sign in v:
        lines[at] += sign
        step = 1 if at == 0 else -1 if at == rows - 1 else step
        at += step
    return "".join(lines)


def _outward(v: str) -> str:
    return "".join(v[n // 2] if n % 2 == 0 else v[-1 - n // 2] for n in range(len(v)))


def _braille(v: str) -> str:
    def sign(c: str) -> str:
        if c.isdigit():
            return "⠼" + BRAILLE[(int(c) - 1) % 10]
        return BRAILLE[LETTERS.index(c)] if c in LETTERS else "⠤"

    return "".join(map(sign, v.lower()))


def _places(v: str) -> str:
    signs = [c for c in v.lower() if c.isalnum()]
    return "-".join(str(LETTERS.index(c) + 1) if c in LETTERS else c for c in signs)


def _shuffled(v: str) -> list[tuple[int, str]]:
    signs = list(enumerate(v))
    random.Random(1).shuffle(signs)
    return signs


def _shifted(by: int) -> Spelling:
    return lambda v: "".join(chr(ord(c) + by) for c in v)


def _combined(key: int) -> Spelling:
    return lambda v: bytes(byte ^ key for byte in v.encode()).hex()


def _codes(form: Callable[[int], int]) -> Spelling:
    return lambda v: " ".join(str(form(byte)) for byte in v.encode())


def _columns(v: str) -> str:
    return "\n".join(v[at::4] for at in range(4))


MIXED: dict[str, Spelling] = {
    "numbers of letters": _places,
    "pairs exchanged": _pairs,
    "every second, then the others": lambda v: v[::2] + v[1::2],
    "every third, then the others": lambda v: v[::3] + v[1::3] + v[2::3],
    "a rail fence of two": lambda v: _zigzag(v, 2),
    "a rail fence of three": lambda v: _zigzag(v, 3),
    "from both ends": _outward,
    "in columns": _columns,
    "turned round by seven": lambda v: v[7:] + v[:7],
    "even and odd ones": lambda v: f"even: {v[::2]}\nodd: {v[1::2]}",
    "letters of JSON in any order": lambda v: json.dumps([{"i": n, "c": c} for n, c in _shuffled(v)]),
    "one sign on": _shifted(1),
    "one sign back": _shifted(-1),
    "Greek and beyond": _shifted(0x370),
    "Chinese": _shifted(0x4E00),
    "XOR with one byte": _combined(42),
    "XOR with a small number": _combined(3),
    "XOR, in base64": lambda v: b64encode(bytes(byte ^ 7 for byte in v.encode())).decode(),
    "codes and a hundred": _codes(lambda byte: byte + 100),
    "codes twice": _codes(lambda byte: 2 * byte),
    "codes from the top": _codes(lambda byte: 255 - byte),
    "steps between codes": lambda v: " ".join(
        str(b - a) for a, b in zip((0, *v.encode()), v.encode(), strict=False)
    ),
    "Braille": _braille,
    "bits of each byte turned round": lambda v: bytes(
        int(f"{byte:08b}"[::-1], 2) for byte in v.encode()
    ).hex(),
    "base64 of bzip2": lambda v: b64encode(bz2.compress(v.encode())).decode(),
    "base64 of xz": lambda v: b64encode(lzma.compress(v.encode())).decode(),
    "base64 of bare deflate": lambda v: b64encode(zlib.compress(v.encode())[2:-4]).decode(),
    "base32 of gzip": lambda v: b32encode(gzip.compress(v.encode())).decode(),
    "base85 of zlib": lambda v: b85encode(zlib.compress(v.encode())).decode(),
    "hexadecimal of gzip": lambda v: gzip.compress(v.encode()).hex(),
    "base32 of hexadecimal": lambda v: b32encode(v.encode().hex().encode()).decode(),
    "base64 of base32": lambda v: b64encode(b32encode(v.encode())).decode(),
    "base85 of base64": lambda v: b85encode(b64encode(v.encode())).decode(),
    "base64 of rot13": lambda v: b64encode(codecs.encode(v, "rot13").encode()).decode(),
    "the second letter of each word": lambda v: " ".join(f"a{c}bc" for c in v if c.isalnum()),
}  # fmt: skip
SPELLINGS |= MIXED


def _vigenere(v: str) -> str:
    return "".join(
        LETTERS[(LETTERS.index(c) + (10, 4, 24)[n % 3]) % 26] if c in LETTERS else c
        for n, c in enumerate(v.lower())
    )


def _keyboard(v: str) -> str:
    keys = "qwertyuiopasdfghjklzxcvbnm"
    return "".join(keys[(keys.index(c) + 1) % 26] if c in keys else c for c in v.lower())


NOT_KNOWN: dict[str, Spelling] = {
    "shifted by a word": _vigenere,
    "the next key of a keyboard": _keyboard,
    "rot13 of base64": lambda v: codecs.encode(b64encode(v.encode()).decode(), "rot13"),
    "keys of a telephone": lambda v: " ".join(
        str(LETTERS.index(c) // 3 + 2) * (LETTERS.index(c) % 3 + 1) if c in LETTERS else c
        for c in v.lower()
    ),
}
"""What is not promised: other alphabets and ciphers with a key."""
