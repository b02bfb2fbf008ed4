"""The tool `schedule`: the model says when and what, lists what is set, changes or cancels it.

What the next runs are, and what they may cost, is the same text for the question, for the model and
for the terminal.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import UsageError
from daemon.core.events import UserSaid
from daemon.core.provenance import is_owners_text
from daemon.core.trust import Effect, Label, TextLabel, join_all, join_sources
from daemon.core.turn import Turn
from daemon.store.tables.schedules import ScheduleRow
from daemon.tools.base import Arguments, Tool, ToolContext, ToolError, ToolOutput
from daemon.tools.basic import find_zone
from daemon.tools.signature import bind, tool
from daemon.triggers.changes import change_schedule
from daemon.triggers.orders import CONFIG, ScheduleOrder
from daemon.triggers.recurrence import BadRule, Recurrence, describe_runs, load_zone, parse_rule
from daemon.triggers.schedules import ScheduleEngine

LONGEST_TASK = 200
LASTING = ("change", "cancel")
EFFECTS = {"list": Effect.READ, "cancel": Effect.WRITE}
NEEDED = {"set": ("when", "prompt"), "change": ("name",), "cancel": ("name",)}


@value
class SessionSchedules:
    """The schedules that somebody may see and change by the tool: in a conversation of the owner's
    own (`is_own`) all of them, elsewhere those that they set there themselves; never a goal's.
    """

    engine: ScheduleEngine
    is_own: Callable[[str], Awaitable[bool]]

    async def list(self, session: str, sender: str) -> list[ScheduleRow]:
        """Those that are not over, oldest first."""
        rows = await self._select(await self.engine.list_all(), session, sender)
        return [one for one in rows if one.state != "over"]

    async def _select(
        self, rows: Iterable[ScheduleRow], session: str, sender: str
    ) -> Sequence[ScheduleRow]:
        own, root = await self.is_own(session), await self.engine.find_root(session)
        mine = (one for one in rows if own or (one.session, one.sender) == (root, sender))
        return [one for one in mine if not one.lane]

    async def find(
        self, session: str, sender: str, name: str, *, cancelled: bool = False
    ) -> ScheduleRow:
        """One that is `cancelled` already, too. Raises ToolError with what there is."""
        rows = await self.list(session, sender)
        found = next((one for one in rows if name in (one.name, one.id)), None)
        if cancelled and found is None:
            former = await self.engine.store.read(lambda tx: tx.list_removed(name))
            found = next(iter(await self._select(former, session, sender)), None)
        if found is None:
            raise ToolError(f"there is no schedule {name!r} here, or no more. {render_list(rows)}")
        return found


@tool(effect=Effect.DESTRUCTIVE, critical=None, idempotent=True)
async def schedule(
    schedules: SessionSchedules,
    context: ToolContext,
    when: str = "",
    prompt: str = "",
    remind: bool = False,
    zone: str = "",
    action: Literal["set", "list", "change", "cancel"] = "set",
    name: str = "",
) -> ToolOutput | str:
    """Do prompt later or repeatedly; remind: tell the user that text then. when: in the user's
    words ("tomorrow at 9:00", "every monday 18:00"). name: which to change or cancel.
    """
    engine, session = schedules.engine, context.session_id
    begun = context.turn.events[0].event
    if not isinstance(begun, UserSaid):
        raise ToolError("nobody is known who wants this; nothing was changed")
    if action == "list":
        rows = await schedules.list(session, begun.sender)
        holds = join_sources(row.private for row in rows)
        return ToolOutput(render_list(rows), label=join_all(row.label for row in rows), holds=holds)
    turn = context.turn
    # what the model words after it has read something is nobody's word, but by a yes
    label = TextLabel(
        Label.UNTRUSTED if context.untrusted_source else Label.TRUSTED,
        turn.private,
        composed=not (is_owners_text(turn, prompt) or turn.call(context.call_id).approved),
    )
    try:
        if action == "set":
            order = ScheduleOrder(
                rule=when,
                prompt=prompt.strip(),
                session=await engine.find_root(session),
                zone=_name_zone(zone) or begun.zone,
                remind=remind,
                label=label.integrity,
                origin="model",
                private=label.private,
                composed=label.composed,
                turn=turn.id,
                sender=begun.sender,
                role=begun.role,
            )
            row = await engine.add(order, f"{turn.id}.{context.call_id}")
            return ToolOutput(f"Scheduled as {row.name}. {engine.describe(row)}", public=True)
        row = await schedules.find(session, begun.sender, name, cancelled=action == "cancel")
        if row.origin == CONFIG:
            raise ToolError(f"{row.name} is set in config.toml; nothing was changed")
        if action == "cancel":
            await engine.change(row.id, "remove")
            told = f"{row.name} is cancelled: {row.prompt[:LONGEST_TASK]}"
            return ToolOutput(told, label=row.label)
        zone = _name_zone(zone) or turn.zone
        row = await change_schedule(engine, row.id, when, prompt, zone, origin="model", label=label)
        state = "paused" if row.state == "paused" else "changed"
        told = f"{row.name} is {state}: {row.prompt[:LONGEST_TASK]}\n{engine.describe(row)}"
        return ToolOutput(told, label=row.label)
    except UsageError as error:
        raise ToolError(str(error)) from error


def _name_zone(given: str) -> str:
    """The zone that is meant, in any case or by its city; what is none stays as it is."""
    try:
        return load_zone(given).key if given else ""
    except BadRule:
        with suppress(ToolError):
            return given if "," in given else str(find_zone(given))  # "London, Ontario"
        return given


def render_list(rows: list[ScheduleRow]) -> str:
    """A line for each, for the model."""
    if not rows:
        return "Nothing is scheduled."
    return "\n".join(
        f"{row.name}: {row.rule} ({row.zone}), {_describe_state(row)}: {row.prompt[:LONGEST_TASK]}"
        for row in rows
    )


def _describe_state(row: ScheduleRow) -> str:
    due = row.due.astimezone(load_zone(row.zone)) if row.due else None
    return f"next {due:%a %Y-%m-%d %H:%M} {due.tzname()}" if due else row.state


def _sets_time(arguments: Arguments) -> bool:
    action = arguments.get("action", "set")
    return action == "set" or (action == "change" and bool(arguments.get("when")))


def _lasts(arguments: Arguments) -> bool:
    return arguments.get("action") in LASTING


def schedule_tool(schedules: SessionSchedules, clock: Clock, home: str = "") -> Tool:
    """With a check before anybody is asked, and the next runs in the question. What runs once is an
    ordinary write; what comes again and again is asked about. `home`: the zone of who asks for it,
    where it is not the owner's.
    """
    [made] = bind([schedule], {SessionSchedules: schedules})
    engine = schedules.engine

    def read(arguments: Arguments) -> Recurrence:
        zone = _name_zone(str(arguments.get("zone") or "")) or home or engine.zone
        return parse_rule(str(arguments.get("when") or ""), zone, clock.now())

    def check(arguments: Arguments) -> None:
        if made.check:
            made.check(arguments)
        action = str(arguments.get("action", "set"))
        if missing := [key for key in NEEDED.get(action, ()) if not arguments.get(key)]:
            names = ", ".join(missing)
            raise ToolError(f"{names}: missing, and needed to {action}; nothing was changed")
        if _sets_time(arguments):
            try:
                rule = read(arguments)
            except UsageError as error:
                raise ToolError(f"{error}; nothing was scheduled") from error
            if rule.next_due(clock.now()) is None:
                raise ToolError(f"{rule.text} lies in the past; nothing was scheduled")

    def preview(arguments: Arguments) -> str:
        if arguments.get("action") == "change" and not _sets_time(arguments):
            return "It runs when it did; its task is new."
        if not _sets_time(arguments):
            return ""
        try:
            told = arguments.get("remind") and arguments.get("action", "set") == "set"
            cost = None if told else engine.usd_per_run
            return describe_runs(read(arguments), clock.now(), cost)
        except UsageError as error:
            return f"This would be refused: {error}"

    def classify(arguments: Arguments) -> Effect:
        if not _sets_time(arguments):
            return EFFECTS.get(str(arguments.get("action")), Effect.DESTRUCTIVE)
        try:
            once = read(arguments).kind == "once"
        except UsageError:
            return Effect.DESTRUCTIVE
        return Effect.WRITE if once else Effect.DESTRUCTIVE

    meta = replace(made.meta, classify=classify, lasts=_lasts)
    whole = replace(made, meta=meta, check=check, preview=preview)
    return whole if home else replace(whole, narrow=partial(_narrow, schedules, clock, whole))


def _narrow(
    schedules: SessionSchedules, clock: Clock, whole: Tool, arguments: Arguments, turn: Turn
) -> Tool:
    """Its times are those of who began the turn."""
    return schedule_tool(schedules, clock, turn.zone) if turn.zone else whole
