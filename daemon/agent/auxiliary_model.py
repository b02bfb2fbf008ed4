"""Small questions to a model beside the loop: a summary, a verdict, a class, a reflection."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from daemon.agent.budgets import BudgetExceeded, Budgets
from daemon.agent.context.builder import TurnContext
from daemon.agent.context.history import estimate_extra_tokens, estimate_tokens
from daemon.agent.model_call import RedactingChain
from daemon.agent.routing import ModelRouting, Work
from daemon.core.budget import Cost
from daemon.core.clock import Clock
from daemon.core.errors import ProviderError
from daemon.core.events import Consulted, Consulting, ModelRetried
from daemon.core.messages import Message, ModelRequest, Usage
from daemon.core.turn import Turn

log = logging.getLogger(__name__)
INTENT = "intent"
PATIENCE_S, INTENT_PATIENCE_S = 60.0, 10.0


@dataclass(slots=True)
class AuxiliaryModel:
    """Asks once. Who asks does without an answer, if need be: nothing here ends a turn."""

    chain: RedactingChain
    routing: ModelRouting
    budgets: Budgets
    clock: Clock

    async def ask(
        self,
        turn: Turn,
        context: TurnContext,
        purpose: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
    ) -> str | None:
        """The model's words; None when nobody answered in time, or there is no budget for it."""
        work: Work = "fast" if purpose == INTENT else "primary"
        route = self.routing.list_routes(context.model or turn.spec.model, work)[0]
        sent = estimate_tokens(messages) * 4 // 3 + estimate_extra_tokens(messages)
        usd = self.routing.estimate_max_cost(route, sent, max_tokens)
        actual = held = Cost(sent, max_tokens, usd)
        try:
            await self.budgets.hold(context.account, held)
        except BudgetExceeded as error:
            log.info("turn %s: no budget for a %s (%s)", turn.id, purpose, error)
            return None
        request = ModelRequest(tuple(messages), max_tokens=max_tokens)
        asked = Consulting(purpose, route.provider.name, route.model, sent, usd)
        began = self.clock.monotonic()
        try:
            turn.record(asked, self.clock.now())
            await turn.commit()
            async with asyncio.timeout(INTENT_PATIENCE_S if purpose == INTENT else PATIENCE_S):
                reply = await self.chain.complete((route,), request, on_retry=log_retry)
            usage = reply.usage
            charged = self.routing.usage.charge(usage)
            seconds = round(self.clock.monotonic() - began, 4)
            done = Consulted(
                purpose, reply.text, usage, reply.provider, reply.model, charged, seconds
            )
            actual = Cost(usage.input_tokens, usage.output_tokens, charged)
        except (ProviderError, TimeoutError) as error:
            log.warning("no model answered for a %s: %s", purpose, error or "too slow")
            done, actual = (
                Consulted(purpose, "", Usage(usd=0.0), "", "", error=str(error) or "too slow"),
                Cost(),
            )
        finally:
            self.budgets.settle(context.account, held, actual)
        turn.record(done, self.clock.now())
        return None if done.error else done.text


async def log_retry(event: ModelRetried) -> None:
    """Auxiliary calls show their retries in the log only."""
    log.info("an auxiliary call is repeated: %s", event.message)
