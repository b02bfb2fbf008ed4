"""What the loop is put together from: each concern behind one or two methods, so that the loop stays on two pages (003)."""

from collections.abc import Sequence
from typing import Protocol

from daemon.agent.context.builder import TurnContext
from daemon.core.budget import Shortage
from daemon.core.events import (
    Alarm,
    ApprovalAsked,
    BudgetRaised,
    Event,
    HistoryCompressed,
    Stop,
    TurnEnded,
)
from daemon.core.provenance import TrustContext
from daemon.core.turn import Turn


class Dispatcher(Protocol):
    """Runs the tool calls of a turn."""

    async def run_pending(self, turn: Turn, setting: TrustContext) -> None:
        """Give every pending call its result, but for those that wait for a person."""
        ...

    def settle_cut(self, turn: Turn, why: str) -> None:
        """Record a result for every pending call of a turn that is cut: not run, or outcome unknown."""
        ...


class Preparing(Protocol):
    """What comes before a model call."""

    def is_due(self, turn: Turn, scene: TurnContext) -> bool:
        """Something comes before the next call."""
        ...

    async def prepare(self, turn: Turn, scene: TurnContext) -> None:
        """Class of the message, guidance, compression: recorded where they are due."""
        ...

    def shrink(self, turn: Turn, scene: TurnContext) -> HistoryCompressed | None:
        """A shorter history for a provider that found it too long; None when that was tried, or nothing is left to drop."""
        ...


class Verdicts(Protocol):
    """Holds a final text against what was asked for (E10, F6, D2)."""

    async def check(
        self, turn: Turn, scene: TurnContext, end: TurnEnded | None = None
    ) -> Sequence[Event]:
        """What follows: an end, a correction for the model, or a question to a person. Never nothing. `end` is one that was
        declared, or that other agents came to; without it the reply itself is the end.
        """
        ...

    def annotate(self, turn: Turn, end: TurnEnded) -> TurnEnded:
        """The end with what is to be known of its text: claims that nothing shows, checks that were not passed."""
        ...


class Extending(Protocol):
    """Asks people for more budget (F2)."""

    def build_question(
        self, turn: Turn, scene: TurnContext, short: Shortage
    ) -> ApprovalAsked | None:
        """The question, where somebody may be asked and has not said no yet."""
        ...

    def apply_answer(self, turn: Turn, scene: TurnContext) -> BudgetRaised | None:
        """What a yes means for the limits; the accounts know it at once."""
        ...


class Crew(Protocol):
    """The agents of a composite (B11)."""

    async def advance(self, turn: Turn, scene: TurnContext) -> Sequence[Event]:
        """Set the next ones to work and wait for them; nothing more to do until then, or the end."""
        ...

    def partial_answers(self, turn: Turn) -> str:
        """The answers there are, when it is cut."""
        ...


class Watch(Protocol):
    """Counts how turns end (D6)."""

    def record_stop(self, agent: str, reason: Stop) -> Alarm | None:
        """Note it; an alarm when this agent runs out of its budget too often."""
        ...
