"""What a rule looks for in the arguments of a call: paths, addresses, words, amounts of money (F5).

A pinned rule as the gate reads it: which calls it means, and what becomes of them (F5). Where it might apply, it applies.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from posixpath import normpath
from urllib.parse import unquote

from daemon.core import value
from daemon.core.trust import Decision, Effect
from daemon.tools.policy.stemming import list_stems, list_synonym_stems, split_words, stem

MAX_DEPTH, MAX_PATH, MAX_LINE = 20, 4096, 20_000
SEPARATORS = re.compile(r"[\s'\"`=,;|&<>(){}\[\]:]+")
MONEY = list_stems(
    "amount price total sum cost value money usd eur euro dollar fee payment cent budget charge"
)
NUMBER = re.compile(r"\d[\d.,'_ ]*(?:e\+?\d+)?", re.IGNORECASE)
WILDCARDS = "*?["


class Match(IntEnum):
    """Whether a rule means a call; of several conditions the least counts."""

    NO = 0
    MAYBE = 1
    SURE = 2


def iter_leaves(value: object, key: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """(name, value) of everything that stands in the arguments; names are values too where the model may choose them."""
    if depth > MAX_DEPTH:
        yield key, str(value)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if depth:
                yield "", str(name)
            yield from iter_leaves(inner, str(name), depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from iter_leaves(inner, key, depth + 1)
    else:
        yield key, value


def list_texts(arguments: Mapping[str, object]) -> list[str]:
    """All texts in it, written in one way: a rule is not escaped by %65 or a letter of another width."""
    return [_normalize(value) for _, value in iter_leaves(arguments) if isinstance(value, str)]


def match_paths(
    arguments: Mapping[str, object], patterns: Sequence[str], *, anything: bool
) -> Match:
    """A path in the arguments is one of these, lies under one, or holds one. `anything`: a text may be a command line."""
    wanted = [_split_path(pattern) for pattern in patterns]
    found = Match.NO
    for text in list_texts(arguments):
        if len(text) > MAX_LINE and anything:
            found = max(found, Match.MAYBE)
        elif len(text) <= MAX_PATH or anything:
            parts = SEPARATORS.split(text) if anything else ()
            steps = [_split_path(path) for path in (text, *parts) if path]
            found = max(
                found,
                *(_match_path(have, want, anything) for have in steps for want in wanted),
                Match.NO,
            )
    return found


def match_values(arguments: Mapping[str, object], values: Sequence[str]) -> Match:
    """One of these addresses, hosts or names stands in the arguments; of a host, also one below it."""
    said = list_texts(arguments)
    return (
        Match.SURE
        if any(_compile_value(value).search(text) for value in values for text in said)
        else Match.NO
    )


def match_commands(arguments: Mapping[str, object], commands: Sequence[str]) -> Match:
    """All words of one of these commands stand in the arguments."""
    said = {piece.casefold() for text in list_texts(arguments) for piece in split_words(text)}
    return (
        Match.SURE
        if any({piece.casefold() for piece in split_words(line)} <= said for line in commands)
        else Match.NO
    )


def match_amount(arguments: Mapping[str, object], above: float) -> Match:
    """An argument that is called an amount is more than this; perhaps, where none is called so."""
    named = [
        number
        for key, value in iter_leaves(arguments)
        if not MONEY.isdisjoint(list_stems(key))
        for number in _iter_numbers(value)
    ]
    if not named:
        return Match.MAYBE
    return Match.SURE if any(number > above for number in named) else Match.NO


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFKC", unquote(unquote(text))).casefold()


def _compile_value(value: str) -> re.Pattern[str]:
    wanted = re.escape(_normalize(value).lstrip("#@").rstrip("./")).replace(
        "@", r"(?:\+[^@\s]*)?@", 1
    )
    return re.compile(rf"(?<![\w-]){wanted}(?![\w-])")


def _split_path(path: str) -> list[str]:
    """The path's parts, wherever it is anchored."""
    parts = normpath(_normalize(path).replace("\\", "/").removeprefix("file://")).split("/")
    return [part for part in parts if part not in ("", ".", "..", "~")]


def _match_path(have: Sequence[str], want: Sequence[str], whole_trees: bool) -> Match:
    """The one lies at or under the other; what may take whole trees perhaps takes it with one that it lies in."""
    starts = range(len(have) - len(want) + 1)
    if any(all(map(_match_part, have[start:], want)) for start in starts):
        return Match.SURE
    return (
        Match.MAYBE
        if whole_trees and len(have) < len(want) and all(map(_match_part, have, want))
        else Match.NO
    )


def _match_part(part: str, pattern: str) -> bool:
    return fnmatchcase(part, pattern) or (
        any(sign in part for sign in WILDCARDS) and fnmatchcase(pattern, part)
    )


