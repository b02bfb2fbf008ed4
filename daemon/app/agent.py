"""The agent loop, put together from its concerns."""

import secrets
from dataclasses import dataclass, field

from daemon.agent.asking import Asking
from daemon.agent.budgets import Budgets
from daemon.agent.children import Children
from daemon.agent.composite import Crew
from daemon.agent.compress import Compressor
from daemon.agent.consult import Consult
from daemon.agent.context import Context
from daemon.agent.extending import Extending
from daemon.agent.ledger import Ledger
from daemon.agent.loop import Agent
from daemon.agent.models import Chain
from daemon.agent.preparing import Preparing
from daemon.agent.routes import Routes
from daemon.agent.specs import Specs
from daemon.agent.verdicts import Verdicts
from daemon.agent.watch import Watch
from daemon.config.model import Config
from daemon.core.clock import Clock
from daemon.core.live import Live
from daemon.store.protocol import Store
from daemon.tools.approvals import new_token
from daemon.tools.dispatch import Dispatcher


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
            verdicts=Verdicts(),
            extending=Extending(self.ledger, self.clock, new_token, self.config.tools.approval_minutes),
            crew=Crew(self.children, self.clock.now),
            watch=watch,
            clock=self.clock,
        )

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
