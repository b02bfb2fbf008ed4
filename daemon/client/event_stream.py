"""Recorded events of a run as the events that clients see: chat, HTTP and page (`LiveEvent` lists
them).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from daemon.client.protocol import COMPLETED, LiveEvent, UsageView
from daemon.core.event_bus import DraftDropped, TextDelta, ToolOutputChunk
from daemon.core.events import (
    Alarm,
    ApprovalAnswered,
    ApprovalAsked,
    BudgetExtended,
    BudgetRaised,
    ChildReturned,
    ChildSpawned,
    Classified,
    Coached,
    Consulted,
    Event,
    HistoryCompressed,
    IterationRefunded,
    ModelAsked,
    ModelReplied,
    ModelRetried,
    Outcome,
    RecordedEvent,
    Steered,
    Stop,
    Suspended,
    Todo,
    TodosSet,
    ToolFinished,
    ToolRetried,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    UserSaid,
    Verified,
)
from daemon.core.messages import Usage
from daemon.core.trust import Label

MAX_CYCLES = "maxCycles"  # the stop reason where the agent's author set the limit (B3)
NamedData = tuple[str, Mapping[str, object]]
FORMATS: Mapping[type[Event], tuple[str, str]] = {
    Alarm: ("alarm", "kind text"),
    ApprovalAnswered: ("approval.answered", "call_id answer by reason"),
    ApprovalAsked: ("approval.asked", "call_id tool arguments effect expires preview"),
    BudgetExtended: ("budget.extended", "reason max_iterations"),
    BudgetRaised: ("budget.raised", "question max_input_tokens max_usd day_tokens day_usd"),
    ChildReturned: ("agent.ended", "key child:turn stop:stop_reason text"),
    ChildSpawned: ("agent.started", "key child:turn session agent task background"),
    Classified: ("intent", "intent"),
    Coached: ("coached", "kind text"),
    Consulted: ("model.consulted", "purpose model error usage"),
    HistoryCompressed: ("history.compressed", "strategy summary tokens_before tokens_after"),
    IterationRefunded: ("cycle.refunded", "call_ids"),
    ModelRetried: ("model.retry", "error message wait_s next_model"),
    Steered: ("steered", "text"),
    Suspended: ("run.suspended", "waiting_for"),
    TodosSet: ("todos", "items"),
    ToolFinished: ("tool_result", "call_id tool outcome is_error text exit_code"),
    ToolRetried: ("tool.retry", "call_id error wait_s"),
    ToolStarted: ("tool.started", "call_id tool"),
    TurnResumed: ("run.resumed", "why"),
    Verified: ("verified", "check passed feedback note"),
}


@dataclass(slots=True)
class EventFormatter:
    """Formats one run from its first event on; keeps what single events do not say: counts, sums,
    the label.
    """

    iteration: int = 0
    cycles: bool = False
    max_iterations: int = 0
    iterations: int = 0
    open_calls: int = 0
    last_calls: int = 0
    label: Label = Label.TRUSTED
    usage: UsageView = field(default_factory=UsageView)

    def format(self, recorded: RecordedEvent) -> list[LiveEvent]:
        """The client's events of a recorded one; none for what only the journal needs."""
        named = self._format(recorded.event, recorded.seq)
        last = len(named) - 1
        return [
            LiveEvent(name, data, recorded.seq, last - index)
            for index, (name, data) in enumerate(named)
        ]

    def format_quarantined(self, notice: str) -> list[LiveEvent]:
        """The end of a quarantined run; no recorded event says it."""
        ended = {"reason": "quarantined", "detail": notice, "ok": False}
        completed = self._complete("", "quarantined")
        return [LiveEvent("run.terminated_by", ended), LiveEvent(*completed)]

    def _format(self, event: Event, seq: int) -> Sequence[NamedData]:
        match event:
            case UserSaid():
                self._join(event.initial_label)
                self.max_iterations = event.limits.max_iterations
                self.cycles = event.terms.cycles
            case ModelAsked():
                self._join(event.label)
                self.iteration = event.iteration
                limit = {"max_iterations": self.max_iterations, "model": event.model}
                return [("cycle.start", {"iteration": event.iteration, **limit})]
            case ModelReplied():
                return self._format_reply(event, seq)
            case TurnEnded():
                is_limit = self.cycles and event.reason is Stop.MAX_ITERATIONS
                reason = MAX_CYCLES if is_limit else event.reason.value
                ok = is_limit or event.reason in (Stop.DONE, Stop.CONDITION)
                ended = {"reason": reason, "detail": event.detail, "ok": ok}
                completed = self._complete(event.reply, event.reason.value)
                return [("run.terminated_by", ended), completed]
            case ToolFinished():
                self._join(event.label)
                self.open_calls -= 1
                if not self.open_calls:
                    results = {"iteration": self.iteration, "count": self.last_calls}
                    return [*_format_fields(event), ("tool.results", results)]
            case _:
                self._count(event)
        return _format_fields(event)

    def _count(self, event: Event) -> None:
        match event:
            case Steered() | ChildReturned():
                self._join(event.label)
            case BudgetExtended():
                self.max_iterations = event.max_iterations
            case IterationRefunded():
                self.iterations -= 1
            case Consulted():
                self.usage = _add_usage(self.usage, event.usage)

    def _join(self, label: Label) -> None:
        self.label = self.label.join_with(label)

    def _format_reply(self, event: ModelReplied, seq: int) -> Sequence[NamedData]:
        self.usage = _add_usage(self.usage, event.usage)
        self.iterations += event.is_iteration
        self.open_calls = self.last_calls = len(event.calls)
        response = {
            "iteration": self.iteration,
            "text": event.text,
            "text_length": len(event.text),
            "tool_calls": len(event.calls),
            "finish_reason": event.finish,
            "usage": _format_value(event.usage),
        }
        calls = (
            {"call_id": f"{seq}.{index}", "tool": call.name, "arguments": call.arguments}
            for index, call in enumerate(event.calls)
        )
        return [("model.response", response), *(("tool_call", call) for call in calls)]

    def _complete(self, reply: str, reason: str) -> NamedData:
        summary = {
            "reply": reply,
            "text_length": len(reply),
            "stop_reason": reason,
            "iterations": self.iterations,
            "usage": asdict(self.usage),
            "label": self.label.value,
        }
        return COMPLETED, summary


