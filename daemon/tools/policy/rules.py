"""The pinned rules, held outside every conversation, and a rule in words for its owner to confirm (F5)."""

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
    """`ask before every call that may change or delete anything, about mail (mailbox, inbox ...)`."""
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


def read_rule(row: RuleRow) -> PinnedRule:
    """A rule that cannot be read any more is not forgotten: it asks."""
    try:
        guard = RuleMatcher.model_validate_json(row.matcher)
    except ValueError as error:
        fault = f"cannot be read ({error}); it asks before everything that does not only read"
        return PinnedRule(str(row.n), row.said or row.matcher, UNREADABLE_RULE, fault=fault)
    return PinnedRule(str(row.n), row.said, guard, row.session, row.sender, row.confirmed)


@dataclass(slots=True)
class RuleSet:
    """All rules, at hand for every call. Whoever writes one to the journal puts it here as well, in that order."""

    tools: ToolRegistry
    _known: dict[str, PinnedRule] = field(default_factory=dict)

    def load(self, rows: Iterable[RuleRow]) -> None:
        """What the journal keeps, at the start."""
        self._known = {str(row.n): read_rule(row) for row in rows}

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
        found = find_strictest(
            (
                (rule.name, rule.guard)
                for rule in self._known.values()
                if rule.session in ("", session, root)
            ),
            tool,
            arguments,
        )
        if found is None:
            return None
        decision, rule = found[0], self._known[found[1]]
        does = "forbids this" if decision is Decision.DENY else "wants a person to be asked first"
        said = rule.said
        if len(said) > MAX_SENTENCE:
            said = f"{said[:MAX_SENTENCE]}..."
        return decision, f"rule {rule.name} ({said!r}) {does}"

    def covered_tools(self, guard: RuleMatcher) -> list[str]:
        """Names of the tools there are that the rule may mean, whatever its conditions on arguments."""
        anywhere = guard.model_copy(
            update={"paths": (), "values": (), "commands": (), "above": None}
        )
        tools = (tool for name in self.tools.names() if (tool := self.tools.get(name)))
        return [tool.name for tool in tools if anywhere.decide(tool, {})]
