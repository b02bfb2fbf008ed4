"""The facts of a turn: a closed union of frozen values, of tool calls, of talking to models, and of
the turn as a whole.

A call's identity within its turn is `call_id`: "SEQ.INDEX" of the reply that asked for it.
Providers' own ids are only echoed.
"""

from dataclasses import field
from datetime import datetime

from daemon.core import value
from daemon.core.messages import MessageQueued, Native, Picture, RequestAdapted, ToolCall, Usage
from daemon.core.quoted import Spans
from daemon.core.trust import (
    ANOTHER_AGENT,
    OWNER_NAME,
    Answer,
    Decision,
    Effect,
    Label,
    Outcome,
    Sources,
    Stop,
    join_all,
)
from daemon.core.turn_spec import Intent, Limits, TurnSpec


@value
class CallJudged:
    """What the gate said, and why (BoundContent, Tool.identity); `owners`: only they may allow."""

    call_id: str
    tool: str
    effect: Effect
    decision: Decision
    reason: str
    binds: str = ""
    owners: bool = False
    identity: str = ""


@value
class ApprovalAsked:
    """A call waits for a person. The row beside it is the wait; an answer must match `token_hash`.

    The daemon asks for itself in the same way; its questions are named, not numbered: "budget.1"
    (F2). `preview` is what a person is shown beside the arguments; `paths` are the places that the
    call is about, where it is about nothing else: a permission may then be for places instead of
    for exactly this call; `binds` as in CallJudged; `owners`: only the owner may say yes.
    """

    call_id: str
    tool: str
    arguments: str
    args_hash: str
    effect: Effect
    token_hash: str
    expires: datetime
    preview: str = ""
    paths: tuple[str, ...] = ()
    binds: str = ""
    owners: bool = False


@value
class ApprovalAnswered:
    """The answer, consumed by the turn."""

    call_id: str
    answer: Answer
    by: str
    reason: str = ""


@value
class ToolStarted:
    """Written before the tool runs: from here on the effect may have happened."""

    call_id: str
    tool: str
    effect: Effect
    attempt: int = 1


@value
class ToolRetried:
    """A retryable failure of a tool, tried again off-budget (E6)."""

    call_id: str
    attempt: int
    error: str
    wait_s: float


@value
class ToolFinished:
    """The one result of a call. `offers` are tools that the model may use from now on (find_tools);
    `repeat_of` is the call whose result this is, if it was not run again. `owned`: only the owner
    wrote what it shows. `public`: it shows nothing of theirs. `records`: JSON of their records.
    `holds`: what files that it shows may hold; `shows`: those files.
    """

    call_id: str
    tool: str
    outcome: Outcome
    text: str
    effect: Effect
    importance: float
    label: Label = Label.TRUSTED
    exit_code: int | None = None
    error_class: str = ""
    offers: tuple[str, ...] = ()
    seconds: float = 0.0
    repeat_of: str = ""
    owned: bool = True
    public: bool = False
    records: str = ""
    holds: tuple[str, ...] = ()
    shows: str = ""
    pictures: tuple[Picture, ...] = ()


@value
class ModelAsked:
    """Written before each model call: what replay needs, and the reservation that counts as spent
    until settled.

    `reserved_usd` is None only in journals of before there was a worst case for unknown prices.
    `label`: of the words that describe the tools: those of a server's are a stranger's (A22).
    """

    iteration: int
    provider: str
    model: str
    prompt_hash: str
    tools_hash: str
    tools: tuple[str, ...]
    memory_hits: tuple[str, ...]
    clock: datetime
    seed: int
    reserved_tokens: int
    reserved_usd: float | None
    closing: bool = False
    label: Label = Label.TRUSTED


@value
class ModelRetried:
    """A call failed and another follows, off-budget: the same model after `wait_s`, or `next_model`
    (A7).
    """

    provider: str
    model: str
    error: str
    message: str
    wait_s: float
    next_provider: str
    next_model: str


@value
class ModelFailed:
    """No model would answer; the turn ends FAILED."""

    error: str
    message: str


@value
class ModelReplied:
    """The reply, whole. A `closing` one makes no iteration, even when the model asks for tools that
    it was not given (A12). `cycle` says that it makes one even without a call (B3). `charged_usd`
    is what budgets count: the worst case where the price is not known (F2). `recovered`: its calls
    stood in its text.
    """

    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    provider: str
    model: str
    finish: str
    importance: float
    seconds: float = 0.0
    closing: bool = False
    native: Native | None = None
    cycle: bool = False
    charged_usd: float | None = None
    recovered: bool = False

    @property
    def is_iteration(self) -> bool:
        """It makes an iteration."""
        return (self.cycle or bool(self.calls)) and not self.closing


@value
class Consulting:
    """A small question to a model beside the loop is about to be asked: a summary, a verdict."""

    purpose: str
    provider: str
    model: str
    reserved_tokens: int
    reserved_usd: float


@value
class Consulted:
    """What came of it; `error` where nothing did. It is charged like any other call (F2)."""

    purpose: str
    text: str
    usage: Usage
    provider: str
    model: str
    charged_usd: float = 0.0
    seconds: float = 0.0
    error: str = ""


@value
class MemoryHit:
    """A memory, by id. `owned`: the owner's word; `private`: not only what they typed."""

    id: str
    text: str
    label: Label = Label.TRUSTED
    owned: bool = True
    private: bool = True


