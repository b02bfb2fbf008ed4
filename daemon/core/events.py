"""The facts of a turn: a closed union of frozen values.

A call's identity within its turn is `call_id`: "SEQ.INDEX" of the reply that asked for it. Providers' own ids are only echoed.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from daemon.core.label import Decision, Effect, Label, join_all
from daemon.core.messages import Native, ToolCall, Usage


class Stop(StrEnum):
    """Why a turn ended (DESIGN 2)."""

    DONE = "done"
    MAX_ITERATIONS = "max_iterations"
    OVER_BUDGET = "over_budget"
    DEADLINE = "deadline"
    STALLED = "stalled"
    REPEATING = "repeating"
    LOW_CONFIDENCE = "low_confidence"
    CANCELLED = "cancelled"
    CONDITION = "condition"
    FAILED = "failed"
    REJECTED = "rejected"


class Outcome(StrEnum):
    """How one tool call ended; every call ends in exactly one of these."""

    OK = "ok"
    ERROR = "error"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    NOT_RUN = "not_run"


class Answer(StrEnum):
    """What a person said to an approval; EXPIRED when nobody said anything in time."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    DENY = "deny"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a turn may use up: iterations, seconds of work, tokens in, USD. None is no limit of that kind."""

    max_iterations: int = 10
    max_iterations_cap: int = 25
    max_seconds: float = 600.0
    max_input_tokens: int | None = None
    max_usd: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A memory that the turn was given, by id, so that replay can give it again."""

    id: str
    text: str
    label: Label = Label.TRUSTED


@dataclass(frozen=True, slots=True)
class UserSaid:
    """The message that began the turn."""

    text: str
    sender: str
    input_id: str
    label: Label
    importance: float
    limits: Limits
    memories: tuple[MemoryHit, ...] = ()

    @property
    def taint(self) -> Label:
        """The label of all that the turn begins with: what was said, and what memory had to say about it (DESIGN 6)."""
        return join_all((self.label, *(hit.label for hit in self.memories)))


@dataclass(frozen=True, slots=True)
class Steered:
    """A message that came mid-turn and was folded in before the next model call (E7)."""

    text: str
    sender: str
    input_id: str
    label: Label
    importance: float


@dataclass(frozen=True, slots=True)
class TurnResumed:
    """A worker took the turn up again, after a restart or a wait."""

    why: str


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """Written before each model call: what replay needs, and the reservation that counts as spent until settled."""

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


@dataclass(frozen=True, slots=True)
class ModelRetried:
    """A call failed and another follows, off-budget: the same model after `wait_s`, or `next_model` (A7)."""

    provider: str
    model: str
    error: str
    message: str
    wait_s: float
    next_provider: str
    next_model: str


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """No model would answer; the turn ends FAILED."""

    error: str
    message: str


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """The reply, whole. A `closing` one makes no iteration, even when the model asks for tools that it was not given (A12)."""

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

    @property
    def counts(self) -> bool:
        """It makes an iteration."""
        return bool(self.calls) and not self.closing


@dataclass(frozen=True, slots=True)
class CallJudged:
    """What the gate said to a call, and why."""

    call_id: str
    tool: str
    effect: Effect
    decision: Decision
    reason: str


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A call waits for a person. The row beside it is the wait; `token_hash` is what an answer must match."""

    call_id: str
    tool: str
    arguments: str
    args_hash: str
    effect: Effect
    token_hash: str
    expires: datetime


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """The answer, consumed by the turn."""

    call_id: str
    answer: Answer
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The turn waits for a person; its time stands still at so many `seconds` of work (DESIGN 3)."""

    waiting_for: tuple[str, ...]
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """Written before the tool runs: from here on the effect may have happened."""

    call_id: str
    tool: str
    effect: Effect
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class ToolRetried:
    """A retryable failure of a tool, tried again off-budget (E6)."""

    call_id: str
    attempt: int
    error: str
    wait_s: float


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """The one result of a call. `offers` are tools that the model may use from now on (find_tools)."""

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


@dataclass(frozen=True, slots=True)
class BudgetExtended:
    """The model asked for more iterations and got them (A6)."""

    call_id: str
    reason: str
    max_iterations: int


@dataclass(frozen=True, slots=True)
class Coached:
    """A message from the house to the model: a diagnosis, a nudge, feedback of a verifier."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The end: why, in the machine's and in the person's words, and the text that is delivered."""

    reason: Stop
    detail: str
    reply: str


Event = (
    UserSaid
    | Steered
    | TurnResumed
    | ModelAsked
    | ModelRetried
    | ModelFailed
    | ModelReplied
    | CallJudged
    | ApprovalAsked
    | ApprovalAnswered
    | Suspended
    | ToolStarted
    | ToolRetried
    | ToolFinished
    | BudgetExtended
    | Coached
    | TurnEnded
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event with its place in the turn (1, 2, 3 ...) and the wall time it was recorded at."""

    seq: int
    at: datetime
    event: Event = field(compare=True)
