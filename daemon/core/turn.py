"""A turn: one message being answered. Its state is a fold over its events, kept up incrementally (DESIGN 1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, assert_never

from daemon.core.events import (
    Answer,
    ApprovalAnswered,
    ApprovalAsked,
    BudgetExtended,
    CallJudged,
    Coached,
    Event,
    Limits,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    ModelRetried,
    Recorded,
    Steered,
    Suspended,
    ToolFinished,
    ToolRetried,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    UserSaid,
)
from daemon.core.label import Label
from daemon.core.messages import Message, Role, ToolCall
from daemon.core.waiting import uninterrupted

NO_PROGRESS = (ModelAsked, ModelRetried, ToolStarted, ToolRetried, TurnResumed)


class EventSink(Protocol):
    """Where a turn's events are written, in one transaction, before anything follows from them."""

    async def append(self, turn_id: str, recorded: Sequence[Recorded]) -> None:
        """Durable when it returns. Raises Fenced when another worker owns the session, StoreUnavailable when the disk fails."""
        ...


@dataclass(slots=True)
class CallState:
    """One tool call of the open reply, and how far it has come."""

    call_id: str
    call: ToolCall
    judged: CallJudged | None = None
    asked: ApprovalAsked | None = None
    answered: ApprovalAnswered | None = None
    starts: int = 0
    result: ToolFinished | None = None

    @property
    def waits(self) -> bool:
        """A person has been asked and has not answered."""
        return self.asked is not None and self.answered is None and self.result is None

    @property
    def approved(self) -> bool:
        """A person said yes to exactly this call."""
        return self.answered is not None and self.answered.answer in (Answer.ONCE, Answer.SESSION, Answer.ALWAYS)


