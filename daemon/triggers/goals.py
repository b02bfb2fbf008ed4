"""Goals: work of many days (G6). A goal is a conversation of its own, with its todo list, a budget,
and two schedules that run there: one that works on it, one that sums up each week.

What it is, who is told, and both schedules are one transaction; so is every end of it.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Literal

from daemon.agent.budgets import DailyUsage
from daemon.agent.context.history import rebuild_turn
from daemon.core import value
from daemon.core.clock import show_time
from daemon.core.errors import UsageError
from daemon.core.events import UserSaid
from daemon.core.provenance import is_owners_text
from daemon.core.rows import GOAL_CHANNEL, GOAL_PREFIX, SessionRow
from daemon.core.trust import Effect, Label
from daemon.core.turn import Todo, Turn
from daemon.store.journal import GOAL_SPENT, Tx
from daemon.store.tables.schedules import GoalRow, ScheduleRow
from daemon.tools.base import Arguments, Tool, ToolContext, ToolError, ToolOutput
from daemon.tools.signature import bind, tool
from daemon.triggers.orders import ScheduleOrder, show_row
from daemon.triggers.schedules import ScheduleEngine

EVERY, WEEKLY, USUAL_USD = "0 9 * * *", "0 9 * * 1", 5.0
SHOWN, MAX_LISTED_CHARS = 20, 200
EFFECTS = {"list": Effect.READ, "stop": Effect.WRITE}
NOT_AFTER_OUTSIDE = "no goal is set after text from outside was read; /goal TEXT sets one"
REPORT = "-report"
# no order in it that the owner has not given: these words count as theirs
WORK_PROMPT = (
    "{text}\n\n(A goal of many days; this is one of its runs. What is due of it is for now, the"
    " todo list holds what is left for the next runs. goal_done is for when all of it is reached."
    " The one word NOTHING is enough where nothing of this run is for me.)"
)
WEEK_PROMPT = (
    "{text}\n\n(A goal of many days. Now only sum up its last week in a few lines: what is reached,"
    " what is open, what comes next.)"
)
COSTS = " (${spent:.2f} of ${usd:g} are spent.)"
REACHED = "Goal {id} is reached, and nothing more runs for it: {result}"


@value
class GoalView:
    """A goal as it is now: what it has cost, its todo list, when it runs next."""

    goal: GoalRow
    spent: float
    due: datetime | None
    todos: tuple[Todo, ...]


def show_goal(view: GoalView) -> dict[str, object]:
    """As JSON."""
    due = view.due.isoformat() if view.due else None
    todos = [{"text": one.text, "state": one.state} for one in view.todos]
    return {**show_row(view.goal), "spent": view.spent, "due": due, "todos": todos}


@dataclass(slots=True)
class GoalEngine:
    """The one owner of goals; what runs for them is the schedules' work."""

    schedules: ScheduleEngine
    usage: DailyUsage

    async def add(self, order: ScheduleOrder, usd: float) -> tuple[GoalRow, str]:
        """A new goal, on disk when this returns, and its next runs in words; `rule` "" is once a
        day. Raises UsageError: nothing was made.
        """
        check_budget(usd)
        order = replace(order, rule=order.rule or EVERY, name=GOAL_CHANNEL)
        self.schedules.prepare(order)  # checked before anything is written

        def work(tx: Tx) -> tuple[GoalRow, ScheduleRow]:
            free = (
                number
                for number in count(len(tx.list_goals(-1)) + 1)
                if not any(tx.find_schedule(one, one) for one in _list_names(str(number)))
            )
            number, now = str(next(free)), self.schedules.clock.now()
            goal = GoalRow(number, f"{GOAL_PREFIX}{number}", order.session, order.prompt, usd, now)
            tx.put_goal(goal)
            tx.put_session(
                SessionRow(
                    goal.session, GOAL_CHANNEL, number, Label.TRUSTED, now, order.agent,
                    root=goal.told,
                )
            )  # fmt: skip
            rows = []
            for name, rule, prompt in zip(
                _list_names(number), (order.rule, WEEKLY), (WORK_PROMPT, WEEK_PROMPT), strict=True
            ):
                one = replace(order, name=name, rule=rule, prompt=prompt.format(text=order.prompt))
                rows.append(self.schedules.prepare(one, lane=goal.session))
                tx.put_schedule(rows[-1])
            return goal, rows[0]

        goal, row = await self.schedules.save(work)
        return goal, self.schedules.describe(row)

    async def list_all(self) -> list[GoalView]:
        """Those that are not over first, the newest first."""
        return await self.schedules.store.read(
            lambda tx: [self._view(tx, goal) for goal in tx.list_goals(SHOWN)]
        )

    async def find(self, number: str) -> GoalView:
        """Raises UsageError for one that is not there."""
        return await self.schedules.store.read(lambda tx: self._view(tx, _get_goal(tx, number)))

    async def change(self, number: str, verb: str, usd: float = 0.0) -> GoalRow:
        """pause, resume or stop it, or give it the budget of `usd`; one that had used up its budget
        goes on. Raises UsageError.
        """

        def work(tx: Tx) -> GoalRow:
            goal, now = _get_goal(tx, number), self.schedules.clock.now()
            expected = {"pause": ("active",), "resume": ("paused",)}
            if goal.state not in expected.get(verb, ("active", "paused")):
                raise UsageError(f"goal {number} is {goal.state}; nothing was changed")
            if verb == "pause":
                tx.halt_goal(goal, "paused")
            elif verb == "stop":
                tx.halt_goal(goal, "stopped")
            else:
                went_out = goal.note == GOAL_SPENT
                goal, spent = replace(goal, usd=usd or goal.usd), self._sum_spent(tx, goal)
                if spent >= goal.usd:
                    raise UsageError(
                        f"goal {number} has spent ${spent:.4f} of ${goal.usd:g}; nothing was"
                        f" changed. /goal {number} budget=... gives it more"
                    )
                if verb == "resume" or went_out:
                    goal = replace(goal, state="active", note="")
                    for row in tx.list_lane(goal.session):
                        tx.put_schedule(self.schedules.plan(replace(row, state="active"), now, tx))
                tx.put_goal(goal)
            return _get_goal(tx, number)

        return await self.schedules.save(work)

    async def run(self, number: str) -> None:
        """One more run, at once. Raises UsageError."""
        goal = (await self.find(number)).goal
        if goal.state != "active":
            raise UsageError(f"goal {number} is {goal.state}; nothing was changed")
        await self.schedules.change(_list_names(number)[0], "run")

    async def finish(self, session: str, turn: str, result: str) -> bool:
        """It is reached: nothing more runs for it, and its owner is told; False where this session
        has no goal at work.
        """

        def work(tx: Tx) -> bool:
            goal = tx.get_goal_of(session)
            if goal is None or goal.state not in ("active", "paused"):
                return bool(goal and goal.state == "done")
            tx.halt_goal(goal, "done", result)
            text = REACHED.format(id=goal.id, result=result)
            tx.post_to_session(session, turn, "notice", text, self.schedules.clock.now())
            return True

        return await self.schedules.save(work)

    def describe_costs(self, tx: Tx, row: ScheduleRow) -> str:
        """For its weekly report."""
        goal = tx.get_goal_of(row.lane)
        if goal is None or not row.name.endswith(REPORT):
            return ""
        return COSTS.format(spent=self._sum_spent(tx, goal), usd=goal.usd)

    def _sum_spent(self, tx: Tx, goal: GoalRow) -> float:
        budget = self.usage.budget
        prices = budget.unknown_input_usd, budget.unknown_output_usd
        return tx.sum_spent(*prices, goal.session)

    def _view(self, tx: Tx, goal: GoalRow) -> GoalView:
        due = min((row.due for row in tx.list_lane(goal.session) if row.due), default=None)
        todos = ()
        for row in tx.list_turns(goal.session, 1):
            todos = rebuild_turn(row.id, row.session, tx.list_events(row.id)).todos
        return GoalView(goal, self._sum_spent(tx, goal), due, todos)


