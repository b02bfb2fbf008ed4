"""/rules: what must be asked first, or never done, whatever else is said (F5)."""

from dataclasses import replace

from daemon.commands.base import Desk, Spoken
from daemon.core.rows import SessionRow
from daemon.store.protocol import Tx
from daemon.tools.rules.grammar import FORMS, Refusal, Understood, guard_of
from daemon.tools.rules.rules import KIND, LAST, Rule, next_name
from daemon.tools.rules.told import told

USAGE = "/rules add SENTENCE pins a rule, /rules confirm N says that I read it rightly, /rules remove N takes it back."
MOST_TOLD = 12


async def rules(desk: Desk, spoken: Spoken) -> str:
    """What the first word says; without one, all of them."""
    verb, _, rest = spoken.argument.partition(" ")
    match verb.lower():
        case "" | "list":
            return _list(desk)
        case "add":
            return await _add(desk, spoken, rest.strip())
        case "confirm":
            return await _confirm(desk, rest.strip())
        case "remove":
            return await _remove(desk, rest.strip())
        case _:
            return f"{USAGE}\n{FORMS}"


def _list(desk: Desk) -> str:
    lines = [_line(rule) for rule in desk.rules.all()]
    return "\n".join(("Rules:", *lines, USAGE)) if lines else f"There are no rules. {USAGE}"


def _line(rule: Rule) -> str:
    if rule.fault:
        return f"{rule.name}. {rule.fault}"
    where = f" (in {rule.session})" if rule.session else ""
    mark = "" if rule.confirmed else f"; not confirmed yet: /rules confirm {rule.name}"
    return f"{rule.name}. {rule.said}{where}\n   = {told(rule.guard)}{mark}"


async def _add(desk: Desk, spoken: Spoken, sentence: str) -> str:
    """It holds at once, since a rule can only make me ask more; its owner then says whether it was read rightly."""
    read = guard_of(sentence)
    if isinstance(read, Refusal):
        return f"No rule was made. {read.text}"
    session = _chat(spoken.session) if read.here else ""
    unnamed = Rule("", sentence, read.guard, session, spoken.sender)

    def work(tx: Tx) -> Rule:
        rule = replace(unnamed, name=next_name(tx.all_kept(KIND), tx.kept(LAST, LAST)))
        tx.keep(KIND, rule.name, rule.text())
        tx.keep(LAST, LAST, rule.name)
        return rule

    rule = await desk.store.write(work)
    desk.rules.put(rule)
    return "\n".join(_read_back(desk, rule, read))


def _read_back(desk: Desk, rule: Rule, read: Understood) -> list[str]:
    where = " In this chat alone." if rule.session else ""
    named = desk.rules.covers(rule.guard)
    more = f" and {len(named) - MOST_TOLD} more" if len(named) > MOST_TOLD else ""
    tools = f"It can concern these tools: {', '.join(named[:MOST_TOLD])}{more}."
    return [
        f"I understood rule {rule.name}: {told(rule.guard)}.{where} Where I cannot tell, I ask.",
        *read.notes,
        tools if named else "None of the tools there are now fits it: look whether I understood you.",
        f"It holds from now on. /rules confirm {rule.name} if this is what you meant; /rules remove {rule.name} if not.",
    ]


async def _confirm(desk: Desk, name: str) -> str:
    rule = desk.rules.get(name)
    if rule is None or rule.fault:
        return _none(name)
    confirmed = replace(rule, confirmed=True)

    def work(tx: Tx) -> bool:
        known = tx.kept(KIND, name) is not None
        if known:
            tx.keep(KIND, name, confirmed.text())
        return known

    if not await desk.store.write(work):
        return _none(name)
    desk.rules.put(confirmed)
    return f"Rule {name} is confirmed: {rule.said}"


async def _remove(desk: Desk, name: str) -> str:
    if not await desk.store.write(lambda tx: tx.drop(KIND, name)):
        return _none(name)
    rule = desk.rules.get(name)
    desk.rules.drop(name)
    return f"Rule {name} is gone: {rule.said if rule else name}"


def _none(name: str) -> str:
    return f"There is no rule {name!r}. /rules lists them." if name else USAGE


def _chat(session: SessionRow) -> str:
    """The chat that the person is in: agents that work for it come and go."""
    return session.root or session.id
