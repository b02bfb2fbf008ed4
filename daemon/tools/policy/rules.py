"""A typed rule in words, for the person who has to say whether that is what they meant (F5).

The pinned rules, as the gate asks for them: outside the conversation, so nothing that happens to it touches them (F5).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

from daemon.core import value
from daemon.core.trust import Decision, Effect
from daemon.tools.base import Tool
from daemon.tools.policy.rule_match import (
    CallFacts,
    RuleMatcher,
    find_strictest,
    matcher_from_json,
    matcher_to_json,
)
from daemon.tools.policy.stemming import list_synonyms

EFFECT_TEXT = {
    Effect.READ: "reads",
    Effect.FETCH: "fetches from outside",
    Effect.WRITE: "writes",
    Effect.EGRESS: "sends something out",
    Effect.DESTRUCTIVE: "may change or delete anything",
}
MAX_LISTED = 6


def describe_rule(guard: RuleMatcher) -> str:
    """`ask before every call that may change or delete anything, about mail (mailbox, inbox ...)`."""
    begin = "ask before" if guard.action is Decision.ASK else "refuse"
    does = [
        EFFECT_TEXT[effect]
        for effect in Effect
        if effect in guard.effects and guard.effects != frozenset(Effect)
    ]
    named = f"is named {_join_some(guard.verbs)}" if guard.verbs else ""
    which = _join_or([*does, named])
    parts = (
        f"{begin} every call" + (f" that {which}" if which else ""),
        f"about {_join_or(guard.about)} ({_synonyms(guard)} count too)"
        if guard.about and _synonyms(guard)
        else "",
        f"about {_join_or(guard.about)}" if guard.about and not _synonyms(guard) else "",
        f"with {_join_or(guard.values)} in its arguments" if guard.values else "",
        f"at or under {_join_or(guard.paths)}" if guard.paths else "",
        f"with the words {_join_or(guard.commands)}" if guard.commands else "",
        f"of more than {guard.above:g}, or of an amount that I cannot tell"
        if guard.above is not None
        else "",
    )
    return ", ".join(part for part in parts if part)


def _synonyms(guard: RuleMatcher) -> str:
    return _join_some(
        tuple(
            dict.fromkeys(
                other
                for word in guard.about
                for other in list_synonyms(word)
                if other not in guard.about
            )
        )
    )


def _join_some(words: tuple[str, ...]) -> str:
    return ", ".join(words[:MAX_LISTED]) + (" ..." if len(words) > MAX_LISTED else "")


def _join_or(words: tuple[str, ...] | list[str]) -> str:
    return " or ".join(word for word in words if word)


KIND, LAST = "rule", "rule-last"
UNREADABLE_RULE = RuleMatcher(Decision.ASK, frozenset(Effect) - {Effect.READ})


class ToolLookup(Protocol):
    """The tools there are."""

    def names(self) -> tuple[str, ...]:
        """Every tool that can be called."""
        ...

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        ...


@value
class PinnedRule:
    """A pinned rule: the sentence, what it was read as, for which chat ("" for all), from whom, and whether they said
    that it was read rightly. One that cannot be read any more has a fault, and asks before everything but reading.
    """

    name: str
    said: str
    guard: RuleMatcher
    session: str = ""
    by: str = ""
    confirmed: bool = False
    fault: str = ""

    def to_text(self) -> str:
        """As it is kept."""
        fields = {
            key: value
            for key, value in asdict(self).items()
            if key not in ("name", "guard", "fault")
        }
        return json.dumps(fields | {"guard": matcher_to_json(self.guard)}, ensure_ascii=False)


def read_rule(name: str, text: str) -> PinnedRule:
    """A rule as it was kept. What cannot be read is not forgotten: it asks."""
    try:
        kept = json.loads(text)
        guard = matcher_from_json(kept["guard"])
        return PinnedRule(
            name,
            str(kept["said"]),
            guard,
            str(kept["session"]),
            str(kept["by"]),
            bool(kept["confirmed"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return PinnedRule(
            name,
            text,
            UNREADABLE_RULE,
            fault=f"cannot be read ({error}); it asks before everything that does not only read",
        )


@dataclass(slots=True)
class RuleSet:
    """All rules, at hand for every call. Whoever writes one to the journal puts it here as well, in that order."""

    tools: ToolLookup
    _known: dict[str, PinnedRule] = field(default_factory=dict)

    def load(self, kept: Mapping[str, str]) -> None:
        """What the journal keeps, at the start."""
        self._known = {name: read_rule(name, text) for name, text in kept.items()}

    def put(self, rule: PinnedRule) -> None:
        """From now on this holds, too."""
        self._known[rule.name] = rule

    def drop(self, name: str) -> None:
        """From now on it does not."""
        self._known.pop(name, None)

    def all(self) -> list[PinnedRule]:
        """In the order in which they were made."""
        return sorted(self._known.values(), key=lambda rule: (len(rule.name), rule.name))

    def get(self, name: str) -> PinnedRule | None:
        """The rule of this number."""
        return self._known.get(name)

    def ruling(
        self, session: str, root: str, tool: Tool, arguments: Mapping[str, object]
    ) -> tuple[Decision, str] | None:
        """What the rules say of this call, ASK or DENY, and why; None when none means it. No grant changes it.

        `root` is the chat that `session` works for, or "".
        """
        held = [rule for rule in self._known.values() if rule.session in ("", session, root)]
        found = (
            find_strictest([(rule.name, rule.guard) for rule in held], call_facts(tool, arguments))
            if held
            else None
        )
        if found is None:
            return None
        decision, rule = found[0], self._known[found[1]]
        does = "forbids this" if decision is Decision.DENY else "wants a person to be asked first"
        return decision, f"rule {rule.name} ({_shorten(rule.said)!r}) {does}"

    def covered_tools(self, guard: RuleMatcher) -> list[str]:
        """Names of the tools there are that the rule may mean, whatever its conditions on arguments."""
        plain = replace(guard, paths=(), values=(), commands=(), above=None)
        tools = (tool for name in self.tools.names() if (tool := self.tools.get(name)))
        return [tool.name for tool in tools if plain.decide(call_facts(tool, {}))]


def call_facts(tool: Tool, arguments: Mapping[str, object]) -> CallFacts:
    """The call as a rule sees it."""
    return CallFacts(tool.meta.effect, tool.name, tool.spec.description, arguments)


def next_rule_name(kept: Iterable[str], last: str | None) -> str:
    """A number that no rule had before."""
    return str(max([int(name) for name in (*kept, last or "0") if name.isdecimal()], default=0) + 1)


def _shorten(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
