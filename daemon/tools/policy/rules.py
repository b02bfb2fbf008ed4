"""The pinned rules, held outside every conversation: which calls each of them means, by what the
tool is called and what its arguments hold; a rule in words for its owner (F5).
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from fnmatch import fnmatchcase
from posixpath import normpath
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict

from daemon.core import value
from daemon.core.quoted import normalize
from daemon.core.rows import RuleRow
from daemon.core.trust import Decision, Effect
from daemon.tools.base import Arguments, Tool
from daemon.tools.registry import ToolRegistry
from daemon.tools.stemming import list_stems, list_synonyms, split_words, stem

MAX_DEPTH, MAX_PATH, MAX_LINE, SHORT_TEXT = 20, 4096, 20_000, 200
SEPARATORS = re.compile(r"[\s'\"`=,;|&<>(){}\[\]:]+")
MONEY = list_stems(
    "amount price total sum cost value money usd eur euro dollar fee payment cent budget charge"
)
NUMBER = re.compile(r"\d[\d.,'_ ]*(?:e\+?\d+)?", re.IGNORECASE)
STRICTNESS = tuple(Decision)
MAX_SENTENCE = 120
Verdict = tuple[Decision, str]
EFFECT_TEXT = {
    Effect.READ: "only reads",
    Effect.FETCH: "fetches from outside",
    Effect.WRITE: "writes in the workspace or the memory",
    Effect.EGRESS: "sends something out",
    Effect.DESTRUCTIVE: "may change or delete anything",
}


class Match(IntEnum):
    """Whether a rule means a call; the lowest of its conditions counts."""

    NO = 0
    MAYBE = 1
    SURE = 2


class RuleMatcher(BaseModel):
    """Calls with one of `effects`, or of a tool named by one of `verbs`, that concern one of the
    nouns in `about` and meet every other condition; an empty field is no condition. `values` are
    addresses, hosts or handles; all words of a command in `commands` must occur; `above` is an
    amount of money; `tools` are names or patterns of tools, which then count alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Decision
    effects: frozenset[Effect] = frozenset()
    verbs: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    above: float | None = None
    tools: tuple[str, ...] = ()

    def decide(self, tool: Tool, arguments: Mapping[str, object]) -> Decision | None:
        """ASK where the rule only may mean the call; None where it does not."""
        # Normalized: neither %65 nor a full-width letter evades a rule.
        leaves = _iter_leaves(arguments)
        texts = [_normalize(leaf) for _, leaf in leaves if isinstance(leaf, str)]
        place = self._match_place(tool, texts)
        match = min(
            place,
            self._match_action(tool, tool.effect_of(arguments)),
            self._match_subject(tool, texts, place),
            Match.SURE if self.above is None else _match_amount(arguments, self.above),
        )
        if match is Match.NO:
            return None
        return self.action if match is Match.SURE else Decision.ASK

    def _match_action(self, tool: Tool, effect: Effect) -> Match:
        """A read-only tool counts only if its name has the very verb."""
        if self.tools:
            is_named = any(fnmatchcase(tool.name, one) for one in self.tools)
            return Match.SURE if is_named else Match.NO
        verbs = set(map(stem, self.verbs))
        if effect in self.effects:
            return Match.SURE
        if effect in (Effect.READ, Effect.FETCH):
            words = {word.casefold() for word in split_words(tool.name)}
            return Match.NO if words.isdisjoint(self.verbs) else Match.SURE
        if list_stems(tool.name) & verbs or self._split_compound(tool.name):
            return Match.SURE
        maybe = effect is Effect.DESTRUCTIVE or list_stems(tool.spec.description) & verbs
        return Match.MAYBE if maybe else Match.NO

    def _split_compound(self, name: str) -> set[str]:
        """The stem of `message` for `deletemessage`."""
        words = [word.casefold() for word in split_words(name)]
        return {
            stem(word.removeprefix(verb))
            for word in words
            for verb in self.verbs
            if word.startswith(verb) and len(word) > 6
        }

    def _match_subject(self, tool: Tool, texts: Sequence[str], place: Match) -> Match:
        wanted = {stem(one) for word in self.about for one in (word, *list_synonyms(word))}
        named = list_stems(tool.name) | list_stems(tool.spec.description)
        if not wanted or wanted & (named | self._split_compound(tool.name)):
            return Match.SURE
        maybe = place is not Match.NO and (self.paths or self.values or self.commands)
        for text in texts:
            if tool.meta.effect is Effect.DESTRUCTIVE or len(text) <= SHORT_TEXT:
                maybe = maybe or wanted & list_stems(text)
                maybe = maybe or any(word in text for word in self.about if len(word) > 4)
        return Match.MAYBE if maybe else Match.NO

    def _match_place(self, tool: Tool, texts: Sequence[str]) -> Match:
        found = Match.SURE
        if self.paths:
            commands = tool.meta.effect in (Effect.EGRESS, Effect.DESTRUCTIVE)
            found = _match_paths(texts, self.paths, commands)
        patterns = map(_compile_value, self.values)
        if self.values and not any(one.search(text) for one in patterns for text in texts):
            found = Match.NO
        if self.commands:
            words = {word.casefold() for text in texts for word in split_words(text)}
            wanted = ({word.casefold() for word in split_words(one)} for one in self.commands)
            if not any(one <= words for one in wanted):
                found = Match.NO
        return found


