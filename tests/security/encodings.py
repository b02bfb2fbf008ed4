"""The encodings in which services send back a secret, and one of them in another."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from html import escape
from urllib.parse import quote, quote_plus


def _each(form: str) -> Callable[[str], str]:
    """Every letter, in UTF-16 as JSON wants it."""

    def write(v: str) -> str:
        raw = v.encode("utf-16-be")
        return "".join(
            form.format(int.from_bytes(raw[at : at + 2])) for at in range(0, len(raw), 2)
        )

    return write


def _small(written: str) -> str:
    return re.sub("%..", lambda found: found[0].lower(), written)


def _base64(v: str, before: bytes = b"", after: bytes = b"") -> str:
    return b64encode(before + v.encode() + after).decode()


def _as_dotnet(v: str) -> str:
    """With more letters escaped than must be."""
    return re.sub(r"[+<>&'`]", lambda found: f"\\u{ord(found[0]):04X}", json.dumps(v)[1:-1])


ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "base64": _base64,
    "base64 without padding": lambda v: _base64(v).rstrip("="),
    "base64 behind one byte": lambda v: _base64(v, b":"),
    "base64 behind a user's name": lambda v: _base64(v, b"me:", b"\n"),
    "base64 behind two bytes": lambda v: _base64(v, b"me", b"\n"),
    "base64 in the middle": lambda v: _base64(v, b"user:", b"@host and more"),
    "base64 for addresses": lambda v: urlsafe_b64encode(v.encode()).decode(),
    "base64 for addresses in the middle": lambda v: urlsafe_b64encode(b"ab" + v.encode() + b"c").decode(),
    "hexadecimal": lambda v: v.encode().hex(),
    "hexadecimal in capitals": lambda v: v.encode().hex().upper(),
    "hexadecimal with spaces": lambda v: v.encode().hex(" "),
    "in an address": lambda v: quote(v, safe=""),
    "in an address, slashes kept": quote,
    "in an address, most signs kept": lambda v: quote(v, safe="!'()*~;/?:@&=+$,#"),
    "in an address, small letters": lambda v: _small(quote(v, safe="")),
    "in a form": quote_plus,
    "in a form, small letters": lambda v: _small(quote_plus(v)),
    "every byte in an address": lambda v: "".join(f"%{byte:02x}" for byte in v.encode()),
    "every byte in an address, capitals": lambda v: "".join(f"%{byte:02X}" for byte in v.encode()),
    "in an address twice": lambda v: quote(quote(v, safe=""), safe=""),
    "in JSON": lambda v: json.dumps(v)[1:-1],
    "in JSON with other letters": lambda v: json.dumps(v, ensure_ascii=False)[1:-1],
    "in JSON, slashes escaped": lambda v: json.dumps(v)[1:-1].replace("/", "\\/"),
    "in JSON, more signs escaped": _as_dotnet,
    "every letter in JSON": _each("\\u{:04x}"),
    "every letter in JSON, capitals": _each("\\u{:04X}"),
    "in JSON in JSON": lambda v: json.dumps(json.dumps(v))[3:-3],
    "base64 in an address": lambda v: quote(_base64(v), safe=""),
    "base64 in an address, small letters": lambda v: _small(quote(_base64(v, b"me:"), safe="")),
    "base64 in JSON, slashes escaped": lambda v: _base64(v).replace("/", "\\/"),
    "JSON in an address": lambda v: quote(json.dumps(v)[1:-1], safe=""),
    "in a page": escape,
    "every letter in a page": lambda v: "".join(f"&#{ord(char)};" for char in v),
    "in a listing of Python": lambda v: repr(v)[1:-1],
}  # fmt: skip