def _format_fields(event: Event) -> Sequence[NamedData]:
    """The event by its row in FORMATS: names of its fields, or FIELD:NAME."""
    name, keys = FORMATS.get(type(event), ("", ""))
    if not name:
        return []
    source = event.limits if isinstance(event, BudgetRaised) else None
    data: dict[str, object] = {}
    for key in keys.split():
        attribute, _, renamed = key.partition(":")
        if attribute == "is_error" and isinstance(event, ToolFinished):
            data[attribute] = event.outcome is not Outcome.OK
            continue
        owner = event if hasattr(event, attribute) else source
        data[renamed or attribute] = _format_value(getattr(owner, attribute))
    return [(name, data)]


def _format_value(value: object) -> object:
    """The value as JSON has it."""
    match value:
        case Usage():
            return asdict(_add_usage(UsageView(), value))
        case Todo():
            return {"text": value.text, "state": value.state}
        case tuple():
            return [_format_value(inner) for inner in value]
        case datetime():
            return value.isoformat()
        case _:
            return value


def format_live(item: TextDelta | DraftDropped | ToolOutputChunk) -> LiveEvent:
    """An event that is never recorded: drafts and output of running tools."""
    match item:
        case TextDelta():
            return LiveEvent("model.delta", {"text": item.text})
        case DraftDropped():
            return LiveEvent("model.reset", {})
        case ToolOutputChunk():
            return LiveEvent("tool.output", {"call_id": item.call_id, "text": item.text})


def _add_usage(total: UsageView, usage: Usage) -> UsageView:
    return UsageView(
        total.input_tokens + usage.input_tokens,
        total.output_tokens + usage.output_tokens,
        total.cached_tokens + usage.cached_tokens,
        None if total.usd is None or usage.usd is None else total.usd + usage.usd,
    )
