"""/status /cost /tasks /whoami: what is going on, and what it costs (A14, A19)."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from daemon.agent.budgets import UsageToday, utc_midnight
from daemon.agent.context.history import TURNS, is_cleared, rebuild_turn
from daemon.agent.routing import ModelRouting
from daemon.commands.registry import CommandCall, Handlers
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.provenance import find_taint
from daemon.core.rows import ChildRow, SessionRow, TurnRow, UsageRow
from daemon.core.trust import Label
from daemon.core.turn import Turn, render_plan
from daemon.store.journal import Store, Tx

WEEK = timedelta(days=7)
FAILING = "cannot be written, the disk may be full; nothing new is accepted"


@value
class StatusCommands:
    """`state`: lines about channels and config."""

    store: Store
    clock: Clock
    models: ModelRouting
    today: Callable[[], UsageToday]
    state: Callable[[], Sequence[str]]

    def handlers(self) -> Handlers:
        """By command."""
        return {
            "status": self.status,
            "cost": self.cost,
            "tasks": self.tasks,
            "whoami": self.whoami,
        }

    async def status(self, call: CommandCall) -> str:
        """This chat at a glance."""
        session, since = call.session, self.clock.now() - WEEK

        def look(tx: Tx) -> tuple[list[str], dict[str, int], str]:
            counts = {
                "started": len(tx.list_unfinished_turns(session.id)),
                "queued": len(tx.list_waiting_inputs(session.id)),
                "waiting for your answer": len(tx.list_approvals("pending", session.id)),
            }
            tasks = [f"{count} {state}" for state, count in counts.items()]
            return tasks, tx.count_stops(since), find_taint_reason(tx, session)

        tasks, stops, taint = await self.store.read(look)
        lines = (
            f"Chat {session.id}, {session.label.value}" + (", paused" if session.paused else ""),
            f"It has read text from outside, so it asks more: {taint}. /clear starts over."
            if taint
            else "",
            f"Model: {session.model or self.models.list_models()[0]}"
            + (" (pinned)" if session.model else ""),
            f"Agent: {session.agent}",
            f"Tasks: {', '.join(tasks)}",
            f"Journal: {'ok' if self.store.healthy else FAILING}",
            *self.state(),
            self._describe_today(),
            "Turns of seven days ended: "
            + (", ".join(f"{reason} {count}" for reason, count in sorted(stops.items())) or "none"),
        )
        return "\n".join(line for line in lines if line)

    def _describe_today(self) -> str:
        today = self.today()
        tokens = f"{today.tokens:,} tokens" + (
            f" of {today.max_tokens:,}" if today.max_tokens else ""
        )
        usd = f"${today.usd:.4f}" + (f" of ${today.max_usd:g}" if today.max_usd else "")
        return f"Today: {tokens}, {usd}" + (
            ", and calls of unknown price" if today.unpriced else ""
        )

    async def cost(self, call: CommandCall) -> str:
        """Use by model: today, seven days, this chat."""
        now = self.clock.now()

        def look(tx: Tx) -> dict[str, list[UsageRow]]:
            return {
                "Today": tx.sum_usage(utc_midnight(now)),
                "Seven days": tx.sum_usage(now - WEEK),
                "This chat, seven days": tx.sum_usage(now - WEEK, call.session.id),
            }

        spans = await self.store.read(look)
        return "\n".join(
            line for head, rows in spans.items() for line in (f"{head}:", *_usage_lines(rows))
        )

    async def tasks(self, call: CommandCall) -> str:
        """What is not finished: turns with their plans, and sub-agents."""

        def look(tx: Tx) -> tuple[list[tuple[TurnRow, Turn]], list[ChildRow]]:
            rows = tx.list_unfinished_turns(call.session.id)
            turns = [
                (row, rebuild_turn(row.id, row.session, tx.list_events(row.id))) for row in rows
            ]
            return turns, tx.list_running_children(call.session.id)

        turns, children = await self.store.read(look)
        lines = []
        for row, turn in turns:
            lines.append(f"- {row.id}: {row.state}, {row.iterations} iterations")
            lines += [f"    {line}" for line in render_plan(turn.todos).splitlines()]
        lines += [
            f"- {one.turn}: agent {one.agent} is working: {_first_line(one.task)}"
            for one in children
        ]
        return "\n".join(lines) or "Nothing is running here."

    async def whoami(self, call: CommandCall) -> str:
        """Who gives the command, with which role."""
        session = call.session
        return f"You are {call.sender}, {call.role.value}, in {session.id} ({session.label.value})."


def find_taint_reason(tx: Tx, session: SessionRow) -> str:
    """How outside text came into this chat since it was last cleared; "" when none did (F3)."""
    rows = [
        row
        for row in reversed(tx.list_turns(session.id, TURNS))
        if not is_cleared(row.started_at, session)
    ]
    for row in rows:
        found = find_taint(tx.list_events(row.id)) if row.label is Label.UNTRUSTED else None
        if found and not found.inherited:
            return f"{found.by} (in {row.id})"
    return "what was said before" if any(row.label is Label.UNTRUSTED for row in rows) else ""


def _usage_lines(rows: Sequence[UsageRow]) -> list[str]:
    """One line per model; an unknown price is called unknown, never 0."""
    lines = []
    for row in rows:
        tokens = (
            f"{row.input_tokens:,} in ({row.cached_tokens:,} cached), {row.output_tokens:,} out"
        )
        usd = "price unknown" if row.usd is None else f"${row.usd:.4f}"
        lines.append(f"  {row.model}: {row.calls} calls, {tokens}, {usd}")
    return lines or ["  nothing"]


def _first_line(text: str, most: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
