"""Events of tool calls: what the gate said, what a person said, what ran and what came out."""

from dataclasses import dataclass
from datetime import datetime

from daemon.core.label import Decision, Effect, Label
from daemon.core.outcomes import Answer, Outcome


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
    """A call waits for a person. The row beside it is the wait; `token_hash` is what an answer must match.

    The house asks in the same way when it needs a word itself; its questions are named, not numbered: "budget.1" (F2).
    `preview` is what a person is shown beside the arguments; `paths` are the places in the workspace that the call is about,
    where it is about nothing else: a standing permission may then be for places instead of for exactly this call.
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


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """The answer, consumed by the turn."""

    call_id: str
    answer: Answer
    by: str
    reason: str = ""


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
    """The one result of a call. `offers` are tools that the model may use from now on (find_tools); `repeat_of` is the call
    whose result this is, when the same thing was asked again and not run again. `owned`: nobody but the owner
    wrote what it shows.
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


Asked = ApprovalAsked | ApprovalAnswered
OfCall = CallJudged | ApprovalAsked | ApprovalAnswered | ToolStarted | ToolFinished
