"""A turn: one message being answered. Its state is a fold over its events, kept up incrementally (DESIGN 1)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

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
    OfWork,
    Recorded,
    Steered,
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
from daemon.core.events_calls import OfCall
from daemon.core.label import Label
from daemon.core.messages import Message, Role, ToolCall
from daemon.core.shown import of_people, result_message, summary_message, with_memories
from daemon.core.sink import EventSink
from daemon.core.state import CallState, Child, Question, Spent, seconds_of
from daemon.core.terms import Intent, Limits, Terms
from daemon.core.waiting import uninterrupted

NO_PROGRESS = (ModelAsked, ModelRetried, Consulting, ToolStarted, ToolRetried, TurnResumed)
PLANNED = (Intent.MULTI_STEP, Intent.COMPLEX)
TODO = "todo"


@dataclass(slots=True)
class Turn:
    """One inbound message until its reply. `record` believes an event at once; `commit` writes down what was recorded.

    Commit before anything leaves the process: a model call, a tool start, a reply. `progress` is the seq of the latest event
    that brought the turn further: asking again after a crash does not. `coached` says after which iteration each kind came last.
    `kept_earlier` and `summary` are what compression left of the turns before; None is all of them. `news`: the seq at which
    something last reached the turn from outside. `label` joins all that the model was shown, the words about its tools included.
    """

    id: str
    session: str
    sink: EventSink
    parent: str = ""
    events: list[Recorded] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    calls: list[CallState] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    terms: Terms = field(default_factory=Terms)
    intent: Intent | None = None
    max_iterations: int = 10
    iterations: int = 0
    refunds: int = 0
    label: Label = Label.TRUSTED
    spent: Spent = field(default_factory=Spent)
    asked: ModelAsked | None = None
    consulting: Consulting | None = None
    consulted: list[Consulted] = field(default_factory=list)
    reply: ModelReplied | None = None
    superseded: list[str] = field(default_factory=list)
    awaiting_verdict: bool = False
    failed: ModelFailed | None = None
    coached: dict[str, int] = field(default_factory=dict)
    verified: list[Verified] = field(default_factory=list)
    questions: dict[str, Question] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)
    todos: tuple[Todo, ...] = ()
    compressed: list[HistoryCompressed] = field(default_factory=list)
    kept_earlier: int | None = None
    summary: Message | None = None
    offers: list[str] = field(default_factory=list)
    past: list[tuple[ToolFinished, ToolCall]] = field(default_factory=list)
    progress: int = 0
    news: int = 0
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
    def waiting(self) -> tuple[str, ...]:
        """The calls and questions that a person has not answered yet."""
        asked = [name for name, question in self.questions.items() if not question.answered]
        return (*(state.call_id for state in self.pending if state.waits), *asked)

    @property
    def in_question(self) -> bool:
        """The house has asked a person something and has no answer yet."""
        return any(question.answered is None for question in self.questions.values())

    @property
    def answer(self) -> str:
        """What the model has to say to the user: its latest text, after any that was complete when the user went on."""
        return "\n\n".join(text for text in (*self.superseded, self.reply.text if self.reply else "") if text)

    def call(self, call_id: str) -> CallState:
        """The call of the open reply with this id. Raises KeyError."""
        return {state.call_id: state for state in self.calls}[call_id]

    def record(self, event: Event, at: datetime) -> Recorded:
        """Take the event in, to be written at the next commit."""
        self.replay(recorded := Recorded(self.seq + 1, at, event))
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
            case ModelAsked() | ModelReplied() | ModelFailed() | Consulting() | Consulted():
                self._fold_model(event, seq)
            case CallJudged() | ApprovalAsked() | ApprovalAnswered() | ToolStarted() | ToolFinished():
                self._fold_call(event)
            case BudgetExtended() | BudgetRaised() | IterationRefunded():
                self._fold_budget(event)
            case Classified() | ChildSpawned() | ChildReturned() | TodosSet() | HistoryCompressed() | Verified():
                self._fold_work(event)
            case Suspended() | TurnResumed() | TurnEnded():
                self._fold_stage(event)
            case ModelRetried() | ToolRetried() | Alarm():
                pass
            case _:
                assert_never(event)

    def _fold_stage(self, event: Suspended | TurnResumed | TurnEnded) -> None:
        self.suspended, self.news = isinstance(event, Suspended), self.seq
        if isinstance(event, TurnResumed):
            self.label = self.label.joined(event.label)
        elif isinstance(event, TurnEnded):
            self.ended = event
        elif event.seconds is not None:
            self.spent.seconds = event.seconds

    def _fold_said(self, event: UserSaid | Steered | Coached) -> None:
        answered, self.awaiting_verdict = self.awaiting_verdict, False
        match event:
            case UserSaid():
                self.limits, self.terms, self.max_iterations = event.limits, event.terms, event.limits.max_iterations
                self.memory_ids = tuple(hit.id for hit in event.memories)
                self._say(with_memories(event), event.own, event.before)
                self._classify(event.intent)
            case Steered():
                self.news = self.seq
                if answered and self.reply and self.reply.text:
                    self.superseded.append(self.reply.text)
                self._say(event.text, event.label)
            case Coached():
                self.coached[event.kind] = self.iterations
                self._say(event.text, Label.TRUSTED)

    def _classify(self, intent: Intent | None) -> None:
        self.intent = intent
        if intent in PLANNED and TODO not in self.offers:
            self.offers.append(TODO)

    def _fold_model(self, event: ModelAsked | ModelReplied | ModelFailed | Consulting | Consulted, seq: int) -> None:
        match event:
            case ModelAsked():
                self.spent.lose(self.asked)
                self.asked, self.label = event, self.label.joined(event.label)
            case Consulting():
                self.spent.lose(self.consulting)
                self.consulting = event
            case Consulted():
                self.consulting = None
                self.consulted.append(event)
                self.spent.add(event.usage, event.charged_usd, event.seconds)
            case ModelReplied():
                self._replied(event, seq)
            case ModelFailed():
                self.failed = event

    def _fold_budget(self, event: BudgetExtended | BudgetRaised | IterationRefunded) -> None:
        match event:
            case BudgetExtended():
                self.max_iterations = event.max_iterations
            case BudgetRaised():
                self.limits, self.questions[event.question].settled = event.limits, True
            case IterationRefunded():
                self.iterations, self.refunds = self.iterations - 1, self.refunds + 1

    def _fold_work(self, event: OfWork) -> None:
        match event:
            case Classified():
                self._classify(event.intent)
            case ChildSpawned():
                self.children[event.key] = Child(event)
                self.news = self.seq
            case ChildReturned():
                self.children[event.key].returned = event
                self.label = self.label.joined(event.label)
            case TodosSet():
                self.todos = event.items
            case Verified():
                self.verified.append(event)
            case HistoryCompressed():
                self._compress(event)

    def _compress(self, event: HistoryCompressed) -> None:
        self.compressed.append(event)
        self.kept_earlier = event.kept_earlier
        self.messages[1 : 1 + event.dropped_own] = of_people(self.messages[1 : 1 + event.dropped_own], self.events)
        self.summary = summary_message(event) if event.summary else self.summary

    def _say(self, text: str, label: Label, before: Label = Label.TRUSTED) -> None:
        self.messages.append(Message(Role.USER, text, label=label))
        self.label = self.label.joined(label).joined(before)

    def _replied(self, event: ModelReplied, seq: int) -> None:
        self.asked, self.reply = None, event
        self.spent.add(event.usage, event.charged, event.seconds)
        self.messages.append(Message(Role.ASSISTANT, event.text, event.calls, label=self.label, native=event.native))
        self.calls = [CallState(f"{seq}.{index}", call) for index, call in enumerate(event.calls)]
        self.iterations += event.counts
        self.awaiting_verdict = not event.calls

    def _fold_call(self, event: OfCall) -> None:
        if event.call_id[0].isdigit():
            self._fold_of(self.call(event.call_id), event)
        elif isinstance(event, ApprovalAsked):
            self.questions[event.call_id] = Question(event)
        elif isinstance(event, ApprovalAnswered):
            self.questions[event.call_id].answered = event

    def _fold_of(self, state: CallState, event: OfCall) -> None:
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
        self.label = self.label.joined(event.label)
        self.offers.extend(name for name in event.offers if name not in self.offers)
        if not self.pending:
            self._settle()

    def _settle(self) -> None:
        """All results are in: the model sees them together, in the order it asked (B5)."""
        done = [(state.result, state.call) for state in self.calls if state.result]
        self.spent.seconds += seconds_of([result for result, _ in done])
        self.past.extend(done)
        self.messages.extend(result_message(call, result) for result, call in done)
