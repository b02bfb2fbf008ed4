"""What verbs people use in rules, and what they mean: an effect, never a tool (F5)."""

from dataclasses import dataclass
from functools import lru_cache

from daemon.core.label import Effect
from daemon.core.words import stem

READ, FETCH, WRITE, EGRESS, DESTRUCTIVE = Effect


@dataclass(frozen=True, slots=True)
class Verb:
    """`words` are looked for in names of tools; `about` is what the verb itself says it is about."""

    effects: frozenset[Effect] = frozenset()
    words: tuple[str, ...] = ()
    about: tuple[str, ...] = ()


FAMILIES: tuple[tuple[str, tuple[Effect, ...], tuple[str, ...]], ...] = (
    ("delete remove erase trash purge wipe clear destroy drop discard unlink empty shred uninstall", (DESTRUCTIVE,), ()),
    ("pay spend buy purchase donate tip transfer invest bid checkout order", (EGRESS, DESTRUCTIVE), ("money",)),
    ("send forward reply respond publish share upload submit broadcast announce notify invite export disclose leak contact post",
     (EGRESS,), ()),
    ("email mail", (EGRESS,), ("mail",)),
    ("message text dm", (EGRESS,), ("message",)),
    ("tweet", (EGRESS,), ("tweet",)),
    ("call phone", (EGRESS,), ("call",)),
    ("write edit change modify update overwrite save create rename move copy append replace alter add", (WRITE, DESTRUCTIVE), ()),
    ("run execute exec launch start", (DESTRUCTIVE,), ()),
    ("fetch visit browse download crawl scrape", (FETCH, EGRESS), ()),
    ("read open view search look list", (READ, FETCH), ()),
)  # fmt: skip
WIDE: tuple[tuple[str, tuple[Effect, ...]], ...] = (
    ("touch tamper meddle mess", (WRITE, EGRESS, DESTRUCTIVE)),
    ("use access do", (READ, FETCH, WRITE, EGRESS, DESTRUCTIVE)),
)
DEEDS = (
    "archive cancel book reserve schedule reschedule accept decline approve reject merge deploy restart reboot shutdown commit "
    "push close mark label block unsubscribe subscribe sign log install upgrade downgrade enable disable unlock lock hire follow "
    "unfollow like comment answer restore mute kick ban confirm"
)
NOUNS = {
    "payment": "pay", "deletion": "delete", "removal": "remove", "donation": "donate", "booking": "book",
    "reservation": "reserve", "execution": "run", "installation": "install", "publication": "publish", "modification": "modify",
    "posting": "post", "spending": "spend", "erasure": "erase", "cancellation": "cancel", "subscription": "subscribe",
}  # fmt: skip
PHRASES: tuple[tuple[str, str], ...] = (
    ("get rid of", "delete"), ("throw away", "delete"), ("throw out", "delete"), ("go to", "visit"), ("navigate to", "visit"),
    ("log into", "log"), ("log in", "log"), ("sign up for", "subscribe"), ("sign up", "subscribe"), ("shut down", "shutdown"),
    ("turn off", "disable"), ("turn on", "enable"), ("carry out", "run"), ("look at", "read"), ("look into", "read"),
    ("check out", "checkout"), ("mess with", "mess"), ("write to", "write"), ("reach out to", "contact"), ("give away", "share"),
)  # fmt: skip
EMPTY = ("make", "place", "do", "perform")


@lru_cache(maxsize=1)
def _verbs() -> dict[str, Verb]:
    known = {stem(word): Verb(words=(word,)) for word in DEEDS.split()}
    for words, effects in WIDE:
        known |= {stem(word): Verb(frozenset(effects)) for word in words.split()}
    for words, effects, about in FAMILIES:
        known |= {stem(word): Verb(frozenset(effects), tuple(words.split()), about) for word in words.split()}
    return known


def verb_of(word: str) -> Verb | None:
    """What this word means as a verb, in any of its forms; None when it is none that rules know."""
    noun = NOUNS.get(word) or NOUNS.get(word.removesuffix("s"))
    return _verbs().get(stem(noun or word))