@dataclass(slots=True)
class Spent:
    """What the turn has used up so far. `reserved_*` belong to calls that were asked and never settled."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    usd_unknown: bool = False
    reserved_tokens: int = 0
    reserved_usd: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True)
class Turn:
    """One inbound message until its reply. `record` believes an event at once; `commit` writes down what was recorded.

    Commit before anything leaves the process: a model call, a tool start, a reply. `progress` is the seq of the latest event
    that brought the turn further: asking again after a crash does not. `coached` says after which iteration each kind came last.
    """

    id: str
    session: str
    sink: EventSink
    parent: str = ""
    events: list[Recorded] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    calls: list[CallState] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    max_iterations: int = 10
    iterations: int = 0
    label: Label = Label.TRUSTED
    spent: Spent = field(default_factory=Spent)
    asked: ModelAsked | None = None
    reply: ModelReplied | None = None
    superseded: list[str] = field(default_factory=list)
    awaiting_verdict: bool = False
    failed: ModelFailed | None = None
    coached: dict[str, int] = field(default_factory=dict)
    offers: list[str] = field(default_factory=list)
    past: list[tuple[ToolFinished, ToolCall]] = field(default_factory=list)
    progress: int = 0
    memory_ids: tuple[str, ...] = ()
    suspended: bool = False
    ended: TurnEnded | None = None
    _staged: list[Recorded] = field(default_factory=list)

    @property
    def seq(self) -> int:
        """The number of the latest event; 0 before the first."""
        return self.events[-1].seq if self.events else 0

    @property
    def pending(self) -> list[CallState]:
        """Calls of the latest reply that have no result yet, in the order they were asked for."""
        return [state for state in self.calls if state.result is None]

    @property
    def answer(self) -> str:
        """What the model has to say to the user: its latest text, after any that was complete when the user went on."""
        return "\n\n".join(text for text in (*self.superseded, self.reply.text if self.reply else "") if text)

    def call(self, call_id: str) -> CallState:
        """The call of the open reply with this id. Raises KeyError."""
        for state in self.calls:
            if state.call_id == call_id:
                return state
        raise KeyError(call_id)

    def record(self, event: Event, at: datetime) -> Recorded:
        """Take the event in, to be written at the next commit."""
        recorded = Recorded(self.seq + 1, at, event)
        self.replay(recorded)
        self._staged.append(recorded)
        return recorded

    async def commit(self) -> None:
        """Write down what was recorded since the last commit; on failure it stays staged for another try."""
        if self._staged:
            await uninterrupted(self._write(tuple(self._staged)))

    async def _write(self, batch: tuple[Recorded, ...]) -> None:
        await self.sink.append(self.id, batch)
        del self._staged[: len(batch)]

    def replay(self, recorded: Recorded) -> None:
        """Fold one event of the journal into the state."""
        self.events.append(recorded)
        self._fold(recorded.event, recorded.seq)

    def _fold(self, event: Event, seq: int) -> None:
        if not isinstance(event, NO_PROGRESS):
            self.progress = seq
        match event:
            case UserSaid() | Steered() | Coached():
                self._fold_said(event)
            case ModelAsked() | ModelReplied() | ModelFailed():
                self._fold_model(event, seq)
            case CallJudged() | ApprovalAsked() | ApprovalAnswered() | ToolStarted() | ToolFinished():
                self._fold_call(event)
            case BudgetExtended():
                self.max_iterations = event.max_iterations
            case Suspended():
                self.suspended = True
                self.spent.seconds = self.spent.seconds if event.seconds is None else event.seconds
            case TurnResumed():
                self.suspended = False
            case TurnEnded():
                self.ended = event
            case ModelRetried() | ToolRetried():
                pass
            case _:
                assert_never(event)

    def _fold_said(self, event: UserSaid | Steered | Coached) -> None:
        answered, self.awaiting_verdict = self.awaiting_verdict, False
        match event:
            case UserSaid():
                self.limits, self.max_iterations = event.limits, event.limits.max_iterations
                self.memory_ids = tuple(hit.id for hit in event.memories)
                self._say(with_memories(event), event.taint)
            case Steered():
                if answered and self.reply and self.reply.text:
                    self.superseded.append(self.reply.text)
                self._say(event.text, event.label)
            case Coached():
                self.coached[event.kind] = self.iterations
                self._say(event.text, Label.TRUSTED)

    def _fold_model(self, event: ModelAsked | ModelReplied | ModelFailed, seq: int) -> None:
        match event:
            case ModelAsked():
                self._reserve(event)
            case ModelReplied():
                self._replied(event, seq)
            case ModelFailed():
                self.failed = event

    def _say(self, text: str, label: Label) -> None:
        self.messages.append(Message(Role.USER, text, label=label))
        self.label = self.label.joined(label)

    def _reserve(self, event: ModelAsked) -> None:
        if self.asked:
            self.spent.reserved_tokens += self.asked.reserved_tokens
            self.spent.reserved_usd += self.asked.reserved_usd or 0.0
        self.asked = event

    def _replied(self, event: ModelReplied, seq: int) -> None:
        self.asked, self.reply = None, event
        self.spent.input_tokens += event.usage.input_tokens
        self.spent.output_tokens += event.usage.output_tokens
        self.spent.cached_tokens += event.usage.cached_tokens
        self.spent.usd += event.usage.usd or 0.0
        self.spent.usd_unknown |= event.usage.usd is None
        self.spent.seconds += event.seconds
        self.messages.append(Message(Role.ASSISTANT, event.text, event.calls, label=self.label, native=event.native))
        self.calls = [CallState(f"{seq}.{index}", call) for index, call in enumerate(event.calls)]
        self.iterations += event.counts
        self.awaiting_verdict = not event.calls

    def _fold_call(
        self, event: CallJudged | ApprovalAsked | ApprovalAnswered | ToolStarted | ToolFinished
    ) -> None:
        state = self.call(event.call_id)
        match event:
            case CallJudged():
                state.judged = event
            case ApprovalAsked():
                state.asked = event
            case ApprovalAnswered():
                state.answered = event
            case ToolStarted():
                state.starts += 1
            case ToolFinished():
                self._finished(state, event)

    def _finished(self, state: CallState, event: ToolFinished) -> None:
        state.result = event
        self.spent.seconds += event.seconds
        self.label = self.label.joined(event.label)
        self.offers.extend(name for name in event.offers if name not in self.offers)
        if not self.pending:
            self._settle()

    def _settle(self) -> None:
        """All results are in: the model sees them together, in the order it asked (B5)."""
        for state in self.calls:
            if state.result:
                self.past.append((state.result, state.call))
                self.messages.append(result_message(state.call, state.result))


def result_message(call: ToolCall, result: ToolFinished) -> Message:
    """What the model is shown of a result."""
    is_error = result.outcome.value != "ok"
    return Message(Role.TOOL, result.text, provider_id=call.provider_id, is_error=is_error, label=result.label)


def with_memories(said: UserSaid) -> str:
    """The user's words, after what memory had to say about them; the same bytes in every later prompt."""
    if not said.memories:
        return said.text
    lines = "\n".join(f"- {hit.text}" for hit in said.memories)
    return f"<memory>\n{lines}\n</memory>\n{said.text}"
