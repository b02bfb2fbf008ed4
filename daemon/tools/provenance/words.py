"""Words of a text, with what makes one stand for something: quotes, a name's capital, the kind of thing named beside it."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from daemon.tools.provenance.addresses import lowered
from daemon.tools.provenance.kinds import AMOUNTS, FILLERS, GIVING, LEADS, PEOPLE, TOWARDS, Kinds, kinds_of, single

QUOTED = re.compile(r"(?<!\w)'([^'\n]+)'(?!\w)|\"([^\"\n]+)\"|“([^”\n]+)”|‘([^’\n]+)’|«([^»\n]+)»|`([^`\n]+)`")
EDGES = ".,;:!?()[]{}<>\"'“”‘’«»`*~#…"
MONEY = "$€£¥"
NUMBER = re.compile(r"-?[0-9]+(?:[.,][0-9]{3})*(?:\.[0-9]+)?|-?[0-9]+(?:,[0-9]{1,2})?")
COMMA = re.compile(r"-?[0-9]+,[0-9]{1,2}")
ORDINARY = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
ENDS = ".!?:"


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it was written and without what is around it; whether a sentence begins with it."""

    raw: str
    text: str
    first: bool

    @property
    def plain(self) -> str:
        """As it is compared with the names of kinds."""
        return lowered(self.text.strip(MONEY))

    @property
    def number(self) -> Decimal | None:
        """What it is as a number."""
        return number_of(self.text.strip(MONEY))

    @property
    def names(self) -> bool:
        """It can only stand for one thing: it has a digit, a sign or a capital that no sentence asks for."""
        if not ORDINARY.fullmatch(self.text) or self.raw.startswith(("#", "@")):
            return True
        capital = any(char.isupper() for char in self.text[1:]) or (self.text[0].isupper() and not self.first)
        return capital and len(self.text) > 1

    def says(self, value: str) -> bool:
        """It is this, with nothing around it but signs of its own sentence. Only ordinary words may be written large or small."""
        ordinary = ORDINARY.fullmatch(value) is not None
        mine, wanted = (lowered(self.raw), lowered(value)) if ordinary else (self.raw, value)
        before, found, after = mine.partition(wanted)
        return bool(found) and not before.removeprefix("./").strip(EDGES) and after.strip(EDGES) in ("", "s", "’s", "'s")


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text in order, and what stands in quotes; a gap is where an address or a date was taken out."""

    words: tuple[Word, ...]
    quoted: frozenset[str]

    def holds(self, value: str | float, name: str, tool: str) -> bool:
        """Whether this value stands there as a whole, and as the kind of thing that is meant."""
        said = str(value)
        if number_of(said) is not None:
            return any(self._counts(at, value, kinds_of(name, tool)) for at in range(len(self.words)))
        if lowered(said) in self.quoted:
            return True
        if " " in said:
            return self._runs(said.split(" "))
        kinds = kinds_of(name, tool)
        bare = said.removeprefix("./")
        return any(word.says(bare) and self._means(at, kinds) for at, word in enumerate(self.words))

    def names_site(self, host: str) -> bool:
        """A host that is named without more: "look at example.com"."""
        return any(lowered(word.text) == host for word in self.words)

    def _means(self, at: int, kinds: Kinds) -> bool:
        """An ordinary word stands for somebody or something: "to bob", "the general channel"."""
        word = self.words[at]
        if word.plain in FILLERS:
            return False
        return word.names or self._named(at, kinds.own) or self._follows(at, kinds.own) or self._led(at, kinds.own)

    def _led(self, at: int, kinds: frozenset[str]) -> bool:
        """Somebody is meant: "tell bob", "send it to bob"; not "I want to know"."""
        if not at or not kinds & PEOPLE:
            return False
        lead = self.words[at - 1].plain
        return lead in LEADS or (lead in TOWARDS and any(word.plain in GIVING for word in self._sentence(at)))

    def _sentence(self, at: int) -> Iterator[Word]:
        """What stands before this word in its sentence, from the nearest on."""
        for word in reversed(self.words[: at + 1]):
            yield word
            if word.first:
                return

    def _runs(self, wanted: list[str]) -> bool:
        size = len(wanted)
        starts = range(len(self.words) - size + 1)
        return any(all(map(Word.says, self.words[at : at + size], wanted)) for at in starts)

    def _counts(self, at: int, value: str | float, kinds: Kinds) -> bool:
        """A bare number is nobody's file, and neither are "13 files": an amount may be any number that was said, all else has to
        be named as what it is, and written as it was.
        """
        word = self.words[at]
        if word.number is None or word.number != number_of(str(value)):
            return False
        if kinds.own & AMOUNTS:
            return True
        if isinstance(value, str) and not word.says(value):
            return False
        return self._named(at, kinds.all) or (at + 1 < len(self.words) and self.words[at + 1].plain in kinds.measures)

    def _follows(self, at: int, kinds: frozenset[str]) -> bool:
        """The kind is named right behind it: "the general channel"."""
        return at + 1 < len(self.words) and single(self.words[at + 1].plain) in kinds

    def _named(self, at: int, kinds: frozenset[str]) -> bool:
        """The kind is named before it, with nothing but small words between: "file number 13"."""
        for word in reversed(self.words[max(at - 5, 0) : at]):
            if single(word.plain) in kinds:
                return True
            if word.plain not in FILLERS:
                return False
        return False


def number_of(text: str) -> Decimal | None:
    """The number that this is, exactly; None when it is none."""
    if not NUMBER.fullmatch(text):
        return None
    return Decimal(text.replace(",", ".") if COMMA.fullmatch(text) else text.replace(",", ""))


@lru_cache(maxsize=512)
def words_of(text: str) -> Words:
    """Look at it once."""
    text = unicodedata.normalize("NFC", text)
    found = (next(part for part in match.groups() if part) for match in QUOTED.finditer(text))
    quoted = frozenset(form for part in found for form in _forms(part))
    words: list[Word] = []
    first = True
    for raw in text.replace("\n", " \n ").split(" "):
        bare = _bare(raw.strip())
        if bare:
            words.append(Word(raw.strip(), bare, first))
        if raw.strip() or "\n" in raw:
            first = "\n" in raw or raw.rstrip(EDGES.translate({ord(mark): None for mark in ENDS}))[-1:] in ENDS
    return Words(tuple(words), quoted)


def _forms(quoted: str) -> tuple[str, str]:
    """What is quoted, with and without the signs of the sentence around it."""
    plain = " ".join(lowered(quoted).split())
    return plain, plain.strip(EDGES + " ")


def _bare(raw: str) -> str:
    bare = raw.rstrip(EDGES).lstrip(EDGES.replace(".", ""))
    for ending in ("'s", "’s"):
        bare = bare.removesuffix(ending)
    return bare.removeprefix("./") if len(bare) > 2 else bare
