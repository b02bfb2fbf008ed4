"""How the recorded events of a turn are told to a watcher, by B5's names (`LiveEvent` lists them with their data)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import assert_never

from daemon.client.protocol import LiveEvent, UsageView
from daemon.core.event_bus import DraftDropped, TextDelta, ToolOutputChunk
from daemon.core.events import (
    Alarm,
    ApprovalAnswered,
    ApprovalAsked,
    BudgetExtended,
    BudgetRaised,
    CallJudged,
    ChildReturned,
    ChildSpawned,
    Classified,
    Coached,
    Consulted,
    Consulting,
    Event,
    HistoryCompressed,
    IterationRefunded,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    ModelRetried,
    Outcome,
    RecordedEvent,
    Steered,
    Stop,
    Suspended,
    TodosSet,
    ToolFinished,
    ToolRetried,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    UserSaid,
    Verified,
    WorkEvent,
)
from daemon.core.messages import Usage
from daemon.core.trust import Label

COMPLETED = "run.completed"
MAX_CYCLES = "maxCycles"  # so it is called where it is the author's own ceiling (B3)
NamedData = tuple[str, Mapping[str, object]]
TurnPhaseEvent = Steered | Coached | Suspended | TurnResumed | TurnEnded
LimitEvent = BudgetExtended | BudgetRaised | IterationRefunded | Alarm


@dataclass(slots=True)
class EventFormatter:
    """Tells one turn from its first event on; the small fold is what single events do not say: counts, sums, the label."""

    iteration: int = 0
    cycles: bool = False
    max_iterations: int = 0
    iterations: int = 0
    open_calls: int = 0
    settled_calls: int = 0
    label: Label = Label.TRUSTED
    usage: UsageView = field(default_factory=UsageView)

    def format(self, recorded: RecordedEvent) -> list[LiveEvent]:
        """What a watcher is told of this event; nothing for what only the journal needs."""
        told = self._format(recorded.event, recorded.seq)
        return [
            LiveEvent(name, data, recorded.seq, len(told) - index)
            for index, (name, data) in enumerate(told, start=1)
        ]

    def format_quarantined(self, notice: str) -> list[LiveEvent]:
        """The end of a turn that was set aside; no event of its own says so."""
        data = self._summary("", "quarantined")
        ended = {"reason": "quarantined", "detail": notice, "ok": False}
        return [LiveEvent("run.terminated_by", ended), LiveEvent(COMPLETED, data)]

    def _format(self, event: Event, seq: int) -> list[NamedData]:
        match event:
            case UserSaid():
                self.label, self.max_iterations = (
                    self.label.join_with(event.initial_label),
                    event.limits.max_iterations,
                )
                self.cycles = event.terms.cycles
                return []
            case Steered() | Coached() | Suspended() | TurnResumed() | TurnEnded():
                return self._format_turn(event)
            case ModelAsked() | ModelRetried() | ModelReplied() | Consulted():
                return self._format_model(event, seq)
            case ToolStarted() | ToolRetried() | ToolFinished():
                return self._format_tool(event)
            case ApprovalAsked() | ApprovalAnswered():
                return [_format_approval(event)]
            case BudgetExtended() | BudgetRaised() | IterationRefunded() | Alarm():
                return [self._format_limits(event)]
            case (
                Classified()
                | ChildSpawned()
                | ChildReturned()
                | TodosSet()
                | HistoryCompressed()
                | Verified()
            ):
                return [self._format_work(event)]
            case CallJudged() | ModelFailed() | Consulting():
                return []
            case _:
                assert_never(event)

    def _format_work(self, event: WorkEvent) -> NamedData:
        match event:
            case Classified():
                return "intent", {"intent": event.intent.value}
            case ChildSpawned():
                told = {
                    "key": event.key,
                    "turn": event.child,
                    "session": event.session,
                    "agent": event.agent,
                }
                return "agent.started", told | {"task": event.task, "background": event.background}
            case ChildReturned():
                self.label = self.label.join_with(event.label)
                return "agent.ended", {
                    "key": event.key,
                    "turn": event.child,
                    "stop_reason": event.stop,
                    "text": event.text,
                }
            case TodosSet():
                return "todos", {
                    "items": [{"text": item.text, "state": item.state} for item in event.items]
                }
            case HistoryCompressed():
                sizes = {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
                return "history.compressed", {
                    "strategy": event.strategy,
                    "summary": event.summary,
                    **sizes,
                }
            case Verified():
                told = {"check": event.check, "passed": event.passed, "feedback": event.feedback}
                return "verified", told | {"note": event.note}

    def _format_limits(self, event: LimitEvent) -> NamedData:
        match event:
            case BudgetExtended():
                self.max_iterations = event.max_iterations
                return "budget.extended", {
                    "reason": event.reason,
                    "max_iterations": event.max_iterations,
                }
            case BudgetRaised():
                limits = {
                    "max_input_tokens": event.limits.max_input_tokens,
                    "max_usd": event.limits.max_usd,
                }
                day = {"day_tokens": event.day_tokens, "day_usd": event.day_usd}
                return "budget.raised", {"question": event.question, **limits, **day}
            case IterationRefunded():
                self.iterations -= 1
                return "cycle.refunded", {"call_ids": list(event.call_ids)}
            case Alarm():
                return "alarm", {"kind": event.kind, "text": event.text}

    def _format_turn(self, event: TurnPhaseEvent) -> list[NamedData]:
        match event:
            case Steered():
                self.label = self.label.join_with(event.label)
                return [("steered", {"text": event.text})]
            case Coached():
                return [("coached", {"kind": event.kind, "text": event.text})]
            case Suspended():
                return [("run.suspended", {"waiting_for": list(event.waiting_for)})]
            case TurnResumed():
                return [("run.resumed", {"why": event.why})]
            case TurnEnded():
                spent = self.cycles and event.reason is Stop.MAX_ITERATIONS
                ended = {
                    "reason": MAX_CYCLES if spent else event.reason.value,
                    "detail": event.detail,
                }
                ok = spent or event.reason in (Stop.DONE, Stop.CONDITION)
                return [
                    ("run.terminated_by", ended | {"ok": ok}),
                    (COMPLETED, self._summary(event.reply, event.reason.value)),
                ]

    def _format_model(
        self, event: ModelAsked | ModelRetried | ModelReplied | Consulted, seq: int
    ) -> list[NamedData]:
        match event:
            case ModelAsked():
                self.iteration, self.label = event.iteration, self.label.join_with(event.label)
                return [
                    (
                        "cycle.start",
                        {
                            "iteration": event.iteration,
                            "max_iterations": self.max_iterations,
                            "model": event.model,
                        },
                    )
                ]
            case ModelRetried():
                again = {"error": event.error, "message": event.message, "wait_s": event.wait_s}
                return [("model.retry", again | {"next_model": event.next_model})]
            case ModelReplied():
                return self._format_reply(event, seq)
            case Consulted():
                self.usage = _add_usage(self.usage, event.usage)
                asked = {"purpose": event.purpose, "model": event.model, "error": event.error}
                return [
                    (
                        "model.consulted",
                        asked | {"usage": asdict(_add_usage(UsageView(), event.usage))},
                    )
                ]

    def _format_reply(self, event: ModelReplied, seq: int) -> list[NamedData]:
        self.usage = _add_usage(self.usage, event.usage)
        self.iterations += event.is_iteration
        self.open_calls = self.settled_calls = len(event.calls)
        response = {
            "iteration": self.iteration,
            "text": event.text,
            "text_length": len(event.text),
            "tool_calls": len(event.calls),
            "finish_reason": event.finish,
            "usage": asdict(_add_usage(UsageView(), event.usage)),
        }
        called = (
            (
                "tool_call",
                {"call_id": f"{seq}.{index}", "tool": call.name, "arguments": call.arguments},
            )
            for index, call in enumerate(event.calls)
        )
        return [("model.response", response), *called]

    def _format_tool(self, event: ToolStarted | ToolRetried | ToolFinished) -> list[NamedData]:
        match event:
            case ToolStarted():
                return [("tool.started", {"call_id": event.call_id, "tool": event.tool})]
            case ToolRetried():
                return [
                    (
                        "tool.retry",
                        {"call_id": event.call_id, "error": event.error, "wait_s": event.wait_s},
                    )
                ]
            case ToolFinished():
                return self._format_result(event)

    def _format_result(self, event: ToolFinished) -> list[NamedData]:
        self.label = self.label.join_with(event.label)
        self.open_calls -= 1
        result = {
            "call_id": event.call_id,
            "tool": event.tool,
            "outcome": event.outcome.value,
            "is_error": event.outcome is not Outcome.OK,
            "text": event.text,
            "exit_code": event.exit_code,
        }
        if self.open_calls:
            return [("tool_result", result)]
        return [
            ("tool_result", result),
            ("tool.results", {"iteration": self.iteration, "count": self.settled_calls}),
        ]

    def _summary(self, reply: str, reason: str) -> dict[str, object]:
        return {
            "reply": reply,
            "text_length": len(reply),
            "stop_reason": reason,
            "iterations": self.iterations,
            "usage": asdict(self.usage),
            "label": self.label.value,
        }


def format_live(item: TextDelta | DraftDropped | ToolOutputChunk) -> LiveEvent:
    """What is shown as it happens and never written down; it has no number to resume from."""
    match item:
        case TextDelta():
            return LiveEvent("model.delta", {"text": item.text})
        case DraftDropped():
            return LiveEvent("model.reset", {})
        case ToolOutputChunk():
            return LiveEvent("tool.output", {"call_id": item.call_id, "text": item.text})


def _format_approval(event: ApprovalAsked | ApprovalAnswered) -> NamedData:
    match event:
        case ApprovalAsked():
            asked = {"call_id": event.call_id, "tool": event.tool, "arguments": event.arguments}
            terms = {
                "effect": event.effect.value,
                "expires": event.expires.isoformat(),
                "preview": event.preview,
            }
            return "approval.asked", asked | terms
        case ApprovalAnswered():
            answered = {"call_id": event.call_id, "answer": event.answer.value}
            return "approval.answered", answered | {"by": event.by, "reason": event.reason}


def _add_usage(sum_: UsageView, usage: Usage) -> UsageView:
    usd = None if sum_.usd is None or usage.usd is None else sum_.usd + usage.usd
    return replace(
        sum_,
        input_tokens=sum_.input_tokens + usage.input_tokens,
        output_tokens=sum_.output_tokens + usage.output_tokens,
        cached_tokens=sum_.cached_tokens + usage.cached_tokens,
        usd=usd,
    )
