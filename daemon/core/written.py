"""The ways in which a value may be written: as it is, and as programs write it when they pass it on (A6 of the reference)."""

import base64
import html
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 6
LINE = 16
BY_SCRIPT = "!'()*~"
IN_WHOLE = ";/?:@&=+$,#" + BY_SCRIPT


def forms(value: str) -> frozenset[str]:
    """Plain, base64, hexadecimal, and as it stands in an address, in JSON, in a page, in a program's own listing.

    What is shorter than SHORTEST characters is left out: it would be found where it is not meant.
    """
    raw = value.encode()
    written = {value, raw.hex(), raw.hex().upper(), raw.hex(" "), *_in_base64(raw), *_in_addresses(value), *_in_text(value)}
    written |= set(_lines(value))
    return frozenset(form for form in written if len(form) >= SHORTEST)


def _lines(value: str) -> Iterator[str]:
    """A key of several lines may be indented elsewhere; what frames it is no secret."""
    lines = [line.strip() for line in value.splitlines()]
    return (line for line in lines if len(lines) > 1 and len(line) >= LINE and not line.startswith("-----"))


def _in_base64(raw: bytes) -> Iterator[str]:
    """What is the same whatever stands before and after it, and whether or not the end is padded."""
    for ahead in range(3):
        bits = 8 * ahead, 8 * (ahead + len(raw))
        inner = slice(-(-bits[0] // 6), bits[1] // 6)
        standard = base64.b64encode(bytes(ahead) + raw).decode()[inner]
        yield standard
        yield standard.translate({ord("+"): "-", ord("/"): "_"})


def _in_addresses(value: str) -> Iterator[str]:
    for written in (*(quote(value, safe=kept) for kept in ("", "/", BY_SCRIPT, IN_WHOLE)), quote_plus(value)):
        yield written
        yield _lower_escapes(written)
    every = "".join(f"%{byte:02X}" for byte in value.encode())
    yield every
    yield every.lower()


def _lower_escapes(written: str) -> str:
    first, *rest = written.split("%")
    return first + "".join(f"%{piece[:2].lower()}{piece[2:]}" for piece in rest)


def _in_text(value: str) -> Iterator[str]:
    for inner in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield inner
        yield inner.replace("/", "\\/")
        yield json.dumps(inner, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield repr(value.encode())[2:-1]
    page = html.escape(value, quote=False)
    yield page
    for quotes in (("&quot;", "&#x27;"), ("&quot;", "&#39;"), ("&#34;", "&#39;"), ("&quot;", "&apos;")):
        yield page.replace('"', quotes[0]).replace("'", quotes[1])
