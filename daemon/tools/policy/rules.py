"""The pinned rules, held outside every conversation; a rule in words for its owner (F5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from daemon.core import value
from daemon.core.rows import RuleRow
from daemon.core.trust import Decision, Effect
from daemon.tools.base import Arguments, Tool
from daemon.tools.policy.rule_match import STRICTNESS, RuleMatcher
from daemon.tools.policy.stemming import list_synonyms
from daemon.tools.registry import ToolRegistry

MAX_LISTED = 6
MAX_SENTENCE = 120
Verdict = tuple[Decision, str]
EFFECT_TEXT: Mapping[Effect, str] = {
    Effect.READ: "only reads",
    Effect.FETCH: "fetches from outside",
    Effect.WRITE: "writes in the workspace or the memory",
    Effect.EGRESS: "sends something out",
    Effect.DESTRUCTIVE: "may change or delete anything",
}


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

    def list_matching_tools(self, guard: RuleMatcher) -> list[str]:
        """The tools that the rule may mean, whatever its conditions on arguments."""
        anywhere = guard.model_copy(
            update={"paths": (), "values": (), "commands": (), "above": None}
        )
        tools = filter(None, map(self.tools.get, self.tools.names()))
        return [tool.name for tool in tools if anywhere.decide(tool, {})]