def _list_names(number: str) -> tuple[str, str]:
    """Of its schedules."""
    return f"{GOAL_CHANNEL}-{number}", f"{GOAL_CHANNEL}-{number}{REPORT}"


def _get_goal(tx: Tx, number: str) -> GoalRow:
    goal = tx.get_goal(number)
    if goal is None:
        raise UsageError(f"There is no goal {number}; nothing was changed. /goals lists them.")
    return goal


@tool(effect=Effect.WRITE, idempotent=True)
async def goal_done(goals: GoalEngine, context: ToolContext, result: str) -> str:
    """End the goal of many days that this conversation works on, once all of it is reached.
    `result`: what came of it, for its owner.
    """
    if not await goals.finish(context.session_id, context.turn.id, " ".join(result.split())):
        raise ToolError("this conversation works on no goal; nothing was changed")
    return "The goal is ended and its owner was told of the result."


def check_budget(usd: float) -> None:
    """Raises UsageError."""
    if not 0 < usd < float("inf"):
        raise UsageError(f"budget: found {usd:g}, expected an amount in USD, more than 0")


def read_every(text: str) -> str:
    """A rule from "2h", "day 18:00" or a whole one."""
    plain = len(text.split()) < 3 and not text.startswith(("every", "@"))
    return f"every {text}" if text and plain else text