def _iter_leaves(value: object, key: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """(name, value) of all that stands in the arguments; below the top, names are values too."""
    if depth > MAX_DEPTH:
        yield key, str(value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if depth:
                yield "", str(name)
            yield from _iter_leaves(inner, str(name), depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _iter_leaves(inner, key, depth + 1)
    else:
        yield key, value


def _match_paths(texts: Iterable[str], patterns: Sequence[str], commands: bool) -> Match:
    """A path equals one of the patterns, lies under one or holds one. With `commands` a text may be
    a command line.
    """
    wanted = [_split_path(pattern) for pattern in patterns]
    found = Match.NO
    for text in texts:
        if len(text) > MAX_LINE and commands:
            found = max(found, Match.MAYBE)
        elif len(text) <= MAX_PATH or commands:
            parts = (text, *(SEPARATORS.split(text) if commands else ()))
            for have in [_split_path(path) for path in parts if path]:
                found = max(found, *(_match_path(have, want, commands) for want in wanted))
    return found


def _split_path(path: str) -> list[str]:
    """The parts, wherever the path is anchored."""
    parts = normpath(_normalize(path).replace("\\", "/").removeprefix("file://")).split("/")
    return [part for part in parts if part not in ("", ".", "..", "~")]


def _match_path(have: Sequence[str], want: Sequence[str], trees: bool) -> Match:
    """`trees`: the call may act on the whole tree that contains the path."""
    starts = range(len(have) - len(want) + 1)
    if any(all(map(_match_part, have[start:], want)) for start in starts):
        return Match.SURE
    above = trees and len(have) < len(want) and all(map(_match_part, have, want))
    return Match.MAYBE if above else Match.NO


def _match_part(part: str, pattern: str) -> bool:
    return fnmatchcase(part, pattern) or (
        any(sign in part for sign in "*?[") and fnmatchcase(pattern, part)
    )


def _match_amount(arguments: Mapping[str, object], above: float) -> Match:
    """MAYBE where no argument is named as an amount."""
    numbers = [
        number
        for key, value in _iter_leaves(arguments)
        if MONEY & list_stems(key)
        for number in _iter_numbers(value)
    ]
    if not numbers:
        return Match.MAYBE
    return Match.SURE if max(numbers) > above else Match.NO


def _iter_numbers(value: object) -> Iterator[float]:
    """Every reading of a number: "1.000,50" is "1,000.50" to its writer. One that is not finite
    exceeds any.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            yield float(value) if math.isfinite(value) else math.inf
        except OverflowError:
            yield math.inf
    elif isinstance(value, str):
        for written in NUMBER.findall(value):
            for thousands, point in ((",", "."), (".", ",")):
                plain = re.sub(rf"[{re.escape(thousands)}'_ ]", "", written).replace(point, ".")
                try:
                    yield float(plain.rstrip("."))
                except ValueError:
                    continue


def _normalize(text: str) -> str:
    return normalize("NFKC", unquote(unquote(text))).casefold()


def _compile_value(value: str) -> re.Pattern[str]:
    forms = {plain := _normalize(value).lstrip("#@").rstrip("./")}
    with suppress(UnicodeError):  # a host as it is looked up
        forms.add(plain.encode("idna").decode())
    wanted = "|".join(re.escape(one).replace("@", r"(?:\+[^@\s]*)?@", 1) for one in forms)
    return re.compile(rf"(?<![\w-])(?:{wanted})(?![\w-])")


UNREADABLE_RULE = RuleMatcher(action=Decision.ASK, effects=frozenset(Effect) - {Effect.READ})


@value
class PinnedRule:
    """A stored rule, as it is read. An unreadable one has a `fault`, and asks before everything but
    reading, in every chat.
    """

    row: RuleRow
    guard: RuleMatcher
    fault: str = ""


@dataclass(slots=True)
class RuleSet:
    """All rules by number, in memory for every call. A change is written to the journal first."""

    tools: ToolRegistry
    known: dict[str, PinnedRule] = field(default_factory=dict)

    def put(self, row: RuleRow) -> PinnedRule:
        """Add or replace a rule."""
        try:
            rule = PinnedRule(row, RuleMatcher.model_validate_json(row.matcher))
        except ValueError as error:
            row = replace(row, said=row.said or row.matcher, session="")
            fault = f"cannot be read ({error}); it asks before everything that does not only read"
            rule = PinnedRule(row, UNREADABLE_RULE, fault)
        self.known[str(row.n)] = rule
        return rule

    def ruling(self, session: str, root: str, tool: Tool, arguments: Arguments) -> Verdict | None:
        """ASK or DENY and the reason, of the strictest rule; None when no rule means the call. No
        grant overrides it.

        `root` is the chat that `session` works for, or "".
        """
        rules = [rule for rule in self.known.values() if rule.row.session in ("", session, root)]
        found = [
            (decision, rule.row)
            for rule in rules
            if (decision := rule.guard.decide(tool, arguments))
        ]
        if not found:
            return None
        decision, row = max(found, key=lambda pair: STRICTNESS.index(pair[0]))
        does = "forbids this" if decision is Decision.DENY else "wants a person to be asked first"
        said = row.said if len(row.said) <= MAX_SENTENCE else f"{row.said[:MAX_SENTENCE]}..."
        return decision, f"rule {row.n} ({said!r}) {does}"

    def list_unreadable(self, session: str, root: str) -> tuple[str, ...]:
        """Patterns of workspace paths that no search may show: rules ask about reading them, or
        forbid it.
        """
        reader = self.tools.get("read_file")
        rules = [rule for rule in self.known.values() if rule.row.session in ("", session, root)]
        found = [
            path
            for rule in rules
            for path in rule.guard.paths
            if reader and rule.guard.decide(reader, {"path": path})
        ]
        return tuple(dict.fromkeys(found))
