"""After the work, the model says what was asked, what was done and what is left; that feeds the next turn and session (E10)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from daemon.agent.consult import Consult
from daemon.agent.context import Scene
from daemon.agent.past import REFLECTION
from daemon.core.label import Label
from daemon.core.messages import Message, Role
from daemon.core.turn import Turn

TOKENS = 200
ASKED = (
    "The work above is done. Write a reflection for yourself, three short lines: Goal: what was asked. Done: what was done, and "
    "what did not work. Left: what remains, or what to do otherwise next time. Only what the results show."
)
Keep = Callable[[str, str, Label], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Reflect:
    """Asks for it, and keeps it. `keep` takes the text, the turn, and the label of what the turn had read."""

    consult: Consult
    keep: Keep

    async def reflect(self, turn: Turn, scene: Scene) -> None:
        """Recorded in the turn; kept in memory for other sessions."""
        messages = [*turn.messages, Message(Role.USER, ASKED)]
        text = await self.consult.consult(turn, scene, REFLECTION, messages, max_tokens=TOKENS)
        if text and text.strip():
            await self.keep(f"Reflection on earlier work: {' '.join(text.split())}", turn.id, turn.label)
