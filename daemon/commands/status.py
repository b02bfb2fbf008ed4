"""/status /cost /tasks /whoami: what is going on, and what it costs (A14, A19)."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from textwrap import indent

from channels.markup.sanitize import shorten_line
from daemon.agent.budgets import UsageToday, utc_midnight
from daemon.agent.context.history import TURNS, is_cleared, rebuild_turn
from daemon.agent.models import ModelRouting
from daemon.commands.registry import CommandCall
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.provenance import find_taint
from daemon.core.rows import SessionRow, UsageRow
from daemon.core.trust import Label
from daemon.core.turn import render_plan
from daemon.store.journal import Store, Tx

WEEK, MAX_TASK = timedelta(days=7), 80
FAILING = "cannot be written, the disk may be full; nothing new is accepted"


@value
class StatusCommands:
    """`state`: lines about channels and config."""

    store: Store
    clock: Clock
    routing: ModelRouting
    today: Callable[[], UsageToday]
    state: Callable[[], Sequence[str]]

    async def status(self, call: CommandCall) -> str:
        """This chat at a glance."""
        session, since = call.session, self.clock.now() - WEEK

        def look(tx: Tx) -> tuple[str, str, str]:
            counts = {
                "started": tx.list_unfinished_turns(session.id),
                "queued": tx.list_waiting_inputs(session.id),
                "waiting for your answer": tx.list_approvals("pending", session.id),
            }
            tasks = ", ".join(f"{len(rows)} {state}" for state, rows in counts.items())
            stops = (f"{reason} {count}" for reason, count in sorted(tx.count_stops(since).items()))
            return tasks, ", ".join(stops) or "none", _find_taint_reason(tx, session)

        tasks, stops, taint = await self.store.read(look)
        taint = taint and (
            f"It has read text from outside, so it asks more: {taint}. /clear starts over."
        )
        model = f"{session.model} (pinned)" if session.model else self.routing.list_models()[0]
        lines = (
            f"Chat {session.id}, {session.label.value}{', paused' if session.paused else ''}",
            taint,
            f"Model: {model}",
            f"Agent: {session.agent}",
            f"Tasks: {tasks}",
            f"Journal: {'ok' if self.store.healthy else FAILING}",
            *self.state(),
            self._describe_today(),
            f"Turns of seven days ended: {stops}",
        )
        return "\n".join(filter(None, lines))

    def _describe_today(self) -> str:
        today = self.today()
        tokens = f" of {today.max_tokens:,}" if today.max_tokens else ""
        usd = f" of ${today.max_usd:g}" if today.max_usd else ""
        unpriced = ", and calls of unknown price" if today.unpriced else ""
        return f"Today: {today.tokens:,} tokens{tokens}, ${today.usd:.4f}{usd}{unpriced}"

    async def cost(self, call: CommandCall) -> str:
        """Use by model: today, seven days, this chat; never 0 for an unknown price."""
        now, session = self.clock.now(), call.session.id

        def look(tx: Tx) -> list[str]:
            spans = {
                "Today": tx.sum_usage(utc_midnight(now)),
                "Seven days": tx.sum_usage(now - WEEK),
                "This chat, seven days": tx.sum_usage(now - WEEK, session),
            }
            return [
                line
                for head, rows in spans.items()
                for line in (f"{head}:", *(map(_describe_usage, rows) if rows else ("  nothing",)))
            ]

        return "\n".join(await self.store.read(look))

    async def tasks(self, call: CommandCall) -> str:
        """What is not finished: turns with their plans, and sub-agents."""

        def look(tx: Tx) -> list[str]:
            lines = []
            for row in tx.list_unfinished_turns(call.session.id):
                turn = rebuild_turn(row.id, row.session, tx.list_events(row.id))
                lines.append(f"- {row.id}: {row.state}, {row.iterations} iterations")
                lines.append(indent(render_plan(turn.todos), "    "))
            for child in tx.list_running_children(call.session.id):
                task = shorten_line(child.task, MAX_TASK)
                lines.append(f"- {child.turn}: agent {child.agent} is working: {task}")
            return lines

        lines = await self.store.read(look)
        return "\n".join(filter(None, lines)) or "Nothing is running here."

    async def whoami(self, call: CommandCall) -> str:
        """Who gives the command, with which role."""
        session = call.session
        return f"You are {call.sender}, {call.role.value}, in {session.id} ({session.label.value})."


def _find_taint_reason(tx: Tx, session: SessionRow) -> str:
    """How outside text came into this chat since it was last cleared; "" when none did (F3)."""
    rows = [
        row
        for row in reversed(tx.list_turns(session.id, TURNS))
        if row.label is Label.UNTRUSTED and not is_cleared(row.started_at, session)
    ]
    for row in rows:
        if (found := find_taint(tx.list_events(row.id))) and not found.inherited:
            return f"{found.by} (in {row.id})"
    return "what was said before" if rows else ""


def _describe_usage(row: UsageRow) -> str:
    tokens = f"{row.input_tokens:,} in ({row.cached_tokens:,} cached), {row.output_tokens:,} out"
    usd = "price unknown" if row.usd is None else f"${row.usd:.4f}"
    return f"  {row.model}: {row.calls} calls, {tokens}, {usd}"
