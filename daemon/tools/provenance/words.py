"""Words of a text, with what makes one stand for something: quotes, a name's capital, the kind of thing named beside it."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

QUOTED = re.compile(r"(?<!\w)'([^'\n]+)'(?!\w)|\"([^\"\n]+)\"|“([^”\n]+)”|‘([^’\n]+)’|«([^»\n]+)»|`([^`\n]+)`")
EDGES = ".,;:!?()[]{}<>\"'“”‘’«»`*~#…"
MONEY = "$€£¥"
NUMBER = re.compile(r"-?\d+(?:[.,]\d{3})*(?:\.\d+)?|-?\d+(?:,\d{1,2})?")
ORDINARY = re.compile(r"[^\W\d_]+")
SMALL = ("the", "a", "an", "with", "of", "is", "as", "to", "named", "called", "my", "our", "this")
FILLERS = frozenset(("id", "ids", "number", "no", "nr", *SMALL))
LEADS = frozenset(["to", "for", "with", "from", "named", "called", "invite", "tell", "message", "email", "ask"])
AMOUNTS = frozenset(["amount", "price", "sum", "total", "cost", "fee", "budget", "value", "money", "payment"])
GENERIC = frozenset(["id", "number", "no", "nr", "key", "name", "new", "value", "list"])
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
ENDS = ".!?:"


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it stands, as it is compared, and whether a sentence begins with it."""

    text: str
    plain: str
    first: bool

    @property
    def number(self) -> float | None:
        """What it is as a number."""
        return number_of(self.plain)

    @property
    def names(self) -> bool:
        """It can only stand for one thing: it has a digit, a sign or a capital that no sentence asks for."""
        if not ORDINARY.fullmatch(self.text):
            return True
        return any(char.isupper() for char in self.text[1:]) or (self.text[0].isupper() and not self.first)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text in order, and what stands in quotes; "" is a gap where an address or a date was taken out."""

    words: tuple[Word, ...]
    quoted: frozenset[str]

    def holds(self, value: str, kinds: frozenset[str], tool: frozenset[str]) -> bool:
        """Whether this value stands there as a whole, and as the kind of thing that is meant."""
        wanted = [word.plain for word in words_of(value).words]
        if not wanted:
            return False
        if len(wanted) > 1:
            return folded(value) in self.quoted or any(self._runs(at, wanted) for at in range(len(self.words)))
        number = number_of(wanted[0])
        if number is not None:
            return any(word.number == number and self._counts(at, kinds, tool) for at, word in enumerate(self.words))
        if folded(value) in self.quoted:
            return True
        return any(word.plain == wanted[0] and self._means(at, kinds) for at, word in enumerate(self.words))

    def _means(self, at: int, kinds: frozenset[str]) -> bool:
        """An ordinary word stands for somebody or something: "to bob", "the general channel"."""
        word = self.words[at]
        if word.plain in FILLERS:
            return False
        return word.names or self._beside(at, kinds) or (at > 0 and self.words[at - 1].plain in LEADS)

    def _runs(self, at: int, wanted: Sequence[str]) -> bool:
        return [word.plain for word in self.words[at : at + len(wanted)]] == wanted

    def _counts(self, at: int, kinds: frozenset[str], tool: frozenset[str]) -> bool:
        """A bare number is nobody's file: an amount may be any number that was said, all else has to be named as what it is."""
        return bool(kinds & AMOUNTS) or self._beside(at, (kinds - GENERIC) or (kinds | tool))

    def _beside(self, at: int, kinds: frozenset[str]) -> bool:
        """The kind is named: right behind it, or before it with nothing but small words between."""
        if at + 1 < len(self.words) and _single(self.words[at + 1].plain) in kinds:
            return True
        for word in reversed(self.words[max(at - 5, 0) : at]):
            if _single(word.plain) in kinds:
                return True
            if word.plain not in FILLERS:
                return False
        return False


def number_of(text: str) -> float | None:
    """The number that this is; None when it is none."""
    if not NUMBER.fullmatch(text):
        return None
    decimal = text.replace(",", ".") if re.fullmatch(r"-?\d+,\d{1,2}", text) else text.replace(",", "")
    try:
        return float(decimal)
    except ValueError:
        return None


def folded(text: str) -> str:
    """As texts are compared: one space, no case, composed."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split()).strip(EDGES + " ")


def kinds_of(name: str) -> frozenset[str]:
    """The kinds of thing that a name is made of: "file_id" is about a file, "newStartTime" about a start and a time."""
    return frozenset(_single(part.casefold()) for part in CAMEL.split(name) if part)


@lru_cache(maxsize=512)
def words_of(text: str) -> Words:
    """Look at it once."""
    quoted = frozenset(folded(next(part for part in match.groups() if part)) for match in QUOTED.finditer(text))
    words: list[Word] = []
    first = True
    for raw in text.replace("\n", " \n ").split(" "):
        bare = _bare(raw.strip())
        if bare:
            words.append(Word(bare, bare.strip(MONEY).casefold(), first))
        if raw.strip() or "\n" in raw:
            first = "\n" in raw or raw.rstrip(EDGES.translate({ord(mark): None for mark in ENDS}))[-1:] in ENDS
    return Words(tuple(words), quoted)


def _bare(raw: str) -> str:
    bare = unicodedata.normalize("NFC", raw).rstrip(EDGES).lstrip(EDGES.replace(".", ""))
    for ending in ("'s", "’s"):
        bare = bare.removesuffix(ending)
    return bare.removeprefix("./") if len(bare) > 2 else bare


def _single(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
