"""What must hold of agents that work for others, however often the daemon died (A17, B11, F2; B5)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from daemon.agent.budget_tree import Cost
from daemon.agent.budgets import Budgets, DailyUsage
from daemon.agent.config import BudgetConfig
from daemon.agent.context.history import rebuild_turn
from daemon.core.clock import SystemClock
from daemon.core.events import (
    ChildReturned,
    ChildSpawned,
    Consulted,
    Consulting,
    ModelAsked,
    ModelReplied,
    Outcome,
    RecordedEvent,
    Stop,
    ToolFinished,
    ToolStarted,
    UserSaid,
)
from daemon.core.rows import TurnRow
from daemon.core.trust import Effect
from daemon.store.sqlite import SqliteStore
from tests.e2e.crash.model import names
from tests.e2e.crash.remains import Remains

TOKENS = 10  # what the model says that a request took
WELL = (Stop.DONE, Stop.CONDITION, Stop.MAX_ITERATIONS)
LATE = timedelta(seconds=1)


def children_are_born_once(it: Remains) -> Iterator[str]:
    """One event, one row, one message, one turn for each call that asked for an agent; and no task is done by two."""
    spawned = [(turn, one) for turn in it.turns for one in it.of(turn, ChildSpawned)]
    keys = Counter((turn, one.key) for turn, one in spawned)
    yield from (f"{key} set {n} agents to work" for key, n in keys.items() if n > 1)
    tasks = Counter(
        name for turn in it.turns.values() if turn.parent for name in _tasks(it, turn.id)
    )
    yield from (f"the task {task} was given to {n} agents" for task, n in tasks.items() if n > 1)
    if sorted(row.turn for row in it.children) != sorted(one.child for _, one in spawned):
        yield f"rows of {[row.turn for row in it.children]}, events of {[one.child for _, one in spawned]}"
    for turn, one in spawned:
        messages = [
            row for row in it.inbox if row["turn"] == one.child or row["id"] == one.input_id
        ]
        begun = it.turns.get(one.child)
        if (
            len(messages) != 1
            or messages[0]["body"] != one.task
            or messages[0]["session"] != one.session
        ):
            yield f"agent {one.child} has the messages {messages}"
        if begun is None and messages[0]["state"] != "quarantined":
            yield f"agent {one.child} never began"
        if begun and (begun.parent, begun.session) != (turn, one.session):
            yield f"agent {one.child} works for {begun.parent}, set to work by {turn}"


def _tasks(it: Remains, turn: str) -> list[str]:
    return [name for one in it.of(turn, UserSaid) for name in names(one.text)]


def every_call_for_an_agent_had_one(it: Remains) -> Iterator[str]:
    """A call that came to its end had a child, and was told of that child's own reply and no other (A17)."""
    for turn in it.turns:
        spawned = {one.key: one for one in it.of(turn, ChildSpawned)}
        for result in it.of(turn, ToolFinished):
            if result.tool != "spawn_agent" or result.outcome not in (Outcome.OK, Outcome.ERROR):
                continue
            one = spawned.get(result.call_id)
            if one is None:
                yield f"turn {turn}: call {result.call_id} had no agent, and this result: {result.text}"
            elif one.background:
                yield (
                    ""
                    if one.child in result.text
                    else f"turn {turn}: {one.child} in the background: {result.text}"
                )
            else:
                yield from _heard(
                    it, turn, one.child, result.text, well=result.outcome is Outcome.OK
                )
        for back in it.of(turn, ChildReturned):
            yield from _heard(
                it,
                turn,
                back.child,
                back.text,
                well=back.stop in ("done", "condition", "max_iterations"),
            )


def _heard(it: Remains, turn: str, child: str, text: str, *, well: bool) -> Iterator[str]:
    row = it.turns.get(child)
    reply, ended_well = (row.reply, row.stop_reason in WELL) if row else ("", False)
    if reply not in text or (not reply and ended_well):
        yield f"turn {turn} was told {text!r} of {child}, whose reply was {reply!r}"
    if well != ended_well:
        yield f"turn {turn} was told that {child} ended {'well' if well else 'badly'}, it ended {row and row.stop_reason}"


def reports_come_once(it: Remains) -> Iterator[str]:
    """A background agent's result is one message that begins one turn, in the order in which they ended (A17; K1 to #3). One
    that was stopped has none.
    """
    stopped = {row.id for row in it.turns.values() if row.stop_reason is Stop.CANCELLED}
    due = {row.report: row for row in it.children if row.report and row.turn not in stopped}
    reports = [row for row in it.inbox if row["external_id"].endswith("/report")]
    if Counter(row["turn"] for row in reports) != Counter(due.keys()):
        yield f"reports due are {sorted(due)}, there are {[row['turn'] for row in reports]}"
        return
    ends = [
        ended.ended_at
        for row in reports
        if (ended := it.turns.get(due[row["turn"]].turn)) and ended.ended_at
    ]
    if ends != sorted(ends):
        yield f"reports came in the order {reports}"
    for row in reports:
        child, began = due[row["turn"]], it.turns.get(row["turn"])
        ended = it.turns.get(child.turn)
        if row["session"] != child.parent_session or (ended and ended.reply not in row["body"]):
            yield f"the report {row} of {child}, whose reply was {ended and ended.reply!r}"
        if row["state"] != "quarantined" and (
            began is None or began.session != child.parent_session
        ):
            yield f"the report {row['turn']} of {child.turn} began {began}"


