"""What is said behind /approve and /deny: which questions, for how long, within which bounds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from daemon.core.asking import EXACT, LONGEST, MOST_USES, STANDING, Bounds
from daemon.core.errors import UsageError
from daemon.core.events import Answer

SCOPES = {"once": Answer.ONCE, "session": Answer.SESSION, "always": Answer.ALWAYS}
TIMES = {"time", "times", "x"}
UNITS = {
    **dict.fromkeys(("minute", "minutes", "min"), timedelta(minutes=1)),
    **dict.fromkeys(("hour", "hours", "h"), timedelta(hours=1)),
    **dict.fromkeys(("day", "days", "d"), timedelta(days=1)),
}
FILLERS = {"for", "and", "in", "within", "the", "next"}
PATHS = {"path", "paths"}
COUNT = re.compile(r"(\d{1,6})([a-z]*)")
HOW = (
    "Say /approve, /approve session or /approve always; bounds may follow: 5 times, 30 minutes, paths reports/*."
    " With several questions: /approve 2, /approve all, /approve show 2."
)


class Misspoken(UsageError):
    """The command was not understood; nothing was answered."""


@dataclass(frozen=True, slots=True)
class Approval:
    """What /approve says. `which`: a number of the list, "all", or "" for the only one; `look` shows it instead of answering."""

    which: str = ""
    answer: Answer = Answer.ONCE
    bounds: Bounds = EXACT
    look: bool = False


def approval(argument: str) -> Approval:
    """`[show] [N|all] [once|session|always] [BOUNDS]`. Raises Misspoken."""
    words = argument.split()
    look = bool(words) and words[0].lower() == "show"
    which, words = _which(words[1:] if look else words)
    if look:
        if words:
            raise Misspoken("Say /approve show 2, with a number of the list, or /approve show.")
        return Approval(which, look=True)
    scope = SCOPES.get(words[0].lower()) if words else Answer.ONCE
    if scope is None:
        raise Misspoken(HOW)
    bounds = _bounds(iter(words[1:]))
    if bounds != EXACT and scope not in STANDING:
        raise Misspoken(f"A yes for once has no bounds. {HOW}")
    return Approval(which, scope, bounds)


def denial(argument: str, listed: int) -> tuple[str, str]:
    """`[N|all] [reason]` as (which, reason); a number that is not on the list is part of the reason."""
    first, _, rest = argument.partition(" ")
    if first.lower() == "all" or (first.isdecimal() and 1 <= int(first) <= listed):
        return first.lower(), rest.strip()
    return "", argument


def _which(words: list[str]) -> tuple[str, list[str]]:
    """A number stands for a question only where it is no bound: "5 times" comes behind a scope."""
    if words and (words[0].isdecimal() or words[0].lower() == "all"):
        return words[0].lower(), words[1:]
    return "", words


def _bounds(words: Iterator[str]) -> Bounds:
    bounds = EXACT
    for word in words:
        plain = word.lower().strip(",")
        if plain in PATHS:
            bounds = replace(bounds, paths=_following(words, "which paths? For example: paths reports/*"))
        elif counted := COUNT.fullmatch(plain):
            unit = counted[2] or _following(words, f"{plain} what? For example: {plain} times, {plain} minutes")
            bounds = _counted(bounds, int(counted[1]), unit.lower().strip(","))
        elif plain not in FILLERS:
            raise Misspoken(f"I do not know the bound {word!r}. {HOW}")
    return bounds


def _counted(bounds: Bounds, number: int, unit: str) -> Bounds:
    if unit in TIMES:
        if not 1 <= number <= MOST_USES:
            raise Misspoken(f"{number} times: between 1 and {MOST_USES} times can be allowed.")
        return replace(bounds, uses=number)
    if unit not in UNITS:
        raise Misspoken(f"I do not know the bound {number} {unit!r}. {HOW}")
    lasts = number * UNITS[unit]
    if not timedelta(0) < lasts <= LONGEST:
        raise Misspoken(f"{number} {unit}: at most {LONGEST.days} days can be allowed, and more than none.")
    return replace(bounds, lasts=lasts)


def _following(words: Iterator[str], otherwise: str) -> str:
    word = next(words, "")
    if not word:
        raise Misspoken(otherwise)
    return word
