"""Composition root: builds a daemon from a config; one stack closes all parts."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

from channels.email.config import EmailAccount
from daemon.access.owner_sessions import OwnerSessions
from daemon.agent.answer_checks import AnswerChecker
from daemon.agent.budgets import Budgets, DailyUsage
from daemon.agent.context.builder import (
    COMPACT,
    COMPACT_ARGUMENTS,
    COMPACT_TOOLS,
    SYSTEM,
    ContextBuilder,
    TurnContext,
)
from daemon.agent.context.history import ReadOnlySink
from daemon.agent.loop import AgentLoop
from daemon.agent.models import ModelCaller, ModelChoice, ModelRouting, RedactingChain
from daemon.agent.outside_turns import OutsideCaller
from daemon.agent.pre_call import classify_by_rules
from daemon.agent.request_ladder import Adaptations
from daemon.agent.spec.registry import AgentRegistry
from daemon.agent.subagents.manager import SubagentManager, spawn_agent
from daemon.agent.termination.conditions import StopStats
from daemon.app.adapters import MEMORY_SET_ASIDE, OwnerNotifier, make_consolidator, open_memory
from daemon.app.config import Config, Loaded, list_mailboxes
from daemon.app.lost_files import list_lost
from daemon.app.runtime_config import build_choice
from daemon.app.tools import Overrides, ToolOwner, make_transcriber
from daemon.client.local import LocalClient
from daemon.commands.admin import AdminCommands, UndoCommand
from daemon.commands.approvals import ApprovalCommands
from daemon.commands.files import TrustCommands
from daemon.commands.goals import GoalCommands
from daemon.commands.memory import MEMORY_WAITS, MemoryCommands, count_memories
from daemon.commands.plans import PlanCommand
from daemon.commands.registry import CommandRunner
from daemon.commands.rules import RuleCommands
from daemon.commands.schedules import ScheduleCommands
from daemon.commands.sessions import SessionCommands
from daemon.core.clock import BackgroundTasks, set_timezone
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.messages import Usage
from daemon.core.rows import InboxRow, SessionRow
from daemon.core.trust import Role
from daemon.core.turn import Turn
from daemon.gateway.downloads import AttachmentDownloader
from daemon.loops.engine import LoopEngine
from daemon.providers.chain import PriceList, ProviderChain
from daemon.recall.embedding import EmbeddingWorker, ThreadedEmbedder
from daemon.recall.endpoint import EndpointConsent, EndpointEmbedder
from daemon.recall.forgetting import Forgetter
from daemon.recall.indexer import ConversationIndexer
from daemon.recall.recall import MemoryRecall
from daemon.services.admin import PeopleService
from daemon.services.agent_settings import AgentSettings
from daemon.services.approvals import ApprovalService
from daemon.services.forks import ForkService
from daemon.services.overview import Overview
from daemon.services.sessions import SessionService
from daemon.sessions.brakes import Intake
from daemon.sessions.inbox import Inbox
from daemon.sessions.manager import SessionManager
from daemon.sessions.turn_setup import TurnPreparer
from daemon.settings.paths import Paths
from daemon.settings.secrets import ActiveSecrets, SecretStore, find_config_secrets
from daemon.store.codec import SCHEMA, UnreadableEvent, decode
from daemon.store.pruning import keep_pruning
from daemon.tools.base import Tool
from daemon.tools.config_tools import config_tools
from daemon.tools.criteria_checks import CriteriaChecker
from daemon.tools.documents.describing import FileDescriber
from daemon.tools.documents.pictures import PictureLoader
from daemon.tools.documents.reader import DocumentReader
from daemon.tools.documents.uploads import Uploads
from daemon.tools.executor import ToolExecutor
from daemon.tools.mcp.pins import PinStore
from daemon.tools.memory_tools import OwnersMemory
from daemon.tools.signature import bind
from daemon.tools.web.client import WebClient
from daemon.tools.workspace.inbox_folder import InboxFolder
from daemon.triggers.conditions import ConditionChecker
from daemon.triggers.events import EventTrigger
from daemon.triggers.goals import GoalEngine, goal_done, goal_tool
from daemon.triggers.mail import MailTrigger
from daemon.triggers.orders import list_tasks
from daemon.triggers.schedule_tool import SessionSchedules, schedule_tool
from daemon.triggers.schedules import ScheduleEngine
from memory.conversations import Conversations
from memory.embedder import ColBert, Embedder, EmbedderError

# The events of every turn.
MAX_FILE_CHARS = 40_000  # and about a quarter of the window: a token has four
FIRST_EVENTS = ("UserSaid", "Classified", "ModelAsked", "ModelReplied", "TurnEnded")


class Daemon(ToolOwner):
    """A running daemon, without a listener. `config_roles`, by channel, are filled when channels
    are opened.
    """

    async def open(self) -> None:
        """Build everything, ready to be started."""
        config, clock = self.config, self.clock
        self.background, self.config_roles = BackgroundTasks(), dict[str, Mapping[str, Role]]()
        set_timezone(config.general.timezone)
        self.runtime.on_reload, self.ready = self._apply_config, asyncio.Event()
        self.paths.make_home()
        await self._open_files()
        store, memory = self.store, self.memory
        self.owner_sessions = OwnerSessions(
            store,
            self.list_shared_names,
            lambda: self.runtime.loaded.config.memory.owner_sessions,
        )
        usage = DailyUsage(clock, config.budget, self.owner_sessions.is_owners)
        self.usage = usage
        await usage.load(store)
        self.budgets = Budgets(store, usage, self.make_answer_times())
        agents = self.agents = AgentRegistry.open(self.paths.agents, config.agent)
        self.subagents = SubagentManager(
            store, self.event_bus, config.subagents, config.agent, agents, self.new_id
        )
        self.uploads = Uploads(self.paths.inbox.parent / "uploads")
        self.notifier = OwnerNotifier(store, clock, self.new_id, self._is_channel_up)
        memory.on_waiting = partial(self.notifier, MEMORY_WAITS)
        endpoint = config.memory.openai if config.memory.embedder == "openai" else None
        self.consent = EndpointConsent(endpoint, memory.database, self.notifier.insist)
        self.schedules = self._make_schedules()
        goals = self.goals = GoalEngine(self.schedules, usage)
        self.schedules.add_note = goals.describe_costs
        finders = OwnersMemory(memory, self.conversations, self.owner_sessions.is_own)
        executor = await self.build_tools(finders, self._make_tools())
        seconds, client = self.overrides.command_s, WebClient(config.tools.http)
        self.criteria = CriteriaChecker(self.sandbox, self.effects, seconds)
        boxes = list_mailboxes(config)
        self.schedules.conditions = ConditionChecker(self.criteria, client, self.files, boxes)
        agents.set_tools(self.list_tool_names)
        sessions = self.sessions = SessionManager(
            store,
            self.event_bus,
            clock,
            await self._build_agent(executor),
            TurnPreparer(agents, self.recall),
            self.budgets,
            self.subagents,
            self._make_downloader(),
        )
        self.loops = LoopEngine(
            store,
            sessions,
            agents,
            self.criteria,
            clock,
            self.new_id,
            self.event_bus,
        )
        self._connect()
        await self.intake.load(store)
        await self._sync_schedules()
        self._start_indexer()

    def _start_indexer(self) -> None:
        """What is said becomes memory, and old turns are removed from both."""
        if days := self.config.store.keep_days:
            forget, cited = self.conversations.forget_turns, self._list_cited_turns
            pruning = keep_pruning(self.store, self.clock, days, cited, forget)
            self.background.start(pruning, "pruning")
        ended = asyncio.Event()
        self.event_bus.end_listeners.append(ended.set)
        is_own = self.owner_sessions.find_own
        indexer = ConversationIndexer(self.store, self.conversations, is_own, self.clock, ended)
        self.background.start(indexer.run(), "index of conversations")
        self.background.start(self.consolidator.run(), "consolidation")
        self.background.start(self.forgetter.run(), "forgetting")
        if self.config.memory.embedder != "none":
            worker = EmbeddingWorker(self.conversations, self._load_embedder)
            self.background.start(worker.run(), "embedding")

    async def _open_files(self) -> None:
        """The journal and the memory. `faults_of_home` tells what is new and should not be."""
        self.faults_of_home = list_lost(self.paths)
        self.store = await self.overrides.open_store(self.paths.journal)
        self.stack.push_async_callback(self.store.aclose)
        self.memory = await open_memory(self.paths.memory)
        self.conversations = await Conversations.open(self.memory.database)
        self.stack.push_async_callback(self.memory.aclose)
        self.stack.push_async_callback(self.background.aclose)
        if aside := self.memory.set_aside:
            text = MEMORY_SET_ASIDE.format(path=self.paths.memory, name=aside.name)
            self.faults_of_home.append(text)

    def _count_shown(self) -> tuple[int, int]:
        config = self.runtime.loaded.config.memory
        return config.salience, config.relevance

    async def _list_cited_turns(self) -> set[str]:
        return await self.memory.turns()

    def _make_tools(self) -> list[Tool]:
        """Those of this daemon's own parts."""
        schedules = SessionSchedules(self.schedules, self.owner_sessions.is_own)
        parts = {SubagentManager: self.subagents, GoalEngine: self.goals}
        made = [*bind([spawn_agent, goal_done], parts), *config_tools(self.runtime)]
        return [*made, goal_tool(self.goals), schedule_tool(schedules, self.clock)]

    def _make_schedules(self) -> ScheduleEngine:
        """Without its conditions, for it has a tool, and they need the tools' parts."""
        made = ScheduleEngine(
            self.store,
            self._begin_scheduled,
            self.clock,
            self.new_id,
            partial(random.uniform, 0),
            self.background,
        )
        self.stack.push_async_callback(made.aclose)
        return made

    def _begin_scheduled(self, session: SessionRow, row: InboxRow) -> None:
        self.sessions.deliver(session, row, stream=False)

    async def _sync_schedules(self) -> None:
        config = self.config.scheduler
        self.schedules.set_zone = config.timezone or self.config.general.timezone
        await self.schedules.sync(list_tasks(config), config.session)

    def _apply_config(self, config: Config) -> None:
        """After a reload: new turns use it."""
        if isinstance(known := self.redactor.source, ActiveSecrets):
            known.add(find_config_secrets(config))
        self.background.start(self._sync_schedules(), "schedules")
        self.agents.set_defaults(config.agent)
        self.subagents.defaults, self.subagents.config = config.agent, config.subagents
        self.usage.set_config(config.budget)
        self.adaptations.clear()
        self.routes.failures = 0
        self.servers.configure(config.mcp)

    async def _build_agent(self, executor: ToolExecutor) -> AgentLoop:
        config, clock = self.config, self.clock
        prices = PriceList(config.provider.prices)
        choice = build_choice(config.provider, clock, self.stack)
        save = self.runtime.save_last_good
        routes = ModelRouting(choice, prices, self.usage, save, self._load_last_good)
        local = config.provider.kind == "local"
        context = ContextBuilder(
            toolbox=self.registry,
            core=COMPACT_TOOLS if local else self.registry.core_names(),
            system=COMPACT if local else SYSTEM,
            arguments=COMPACT_ARGUMENTS if local else {},
            window=config.agent.context_window,
            max_tokens=config.provider.max_tokens or None,
        )
        pictures = PictureLoader(InboxFolder(self.paths.inbox))
        asked = ProviderChain(sleep=asyncio.sleep, prices=prices)
        chain = RedactingChain(asked, self.redactor, pictures.fill)
        stops = StopStats()
        await stops.load(self.store, list(self.agents.names()))
        self.adaptations = Adaptations(clock.monotonic)
        caller = ModelCaller(
            chain,
            routes,
            self.budgets,
            self.event_bus,
            clock,
            lambda: secrets.randbits(31),
            self.adaptations,
        )
        beside = self.beside = OutsideCaller(self.store, caller)
        self.rule_commands = RuleCommands(self.store, self.rules, beside)
        self.consolidator = make_consolidator(
            self.memory, beside, clock, self.schedules, self.owner_sessions.is_own, self.runtime
        )
        self.recall = MemoryRecall(
            self.memory,
            self.conversations,
            clock,
            self.owner_sessions.is_own,
            self._count_shown,
        )
        # The embedded model would be led astray by it (H8).
        may_find = _find_nothing if local else self.recall.may_find
        self.routes = routes
        self.context = context
        return AgentLoop(
            builder=context,
            models=caller,
            tools=executor,
            budgets=self.budgets,
            answer_checker=AnswerChecker(
                self.criteria, caller, self.recall.keep, may_find, executor.registry
            ),
            subagents=self.subagents,
            stop_stats=stops,
            clock=clock,
        )

    def _connect(self) -> None:
        """What people ask of it: services, commands, client."""
        store, clock, sessions, loops = self.store, self.clock, self.sessions, self.loops
        services = SessionService(store, sessions, loops, self.agents)
        kept, asked_by = SecretStore(self.paths.secrets), self.config.tools.approvals.build()
        approvals = self.approvals = ApprovalService(
            store, sessions, clock, self.new_id, kept, asked_by
        )
        people = PeopleService(store, clock, sessions=sessions, config_roles=self.config_roles)
        self.trust = TrustCommands(self.effects)
        intake = self.intake = Intake(self.config.limits, clock)
        inbox = self.inbox = Inbox(store, sessions, clock, self.new_id, self.redactor, intake)
        forgetter = self.forgetter = self._make_forgetter()
        groups = (
            SessionCommands(clock, services, self.routes, self.usage.today, self._describe_state),
            ApprovalCommands(approvals),
            AdminCommands(people, self.runtime.reload, PinStore(store), self.servers, inbox),
            self.rule_commands,
            UndoCommand(store, self.files),
            ScheduleCommands(self.schedules),
            GoalCommands(self.goals, services),
            PlanCommand(inbox),
            MemoryCommands(
                self.memory,
                self.conversations,
                self.consolidator,
                forgetter,
                self.consent,
                clock,
            ),
            self.trust,
        )
        commands = self.commands = CommandRunner(store, clock, groups, self.owner_sessions.is_own)
        self.client = LocalClient(
            store,
            inbox,
            commands,
            approvals,
            services,
            people,
            loops,
            self.memory,
            self.conversations,
            self.consent,
            self.schedules,
            self.goals,
            self.owner_sessions,
            self.uploads,
            self.event_bus,
            self.rule_commands,
            ForkService(store, sessions, clock, self.new_id),
            AgentSettings(self.agents, self.runtime, self.runtime.reload),
            self._make_overview(),
            self.beside,
            self.config.agent.context_window,
        )
        self.triggers = EventTrigger(
            self.config.events, store, sessions, clock, self.new_id, self.redactor, intake
        )

    def _make_overview(self) -> Overview:
        today, models, folder = self.usage.today, self.routes.list_models, self.paths.backups
        parts, told = (self.channel_states, self.servers), (self._list_problems, self._list_notes)
        return Overview(self.store, self.clock, today, *parts, models, folder, *told)

    def _make_forgetter(self) -> Forgetter:
        inbox, reload = InboxFolder(self.paths.inbox), self.sessions.reload_histories
        return Forgetter(self.memory, self.store, inbox, self.files, self.paths, reload, self.clock)

    def make_mail_trigger(self, accounts: Mapping[str, EmailAccount]) -> MailTrigger:
        """For the mailboxes of the config, by their channels' names."""
        return MailTrigger(
            accounts,
            self.store,
            self.sessions,
            self.clock,
            self.new_id,
            self.redactor,
            self.intake,
            self.schedules.conditions,
        )

    async def _load_last_good(self, kind: ErrorClass) -> tuple[ModelChoice, str] | None:
        """The first call failed: the routes of the last good config, if they can take over."""
        if not await self.runtime.fall_back(kind):
            return None
        notice = self.runtime.loaded.notice
        await self.notifier(notice)
        return build_choice(self.config.provider, self.clock, self.stack), notice

    async def warm_up(self) -> None:
        """Do in the background what a first turn would wait for: readers of events, patterns,
        prices, a first request, which is sent if the model is embedded.

        Loading an embedded model takes seconds: better when the daemon is ready than during a
        conversation. A message that comes meanwhile goes next.
        """
        for kind in FIRST_EVENTS:
            with suppress(UnreadableEvent):
                await asyncio.to_thread(decode, kind, SCHEMA, "{}")
        await asyncio.to_thread(classify_by_rules, "hello")
        choice = self.routes.choice.primary
        self.routes.prices.get_usd(choice.provider.name, choice.model, Usage())
        turn = Turn(id="warm-up", session="", sink=ReadOnlySink())
        request = self.context.build_prompt(turn, TurnContext()).request
        if choice.provider.name == "local":
            await self.ready.wait()
            with suppress(ProviderError):
                await choice.provider.complete(choice.model, replace(request, max_tokens=1))

    def _make_downloader(self) -> AttachmentDownloader:
        inbox = InboxFolder(self.paths.inbox)
        describe = FileDescriber(
            inbox,
            DocumentReader(self.sandbox),
            self.pictures,
            make_transcriber(self.config.voice, self.sandbox, self.clock, self.beside.reserve),
            self.redactor.redact_text,
        )
        most = min(MAX_FILE_CHARS, self.config.agent.context_window)
        return AttachmentDownloader(self.channel_states, inbox, self.uploads, describe, most)

    def _is_channel_up(self, channel: str) -> bool:
        state = self.channel_states.get(channel)
        return state is not None and state.up.is_set() and not state.is_deaf

    async def _describe_state(self) -> list[str]:
        channels = [f"Channel {state.describe()}" for state in self.channel_states.values()]
        notice, waiting = self.runtime.loaded.notice, self.memory.waiting
        lines = [f"Config: {notice}"] if notice else []
        lines += [f"HOME: {fault}" for fault in self.faults_of_home]
        if waiting:
            lines.append(f"{count_memories(waiting)} your yes: /memory pending")
        for name, why in self.servers.problems().items():
            lines.append(f"MCP server {name} is not there: {why} (/mcp)")
        if self.consent.waits:
            lines.append(f"Memory: {self.consent.question}")
        if (layers := self.sandbox.layers) and layers.obstacle:
            lines.append(f"Sandbox: {await asyncio.to_thread(layers.describe)}")
        return [*channels, *lines, *filter(None, [await self.trust.describe()])]

    def _list_notes(self) -> list[str]:
        """What is not as it should be, while it serves all the same; anybody may read it."""
        advice = self.servers.list_advice()
        lines = [f"MCP server {name} is not there{why}" for name, why in advice.items()]
        return [*filter(None, (self.runtime.loaded.notice, *lines))]

    async def _load_embedder(self) -> Embedder | None:
        if self.consent.config is None:
            return await ThreadedEmbedder.load(_load_model)
        await self.consent.wait()
        reserve = partial(self.beside.reserve, waits=False)
        embedder = EndpointEmbedder(
            self.consent.config, self.redactor.redact_text, self.clock, reserve
        )
        try:
            await embedder.open()
        except EmbedderError:
            await embedder.aclose()
            raise
        return embedder

    def _list_problems(self) -> list[str]:
        journal = filter(None, [self.store.problem])
        states = self.channel_states.values()
        return [*journal, *(text for state in states if (text := state.describe_problem()))]


async def _find_nothing(text: str, turn: Turn) -> bool:
    return False


def _load_model() -> ColBert | None:
    from daemon.ops.memory_model import load_embedder  # lazy: brings urllib

    return load_embedder()


@asynccontextmanager
async def open_daemon(
    paths: Paths, loaded: Loaded, overrides: Overrides | None = None
) -> AsyncIterator[Daemon]:
    """At the end running turns get `drain_seconds` to finish; cut ones resume later."""
    async with AsyncExitStack() as stack:
        daemon = Daemon(paths, loaded, overrides or Overrides(), stack)
        await daemon.open()
        await daemon.commands.settle_interrupted()
        try:
            yield daemon
        finally:
            await daemon.loops.aclose()
            await daemon.sessions.aclose(daemon.config.agent.drain_seconds)
