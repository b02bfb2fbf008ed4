"""A pinned rule as the gate reads it: which calls it means, and what becomes of them (F5). Where it might apply, it applies."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from daemon.core.guards_look import Fit, mentions, places, stands_in, sums, texts
from daemon.core.label import Decision, Effect
from daemon.core.words import kin, pieces, stem, words_of

SHORT = 200
ONLY_LOOKS = (Effect.READ, Effect.FETCH)
STRICTNESS = (Decision.ALLOW, Decision.ASK, Decision.DENY)


@dataclass(frozen=True, slots=True)
class Deed:
    """A call as a rule sees it: what the tool does, its name and description, the arguments."""

    effect: Effect
    name: str
    told: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Guard:
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

    def says(self, deed: Deed) -> Decision | None:
        """What becomes of the call; None when this rule does not mean it. One that it only perhaps means is asked about."""
        place = self._place(deed)
        fit = min(self._kind(deed), self._subject(deed, place), place, self._sum(deed))
        match fit:
            case Fit.NO:
                return None
            case Fit.PERHAPS:
                return Decision.ASK
            case Fit.SURE:
                return self.action

    def _kind(self, deed: Deed) -> Fit:
        """What only looks is taken at its word, unless its name is the very verb."""
        if deed.effect in self.effects or self._named(deed):
            return Fit.SURE
        told = deed.effect not in ONLY_LOOKS and not words_of(deed.told).isdisjoint(map(stem, self.verbs))
        return Fit.PERHAPS if told or deed.effect is Effect.DESTRUCTIVE else Fit.NO

    def _named(self, deed: Deed) -> bool:
        if deed.effect in ONLY_LOOKS:
            return not {piece.casefold() for piece in pieces(deed.name)}.isdisjoint(self.verbs)
        return not words_of(deed.name).isdisjoint(map(stem, self.verbs)) or bool(self._glued(deed.name))

    def _glued(self, name: str) -> frozenset[str]:
        """`deletemessage`: what stands behind a verb."""
        small = [piece.casefold() for piece in pieces(name)]
        return frozenset(
            stem(piece.removeprefix(verb)) for piece in small for verb in self.verbs if piece.startswith(verb) and len(piece) > 6
        )

    def _subject(self, deed: Deed, place: Fit) -> Fit:
        wanted = frozenset().union(*map(kin, self.about))
        if not self.about or not wanted.isdisjoint(words_of(deed.name) | words_of(deed.told) | self._glued(deed.name)):
            return Fit.SURE
        if place is not Fit.NO and (self.paths or self.values or self.commands):
            return Fit.PERHAPS
        whole = deed.effect is Effect.DESTRUCTIVE
        said = [text for text in texts(deed.arguments) if whole or len(text) <= SHORT]
        long = [word for word in self.about if len(word) > 4]
        return Fit.PERHAPS if any(not wanted.isdisjoint(words_of(text)) or _within(long, text) for text in said) else Fit.NO

    def _place(self, deed: Deed) -> Fit:
        fits = [Fit.SURE]
        if self.paths:
            fits.append(places(deed.arguments, self.paths, anything=deed.effect in (Effect.EGRESS, Effect.DESTRUCTIVE)))
        if self.values:
            fits.append(mentions(deed.arguments, self.values))
        if self.commands:
            fits.append(stands_in(deed.arguments, self.commands))
        return min(fits)

    def _sum(self, deed: Deed) -> Fit:
        return Fit.SURE if self.above is None else sums(deed.arguments, self.above)


def _within(words: Sequence[str], text: str) -> bool:
    return any(word in text for word in words)


def strictest(guards: Iterable[tuple[str, Guard]], deed: Deed) -> tuple[Decision, str] | None:
    """What these rules say of the call, and the name of the first that says so; None when none of them means it."""
    said = [(decision, name) for name, guard in guards if (decision := guard.says(deed))]
    return max(said, key=lambda pair: STRICTNESS.index(pair[0]), default=None)


def to_json(guard: Guard) -> dict[str, object]:
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


def from_json(kept: Mapping[str, object]) -> Guard:
    """As `to_json` wrote it. Raises ValueError for anything else, a field of a later version too."""
    known = ("action", "effects", "verbs", "about", "paths", "values", "commands", "above")
    above = kept.get("above")
    if not set(kept) <= set(known) or not (above is None or isinstance(above, int | float)):
        raise ValueError(f"not a rule of this version: {json.dumps(dict(kept), default=str)}")
    return Guard(
        Decision(kept.get("action")),
        frozenset(map(Effect, _words(kept, "effects"))),
        _words(kept, "verbs"),
        _words(kept, "about"),
        _words(kept, "paths"),
        _words(kept, "values"),
        _words(kept, "commands"),
        above,
    )


def _words(kept: Mapping[str, object], name: str) -> tuple[str, ...]:
    found = kept.get(name, [])
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise ValueError(f"not a list: {found!r}")
    return tuple(map(str, found))
