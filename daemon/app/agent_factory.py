"""What memory has to say to a message, before its turn begins (A4, A5).

The agent loop, put together from its concerns.
"""

import asyncio
import logging
import secrets
import sqlite3
from dataclasses import dataclass, field

from daemon.agent.answer_checks import AnswerChecker, CriterionChecker
from daemon.agent.auxiliary_model import AuxiliaryModel
from daemon.agent.budgets import BudgetExtension, Budgets, DailyUsage
from daemon.agent.context.builder import ContextBuilder
from daemon.agent.context.compaction import HistoryCompactor
from daemon.agent.final_messages import StopStats
from daemon.agent.loop import AgentLoop
from daemon.agent.model_call import ModelCaller, RedactingChain
from daemon.agent.pre_call import PreCall
from daemon.agent.reflection import Reflector
from daemon.agent.routing import ModelRouting
from daemon.agent.spec.registry import AgentRegistry
from daemon.agent.subagents.composite import CompositeRunner
from daemon.agent.subagents.manager import SubagentManager
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.event_bus import EventBus
from daemon.core.events import MemoryHit
from daemon.core.journal import Store
from daemon.core.messages import ACKNOWLEDGEMENT
from daemon.core.trust import Label
from daemon.settings.model import Config
from daemon.tools.criteria_checks import CriteriaChecker
from daemon.tools.executor import ToolExecutor
from daemon.tools.policy.approvals import new_token
from daemon.tools.shell.sandbox import Sandbox
from memory.memory import Memory

log = logging.getLogger(__name__)
MAX_HITS = 5
RECALL_TIMEOUT_S = 2.0


@value
class MemoryRecall:
    """Facts that fit a message. A memory that is slow or broken never holds up an answer."""

    memory: Memory

    async def __call__(self, text: str) -> tuple[MemoryHit, ...]:
        """At most five; none for a mere greeting or thanks."""
        if ACKNOWLEDGEMENT.fullmatch(text):
            return ()
        try:
            async with asyncio.timeout(RECALL_TIMEOUT_S):
                hits = await self.memory.recall(text, MAX_HITS)
        except (TimeoutError, sqlite3.Error) as error:
            log.warning("memory did not answer (%s); going on without", error or "too slow")
            return ()
        return tuple(MemoryHit(hit.id, hit.text, Label(hit.label), hit.owned) for hit in hits)


@dataclass(slots=True)
class AgentFactory:
    """Everything that an agent is made of, but for its tools."""

    config: Config
    store: Store
    clock: Clock
    live: EventBus
    ledger: DailyUsage
    routes: ModelRouting
    context: ContextBuilder
    children: SubagentManager
    sandbox: Sandbox
    memory: Memory
    budgets: Budgets = field(init=False)

    def __post_init__(self) -> None:
        self.budgets = Budgets(self.store, self.ledger)

    async def create(self, tools: ToolExecutor, chain: RedactingChain, specs: AgentRegistry) -> AgentLoop:
        """The loop."""
        watch = StopStats()
        await watch.load(self.store, list(specs.names()))
        consult = AuxiliaryModel(chain, self.routes, self.budgets, self.clock)
        return AgentLoop(
            model_caller=self._make_model_caller(chain),
            tools=tools,
            budgets=self.budgets,
            pre_call=PreCall(
                HistoryCompactor(self.context, consult), consult, self.routes, self.clock
            ),
            answer_checker=self._make_answer_checker(consult),
            budget_extension=BudgetExtension(
                self.ledger, self.clock, new_token, self.config.tools.approval_minutes
            ),
            crew=CompositeRunner(self.children, self.clock.now),
            stop_stats=watch,
            clock=self.clock,
        )

    def _make_answer_checker(self, consult: AuxiliaryModel) -> AnswerChecker:
        async def keep(text: str, turn: str, label: Label, owned: bool) -> None:
            try:
                await self.memory.remember(
                    text, at=self.clock.now(), source=turn, label=label.value, owned=owned
                )
            except sqlite3.Error as error:
                log.warning(
                    "the reflection of turn %s could not be kept in memory: %s", turn, error
                )

        verify = CriterionChecker(CriteriaChecker(self.sandbox), consult)
        return AnswerChecker(verify, Reflector(consult, keep), self.clock, new_token)

    def _make_model_caller(self, chain: RedactingChain) -> ModelCaller:
        return ModelCaller(
            context=self.context,
            chain=chain,
            routing=self.routes,
            budgets=self.budgets,
            live=self.live,
            clock=self.clock,
            new_seed=lambda: secrets.randbits(31),
        )
