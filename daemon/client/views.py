"""Views of runs, sessions, questions and loops, built from rows and events; and recorded events of
a run as the events that clients see (`LiveEvent` lists them).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from datetime import datetime
from functools import cache, partial
from operator import attrgetter
from typing import Any, TypeVar

from daemon.agent.context.history import ReadOnlySink
from daemon.agent.system_questions import QuestionText, parse_system_question
from daemon.client.loop_view import AttemptView, CriteriaView, LoopView
from daemon.client.protocol import COMPLETED
from daemon.client.view_types import (
    ApprovalView,
    CallView,
    EventData,
    LiveEvent,
    RunView,
    UsageView,
)
from daemon.core import value
from daemon.core.event_bus import (
    DraftDropped,
    LiveItem,
    Quarantined,
    TextDelta,
    ToolOutputChunk,
    TurnFinished,
)
from daemon.core.events import (
    Alarm,
    BudgetExtended,
    BudgetRaised,
    CallJudged,
    ChildSpawned,
    Event,
    ModelAsked,
    ModelReplied,
    Outcome,
    RecordedEvent,
    Stop,
    Todo,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Verified,
)
from daemon.core.messages import Usage, describe_outgoing
from daemon.core.provenance import find_taint
from daemon.core.rows import (
    REVIEW_QUESTION,
    ApprovalRow,
    ChildRow,
    InboxRow,
    LoopRow,
    LoopStage,
    OutboxRow,
    TurnRow,
    is_call,
)
from daemon.core.trust import Effect
from daemon.core.turn import Turn, TurnUsage
from daemon.core.turn_spec import describe_budget
from daemon.store.journal import Tx

ViewT = TypeVar("ViewT")
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


INBOX_STATES = {
    "steered": ("ended", "added to run {turn}, which answers it"),
    "answered": ("ended", "taken as the answer to a question of run {turn}"),
    "command": ("ended", "was a command"),
    "ordered": ("ended", "was a command"),
    "quarantined": ("quarantined", QUARANTINE_NOTICE),
    "gone": ("ended", "dropped: its sender was removed from the allow-list before it began"),
}


def build_view(kind: type[ViewT], row: object, **given: object) -> ViewT:
    """A view with the row's fields of the same names, of its times too, and what is given."""
    for name in _list_names(kind):
        if name not in given:
            found = getattr(row, name if hasattr(row, name) else f"{name}_at")
            given[name] = found.isoformat() if isinstance(found, datetime) else found
    return kind(**given)


@cache
def _list_names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def view_usage(spent: Usage | TurnUsage | TurnRow) -> UsageView:
    """Tokens and USD; an unknown price makes the sum unknown."""
    usd = None if isinstance(spent, TurnUsage) and spent.usd_unknown else spent.usd
    return UsageView(spent.input_tokens, spent.output_tokens, spent.cached_tokens, usd)


def run_view(
    row: TurnRow,
    recorded: Sequence[RecordedEvent],
    reactions: Sequence[str] = (),
    deliveries: Sequence[OutboxRow] = (),
    tree: Usage | None = None,
) -> RunView:
    """The run as http.md shows it: the row for its state, the events for its calls and notices.
    `tree`: what it and its agents have used, where it has any.
    """
    taint = find_taint(recorded)
    return build_view(
        RunView,
        row,
        turn=row.id,
        reply=row.reply if row.state == "ended" else None,
        usage=view_usage(row),
        tree=view_usage(tree or row),
        notices=list_notices(row, recorded),
        calls=list_calls(recorded),
        parent=row.parent or None,
        children=[item.event.child for item in recorded if isinstance(item.event, ChildSpawned)],
        tainted=f"{taint.by} (event {taint.seq})" if taint else "",
        private=list(row.private),
        reactions=list(reactions),
        outgoing=[
            describe_outgoing(one)
            for one in deliveries
            if one.state == "failed" or (one.due and one.kind != "notice")
        ],
    )


def row_from_turn(turn: Turn) -> TurnRow:
    """The row that the journal has of a turn that has ended, without asking it."""
    ended, spent = turn.events[-1], view_usage(turn.spent)
    if not isinstance(end := ended.event, TurnEnded):
        raise ValueError(f"turn {turn.id} has not ended")
    return TurnRow(
        turn.id,
        turn.session,
        turn.parent,
        "",
        "ended",
        turn.label,
        turn.events[0].at,
        ended.at,
        end.reason,
        end.detail,
        end.reply,
        turn.iterations,
        *(spent.input_tokens, spent.output_tokens, spent.cached_tokens, spent.usd),
        turn.spec.agent,
        turn.private,
    )


def view_approval(row: ApprovalRow, question: str, root: str = "") -> ApprovalView:
    """The question, in words where it is no call of a tool."""
    asked = None if is_call(row) else parse_system_question(row.tool, row.arguments)
    words = asked or QuestionText("")
    return build_view(
        ApprovalView,
        row,
        question=question,
        title=words.title,
        text=words.text,
        options=[*words.options],
        secret=[*filter(None, words.secret)],
        root=root or row.session,
    )


