"""Small questions to a model beside the loop: a summary, a verdict, a class, a reflection. Held, charged and written down."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from daemon.agent.context import Scene
from daemon.agent.fit.sizing import tokens_of, worst_tokens
from daemon.agent.models import Chain, Models, Work
from daemon.agent.money.budgets import Budgets, OverBudget
from daemon.core.budget import Cost
from daemon.core.clock import Clock
from daemon.core.errors import ProviderError
from daemon.core.events import Consulted, Consulting, ModelRetried
from daemon.core.messages import Message, ModelReply, ModelRequest, Usage
from daemon.core.turn import Turn
from daemon.providers.chain import Route

log = logging.getLogger(__name__)
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Consult:
    """Asks once. Whoever asks has to do without an answer, if need be: nothing here ends a turn."""

    chain: Chain
    models: Models
    budgets: Budgets
    clock: Clock

    async def consult(
        self,
        turn: Turn,
        scene: Scene,
        purpose: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        work: Work = "primary",
        patience_s: float = PATIENCE_S,
    ) -> str | None:
        """The model's words; None when nobody answered in time, or there is no budget for it."""
        route = self.models.routes(scene.model or turn.terms.model or self.models.named(work))[0]
        request = ModelRequest(tuple(messages), max_tokens=max_tokens)
        sent = worst_tokens(tokens_of(request.messages), request.messages)
        usd = await self.models.worst(route, sent, max_tokens)
        held = Cost(sent, max_tokens, usd)
        try:
            await self.budgets.hold(scene.account, held)
        except OverBudget as error:
            log.info("turn %s: no budget for a %s (%s)", turn.id, purpose, error)
            return None
        actual = held
        try:
            turn.record(Consulting(purpose, route.provider.name, route.model, sent, usd), self.clock.now())
            await turn.commit()
            done = await self._ask(purpose, request, route, patience_s)
            turn.record(done, self.clock.now())
            actual = Cost(done.usage.input_tokens, done.usage.output_tokens, done.charged_usd)
        finally:
            self.budgets.settle(scene.account, held, actual)
        return None if done.error else done.text

    async def _ask(self, purpose: str, request: ModelRequest, route: Route, patience_s: float) -> Consulted:
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
        charged = self.models.charged(reply.usage)
        return Consulted(purpose, reply.text, reply.usage, reply.provider, reply.model, charged, round(seconds, 4))
