"""A typed rule in words, for the person who has to say whether that is what they meant (F5)."""

from daemon.core.guards import Guard
from daemon.core.label import Decision, Effect
from daemon.core.words import siblings

DOES = {
    Effect.READ: "reads",
    Effect.FETCH: "fetches from outside",
    Effect.WRITE: "writes",
    Effect.EGRESS: "sends something out",
    Effect.DESTRUCTIVE: "may change or delete anything",
}
MOST = 6


def told(guard: Guard) -> str:
    """`ask before every call that may change or delete anything, about mail (mailbox, inbox ...)`."""
    begin = "ask before" if guard.action is Decision.ASK else "refuse"
    does = [DOES[effect] for effect in Effect if effect in guard.effects and guard.effects != frozenset(Effect)]
    named = f"is named {_some(guard.verbs)}" if guard.verbs else ""
    which = _either([*does, named])
    parts = (
        f"{begin} every call" + (f" that {which}" if which else ""),
        f"about {_either(guard.about)} ({_also(guard)} count too)" if guard.about and _also(guard) else "",
        f"about {_either(guard.about)}" if guard.about and not _also(guard) else "",
        f"with {_either(guard.values)} in its arguments" if guard.values else "",
        f"at or under {_either(guard.paths)}" if guard.paths else "",
        f"with the words {_either(guard.commands)}" if guard.commands else "",
        f"of more than {guard.above:g}, or of an amount that I cannot tell" if guard.above is not None else "",
    )
    return ", ".join(part for part in parts if part)


def _also(guard: Guard) -> str:
    return _some(tuple(dict.fromkeys(other for word in guard.about for other in siblings(word) if other not in guard.about)))


def _some(words: tuple[str, ...]) -> str:
    return ", ".join(words[:MOST]) + (" ..." if len(words) > MOST else "")


def _either(words: tuple[str, ...] | list[str]) -> str:
    return " or ".join(word for word in words if word)
