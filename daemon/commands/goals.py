"""/goal and /goals: work of many days (G6)."""

import re
from textwrap import indent

from daemon.commands.registry import NOT_HERE, CommandCall
from daemon.core import value
from daemon.core.clock import show_time
from daemon.core.errors import UsageError
from daemon.core.trust import Label
from daemon.core.turn import render_plan
from daemon.services.approvals import make_lines_visible, make_visible
from daemon.services.sessions import SessionService
from daemon.triggers.goals import USUAL_USD, GoalEngine, GoalView, read_every
from daemon.triggers.orders import ScheduleOrder

USAGE = (
    "/goal TEXT sets one: it is worked on once a day, and summed up once a week."
    ' /goal budget=2.00 every="day 18:00" TEXT sets its budget in USD and its times;'
    " /goal N shows one; /goal N run|pause|resume|stop|budget=4.00."
)
OPTION = re.compile(r'(budget|every)=(?:["“”]([^"“”]*)["“”]|(\S+))(?:\s+|$)')
KNOWN = re.compile(r"(\d{1,9})(?:\s+(run|pause|resume|stop|budget=\S+))?")
OUTSIDE = "Goals are not shown or made in a conversation from outside."
DONE = {"run": "runs now", "pause": "is paused", "resume": "goes on", "stop": "is stopped"}


def read_options(text: str) -> tuple[dict[str, str], str]:
    """The options before a goal's text, and the text."""
    options = dict[str, str]()
    while found := OPTION.match(text):
        options[found[1]] = found[2] if found[2] is not None else found[3]
        text = text[found.end() :]
    return options, text.strip()


def read_usd(text: str) -> float:
    """Raises UsageError."""
    try:
        return float(text.strip().lstrip("$"))
    except ValueError as error:
        raise UsageError(f"budget: found {text!r}, expected an amount such as 2.00") from error


@value
class GoalCommands:
    """For the owner, in a chat that can be trusted."""

    engine: GoalEngine
    service: SessionService

    async def goals(self, call: CommandCall) -> str:
        """/goals"""
        found = await self.engine.list_all()
        return "\n".join(map(render_goal, found)) if found else f"There is no goal.\n{USAGE}"

    async def goal(self, call: CommandCall) -> str:
        """/goal [budget=USD] [every=WHEN] TEXT, or N [run|pause|resume|stop|budget=USD]"""
        if call.session.label is Label.UNTRUSTED:
            raise UsageError(OUTSIDE)
        known = KNOWN.fullmatch(call.argument)
        if known or not call.argument:
            if not call.private:
                return NOT_HERE.format("goal")
            return await (self._change(known[1], known[2] or "") if known else self.goals(call))
        options, text = read_options(call.argument)
        if not text:
            raise UsageError(USAGE)
        usd = read_usd(options["budget"]) if "budget" in options else USUAL_USD
        order = ScheduleOrder(
            rule=read_every(options.get("every", "")),
            prompt=text,
            session=call.session.root or call.session.id,
            sender=call.sender,
            role=call.role.value,
        )
        goal, runs = await self.engine.add(order, usd)
        return (
            f"Goal {goal.id} is set, with ${goal.usd:g} for all of it; you are told here each week."
            f" {runs}\n/goal {goal.id} run begins at once, /goal {goal.id} stop ends it."
        )

    async def _change(self, number: str, words: str) -> str:
        verb, _, usd = words.partition("=")
        if not verb:
            return render_goal(await self.engine.find(number))
        if verb == "run":
            await self.engine.run(number)
            return f"Goal {number} {DONE[verb]}.{self.engine.schedules.missing}"
        amount = read_usd(usd) if verb == "budget" else 0.0
        if verb == "budget" and not 0 < amount < float("inf"):
            raise UsageError(f"budget: found {usd!r}, expected more than 0; nothing was changed")
        goal = await self.engine.change(number, verb, amount)
        if verb == "stop":
            await self._stop_runs(goal.session)
        what = DONE.get(verb, f"has ${goal.usd:g} for all of it, from its next run on")
        shown = render_goal(await self.engine.find(number))
        return f"Goal {number} {what}.\n{shown}{self.engine.schedules.missing}"

    async def _stop_runs(self, session: str) -> None:
        row = await self.service.store.read(lambda tx: tx.get_session(session))
        if row:
            await self.service.stop_session(row, "its goal was stopped")


def render_goal(view: GoalView) -> str:
    """Its state in a line, then what is open of its list."""
    goal = view.goal
    terms = [f"{goal.state}: {make_visible(goal.note, 200)}" if goal.note else goal.state]
    terms += [f"next {show_time(view.due, '%a %Y-%m-%d %H:%M')}"] if view.due else []
    terms.append(f"${view.spent:.4f} of ${goal.usd:g}")
    still = [one for one in view.todos if one.state != "done"]
    terms += [f"{len(still)} of {len(view.todos)} todos open"] if view.todos else []
    text = make_visible(goal.text.replace("\n", " "), 80)
    lines = [f"- goal {goal.id} ({'; '.join(terms)}): {text}"]
    if goal.state in ("active", "paused"):
        lines += [indent(make_lines_visible(render_plan(still)), "    ")] if still else []
    return "\n".join(lines)
