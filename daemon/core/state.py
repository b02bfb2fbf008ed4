"""The parts of a turn's state: a call, a question of the house, a child, what was spent."""

from collections.abc import Sequence
from dataclasses import dataclass

from daemon.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallJudged,
    ChildReturned,
    ChildSpawned,
    Consulting,
    ModelAsked,
    ToolFinished,
)
from daemon.core.label import Effect
from daemon.core.messages import ToolCall, Usage
from daemon.core.outcomes import YES, Outcome


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
        return self.answered is not None and self.answered.answer in YES


@dataclass(slots=True)
class Question:
    """Something that the house itself asked a person: for more budget, for a look at the answer."""

    asked: ApprovalAsked
    answered: ApprovalAnswered | None = None
    settled: bool = False

    @property
    def agreed(self) -> bool:
        """The person said yes."""
        return self.answered is not None and self.answered.answer in YES


@dataclass(slots=True)
class Child:
    """An agent that this turn set to work, and what it gave back."""

    spawned: ChildSpawned
    returned: ChildReturned | None = None


@dataclass(slots=True)
class Spent:
    """What the turn itself has used up so far. `reserved_*` belong to calls that were asked and never settled.

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

    def lose(self, asked: ModelAsked | Consulting | None) -> None:
        """A call was asked and nobody will ever say what it cost: its reservation counts as spent."""
        if asked:
            self.reserved_tokens += asked.reserved_tokens
            self.reserved_usd += asked.reserved_usd or 0.0


def seconds_of(results: Sequence[ToolFinished]) -> float:
    """How long the calls of one reply took in all: effects one after the other, what only reads side by side."""
    reads = [result.seconds for result in results if result.effect is Effect.READ]
    return sum(result.seconds for result in results if result.effect is not Effect.READ) + max(reads, default=0.0)


def failed(result: ToolFinished) -> bool:
    """The model is told that it did not work."""
    return result.outcome is not Outcome.OK
