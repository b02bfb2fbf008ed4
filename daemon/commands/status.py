"""/help /start /status /cost /tasks /whoami: what is going on, and what it costs (A14, A19)."""

from collections.abc import Sequence
from datetime import timedelta

from daemon.agent.money.ledger import midnight
from daemon.agent.past import TURNS, is_cleared, rebuild
from daemon.commands.base import Command, Desk, Spoken
from daemon.core.label import Label
from daemon.core.roles import Right
from daemon.core.rows import ChildRow, SessionRow, TurnRow, UsageRow
from daemon.core.shown import plan_text
from daemon.core.taint import tainted_at
from daemon.core.turn import Turn
from daemon.store.protocol import ReadTx


async def status(desk: Desk, spoken: Spoken) -> str:
    """This chat at a glance."""
    session = spoken.session

    week = desk.clock.now() - timedelta(days=7)

    def look(tx: ReadTx) -> tuple[int, int, int, dict[str, int], str]:
        unfinished, asked = tx.unfinished_turns(session.id), tx.approvals("pending", session.id)
        queued = len(tx.waiting_inputs(session.id))
        return len(unfinished), queued, len(asked), tx.stop_counts(week), why_tainted(tx, session)

    begun, queued, asked, ends, tainted = await desk.store.read(look)
    lines = [
        f"Chat {session.id}, {session.label.value}" + (", paused" if session.paused else ""),
        *([f"It has read text from outside, so it asks more: {tainted}. /clear begins anew."] if tainted else []),
        f"Model: {session.model or desk.models.names()[0]}" + (" (pinned)" if session.model else ""),
        f"Agent: {session.agent}",
        f"Tasks: {begun} begun, {queued} queued, {asked} waiting for your answer",
        f"Journal: {'well' if desk.store.healthy else 'cannot be written: the disk may be full; nothing new is accepted'}",
        *(f"Channel {line}" for line in desk.channels()),
        budget_line(desk),
        "Turns of seven days ended: " + (", ".join(f"{reason} {count}" for reason, count in sorted(ends.items())) or "none"),
    ]
    return "\n".join(lines)


def why_tainted(tx: ReadTx, session: SessionRow) -> str:
    """How text from outside came into this chat since it was last cleared; "" when none did (F3)."""
    shown = [row for row in reversed(tx.turns(session.id, TURNS)) if not is_cleared(row.started_at, session)]
    for row in shown:
        found = tainted_at(tx.events(row.id)) if row.label is Label.UNTRUSTED else None
        if found and not found.inherited:
            return f"{found.by} (in {row.id})"
    return "what was said before" if any(row.label is Label.UNTRUSTED for row in shown) else ""


def budget_line(desk: Desk) -> str:
    """Today's use against today's limits."""
    today = desk.today()
    tokens = f"{today.tokens:,} tokens" + (f" of {today.max_tokens:,}" if today.max_tokens else "")
    usd = f"${today.usd:.4f}" + (f" of ${today.max_usd:g}" if today.max_usd else "")
    return f"Today: {tokens}, {usd}" + (", and calls whose price is unknown" if today.unpriced else "")


async def cost(desk: Desk, spoken: Spoken) -> str:
    """Use by model: today, seven days, this chat."""
    now = desk.clock.now()
    day, week = midnight(now), now - timedelta(days=7)
    spans = await desk.store.read(
        lambda tx: (tx.usage(day), tx.usage(week), tx.usage(week, spoken.session.id))
    )
    heads = ("Today", "Seven days", "This chat, seven days")
    return "\n".join(line for head, rows in zip(heads, spans, strict=True) for line in (f"{head}:", *usage_lines(rows)))


def usage_lines(rows: Sequence[UsageRow]) -> list[str]:
    """One line per model; an unknown price is called unknown, never 0."""
    if not rows:
        return ["  nothing"]
    return [
        f"  {row.model}: {row.calls} calls, {row.input_tokens:,} in ({row.cached_tokens:,} cached), {row.output_tokens:,} out, "
        + ("price unknown" if row.usd is None else f"${row.usd:.4f}")
        for row in rows
    ]


async def tasks(desk: Desk, spoken: Spoken) -> str:
    """What is not finished: turns with their plans, and the agents at work for this chat."""

    def look(tx: ReadTx) -> tuple[list[tuple[TurnRow, Turn]], list[ChildRow]]:
        rows = tx.unfinished_turns(spoken.session.id)
        return [(row, rebuild(row.id, row.session, tx.events(row.id))) for row in rows], tx.busy_children(spoken.session.id)

    turns, children = await desk.store.read(look)
    lines = []
    for row, turn in turns:
        lines.append(f"- {row.id}: {row.state}, {row.iterations} iterations")
        lines += [f"    {line}" for line in plan_text(turn.todos).splitlines()]
    lines += [f"- {child.turn}: agent {child.agent} at work: {head(child.task)}" for child in children]
    return "\n".join(lines) or "Nothing is running here."


def head(text: str, most: int = 80) -> str:
    """The beginning of it, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


async def whoami(desk: Desk, spoken: Spoken) -> str:
    """Who I think you are."""
    return f"You are {spoken.sender}, {spoken.role.value}, in {spoken.session.id} ({spoken.session.label.value})."


COMMANDS = (
    Command("status", "this chat at a glance", status, Right.LOOK),
    Command("cost", "tokens and money, by model", cost, Right.LOOK),
    Command("tasks", "what is not finished", tasks, Right.LOOK),
    Command("whoami", "who I think you are", whoami, Right.LOOK),
)
