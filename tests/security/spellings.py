"""In how many ways a server may spell the secret that it was sent."""

import codecs
import gzip
import json
import zlib
from base64 import a85encode, b32encode, b64encode, b85encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote

from daemon.core.disguise import MORSE

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
