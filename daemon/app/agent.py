"""The agent loop, put together from its concerns."""

import logging
import secrets
import sqlite3
from dataclasses import dataclass, field

from daemon.agent.asking import Asking
from daemon.agent.compress import Compressor
from daemon.agent.consult import Consult
from daemon.agent.context import Context
from daemon.agent.crew.children import Children
from daemon.agent.crew.crew import Crew
from daemon.agent.halts.watch import Watch
from daemon.agent.loop import Agent
from daemon.agent.models import Chain
from daemon.agent.money.budgets import Budgets
from daemon.agent.money.extending import Extending
from daemon.agent.money.ledger import Ledger
from daemon.agent.preparing import Preparing
from daemon.agent.reflect import Reflect
from daemon.agent.routes import Routes
from daemon.agent.specs.registry import Specs
from daemon.agent.verdicts import Verdicts
from daemon.agent.verify import Verify
from daemon.config.model import Config
from daemon.core.clock import Clock
from daemon.core.label import Label
from daemon.core.live import Live
from daemon.store.protocol import Store
from daemon.tools.approvals import new_token
from daemon.tools.checks import Checks
from daemon.tools.dispatch import Dispatcher
from daemon.tools.sandbox import Sandbox
from memory.memory import Memory

log = logging.getLogger(__name__)


@dataclass(slots=True)
class AgentWorks:
    """Everything that an agent is made of, but for its tools."""

    config: Config
    store: Store
    clock: Clock
    live: Live
    ledger: Ledger
    routes: Routes
    context: Context
    children: Children
    sandbox: Sandbox
    memory: Memory
    budgets: Budgets = field(init=False)

    def __post_init__(self) -> None:
        self.budgets = Budgets(self.store, self.ledger)

    async def agent(self, tools: Dispatcher, chain: Chain, specs: Specs) -> Agent:
        """The loop."""
        watch = Watch()
        await watch.load(self.store, list(specs.names()))
        consult = Consult(chain, self.routes, self.budgets, self.clock)
        return Agent(
            asking=self._asking(chain),
            tools=tools,
            budgets=self.budgets,
            preparing=Preparing(self.context, Compressor(self.context, consult), consult, self.routes, self.clock),
            verdicts=self._verdicts(consult),
            extending=Extending(self.ledger, self.clock, new_token, self.config.tools.approval_minutes),
            crew=Crew(self.children, self.clock.now),
            watch=watch,
            clock=self.clock,
        )

    def _verdicts(self, consult: Consult) -> Verdicts:
        async def keep(text: str, turn: str, label: Label, owned: bool) -> None:
            try:
                await self.memory.remember(text, at=self.clock.now(), source=turn, label=label.value, owned=owned)
            except sqlite3.Error as error:
                log.warning("the reflection of turn %s could not be kept in memory: %s", turn, error)

        verify = Verify(Checks(self.sandbox), consult)
        return Verdicts(verify, Reflect(consult, keep), self.clock, new_token)

    def _asking(self, chain: Chain) -> Asking:
        return Asking(
            context=self.context,
            chain=chain,
            models=self.routes,
            budgets=self.budgets,
            live=self.live,
            clock=self.clock,
            new_seed=lambda: secrets.randbits(31),
        )
