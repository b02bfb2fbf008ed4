"""The pinned rules, held outside every conversation; a rule in words for its owner (F5)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from daemon.core import value
from daemon.core.rows import RuleRow
from daemon.core.trust import Decision, Effect
from daemon.tools.base import Tool
from daemon.tools.policy.rule_match import RuleMatcher, find_strictest
from daemon.tools.policy.stemming import list_synonyms
from daemon.tools.policy.table import EFFECT_TEXT
from daemon.tools.registry import ToolRegistry

MAX_LISTED = 6
MAX_SENTENCE = 120


def describe_rule(rule: RuleMatcher) -> str:
    """`ask before every call that sends something out, about mail (mailbox, inbox ...)`."""
    effects = [] if rule.effects == set(Effect) else [one for one in Effect if one in rule.effects]
    does = [EFFECT_TEXT[effect] for effect in effects]
    if rule.verbs:
        does.append(f"is named {_join_some(rule.verbs)}")
    synonyms = {other for word in rule.about for other in list_synonyms(word)}
    also = f" ({_join_some(sorted(synonyms.difference(rule.about)))} count too)" if synonyms else ""
    text = "ask before every call" if rule.action is Decision.ASK else "refuse every call"
    text += f" that {' or '.join(does)}" if does else ""
    for words, prefix, suffix in (
        (rule.about, "about", also),
        (rule.values, "with", " in its arguments"),
        (rule.paths, "at or under", ""),
        (rule.commands, "with the words", ""),
    ):
        text += f", {prefix} {' or '.join(words)}{suffix}" if words else ""
    if rule.above is not None:
        text += f", of more than {rule.above:g}, or of an amount that I cannot tell"
    return text


def _join_some(words: Sequence[str]) -> str:
    return ", ".join(words[:MAX_LISTED]) + (" ..." if len(words) > MAX_LISTED else "")


UNREADABLE_RULE = RuleMatcher(action=Decision.ASK, effects=frozenset(Effect) - {Effect.READ})


@value
class PinnedRule:
    """A rule, the chat it holds for ("" for all), and whether its owner confirmed the reading.

    An unreadable one has a `fault`, and asks before everything but reading.
    """

    name: str
    said: str
    guard: RuleMatcher
    session: str = ""
    by: str = ""
    confirmed: bool = False
    fault: str = ""


def read_rule(row: RuleRow) -> PinnedRule:
    """The rule of a stored row; one that can no longer be read asks."""
    try:
        guard = RuleMatcher.model_validate_json(row.matcher)
    except ValueError as error:
        fault = f"cannot be read ({error}); it asks before everything that does not only read"
        return PinnedRule(str(row.n), row.said or row.matcher, UNREADABLE_RULE, fault=fault)
    return PinnedRule(str(row.n), row.said, guard, row.session, row.sender, row.confirmed)


@dataclass(slots=True)
class RuleSet:
    """All rules, in memory for every call. A change is written to the journal first."""

    tools: ToolRegistry
    _known: dict[str, PinnedRule] = field(default_factory=dict)

    def load(self, rows: Iterable[RuleRow]) -> None:
        """Take the rules of the journal."""
        self._known = {str(row.n): read_rule(row) for row in rows}

    def put(self, rule: PinnedRule) -> None:
        """Add or replace a rule."""
        self._known[rule.name] = rule

    def drop(self, name: str) -> None:
        """Remove a rule."""
        self._known.pop(name, None)

    def all(self) -> list[PinnedRule]:
        """In the order of their creation."""
        return sorted(self._known.values(), key=lambda rule: int(rule.name))

    def get(self, name: str) -> PinnedRule | None:
        """The rule of this number."""
        return self._known.get(name)

    def ruling(
        self, session: str, root: str, tool: Tool, arguments: Mapping[str, object]
    ) -> tuple[Decision, str] | None:
        """ASK or DENY and the reason; None when no rule means the call. No grant overrides it.

        `root` is the chat that `session` works for, or "".
        """
        scopes = ("", session, root)
        rules = [rule for rule in self._known.values() if rule.session in scopes]
        found = find_strictest(((rule.name, rule.guard) for rule in rules), tool, arguments)
        if found is None:
            return None
        decision, name = found
        does = "forbids this" if decision is Decision.DENY else "wants a person to be asked first"
        said = self._known[name].said
        said = said if len(said) <= MAX_SENTENCE else f"{said[:MAX_SENTENCE]}..."
        return decision, f"rule {name} ({said!r}) {does}"

    def list_matching_tools(self, guard: RuleMatcher) -> list[str]:
        """The tools that the rule may mean, whatever its conditions on arguments."""
        anywhere = RuleMatcher(
            action=guard.action, effects=guard.effects, verbs=guard.verbs, about=guard.about
        )
        tools = filter(None, map(self.tools.get, self.tools.names()))
        return [tool.name for tool in tools if anywhere.decide(tool, {})]
