"""A question to a model that belongs to no turn: to read a rule, to choose what to remember, to
judge what a run came to.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle

from daemon.agent.budget_tree import Budget, Cost
from daemon.agent.context.history import estimate_max_tokens, estimate_tokens
from daemon.agent.models import EMBEDDED, ModelCaller
from daemon.core import value
from daemon.core.errors import UNBILLED, BudgetExceeded, ProviderError, StoreUnavailable
from daemon.core.messages import Message, MessageRole, ModelReply, ModelRequest, Usage
from daemon.core.reports import ModelAnswer
from daemon.providers.chain import ModelRoute
from daemon.store.journal import Store

TIMEOUT_S, JUDGE_S, JUDGE_TOKENS = 60.0, 120.0, 2_000

log = logging.getLogger(__name__)


@value
class OutsideCaller:
    """Asks the model beside the turns. What it costs counts for the day (F2)."""

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
        messages, daily = _alternate(instructions, (question,)), self.models.budgets.daily
        routes = self.models.routing.list_routes("", "fast")[:1]
        account = daily.others if unasked else daily.account
        try:
            async with asyncio.timeout(TIMEOUT_S):
                reply = await self._complete(session, routes, messages, max_tokens, account)
        except BudgetExceeded:
            return ""
        except (ProviderError, TimeoutError) as error:
            log.warning("no model answered beside the turns: %s", error or "too slow")
            return ""
        return reply.text

    async def judge(self, session: str, rules: str, said: Sequence[str]) -> ModelAnswer:
        """What the model for hard work replies, without tools and history. `said`: in turn by the
        user and the model.
        """
        routes, messages = self.models.routing.list_routes("", "smart"), _alternate(rules, said)
        account = await self.models.budgets.load_account(session)
        try:
            async with asyncio.timeout(JUDGE_S):
                reply = await self._complete(session, routes, messages, JUDGE_TOKENS, account)
        except BudgetExceeded as error:
            return ModelAnswer(fault=f"the budget of the day is used up ({error.shortage.kind})")
        except (ProviderError, TimeoutError) as error:
            told = str(error) or f"no answer within {JUDGE_S:g} s"
            return ModelAnswer(usd=None, fault=told)
        return ModelAnswer(reply.text, reply.usage.usd)

    async def _complete(
        self,
        session: str,
        routes: Sequence[ModelRoute],
        messages: Sequence[Message],
        max_tokens: int,
        account: Budget,
    ) -> ModelReply:
        """Raises BudgetExceeded, ProviderError."""
        models, first = self.models, routes[0]
        sent = estimate_max_tokens(messages, estimate_tokens(messages))
        usd = max(models.routing.estimate_max_cost(route, sent, max_tokens) for route in routes)
        request = ModelRequest(tuple(messages), max_tokens=max_tokens)
        most = Usage(sent, max_tokens, usd=usd)
        async with self._hold(session, account, first.provider.name, first.model, most) as count:
            reply = await models.chain.complete(tuple(routes), request)
            await count(reply.provider, reply.model, reply.usage)
            return reply

    @asynccontextmanager
    async def reserve(
        self, session: str, provider: str, model: str, most: Usage, *, waits: bool = True
    ) -> AsyncGenerator[Callable[[Usage | None], Awaitable[None]]]:
        """Set aside what a request of a session may cost that is for no reply, such as a voice
        message to be written down; what is given counts what it did cost: None, as `most`. Where
        no price is known, what is not told costs nothing: it may be a server of one's own.
        `waits`: see Budgets.hold. Raises BudgetExceeded.
        """
        price = partial(self.models.routing.prices.get_usd, provider, model)
        usd = price(most)
        most = Usage(usd=None) if usd is None else replace(most, usd=usd)
        account = await self.models.budgets.load_account(session)
        async with self._hold(session, account, provider, model, most, waits=waits) as count:
            yield lambda usage: count(
                provider, model, replace(usage, usd=price(usage)) if usage else most
            )

    @asynccontextmanager
    async def _hold(
        self,
        session: str,
        account: Budget,
        provider: str,
        model: str,
        most: Usage,
        *,
        waits: bool = True,
    ) -> AsyncGenerator[Callable[[str, str, Usage], Awaitable[None]]]:
        """A request that was cut off, or whose answer cannot be read, counts as `most`."""
        budgets = self.models.budgets
        actual: Cost | None = None
        held = Cost(most.input_tokens, most.output_tokens, most.usd or 0.0)

        async def count(provider: str, model: str, usage: Usage) -> None:
            nonlocal actual
            if actual is not None:  # cut off while it was being counted
                return
            usd, now = self.models.routing.usage.charge(usage), self.models.clock.now()
            actual = Cost(usage.input_tokens, usage.output_tokens, usd)
            try:
                await self.store.write(
                    lambda tx: tx.add_usage(session, provider, model, usage, now)
                )
            except StoreUnavailable as error:  # what came is not lost for that
                log.warning("what a request cost is not kept: %s", error)

        await budgets.hold(account, held, waits=waits)
        try:
            yield count
        except (ProviderError, asyncio.CancelledError) as error:
            if not isinstance(error, ProviderError) or error.kind not in UNBILLED:
                await count(provider, model, most)
            raise
        finally:
            budgets.settle(account, held, actual or Cost())


def _alternate(rules: str, said: Sequence[str]) -> Sequence[Message]:
    roles = cycle((MessageRole.USER, MessageRole.ASSISTANT))
    return (Message(MessageRole.SYSTEM, rules), *map(Message, roles, said))
