"""/schedule: what begins by itself at its time (A16)."""

from collections.abc import Sequence
from dataclasses import replace

from daemon.commands.registry import CommandCall
from daemon.core import value
from daemon.core.clock import show_time
from daemon.core.errors import UsageError
from daemon.core.trust import OWNER_NAME, Label, Right, Role, has_right
from daemon.services.approvals import make_visible
from daemon.store.tables.schedules import OccurrenceRow, ScheduleRow
from daemon.triggers.changes import change_schedule
from daemon.triggers.orders import ScheduleOrder
from daemon.triggers.schedules import ScheduleEngine

USAGE = (
    '/schedule WHEN: TASK makes one, such as "/schedule weekdays at 7:30: sum up the news" or'
    ' "/schedule tomorrow at 18:00: ask me about the tree". /schedule lists;'
    " /schedule show|run|pause|resume|cancel NAME; /schedule change NAME WHEN: TASK. /remind WHEN:"
    " TEXT tells you the text then."
)
DONE = {
    "run": "runs now",
    "pause": "is paused",
    "resume": "goes on",
    "remove": "is removed",
    "cancel": "is cancelled",
}


def split_order(text: str) -> tuple[str, str]:
    """(when, task) of "WHEN: TASK"; a colon of a time of day is none. Raises UsageError."""
    when, found, task = text.partition(": ")
    if not found or not when.strip() or not task.strip():
        raise UsageError(USAGE)
    return when.strip(), task.strip()


@value
class ScheduleCommands:
    """For people who may set the assistant to work, in a chat that can be trusted. Where others
    read along only what is scheduled for that chat is shown or changed.
    """

    schedules: ScheduleEngine

    async def schedule(self, call: CommandCall) -> str:
        """/schedule [WHEN: TASK|show|run|pause|resume|cancel NAME|change NAME WHEN: TASK]"""
        if call.session.label is Label.UNTRUSTED:
            raise UsageError("Schedules are not shown or made in a conversation from outside.")
        verb, _, rest = call.argument.partition(" ")
        name = rest.strip()
        if not call.argument or call.argument == "list":
            return await self._list(call)
        if verb in ("show", "change", *DONE) and name:
            found = await self.schedules.find(name.partition(" ")[0])
            if found and not _choose(call, [found[0]]):
                return _unknown(name)
        if verb == "show" and name:
            return await self._show(name)
        if verb in DONE and name:
            row = await self.schedules.change(name, "remove" if verb == "cancel" else verb)
            if row is None:
                return _unknown(name)
            missing = self.schedules.missing if verb in ("run", "resume") else ""
            return f"{row.name} {DONE[verb]}.{_next(row)}{missing}"
        if verb == "change" and name:
            return await self._change(*name.partition(" ")[::2])
        return await self._add(call)

    async def remind(self, call: CommandCall) -> str:
        """/remind WHEN: TEXT"""
        if call.session.label is Label.UNTRUSTED:
            raise UsageError("Reminders are not made in a conversation from outside.")
        return await self._add(call, remind=True)

    async def _add(self, call: CommandCall, *, remind: bool = False) -> str:
        when, task = split_order(call.argument)
        store, is_owner = self.schedules.store, call.role is Role.OWNER
        zone = "" if is_owner else await store.read(lambda tx: tx.get_zone(call.sender))
        row = await self.schedules.add(
            ScheduleOrder(
                rule=when,
                prompt=task,
                session=call.session.root or call.session.id,
                zone=zone,
                sender=call.sender,
                role=call.role.value,
                remind=remind,
            )
        )
        said = f"Scheduled as {row.name}. {self.schedules.describe(row)}"
        if has_right(call.role, Right.MANAGE):
            said += f"\n/schedule cancel {row.name} takes it back."
        return said

    async def _change(self, name: str, words: str) -> str:
        """`words`: "WHEN", "WHEN: TASK" or ": TASK"."""
        when, _, task = f"{words} ".partition(": ")
        row = await change_schedule(self.schedules, name, when, task, origin=OWNER_NAME)
        return f"{row.name} is changed. {self.schedules.describe(row)}"

    async def _list(self, call: CommandCall) -> str:
        known = await self.schedules.list_all()
        rows = _choose(call, known)
        lines = [*map(render_schedule, rows), "/schedule show NAME tells more."]
        if not rows:
            lines = ["Nothing is scheduled here." if known else f"Nothing is scheduled.\n{USAGE}"]
        if len(rows) < len(known):
            lines.append("More is scheduled: a chat of your own lists it.")
        return "\n".join(lines)

    async def _show(self, name: str) -> str:
        found = await self.schedules.find(name)
        return render_details(*found) if found else _unknown(name)


def _choose(call: CommandCall, rows: Sequence[ScheduleRow]) -> Sequence[ScheduleRow]:
    """Those that may be shown there."""
    here = call.session.root or call.session.id
    return rows if call.private else [row for row in rows if row.session == here]


def _unknown(name: str) -> str:
    return f"There is no schedule {make_visible(name)}; nothing was changed. /schedule lists them."


def _next(row: ScheduleRow) -> str:
    return f" The next run: {show_time(row.due, '%a %Y-%m-%d %H:%M')}." if row.due else ""


def render_schedule(row: ScheduleRow) -> str:
    """One line."""
    state = "" if row.state == "active" else f" ({row.state})"
    label = "" if row.label is Label.TRUSTED else " (from outside: asks before it acts)"
    task = make_visible(row.prompt.replace("\n", " "), 80)
    due = f", next {show_time(row.due, '%a %Y-%m-%d %H:%M')}" if row.due else ""
    return f"- {row.name}{state}{label}: {row.rule} ({row.zone}){due}: {task}"


def render_details(row: ScheduleRow, times: Sequence[OccurrenceRow]) -> str:
    """All about it, and its latest runs."""
    terms = [
        f"made by {row.origin} on {show_time(row.made_at, '%Y-%m-%d %H:%M')}",
        f"tells {row.session or 'nobody'}",
        f"missed times: {row.misfire}",
    ]
    terms += [f"until {show_time(row.until, '%Y-%m-%d %H:%M')}"] if row.until else []
    terms += [f"up to {row.jitter_s} s later"] if row.jitter_s else []
    lines = [render_schedule(replace(row, prompt=row.prompt[:80])), f"  {', '.join(terms)}"]
    lines.append(f"  {make_visible(row.prompt, 2000)}")
    for one in times:
        what = one.detail or (f"turn {one.turn}" if one.turn else "")
        lines.append(f"  {show_time(one.due, '%Y-%m-%d %H:%M')}: {one.state}, {what}")
    return "\n".join(lines)