def nobody_works_on_for_a_turn_that_is_over(it: Remains) -> Iterator[str]:
    """Who waited for an agent and ended took it along; who was stopped, those in the background too (A17)."""
    for child in it.children:
        above, own = it.turns[child.parent], it.turns.get(child.turn)
        if not child.done or (own and own.state not in ("ended", "quarantined")):
            yield f"agent {child.turn} is {own and own.state}, its row {'is' if child.done else 'is not'} done"
        taken_along = above.stop_reason in (Stop.CANCELLED, None) or not child.report
        if own and taken_along and _late(above, own) and own.stop_reason is not Stop.CANCELLED:
            yield f"agent {own.id} went on after {above.id} had ended, and ended {own.stop_reason}"
        if own and taken_along:
            yield from _effects_after(it, above, own)


def _late(above: TurnRow, own: TurnRow) -> bool:
    return bool(above.ended_at and own.ended_at and own.ended_at > above.ended_at)


def _effects_after(it: Remains, above: TurnRow, own: TurnRow) -> Iterator[str]:
    end = above.ended_at + LATE if above.ended_at else None
    late = [
        one.event
        for one in it.events[own.id]
        if end and one.at > end and isinstance(one.event, ToolStarted)
    ]
    yield from (
        f"agent {own.id} did {one.tool} when {above.id} was over"
        for one in late
        if one.effect is not Effect.READ
    )


def stops_hold(it: Remains) -> Iterator[str]:
    """A stop that was taken stands, whatever the daemon died of (E7)."""
    for line in it.outside.stops.lines():
        turn = it.turns.get(line["turn"])
        if turn is None or turn.stop_reason is not Stop.CANCELLED:
            yield f"turn {line['turn']} was stopped, and ended {turn and turn.stop_reason}"


def chats_hear_only_what_is_for_them(it: Remains) -> Iterator[str]:
    """Of an agent: its questions, each once, and what needs a person's eye; not its reply (A17, E13)."""
    people = {row["session"] for row in it.said} | set(it.plan)
    for turn in it.turns.values():
        posted = [row for row in it.outbox if row["turn"] == turn.id]
        if it.own(turn.id):
            continue
        yield from (
            f"{turn.id} sent {row}"
            for row in posted
            if row["kind"] == "reply" or row["session"] not in people
        )
        questions = [row for row in it.approvals if row["turn"] == turn.id]
        if len(questions) != sum(row["kind"] == "approval" for row in posted):
            yield f"{turn.id} asked {len(questions)} questions, and put {posted} to its people"
        unknown = [one for one in it.of(turn.id, ToolFinished) if one.outcome is Outcome.UNKNOWN]
        yield from (
            f"nobody was told of {one.tool} in {turn.id}"
            for one in unknown
            if one.tool not in str(posted)
        )


KIN = (
    children_are_born_once,
    every_call_for_an_agent_had_one,
    reports_come_once,
    nobody_works_on_for_a_turn_that_is_over,
    stops_hold,
    chats_hear_only_what_is_for_them,
)


async def budgets_add_up(folder: Path, it: Remains) -> list[str]:
    """F2: the accounts that a restart rebuilds say what the events say, of each turn and all below it, and of the day."""
    store = await SqliteStore.open(folder / "home" / "journal.db")
    try:
        ledger, faults = DailyUsage(SystemClock(), BudgetConfig(), lambda tx, session: True), []
        await ledger.load(store)
        budgets, everything = (
            Budgets(store, ledger),
            sum((_of_events(events) for events in it.events.values()), Cost()),
        )
        if not _same(ledger.account.spent, everything):
            faults.append(f"the day's account says {ledger.account.spent}, the events {everything}")
        for turn in it.turns.values():
            account = await budgets.open(
                rebuild_turn(turn.id, turn.session, it.events[turn.id], parent=turn.parent)
            )
            want = _spent(it, turn.id)
            if not _same(account.spent, want):
                faults.append(
                    f"turn {turn.id}: its account says {account.spent}, its events {want}"
                )
    finally:
        await store.aclose()
    free = everything.input_tokens < TOKENS * len(it.requests)
    return (
        [*faults, f"{len(it.requests)} requests for {everything.input_tokens} tokens"]
        if free
        else faults
    )


def _same(one: Cost, other: Cost) -> bool:
    return (one.input_tokens, one.output_tokens) == (
        other.input_tokens,
        other.output_tokens,
    ) and abs(one.usd - other.usd) < 1e-9


def _spent(it: Remains, turn: str) -> Cost:
    below = (child.turn for child in it.children if child.parent == turn and child.turn in it.turns)
    return sum((_spent(it, child) for child in below), _of_events(it.events[turn]))


def _of_events(events: Sequence[RecordedEvent]) -> Cost:
    """What was settled; and what was set aside for a call that nobody ever heard of again."""
    total, open_ = Cost(), {ModelAsked: Cost(), Consulting: Cost()}
    for one in events:
        match one.event:
            case ModelAsked() | Consulting() as asked:
                total += open_[type(asked)]
                open_[type(asked)] = Cost(asked.reserved_tokens, 0, asked.reserved_usd or 0.0)
            case ModelReplied() as reply:
                open_[ModelAsked] = Cost()
                total += Cost(
                    reply.usage.input_tokens,
                    reply.usage.output_tokens,
                    (reply.usage.usd or 0.0) if reply.charged_usd is None else reply.charged_usd,
                )
            case Consulted() as reply:
                open_[Consulting] = Cost()
                total += Cost(
                    reply.usage.input_tokens, reply.usage.output_tokens, reply.charged_usd
                )
    return sum(open_.values(), total)
