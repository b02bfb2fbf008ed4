"""The tool `schedule`: the model says when and what; a person confirms what comes again and again.

What the next runs are, and what they may cost, is the same text for the question, for the model and
for the terminal.
"""

from dataclasses import replace

from daemon.core.clock import Clock
from daemon.core.errors import UsageError
from daemon.core.events import UserSaid
from daemon.core.trust import Effect, Label
from daemon.tools.base import Arguments, Tool, ToolContext, ToolError
from daemon.tools.signature import bind, tool
from daemon.triggers.orders import ScheduleOrder
from daemon.triggers.recurrence import Recurrence, describe_runs, parse_rule
from daemon.triggers.schedules import ScheduleEngine


@tool(effect=Effect.DESTRUCTIVE, critical=None, idempotent=True)
async def schedule(
    schedules: ScheduleEngine,
    context: ToolContext,
    when: str,
    prompt: str,
    remind: bool = False,
    zone: str = "",
) -> str:
    """Do a task later or repeatedly. `when`: as the user says it ("tomorrow at 9:00", "every monday
    18:00"). `prompt`: the whole task; with `remind` a text that the user is told then.
    """
    begun = context.turn.events[0].event
    if not isinstance(begun, UserSaid):
        raise ToolError("nobody is known who wants this; nothing was scheduled")
    order = ScheduleOrder(
        rule=when,
        prompt=prompt.strip(),
        session=await schedules.find_root(context.session_id),
        zone=zone,
        remind=remind,
        sender=begun.sender,
        role=begun.role,
        label=Label.UNTRUSTED if context.untrusted_source else Label.TRUSTED,
        origin="model",
        turn=context.turn.id,
    )
    try:
        row = await schedules.add(order, f"{context.turn.id}.{context.call_id}")
    except UsageError as error:
        raise ToolError(str(error)) from error
    return f"Scheduled as {row.name}. {schedules.describe(row)}"


def schedule_tool(schedules: ScheduleEngine, clock: Clock) -> Tool:
    """With a check before anybody is asked, and the next runs in the question. What runs once is an
    ordinary write; what comes again and again is asked about.
    """
    [made] = bind([schedule], {ScheduleEngine: schedules})

    def read(arguments: Arguments) -> Recurrence:
        zone = str(arguments.get("zone") or schedules.zone)
        return parse_rule(str(arguments.get("when")), zone, clock.now())

    def check(arguments: Arguments) -> None:
        if made.check:
            made.check(arguments)
        try:
            rule = read(arguments)
        except UsageError as error:
            raise ToolError(f"{error}; nothing was scheduled") from error
        if rule.next_due(clock.now()) is None:
            raise ToolError(f"{rule.text} lies in the past; nothing was scheduled")

    def preview(arguments: Arguments) -> str:
        try:
            cost = None if arguments.get("remind") else schedules.usd_per_run
            return describe_runs(read(arguments), clock.now(), cost)
        except UsageError as error:
            return f"This would be refused: {error}"

    def classify(arguments: Arguments) -> Effect:
        try:
            once = read(arguments).kind == "once"
        except UsageError:
            return Effect.DESTRUCTIVE
        return Effect.WRITE if once else Effect.DESTRUCTIVE

    meta = replace(made.meta, classify=classify)
    return replace(made, meta=meta, check=check, preview=preview)
