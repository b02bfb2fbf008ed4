"""What comes before a model call: what kind of work this is, the advice to plan, and a history that fits (E3, B4)."""

from typing import Protocol

from daemon.agent.auxiliary_model import AuxiliaryModel
from daemon.agent.context.builder import ContextBuilder, TurnContext
from daemon.agent.context.history_window import is_nearly_full
from daemon.agent.intent import advise_plan, build_intent_prompt, parse_intent
from daemon.agent.routing import Models
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.events import Classified, Coached, HistoryCompressed, ModelReplied, UserSaid
from daemon.core.messages import Message, MessageRole
from daemon.core.turn import Turn

CLASS_TOKENS = 16
PATIENCE_S = 10.0
TODO = "todo"


class Compacts(Protocol):
    """Makes a history shorter (B4)."""

    async def compress(
        self, turn: Turn, scene: TurnContext, prompt_tokens: int
    ) -> HistoryCompressed | None:
        """What is to be recorded; None when it fits."""
        ...

    def shrink(self, turn: Turn, scene: TurnContext, tokens: int) -> HistoryCompressed | None:
        """Half of it, for a provider that says it is too long; None when nothing can be dropped."""
        ...


@value
class PreCall:
    """Records what is due before the next call."""

    context: ContextBuilder
    compactor: Compacts
    auxiliary: AuxiliaryModel
    routing: Models
    clock: Clock

    def is_due(self, turn: Turn, scene: TurnContext) -> bool:
        """Something comes before the next call; mostly nothing does."""
        wanted, window = self.context.count_wanted(turn, scene), self.context.window_of(turn)
        return (
            self._unsure(turn, scene) or bool(self._advice(turn)) or is_nearly_full(wanted, window)
        )

    async def prepare(self, turn: Turn, scene: TurnContext) -> None:
        """Class of the message, guidance, compression: recorded where they are due."""
        if self._unsure(turn, scene):
            await self._classify(turn, scene)
        if advice := self._advice(turn):
            turn.record(Coached(TODO, advice), self.clock.now())
        shorter = await self.compactor.compress(turn, scene, self.context.count_wanted(turn, scene))
        if shorter:
            turn.record(shorter, self.clock.now())

    def _advice(self, turn: Turn) -> str:
        if turn.intent is None or turn.coached.get(TODO) == turn.iterations:
            return ""
        return advise_plan(turn.intent, turn.iterations, bool(turn.todos))

    def _unsure(self, turn: Turn, scene: TurnContext) -> bool:
        """The rules did not know, and there is a cheap model to ask (E3)."""
        if turn.reply or turn.intent or scene.model or turn.spec.model:
            return False
        cheap = self.routing.model_for_work("fast") != self.routing.model_for_work("primary")
        return cheap and not any(one.purpose == "intent" for one in turn.consultations)

    def shrink(self, turn: Turn, scene: TurnContext) -> HistoryCompressed | None:
        """A shorter history, once, for a provider that found it too long (B4)."""
        for entry in reversed(turn.events):
            if isinstance(entry.event, ModelReplied):
                break
            if isinstance(entry.event, HistoryCompressed) and entry.event.strategy == "shrink":
                return None
        return self.compactor.shrink(turn, scene, self.context.count_wanted(turn, scene))

    async def _classify(self, turn: Turn, scene: TurnContext) -> None:
        """A cheap model is asked; without its word the primary answers (E3)."""
        said = turn.events[0].event
        asked = build_intent_prompt(said.full_text if isinstance(said, UserSaid) else "")
        words = await self.auxiliary.ask(
            turn,
            scene,
            "intent",
            [Message(MessageRole.USER, asked)],
            max_tokens=CLASS_TOKENS,
            work="fast",
            patience_s=PATIENCE_S,
        )
        if words and (intent := parse_intent(words)):
            turn.record(Classified(intent), self.clock.now())
