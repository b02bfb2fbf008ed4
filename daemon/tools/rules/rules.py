"""The pinned rules, as the gate asks for them: outside the conversation, so nothing that happens to it touches them (F5)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

from daemon.core.guards import Deed, Guard, from_json, strictest, to_json
from daemon.core.label import Decision, Effect
from daemon.tools.base import Tool

KIND, LAST = "rule", "rule-last"
FULL_STOP = Guard(Decision.ASK, frozenset(Effect) - {Effect.READ})


class Shelf(Protocol):
    """The tools there are."""

    def names(self) -> tuple[str, ...]:
        """Every tool that can be called."""
        ...

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """A pinned rule: the sentence, what it was read as, for which chat ("" for all), from whom, and whether they said
    that it was read rightly. One that cannot be read any more has a fault, and asks before everything but reading.
    """

    name: str
    said: str
    guard: Guard
    session: str = ""
    by: str = ""
    confirmed: bool = False
    fault: str = ""

    def text(self) -> str:
        """As it is kept."""
        fields = {key: value for key, value in asdict(self).items() if key not in ("name", "guard", "fault")}
        return json.dumps(fields | {"guard": to_json(self.guard)}, ensure_ascii=False)


def read_rule(name: str, text: str) -> Rule:
    """A rule as it was kept. What cannot be read is not forgotten: it asks."""
    try:
        kept = json.loads(text)
        guard = from_json(kept["guard"])
        return Rule(name, str(kept["said"]), guard, str(kept["session"]), str(kept["by"]), bool(kept["confirmed"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return Rule(name, text, FULL_STOP, fault=f"cannot be read ({error}); it asks before everything that does not only read")


@dataclass(slots=True)
class Rules:
    """All rules, at hand for every call. Whoever writes one to the journal puts it here as well, in that order."""

    shelf: Shelf
    _known: dict[str, Rule] = field(default_factory=dict)

    def load(self, kept: Mapping[str, str]) -> None:
        """What the journal keeps, at the start."""
        self._known = {name: read_rule(name, text) for name, text in kept.items()}

    def put(self, rule: Rule) -> None:
        """From now on this holds, too."""
        self._known[rule.name] = rule

    def drop(self, name: str) -> None:
        """From now on it does not."""
        self._known.pop(name, None)

    def all(self) -> list[Rule]:
        """In the order in which they were made."""
        return sorted(self._known.values(), key=lambda rule: (len(rule.name), rule.name))

    def get(self, name: str) -> Rule | None:
        """The rule of this number."""
        return self._known.get(name)

    def ruling(self, session: str, root: str, tool: Tool, arguments: Mapping[str, object]) -> tuple[Decision, str] | None:
        """What the rules say of this call, ASK or DENY, and why; None when none means it. No grant changes it.

        `root` is the chat that `session` works for, or "".
        """
        held = [rule for rule in self._known.values() if rule.session in ("", session, root)]
        found = strictest([(rule.name, rule.guard) for rule in held], deed_of(tool, arguments)) if held else None
        if found is None:
            return None
        decision, rule = found[0], self._known[found[1]]
        does = "forbids this" if decision is Decision.DENY else "wants a person to be asked first"
        return decision, f"rule {rule.name} ({_short(rule.said)!r}) {does}"

    def covers(self, guard: Guard) -> list[str]:
        """Names of the tools there are that the rule may mean, whatever its conditions on arguments."""
        plain = replace(guard, paths=(), values=(), commands=(), above=None)
        tools = (tool for name in self.shelf.names() if (tool := self.shelf.get(name)))
        return [tool.name for tool in tools if plain.says(deed_of(tool, {}))]


def deed_of(tool: Tool, arguments: Mapping[str, object]) -> Deed:
    """The call as a rule sees it."""
    return Deed(tool.meta.effect, tool.name, tool.spec.description, arguments)


def next_name(kept: Iterable[str], last: str | None) -> str:
    """A number that no rule had before."""
    return str(max([int(name) for name in (*kept, last or "0") if name.isdecimal()], default=0) + 1)


def _short(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
