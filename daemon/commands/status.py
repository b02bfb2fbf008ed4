"""/help /start /status /cost /tasks /whoami: what is going on, and what it costs (A14, A19)."""

from collections.abc import Sequence
from datetime import timedelta

from daemon.agent.budgets import utc_midnight
from daemon.agent.context.history import TURNS, is_cleared, rebuild_turn
from daemon.commands.registry import Command, CommandCall, Services
from daemon.core.journal import ReadTx
from daemon.core.provenance import find_taint
from daemon.core.rows import ChildRow, SessionRow, TurnRow, UsageRow
from daemon.core.trust import Label, Right
from daemon.core.turn import Turn, render_plan


async def run_status(desk: Services, spoken: CommandCall) -> str:
    """This chat at a glance."""
    session = spoken.session

    week = desk.clock.now() - timedelta(days=7)

    def look(tx: ReadTx) -> tuple[int, int, int, dict[str, int], str]:
        unfinished, asked = (
            tx.list_unfinished_turns(session.id),
            tx.list_approvals("pending", session.id),
        )
        queued = len(tx.list_waiting_inputs(session.id))
        return len(unfinished), queued, len(asked), tx.count_stops(week), taint_reason(tx, session)

    begun, queued, asked, ends, tainted = await desk.store.read(look)
    lines = [
        f"Chat {session.id}, {session.label.value}" + (", paused" if session.paused else ""),
        *(
            [f"It has read text from outside, so it asks more: {tainted}. /clear begins anew."]
            if tainted
            else []
        ),
        f"Model: {session.model or desk.models.list_models()[0]}"
        + (" (pinned)" if session.model else ""),
        f"Agent: {session.agent}",
        f"Tasks: {begun} begun, {queued} queued, {asked} waiting for your answer",
        f"Journal: {'well' if desk.store.healthy else 'cannot be written: the disk may be full; nothing new is accepted'}",
        *(f"Channel {line}" for line in desk.channel_lines()),
        budget_line(desk),
        "Turns of seven days ended: "
        + (", ".join(f"{reason} {count}" for reason, count in sorted(ends.items())) or "none"),
    ]
    return "\n".join(lines)


def taint_reason(tx: ReadTx, session: SessionRow) -> str:
    """How text from outside came into this chat since it was last cleared; "" when none did (F3)."""
    shown = [
        row
        for row in reversed(tx.list_turns(session.id, TURNS))
        if not is_cleared(row.started_at, session)
    ]
    for row in shown:
        found = find_taint(tx.list_events(row.id)) if row.label is Label.UNTRUSTED else None
        if found and not found.inherited:
            return f"{found.by} (in {row.id})"
    return "what was said before" if any(row.label is Label.UNTRUSTED for row in shown) else ""


def budget_line(desk: Services) -> str:
    """Today's use against today's limits."""
    today = desk.today()
    tokens = f"{today.tokens:,} tokens" + (f" of {today.max_tokens:,}" if today.max_tokens else "")
    usd = f"${today.usd:.4f}" + (f" of ${today.max_usd:g}" if today.max_usd else "")
    return f"Today: {tokens}, {usd}" + (
        ", and calls whose price is unknown" if today.unpriced else ""
    )


async def run_cost(desk: Services, spoken: CommandCall) -> str:
    """Use by model: today, seven days, this chat."""
    now = desk.clock.now()
    day, week = utc_midnight(now), now - timedelta(days=7)
    spans = await desk.store.read(
        lambda tx: (tx.sum_usage(day), tx.sum_usage(week), tx.sum_usage(week, spoken.session.id))
    )
    heads = ("Today", "Seven days", "This chat, seven days")
    return "\n".join(
        line
        for head, rows in zip(heads, spans, strict=True)
        for line in (f"{head}:", *usage_lines(rows))
    )


def usage_lines(rows: Sequence[UsageRow]) -> list[str]:
    """One line per model; an unknown price is called unknown, never 0."""
    if not rows:
        return ["  nothing"]
    return [
        f"  {row.model}: {row.calls} calls, {row.input_tokens:,} in ({row.cached_tokens:,} cached), {row.output_tokens:,} out, "
        + ("price unknown" if row.usd is None else f"${row.usd:.4f}")
        for row in rows
    ]


async def run_tasks(desk: Services, spoken: CommandCall) -> str:
    """What is not finished: turns with their plans, and the agents at work for this chat."""

    def look(tx: ReadTx) -> tuple[list[tuple[TurnRow, Turn]], list[ChildRow]]:
        rows = tx.list_unfinished_turns(spoken.session.id)
        return [
            (row, rebuild_turn(row.id, row.session, tx.list_events(row.id))) for row in rows
        ], tx.list_running_children(spoken.session.id)

    turns, children = await desk.store.read(look)
    lines = []
    for row, turn in turns:
        lines.append(f"- {row.id}: {row.state}, {row.iterations} iterations")
        lines += [f"    {line}" for line in render_plan(turn.todos).splitlines()]
    lines += [
        f"- {child.turn}: agent {child.agent} at work: {first_line(child.task)}"
        for child in children
    ]
    return "\n".join(lines) or "Nothing is running here."


def first_line(text: str, most: int = 80) -> str:
    """The beginning of it, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


async def run_whoami(desk: Services, spoken: CommandCall) -> str:
    """Who I think you are."""
    return f"You are {spoken.sender}, {spoken.role.value}, in {spoken.session.id} ({spoken.session.label.value})."


COMMANDS = (
    Command("status", "this chat at a glance", run_status, Right.READ),
    Command("cost", "tokens and money, by model", run_cost, Right.READ),
    Command("tasks", "what is not finished", run_tasks, Right.READ),
    Command("whoami", "who I think you are", run_whoami, Right.READ),
)