@tool(effect=Effect.DESTRUCTIVE, owner_only=True)
async def goal(
    goals: GoalEngine,
    context: ToolContext,
    text: str = "",
    every: str = "",
    budget: float = USUAL_USD,
    action: Literal["set", "list", "stop"] = "set",
    number: str = "",
) -> ToolOutput | str:
    """Set a goal for days or weeks: it is worked on at its times, by itself, and summed up each
    week. text: what is to be reached. every: when, in the user's words ("day 18:00"). budget: USD
    for all of it. number: which to stop.
    """
    begun = context.turn.events[0].event
    try:
        if action == "list":
            found = await goals.list_all()
            lines = [_describe(one) for one in found if one.goal.state in ("active", "paused")]
            return "\n".join(lines) or "There is no goal."
        if action == "stop":
            await goals.change(number, "stop")
            return f"Goal {number} is stopped: nothing begins for it any more."
        if not isinstance(begun, UserSaid):
            raise ToolError("nobody is known who wants this; nothing was set")
        is_said = is_owners_text(context.turn, text) or context.turn.call(context.call_id).approved
        order = ScheduleOrder(
            rule=read_every(every),
            prompt=text.strip(),
            composed=not is_said,
            session=await goals.schedules.find_root(context.session_id),
            private=context.turn.private,
            turn=context.turn.id,
            sender=begun.sender,
            role=begun.role,
        )
        made, runs = await goals.add(order, budget)
        return ToolOutput(f"Goal {made.id} is set, with ${made.usd:g} for all of it. {runs}")
    except UsageError as error:
        raise ToolError(str(error)) from error


def _describe(view: GoalView) -> str:
    state = f"next {show_time(view.due, '%a %Y-%m-%d %H:%M')}" if view.due else view.goal.state
    spent = f"${view.spent:.4f} of ${view.goal.usd:g}"
    return f"goal {view.goal.id} ({state}, {spent}): {view.goal.text[:MAX_LISTED_CHARS]}"


def goal_tool(goals: GoalEngine) -> Tool:
    """With a check before anybody is asked, and its runs and costs in the question: the owner's yes
    is what sets one.
    """
    [made] = bind([goal], {GoalEngine: goals})

    def prepare(arguments: Arguments) -> str:
        text, rule = str(arguments.get("text") or "").strip(), str(arguments.get("every") or "")
        order = ScheduleOrder(read_every(rule) or EVERY, text, GOAL_CHANNEL, GOAL_CHANNEL)
        usd = arguments.get("budget", USUAL_USD)
        if isinstance(usd, bool) or not isinstance(usd, int | float):
            raise UsageError(f"budget: found {usd!r}, expected an amount in USD, such as 2.5")
        check_budget(usd)
        return goals.schedules.describe(goals.schedules.prepare(order))

    def check(arguments: Arguments) -> None:
        if made.check:
            made.check(arguments)
        action = arguments.get("action", "set")
        needed = {"set": "text", "stop": "number"}.get(str(action), "")
        if needed and not str(arguments.get(needed) or "").strip():
            raise ToolError(f"{needed}: missing, and needed to {action}; nothing was changed")
        if action == "set":
            try:
                prepare(arguments)
            except UsageError as error:
                raise ToolError(f"{error}; nothing was set") from error

    def preview(arguments: Arguments) -> str:
        if arguments.get("action", "set") != "set":
            return ""
        usd = arguments.get("budget", USUAL_USD)
        return f"At most ${usd} for all of it; a report each week. {prepare(arguments)}"

    def classify(arguments: Arguments) -> Effect:
        return EFFECTS.get(str(arguments.get("action", "set")), Effect.DESTRUCTIVE)

    def refuse(arguments: Arguments) -> None:
        raise ToolError(f"{NOT_AFTER_OUTSIDE}; nothing was set")

    def narrow(arguments: Arguments, turn: Turn) -> Tool:
        sets = arguments.get("action", "set") == "set"
        return replace(whole, check=refuse) if sets and turn.label is Label.UNTRUSTED else whole

    meta = replace(made.meta, classify=classify, lasts=_stops)
    whole = replace(made, meta=meta, check=check, preview=preview, narrow=narrow)
    return whole


def _stops(arguments: Arguments) -> bool:
    return arguments.get("action") == "stop"
