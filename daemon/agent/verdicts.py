"""A final text is held against what was asked for before anybody is told (E10, F6, D2)."""

from collections.abc import Sequence
from dataclasses import dataclass

from daemon.agent.confidence import low_confidence
from daemon.agent.context import Scene
from daemon.core.events import Event, TurnEnded
from daemon.core.outcomes import Stop
from daemon.core.turn import Turn


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Every check in turn: the first that fails has the model try again."""

    async def judge(self, turn: Turn, scene: Scene) -> Sequence[Event]:
        """What follows: an end, a correction for the model, or a question to a person. Never nothing."""
        if hedged := low_confidence(turn):
            return [TurnEnded(Stop.LOW_CONFIDENCE, hedged.detail, turn.answer)]
        return [TurnEnded(Stop.DONE, "", turn.answer)]
