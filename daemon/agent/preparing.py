"""What comes before a model call: what kind of work this is, the advice to plan, and a history that fits (E3, B4)."""

from dataclasses import dataclass
from typing import Protocol

from daemon.agent.consult import Consult
from daemon.agent.context import Context, Scene
from daemon.agent.fit.sizing import due
from daemon.agent.intent import answered, guidance, question
from daemon.agent.models import Models
from daemon.core.clock import Clock
from daemon.core.events import Classified, Coached, HistoryCompressed, ModelReplied, UserSaid
from daemon.core.messages import Message, Role
from daemon.core.turn import Turn

CLASS_TOKENS = 16
PATIENCE_S = 10.0
TODO = "todo"


class Compressor(Protocol):
    """Makes a history shorter (B4)."""

    async def compress(self, turn: Turn, scene: Scene, prompt_tokens: int) -> HistoryCompressed | None:
        """What is to be recorded; None when it fits."""
        ...

    def shrunk(self, turn: Turn, scene: Scene, tokens: int) -> HistoryCompressed | None:
        """Half of it, for a provider that says it is too long; None when nothing can be dropped."""
        ...


@dataclass(frozen=True, slots=True)
class Preparing:
    """Records what is due before the next call."""

    context: Context
    compressor: Compressor
    consult: Consult
    models: Models
    clock: Clock

    def due(self, turn: Turn, scene: Scene) -> bool:
        """Something comes before the next call; mostly nothing does."""
        wanted, window = self.context.wanted(turn, scene), self.context.window_of(turn)
        return self._unsure(turn, scene) or bool(self._advice(turn)) or due(wanted, window)

    async def ready(self, turn: Turn, scene: Scene) -> None:
        """Class of the message, guidance, compression: recorded where they are due."""
        if self._unsure(turn, scene):
            await self._classify(turn, scene)
        if advice := self._advice(turn):
            turn.record(Coached(TODO, advice), self.clock.now())
        shorter = await self.compressor.compress(turn, scene, self.context.wanted(turn, scene))
        if shorter:
            turn.record(shorter, self.clock.now())

    def _advice(self, turn: Turn) -> str:
        if turn.intent is None or turn.coached.get(TODO) == turn.iterations:
            return ""
        return guidance(turn.intent, turn.iterations, bool(turn.todos))

    def _unsure(self, turn: Turn, scene: Scene) -> bool:
        """The rules did not know, and there is a cheap model to ask (E3)."""
        if turn.reply or turn.intent or scene.model or turn.terms.model:
            return False
        cheap = self.models.named("fast") != self.models.named("primary")
        return cheap and not any(one.purpose == "intent" for one in turn.consulted)

    def shrunk(self, turn: Turn, scene: Scene) -> HistoryCompressed | None:
        """A shorter history, once, for a provider that found it too long (B4)."""
        for entry in reversed(turn.events):
            if isinstance(entry.event, ModelReplied):
                break
            if isinstance(entry.event, HistoryCompressed) and entry.event.strategy == "shrink":
                return None
        return self.compressor.shrunk(turn, scene, self.context.wanted(turn, scene))

    async def _classify(self, turn: Turn, scene: Scene) -> None:
        """A cheap model is asked; without its word the primary answers (E3)."""
        said = turn.events[0].event
        asked = question(said.whole if isinstance(said, UserSaid) else "")
        words = await self.consult.consult(
            turn, scene, "intent", [Message(Role.USER, asked)], max_tokens=CLASS_TOKENS, work="fast", patience_s=PATIENCE_S
        )
        if words and (intent := answered(words)):
            turn.record(Classified(intent), self.clock.now())
