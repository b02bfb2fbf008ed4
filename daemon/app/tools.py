"""Where the workspace may lie: nothing of the daemon's own can be reached through it (A6 of the reference).

Standing permissions, as the journal has them: looked for, and used up.

The tools of a house and the gate before them, put together.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from daemon.app.notifier import OwnerNotifier
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import ConfigError, SecretRefused
from daemon.core.event_bus import EventBus
from daemon.core.ids import NewId
from daemon.core.journal import ReadTx, Store, Tx
from daemon.core.redaction import Redactor
from daemon.core.rows import OUTSIDE_SCOPE, GrantRow
from daemon.settings.model import Config
from daemon.settings.paths import Paths
from daemon.settings.secrets import SecretStore
from daemon.tools.base import Tool, ToolError
from daemon.tools.builtin import build_tools
from daemon.tools.config import RESERVED_FOLDERS
from daemon.tools.executor import ToolExecutor
from daemon.tools.mcp.pins import PinStore
from daemon.tools.mcp.servers import ServerManager, load_client
from daemon.tools.policy.approvals import new_token
from daemon.tools.policy.gate import PolicyGate
from daemon.tools.policy.grants import GrantRequest, matching_grants
from daemon.tools.policy.rules import RuleSet
from daemon.tools.policy.table import Judge
from daemon.tools.registry import ToolRegistry
from daemon.tools.shell.background import BackgroundCommands
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.shell.tool import Shell
from daemon.tools.signature import bind
from daemon.tools.web.client import WebClient
from daemon.tools.web.fetch import PageReader, web_fetch
from daemon.tools.web.http_request import HttpRequests, http_request
from daemon.tools.web.search import WebSearch, make_engine, web_search
from daemon.tools.workspace.command_effects import CommandEffects
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.fs import Workspace
from daemon.tools.workspace.inbox_folder import INBOX as INBOX
from daemon.tools.workspace.send_file import FileSender, send_file
from memory.memory import Memory


def resolve_workspace(paths: Paths, workspace: str) -> Path:
    """The workspace, links resolved. Raises ConfigError where the daemon's own files are in it, or where it is among them."""
    place, home = (paths.home / workspace).resolve(), paths.home.resolve()
    own = {paths.config.resolve().parent: paths.config, home: paths.home}
    held = [kept for folder, kept in own.items() if folder.is_relative_to(place)]
    around = [
        home / name for name in RESERVED_FOLDERS if place.is_relative_to((home / name).resolve())
    ]
    if held or around:
        kept = f"{held[0]} is in it" if held else f"it is in {around[0]}"
        raise ConfigError(
            f"{paths.config}: tools.workspace: found {workspace!r}, which is {place}: {kept}. Tools would reach what is the "
            'daemon\'s own; expected a folder for nothing else, for example "workspace"'
        )
    return place


@value
class StoredGrants:
    """Those of the session, of the chat that it works for, and of everywhere. What came from outside works for nobody's chat, and
    nothing holds there but what was allowed there.
    """

    store: Store
    clock: Clock

    async def use_grant(
        self,
        session: str,
        tool: str,
        args_hash: str,
        *,
        paths: Sequence[str],
        untrusted: bool,
        call: str,
    ) -> bool:
        """A person has allowed this; one use of the permission is gone, in the same transaction."""
        wanted, now = GrantRequest(tool, args_hash, paths, untrusted), self.clock.now()

        def candidates(tx: ReadTx) -> list[GrantRow]:
            if untrusted:
                held = [
                    row
                    for row in tx.list_grants(OUTSIDE_SCOPE) + tx.list_grants(session)
                    if row.session
                ]
            else:
                own = tx.get_session(session)
                held = tx.list_grants(session) + (
                    tx.list_grants(own.root) if own and own.root else []
                )
            return matching_grants(held, wanted, now)

        def use(tx: Tx) -> bool:
            return tx.is_grant_used(call) or any(
                tx.use_grant(row.id, call, now) for row in candidates(tx)
            )

        if not await self.store.read(lambda tx: tx.is_grant_used(call) or candidates(tx)):
            return False  # nothing to write: the journal's disk is spared
        return await self.store.write(use)


@value
class HostBoundSecrets:
    """Stored secrets, each for the hosts that it was stored for."""

    stored: SecretStore

    def value(self, name: str, host: str) -> str:
        """The secret itself. Raises ToolError if there is none of that name, or if it is not for this host."""
        try:
            return self.stored.get_for_host(name, host)
        except (ConfigError, SecretRefused) as error:
            raise ToolError(str(error)) from error


@dataclass(slots=True)
class ToolFactory:
    """Everything that tools are made of. `takes`: bytes of a file that a channel takes."""

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
        """Look what this machine can do, and after the commands of a daemon that died."""
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

    def create_tools(self, memories: Memory, more: Sequence[Tool]) -> ToolRegistry:
        """All that can be called; those of servers come later."""
        return build_tools(
            config=self.config.tools,
            terminal=self.terminal,
            files=self.files,
            memories=memories,
            more=[*self._make_own_tools(), *more],
        )

    async def start_servers(self, tools: ToolRegistry) -> ServerManager | None:
        """The MCP servers, starting; None without any, and nothing of them is imported then. Raises ConfigError."""
        if not self.config.mcp:
            return None
        manager = ServerManager(
            configs=self.config.mcp,
            connect=await asyncio.to_thread(load_client),
            registry=tools,
            pins=PinStore(self.store),
            sandbox=self.sandbox,
            notify=OwnerNotifier(self.store, self.clock, self.new_id),
            clock=self.clock,
            folder=self.paths.home / "mcp",
        )
        self.stack.push_async_callback(manager.aclose)
        manager.start()
        return manager

    async def load_rules(self, tools: ToolRegistry) -> RuleSet:
        """All rules that the journal keeps, at hand for the gate."""
        held = RuleSet(tools)
        held.load(await self.store.read(lambda tx: tx.list_rules()))
        return held

    def create_dispatcher(self, tools: ToolRegistry, rules: RuleSet, judge: Judge) -> ToolExecutor:
        """What runs them, behind the gate."""
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
