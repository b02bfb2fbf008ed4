"""What a person is shown of a run, a session, a question: views over rows and events. Pure.

A run with everything that worked for it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from daemon.client.protocol import (
    ApprovalView,
    CallView,
    GrantView,
    RunLine,
    RunView,
    SessionView,
    UndeliveredText,
    UsageView,
)
from daemon.core import value
from daemon.core.events import (
    Alarm,
    BudgetExtended,
    BudgetRaised,
    CallJudged,
    ChildSpawned,
    Event,
    ModelReplied,
    Outcome,
    RecordedEvent,
    Stop,
    ToolFinished,
    ToolStarted,
    Verified,
)
from daemon.core.provenance import find_taint
from daemon.core.rows import (
    ApprovalRow,
    ChildRow,
    GrantRow,
    InboxRow,
    OutboxRow,
    SessionRow,
    TurnRow,
)
from daemon.core.trust import Effect
from daemon.core.turn import Turn
from daemon.store.codec import encode

STOP_NOTICES = {
    Stop.MAX_ITERATIONS: "stopped at the limit of iterations",
    Stop.OVER_BUDGET: "stopped by the budget",
    Stop.DEADLINE: "stopped at the deadline",
    Stop.REJECTED: "not accepted",
}
UNKNOWN_OUTCOME = "outcome of {tool} is unknown: it may or may not have happened"
QUARANTINE_NOTICE = (
    "set aside: it crashed its worker three times; it will not be tried again by itself"
)


def run_view(
    row: TurnRow, recorded: Sequence[RecordedEvent], reactions: Sequence[str] = ()
) -> RunView:
    """The run as CONTRACT shows it: the row for its state, the events for its calls and what the owner should know."""
    return RunView(
        turn=row.id,
        session=row.session,
        state=row.state,
        stop_reason=row.stop_reason.value if row.stop_reason else None,
        reply=row.reply if row.state == "ended" else None,
        label=row.label.value,
        iterations=row.iterations,
        usage=UsageView(row.input_tokens, row.output_tokens, row.cached_tokens, row.usd),
        notices=list_notices(row, recorded),
        calls=list_calls(recorded),
        started=_isoformat(row.started_at),
        ended=_isoformat(row.ended_at),
        agent=row.agent,
        parent=row.parent or None,
        children=[item.event.child for item in recorded if isinstance(item.event, ChildSpawned)],
        tainted=_describe_taint(recorded),
        reactions=list(reactions),
    )


def _describe_taint(recorded: Sequence[RecordedEvent]) -> str:
    found = find_taint(recorded)
    return f"{found.by} (event {found.seq})" if found else ""


def row_from_turn(turn: Turn) -> TurnRow:
    """The row that the journal has of a turn that has ended, without asking it."""
    end, spent = turn.ended, turn.spent
    return TurnRow(
        id=turn.id,
        session=turn.session,
        parent=turn.parent,
        input_id="",
        state="ended" if end else "running",
        label=turn.label,
        started_at=turn.events[0].at,
        ended_at=turn.events[-1].at if end else None,
        stop_reason=end.reason if end else None,
        detail=end.detail if end else "",
        reply=end.reply if end else "",
        iterations=turn.iterations,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cached_tokens=spent.cached_tokens,
        usd=None if spent.usd_unknown else spent.usd,
        agent=turn.spec.agent,
    )


def queued_view(inbox: InboxRow, kin: ChildRow | None = None) -> RunView:
    """A message whose run has not begun; or never will, because it was folded into another one or set aside.

    `kin` is there when an agent was set to work by it.
    """
    state, notice = _inbox_state(inbox)
    return RunView(
        turn=inbox.turn,
        session=inbox.session,
        state=state,
        label=inbox.label.value,
        notices=[notice] if notice else [],
        agent=kin.agent if kin else "default",
        parent=kin.parent if kin else None,
    )


def run_line(row: TurnRow) -> RunLine:
    """The run in a list."""
    reason = row.stop_reason.value if row.stop_reason else None
    times = (_isoformat(row.started_at), _isoformat(row.ended_at))
    return RunLine(row.id, row.session, row.state, reason, *times, row.agent, row.parent or None)


def queued_line(inbox: InboxRow) -> RunLine:
    """A run that has not begun, in a list."""
    return RunLine(inbox.turn, inbox.session, _inbox_state(inbox)[0], None, None, None)


def approval_view(row: ApprovalRow) -> ApprovalView:
    """A question, without what an answer must match."""
    return ApprovalView(
        turn=row.turn,
        call_id=row.call_id,
        session=row.session,
        tool=row.tool,
        arguments=row.arguments,
        effect=row.effect.value,
        label=row.label.value,
        expires=row.expires.isoformat(),
        preview=row.preview,
    )


def grant_view(row: GrantRow) -> GrantView:
    """A standing permission, with its bounds."""
    return GrantView(
        id=row.id,
        session=row.session,
        tool=row.tool,
        arguments=row.arguments,
        paths=row.paths,
        granted_by=row.granted_by,
        created=row.created_at.isoformat(),
        expires=_isoformat(row.expires),
        uses_left=row.uses_left,
        uses=row.uses,
    )


def session_view(row: SessionRow) -> SessionView:
    """One session; model "" is the configured one."""
    return SessionView(
        row.id, row.label.value, row.paused, row.model, row.created_at.isoformat(), row.agent
    )


def delivery_view(row: OutboxRow) -> UndeliveredText:
    """Something that was said and perhaps not seen yet."""
    return UndeliveredText(row.turn, row.part, row.kind, row.body)


def transcript_line(recorded: RecordedEvent) -> dict[str, object]:
    """An event as the transcript shows it: {seq, at, kind, ...payload}. A payload's own `kind` is called `kind_`."""
    kind, _, payload = encode(recorded.event)
    fields: Mapping[str, object] = json.loads(payload)
    line: dict[str, object] = {"seq": recorded.seq, "at": recorded.at.isoformat(), "kind": kind}
    return line | {f"{name}_" if name in line else name: value for name, value in fields.items()}


