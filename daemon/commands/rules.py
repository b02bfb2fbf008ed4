"""/rules: what must be asked first, or never done, whatever else is said (F5)."""

from dataclasses import replace

from daemon.commands.registry import CommandCall, Services
from daemon.core.journal import Tx
from daemon.core.rows import SessionRow
from daemon.tools.policy.rule_text import RULE_FORMS, ParsedRule, RuleRefusal, parse_rule
from daemon.tools.policy.rules import KIND, LAST, PinnedRule, describe_rule, next_rule_name

RULES_USAGE = "/rules add SENTENCE pins a rule, /rules confirm N says that I read it rightly, /rules remove N takes it back."
MAX_TOOLS_NAMED = 12


async def run_rules(desk: Services, spoken: CommandCall) -> str:
    """What the first word says; without one, all of them."""
    verb, _, rest = spoken.argument.partition(" ")
    match verb.lower():
        case "" | "list":
            return _list_rules(desk)
        case "add":
            return await _add_rule(desk, spoken, rest.strip())
        case "confirm":
            return await _confirm_rule(desk, rest.strip())
        case "remove":
            return await _remove_rule(desk, rest.strip())
        case _:
            return f"{RULES_USAGE}\n{RULE_FORMS}"


def _list_rules(desk: Services) -> str:
    lines = [_rule_line(rule) for rule in desk.rules.all()]
    return (
        "\n".join(("Rules:", *lines, RULES_USAGE))
        if lines
        else f"There are no rules. {RULES_USAGE}"
    )


def _rule_line(rule: PinnedRule) -> str:
    if rule.fault:
        return f"{rule.name}. {rule.fault}"
    where = f" (in {rule.session})" if rule.session else ""
    mark = "" if rule.confirmed else f"; not confirmed yet: /rules confirm {rule.name}"
    return f"{rule.name}. {rule.said}{where}\n   = {describe_rule(rule.guard)}{mark}"


async def _add_rule(desk: Services, spoken: CommandCall, sentence: str) -> str:
    """It holds at once, since a rule can only make me ask more; its owner then says whether it was read rightly."""
    read = parse_rule(sentence)
    if isinstance(read, RuleRefusal):
        return f"No rule was made. {read.text}"
    session = _root_chat(spoken.session) if read.here else ""
    unnamed = PinnedRule("", sentence, read.guard, session, spoken.sender)

    def work(tx: Tx) -> PinnedRule:
        rule = replace(unnamed, name=next_rule_name(tx.all_kept(KIND), tx.kept(LAST, LAST)))
        tx.keep(KIND, rule.name, rule.to_text())
        tx.keep(LAST, LAST, rule.name)
        return rule

    rule = await desk.store.write(work)
    desk.rules.put(rule)
    return "\n".join(_describe_reading(desk, rule, read))


def _describe_reading(desk: Services, rule: PinnedRule, read: ParsedRule) -> list[str]:
    where = " In this chat alone." if rule.session else ""
    named = desk.rules.covered_tools(rule.guard)
    more = f" and {len(named) - MAX_TOOLS_NAMED} more" if len(named) > MAX_TOOLS_NAMED else ""
    tools = f"It can concern these tools: {', '.join(named[:MAX_TOOLS_NAMED])}{more}."
    return [
        f"I understood rule {rule.name}: {describe_rule(rule.guard)}.{where} Where I cannot tell, I ask.",
        tools
        if named
        else "None of the tools there are now fits it: look whether I understood you.",
        f"It holds from now on. /rules confirm {rule.name} if this is what you meant; /rules remove {rule.name} if not.",
    ]


async def _confirm_rule(desk: Services, name: str) -> str:
    rule = desk.rules.get(name)
    if rule is None or rule.fault:
        return _unknown_rule(name)
    confirmed = replace(rule, confirmed=True)

    def work(tx: Tx) -> bool:
        known = tx.kept(KIND, name) is not None
        if known:
            tx.keep(KIND, name, confirmed.to_text())
        return known

    if not await desk.store.write(work):
        return _unknown_rule(name)
    desk.rules.put(confirmed)
    return f"Rule {name} is confirmed: {rule.said}"


async def _remove_rule(desk: Services, name: str) -> str:
    if not await desk.store.write(lambda tx: tx.drop(KIND, name)):
        return _unknown_rule(name)
    rule = desk.rules.get(name)
    desk.rules.drop(name)
    return f"Rule {name} is gone: {rule.said if rule else name}"


def _unknown_rule(name: str) -> str:
    return f"There is no rule {name!r}. /rules lists them." if name else RULES_USAGE


def _root_chat(session: SessionRow) -> str:
    """The chat that the person is in: agents that work for it come and go."""
    return session.root or session.id
