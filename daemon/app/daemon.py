"""What the channels are given of the house.

The composition root: a config becomes a daemon, every part given what it needs, every lifetime in one stack.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from daemon.agent.budgets import Budgets, DailyUsage
from daemon.agent.context.builder import COMPACT, COMPACT_TOOLS, SYSTEM, ContextBuilder
from daemon.agent.loop import AgentLoop
from daemon.agent.model_call import RedactingChain
from daemon.agent.routing import ModelRouting
from daemon.agent.spec.registry import AgentRegistry
from daemon.agent.subagents.manager import SubagentManager
from daemon.agent.subagents.spawn_tool import spawn_agent
from daemon.app.agent_factory import AgentFactory, MemoryRecall
from daemon.app.config import make_runtime_config
from daemon.app.models import ModelRoutes, ModelWarmup
from daemon.app.tools import ToolFactory
from daemon.client.local import LocalClient
from daemon.commands.admin import AdminCommands
from daemon.commands.approvals import ApprovalCommands
from daemon.commands.model import ModelCommands
from daemon.commands.rules import RuleCommands
from daemon.commands.run import CommandRunner
from daemon.commands.sessions import SessionCommands
from daemon.commands.status import StatusCommands
from daemon.commands.undo import UndoCommand
from daemon.core import value
from daemon.core.clock import Clock, system_clock
from daemon.core.event_bus import EventBus
from daemon.core.ids import NewId, new_id
from daemon.core.journal import Store
from daemon.core.redaction import Redactor
from daemon.core.trust import Role
from daemon.gateway.downloads import AttachmentDownloader
from daemon.loops.config import CriterionChecker
from daemon.loops.engine import LoopEngine
from daemon.outbox.channel_supervisor import ChannelState
from daemon.providers.chain import ProviderChain
from daemon.providers.prices import PriceList
from daemon.services.approvals import ApprovalService
from daemon.services.people import PeopleService
from daemon.services.sessions import SessionService
from daemon.sessions.inbox import Inbox
from daemon.sessions.manager import SessionManager
from daemon.sessions.turn_setup import TurnPreparer
from daemon.sessions.worker import SessionDeps
from daemon.settings.load import LoadedConfig
from daemon.settings.model import Config
from daemon.settings.paths import Paths
from daemon.settings.secret_values import make_redactor
from daemon.store.sqlite import SqliteStore
from daemon.tools.base import Tool
from daemon.tools.config_tools import config_tools
from daemon.tools.criteria_checks import CriteriaChecker
from daemon.tools.mcp.pins import PinStore
from daemon.tools.mcp.servers import ServerManager
from daemon.tools.policy.approvals import new_token
from daemon.tools.policy.table import Judge, judge
from daemon.tools.registry import ToolRegistry
from daemon.tools.signature import bind
from daemon.tools.workspace.inbox_folder import InboxFolder
from daemon.tools.workspace.send_file import MAX_SEND_BYTES
from daemon.triggers.events import EventTrigger
from memory.memory import Memory


@value
class ChannelDeps:
    """`outlets` and `listed` are filled when the channels are opened; the house looks there how they are, and at what the config
    says of people, by channel and by sender.
    """

    config: Config
    paths: Paths
    clock: Clock
    live: EventBus
    redactor: Redactor
    new_id: NewId
    store: Store
    inbox: Inbox
    commands: CommandRunner
    approvals: ApprovalService
    channel_states: dict[str, ChannelState]
    roles_by_channel: dict[str, Mapping[str, Role]]

    def is_channel_up(self, channel: str) -> bool:
        """This channel is there, and works now."""
        return channel in self.channel_states and self.channel_states[channel].up.is_set()




@value
class Overrides:
    """What a test or an add-on may bring along: tools beside the house's own, another way to open the journal. Another judge is
    for the negative control of the security tests alone; nothing that a user can set leads here.
    """

    tools: Sequence[Tool] = ()
    open_store: Callable[[Path], Awaitable[Store]] = SqliteStore.open
    new_id: NewId = new_id
    judge: Judge = judge


@value
class Daemon:
    """A daemon that works, without a listener."""

    config: Config
    door: LocalClient
    sessions: SessionManager
    store: Store
    warm_up: ModelWarmup
    loops: LoopEngine
    events: EventTrigger
    channel_deps: ChannelDeps
    servers: ServerManager | None = None

    async def wait_for_servers(self, seconds: float) -> None:
        """Wait, so long at most, until MCP servers have shown their tools: a turn that begins at once is to find them."""
        if self.servers:
            await self.servers.ready(seconds)


@dataclass(slots=True)
class DaemonBuilder:
    """Builds one house. The stack closes what was opened, in reverse order."""

    paths: Paths
    loaded: LoadedConfig
    overrides: Overrides
    stack: AsyncExitStack
    clock: Clock
    live: EventBus = field(default_factory=EventBus)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    redactor: Redactor = field(init=False)
    channel_states: dict[str, ChannelState] = field(default_factory=dict)
    roles_by_channel: dict[str, Mapping[str, Role]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.redactor = make_redactor(self.paths, self.config)

    @property
    def config(self) -> Config:
        """The config it is built from."""
        return self.loaded.config

    async def build(self) -> Daemon:
        """Everything, ready to be told to start."""
        self.paths.make_home()
        store = await self.overrides.open_store(self.paths.journal)
        self.stack.push_async_callback(store.aclose)
        memory = await Memory.open(self.paths.memory)
        self.stack.push_async_callback(memory.aclose)
        ledger = DailyUsage(self.clock, self.config.budget)
        await ledger.load(store)
        specs = AgentRegistry.open(self.paths.agents, self.config.agent)
        children = self._children(store, specs)
        settings = make_runtime_config(self.paths, self.loaded, specs, children, ledger)
        works = ToolFactory(
            self.paths,
            self.config,
            store,
            self.clock,
            self.live,
            self.redactor,
            self.overrides.new_id,
            self.stack,
            self._get_upload_limit,
        )
        await works.open()
        own = [
            *bind([spawn_agent], {SubagentManager: children}),
            *config_tools(settings),
            *self.overrides.tools,
        ]
        tools, sandbox = works.create_tools(memory, own), works.sandbox
        specs.set_tools(tools.names())
        routes, context = self._routes(ledger), self._context(tools)
        agents = AgentFactory(
            self.config,
            store,
            self.clock,
            self.live,
            ledger,
            routes,
            context,
            children,
            sandbox,
            memory,
        )
        chain = RedactingChain(
            ProviderChain(sleep=asyncio.sleep, prices=self._prices()), self.redactor
        )
        rules = await works.load_rules(tools)
        agent = await agents.create(
            works.create_dispatcher(tools, rules, self.overrides.judge), chain, specs
        )
        sessions = SessionManager(
            self._session_deps(store, agent, agents.budgets, children, specs, MemoryRecall(memory))
        )
        criteria = CriterionChecker(CriteriaChecker(sandbox))
        loops = LoopEngine(
            store,
            sessions,
            specs,
            criteria,
            self.clock,
            self.overrides.new_id,
            self.live,
            new_token,
        )
        servers = await works.start_servers(tools)
        services = SessionService(store, sessions, loops, specs)
        approvals = ApprovalService(store, sessions, self.clock, self.overrides.new_id)
        people = PeopleService(
            store, self.clock, sessions=sessions, config_roles=self.roles_by_channel
        )
        groups = (
            StatusCommands(store, self.clock, routes, ledger.today, self._describe_channels),
            SessionCommands(store, self.clock, services, loops),
            ApprovalCommands(store, self.clock, approvals),
            ModelCommands(routes, specs, services),
            AdminCommands(people, settings, PinStore(store), servers),
            RuleCommands(store, rules),
            UndoCommand(store, works.files, self.overrides.new_id),
        )
        handlers = {name: run for group in groups for name, run in group.handlers().items()}
        commands = CommandRunner(store, self.clock, handlers)
        inbox = Inbox(store, sessions, self.clock, self.overrides.new_id, self.redactor)
        door = LocalClient(
            store,
            inbox=inbox,
            commands=commands,
            approvals=approvals,
            sessions=services,
            people=people,
            loops=loops,
            events=self.live,
            problems=lambda: self._list_problems(store),
        )
        warm_up = ModelWarmup(routes.choice.primary, context)
        self.stack.push_async_callback(warm_up.aclose)
        events = EventTrigger(
            self.config.events,
            store,
            sessions,
            self.clock,
            self.overrides.new_id,
            redactor=self.redactor,
        )
        return Daemon(
            self.config,
            door,
            sessions,
            store,
            warm_up,
            loops,
            events,
            self._channel_deps(store, inbox, commands, approvals),
            servers,
        )

    def _get_upload_limit(self, channel: str) -> int:
        """Bytes of a file that it takes; what is not connected now may take them later."""
        return (
            self.channel_states[channel].channel.capabilities.max_upload
            if channel in self.channel_states
            else MAX_SEND_BYTES
        )

    def _describe_channels(self) -> list[str]:
        return [state.describe() for state in self.channel_states.values()]

    def _list_problems(self, store: Store) -> list[str]:
        journal = [] if store.healthy else ["the journal cannot be written"]
        return [
            *journal,
            *(
                trouble
                for outlet in self.channel_states.values()
                if (trouble := outlet.describe_problem())
            ),
        ]

    def _channel_deps(
        self, store: Store, inbox: Inbox, commands: CommandRunner, approvals: ApprovalService
    ) -> ChannelDeps:
        return ChannelDeps(
            self.config,
            self.paths,
            self.clock,
            self.live,
            self.redactor,
            self.overrides.new_id,
            store,
            inbox,
            commands,
            approvals,
            self.channel_states,
            self.roles_by_channel,
        )

    def _children(self, store: Store, specs: AgentRegistry) -> SubagentManager:
        config = self.config
        return SubagentManager(
            store, self.live, config.subagents, config.agent, specs, self.overrides.new_id
        )

    def _routes(self, ledger: DailyUsage) -> ModelRouting:
        models = ModelRoutes(self.paths, self.loaded, self.clock, self.stack)
        return ModelRouting(
            models.build_choice(), self._prices(), ledger, models.on_success, models.on_failure
        )

    def _prices(self) -> PriceList:
        return PriceList(self.config.provider.prices)

    def _context(self, tools: ToolRegistry) -> ContextBuilder:
        local = self.config.provider.kind == "local"
        return ContextBuilder(
            toolbox=tools,
            core=COMPACT_TOOLS if local else tools.core_names(),
            system=COMPACT if local else SYSTEM,
            window=self.config.agent.context_window,
            max_tokens=self.config.provider.max_tokens or None,
        )

    def _session_deps(
        self,
        store: Store,
        agent: AgentLoop,
        budgets: Budgets,
        children: SubagentManager,
        specs: AgentRegistry,
        recollect: MemoryRecall,
    ) -> SessionDeps:
        return SessionDeps(
            store=store,
            live=self.live,
            clock=self.clock,
            agent=agent,
            preparer=TurnPreparer(specs, lambda: specs.defaults, recollect),
            budgets=budgets,
            children=children,
            effort=lambda: specs.defaults.effort,
            while_busy=lambda: specs.defaults.while_busy,
            owner=f"{os.getpid()}",
            stopping=self.leaving,
            approvals_pending=_set_event(),
            fetch=AttachmentDownloader(self.channel_states, InboxFolder(self.paths.inbox)),
        )


@asynccontextmanager
async def open_daemon(
    paths: Paths, loaded: LoadedConfig, parts: Overrides | None = None
) -> AsyncIterator[Daemon]:
    """A house that is closed in good order: running turns get `drain_seconds` to finish, then they are cut and go on later."""
    async with AsyncExitStack() as stack:
        house = await DaemonBuilder(
            paths, loaded, parts or Overrides(), stack, system_clock()
        ).build()
        await house.channel_deps.commands.report_interrupted()
        try:
            yield house
        finally:
            await house.loops.aclose()
            await house.sessions.aclose(house.config.agent.drain_seconds)


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
