"""Reads a pinned rule: in its plain or typed form, else by one short question to a model (F5)."""

import asyncio
import logging

from daemon.agent.budgets import BudgetExceeded, Budgets
from daemon.agent.context.history import estimate_max_tokens, estimate_tokens
from daemon.agent.models import ModelRouting, RedactingChain
from daemon.core import value
from daemon.core.budget import Cost
from daemon.core.clock import Clock
from daemon.core.errors import ProviderError
from daemon.core.messages import Message, MessageRole, ModelRequest
from daemon.store.journal import Store
from daemon.tools.policy.rule_text import (
    INSTRUCTIONS,
    MAX_CHARS,
    ParsedRule,
    parse_model_rule,
    parse_rule,
)

log = logging.getLogger(__name__)

MAX_TOKENS = 500
TIMEOUT_S = 60.0


@value
class RuleReader:
    """An embedded model is not asked. The cost of a call counts for the day."""

    chain: RedactingChain
    routing: ModelRouting
    budgets: Budgets
    store: Store
    clock: Clock
    embedded_only: bool

    async def read(self, session: str, sentence: str) -> ParsedRule | str:
        """The rule that the sentence asks for, or why there is none."""
        parsed = parse_rule(sentence)
        too_long = not sentence.strip() or len(sentence) > MAX_CHARS
        if isinstance(parsed, ParsedRule) or self.embedded_only or too_long:
            return parsed
        reply = await self._ask_model(session, sentence)
        return parse_model_rule(reply) if reply else parsed

    async def _ask_model(self, session: str, sentence: str) -> str:
        messages = (
            Message(MessageRole.SYSTEM, INSTRUCTIONS),
            Message(MessageRole.USER, sentence),
        )
        route = self.routing.list_routes("", "fast")[0]
        sent = estimate_max_tokens(messages, estimate_tokens(messages))
        usd = self.routing.estimate_max_cost(route, sent, MAX_TOKENS)
        held, actual = Cost(sent, MAX_TOKENS, usd), Cost()
        account = self.budgets.daily.account
        try:
            await self.budgets.hold(account, held)
        except BudgetExceeded:
            return ""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                request = ModelRequest(messages, max_tokens=MAX_TOKENS)
                reply = await self.chain.complete((route,), request)
        except (ProviderError, TimeoutError) as error:
            log.warning("no model answered for a rule: %s", error or "too slow")
            return ""
        else:
            usage, now = reply.usage, self.clock.now()
            actual = Cost(usage.input_tokens, usage.output_tokens, self.routing.usage.charge(usage))
            await self.store.write(
                lambda tx: tx.add_usage(session, reply.provider, reply.model, usage, now)
            )
            return reply.text
        finally:
            self.budgets.settle(account, held, actual)
