"""A turn: one message being answered. Its state is a fold over its events, kept up incrementally
(architecture.md).
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from daemon.core.events import (
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
    RecordedEvent,
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
from daemon.core.labels import LABELLED, find_label, find_private
from daemon.core.messages import Message, MessageRole, RequestAdapted, ToolCall, Usage
from daemon.core.trust import (
    APPROVALS,
    ASK_TOOL,
    OWNER_NAME,
    Answer,
    Effect,
    Label,
    Outcome,
    Sources,
    join_all,
    join_sources,
)
from daemon.core.turn_spec import Intent, Limits, TurnSpec

PICTURES = "[The pictures of these results: {}]"


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
    def is_waiting(self) -> bool:
        """A person has been asked and has not answered."""
        return self.asked is not None and self.answered is None and self.result is None

    @property
    def asked_back(self) -> bool:
        """It had begun when it needed an answer, and goes on with that."""
        return self.asked is not None and self.asked.tool == ASK_TOOL != self.call.name

    @property
    def approved(self) -> bool:
        """A person said yes to exactly this call."""
        return self.answered is not None and self.answered.answer in APPROVALS


@dataclass(slots=True)
class SystemQuestion:
    """What the daemon itself asked a person: for more budget, for a look at the answer."""

    asked: ApprovalAsked
    answered: ApprovalAnswered | None = None
    settled: bool = False

    @property
    def agreed(self) -> bool:
        """The person said yes."""
        return self.answered is not None and self.answered.answer in APPROVALS


@dataclass(slots=True)
class ChildTurn:
    """An agent that this turn set to work, and what it gave back."""

    spawned: ChildSpawned
    returned: ChildReturned | None = None


@dataclass(slots=True)
class TurnUsage:
    """What the turn itself has used up so far. `reserved_*` belong to calls that were asked and
    never settled.

    `usd` is what is known of the price; `charged_usd` is what budgets count.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    usd_unknown: bool = False
    charged_usd: float = 0.0
    reserved_tokens: int = 0
    reserved_usd: float = 0.0
    seconds: float = 0.0

    def add(self, usage: Usage, charged_usd: float, seconds: float) -> None:
        """A model call was settled."""
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cached_tokens += usage.cached_tokens
        self.usd += usage.usd or 0.0
        self.usd_unknown |= usage.usd is None
        self.charged_usd += charged_usd
        self.seconds += seconds

    def add_reservation(self, asked: ModelAsked | Consulting) -> None:
        """A call was cut off: its reservation counts as spent."""
        self.reserved_tokens += asked.reserved_tokens
        self.reserved_usd += asked.reserved_usd or 0.0


def build_summary_message(event: HistoryCompressed) -> Message:
    """What stands in the place of what is shown no more."""
    return Message(MessageRole.USER, f"<summary>\n{event.summary}\n</summary>", label=event.label)


def select_user_messages(
    messages: Iterable[Message], recorded: Sequence[RecordedEvent]
) -> list[Message]:
    """Of messages that are to be shown no more, those of people: they are never lost. What the
    daemon said may go.
    """
    said = {entry.event.text for entry in recorded if isinstance(entry.event, Steered)}
    return [
        message for message in messages if message.role is MessageRole.USER and message.text in said
    ]


def render_plan(todos: Sequence[Todo]) -> str:
    """A plan as the model and the user are shown it (E3)."""
    marks = {"done": "x", "doing": ">"}
    return "\n".join(f"[{marks.get(item.state, ' ')}] {item.text}" for item in todos)


def append_plan(messages: tuple[Message, ...], todos: Sequence[Todo]) -> tuple[Message, ...]:
    """The conversation, with the plan behind it: never in the middle, so that what was sent before
    stays as it was.
    """
    if not todos or all(item.state == "done" for item in todos):
        return messages
    text = f"<todo>\n{render_plan(todos)}\n</todo>"
    last = messages[-1]
    if last.role is MessageRole.USER:
        return (
            *messages[:-1],
            Message(MessageRole.USER, f"{last.text}\n\n{text}", label=last.label),
        )
    return (*messages, Message(MessageRole.USER, text))