def _iter_numbers(value: object) -> Iterator[float]:
    """What it may mean; a number without end is more than any."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            yield float(value) if math.isfinite(value) else math.inf
        except OverflowError:
            yield math.inf
    elif isinstance(value, str):
        for found in NUMBER.findall(value):
            yield from _iter_readings(found)


def _iter_readings(written: str) -> Iterator[float]:
    """ "1.000,50" and "1,000.50" are the same to their writers: every reading counts."""
    for thousands, point in ((",", "."), (".", ",")):
        tidy = re.sub(rf"[{re.escape(thousands)}'_ ]", "", written).replace(point, ".").rstrip(".")
        try:
            yield float(tidy)
        except ValueError:
            continue


SHORT_TEXT = 200
READ_ONLY = (Effect.READ, Effect.FETCH)
STRICTNESS = (Decision.ALLOW, Decision.ASK, Decision.DENY)


@value
class CallFacts:
    """A call as a rule sees it: what the tool does, its name and description, the arguments."""

    effect: Effect
    name: str
    description: str
    arguments: Mapping[str, object]


@value
class RuleMatcher:
    """Calls that are asked about or denied: those of these effects, or of a tool named by one of these verbs, that are about one
    of these things and fulfil every condition. What is left out asks nothing.

    `paths` are patterns of paths, `values` addresses, hosts and the like, `commands` words that all stand in the arguments,
    `above` an amount of money.
    """

    action: Decision
    effects: frozenset[Effect] = frozenset()
    verbs: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    above: float | None = None

    def decide(self, deed: CallFacts) -> Decision | None:
        """What becomes of the call; None when this rule does not mean it. One that it only perhaps means is asked about."""
        place = self._match_place(deed)
        fit = min(
            self._match_action(deed), self._match_subject(deed, place), place, self._match_sum(deed)
        )
        match fit:
            case Match.NO:
                return None
            case Match.MAYBE:
                return Decision.ASK
            case Match.SURE:
                return self.action

    def _match_action(self, deed: CallFacts) -> Match:
        """What only looks is taken at its word, unless its name is the very verb."""
        if deed.effect in self.effects or self._name_matches(deed):
            return Match.SURE
        told = deed.effect not in READ_ONLY and not list_stems(deed.description).isdisjoint(
            map(stem, self.verbs)
        )
        return Match.MAYBE if told or deed.effect is Effect.DESTRUCTIVE else Match.NO

    def _name_matches(self, deed: CallFacts) -> bool:
        if deed.effect in READ_ONLY:
            return not {piece.casefold() for piece in split_words(deed.name)}.isdisjoint(self.verbs)
        return not list_stems(deed.name).isdisjoint(map(stem, self.verbs)) or bool(
            self._split_compound(deed.name)
        )

    def _split_compound(self, name: str) -> frozenset[str]:
        """`deletemessage`: what stands behind a verb."""
        small = [piece.casefold() for piece in split_words(name)]
        return frozenset(
            stem(piece.removeprefix(verb))
            for piece in small
            for verb in self.verbs
            if piece.startswith(verb) and len(piece) > 6
        )

    def _match_subject(self, deed: CallFacts, place: Match) -> Match:
        wanted = frozenset().union(*map(list_synonym_stems, self.about))
        if not self.about or not wanted.isdisjoint(
            list_stems(deed.name) | list_stems(deed.description) | self._split_compound(deed.name)
        ):
            return Match.SURE
        if place is not Match.NO and (self.paths or self.values or self.commands):
            return Match.MAYBE
        whole = deed.effect is Effect.DESTRUCTIVE
        said = [text for text in list_texts(deed.arguments) if whole or len(text) <= SHORT_TEXT]
        long = [word for word in self.about if len(word) > 4]
        return (
            Match.MAYBE
            if any(
                not wanted.isdisjoint(list_stems(text)) or _contains_any(long, text)
                for text in said
            )
            else Match.NO
        )

    def _match_place(self, deed: CallFacts) -> Match:
        fits = [Match.SURE]
        if self.paths:
            fits.append(
                match_paths(
                    deed.arguments,
                    self.paths,
                    anything=deed.effect in (Effect.EGRESS, Effect.DESTRUCTIVE),
                )
            )
        if self.values:
            fits.append(match_values(deed.arguments, self.values))
        if self.commands:
            fits.append(match_commands(deed.arguments, self.commands))
        return min(fits)

    def _match_sum(self, deed: CallFacts) -> Match:
        return Match.SURE if self.above is None else match_amount(deed.arguments, self.above)


def _contains_any(words: Sequence[str], text: str) -> bool:
    return any(word in text for word in words)


def find_strictest(
    guards: Iterable[tuple[str, RuleMatcher]], deed: CallFacts
) -> tuple[Decision, str] | None:
    """What these rules say of the call, and the name of the first that says so; None when none of them means it."""
    said = [(decision, name) for name, guard in guards if (decision := guard.decide(deed))]
    return max(said, key=lambda pair: STRICTNESS.index(pair[0]), default=None)


def matcher_to_json(guard: RuleMatcher) -> dict[str, object]:
    """As it is kept; what asks nothing is left out."""
    fields: Mapping[str, object] = {
        "action": guard.action.value,
        "effects": sorted(effect.value for effect in guard.effects),
        "verbs": guard.verbs,
        "about": guard.about,
        "paths": guard.paths,
        "values": guard.values,
        "commands": guard.commands,
        "above": guard.above,
    }
    return {name: value for name, value in fields.items() if value not in (None, (), [])}


def matcher_from_json(kept: Mapping[str, object]) -> RuleMatcher:
    """As `to_json` wrote it. Raises ValueError for anything else, a field of a later version too."""
    known = ("action", "effects", "verbs", "about", "paths", "values", "commands", "above")
    above = kept.get("above")
    if not set(kept) <= set(known) or not (above is None or isinstance(above, int | float)):
        raise ValueError(f"not a rule of this version: {json.dumps(dict(kept), default=str)}")
    return RuleMatcher(
        Decision(kept.get("action")),
        frozenset(map(Effect, _read_words(kept, "effects"))),
        _read_words(kept, "verbs"),
        _read_words(kept, "about"),
        _read_words(kept, "paths"),
        _read_words(kept, "values"),
        _read_words(kept, "commands"),
        above,
    )


def _read_words(kept: Mapping[str, object], name: str) -> tuple[str, ...]:
    found = kept.get(name, [])
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise ValueError(f"not a list: {found!r}")
    return tuple(map(str, found))
