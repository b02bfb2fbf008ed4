"""From an English sentence to a typed rule, by a small grammar; what it cannot read it says so (F5)."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from daemon.core.guards import Guard
from daemon.core.label import Decision
from daemon.core.words import listed, pieces
from daemon.tools.rules.asking import YES, asked_for
from daemon.tools.rules.places import amount_in, is_path, is_value, value_of
from daemon.tools.rules.typed import typed
from daemon.tools.rules.verbs import EMPTY, NOUNS, PHRASES, Verb, verb_of

LONGEST, MOST_WORDS = 300, 8
LESS = "A rule can only make me ask more, never less."
NO_VERB = "It does not say what I must not do."
FORMS = """I understand rules in English, in these forms:
  never delete mail
  never send mail to bob@example.com without asking
  always ask before spending more than 50 dollars
  never write to reports/ without asking
  never visit example.com
  never run git push in this chat
or typed: ask effect=destructive about=mail; deny effect=write path=reports/*; ask effect=egress to=example.com
Verbs: delete, send, post, share, pay, spend, buy, write, change, move, run, fetch, visit, read, use, cancel, deploy ..."""
JOINTS = frozenset({"or", "and", "nor", "and/or", ",", "/", "&"})
SMALL = listed(
    "my the a an any all every each of your our his their this that these those own some other another single important old new "
    "private personal whole entire existing it them itself out up off away to in on at with into under inside for by via using "
    "about through onto over within from as via me myself back again ever no whatsoever at else permanently directly"
)
ANY = listed("anything everything something stuff thing things data information content anywhere")
PEOPLE = listed(
    "anyone anybody someone somebody everyone everybody people person persons stranger strangers boss wife husband mother father "
    "mom dad friend friends colleague colleagues coworker coworkers client clients customer customers others team family him her "
    "partner contact contacts"
)
CLAUSES = listed("unless except but if when while until after before only because without where who which instead")
TIMES = listed(
    "weekend weekends night tonight today tomorrow monday tuesday wednesday thursday friday saturday sunday hour hours minute "
    "minutes day days daily week weekly month monthly per am pm times twice once o'clock morning evening"
)
HERE = ("in this chat", "in this conversation", "in this session", "here")
THERE = ("in any chat", "in all chats", "in every chat", "everywhere", "anywhere")
NAMED_VERBS = listed("mail email message text post order call transfer purchase tweet note label book share tip")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no rule, and what can be said instead."""

    text: str


@dataclass(frozen=True, slots=True)
class Understood:
    """A rule as it was read. `here`: for this chat alone; `notes` are what it could not hold, told to its owner."""

    guard: Guard
    here: bool = False
    notes: tuple[str, ...] = ()


class NotUnderstood(Exception):
    """This sentence is no rule, and why."""


def guard_of(sentence: str) -> Understood | Refusal:
    """The typed rule that the sentence asks for, or why there is none."""
    text = unicodedata.normalize("NFKC", sentence).translate(str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")).strip()
    try:
        if not text or len(text) > LONGEST:
            raise NotUnderstood(f"A rule is one sentence of at most {LONGEST} characters.")
        text, here = _scope(text)
        found = typed(text)
        return replace(_read(_tokens(text)) if found is None else Understood(found), here=here)
    except (NotUnderstood, ValueError) as error:
        return Refusal(f"{error}\n{FORMS}")


def _scope(text: str) -> tuple[str, bool]:
    for phrases, here in ((HERE, True), (THERE, False)):
        for phrase in phrases:
            shorter = re.sub(rf"(?i)[,\s]+{phrase}(?=[\s,.!]|$)", "", text)
            if shorter != text:
                return shorter.strip(), here
    return text, False


def _tokens(text: str) -> list[str]:
    """Words as they stand, without quotes and punctuation around them; a comma is a word of its own."""
    if re.search(r"[.!?;]\s+\S", text):
        raise NotUnderstood("That is more than one sentence. Add one rule at a time.")
    parts = re.findall(r"\"[^\"]+\"|[^\s,]+(?:,\d[^\s,]*)*|,", text)
    return [word for part in parts if (word := part if part == "," else part.strip("\"'`").rstrip("!?;:.") or part.strip("\"'`"))]


def _read(tokens: Sequence[str]) -> Understood:
    asked = asked_for(tokens)
    if asked is None:
        raise NotUnderstood(f"I could not read that as a rule: it must say never, or ask before. {LESS}")
    action, phrase = asked
    verbs, rest = _verbs(phrase)
    return Phrase(action, verbs).read(rest)


def _verbs(words: Sequence[str]) -> tuple[list[Verb], Sequence[str]]:
    """The verbs in front, and what stands behind them."""
    found: list[Verb] = []
    rest = list(words)
    while rest:
        small = [word.lower() for word in rest]
        verb, taken = _verb(small)
        joined = small[0] in JOINTS and bool(found) and _verb(small[1:])[0] is not None
        if verb and taken and (not found or _is_joined(words, rest)):
            found.append(verb)
            rest = rest[taken:]
        elif joined:
            rest = rest[1:]
        else:
            break
    if not found:
        raise NotUnderstood(_why_no_verb(rest))
    return found, rest


def _why_no_verb(words: Sequence[str]) -> str:
    if not words:
        return NO_VERB
    return LESS if words[0].lower() in YES else f"I do not know the verb {words[0]!r}."


def _is_joined(words: Sequence[str], rest: Sequence[str]) -> bool:
    """The word before what is left joins it to the one before."""
    at = len(words) - len(rest)
    return at > 0 and words[at - 1].lower() in JOINTS


def _verb(small: Sequence[str]) -> tuple[Verb | None, int]:
    """The verb that these words begin with, and how many words it has."""
    line = " ".join(small)
    for phrase, verb in PHRASES:
        count = len(phrase.split())
        head = " ".join([small[0].removesuffix("ing"), *small[1:count]]) if small else ""
        if line.startswith(f"{phrase} ") or line == phrase or head == phrase:
            return verb_of(verb), count
    if small and (small[0] in EMPTY or small[0] in ("making", "placing", "doing", "performing")):
        at = next((at for at, word in enumerate(small[1:], 1) if word not in SMALL), 0)
        noun = small[at] if at else ""
        if noun in NOUNS or noun.removesuffix("s") in NOUNS or (noun and small[0] not in ("do", "doing") and verb_of(noun)):
            return verb_of(noun), at + 1
    return (verb_of(small[0]), 1) if small else (None, 0)


@dataclass(slots=True)
class Phrase:
    """Collects what stands behind the verbs."""

    action: Decision
    verbs: Sequence[Verb]
    about: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    above: float | None = None

    def read(self, words: Sequence[str]) -> Understood:
        """The rule. Raises NotUnderstood."""
        rest, self.above = amount_in(words)
        if self.above is not None and not any("money" in verb.about for verb in self.verbs):
            raise NotUnderstood("An amount fits only a rule about money.")
        self._check(rest)
        behind_to = False
        for word in rest:
            behind_to = (behind_to or word.lower() in ("to", "with")) and word.lower() not in JOINTS
            self._take(word, behind_to)
        return self._made(rest)

    def _check(self, words: Sequence[str]) -> None:
        small = [word.lower() for word in words]
        if hit := next((word for word in small if word in CLAUSES), ""):
            raise NotUnderstood(f"I cannot keep a rule with an exception or a condition ({hit!r}). Say it without.")
        if hit := next((word for word in small if word in TIMES or word.isdecimal()), ""):
            raise NotUnderstood(f"A rule cannot say when, how often or how many ({hit!r}); it always holds.")
        for at, word in enumerate(small[1:-1], 1):
            if small[at - 1] in JOINTS and word not in NAMED_VERBS and small[at + 1] not in JOINTS and _verb(small[at:])[0]:
                raise NotUnderstood("That forbids two things. Add one rule for each.")

    def _take(self, word: str, behind_to: bool) -> None:
        small = word.lower()
        if small in SMALL or small in JOINTS or small in ANY:
            return
        if is_value(word):
            self.values.append(value_of(word))
        elif is_path(word):
            self.paths.append(word)
        elif small in PEOPLE or (behind_to and self.about and self._sends()):
            self.notes.append(f"I cannot tell from an address who {word!r} is, so it holds for everybody; name an address.")
        elif not re.search(r"[^\W\d_]", word):
            raise NotUnderstood(f"I do not understand {word!r}.")
        else:
            self.about += [piece.lower() for piece in pieces(word)]

    def _sends(self) -> bool:
        return any("send" in verb.words or "mail" in verb.about for verb in self.verbs)

    def _made(self, words: Sequence[str]) -> Understood:
        if len(self.about) > MOST_WORDS:
            raise NotUnderstood("That is too long for me. Say what it is about in a word or two.")
        runs = all("run" in verb.words for verb in self.verbs)
        effects = frozenset(effect for verb in self.verbs for effect in verb.effects)
        named = tuple(dict.fromkeys(word for verb in self.verbs for word in verb.words))
        own = tuple(word for verb in self.verbs for word in verb.about)
        guard = Guard(
            self.action, effects, named, tuple(dict.fromkeys((*self.about, *own))), tuple(self.paths), tuple(self.values),
            above=self.above,
        )  # fmt: skip
        return Understood(_of_commands(guard) if runs else _placed(guard), notes=tuple(dict.fromkeys(self.notes)))


def _placed(guard: Guard) -> Guard:
    """Where a place is named, a word like `files` before it adds nothing."""
    plain = listed("file files folder folders directory directories")
    return replace(guard, about=tuple(word for word in guard.about if not (guard.paths and word in plain)))


def _of_commands(guard: Guard) -> Guard:
    """`run commands` means all of them, `run git push` those with these words."""
    general = listed("command commands shell program programs script scripts code")
    line = " ".join(word for word in guard.about if word not in general)
    return replace(guard, about=("command",), commands=(line,) if line else ())