def queued_view(row: InboxRow, child: ChildRow | None = None) -> RunView:
    """A message whose run has not begun or never will. `child` is there when it is a task of a sub-
    agent.
    """
    state, _, turn = row.state.partition(":")
    run_state, notice = INBOX_STATES.get(state, ("queued", ""))
    return RunView(
        turn=row.turn,
        session=row.session,
        state=run_state,
        label=row.label,
        notices=[notice.format(turn=turn)] if notice else [],
        agent=child.agent if child else "default",
        parent=child.parent if child else None,
    )


def loop_view(tx: Tx, row: LoopRow) -> LoopView:
    """The loop with its attempts, and the full reply of each (C5)."""
    reviewing = row.stage is LoopStage.REVIEWING
    return build_view(
        LoopView,
        row,
        loop_id=row.id,
        iteration=row.attempt,
        criteria=CriteriaView(row.criterion, row.value),
        status="paused" if reviewing else row.stage,
        session=row.root,
        progress_log=list(row.learned),
        attempts=[_attempt_view(tx, row, number) for number in range(1, row.attempt + 1)],
        final_output=row.final_output if row.stage is LoopStage.COMPLETED else None,
        error=row.error or None,
        review=REVIEW_QUESTION if reviewing else None,
    )


def _attempt_view(tx: Tx, row: LoopRow, number: int) -> AttemptView:
    turn = tx.get_turn(row.turn_id(number))
    if turn is None:
        return AttemptView(number, row.turn_id(number), "queued")
    output = turn.reply if turn.ended_at else None
    return AttemptView(number, turn.id, turn.state, turn.stop_reason, output)


def list_calls(recorded: Sequence[RecordedEvent]) -> list[CallView]:
    """Every call of the run, in order, with the decision of the policy and the result."""
    found: dict[str, CallView] = {}
    for item in recorded:
        match item.event:
            case ModelReplied(calls=calls):
                for index, call in enumerate(calls):
                    call_id, asked = f"{item.seq}.{index}", (call.name, call.arguments)
                    found[call_id] = CallView(call_id, *asked, None, None, None, False)
            case CallJudged(call_id=call_id, effect=effect, decision=decision):
                found[call_id] = replace(found[call_id], effect=effect, decision=decision)
            case ToolFinished(call_id=call_id, text=text, outcome=outcome):
                is_error = outcome is not Outcome.OK
                found[call_id] = replace(found[call_id], result=text, is_error=is_error)
    return list(found.values())


def list_notices(row: TurnRow, recorded: Sequence[RecordedEvent]) -> list[str]:
    """What the owner should know and the reply may not say."""
    notices = [notice for item in recorded if (notice := _notice(item.event))]
    if row.stop_reason in STOP_NOTICES:
        notices.append(STOP_NOTICES[row.stop_reason] + (f": {row.detail}" if row.detail else ""))
    if row.state == "quarantined":
        unfinished: dict[str, str] = {}  # effects that began and whose end is unknown (promise 3)
        for item in recorded:
            match item.event:
                case ToolStarted(call_id, tool, effect) if effect is not Effect.READ:
                    unfinished[call_id] = tool
                case ToolFinished(call_id):
                    unfinished.pop(call_id, None)
        notices.append(row.detail or QUARANTINE_NOTICE)
        notices += [UNKNOWN_OUTCOME.format(tool=tool) for tool in unfinished.values()]
    return notices


def _notice(event: Event) -> str | None:
    match event:
        case ToolFinished(outcome=Outcome.UNKNOWN, tool=tool):
            return UNKNOWN_OUTCOME.format(tool=tool)
        case BudgetExtended(_, reason, limit):
            return f"the limit of iterations was raised to {limit}: {reason}"
        case BudgetRaised(_, limits, tokens, usd):
            raised = describe_budget(limits.max_usd, limits.max_input_tokens, usd, tokens)
            return f"a person raised the budget: {raised}"
        case Verified(note=text) | Alarm(text=text):
            return text
        case _:
            return None


@value
class RunBundle:
    """A run, its transcript, and the runs of its sub-agents."""

    run: RunView
    transcript: Sequence[Mapping[str, object]]
    children: Sequence["RunBundle"] = ()

    @property
    def usage(self) -> UsageView:
        """Its own usage and that of its sub-agents; an unknown price makes the sum unknown."""
        used = [astuple(one) for one in (self.run.usage, *(child.usage for child in self.children))]
        sums: list[Any] = [
            None if None in column else sum(column) for column in zip(*used, strict=True)
        ]
        return UsageView(*sums)


