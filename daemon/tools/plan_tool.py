"""The tool `propose_plan`: one question for all that a task needs (trust.md)."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from daemon.core import value
from daemon.core.clock import show_time
from daemon.core.rows import GrantRow
from daemon.core.trust import Effect
from daemon.store.journal import Store, Tx
from daemon.tools.base import Arguments, BoundContent, Tool, ToolContext, ToolError
from daemon.tools.calls import args_hash, canonical_json
from daemon.tools.policy.grants import PLAN_SCOPE
from daemon.tools.policy.plans import PlannedAction, read_actions
from daemon.tools.policy.rules import EFFECT_TEXT
from daemon.tools.registry import ToolRegistry
from daemon.tools.signature import bind, tool

PLAN_TERM = timedelta(hours=1)


def describe_action(action: PlannedAction, tool: Tool) -> str:
    """As it will run, for a person."""
    calls, what = action.list_calls(tool), canonical_json(action.arguments)
    if action.vary:
        what += f", {action.vary}: {' or '.join(map(repr, action.values))}"
    elif action.folder:
        what = f"anything in {action.pattern.removesuffix('**')}"
    often = "once" if action.times == 1 else f"{action.times} times"
    does = " or ".join({EFFECT_TEXT[tool.effect_of(one)]: "" for one in calls})
    more = tool.preview(calls[0]) if tool.preview and not action.folder else ""
    return f"{tool.name} {what} ({often}; it {does})\n{more}".strip()


def make_grant(action: PlannedAction, tool: Tool, terms: GrantRow) -> GrantRow:
    """What a yes allows, on these terms."""
    hashes = [args_hash(tool.name, one) for one in action.list_calls(tool)]
    return replace(
        terms,
        tool=tool.name,
        args_hash="" if action.folder else " ".join(hashes),
        arguments=canonical_json(action.arguments),
        uses_left=action.times,
        paths=action.pattern,
    )


@value
class Plans:
    """As a Binder, it binds a yes to what the actions run."""

    store: Store
    registry: ToolRegistry

    def find_tools(self, actions: list[PlannedAction]) -> list[tuple[PlannedAction, Tool]]:
        return [(one, found) for one in actions if (found := self.registry.get(one.tool))]

    async def look(self, arguments: Arguments, now: datetime) -> BoundContent:
        found = dict[str, BoundContent]()
        for number, (action, planned) in enumerate(self.find_tools(read_actions(arguments)), 1):
            if planned.binds and planned.check:
                with suppress(ToolError):  # the gate says what is wrong
                    planned.check(action.arguments)
                    found[str(number)] = await planned.binds.look(action.arguments, now)
        keys = {number: one.key for number, one in found.items() if one.key}
        lines = [f"{number}. {one.description}" for number, one in found.items() if one.description]
        return BoundContent(json.dumps(keys) if keys else "", "\n".join(lines))

    async def explain_change(self, former: str, key: str) -> str:
        return "the files that its actions run"


@tool(effect=Effect.DESTRUCTIVE, idempotent=True, owner_only=True)
async def propose_plan(plans: Plans, context: ToolContext, actions: list[PlannedAction]) -> str:
    """Ask the user once for all actions of a task ("/plan TASK" wants it: only read, then
    propose); approved, they run unasked for an hour. Each: `tool` with exact `arguments`, also
    `vary` (one argument) and its `values`; or a `folder` alone, for any call there; `times`.
    """
    turn, state = context.turn, context.turn.call(context.call_id)
    assert state.asked and state.answered and state.approved
    since = min(context.clock.now(), state.asked.expires)  # it was answered before that
    until, scope = since + PLAN_TERM, f"{PLAN_SCOPE}{turn.id}"
    terms = GrantRow("", scope, "", "", "", state.answered.by, since, expires=until)
    found, binds = plans.find_tools(actions), json.loads(state.asked.binds or "{}")

    def keep(tx: Tx) -> None:
        known = {old.id for old in tx.list_grants(scope)}  # it may run again after a crash
        for number, (action, planned) in enumerate(found, 1):
            name, content = f"{turn.id}-{state.call_id}-{number}", binds.get(str(number), "")
            if name not in known:
                row = make_grant(action, planned, terms)
                tx.add_grant(replace(row, id=name, binds=content))

    await plans.store.write(keep)
    return f"Approved, until {show_time(until)}, for this turn and its sub-agents."


def plan_tool(store: Store, registry: ToolRegistry) -> Tool:
    """With what the question shows."""
    plans = Plans(store, registry)
    [made] = bind([propose_plan], {Plans: plans})

    def preview(arguments: Arguments) -> str:
        found = plans.find_tools(read_actions(arguments))
        return "\n".join(f"{n}. {describe_action(*one)}" for n, one in enumerate(found, 1))

    return replace(made, preview=preview, binds=plans)
