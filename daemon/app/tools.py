"""The tools of a daemon and the gate before them; where the workspace may lie."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from daemon.access.owner_sessions import OwnerSessions
from daemon.app.adapters import OwnerNotifier, StoredGrants
from daemon.app.config import Config, Loaded, list_mailboxes, make_redactor
from daemon.app.runtime_config import RuntimeConfig
from daemon.app.tool_names import check_tool_names, list_own_names, load_tools
from daemon.core import value
from daemon.core.clock import Clock, system_clock
from daemon.core.errors import ConfigError
from daemon.core.event_bus import EventBus
from daemon.core.ids import NewId, new_id
from daemon.core.messages import Reserve
from daemon.core.trust import AnswerTimes
from daemon.gateway.voice import Transcribe, VoiceConfig, hear_nothing, make_remote
from daemon.ops.voice_model import make_speech_reader
from daemon.outbox.channel_supervisor import ChannelState
from daemon.settings.paths import Paths
from daemon.settings.secrets import SecretStore
from daemon.store.journal import Store
from daemon.store.sqlite import SqliteStore
from daemon.tools.base import Tool
from daemon.tools.builtin import build_tools
from daemon.tools.config import RESERVED_FOLDERS
from daemon.tools.criteria_checks import COMMAND_S
from daemon.tools.documents.pictures import PictureKeeper
from daemon.tools.documents.reader import DocumentReader
from daemon.tools.executor import ToolExecutor
from daemon.tools.layers.runs_later import runs_later
from daemon.tools.mcp.pins import PinStore
from daemon.tools.mcp.servers import ServerManager
from daemon.tools.memory_tools import OwnersMemory
from daemon.tools.policy.gate import PolicyGate
from daemon.tools.policy.judges import Judge, judge
from daemon.tools.policy.rules import RuleSet
from daemon.tools.shell.background import BackgroundCommands
from daemon.tools.shell.run import merge_left
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.shell.tool import Shell
from daemon.tools.signature import bind
from daemon.tools.web.ask_secret import secret_tool
from daemon.tools.web.client import WebClient
from daemon.tools.web.guard import AddressGuard
from daemon.tools.web.requests import HttpRequests, PageReader, web_tools
from daemon.tools.web.search import WebSearch, make_engine, web_search
from daemon.tools.workspace.command_effects import CommandEffects, HeldFiles
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.fs import Workspace
from daemon.tools.workspace.inbox_folder import INBOX, InboxFolder
from daemon.tools.workspace.index import IndexCache
from daemon.tools.workspace.protected import ProtectedFiles
from daemon.tools.workspace.send_file import MAX_SEND_BYTES, FileSender, send_file


def resolve_workspace(paths: Paths, workspace: str) -> Path:
    """The workspace, links resolved. Raises ConfigError where tools would reach the daemon's files
    (A6 of the reference).
    """
    place, home = (paths.home / workspace).resolve(), paths.home.resolve()
    own = {paths.config.resolve().parent: paths.config, home: paths.home}
    inside = [kept for folder, kept in own.items() if folder.is_relative_to(place)]
    reserved = [home / name for name in RESERVED_FOLDERS]
    around = [folder for folder in reserved if place.is_relative_to(folder.resolve())]
    if inside or around:
        kept = f"{inside[0]} is in it" if inside else f"it is in {around[0]}"
        raise ConfigError(
            f"{paths.config}: tools.workspace: found {workspace!r}, which is {place}: {kept}. "
            "Tools would reach the daemon's own files; "
            'expected a folder for nothing else, for example "workspace"'
        )
    return place


@value
class Overrides:
    """What a test may replace. Another judge is for the negative control of the security tests;
    nothing that a user can set leads here.
    """

    tools: Sequence[Tool] = ()
    open_store: Callable[[Path], Awaitable[Store]] = SqliteStore.open
    new_id: NewId = new_id
    make_clock: Callable[[], Clock] = system_clock
    judge: Judge = judge
    command_s: float = COMMAND_S


class ToolOwner:
    """The part of a daemon that has its tools, and the gate before them. `channel_states`, by
    channel, are filled when channels are opened.
    """

    store: Store
    notifier: OwnerNotifier
    owner_sessions: OwnerSessions

    def __init__(
        self, paths: Paths, loaded: Loaded, overrides: Overrides, stack: AsyncExitStack
    ) -> None:
        self.paths, self.overrides, self.stack = paths, overrides, stack
        self.clock, self.event_bus, self.new_id = (
            overrides.make_clock(),
            EventBus(),
            overrides.new_id,
        )
        self.redactor = make_redactor(paths, loaded.config)
        self.channel_states: dict[str, ChannelState] = {}
        self.runtime = RuntimeConfig(paths, loaded)
        self.servers: ServerManager

    @property
    def config(self) -> Config:
        """The config in use."""
        return self.runtime.loaded.config

    def list_shared_names(self) -> set[str]:
        """Of HTTP users, who read `web:NAME`."""
        return {user.name for user in self.config.http.users}

    def list_tool_names(self) -> list[str]:
        """All there are, those included that MCP servers will list."""
        return list(dict.fromkeys((*self.registry.names(), *self.servers.list_tool_names())))

    async def wait_for_servers(self, seconds: float) -> None:
        """Wait until MCP servers have listed their tools: a turn that begins now finds them."""
        await self.servers.ready(seconds)

    async def build_tools(self, memory: OwnersMemory, more: Sequence[Tool]) -> ToolExecutor:
        """All tools; MCP servers start in the background, theirs come later. Raises ConfigError."""
        config, shell, stack = self.config.tools, self.config.tools.shell, self.stack
        place = resolve_workspace(self.paths, config.workspace)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        guard = AddressGuard(config.http.allow)
        home = self.paths.home
        self.sandbox = sandbox = await Sandbox.open(
            place, home / "quarantine", home / (shell.layers or "layers"), guard, shell.copy_mb
        )
        self.pictures = PictureKeeper(sandbox, InboxFolder(self.paths.inbox))
        beside = {INBOX: self.paths.inbox}
        guarded = tuple(config.protected_paths)
        cache = IndexCache(sandbox.workspace)
        protected = ProtectedFiles(sandbox.workspace, guarded, cache=cache)
        workspace = Workspace(
            sandbox.workspace, shell.max_output_chars, beside, protected.is_disguised
        )
        self.files = await FileStore.open(workspace, self.paths.undo, self.store, self.clock.now)
        held = HeldFiles(home / "quarantine")
        self.effects = effects = CommandEffects(self.files, held, protected, cache)
        if any(one.is_unsandboxed for one in self.config.mcp.values()):
            await effects.distrust()
        for said in await merge_left(sandbox, effects):
            await self.notifier(said)
        background = BackgroundCommands(
            shell.background, shell.background_minutes * 60, shell.max_output_chars
        )
        stack.push_async_callback(background.aclose)
        terminal = Shell(
            sandbox, shell, guarded, self.redactor, effects, background, None, protected,
            self.files.labels,
        )  # fmt: skip
        terminal = replace(terminal, binds=terminal.make_binder(self.paths.undo))
        self.registry = build_tools(
            config=config,
            terminal=terminal,
            files=self.files,
            memories=memory,
            documents=DocumentReader(sandbox),
            more=self._collect_tools(more),
        )
        self.rules = RuleSet(self.registry)
        for row in await self.store.read(lambda tx: tx.list_rules()):
            self.rules.put(row)
        self.servers = ServerManager(
            registry=self.registry,
            pins=PinStore(self.store),
            sandbox=sandbox,
            notify=self.notifier,
            clock=self.clock,
            folder=self.paths.home / "mcp",
            effects=effects,
            redact=self.redactor.redact_text,
        )
        stack.push_async_callback(self.servers.aclose)
        if self.config.mcp:
            await self.servers.load()
            self.servers.configure(self.config.mcp)
        return self._make_executor(guarded)

    def make_answer_times(self) -> AnswerTimes:
        """As the config says; quiet hours that a reload has changed count at once."""
        return AnswerTimes(
            self.config.tools.approval_minutes, lambda now: self.config.notify.find_quiet_end(now)
        )

    def _make_executor(self, guarded: tuple[str, ...]) -> ToolExecutor:
        config = self.config.tools
        self.registry.list_absent = self.servers.problems
        gate = PolicyGate(
            registry=self.registry,
            grants=StoredGrants(self.store, self.clock, self.list_shared_names),
            rules=self.rules,
            approvals=config.approvals.build(),
            protected_paths=guarded,
            contacts=self._list_contacts,
            is_free=self.files.is_own_text,
            runs_later=partial(runs_later, self.sandbox.workspace),
            judge=self.overrides.judge,
            is_shared=self.owner_sessions.is_shared,
        )
        return ToolExecutor(
            registry=self.registry,
            gate=gate,
            live=self.event_bus,
            clock=self.clock,
            times=self.make_answer_times(),
            max_output_chars=config.shell.max_output_chars,
            redactor=self.redactor,
            pictures=self.pictures,
        )

    def _list_contacts(self) -> Mapping[str, Sequence[str]]:
        return self.config.contacts

    def _collect_tools(self, more: Sequence[Tool]) -> list[Tool]:
        """All but the built-in ones. Raises ConfigError, also for a name that no tool has."""
        others = [*load_tools(self.config), *more, *self.overrides.tools]
        names = [*list_own_names(self.config), *(one.name for one in others)]
        check_tool_names(self.config, self.paths.config, names)
        return [*self._make_own_tools(), *others]

    def _make_own_tools(self) -> list[Tool]:
        config, redact = self.config.tools, self.redactor.redact_text
        client, secrets = WebClient(config.http), SecretStore(self.paths.secrets)
        sender = FileSender(
            self.files.workspace, self.paths.outbox, self.store, self.new_id, self._get_upload_limit
        )
        parts: dict[type, object] = {
            WebSearch: WebSearch(make_engine(config.web, client), config.web.results),
            FileSender: sender,
        }
        reader = PageReader(client, config.web.max_chars, self.sandbox)
        own = web_tools(reader, HttpRequests(client, secrets, redact))
        own += bind([web_search, send_file], parts)
        own.append(secret_tool(secrets))
        return [*own, *self._make_mail_tools()] if list_mailboxes(self.config) else own

    def _make_mail_tools(self) -> list[Tool]:
        from daemon.tools.mail_tools import MailAccount, MailAccounts, mail_tools  # lazy: IMAP

        def find() -> list[MailAccount]:
            return [
                MailAccount(name, box, name in self.channel_states)
                for name, box in list_mailboxes(self.config).items()
            ]

        return mail_tools(MailAccounts(find, lambda: self.config.delivery.hold_seconds))

    def _get_upload_limit(self, channel: str) -> int:
        """Bytes of a file that it takes; a channel that is not connected may take them later."""
        state = self.channel_states.get(channel)
        return state.channel.capabilities.max_upload if state else MAX_SEND_BYTES


def make_transcriber(
    config: VoiceConfig, sandbox: Sandbox, clock: Clock, reserve: Reserve
) -> Transcribe:
    """Who writes down voice messages, as the config says."""
    if config.transcriber == "local":
        local = make_speech_reader(sandbox, config.language)
        return lambda data, name, _: local.transcribe(data, name)
    asked = config.endpoint
    return make_remote(config, asked, clock, reserve) if asked else hear_nothing