@value
class UserSaid:
    """The message that began the turn, and what the turn is begun under. `intent`: None if unsure.

    `label` is that of the words themselves, `before` that of what the model is shown from earlier
    turns. `composed` words are no person's: another agent wrote them, or they hold what one said.
    `role`: of the person behind them: only an owner's words are the owner's. `files` tells of its
    files; `named`: with a stranger's words perhaps. `quoted`: parts that are nobody's order.
    `outcomes`: ends of messages to others, `settled` their ids. `private`: what it may tell.
    """

    text: str
    sender: str
    input_id: str
    label: Label
    importance: float
    limits: Limits
    memories: tuple[MemoryHit, ...] = ()
    terms: TurnSpec = field(default_factory=TurnSpec)
    intent: Intent | None = None
    before: Label = Label.TRUSTED
    composed: bool = False
    role: str = OWNER_NAME
    files: str = ""
    quoted: Spans = ()
    outcomes: str = ""
    settled: tuple[str, ...] = ()
    private: Sources = ()
    named: bool = False
    pictures: tuple[Picture, ...] = ()
    heard: str = ""
    zone: str = ""

    @property
    def full_text(self) -> str:
        """The words, and what is told of the files and of messages to others."""
        more = "".join(f"\n\n{one}" for one in (self.files, self.outcomes) if one)
        return f"{self.text}{more}".strip() if more else self.text

    @property
    def own_label(self) -> Label:
        """The label of the message as it is shown, with what memory had to say about it."""
        said = Label.UNTRUSTED if self.quoted or self.named else self.label
        return join_all([said, *[hit.label for hit in self.memories]])


@value
class Classified:
    """A cheap model said what kind of work this is, where the rules were not sure (E3)."""

    intent: Intent


@value
class Steered:
    """A message that came mid-turn and was folded in before the next model call (E7)."""

    text: str
    sender: str
    input_id: str
    label: Label
    importance: float
    role: str = OWNER_NAME
    quoted: Spans = ()


@value
class TurnResumed:
    """A worker took the turn up again. `label` and `private` are the conversation's by now."""

    why: str
    label: Label = Label.TRUSTED
    private: Sources = ()


@value
class Suspended:
    """The turn waits for a person; its clock stands at `seconds` of work (architecture.md)."""

    waiting_for: tuple[str, ...]
    seconds: float | None = None


@value
class BudgetExtended:
    """The model asked for more iterations and got them (A6)."""

    call_id: str
    reason: str
    max_iterations: int


@value
class BudgetRaised:
    """A person let the turn use up more: the new limits of it, and of the day where that was what
    stopped it (F2).
    """

    question: str
    limits: Limits
    day_tokens: int = 0
    day_usd: float = 0.0


@value
class IterationRefunded:
    """The last iteration was housekeeping only (a todo list, tools looked up): not counted (E4)."""

    call_ids: tuple[str, ...]


@value
class Coached:
    """A message from the daemon to the model: a diagnosis, a nudge, feedback of a verifier."""

    kind: str
    text: str


@value
class Todo:
    """One step of a plan. state: open, doing, done."""

    text: str
    state: str = "open"


@value
class TodosSet:
    """The model wrote its plan down, whole (E3)."""

    call_id: str
    items: tuple[Todo, ...]


@value
class HistoryCompressed:
    """What the model is shown got shorter; the journal did not (B4).

    Of the turns before, only the latest `kept_earlier` are still shown; of this turn, the first
    `dropped_own` messages after the opening one are not, but for what people said. `summary`, where
    there is one, stands in the place of all that and of the summary before it.
    """

    strategy: str
    tokens_before: int
    tokens_after: int
    kept_earlier: int
    dropped_own: int = 0
    summary: str = ""
    label: Label = Label.TRUSTED


@value
class Verified:
    """A final text was held against a criterion (E10, F6). `note` is added to the reply when it is
    delivered all the same.
    """

    check: str
    passed: bool
    feedback: str = ""
    note: str = ""


@value
class ChildSpawned:
    """Another agent was set to work; its message, its session and its row are written with this
    event, so it exists once.

    `key`: the call that asked for it, or the step of a composite. At most `max_chars` of what one
    in the background finds out begin the turn `report` in the parent's session.
    """

    key: str
    child: str
    session: str
    input_id: str
    agent: str
    task: str
    sender: str
    label: Label
    limits: Limits
    depth: int
    max_chars: int = 8000
    report: str = ""

    @property
    def background(self) -> bool:
        """Nobody waits for it."""
        return bool(self.report)


@value
class ChildReturned:
    """The step of a composite is done."""

    key: str
    child: str
    stop: str
    text: str
    label: Label
    private: Sources = (ANOTHER_AGENT,)


@value
class Alarm:
    """Something that the owner should look into (D6)."""

    kind: str
    text: str


@value
class TurnEnded:
    """The end: why, in the machine's and in the person's words, and the text that is delivered;
    `quiet`: it is not, for whoever said it has been told by other means.
    """

    reason: Stop
    detail: str
    reply: str
    quiet: bool = False


Event = (
    UserSaid
    | Classified
    | Steered
    | TurnResumed
    | ModelAsked
    | ModelRetried
    | ModelFailed
    | RequestAdapted
    | ModelReplied
    | Consulting
    | Consulted
    | CallJudged
    | ApprovalAsked
    | ApprovalAnswered
    | Suspended
    | ToolStarted
    | ToolRetried
    | ToolFinished
    | MessageQueued
    | BudgetExtended
    | BudgetRaised
    | IterationRefunded
    | Coached
    | TodosSet
    | HistoryCompressed
    | Verified
    | ChildSpawned
    | ChildReturned
    | Alarm
    | TurnEnded
)


@value
class RecordedEvent:
    """An event with its place in the turn (1, 2, 3 ...) and the wall time it was recorded at."""

    seq: int
    at: datetime
    event: Event