MAX_CYCLES = "maxCycles"  # the stop reason where the agent's author set the limit (B3)
NamedData = tuple[str, EventData]
FORMATS: Mapping[str, tuple[str, str]] = {
    "Alarm": ("alarm", "kind text"),
    "ApprovalAnswered": ("approval.answered", "call_id answer by reason"),
    "ApprovalAsked": ("approval.asked", "call_id tool arguments effect expires preview"),
    "BudgetExtended": ("budget.extended", "reason max_iterations"),
    "BudgetRaised": (
        "budget.raised",
        "question limits.max_input_tokens limits.max_usd day_tokens day_usd",
    ),
    "ChildReturned": ("agent.ended", "key child:turn stop:stop_reason text"),
    "ChildSpawned": ("agent.started", "key child:turn session agent task background"),
    "Classified": ("intent", "intent"),
    "Coached": ("coached", "kind text"),
    "Consulted": ("model.consulted", "purpose model error usage"),
    "HistoryCompressed": ("history.compressed", "strategy summary tokens_before tokens_after"),
    "IterationRefunded": ("cycle.refunded", "call_ids"),
    "MessageQueued": ("message.queued", "call_id kind channel chat due"),
    "RequestAdapted": ("model.adapted", "message parameters tools history"),
    "ModelRetried": ("model.retry", "error message wait_s next_model"),
    "Steered": ("steered", "text"),
    "Suspended": ("run.suspended", "waiting_for"),
    "TodosSet": ("todos", "items"),
    "ToolFinished": ("tool_result", "call_id tool outcome text exit_code"),
    "ToolRetried": ("tool.retry", "call_id error wait_s"),
    "ToolStarted": ("tool.started", "call_id tool"),
    "TurnResumed": ("run.resumed", "why"),
    "Verified": ("verified", "check passed feedback note"),
}


@dataclass(slots=True)
class EventFormatter:
    """Formats one run from its first event on; the client gets those after event `after`. The turn
    that the events make says what single ones do not: counts, sums, the label. `window` is that
    of the agent where its own spec names none.
    """

    after: int = 0
    window: int = 0
    turn: Turn = field(default_factory=partial(Turn, "", "", ReadOnlySink()))
    iteration: int = 0

    def format(self, item: LiveItem) -> list[LiveEvent]:
        """The client's events of an item; none for what it knows or only the journal needs."""
        match item:
            case RecordedEvent(seq=seq, event=event):
                if seq <= self.turn.seq:
                    return []
                self.turn.replay(item)
                named = self._format(event)
                if seq <= self.after:
                    return []
                last = len(named) - 1
                return [LiveEvent(*one, seq, last - index) for index, one in enumerate(named)]
            case Quarantined(notice):
                ended = {"reason": "quarantined", "detail": notice, "ok": False}
                completed = self._complete("", "quarantined")
                return [LiveEvent("run.terminated_by", ended), LiveEvent(*completed)]
            case TextDelta(text, after) if after >= self.turn.seq:
                return [LiveEvent("model.delta", {"text": text})]
            case DraftDropped():
                return [LiveEvent("model.reset", {})]
            case ToolOutputChunk(call_id, text):
                return [LiveEvent("tool.output", {"call_id": call_id, "text": text})]
            case TurnFinished() | TextDelta():
                return []

    def _format(self, event: Event) -> list[NamedData]:
        turn = self.turn
        match event:
            case ModelAsked():
                self.iteration = event.iteration
                limit = {"max_iterations": turn.max_iterations, "model": event.model}
                limit["window"] = turn.spec.window or self.window
                return [("cycle.start", {"iteration": event.iteration, **limit})]
            case ModelReplied():
                response = {
                    "iteration": self.iteration,
                    "text": event.text,
                    "text_length": len(event.text),
                    "tool_calls": len(event.calls),
                    "finish_reason": event.finish,
                    "usage": _to_json(event.usage),
                }
                calls = (
                    {"call_id": one.call_id, "tool": one.call.name, "arguments": one.call.arguments}
                    for one in turn.calls
                )
                return [("model.response", response), *(("tool_call", call) for call in calls)]
            case TurnEnded(reason, detail, reply):
                is_limit = turn.spec.cycles and reason is Stop.MAX_ITERATIONS
                ok = is_limit or reason in (Stop.DONE, Stop.CONDITION)
                why = MAX_CYCLES if is_limit else reason.value
                ended = {"reason": why, "detail": detail, "ok": ok}
                return [("run.terminated_by", ended), self._complete(reply, reason.value)]
            case _ if (kind := type(event).__name__) in FORMATS:
                name, keys = FORMATS[kind]
                data: dict[str, object] = {
                    (renamed or source.rpartition(".")[2]): _to_json(attrgetter(source)(event))
                    for source, _, renamed in (key.partition(":") for key in keys.split())
                }
                named: list[NamedData] = [(name, data)]
                if isinstance(event, ToolFinished):
                    data["is_error"] = event.outcome is not Outcome.OK
                    if not turn.pending:
                        results = {"iteration": self.iteration, "count": len(turn.calls)}
                        named.append(("tool.results", results))
                return named
            case _:
                return []

    def _complete(self, reply: str, reason: str) -> NamedData:
        summary: EventData = {
            "reply": reply,
            "text_length": len(reply),
            "stop_reason": reason,
            "iterations": self.turn.iterations,
            "usage": asdict(view_usage(self.turn.spent)),
            "label": self.turn.label.value,
        }
        return COMPLETED, summary


def _to_json(found: object) -> object:
    match found:
        case Usage():
            return asdict(view_usage(found))
        case Todo():
            return asdict(found)
        case tuple():
            return [_to_json(inner) for inner in found]
        case datetime():
            return found.isoformat()
        case _:
            return found
