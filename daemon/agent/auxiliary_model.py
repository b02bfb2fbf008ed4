"""Small questions to a model beside the loop: a summary, a verdict, a class, a reflection. Held, charged and written down."""

import asyncio
import logging
from collections.abc import Sequence

from daemon.agent.budgets import BudgetExceeded, Budgets
from daemon.agent.context.builder import TurnContext
from daemon.agent.context.history_window import estimate_max_tokens, estimate_tokens
from daemon.agent.routing import Chain, Models, Work
from daemon.core import value
from daemon.core.budget import Cost
from daemon.core.clock import Clock
from daemon.core.errors import ProviderError
from daemon.core.events import Consulted, Consulting, ModelRetried
from daemon.core.messages import Message, ModelReply, ModelRequest, Usage
from daemon.core.turn import Turn
from daemon.providers.chain import ModelRoute

log = logging.getLogger(__name__)
PATIENCE_S = 60.0


@value
class AuxiliaryModel:
    """Asks once. Whoever asks has to do without an answer, if need be: nothing here ends a turn."""

    chain: Chain
    routing: Models
    budgets: Budgets
    clock: Clock

    async def ask(
        self,
        turn: Turn,
        scene: TurnContext,
        purpose: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        work: Work = "primary",
        patience_s: float = PATIENCE_S,
    ) -> str | None:
        """The model's words; None when nobody answered in time, or there is no budget for it."""
        route = self.routing.list_routes(
            scene.model or turn.spec.model or self.routing.model_for_work(work)
        )[0]
        request = ModelRequest(tuple(messages), max_tokens=max_tokens)
        sent = estimate_max_tokens(estimate_tokens(request.messages), request.messages)
        usd = await self.routing.estimate_max_cost(route, sent, max_tokens)
        held = Cost(sent, max_tokens, usd)
        try:
            await self.budgets.hold(scene.account, held)
        except BudgetExceeded as error:
            log.info("turn %s: no budget for a %s (%s)", turn.id, purpose, error)
            return None
        actual = held
        try:
            turn.record(
                Consulting(purpose, route.provider.name, route.model, sent, usd), self.clock.now()
            )
            await turn.commit()
            done = await self._ask(purpose, request, route, patience_s)
            turn.record(done, self.clock.now())
            actual = Cost(done.usage.input_tokens, done.usage.output_tokens, done.charged_usd)
        finally:
            self.budgets.settle(scene.account, held, actual)
        return None if done.error else done.text

    async def _ask(
        self, purpose: str, request: ModelRequest, route: ModelRoute, patience_s: float
    ) -> Consulted:
        async def retried(event: ModelRetried) -> None:
            log.info("%s: %s; asked again", purpose, event.message)

        began = self.clock.monotonic()
        try:
            async with asyncio.timeout(patience_s):
                reply = await self.chain.complete((route,), request, on_retry=retried)
        except (ProviderError, TimeoutError) as error:
            log.warning("no model would answer for a %s: %s", purpose, error or "too slow")
            return Consulted(purpose, "", Usage(usd=0.0), "", "", error=str(error) or "too slow")
        return self._done(purpose, reply, self.clock.monotonic() - began)

    def _done(self, purpose: str, reply: ModelReply, seconds: float) -> Consulted:
        charged = self.routing.charge(reply.usage)
        return Consulted(
            purpose,
            reply.text,
            reply.usage,
            reply.provider,
            reply.model,
            charged,
            round(seconds, 4),
        )
