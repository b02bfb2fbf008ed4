"""The tools of a house and the gate before them, put together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import cast

from daemon import plugins
from daemon.app.grants import StoredGrants
from daemon.app.telling import Telling
from daemon.config.model import Config
from daemon.config.paths import Paths
from daemon.config.secrets import Secrets
from daemon.config.workspace import workspace_of
from daemon.core.clock import Clock
from daemon.core.errors import ConfigError, SecretRefused
from daemon.core.ids import NewId
from daemon.core.live import Live
from daemon.core.redaction import Redactor
from daemon.store.protocol import Store
from daemon.tools.approvals import new_token
from daemon.tools.background import Background
from daemon.tools.base import Tool, ToolError
from daemon.tools.builtin import builtin
from daemon.tools.changes import Files
from daemon.tools.decorate import bind
from daemon.tools.dispatch import Dispatcher
from daemon.tools.gate import Gate
from daemon.tools.http import Outgoing, http_request
from daemon.tools.inbox import NAME as INBOX
from daemon.tools.mcp.running import Running
from daemon.tools.net.client import WebClient
from daemon.tools.policy import Judge
from daemon.tools.recall import Memories
from daemon.tools.rules.rules import KIND, Rules
from daemon.tools.sandbox import Sandbox
from daemon.tools.sending import Sending, send_file
from daemon.tools.shell import Shell
from daemon.tools.toolbox import Tools
from daemon.tools.traces import Traces
from daemon.tools.web import Reading, web_fetch
from daemon.tools.websearch.engines import engine_of
from daemon.tools.websearch.tool import Searching, web_search
from daemon.tools.workspace import Workspace

Begin = Callable[..., Awaitable[Running]]


@dataclass(frozen=True, slots=True)
class HostSecrets:
    """Stored secrets, each for the hosts that it was stored for."""

    stored: Secrets

    def value(self, name: str, host: str) -> str:
        """The secret itself. Raises ToolError if there is none of that name, or if it is not for this host."""
        try:
            return self.stored.value_for(name, host)
        except (ConfigError, SecretRefused) as error:
            raise ToolError(str(error)) from error


@dataclass(slots=True)
class ToolWorks:
    """Everything that tools are made of. `takes`: bytes of a file that a channel takes."""

    paths: Paths
    config: Config
    store: Store
    clock: Clock
    live: Live
    redactor: Redactor
    new_id: NewId
    stack: AsyncExitStack
    takes: Callable[[str], int]
    sandbox: Sandbox = field(init=False)
    files: Files = field(init=False)
    terminal: Shell = field(init=False)

    async def open(self) -> None:
        """Look what this machine can do, and after the commands of a daemon that died."""
        config = self.config.tools
        place = workspace_of(self.paths, config.workspace)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.sandbox = await Sandbox.open(place)
        beside = {INBOX: self.paths.inbox}
        workspace = Workspace(self.sandbox.workspace, max_chars=config.shell.max_output_chars, beside=beside)
        self.files = await Files.open(workspace, self.paths.undo, self.store, self.clock.now)
        traces, background = Traces(self.files, self.clock.monotonic), Background.of(config.shell)
        await traces.recover()
        self.stack.push_async_callback(background.aclose)
        guarded = tuple(config.protected_paths)
        self.terminal = Shell(self.sandbox, config.shell, guarded, self.redactor, traces, background)

    def tools(self, memories: Memories, more: Sequence[Tool]) -> Tools:
        """All that can be called; those of servers come later."""
        return builtin(
            config=self.config.tools, terminal=self.terminal, files=self.files, memories=memories, more=[*self._own(), *more]
        )

    async def servers(self, tools: Tools) -> Running | None:
        """The MCP servers, starting; None without any, and nothing of them is imported then. Raises ConfigError."""
        if not self.config.mcp:
            return None
        begin = cast(Begin, await asyncio.to_thread(plugins.load, "mcp", "servers"))
        return await begin(
            self.config, home=self.paths.home, store=self.store, tools=tools, fence=self.sandbox, clock=self.clock,
            tell=Telling(self.store, self.clock, self.new_id), stack=self.stack,
        )  # fmt: skip

    async def rules(self, tools: Tools) -> Rules:
        """All rules that the journal keeps, at hand for the gate."""
        held = Rules(tools)
        held.load(await self.store.read(lambda tx: tx.all_kept(KIND)))
        return held

    def dispatcher(self, tools: Tools, rules: Rules, judge: Judge) -> Dispatcher:
        """What runs them, behind the gate."""
        config = self.config.tools
        gate = Gate(
            toolbox=tools,
            grants=StoredGrants(self.store, self.clock),
            rules=rules,
            approvals=config.approvals,
            protected_paths=tuple(config.protected_paths),
            contacts=self._contacts,
            judge=judge,
        )
        return Dispatcher(
            toolbox=tools,
            gate=gate,
            live=self.live,
            clock=self.clock,
            new_id=new_token,
            approval_minutes=config.approval_minutes,
            max_output_chars=config.shell.max_output_chars,
            redactor=self.redactor,
        )

    def _contacts(self) -> Sequence[str]:
        return tuple(address for addresses in self.config.contacts.values() for address in addresses)

    def _own(self) -> list[Tool]:
        config = self.config.tools
        client = WebClient(config.http)
        parts: dict[type, object] = {
            Reading: Reading(client, config.web.max_chars),
            Searching: Searching(engine_of(config.web, client), config.web.results),
            Outgoing: Outgoing(client, HostSecrets(Secrets(self.paths.secrets)), self.redactor.text),
            Sending: Sending(self.files.workspace, self.paths.outbox, self.store, self.new_id, self.takes),
        }
        return bind([web_search, web_fetch, http_request, send_file], parts)
