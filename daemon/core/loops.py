"""A loop: one agent at one task, attempt after attempt, until its criterion holds (C1). Its row, and what is named after it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from daemon.core.label import Label
from daemon.core.roles import OWNER_NAME

Criterion = Literal["max_iterations", "regex", "test_pass", "manual"]
CHANNEL = "loop"
REVIEW = "review"


class LoopStage(StrEnum):
    """Where a loop stands. REVIEWING: a person has been asked whether the attempt will do."""

    RUNNING = "running"
    PAUSED = "paused"
    REVIEWING = "reviewing"
    COMPLETED = "completed"
    FAILED = "failed"


OVER = (LoopStage.COMPLETED, LoopStage.FAILED)


@dataclass(frozen=True, slots=True)
class LoopRow:
    """One loop. `root` is the conversation that started it, `attempt` the one it is at, `learned` a line for each before.

    `label` is the lowest of all that its attempts have read: what one has learned, the next is told. `role`:
    what the one who began it is to the house; only an owner's task is the owner's words.
    """

    id: str
    agent: str
    root: str
    sender: str
    label: Label
    message: str
    criterion: Criterion
    value: str
    max_iterations: int
    started_at: datetime
    stage: LoopStage = LoopStage.RUNNING
    attempt: int = 1
    learned: tuple[str, ...] = ()
    final_output: str = ""
    error: str = ""
    ended_at: datetime | None = None
    role: str = OWNER_NAME

    @property
    def lane(self) -> str:
        """The session that its attempts are turns of."""
        return f"{CHANNEL}:{self.id}"

    @property
    def over(self) -> bool:
        """It has ended, one way or the other."""
        return self.stage in OVER

    def turn(self, attempt: int) -> str:
        """The turn that this attempt is: a name that follows from the loop, so that no attempt is ever begun twice."""
        return f"{self.id}-{attempt}"


@dataclass(frozen=True, slots=True)
class Order:
    """`session` is the conversation that is asked and told, `role` what the sender is to the house. What is None is as the
    agent's settings say.
    """

    agent: str
    message: str
    session: str
    sender: str = "owner"
    criterion: Criterion | None = None
    value: str | None = None
    max_iterations: int | None = None
    role: str = OWNER_NAME
