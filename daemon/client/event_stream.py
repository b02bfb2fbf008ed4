"""Recorded events of a run as the events that clients see: chat, HTTP and page (`LiveEvent` lists
them).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from operator import attrgetter

from daemon.agent.context.history import ReadOnlySink
from daemon.client.protocol import COMPLETED, EventData, LiveEvent
from daemon.client.views import view_usage
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
    Verified,
)
from daemon.core.messages import Usage
from daemon.core.turn import Turn

MAX_CYCLES = "maxCycles"  # the stop reason where the agent's author set the limit (B3)
NamedData = tuple[str, EventData]
FORMATS: Mapping[type[Event], tuple[str, str]] = {
    Alarm: ("alarm", "kind text"),
    ApprovalAnswered: ("approval.answered", "call_id answer by reason"),
    ApprovalAsked: ("approval.asked", "call_id tool arguments effect expires preview"),
    BudgetExtended: ("budget.extended", "reason max_iterations"),
    BudgetRaised: (
        "budget.raised",
        "question limits.max_input_tokens limits.max_usd day_tokens day_usd",
    ),
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
    ToolFinished: ("tool_result", "call_id tool outcome text exit_code"),
    ToolRetried: ("tool.retry", "call_id error wait_s"),
    ToolStarted: ("tool.started", "call_id tool"),
    TurnResumed: ("run.resumed", "why"),
    Verified: ("verified", "check passed feedback note"),
}


@dataclass(slots=True)
class EventFormatter:
    """Formats one run from its first event on; the client gets those after event `after`. The turn
    that the events make says what single ones do not: counts, sums, the label.
    """

    after: int = 0
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
            case _ if type(event) in FORMATS:
                name, keys = FORMATS[type(event)]
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
