"""The tools of a daemon and the gate before them; where the workspace may lie."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from daemon.addons import list_addons, load_class
from daemon.app.adapters import HostBoundSecrets, OwnerNotifier, StoredGrants
from daemon.app.config import Config
from daemon.core.clock import Clock
from daemon.core.errors import ConfigError
from daemon.core.event_bus import EventBus
from daemon.core.ids import NewId
from daemon.core.redaction import Redactor
from daemon.settings.paths import Paths
from daemon.settings.secrets import SecretStore
from daemon.store.journal import Store
from daemon.tools.base import Tool
from daemon.tools.builtin import build_tools
from daemon.tools.config import RESERVED_FOLDERS
from daemon.tools.executor import ToolExecutor
from daemon.tools.mcp.pins import PinStore
from daemon.tools.mcp.servers import ServerManager, load_client
from daemon.tools.policy.approvals import new_token
from daemon.tools.policy.gate import Judge, PolicyGate
from daemon.tools.policy.rules import RuleSet
from daemon.tools.registry import ToolRegistry
from daemon.tools.shell.background import BackgroundCommands
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.shell.tool import Shell
from daemon.tools.signature import ToolDefinition, bind
from daemon.tools.web.client import WebClient
from daemon.tools.web.fetch import PageReader, web_fetch
from daemon.tools.web.http_request import HttpRequests, http_request
from daemon.tools.web.search import WebSearch, make_engine, web_search
from daemon.tools.workspace.command_effects import CommandEffects
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.fs import Workspace
from daemon.tools.workspace.inbox_folder import INBOX
from daemon.tools.workspace.send_file import FileSender, send_file
from memory.memory import Memory


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


def load_tools() -> list[Tool]:
    """The tools of add-ons: each entry point is a ToolDefinition or a list of them."""
    found: list[Tool] = []
    for name in list_addons("tools"):
        loaded = load_class("tools", name)
        for one in loaded if isinstance(loaded, list | tuple) else [loaded]:
            if not isinstance(one, ToolDefinition):
                raise ConfigError(f"tools: {name!r} is no tool; expected a function with @tool")
            try:
                found += bind([one], {})
            except (LookupError, TypeError) as error:
                raise ConfigError(f"tools: {name!r}: {error}") from error
    return found


@dataclass(slots=True)
class ToolFactory:
    """Builds the tools. `upload_limit`: bytes of a file that a channel takes."""

    paths: Paths
    config: Config
    store: Store
    clock: Clock
    live: EventBus
    redactor: Redactor
    new_id: NewId
    stack: AsyncExitStack
    upload_limit: Callable[[str], int]
    sandbox: Sandbox = field(init=False)
    files: FileStore = field(init=False)
    terminal: Shell = field(init=False)

    async def open(self) -> None:
        """Probe the sandbox; record the effects of commands that a crash cut."""
        config = self.config.tools
        place = resolve_workspace(self.paths, config.workspace)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.sandbox = await Sandbox.open(place)
        beside = {INBOX: self.paths.inbox}
        workspace = Workspace(
            self.sandbox.workspace, max_chars=config.shell.max_output_chars, mounts=beside
        )
        self.files = await FileStore.open(workspace, self.paths.undo, self.store, self.clock.now)
        traces, background = (
            CommandEffects(self.files, self.clock.monotonic),
            BackgroundCommands(
                config.shell.background,
                config.shell.background_minutes * 60,
                config.shell.max_output_chars,
            ),
        )
        await traces.recover()
        self.stack.push_async_callback(background.aclose)
        guarded = tuple(config.protected_paths)
        self.terminal = Shell(
            self.sandbox, config.shell, guarded, self.redactor, traces, background
        )

    def create_registry(self, memories: Memory, more: Sequence[Tool]) -> ToolRegistry:
        """All tools but those of MCP servers, which come later."""
        return build_tools(
            config=self.config.tools,
            terminal=self.terminal,
            files=self.files,
            memories=memories,
            more=[*self._make_own_tools(), *more],
        )

    async def start_servers(
        self, registry: ToolRegistry, tell: OwnerNotifier
    ) -> ServerManager | None:
        """The MCP servers, starting in the background; None without any. Raises ConfigError."""
        if not self.config.mcp:
            return None
        manager = ServerManager(
            configs=self.config.mcp,
            connect=await asyncio.to_thread(load_client),
            registry=registry,
            pins=PinStore(self.store),
            sandbox=self.sandbox,
            notify=tell,
            clock=self.clock,
            folder=self.paths.home / "mcp",
        )
        self.stack.push_async_callback(manager.aclose)
        manager.start()
        return manager

    async def load_rules(self, tools: ToolRegistry) -> RuleSet:
        """The rules of the journal, for the gate."""
        rules = RuleSet(tools)
        for row in await self.store.read(lambda tx: tx.list_rules()):
            rules.put(row)
        return rules

    def create_executor(self, tools: ToolRegistry, rules: RuleSet, judge: Judge) -> ToolExecutor:
        """Runs tools, behind the gate."""
        config = self.config.tools
        gate = PolicyGate(
            registry=tools,
            grants=StoredGrants(self.store, self.clock),
            rules=rules,
            approvals=config.approvals,
            protected_paths=tuple(config.protected_paths),
            contacts=self._list_contacts,
            judge=judge,
        )
        return ToolExecutor(
            registry=tools,
            gate=gate,
            live=self.live,
            clock=self.clock,
            new_token=new_token,
            approval_minutes=config.approval_minutes,
            max_output_chars=config.shell.max_output_chars,
            redactor=self.redactor,
        )

    def _list_contacts(self) -> Sequence[str]:
        return tuple(
            address for addresses in self.config.contacts.values() for address in addresses
        )

    def _make_own_tools(self) -> list[Tool]:
        config = self.config.tools
        client = WebClient(config.http)
        parts: dict[type, object] = {
            PageReader: PageReader(client, config.web.max_chars),
            WebSearch: WebSearch(make_engine(config.web, client), config.web.results),
            HttpRequests: HttpRequests(
                client, HostBoundSecrets(SecretStore(self.paths.secrets)), self.redactor.redact_text
            ),
            FileSender: FileSender(
                self.files.workspace, self.paths.outbox, self.store, self.new_id, self.upload_limit
            ),
        }
        return bind([web_search, web_fetch, http_request, send_file], parts)
