"""/rules: what is always asked first, or never done (F5)."""

from dataclasses import replace

from daemon.commands.registry import CommandCall, Handlers
from daemon.core import value
from daemon.services.rules import RuleReader
from daemon.store.journal import Store
from daemon.tools.policy.rule_text import RULE_FORMS, RuleRefusal
from daemon.tools.policy.rules import (
    PinnedRule,
    RuleSet,
    describe_rule,
)

RULES_USAGE = (
    "/rules add SENTENCE adds a rule, /rules confirm N confirms that it was understood,"
    " /rules remove N removes it."
)
MAX_TOOLS_NAMED = 12


@value
class RuleCommands:
    """Changes are in the journal first, then in `rules`."""

    store: Store
    rules: RuleSet
    reader: RuleReader

    def handlers(self) -> Handlers:
        """By command."""
        return {"rules": self.manage}

    async def manage(self, call: CommandCall) -> str:
        """/rules [add SENTENCE|confirm N|remove N]"""
        verb, _, rest = call.argument.partition(" ")
        match verb.lower():
            case "" | "list":
                lines = [_describe(rule) for rule in self.rules.all()]
                head = "Rules:" if lines else "There are no rules."
                return "\n".join((head, *lines, RULES_USAGE))
            case "add":
                return await self._add(call, rest.strip())
            case "confirm":
                return await self._confirm(rest.strip())
            case "remove":
                return await self._remove(rest.strip())
            case _:
                return f"{RULES_USAGE}\n{RULE_FORMS}"

    async def _add(self, call: CommandCall, sentence: str) -> str:
        """It applies at once, since a rule can only restrict; its owner then confirms it."""
        read = await self.reader.read(call.session.id, sentence)
        if isinstance(read, RuleRefusal):
            return f"No rule was added. {read.text}"
        session = (call.session.root or call.session.id) if read.here else ""
        matcher = read.guard.model_dump_json(exclude_defaults=True)
        number = await self.store.write(
            lambda tx: tx.add_rule(sentence, matcher, session, call.sender)
        )
        rule = PinnedRule(str(number), sentence, read.guard, session, call.sender)
        self.rules.put(rule)
        where = " In this chat only." if rule.session else ""
        tools = self.rules.list_matching_tools(rule.guard)
        more = f" and {len(tools) - MAX_TOOLS_NAMED} more" if len(tools) > MAX_TOOLS_NAMED else ""
        return "\n".join(
            (
                f"Rule {rule.name} is understood as: {describe_rule(rule.guard)}.{where}"
                " In doubt you are asked.",
                f"It can apply to these tools: {', '.join(tools[:MAX_TOOLS_NAMED])}{more}."
                if tools
                else "It applies to none of the tools there are now: check the reading.",
                f"It applies from now on. /rules confirm {rule.name} if this is what you meant;"
                f" /rules remove {rule.name} if not.",
            )
        )

    async def _confirm(self, name: str) -> str:
        rule = self.rules.get(name)
        if rule is None or rule.fault:
            return _unknown(name)
        if not await self.store.write(lambda tx: tx.confirm_rule(int(name))):
            return _unknown(name)
        self.rules.put(replace(rule, confirmed=True))
        return f"Rule {name} is confirmed: {rule.said}"

    async def _remove(self, name: str) -> str:
        rule = self.rules.get(name)
        if rule is None or not await self.store.write(lambda tx: tx.remove_rule(int(name))):
            return _unknown(name)
        self.rules.drop(name)
        return f"Rule {name} is removed: {rule.said}"


def _describe(rule: PinnedRule) -> str:
    if rule.fault:
        return f"{rule.name}. {rule.fault}"
    where = f" (in {rule.session})" if rule.session else ""
    mark = "" if rule.confirmed else f"; not confirmed yet: /rules confirm {rule.name}"
    return f"{rule.name}. {rule.said}{where}\n   = {describe_rule(rule.guard)}{mark}"


def _unknown(name: str) -> str:
    return f"There is no rule {name!r}. /rules lists them." if name else RULES_USAGE
