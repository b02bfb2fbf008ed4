"""A rule in its typed form: `ask effect=destructive about=mail` (F5)."""

import re

from daemon.core.guards import Guard
from daemon.core.label import Decision, Effect
from daemon.tools.rules.places import value_of

TYPED = re.compile(r"(ask|deny)((?:\s+\w+=\S+)+)", re.IGNORECASE)
KEYS = ("effect", "about", "path", "to", "amount", "command")


def typed(text: str) -> Guard | None:
    """The rule, if this is one in the typed form. Raises ValueError for a key or a value that there is not."""
    match = TYPED.fullmatch(text)
    if match is None:
        return None
    given: dict[str, tuple[str, ...]] = {}
    for part in match[2].split():
        key, _, value = part.partition("=")
        if key.lower() not in KEYS:
            raise ValueError(f"There is no {key!r} in a rule; there are: {', '.join(KEYS)}.")
        given[key.lower()] = tuple(one for one in value.split(",") if one)
    return Guard(
        Decision(match[1].lower()),
        frozenset(map(_effect, given.get("effect", ()))) or frozenset(Effect),
        about=tuple(word.lower() for word in given.get("about", ())),
        paths=given.get("path", ()),
        values=tuple(map(value_of, given.get("to", ()))),
        commands=given.get("command", ()),
        above=_amount(given["amount"]) if "amount" in given else None,
    )


def _effect(name: str) -> Effect:
    try:
        return Effect(name.lower())
    except ValueError:
        raise ValueError(f"There is no effect {name!r}; there are: {', '.join(Effect)}.") from None


def _amount(given: tuple[str, ...]) -> float:
    try:
        return float(given[0])
    except (ValueError, IndexError):
        raise ValueError("An amount is a number: amount=50.") from None
