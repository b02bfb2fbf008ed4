"""Composition root: builds a daemon from a config; one stack closes all parts."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from daemon.agent.answer_checks import AnswerChecker
from daemon.agent.budgets import BudgetExtension, Budgets, DailyUsage
from daemon.agent.context.builder import COMPACT, COMPACT_TOOLS, SYSTEM, ContextBuilder
from daemon.agent.final_messages import StopStats
from daemon.agent.loop import AgentLoop
from daemon.agent.models import AuxiliaryModel, ModelCaller, ModelRouting, RedactingChain
from daemon.agent.pre_call import PreCall
from daemon.agent.spec.registry import AgentRegistry
from daemon.agent.subagents.composite import CompositeRunner
from daemon.agent.subagents.manager import SubagentManager, spawn_agent
from daemon.app.config import Config, Loaded, make_redactor
from daemon.app.memory_recall import MemoryRecall
from daemon.app.models import ModelRoutes, ModelWarmup
from daemon.app.notifier import OwnerNotifier
from daemon.app.runtime_config import ReloadHook, RuntimeConfig
from daemon.app.tools import ToolFactory, load_tools
from daemon.client.local import LocalClient
from daemon.commands.admin import AdminCommands, RuleCommands, UndoCommand
from daemon.commands.approvals import ApprovalCommands
from daemon.commands.registry import CommandRunner
from daemon.commands.sessions import SessionCommands
from daemon.commands.status import StatusCommands
from daemon.core import value
from daemon.core.clock import BackgroundTasks, Clock, system_clock
from daemon.core.event_bus import EventBus
from daemon.core.ids import NewId, new_id
from daemon.core.redaction import Redactor
from daemon.core.trust import Role
from daemon.gateway.downloads import AttachmentDownloader
from daemon.loops.engine import LoopEngine
from daemon.outbox.channel_supervisor import ChannelState
from daemon.providers.chain import ProviderChain
from daemon.providers.prices import PriceList
from daemon.services.admin import PeopleService
from daemon.services.approvals import ApprovalService
from daemon.services.rules import RuleReader
from daemon.services.sessions import SessionService
from daemon.sessions.inbox import Inbox
from daemon.sessions.manager import SessionManager
from daemon.sessions.turn_setup import TurnPreparer
from daemon.sessions.worker import SessionDeps
from daemon.settings.last_good import ConfigChoice
from daemon.settings.load import LoadedConfig
from daemon.settings.paths import Paths
from daemon.store.journal import Store
from daemon.store.pruning import keep_pruning
from daemon.store.sqlite import SqliteStore
from daemon.tools.base import Tool
from daemon.tools.config_tools import config_tools
from daemon.tools.criteria_checks import CriteriaChecker
from daemon.tools.mcp.pins import PinStore
from daemon.tools.mcp.servers import ServerManager
from daemon.tools.policy.approvals import new_token
from daemon.tools.policy.gate import Judge, judge
from daemon.tools.signature import bind
from daemon.tools.workspace.inbox_folder import InboxFolder
from daemon.tools.workspace.send_file import MAX_SEND_BYTES
from daemon.triggers.events import EventTrigger
from memory.memory import Memory


@value
class Overrides:
    """What a test may replace. Another judge is for the negative control of the security tests;
    nothing that a user can set leads here.
    """

    tools: Sequence[Tool] = ()
    open_store: Callable[[Path], Awaitable[Store]] = SqliteStore.open
    new_id: NewId = new_id
    judge: Judge = judge


@value
class Daemon:
    """A running daemon, without a listener. `channel_states` and `config_roles`, by channel, are
    filled when channels are opened.
    """

    paths: Paths
    runtime: RuntimeConfig
    clock: Clock
    event_bus: EventBus
    redactor: Redactor
    new_id: NewId
    store: Store
    sessions: SessionManager
    inbox: Inbox
    commands: CommandRunner
    approvals: ApprovalService
    loops: LoopEngine
    client: LocalClient
    triggers: EventTrigger
    warmup: ModelWarmup
    servers: ServerManager | None
    notifier: OwnerNotifier
    channel_states: dict[str, ChannelState]
    config_roles: dict[str, Mapping[str, Role]]

    @property
    def config(self) -> Config:
        """The config in use."""
        return self.runtime.loaded.config

    async def wait_for_servers(self, seconds: float) -> None:
        """Wait until MCP servers have listed their tools: a turn that begins now finds them."""
        if self.servers:
            await self.servers.ready(seconds)


class DaemonBuilder:
    """Builds one daemon."""

    def __init__(
        self,
        paths: Paths,
        choice: ConfigChoice[Config],
        overrides: Overrides,
        stack: AsyncExitStack,
    ) -> None:
        self.paths, self.choice, self.overrides, self.stack = paths, choice, overrides, stack
        self.config, self.new_id = choice.loaded.config, overrides.new_id
        self.clock, self.event_bus = system_clock(), EventBus()
        self.redactor = make_redactor(paths, self.config)
        self.channel_states: dict[str, ChannelState] = {}
        self.config_roles: dict[str, Mapping[str, Role]] = {}

    async def build(self) -> Daemon:
        """Everything, ready to be started."""
        config, clock = self.config, self.clock
        self.paths.make_home()
        store = self.store = await self.overrides.open_store(self.paths.journal)
        self.stack.push_async_callback(store.aclose)
        memory = self.memory = await Memory.open(self.paths.memory)
        self.stack.push_async_callback(memory.aclose)
        if days := config.store.keep_days:
            background = BackgroundTasks()
            self.stack.push_async_callback(background.aclose)
            background.start(keep_pruning(store, clock, days, self._list_cited_turns), "pruning")
        usage = self.usage = DailyUsage(clock, config.budget)
        await usage.load(store)
        self.budgets = Budgets(store, usage)
        agents = self.agents = AgentRegistry.open(self.paths.agents, config.agent)
        self.subagents = SubagentManager(
            store, self.event_bus, config.subagents, config.agent, agents, self.new_id
        )
        self.notifier = OwnerNotifier(store, clock, self.new_id, self._is_channel_up)
        loaded, hooks = self.choice.loaded, self._make_reload_hooks()
        self.runtime = RuntimeConfig(self.paths, loaded, hooks, self.notifier, self.choice.notice)
        await self._build_tools()
        agent = await self._build_agent()
        sessions = self.sessions = SessionManager(self._make_session_deps(agent))
        self.loops = LoopEngine(
            store,
            sessions,
            agents,
            CriteriaChecker(self.tools.sandbox),
            clock,
            self.new_id,
            self.event_bus,
            new_token,
        )
        return self._connect()

    async def _list_cited_turns(self) -> set[str]:
        return {fact.source for fact in await self.memory.facts(1_000_000)}

    def _make_reload_hooks(self) -> dict[str, ReloadHook]:
        def reload_agent(config: Config) -> None:
            self.agents.set_defaults(config.agent)
            self.subagents.defaults = config.agent

        def reload_subagents(config: Config) -> None:
            self.subagents.config = config.subagents

        return {
            "agent": reload_agent,
            "budget": lambda config: self.usage.set_config(config.budget),
            "subagents": reload_subagents,
        }

    async def _build_tools(self) -> None:
        self.tools = ToolFactory(
            self.paths,
            self.config,
            self.store,
            self.clock,
            self.event_bus,
            self.redactor,
            self.new_id,
            self.stack,
            self._get_upload_limit,
        )
        await self.tools.open()
        more = [
            *bind([spawn_agent], {SubagentManager: self.subagents}),
            *config_tools(self.runtime),
            *load_tools(),
            *self.overrides.tools,
        ]
        self.registry = self.tools.create_registry(self.memory, more)
        self.agents.set_tools(self.registry.names())
        self.rules = await self.tools.load_rules(self.registry)
        self.servers = await self.tools.start_servers(self.registry, self.notifier)

    async def _build_agent(self) -> AgentLoop:
        config, clock = self.config, self.clock
        prices = PriceList(config.provider.prices)
        models = ModelRoutes(self.runtime, clock, self.stack)
        save = self.runtime.save_last_good
        routes = ModelRouting(models.build_choice(), prices, self.usage, save, models.on_failure)
        local = config.provider.kind == "local"
        context = ContextBuilder(
            toolbox=self.registry,
            core=COMPACT_TOOLS if local else self.registry.core_names(),
            system=COMPACT if local else SYSTEM,
            window=config.agent.context_window,
            max_tokens=config.provider.max_tokens or None,
        )
        chain = RedactingChain(ProviderChain(sleep=asyncio.sleep, prices=prices), self.redactor)
        stops = StopStats()
        await stops.load(self.store, list(self.agents.names()))
        auxiliary = AuxiliaryModel(chain, routes, self.budgets, clock)
        self.rule_reader = RuleReader(chain, routes, self.budgets, self.store, clock, local)
        checks = CriteriaChecker(self.tools.sandbox)
        self.routes, self.recall = routes, MemoryRecall(self.memory, clock)
        self.warmup = ModelWarmup(routes.choice.primary, context)
        self.stack.push_async_callback(self.warmup.aclose)
        return AgentLoop(
            builder=context,
            model_caller=ModelCaller(
                chain=chain,
                routing=routes,
                budgets=self.budgets,
                live=self.event_bus,
                clock=clock,
                new_seed=lambda: secrets.randbits(31),
            ),
            tools=self.tools.create_executor(self.registry, self.rules, self.overrides.judge),
            budgets=self.budgets,
            pre_call=PreCall(context, auxiliary, routes, clock),
            answer_checker=AnswerChecker(checks, auxiliary, self.recall.keep, clock, new_token),
            budget_extension=BudgetExtension(
                self.usage, clock, new_token, config.tools.approval_minutes
            ),
            composite=CompositeRunner(self.subagents, clock.now),
            stop_stats=stops,
            clock=clock,
        )

    def _make_session_deps(self, agent: AgentLoop) -> SessionDeps:
        agents, may_ask = self.agents, asyncio.Event()
        may_ask.set()
        return SessionDeps(
            store=self.store,
            live=self.event_bus,
            clock=self.clock,
            agent=agent,
            preparer=TurnPreparer(agents, lambda: agents.defaults, self.recall),
            budgets=self.budgets,
            children=self.subagents,
            effort=lambda: agents.defaults.effort,
            while_busy=lambda: agents.defaults.while_busy,
            owner=f"{os.getpid()}",
            stopping=asyncio.Event(),
            approvals_pending=may_ask,
            fetch=AttachmentDownloader(self.channel_states, InboxFolder(self.paths.inbox)),
        )

    def _connect(self) -> Daemon:
        """What people ask of it: services, commands, client."""
        store, clock, sessions, loops = self.store, self.clock, self.sessions, self.loops
        services = SessionService(store, sessions, loops, self.agents)
        approvals = ApprovalService(store, sessions, clock, self.new_id)
        people = PeopleService(store, clock, sessions=sessions, config_roles=self.config_roles)
        groups = (
            StatusCommands(store, clock, self.routes, self.usage.today, self._describe_state),
            SessionCommands(clock, services, self.routes),
            ApprovalCommands(approvals),
            AdminCommands(people, self.runtime.reload, PinStore(store), self.servers),
            RuleCommands(store, self.rules, self.rule_reader),
            UndoCommand(store, self.tools.files, self.new_id),
        )
        commands = CommandRunner(store, clock, groups)
        inbox = Inbox(store, sessions, clock, self.new_id, self.redactor)
        client = LocalClient(
            store,
            inbox=inbox,
            commands=commands,
            approvals=approvals,
            sessions=services,
            people=people,
            loops=loops,
            events=self.event_bus,
            problems=self._list_problems,
            notice=lambda: self.runtime.notice,
        )
        triggers = EventTrigger(
            self.config.events, store, sessions, clock, self.new_id, self.redactor
        )
        return Daemon(
            paths=self.paths,
            runtime=self.runtime,
            clock=clock,
            event_bus=self.event_bus,
            redactor=self.redactor,
            new_id=self.new_id,
            store=store,
            sessions=sessions,
            inbox=inbox,
            commands=commands,
            approvals=approvals,
            loops=loops,
            client=client,
            triggers=triggers,
            warmup=self.warmup,
            servers=self.servers,
            notifier=self.notifier,
            channel_states=self.channel_states,
            config_roles=self.config_roles,
        )

    def _is_channel_up(self, channel: str) -> bool:
        return channel in self.channel_states and self.channel_states[channel].up.is_set()

    def _get_upload_limit(self, channel: str) -> int:
        """Bytes of a file that it takes; a channel that is not connected may take them later."""
        state = self.channel_states.get(channel)
        return state.channel.capabilities.max_upload if state else MAX_SEND_BYTES

    def _describe_state(self) -> list[str]:
        channels = [f"Channel {state.describe()}" for state in self.channel_states.values()]
        return [*channels, *([f"Config: {self.runtime.notice}"] if self.runtime.notice else [])]

    def _list_problems(self) -> list[str]:
        journal = [] if self.store.healthy else ["the journal cannot be written"]
        states = self.channel_states.values()
        return journal + [text for state in states if (text := state.describe_problem())]


@asynccontextmanager
async def open_daemon(
    paths: Paths, choice: ConfigChoice[Config] | Loaded, overrides: Overrides | None = None
) -> AsyncIterator[Daemon]:
    """At the end running turns get `drain_seconds` to finish; cut ones resume later."""
    if isinstance(choice, LoadedConfig):
        choice = ConfigChoice(choice)
    async with AsyncExitStack() as stack:
        daemon = await DaemonBuilder(paths, choice, overrides or Overrides(), stack).build()
        await daemon.commands.report_interrupted()
        try:
            yield daemon
        finally:
            await daemon.loops.aclose()
            await daemon.sessions.aclose(daemon.config.agent.drain_seconds)