def list_calls(recorded: Sequence[RecordedEvent]) -> list[CallView]:
    """Every call that was asked for, in order, with what the gate said and what came out."""
    found: dict[str, CallView] = {}
    for item in recorded:
        match item.event:
            case ModelReplied(calls=asked):
                for index, call in enumerate(asked):
                    call_id = f"{item.seq}.{index}"
                    found[call_id] = CallView(
                        call_id, call.name, call.arguments, None, None, None, False
                    )
            case CallJudged(call_id=call_id, effect=effect, decision=decision):
                found[call_id] = replace(
                    found[call_id], effect=effect.value, decision=decision.value
                )
            case ToolFinished(call_id=call_id, text=text, outcome=outcome):
                found[call_id] = replace(
                    found[call_id], result=text, is_error=outcome is not Outcome.OK
                )
            case _:
                pass
    return list(found.values())


def list_notices(row: TurnRow, recorded: Sequence[RecordedEvent]) -> list[str]:
    """What the owner should know and the reply may not say."""
    told = [notice for item in recorded if (notice := _notice(item.event))]
    if row.stop_reason in STOP_NOTICES:
        told.append(STOP_NOTICES[row.stop_reason] + (f": {row.detail}" if row.detail else ""))
    if row.state == "quarantined":
        told += [
            row.detail or QUARANTINE_NOTICE,
            *(UNKNOWN_OUTCOME.format(tool=tool) for tool in _unfinished_effects(recorded)),
        ]
    return told


def _unfinished_effects(recorded: Sequence[RecordedEvent]) -> list[str]:
    """Effects that were begun and never heard of again, in a turn that will not look after them any more (promise 3)."""
    started: dict[str, str] = {}
    for item in recorded:
        match item.event:
            case ToolStarted(call_id=call_id, tool=tool, effect=effect) if (
                effect is not Effect.READ
            ):
                started[call_id] = tool
            case ToolFinished(call_id=call_id):
                started.pop(call_id, None)
            case _:
                pass
    return list(started.values())


def _notice(event: Event) -> str | None:
    match event:
        case ToolFinished(outcome=Outcome.UNKNOWN, tool=tool):
            return UNKNOWN_OUTCOME.format(tool=tool)
        case BudgetExtended(max_iterations=limit, reason=reason):
            return f"the limit of iterations was raised to {limit}: {reason}"
        case BudgetRaised():
            return f"a person raised the budget: {describe_raised_budget(event)}"
        case Verified(note=note):
            return note or None
        case Alarm(text=text):
            return text
        case _:
            return None


def describe_raised_budget(event: BudgetRaised) -> str:
    """What the limits are now, or how much more the day may cost."""
    if event.day_usd or event.day_tokens:
        return (
            f"{event.day_usd:g} USD more today"
            if event.day_usd
            else f"{event.day_tokens} tokens more today"
        )
    limits = event.limits
    caps = [f"{limits.max_usd:g} USD"] if limits.max_usd is not None else []
    caps += [f"{limits.max_input_tokens} tokens in"] if limits.max_input_tokens is not None else []
    return f"at most {' and '.join(caps)} for this run"


def _inbox_state(inbox: InboxRow) -> tuple[str, str]:
    state, _, where = inbox.state.partition(":")
    match state:
        case "steered":
            return "ended", f"folded into run {where}, which answers it"
        case "answered":
            return "ended", f"taken as the answer to a question of run {where}"
        case "command" | "ordered":
            return "ended", "was a command"
        case "quarantined":
            return "quarantined", QUARANTINE_NOTICE
        case "gone":
            return "ended", "left undone: its sender was taken off the list before it was begun"
        case _:
            return "queued", ""


def _isoformat(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


@value
class RunBundle:
    """A run, its transcript, and the runs of the agents that it set to work."""

    run: RunView
    transcript: Sequence[Mapping[str, object]]
    children: Sequence["RunBundle"] = ()

    @property
    def usage(self) -> UsageView:
        """What it used up, with all that worked for it."""
        used = [self.run.usage, *(child.usage for child in self.children)]
        prices = [one.usd for one in used]
        return UsageView(
            sum(one.input_tokens for one in used),
            sum(one.output_tokens for one in used),
            sum(one.cached_tokens for one in used),
            None if None in prices else sum(price for price in prices if price),
        )
