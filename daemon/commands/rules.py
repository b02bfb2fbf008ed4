"""/rules: what is always asked first, or never done (F5). For people only."""

import logging
from dataclasses import replace

from daemon.agent.outside_turns import OutsideCaller
from daemon.commands.registry import CommandCall
from daemon.commands.rule_text import (
    INSTRUCTIONS,
    MAX_CHARS,
    RULE_FORMS,
    ParsedRule,
    describe_rule,
    parse_model_rule,
    parse_rule,
)
from daemon.core import value
from daemon.core.reports import RuleView
from daemon.core.rows import RuleRow
from daemon.store.journal import Store
from daemon.tools.policy.rules import PinnedRule, RuleMatcher, RuleSet

log = logging.getLogger(__name__)
RULES_USAGE = (
    "/rules add SENTENCE adds a rule, /rules confirm N confirms that it was understood,"
    " /rules remove N removes it."
)
MAX_TOOLS_NAMED = 12
MAX_TOKENS = 500


@value
class RuleCommands:
    """Changes are in the journal first, then in `rule_set`. An embedded model is not asked."""

    store: Store
    rule_set: RuleSet
    models: OutsideCaller

    async def rules(self, call: CommandCall) -> str:
        """/rules [add SENTENCE|confirm N|remove N]"""
        verb, _, rest = call.argument.partition(" ")
        rest = rest.strip()
        match verb.lower():
            case "" | "list":
                lines = list(map(_describe_rule, self.rule_set.known.values()))
                head = "Rules:" if lines else "There are no rules."
                return "\n".join((head, *lines, RULES_USAGE))
            case "add":
                return await self._add(call, rest)
            case "confirm" | "remove":
                return await self._confirm_or_remove(rest, confirms=verb.lower() == "confirm")
            case _:
                return f"{RULES_USAGE}\n{RULE_FORMS}"

    async def _add(self, call: CommandCall, sentence: str) -> str:
        """It applies at once, since a rule can only restrict; its owner then confirms it."""
        read = await self._read(call.session.id, sentence)
        if isinstance(read, str):
            return f"No rule was added. {read}"
        guard = read.guard
        session = (call.session.root or call.session.id) if read.here else ""
        row = sentence, guard.model_dump_json(exclude_defaults=True), session, call.sender
        name = await self.store.write(lambda tx: tx.add_rule(*row))
        self.rule_set.put(RuleRow(name, *row, confirmed=False))
        where = " In this chat only." if session else ""
        tools = self._list_tools(guard)
        more = f" and {len(tools) - MAX_TOOLS_NAMED} more" if len(tools) > MAX_TOOLS_NAMED else ""
        scope = (
            f"It can apply to these tools: {', '.join(tools[:MAX_TOOLS_NAMED])}{more}."
            if tools
            else "It applies to none of the tools there are now: check the reading."
        )
        return (
            f"Rule {name} is understood as: {describe_rule(guard)}.{where} In doubt you are asked."
            f"\n{scope}\nIt applies from now on. /rules confirm {name} if this is what you meant;"
            f" /rules remove {name} if not."
        )

    def _list_tools(self, guard: RuleMatcher) -> list[str]:
        """Those that the rule may mean, whatever its conditions on arguments."""
        anywhere = {"paths": (), "values": (), "commands": (), "above": None}
        general, registry = guard.model_copy(update=anywhere), self.rule_set.tools
        tools = filter(None, map(registry.get, registry.names()))
        return [tool.name for tool in tools if general.decide(tool, {})]

    async def _read(self, session: str, sentence: str) -> ParsedRule | str:
        """The rule that the sentence asks for, or why there is none: in its plain or typed form,
        else by one short question to a model.
        """
        parsed = parse_rule(sentence, self.rule_set.tools.names())
        too_long = not sentence.strip() or len(sentence) > MAX_CHARS
        if isinstance(parsed, ParsedRule) or self.models.is_embedded or too_long:
            return parsed
        reply = await self.models.ask(session, INSTRUCTIONS, sentence, MAX_TOKENS, unasked=False)
        return parse_model_rule(reply) if reply else parsed

    async def _confirm_or_remove(self, name: str, *, confirms: bool) -> str:
        if not name:
            return RULES_USAGE
        rule = await self.change(name, confirms=confirms)
        if rule is None:
            return f"There is no rule {name!r}. /rules lists them."
        return f"Rule {name} is {'confirmed' if confirms else 'removed'}: {rule.row.said}"

    async def change(self, name: str, *, confirms: bool) -> PinnedRule | None:
        """Confirm the rule of this number, or remove it; None for one that is not there."""
        rule = self.rule_set.known.get(name)
        if (
            rule is None
            or (confirms and rule.fault)
            or not await self.store.write(
                lambda tx: (tx.confirm_rule if confirms else tx.remove_rule)(int(name))
            )
        ):
            return None
        if confirms:
            self.rule_set.put(replace(rule.row, confirmed=True))
        else:
            self.rule_set.known.pop(name, None)
        return rule

    def list_views(self) -> list[RuleView]:
        """All, as they are read."""
        return [
            RuleView(
                str(one.row.n),
                one.row.said,
                one.fault or describe_rule(one.guard),
                one.row.session,
                one.row.confirmed,
            )
            for one in self.rule_set.known.values()
        ]


def _describe_rule(rule: PinnedRule) -> str:
    row = rule.row
    if rule.fault:
        return f"{row.n}. {rule.fault}"
    where = f" (in {row.session})" if row.session else ""
    mark = "" if row.confirmed else f"; not confirmed yet: /rules confirm {row.n}"
    return f"{row.n}. {row.said}{where}\n   = {describe_rule(rule.guard)}{mark}"
