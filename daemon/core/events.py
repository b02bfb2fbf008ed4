"""The facts of a turn: a closed union of frozen values.

A call's identity within its turn is `call_id`: "SEQ.INDEX" of the reply that asked for it. Providers' own ids are only echoed.
"""

from dataclasses import dataclass, field
from datetime import datetime

from daemon.core.events_calls import ApprovalAnswered, ApprovalAsked, CallJudged, ToolFinished, ToolRetried, ToolStarted
from daemon.core.events_model import Consulted, Consulting, ModelAsked, ModelFailed, ModelReplied, ModelRetried
from daemon.core.label import Label, join_all
from daemon.core.outcomes import Answer, Outcome, Stop
from daemon.core.roles import OWNER_NAME
from daemon.core.terms import Intent, Limits, Terms

__all__ = [
    "Answer",
    "ApprovalAnswered",
    "ApprovalAsked",
    "CallJudged",
    "Consulted",
    "Consulting",
    "Limits",
    "ModelAsked",
    "ModelFailed",
    "ModelReplied",
    "ModelRetried",
    "Outcome",
    "Stop",
    "ToolFinished",
    "ToolRetried",
    "ToolStarted",
]


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A memory that the turn was given, by id, so that replay can give it again. `owned`: the owner's, not somebody else's."""

    id: str
    text: str
    label: Label = Label.TRUSTED
    owned: bool = True


@dataclass(frozen=True, slots=True)
class UserSaid:
    """The message that began the turn, and what the turn is begun under. `intent` is None where the rules were not sure (E3).

    `label` is that of the words themselves, `before` that of what the model is shown from earlier turns. `composed` words are no
    person's: another agent wrote them, or they hold what one said. `role` is what the person behind them is to the house: only an
    owner's words are the owner's. `files` tells of the files that came with it: a stranger may have named them.
    """

    text: str
    sender: str
    input_id: str
    label: Label
    importance: float
    limits: Limits
    memories: tuple[MemoryHit, ...] = ()
    terms: Terms = field(default_factory=Terms)
    intent: Intent | None = None
    before: Label = Label.TRUSTED
    composed: bool = False
    role: str = OWNER_NAME
    files: str = ""

    @property
    def whole(self) -> str:
        """The words, and what is told of the files."""
        return f"{self.text}\n\n{self.files}".strip() if self.files else self.text

    @property
    def own(self) -> Label:
        """The label of the message as it is shown: what was said, and what memory had to say about it."""
        return join_all((self.label, *(hit.label for hit in self.memories)))

    @property
    def taint(self) -> Label:
        """The label of all that the turn begins with, earlier turns included (DESIGN 6)."""
        return self.own.joined(self.before)


@dataclass(frozen=True, slots=True)
class Classified:
    """A cheap model said what kind of work this is, where the rules were not sure (E3)."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class Steered:
    """A message that came mid-turn and was folded in before the next model call (E7)."""

    text: str
    sender: str
    input_id: str
    label: Label
    importance: float
    role: str = OWNER_NAME


@dataclass(frozen=True, slots=True)
class TurnResumed:
    """A worker took the turn up again, after a restart or a wait. `label` is that of the conversation as it is shown from now on:
    it may have gone on meanwhile.
    """

    why: str
    label: Label = Label.TRUSTED


@dataclass(frozen=True, slots=True)
class Suspended:
    """The turn waits for a person; its time stands still at so many `seconds` of work (DESIGN 3)."""

    waiting_for: tuple[str, ...]
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class BudgetExtended:
    """The model asked for more iterations and got them (A6)."""

    call_id: str
    reason: str
    max_iterations: int


@dataclass(frozen=True, slots=True)
class BudgetRaised:
    """A person let the turn use up more: the new limits of it, and of the day where that was what stopped it (F2)."""

    question: str
    limits: Limits
    day_tokens: int = 0
    day_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class IterationRefunded:
    """The last iteration was housekeeping only (a todo list kept, tools looked up): it does not count (E4)."""

    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Coached:
    """A message from the house to the model: a diagnosis, a nudge, feedback of a verifier."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Todo:
    """One step of a plan. state: open, doing, done."""

    text: str
    state: str = "open"


@dataclass(frozen=True, slots=True)
class TodosSet:
    """The model wrote its plan down, whole (E3)."""

    call_id: str
    items: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class HistoryCompressed:
    """What the model is shown got shorter; the journal did not (B4).

    Of the turns before, only the latest `kept_earlier` are still shown; of this turn, the first `dropped_own` messages after the
    opening one are not, but for what people said. `summary`, where there is one, stands in the place of all that and of the
    summary before it.
    """

    strategy: str
    tokens_before: int
    tokens_after: int
    kept_earlier: int
    dropped_own: int = 0
    summary: str = ""
    label: Label = Label.TRUSTED


@dataclass(frozen=True, slots=True)
class Verified:
    """A final text was held against a criterion (E10, F6). `note` is added to the reply when it is delivered all the same."""

    check: str
    passed: bool
    feedback: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ChildSpawned:
    """Another agent was set to work; its message, its session and its row are written with this event, so it exists once.

    `key` is the call that asked for it, or the step of a composite. What a background one finds out is told to the parent's
    session in a message that begins the turn `report`; at most `max_chars` of it.
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


@dataclass(frozen=True, slots=True)
class ChildReturned:
    """The step of a composite is done."""

    key: str
    child: str
    stop: str
    text: str
    label: Label


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that the owner should look into: an agent that runs out of its budget again and again (D6)."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The end: why, in the machine's and in the person's words, and the text that is delivered; `quiet`: it is not, for whoever
    said it has been told by other means.
    """

    reason: Stop
    detail: str
    reply: str
    quiet: bool = False


OfWork = Classified | ChildSpawned | ChildReturned | TodosSet | HistoryCompressed | Verified
Event = (
    UserSaid
    | Classified
    | Steered
    | TurnResumed
    | ModelAsked
    | ModelRetried
    | ModelFailed
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


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event with its place in the turn (1, 2, 3 ...) and the wall time it was recorded at."""

    seq: int
    at: datetime
    event: Event = field(compare=True)
