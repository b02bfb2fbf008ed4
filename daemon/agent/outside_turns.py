"""A question to a model that belongs to no turn: to read a rule, to choose what to remember."""

import asyncio
import logging

from daemon.agent.budget_tree import Cost
from daemon.agent.budgets import BudgetExceeded
from daemon.agent.context.history import estimate_max_tokens, estimate_tokens
from daemon.agent.models import EMBEDDED, ModelCaller
from daemon.core import value
from daemon.core.errors import ProviderError
from daemon.core.messages import Message, MessageRole, ModelRequest
from daemon.store.journal import Store

TIMEOUT_S = 60.0

log = logging.getLogger(__name__)


@value
class OutsideCaller:
    """Asks the model for small work. What it costs counts for the day (F2)."""

    store: Store
    models: ModelCaller

    @property
    def is_embedded(self) -> bool:
        """The model is too small to be asked."""
        return self.models.routing.list_routes("", "fast")[0].provider.name == EMBEDDED

    @property
    def is_cheap(self) -> bool:
        """There is a model for small work, other than the one that answers."""
        return bool(self.models.routing.choice.fast) and not self.is_embedded

    async def ask(
        self, session: str, instructions: str, question: str, max_tokens: int, *, unasked: bool
    ) -> str:
        """The reply, or "" for none. `unasked`: no person waits for it, so that it is paid from
        what the owner's own chats leave.
        """
        models, routing, budgets = self.models, self.models.routing, self.models.budgets
        messages = (
            Message(MessageRole.SYSTEM, instructions),
            Message(MessageRole.USER, question),
        )
        route = routing.list_routes("", "fast")[0]
        sent = estimate_max_tokens(messages, estimate_tokens(messages))
        usd = routing.estimate_max_cost(route, sent, max_tokens)
        held, actual = Cost(sent, max_tokens, usd), Cost()
        account = budgets.daily.others if unasked else budgets.daily.account
        try:
            await budgets.hold(account, held)
        except BudgetExceeded:
            return ""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                request = ModelRequest(messages, max_tokens=max_tokens)
                reply = await models.chain.complete((route,), request)
        except (ProviderError, TimeoutError) as error:
            log.warning("no model answered beside the turns: %s", error or "too slow")
            return ""
        else:
            usage, now = reply.usage, models.clock.now()
            actual = Cost(usage.input_tokens, usage.output_tokens, routing.usage.charge(usage))
            await self.store.write(
                lambda tx: tx.add_usage(session, reply.provider, reply.model, usage, now)
            )
            return reply.text
        finally:
            budgets.settle(account, held, actual)
