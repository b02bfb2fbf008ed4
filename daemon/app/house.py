"""The composition root: a config becomes a daemon, every part given what it needs, every lifetime in one stack."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from daemon.agent.context import Context
from daemon.agent.crew.children import Children
from daemon.agent.discreet import Discreet
from daemon.agent.lanes.briefing import Briefing
from daemon.agent.lanes.sessions import Sessions
from daemon.agent.lanes.workshop import Workshop
from daemon.agent.loop import Agent
from daemon.agent.money.budgets import Budgets
from daemon.agent.money.ledger import Ledger
from daemon.agent.prompt import COMPACT, COMPACT_TOOLS, SYSTEM
from daemon.agent.routes import Routes
from daemon.agent.specs.registry import Specs
from daemon.agent.subagent import spawn_agent
from daemon.app.agent import AgentWorks
from daemon.app.models import ModelConfig
from daemon.app.recollect import Recollect
from daemon.app.settings import live_config
from daemon.app.toolworks import ToolWorks
from daemon.app.warm import WarmUp
from daemon.app.works import Works
from daemon.commands.base import Desk
from daemon.commands.obey import left_over
from daemon.config.hidden import redactor
from daemon.config.load import Loaded
from daemon.config.model import Config
from daemon.config.paths import Paths
from daemon.core.clock import Clock, FileClock, SystemClock
from daemon.core.errors import ConfigError
from daemon.core.ids import NewId, new_id
from daemon.core.live import Live
from daemon.core.redaction import Redactor
from daemon.core.roles import Role
from daemon.delivery.fetching import Fetch
from daemon.delivery.outlet import Outlet
from daemon.door.local import LocalDoor
from daemon.intake import Intake
from daemon.loops.criteria import Criteria
from daemon.loops.engine import Engine
from daemon.providers.chain import Chain
from daemon.providers.prices import Prices, PriceTable
from daemon.store.protocol import Store
from daemon.store.sqlite import SqliteStore
from daemon.tools.approvals import new_token
from daemon.tools.base import Tool
from daemon.tools.checks import Checks
from daemon.tools.configure import config_tools
from daemon.tools.decorate import bind
from daemon.tools.inbox import FilesInbox
from daemon.tools.mcp.running import Running
from daemon.tools.policy import Judge, judge
from daemon.tools.sending import MOST
from daemon.tools.toolbox import Tools
from daemon.triggers.events import Events
from memory.memory import Memory

TEST_CLOCK = "AIDAEMON_TEST_CLOCK"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a test or an add-on may bring along: tools beside the house's own, another way to open the journal. Another judge is
    for the negative control of the security tests alone; nothing that a user can set leads here.
    """

    tools: Sequence[Tool] = ()
    open_store: Callable[[Path], Awaitable[Store]] = SqliteStore.open
    new_id: NewId = new_id
    judge: Judge = judge


@dataclass(frozen=True, slots=True)
class House:
    """A daemon that works, without a listener."""

    config: Config
    door: LocalDoor
    sessions: Sessions
    store: Store
    warm_up: WarmUp
    loops: Engine
    events: Events
    works: Works
    servers: Running | None = None

    async def ready(self, seconds: float) -> None:
        """Wait, so long at most, until MCP servers have shown their tools: a turn that begins at once is to find them."""
        if self.servers:
            await self.servers.ready(seconds)


