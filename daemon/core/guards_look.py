"""What a rule looks for in the arguments of a call: paths, addresses, words, amounts of money (F5)."""

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from posixpath import normpath
from urllib.parse import unquote

from daemon.core.words import pieces, words_of

DEEPEST, LONGEST_PATH, LONGEST_LINE = 20, 4096, 20_000
BETWEEN = re.compile(r"[\s'\"`=,;|&<>(){}\[\]:]+")
MONEY = words_of("amount price total sum cost value money usd eur euro dollar fee payment cent budget charge")
NUMBER = re.compile(r"\d[\d.,'_ ]*(?:e\+?\d+)?", re.IGNORECASE)
ASKS = "*?["


class Fit(IntEnum):
    """Whether a rule means a call; of several conditions the least counts."""

    NO = 0
    PERHAPS = 1
    SURE = 2


def leaves(value: object, key: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """(name, value) of everything that stands in the arguments; names are values too where the model may choose them."""
    if depth > DEEPEST:
        yield key, str(value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if depth:
                yield "", str(name)
            yield from leaves(inner, str(name), depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner, key, depth + 1)
    else:
        yield key, value


def texts(arguments: Mapping[str, object]) -> list[str]:
    """All texts in it, written in one way: a rule is not escaped by %65 or a letter of another width."""
    return [_plain(value) for _, value in leaves(arguments) if isinstance(value, str)]


def places(arguments: Mapping[str, object], patterns: Sequence[str], *, anything: bool) -> Fit:
    """A path in the arguments is one of these, lies under one, or holds one. `anything`: a text may be a command line.
    """
    wanted = [_steps(pattern) for pattern in patterns]
    found = Fit.NO
    for text in texts(arguments):
        if len(text) > LONGEST_LINE and anything:
            found = max(found, Fit.PERHAPS)
        elif len(text) <= LONGEST_PATH or anything:
            parts = BETWEEN.split(text) if anything else ()
            steps = [_steps(path) for path in (text, *parts) if path]
            found = max(found, *(_meet(have, want, anything) for have in steps for want in wanted), Fit.NO)
    return found


def mentions(arguments: Mapping[str, object], values: Sequence[str]) -> Fit:
    """One of these addresses, hosts or names stands in the arguments; of a host, also one below it."""
    said = texts(arguments)
    return Fit.SURE if any(_pattern(value).search(text) for value in values for text in said) else Fit.NO


def stands_in(arguments: Mapping[str, object], commands: Sequence[str]) -> Fit:
    """All words of one of these commands stand in the arguments."""
    said = {piece.casefold() for text in texts(arguments) for piece in pieces(text)}
    return Fit.SURE if any({piece.casefold() for piece in pieces(line)} <= said for line in commands) else Fit.NO


def sums(arguments: Mapping[str, object], above: float) -> Fit:
    """An argument that is called an amount is more than this; perhaps, where none is called so."""
    named = [number for key, value in leaves(arguments) if not MONEY.isdisjoint(words_of(key)) for number in _numbers(value)]
    if not named:
        return Fit.PERHAPS
    return Fit.SURE if any(number > above for number in named) else Fit.NO


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", unquote(unquote(text))).casefold()


def _pattern(value: str) -> re.Pattern[str]:
    wanted = re.escape(_plain(value).lstrip("#@").rstrip("./")).replace("@", r"(?:\+[^@\s]*)?@", 1)
    return re.compile(rf"(?<![\w-]){wanted}(?![\w-])")


def _steps(path: str) -> list[str]:
    """The path's parts, wherever it is anchored."""
    parts = normpath(_plain(path).replace("\\", "/").removeprefix("file://")).split("/")
    return [part for part in parts if part not in ("", ".", "..", "~")]


def _meet(have: Sequence[str], want: Sequence[str], whole_trees: bool) -> Fit:
    """The one lies at or under the other; what may take whole trees perhaps takes it with one that it lies in."""
    starts = range(len(have) - len(want) + 1)
    if any(all(map(_alike, have[start:], want)) for start in starts):
        return Fit.SURE
    return Fit.PERHAPS if whole_trees and len(have) < len(want) and all(map(_alike, have, want)) else Fit.NO


def _alike(part: str, pattern: str) -> bool:
    return fnmatchcase(part, pattern) or (any(sign in part for sign in ASKS) and fnmatchcase(pattern, part))


def _numbers(value: object) -> Iterator[float]:
    """What it may mean; a number without end is more than any."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            yield float(value) if math.isfinite(value) else math.inf
        except OverflowError:
            yield math.inf
    elif isinstance(value, str):
        for found in NUMBER.findall(value):
            yield from _readings(found)


def _readings(written: str) -> Iterator[float]:
    """"1.000,50" and "1,000.50" are the same to their writers: every reading counts."""
    for thousands, point in ((",", "."), (".", ",")):
        tidy = re.sub(rf"[{re.escape(thousands)}'_ ]", "", written).replace(point, ".").rstrip(".")
        try:
            yield float(tidy)
        except ValueError:
            continue
