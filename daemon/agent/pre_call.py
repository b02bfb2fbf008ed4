"""Records what comes before a model call: the kind of work, the advice to plan, a history that
fits (E3, B4).
"""

from daemon.agent.auxiliary_model import INTENT, AuxiliaryModel
from daemon.agent.context.builder import SHRINK, PromptPlan, TurnContext
from daemon.agent.context.compaction import HistoryCompactor
from daemon.agent.context.history import is_nearly_full
from daemon.agent.intent import advise_plan, build_intent_prompt, parse_intent
from daemon.agent.routing import ModelRouting
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.events import Classified, Coached, HistoryCompressed, ModelReplied, UserSaid
from daemon.core.messages import Message, MessageRole
from daemon.core.turn import Turn

CLASS_TOKENS = 16
TODO = "todo"


@value
class PreCall:
    """Says what is due before the next call, and records it."""

    compactor: HistoryCompactor
    auxiliary: AuxiliaryModel
    routing: ModelRouting
    clock: Clock

    def is_due(self, turn: Turn, context: TurnContext, plan: PromptPlan) -> bool:
        """Mostly nothing is."""
        return (
            is_nearly_full(plan.tokens, plan.window)
            or self._needs_intent(turn, context)
            or bool(_advise(turn))
        )

    async def prepare(self, turn: Turn, context: TurnContext) -> None:
        """Class of the message, advice, compression: recorded where they are due."""
        if self._needs_intent(turn, context):
            said = turn.events[0].event
            asked = build_intent_prompt(said.full_text if isinstance(said, UserSaid) else "")
            message = [Message(MessageRole.USER, asked)]
            words = await self.auxiliary.ask(
                turn, context, INTENT, message, max_tokens=CLASS_TOKENS
            )
            if words and (intent := parse_intent(words)):
                turn.record(Classified(intent), self.clock.now())
        if advice := _advise(turn):
            turn.record(Coached(TODO, advice), self.clock.now())
        wanted = self.compactor.context.plan(turn, context).tokens
        if shorter := await self.compactor.compress(turn, context, wanted):
            turn.record(shorter, self.clock.now())

    def shrink(self, turn: Turn, context: TurnContext) -> HistoryCompressed | None:
        """A shorter history, once for each reply, for a provider that found it too long (B4)."""
        for entry in reversed(turn.events):
            if isinstance(entry.event, ModelReplied):
                break
            if isinstance(entry.event, HistoryCompressed) and entry.event.strategy == SHRINK:
                return None
        return self.compactor.shrink(turn, context)

    def _needs_intent(self, turn: Turn, context: TurnContext) -> bool:
        """The rules did not know, and there is a cheaper model to ask (E3)."""
        if turn.reply or turn.intent or context.model or turn.spec.model:
            return False
        cheaper = self.routing.model_for_work("fast") != self.routing.model_for_work("primary")
        return cheaper and not any(one.purpose == INTENT for one in turn.consultations)


def _advise(turn: Turn) -> str:
    if turn.intent is None or turn.coached.get(TODO) == turn.iterations:
        return ""
    return advise_plan(turn.intent, turn.iterations, bool(turn.todos))
