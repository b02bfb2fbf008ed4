"""Whether somebody has written a value before, in whatever form: a tool that repeats it may well write it otherwise."""

import html
import json
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote

ESCAPED = re.compile(r"\\{1,8}u([0-9a-fA-F]{4})")
LEAST = 6


def mentions(text: str, value: str) -> bool:
    """It stands somewhere in the text: as it is, in any case, or, where it is long enough to be told from others, in any other
    spelling: with the escapes of JSON, of URLs or of HTML, in other widths, in pieces.
    """
    if value.casefold() in _plain(text):
        return True
    wanted = _letters(value)
    return len(wanted) >= LEAST and wanted in _bones(text)


@lru_cache(maxsize=512)
def _plain(text: str) -> str:
    """As it was written, and the values in it where it is JSON."""
    return "\n".join((text, *_values(text))).casefold()


@lru_cache(maxsize=512)
def _bones(text: str) -> str:
    keyless = _values(text, keys=False)
    return "\n".join((_letters(text), _letters("".join(_values(text))), _letters("".join(keyless))))


def _values(text: str, *, keys: bool = True) -> tuple[str, ...]:
    if not text.lstrip().startswith(("{", "[")):
        return ()
    try:
        read: object = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    return tuple(_parts(read, keys=keys))


def _parts(read: object, *, keys: bool) -> Iterator[str]:
    match read:
        case dict():
            yield from map(str, read if keys else ())
            for part in read.values():
                yield from _parts(part, keys=keys)
        case list():
            for part in read:
                yield from _parts(part, keys=keys)
        case _:
            yield str(read)


def _letters(text: str) -> str:
    """Only letters and digits, with nothing encoded."""
    text = ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    plain = unicodedata.normalize("NFKC", html.unescape(unquote(unquote(text)))).casefold()
    return "".join(filter(str.isalnum, plain))