@dataclass(slots=True)
class Builder:
    """Builds one house. The stack closes what was opened, in reverse order."""

    paths: Paths
    loaded: Loaded
    parts: Parts
    stack: AsyncExitStack
    clock: Clock
    live: Live = field(default_factory=Live)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    table: PriceTable = field(default_factory=PriceTable)
    redactor: Redactor = field(init=False)
    outlets: dict[str, Outlet] = field(default_factory=dict)
    listed: dict[str, Mapping[str, Role]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.redactor = redactor(self.paths, self.config)

    @property
    def config(self) -> Config:
        """The config it is built from."""
        return self.loaded.config

    async def build(self) -> House:
        """Everything, ready to be told to start."""
        self.paths.make_home()
        store = await self.parts.open_store(self.paths.journal)
        self.stack.push_async_callback(store.aclose)
        memory = await Memory.open(self.paths.memory)
        self.stack.push_async_callback(memory.aclose)
        ledger = Ledger(self.clock, self.config.budget)
        await ledger.load(store)
        specs = Specs.open(self.paths.agents, self.config.agent)
        children = self._children(store, specs)
        settings = live_config(self.paths, self.loaded, specs, children, ledger)
        works = ToolWorks(
            self.paths, self.config, store, self.clock, self.live, self.redactor, self.parts.new_id, self.stack, self._takes
        )
        await works.open()
        own = [*bind([spawn_agent], {Children: children}), *config_tools(settings), *self.parts.tools]
        tools, sandbox = works.tools(memory, own), works.sandbox
        specs.knows(tools.names())
        routes, context = self._routes(ledger), self._context(tools)
        agents = AgentWorks(self.config, store, self.clock, self.live, ledger, routes, context, children, sandbox, memory)
        chain = Discreet(Chain(sleep=asyncio.sleep, prices=self._prices()), self.redactor)
        rules = await works.rules(tools)
        agent = await agents.agent(works.dispatcher(tools, rules, self.parts.judge), chain, specs)
        sessions = Sessions(self._workshop(store, agent, agents.budgets, children, specs, Recollect(memory)))
        children.wake, children.stop = partial(sessions.deliver, watched=False), sessions.cancel
        criteria = Criteria(Checks(sandbox))
        loops = Engine(store, sessions, specs, criteria, self.clock, self.parts.new_id, self.live, new_token)
        servers = await works.servers(tools)
        desk = Desk(
            store, sessions, self.clock, routes, ledger.today, self.parts.new_id, specs, loops, rules, settings, servers,
            works.files, lambda: [outlet.line() for outlet in self.outlets.values()],
            self.listed,
        )  # fmt: skip
        intake = Intake(store, sessions, self.clock, self.parts.new_id, self.redactor)
        door = LocalDoor(store, desk, intake, self.live, lambda: self._problems(store))
        warm_up = WarmUp(routes.choice.primary, context)
        self.stack.push_async_callback(warm_up.aclose)
        events = Events(self.config.events, store, sessions, self.clock, self.parts.new_id, redactor=self.redactor)
        return House(self.config, door, sessions, store, warm_up, loops, events, self._works(desk, intake), servers)

    def _takes(self, channel: str) -> int:
        """Bytes of a file that it takes; what is not connected now may take them later."""
        return self.outlets[channel].channel.can.most_upload if channel in self.outlets else MOST

    def _problems(self, store: Store) -> list[str]:
        journal = [] if store.healthy else ["the journal cannot be written"]
        return [*journal, *(trouble for outlet in self.outlets.values() if (trouble := outlet.problem()))]

    def _works(self, desk: Desk, intake: Intake) -> Works:
        return Works(
            self.config, self.paths, self.clock, self.live, self.redactor, self.parts.new_id, desk, intake, self.outlets,
            self.listed,
        )  # fmt: skip

    def _children(self, store: Store, specs: Specs) -> Children:
        config = self.config
        return Children(store, self.live, config.subagents, config.agent, specs, self.parts.new_id)

    def _routes(self, ledger: Ledger) -> Routes:
        models = ModelConfig(self.paths, self.loaded, self.clock, self.stack)
        return Routes(models.choice(), self._prices(), ledger, models.worked, models.fell)

    def _prices(self) -> Prices:
        return Prices(overrides=self.config.provider.prices, table=self.table)

    def _context(self, tools: Tools) -> Context:
        local = self.config.provider.kind == "local"
        return Context(
            toolbox=tools,
            core=COMPACT_TOOLS if local else tools.core(),
            system=COMPACT if local else SYSTEM,
            window=self.config.agent.context_window,
            max_tokens=self.config.provider.max_tokens or None,
        )

    def _workshop(
        self, store: Store, agent: Agent, budgets: Budgets, children: Children, specs: Specs, recollect: Recollect
    ) -> Workshop:
        return Workshop(
            store=store,
            live=self.live,
            clock=self.clock,
            agent=agent,
            brief=Briefing(specs, lambda: specs.defaults, recollect),
            budgets=budgets,
            children=children,
            effort=lambda: specs.defaults.effort,
            while_busy=lambda: specs.defaults.while_busy,
            owner=f"{os.getpid()}",
            leaving=self.leaving,
            questions=_set_event(),
            fetch=Fetch(self.outlets, FilesInbox(self.paths.inbox)),
        )


@asynccontextmanager
async def open_house(paths: Paths, loaded: Loaded, parts: Parts | None = None) -> AsyncIterator[House]:
    """A house that is closed in good order: running turns get `drain_seconds` to finish, then they are cut and go on later."""
    async with AsyncExitStack() as stack:
        house = await Builder(paths, loaded, parts or Parts(), stack, system_clock()).build()
        await left_over(house.works.desk)
        try:
            yield house
        finally:
            await house.loops.aclose()
            await house.sessions.aclose(house.config.agent.drain_seconds)


def system_clock() -> Clock:
    """The machine's clock, or the file that tests write (CONTRACT, AIDAEMON_TEST_CLOCK). Raises ConfigError for a bad one."""
    path = os.environ.get(TEST_CLOCK)
    if not path:
        return SystemClock()
    try:
        datetime.fromisoformat(Path(path).read_text().strip())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{TEST_CLOCK}: {path} does not hold an instant like 2026-03-01T09:00:00+00:00: {error}") from error
    return FileClock(Path(path))


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