class EventSink(Protocol):
    """Where a turn's events are written, in one transaction, before anything follows from them."""

    async def append(
        self, turn_id: str, recorded: Sequence[RecordedEvent]
    ) -> asyncio.CancelledError | None:
        """Durable when it returns; a cancellation that came meanwhile is returned. Raises Fenced
        when another worker owns the session, StoreUnavailable when the disk fails.
        """
        ...


FROM_OUTSIDE = (Steered, ChildSpawned, Suspended, TurnResumed, TurnEnded)
NO_PROGRESS = (
    ModelAsked,
    ModelRetried,
    RequestAdapted,
    Consulting,
    ToolStarted,
    ToolRetried,
    TurnResumed,
)
PLANNED_INTENTS = (Intent.MULTI_STEP, Intent.COMPLEX)
TODO_TOOL, PLAN_TOOL = "todo", "propose_plan"
Done = list[tuple[ToolFinished, ToolCall]]


@dataclass(slots=True)
class Turn:
    """One inbound message until its reply. `record` believes an event at once; `commit` writes down
    what was recorded.

    Commit before anything leaves the process: a model call, a tool start, a reply. `progress` is
    the seq of the latest event that brought the turn further: asking again after a crash does not.
    `coached` says after which iteration each kind came last. `kept_earlier` and `summary` are what
    compression left of the turns before; None is all of them. `replies`: those since the user last
    spoke, each with the results of its calls. `news`: the seq at which something last reached the
    turn from outside. `label` joins all that the model was shown, the words about its tools
    included; `private` what of the owner's own it was shown, in earlier turns, too. `roles`: of all
    who have spoken in it. `assumes`: nobody answered its last question, and it goes on (H1).
    `tools`: identities of servers' tools that it called: a name means one tool to its end (D7).
    """

    id: str
    session: str
    sink: EventSink
    parent: str = ""
    seq: int = 0
    events: list[RecordedEvent] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    calls: list[CallState] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    spec: TurnSpec = field(default_factory=TurnSpec)
    intent: Intent | None = None
    max_iterations: int = 10
    iterations: int = 0
    refunds: int = 0
    label: Label = Label.TRUSTED
    private: Sources = ()
    roles: set[str] = field(default_factory=set)
    assumes: bool = False
    spent: TurnUsage = field(default_factory=TurnUsage)
    open_request: ModelAsked | None = None
    adapted: RequestAdapted | None = None
    open_consultation: Consulting | None = None
    consultations: list[Consulted] = field(default_factory=list)
    reply: ModelReplied | None = None
    superseded: list[str] = field(default_factory=list)
    awaiting_verdict: bool = False
    failed: ModelFailed | None = None
    coached: dict[str, int] = field(default_factory=dict)
    verified: list[Verified] = field(default_factory=list)
    questions: dict[str, SystemQuestion] = field(default_factory=dict)
    children: dict[str, ChildTurn] = field(default_factory=dict)
    todos: tuple[Todo, ...] = ()
    compressed: list[HistoryCompressed] = field(default_factory=list)
    kept_earlier: int | None = None
    summary: Message | None = None
    offered_tools: list[str] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)
    settled_calls: Done = field(default_factory=list)
    replies: list[tuple[ModelReplied, Done]] = field(default_factory=list)
    progress: int = 0
    last_input_seq: int = 0
    memory_ids: tuple[str, ...] = ()
    heard: str = ""
    suspended: bool = False
    ended: TurnEnded | None = None
    _staged: list[RecordedEvent] = field(default_factory=list)

    @property
    def zone(self) -> str:
        """The time zone of who began it; "" for the owner's (G5)."""
        begun = self.events[0].event if self.events else None
        return begun.zone if isinstance(begun, UserSaid) else ""

    @property
    def is_owners(self) -> bool:
        """Nobody but the owner has said what to do in it; of a sub-agent, in what it works for."""
        return self.roles <= {OWNER_NAME}

    @property
    def pending(self) -> list[CallState]:
        """Calls of the latest reply that have no result yet, in the order they were asked for."""
        return [state for state in self.calls if state.result is None]

    @property
    def waiting(self) -> tuple[str, ...]:
        """The calls and questions that a person has not answered yet."""
        asked = [name for name, question in self.questions.items() if not question.answered]
        return (*(state.call_id for state in self.pending if state.is_waiting), *asked)

    @property
    def answer(self) -> str:
        """What the model has to say to the user: its latest text, after any that was complete when
        the user went on.
        """
        return "\n\n".join(
            text for text in (*self.superseded, self.reply.text if self.reply else "") if text
        )

    def call(self, call_id: str) -> CallState:
        """The call of the open reply with this id. Raises KeyError."""
        return {state.call_id: state for state in self.calls}[call_id]

    def record(self, event: Event, at: datetime) -> RecordedEvent:
        """Take the event in, to be written at the next commit."""
        self.replay(recorded := RecordedEvent(self.seq + 1, at, event))
        self._staged.append(recorded)
        return recorded

    async def commit(self) -> None:
        """Write down what was recorded since the last commit, even when cancelled meanwhile; on
        failure it stays staged for another try.
        """
        if batch := tuple(self._staged):
            cancelled = await self.sink.append(self.id, batch)
            del self._staged[: len(batch)]
            if cancelled:
                raise cancelled

    def replay(self, recorded: RecordedEvent) -> None:
        """Fold one event of the journal into the state."""
        event = recorded.event
        self.events.append(recorded)
        self.seq = recorded.seq
        if not isinstance(event, NO_PROGRESS):
            self.progress = recorded.seq
        if isinstance(event, FROM_OUTSIDE):
            self.last_input_seq = recorded.seq
        if isinstance(event, LABELLED):
            if find_label(event) is Label.UNTRUSTED:
                self.label = Label.UNTRUSTED
            if shown := find_private(event):
                self.private = join_sources((self.private, shown))
        if isinstance(event, UserSaid | Classified):
            self.intent = event.intent
            if self.intent in PLANNED_INTENTS:
                self._offer_tools(TODO_TOOL, ASK_TOOL)
        self._fold(event)

    def _fold(self, event: Event) -> None:  # noqa: C901, PLR0912, PLR0915  one flat match
        match event:
            case ModelAsked():
                if self.open_request:
                    self.spent.add_reservation(self.open_request)
                self.open_request = event
            case ModelReplied(text=text, calls=calls):
                self.open_request, self.reply = None, event
                charged = event.charged_usd
                charged = (event.usage.usd or 0.0) if charged is None else charged
                self.spent.add(event.usage, charged, event.seconds)
                self.messages.append(
                    Message(
                        MessageRole.ASSISTANT, text, calls, label=self.label, native=event.native
                    )
                )
                self.calls = [
                    CallState(f"{self.seq}.{index}", call) for index, call in enumerate(calls)
                ]
                self.replies.append((event, []))
                self.iterations += event.is_iteration
                self.awaiting_verdict = not calls
            case CallJudged():
                self.call(event.call_id).judged = event
                if event.identity:
                    self.tools.setdefault(event.tool, event.identity)
            case ToolStarted():
                self.call(event.call_id).starts += 1
            case ToolFinished():
                self.call(event.call_id).result = event
                if event.offers:
                    self._offer_tools(*event.offers)
                if event.tool == PLAN_TOOL and event.outcome is Outcome.OK:
                    self.spec = replace(self.spec, plan_first=False)
                if not self.pending:
                    self._take_results()
            case UserSaid():
                self.roles.add(event.role)
                self.awaiting_verdict = False
                self.limits, self.spec = event.limits, event.terms
                self.max_iterations = event.limits.max_iterations
                if self.spec.plan_first and not self.parent:
                    self._offer_tools(PLAN_TOOL)
                self.memory_ids = tuple(hit.id for hit in event.memories)
                self.heard = event.heard
                text = event.full_text
                if event.memories:  # the same bytes in every later prompt
                    lines = "\n".join(f"- {hit.text}" for hit in event.memories)
                    text = f"<memory>\n{lines}\n</memory>\n{text}"
                self.messages.append(
                    Message(MessageRole.USER, text, label=event.own_label, pictures=event.pictures)
                )
            case Steered(text=text):
                self.roles.add(event.role)
                self.assumes = False
                if self.awaiting_verdict and self.reply and self.reply.text:
                    self.superseded.append(self.reply.text)
                self.awaiting_verdict = False
                self.replies.clear()
                self.messages.append(Message(MessageRole.USER, text, label=find_label(event)))
            case Coached(kind, text):
                self.awaiting_verdict = False
                self.coached[kind] = self.iterations
                self.messages.append(Message(MessageRole.USER, text))
            case ModelFailed():
                self.failed = event
            case RequestAdapted():  # what is refused costs nothing
                self.open_request, self.adapted = None, event
            case Consulting():
                if self.open_consultation:
                    self.spent.add_reservation(self.open_consultation)
                self.open_consultation = event
            case Consulted():
                self.open_consultation = None
                self.consultations.append(event)
                self.spent.add(event.usage, event.charged_usd, event.seconds)
            case ApprovalAsked(call_id=name):
                if name[0].isdigit():
                    state = self.call(name)
                    state.asked, state.answered = event, None  # perhaps asked once more
                else:
                    self.questions[name] = SystemQuestion(event)
            case ApprovalAnswered(call_id=name):
                asked = self.call(name) if name[0].isdigit() else self.questions[name]
                asked.answered = event
                is_word = isinstance(asked, CallState) and asked.call.name == ASK_TOOL
                if is_word and event.answer is not Answer.DENY:  # who skips it says nothing
                    self.assumes = event.answer is Answer.EXPIRED
            case BudgetExtended():
                self.max_iterations = event.max_iterations
            case BudgetRaised():
                self.limits, self.questions[event.question].settled = event.limits, True
            case IterationRefunded():
                self.iterations, self.refunds = self.iterations - 1, self.refunds + 1
            case ChildSpawned():
                self.children[event.key] = ChildTurn(event)
            case ChildReturned():
                self.children[event.key].returned = event
            case TodosSet():
                self.todos = event.items
            case Verified():
                self.verified.append(event)
            case HistoryCompressed():
                self.compressed.append(event)
                self.kept_earlier = event.kept_earlier
                own = slice(1, 1 + event.dropped_own)
                self.messages[own] = select_user_messages(self.messages[own], self.events)
                self.summary = build_summary_message(event) if event.summary else self.summary
            case Suspended(seconds=seconds):
                self.suspended = True
                self.spent.seconds = self.spent.seconds if seconds is None else seconds
            case TurnResumed():
                self.suspended = False
            case TurnEnded():
                self.suspended, self.ended = False, event

    def _offer_tools(self, *names: str) -> None:
        self.offered_tools += [name for name in names if name not in self.offered_tools]

    def _take_results(self) -> None:
        """Once all results are in, the model sees them together, in the order it asked (B5)."""
        done = [(state.result, state.call) for state in self.calls if state.result]
        reads = [result.seconds for result, _ in done if result.effect is Effect.READ]
        others = [result.seconds for result, _ in done if result.effect is not Effect.READ]
        self.spent.seconds += sum(others) + max(reads, default=0.0)  # reads run side by side
        self.settled_calls += done
        for _, results in self.replies[-1:]:
            results += done
        self.messages += [
            Message(
                MessageRole.TOOL,
                result.text,
                provider_id=call.provider_id,
                is_error=result.outcome is not Outcome.OK,
                label=result.label,
            )
            for result, call in done
        ]
        if shown := [result for result, _ in done if result.pictures]:
            label = join_all(result.label for result in shown)
            pictures = tuple(picture for result in shown for picture in result.pictures)
            text = PICTURES.format(", ".join(dict.fromkeys(result.tool for result in shown)))
            self.messages.append(Message(MessageRole.USER, text, label=label, pictures=pictures))
