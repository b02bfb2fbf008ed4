"""Words of a rule that say where: paths, addresses, hosts; and amounts of money (F5).

A rule in its typed form: `ask effect=destructive about=mail` (F5).

What verbs people use in rules, and what they mean: an effect, never a tool (F5).

Whether a sentence forbids something or asks for a question before it, and what that something is (F5).

From an English sentence to a typed rule, by a small grammar; what it cannot read it says so (F5).
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from urllib.parse import urlsplit

from daemon.core import value
from daemon.core.trust import Decision, Effect
from daemon.tools.policy.rule_match import RuleMatcher
from daemon.tools.policy.stemming import split_set, split_words, stem

ADDRESS = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
HOST = re.compile(
    r"(?:https?://\S+|(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?)",
    re.IGNORECASE,
)
HANDLE = re.compile(r"[@#][\w.-]+|\+\d[\d-]{6,}|[A-Z]{2}\d{2}[A-Z0-9]{10,}")
ENDING = re.compile(
    r"\.(?:txt|md|pdf|docx?|xlsx?|csv|json|ya?ml|toml|ini|cfg|conf|py|sh|js|ts|html?|log|db|sqlite|env|zip|tar|gz|png|jpe?g|key|pem)$",
    re.IGNORECASE,
)
SUM = re.compile(
    r"[$€£]?(\d[\d.,]*)(k?)(?:[$€£]|usd|eur|gbp|dollars?|euros?|pounds?)?", re.IGNORECASE
)
COINS = split_set("dollar dollars euro euros usd eur gbp pound pounds bucks cents chf francs $ € £")
MORE = (
    ("more", "than"), ("greater", "than"), ("higher", "than"), ("at", "least"), ("upwards", "of"), ("in", "excess", "of"),
    ("over",), ("above",), ("exceeding",), (">",),
)  # fmt: skip


def is_path(word: str) -> bool:
    """It names a place among files."""
    return "/" in word or word.startswith(("~", ".")) or bool(ENDING.search(word)) or "*" in word


def is_value(word: str) -> bool:
    """It names an address, a host, a handle: what stands in arguments as it stands here."""
    if HANDLE.fullmatch(word) or ADDRESS.fullmatch(word):
        return True
    return bool(HOST.fullmatch(word)) and not ENDING.search(word)


def normalize_value(word: str) -> str:
    """As it is looked for: of an address of the web its host, for the same page has many addresses."""
    if ADDRESS.fullmatch(word) or HANDLE.fullmatch(word):
        return word
    host = (urlsplit(word if "//" in word else f"//{word}").hostname or word).removeprefix("www.")
    return host.rstrip(".")


def amount_in(words: Sequence[str]) -> tuple[Sequence[str], float | None]:
    """The words without the amount, and the amount: `more than 50 dollars`."""
    small = [word.lower() for word in words]
    for at in range(len(words)):
        lead = next((lead for lead in MORE if tuple(small[at : at + len(lead)]) == lead), None)
        number = (
            SUM.fullmatch(small[at + len(lead)]) if lead and at + len(lead) < len(small) else None
        )
        if lead and number:
            end = at + len(lead) + 1
            end += small[end : end + 1] != [] and small[end] in COINS
            return [*words[:at], *words[end:]], _number(number[1]) * (1000 if number[2] else 1)
    return words, None


def _number(written: str) -> float:
    """1,000 is a thousand; 9.99 is nearly ten."""
    tidy = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", written).replace(",", ".").rstrip(".")
    return float(tidy)


TYPED_RULE = re.compile(r"(ask|deny)((?:\s+\w+=\S+)+)", re.IGNORECASE)
KEYS = ("effect", "about", "path", "to", "amount", "command")


def parse_typed(text: str) -> RuleMatcher | None:
    """The rule, if this is one in the typed form. Raises ValueError for a key or a value that there is not."""
    match = TYPED_RULE.fullmatch(text)
    if match is None:
        return None
    given: dict[str, tuple[str, ...]] = {}
    for part in match[2].split():
        key, _, value = part.partition("=")
        if key.lower() not in KEYS:
            raise ValueError(f"There is no {key!r} in a rule; there are: {', '.join(KEYS)}.")
        given[key.lower()] = tuple(one for one in value.split(",") if one)
    return RuleMatcher(
        Decision(match[1].lower()),
        frozenset(map(_parse_effect, given.get("effect", ()))) or frozenset(Effect),
        about=tuple(word.lower() for word in given.get("about", ())),
        paths=given.get("path", ()),
        values=tuple(map(normalize_value, given.get("to", ()))),
        commands=given.get("command", ()),
        above=_parse_amount(given["amount"]) if "amount" in given else None,
    )


def _parse_effect(name: str) -> Effect:
    try:
        return Effect(name.lower())
    except ValueError:
        raise ValueError(f"There is no effect {name!r}; there are: {', '.join(Effect)}.") from None


def _parse_amount(given: tuple[str, ...]) -> float:
    try:
        return float(given[0])
    except (ValueError, IndexError):
        raise ValueError("An amount is a number: amount=50.") from None


READ, FETCH, WRITE, EGRESS, DESTRUCTIVE = Effect


@value
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
def _known_verbs() -> dict[str, Verb]:
    known = {stem(word): Verb(words=(word,)) for word in DEEDS.split()}
    for words, effects in WIDE:
        known |= {stem(word): Verb(frozenset(effects)) for word in words.split()}
    for words, effects, about in FAMILIES:
        known |= {
            stem(word): Verb(frozenset(effects), tuple(words.split()), about)
            for word in words.split()
        }
    return known


def verb_of(word: str) -> Verb | None:
    """What this word means as a verb, in any of its forms; None when it is none that rules know."""
    noun = NOUNS.get(word) or NOUNS.get(word.removesuffix("s"))
    return _known_verbs().get(stem(noun or word))


YES = split_set(
    "ask asks asked asking check checks checked checking confirm confirms confirmed confirming confirmation consult consulting "
    "approval approve approves approved approving permission permit consent ok okay go-ahead say says said saying say-so tell "
    "tells told telling agree agrees agreed agreeing agreement allow allowed authorization authorisation authorized authorised "
    "blessing verify verifying"
)
AROUND = split_set(
    "me us i my our you your we the a an owner owner's user user's with in from of for to by first firstly beforehand before "
    "always ever explicitly explicit prior so yes it that this is it's i've i have has had get gets got getting obtain obtaining "
    "obtained give gives gave given giving request requesting seek seeking wait waiting need needing needs require "
    "requires please must should shall will would may can double and then be been want each every single time again either having"
)
LEAD = split_set(
    "please you must should may can shall will would are is do the assistant agent aidaemon i i'd want like to make sure that "
    "always allowed rule under from now on ok okay hey be"
)
AFTER = split_set(
    "ever even be allowed to under any circumstances circumstance try attempt you want more let of"
)
NOT = split_set("never not no avoid stop refuse")
CONTRACTED = {
    "don't", "dont", "can't", "cannot", "cant", "mustn't", "mustnt", "shouldn't", "shouldnt", "won't", "wont", "mayn't",
    "aren't", "isn't", "doesn't",
}  # fmt: skip
CUTS = split_set("without w/o unless until before except")
ONLY_CUTS = split_set("after when if with once")
NEEDS = split_set("need needs require requires")
TAILS = (
    ("forbidden",),
    ("prohibited",),
    ("not", "allowed"),
    ("not", "permitted"),
    ("never", "allowed"),
)
Asked = tuple[Decision, Sequence[str]]


def parse_modality(words: Sequence[str]) -> Asked | None:
    """What is to happen, and the words that say before what; None when the sentence says neither."""
    said = [("not" if word.lower() in CONTRACTED else word) for word in words]
    return _ask_before(said) or _only(said) or _needs(said) or _is_forbidden(said) or _never(said)


def _means_asking(words: Sequence[str]) -> bool:
    small = [word.lower() for word in words if word != ","]
    return any(word in YES for word in small) and all(
        word in YES or word in AROUND for word in small
    )


def _ask_before(words: Sequence[str]) -> Asked | None:
    """`always ask me before you send mail`; also `ask me for permission to`, `ask me if you want to`."""
    small = [word.lower() for word in words]
    if not small or any(word in NOT for word in small):
        return None
    for at, word in enumerate(small):
        permission = word == "to" and small[at - 1] in ("permission", "approval", "consent")
        wish = word in ("if", "when", "whenever") and small[at + 1 : at + 4] in (
            ["you", "want", "to"],
            ["you", "need", "to"],
        )
        if (word in ("before", "prior") or permission or wish) and _means_asking(small[:at]):
            rest = words[at + (4 if wish else 1) :]
            return Decision.ASK, _behind(rest, split_set("to you ever any every each"))
    return None


def _only(words: Sequence[str]) -> Asked | None:
    """`only send mail after asking me`."""
    small = [word.lower() for word in words]
    lead = next((at for at, word in enumerate(small) if word not in LEAD), len(small))
    if small[lead : lead + 1] != ["only"]:
        return None
    cut = next(
        (
            at
            for at in range(lead, len(words))
            if small[at] in ONLY_CUTS and _means_asking(words[at + 1 :])
        ),
        None,
    )
    return (Decision.ASK, words[lead + 1 : cut]) if cut else None


def _needs(words: Sequence[str]) -> Asked | None:
    """`deleting mail needs my approval`."""
    cut = next(
        (
            at
            for at, word in enumerate(words)
            if word.lower() in NEEDS and _means_asking(words[at + 1 :])
        ),
        0,
    )
    return (Decision.ASK, _behind(words[:cut], split_set("every any each all"))) if cut else None


def _is_forbidden(words: Sequence[str]) -> Asked | None:
    """`deleting mail is forbidden`."""
    small = [word.lower() for word in words]
    for tail in TAILS:
        if (
            tuple(small[-len(tail) :]) == tail
            and len(small) > len(tail) + 1
            and small[-len(tail) - 1] in ("is", "are")
        ):
            return Decision.DENY, words[: -len(tail) - 1]
    return None


def _never(words: Sequence[str]) -> Asked | None:
    """`never delete mail`, and with `without asking` behind it, a question."""
    lead = next((at for at, word in enumerate(words) if word.lower() in NOT), None)
    if lead is None or any(word.lower() not in LEAD and word != "," for word in words[:lead]):
        return None
    rest = _behind(words[lead + 1 :], AFTER)
    cut = next(
        (
            at
            for at, word in enumerate(rest)
            if word.lower() in CUTS and _means_asking(rest[at + 1 :])
        ),
        None,
    )
    return (Decision.DENY, rest) if cut is None else (Decision.ASK, rest[:cut])


def _behind(words: Sequence[str], filler: frozenset[str]) -> Sequence[str]:
    first = next(
        (at for at, word in enumerate(words) if word.lower() not in filler and word != ","),
        len(words),
    )
    return words[first:]


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
SMALL = split_set(
    "my the a an any all every each of your our his their this that these those own some other another single important old new "
    "private personal whole entire existing it them itself out up off away to in on at with into under inside for by via using "
    "about through onto over within from as via me myself back again ever no whatsoever at else permanently directly"
)
ANY = split_set(
    "anything everything something stuff thing things data information content anywhere"
)
PEOPLE = split_set(
    "anyone anybody someone somebody everyone everybody people person persons stranger strangers boss wife husband mother father "
    "mom dad friend friends colleague colleagues coworker coworkers client clients customer customers others team family him her "
    "partner contact contacts"
)
CLAUSES = split_set(
    "unless except but if when while until after before only because without where who which instead"
)
TIMES = split_set(
    "weekend weekends night tonight today tomorrow monday tuesday wednesday thursday friday saturday sunday hour hours minute "
    "minutes day days daily week weekly month monthly per am pm times twice once o'clock morning evening"
)
HERE = ("in this chat", "in this conversation", "in this session", "here")
THERE = ("in any chat", "in all chats", "in every chat", "everywhere", "anywhere")
NAMED_VERBS = split_set(
    "mail email message text post order call transfer purchase tweet note label book share tip"
)


@value
class RuleRefusal:
    """Why there is no rule, and what can be said instead."""

    text: str


@value
class ParsedRule:
    """A rule as it was read. `here`: for this chat alone; `notes` are what it could not hold, told to its owner."""

    guard: RuleMatcher
    here: bool = False
    notes: tuple[str, ...] = ()


class RuleError(Exception):
    """This sentence is no rule, and why."""


def parse_rule(sentence: str) -> ParsedRule | RuleRefusal:
    """The typed rule that the sentence asks for, or why there is none."""
    text = (
        unicodedata.normalize("NFKC", sentence)
        .translate(str.maketrans("\u2018\u2019\u201c\u201d", "''\"\""))
        .strip()
    )
    try:
        if not text or len(text) > LONGEST:
            raise RuleError(f"A rule is one sentence of at most {LONGEST} characters.")
        text, here = _scope(text)
        found = parse_typed(text)
        return replace(_read(_tokens(text)) if found is None else ParsedRule(found), here=here)
    except (RuleError, ValueError) as error:
        return RuleRefusal(f"{error}\n{FORMS}")


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
        raise RuleError("That is more than one sentence. Add one rule at a time.")
    parts = re.findall(r"\"[^\"]+\"|[^\s,]+(?:,\d[^\s,]*)*|,", text)
    return [
        word
        for part in parts
        if (
            word := part
            if part == ","
            else part.strip("\"'`").rstrip("!?;:.") or part.strip("\"'`")
        )
    ]


def _read(tokens: Sequence[str]) -> ParsedRule:
    asked = parse_modality(tokens)
    if asked is None:
        raise RuleError(
            f"I could not read that as a rule: it must say never, or ask before. {LESS}"
        )
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
        raise RuleError(_why_no_verb(rest))
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
        if (
            noun in NOUNS
            or noun.removesuffix("s") in NOUNS
            or (noun and small[0] not in ("do", "doing") and verb_of(noun))
        ):
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

    def read(self, words: Sequence[str]) -> ParsedRule:
        """The rule. Raises NotUnderstood."""
        rest, self.above = amount_in(words)
        if self.above is not None and not any("money" in verb.about for verb in self.verbs):
            raise RuleError("An amount fits only a rule about money.")
        self._check(rest)
        behind_to = False
        for word in rest:
            behind_to = (behind_to or word.lower() in ("to", "with")) and word.lower() not in JOINTS
            self._take(word, behind_to)
        return self._made(rest)

    def _check(self, words: Sequence[str]) -> None:
        small = [word.lower() for word in words]
        if hit := next((word for word in small if word in CLAUSES), ""):
            raise RuleError(
                f"I cannot keep a rule with an exception or a condition ({hit!r}). Say it without."
            )
        if hit := next((word for word in small if word in TIMES or word.isdecimal()), ""):
            raise RuleError(
                f"A rule cannot say when, how often or how many ({hit!r}); it always holds."
            )
        for at, word in enumerate(small[1:-1], 1):
            if (
                small[at - 1] in JOINTS
                and word not in NAMED_VERBS
                and small[at + 1] not in JOINTS
                and _verb(small[at:])[0]
            ):
                raise RuleError("That forbids two things. Add one rule for each.")

    def _take(self, word: str, behind_to: bool) -> None:
        small = word.lower()
        if small in SMALL or small in JOINTS or small in ANY:
            return
        if is_value(word):
            self.values.append(normalize_value(word))
        elif is_path(word):
            self.paths.append(word)
        elif small in PEOPLE or (behind_to and self.about and self._sends()):
            self.notes.append(
                f"I cannot tell from an address who {word!r} is, so it holds for everybody; name an address."
            )
        elif not re.search(r"[^\W\d_]", word):
            raise RuleError(f"I do not understand {word!r}.")
        else:
            self.about += [piece.lower() for piece in split_words(word)]

    def _sends(self) -> bool:
        return any("send" in verb.words or "mail" in verb.about for verb in self.verbs)

    def _made(self, words: Sequence[str]) -> ParsedRule:
        if len(self.about) > MOST_WORDS:
            raise RuleError("That is too long for me. Say what it is about in a word or two.")
        runs = all("run" in verb.words for verb in self.verbs)
        effects = frozenset(effect for verb in self.verbs for effect in verb.effects)
        named = tuple(dict.fromkeys(word for verb in self.verbs for word in verb.words))
        own = tuple(word for verb in self.verbs for word in verb.about)
        guard = RuleMatcher(
            self.action, effects, named, tuple(dict.fromkeys((*self.about, *own))), tuple(self.paths), tuple(self.values),
            above=self.above,
        )  # fmt: skip
        return ParsedRule(
            _of_commands(guard) if runs else _placed(guard), notes=tuple(dict.fromkeys(self.notes))
        )


def _placed(guard: RuleMatcher) -> RuleMatcher:
    """Where a place is named, a word like `files` before it adds nothing."""
    plain = split_set("file files folder folders directory directories")
    return replace(
        guard, about=tuple(word for word in guard.about if not (guard.paths and word in plain))
    )


def _of_commands(guard: RuleMatcher) -> RuleMatcher:
    """`run commands` means all of them, `run git push` those with these words."""
    general = split_set("command commands shell program programs script scripts code")
    line = " ".join(word for word in guard.about if word not in general)
    return replace(guard, about=("command",), commands=(line,) if line else ())
