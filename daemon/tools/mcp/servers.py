"""MCP servers kept running: started in a sandbox, reconnected, their tools compared whenever they
may have changed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from daemon.core.clock import Clock
from daemon.core.errors import AidaemonError, ConfigError, UsageError
from daemon.core.trust import Effect
from daemon.tools.base import ToolOutput
from daemon.tools.mcp.address import pin_command, server_address
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.last_words import LastWords
from daemon.tools.mcp.open_calls import OpenCall, OpenCalls
from daemon.tools.mcp.pins import (
    PROGRAM,
    PinStore,
    ServerPins,
    ToolListing,
    ToolPin,
    compare_program,
    compare_tools,
    escape_hidden,
    list_pinned_names,
    render_change,
    render_left_out,
    sort_tools,
)
from daemon.tools.mcp.server_files import ServerFiles, open_files
from daemon.tools.mcp.tools import (
    RESOURCES,
    Caller,
    McpTool,
    NoAnswer,
    NotSent,
    OnChanged,
    OnProgress,
    OnStderrLine,
    ProcessAddress,
    Refused,
    ServerTool,
    SessionRefused,
    ToolChanged,
    UnreadableAnswer,
    UrlAddress,
    describe_disabled,
    find_effect,
    sanitize_line,
)
from daemon.tools.registry import ToolRegistry
from daemon.tools.shell.network import NetworkProxy
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.workspace.command_effects import CommandEffects

if TYPE_CHECKING:
    from daemon.tools.mcp.client import McpSession

log = logging.getLogger(__name__)

Connect = Callable[
    [ProcessAddress | UrlAddress, OnChanged, OnStderrLine],
    AbstractAsyncContextManager["McpSession"],
]
RECONNECT_DELAYS = (1.0, 2.0, 5.0, 15.0, 60.0, 300.0)
STEADY_S = 60.0
WAIT_SESSION_S = 10.0
REFRESH_EVERY_S = 1.0
NOTIFY_EVERY_S = 600.0
MAX_OPEN = 8


def load_client() -> Connect:
    """The function that connects to a server. Raises ConfigError without the package `mcp`."""
    try:
        from daemon.tools.mcp.client import connect  # lazy: the package `mcp` is an extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"[mcp] needs the package {error.name!r}, which is not installed:"
            " pip install 'aidaemon[mcp]'"
        ) from error
    return connect


@dataclass(slots=True, kw_only=True)
class ServerManager:
    """All servers of the config. None runs before `configure`, none is left after `aclose`."""

    registry: ToolRegistry
    pins: PinStore
    sandbox: Sandbox
    notify: Callable[[str], Awaitable[object]]
    clock: Clock
    folder: Path
    effects: CommandEffects | None = None
    redact: Callable[[str], str] = str
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    connect: Connect | None = None
    _met: Mapping[str, ServerPins] = field(default_factory=dict)
    _servers: dict[str, "McpServer"] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _ending: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def configs(self) -> Mapping[str, McpConfig]:
        """Those that run, or are tried again and again."""
        return {name: server.config for name, server in self._servers.items()}

    def configure(self, configs: Mapping[str, McpConfig]) -> None:
        """Run exactly these from now on, in the background: what is gone or changed is ended, and
        its tools with it.
        """
        ended = {
            name: self._end(name, lapse=True)
            for name, former in self.configs.items()
            if configs.get(name) != former
        }
        for name, config in configs.items():
            if name not in self._servers:
                open_calls = OpenCalls(self.pins.store, self.clock)
                self._servers[name] = server = McpServer(name, config, self, open_calls)
                starting = server.run(after=ended.get(name))
                self._tasks[name] = asyncio.create_task(starting, name=f"mcp {name}")

    def _end(self, name: str, *, lapse: bool = False) -> asyncio.Task[None]:
        """`lapse`: what its calls asked is void, for the daemon goes on."""
        open_calls, task = self._servers.pop(name).open_calls, self._tasks.pop(name)
        keys = open_calls.end_all()
        lapsing = open_calls.lapse(keys if lapse else ())
        for one in (task, asyncio.create_task(lapsing, name=f"mcp {name}: lapse")):
            self._ending.add(one)
            one.add_done_callback(self._ending.discard)
        task.cancel()
        self.registry.replace_source(f"mcp {name}", ())
        return task

    async def load(self) -> Connect:
        """How to connect to a server. Raises ConfigError."""
        self._met = await self.pins.all()
        self.connect = self.connect or await asyncio.to_thread(load_client)
        return self.connect

    async def ready(self, seconds: float) -> bool:
        """Wait until every server listed its tools or failed once; False after these seconds."""
        try:
            async with asyncio.timeout(seconds):
                for server in self._servers.values():
                    await server.tried.wait()
        except TimeoutError:
            return False
        return True

    async def aclose(self) -> None:
        """End all connections and processes."""
        for name in [*self._servers]:
            self._end(name)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def problems(self) -> dict[str, str]:
        """Why a server's tools cannot be used now, by its name."""
        return {name: server.problem for name, server in self._servers.items() if server.problem}

    def list_states(self) -> dict[str, bool]:
        """Whether each server is out; one that waits for its owner's approval has told them so."""
        found = self._servers.items()
        return {name: bool(server.problem) for name, server in found if not server.waits}

    def list_tool_names(self) -> list[str]:
        """Of all servers, also of those that have not listed theirs yet: then as pinned."""
        listed = {name: one.pins for name, one in self._servers.items() if one.pins}
        found = list_pinned_names(self._servers, {**self._met, **listed})
        return [name for name in found if self.registry.is_enabled(name)]

    def list_advice(self) -> dict[str, str]:
        """What to change for those that cannot be used now, in our own words only."""
        return {name: self._servers[name].advice for name in self.problems()}

    def list_last_words(self) -> dict[str, str]:
        """What those printed last that cannot be used now, for their owner."""
        return {name: self._servers[name].said.quote() for name in self.problems()}

    async def find_prompt(self, server: str, prompt: str, given: str) -> str:
        """The text of a prompt. `given`: NAME=VALUE pairs, or the whole text of its only argument.
        Raises UsageError.
        """
        known = self._servers.get(server)
        if known is None:
            raise UsageError(f"There is no MCP server {server}.")
        try:
            session = await known.wait_for_session()
            prompts = await session.list_prompts()
            if prompt not in prompts:
                names = ", ".join(map(escape_hidden, prompts)) or "none"
                raise UsageError(f"{server} has no prompt {prompt}. Its prompts: {names}.")
            return await session.get_prompt(prompt, _read_arguments(prompts[prompt], given))
        except (NotSent, NoAnswer, UnreadableAnswer, Refused) as error:
            raise UsageError(f"{server} gave no prompt: {sanitize_line(str(error))}") from error

    async def approve(self, server: str, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """See PinStore.approve; the tools can be called at once. KeyError for an unknown server."""
        return await self._servers[server].approve(code, tools)


@dataclass(slots=True)
class McpServer:
    """`tried` is set once the server listed its tools or failed; `problem` says why it failed."""

    name: str
    config: McpConfig
    manager: ServerManager
    open_calls: OpenCalls
    problem: str = "not started yet"
    waits: bool = False
    advice: str = ""
    said: LastWords = field(default_factory=LastWords)
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    _listing: ToolListing | None = None
    _program: ToolPin | None = None
    _session: "asyncio.Future[McpSession]" = field(default_factory=asyncio.Future)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _refresh_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _notified_at: float = -NOTIFY_EVERY_S
    _files: ServerFiles | None = None

    @property
    def pins(self) -> ServerPins | None:
        """As of its last list of tools; None before the first."""
        return self._listing.pins if self._listing else None

    async def run(self, after: asyncio.Task[None] | None = None) -> None:
        """Connect, again and again, until cancelled; `after` the one that it replaces has ended."""
        if after:
            await asyncio.wait((after,))
        failures, clock = 0, self.manager.clock
        if self.config.is_unsandboxed and self.manager.effects:
            await self.manager.effects.distrust()
        while True:
            began, self.said = clock.monotonic(), LastWords(self.manager.redact)
            problem = await self._connect_once()
            self.problem = self.said.explain(problem, self.config)
            self.advice = self.said.advise(problem, self.config)
            task = asyncio.current_task()
            if task and task.cancelling():  # a library may have swallowed it
                raise asyncio.CancelledError
            if clock.monotonic() - began > STEADY_S:
                failures = 0
            wait = RECONNECT_DELAYS[min(failures, len(RECONNECT_DELAYS) - 1)]
            failures += 1
            log.warning("MCP server %s: %s; retry in %g s", self.name, self.problem, wait)
            self.tried.set()
            await self.manager.sleep(wait)

    async def _connect_once(self) -> str:
        """One connection from beginning to end; why it ended."""
        manager = self.manager
        try:
            async with self._open_network() as proxy:
                make_address = partial(
                    asyncio.to_thread, server_address, self.name, self.config, manager.sandbox,
                    manager.folder / self.name, proxy,
                )  # fmt: skip
                await make_address()  # a fault of the config is told at once
                self._program = await self._admit_program()
                opened = open_files(self.name, self.config, manager.sandbox, manager.effects)
                async with opened as self._files:
                    address = await make_address(self._files and self._files.layer)
                    connect = await manager.load()
                    async with connect(address, self._changed.set, self._log_stderr) as session:
                        return await self._serve_session(session)
        except AidaemonError as error:
            return str(error)
        except Exception as error:  # the border of a server: it breaks only its own connection
            log.debug("MCP server %s", self.name, exc_info=True)
            return f"{type(error).__name__}: {error}"

    async def _admit_program(self) -> ToolPin | None:
        """Wait until what runs is what its owner approved; None for a server elsewhere."""
        manager = self.manager
        while not self.config.url:
            now = await asyncio.to_thread(pin_command, self.config)
            known = await manager.pins.get(self.name)
            changed = compare_program(known, now, token_hex())
            if changed is None:
                return now
            self._changed.clear()
            if changed != known:
                await manager.pins.keep(self.name, changed)
            self.problem = f"its program has changed, so it is not started: /mcp {self.name}"
            await self._notify(changed, "its program. It is not started")
            self.tried.set()
            self.waits = True
            await self._changed.wait()
            self.waits = False
        return None

    def _open_network(self) -> AbstractAsyncContextManager[NetworkProxy | None]:
        config, sandbox = self.config, self.manager.sandbox
        if not config.domains:
            return nullcontext()
        return sandbox.open_proxy(config.domains, heard=self._log_refused)

    def _log_refused(self, line: str) -> None:
        log.warning("MCP server %s: %s", self.name, line)

    async def _refresh_view(self, session: "McpSession") -> None:
        """It starts anew where it would see files as they were."""
        if self._files and await self._files.is_stale():
            self._drop_session(session)
            session.wire.closed.set()
            raise NotSent(f"its MCP server {self.name} starts anew, because files have changed")

    def _log_stderr(self, line: str) -> None:
        self.said.note(line)
        log.info("MCP server %s says: %s", self.name, sanitize_line(line, 500))

    async def _serve_session(self, session: "McpSession") -> str:
        """Errors are returned, because the connection would turn them into others."""
        try:
            self._changed.clear()
            await self._refresh(session)
            self._session.set_result(session)
            self.problem = ""
            self.tried.set()
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(session))
                await session.wire.closed.wait()
                watching.cancel()
        except AidaemonError as error:
            return str(error)
        finally:
            self._drop_session(session)
        return session.wire.why

    async def _watch(self, session: "McpSession") -> None:
        while True:
            await self._changed.wait()
            with suppress(AidaemonError):
                await self._refresh_if_changed(session)
            await self.manager.sleep(REFRESH_EVERY_S)

    async def _refresh_if_changed(self, session: "McpSession") -> None:
        async with self._refresh_lock:
            if self._changed.is_set():
                self._changed.clear()
                try:
                    await self._refresh(session)
                except BaseException:
                    self._changed.set()
                    raise

    async def _refresh(self, session: "McpSession") -> None:
        listed = await session.list_tools()
        offered, left_out = sort_tools(self.name, listed.tools, listed.left_out)
        if left_out and not (self._listing and self._listing.pins.left_out == left_out):
            lines = "; ".join(line.strip() for line in render_left_out(left_out))
            log.warning("MCP server %s: what cannot be used of its tools: %s", self.name, lines)
        pins = self.manager.pins
        known = await pins.get(self.name)
        listing = compare_tools(known, list(offered.values()), token_hex())
        approved = {**listing.pins.approved, **({PROGRAM: self._program} if self._program else {})}
        pinned = replace(listing.pins, approved=approved, left_out=left_out)
        listing = replace(listing, pins=pinned)
        if listing.pins != known:
            await pins.keep(self.name, listing.pins)
        before, self._listing = self._listing, listing
        if not before or (before.usable, before.disabled) != (listing.usable, listing.disabled):
            make = partial(
                McpTool, self.name, self.config, call=self.call, abandon=self.open_calls.abandon
            )
            tools = [
                make(one, is_disabled=one in listing.disabled).make(
                    known=one.name in listing.pins.approved
                )
                for one in (*listing.usable, *listing.disabled)
            ]
            self.open_calls.end_all_but({RESOURCES.name, *offered})
            if session.has_resources and RESOURCES.name not in offered:
                tools.append(make(RESOURCES).make(known=True))
            if taken := self.manager.registry.replace_source(f"mcp {self.name}", tools):
                log.warning("MCP server %s: names already in use: %s", self.name, ", ".join(taken))
        if known is None:
            names = ", ".join(map(escape_hidden, offered))
            log.info("MCP server %s is new; its tools are accepted: %s", self.name, names)
        await self._notify(listing.pins, "its tools. What is changed or new is switched off")

    async def _notify(self, new: ServerPins, what: str) -> None:
        """Once for each change, and rarely: a server must not be able to talk to the owner."""
        now = self.manager.clock.monotonic()
        recent = now - self._notified_at < NOTIFY_EVERY_S
        if recent or new.code in ("", new.notified_code):
            return
        self._notified_at = now
        await self.manager.pins.keep(self.name, replace(new, notified_code=new.code))
        await self.manager.notify(
            f"The MCP server {self.name} has changed {what} until you approve it:"
            f"\n{render_change(self.name, new)}"
        )

    async def call(
        self, tool: ServerTool, arguments: Mapping[str, object], caller: Caller
    ) -> ToolOutput:
        """Its result, or what its server needs to know of a person first: then the call goes on
        when this is called again with their answer.
        """
        opened, answered = self.open_calls.take(caller.key), caller.answered
        if opened is None:
            if answered and find_effect(self.config, tool) is not Effect.READ:
                raise NoAnswer("it was called, and did not go on until there was an answer")
            can_ask, answered = caller.can_ask and len(self.open_calls) < MAX_OPEN, None
            opened = OpenCall(self.name, tool.name, can_ask)
            opened.begin(self._call(tool, arguments, caller.on_progress, opened))
        output = await opened.wait(answered)
        if output.question:
            self.open_calls.keep(caller.key, opened)
        return output

    async def _call(
        self,
        tool: ServerTool,
        arguments: Mapping[str, object],
        on_progress: OnProgress,
        opened: OpenCall,
    ) -> ToolOutput:
        """Call once; before that, tools that may have changed are listed again. What a session was
        refused is asked for in a new one, where that cannot do it twice.
        """
        was_tried = False
        while True:
            session = await self.wait_for_session()
            opened.begin_again()
            try:
                await self._refresh_if_changed(session)
                if tool is not RESOURCES and self._listing and tool not in self._listing.usable:
                    raise ToolChanged(describe_disabled(self.name, tool.name))
                await self._refresh_view(session)
                output = await (
                    session.read_resource(str(arguments.get("uri") or ""))
                    if tool is RESOURCES
                    else session.call_tool(tool.name, arguments, on_progress, opened.ask)
                )
                said = await self._files.collect() if self._files else ""
                if said:
                    about = f"The MCP server {self.name} wrote in the workspace. {said}"
                    await self.manager.notify(about)
                return replace(output, text=f"{output.text}\n{said}") if said else output
            except SessionRefused as error:
                self._drop_session(session)
                effect = find_effect(self.config, tool)
                if was_tried or not (error.is_certain or effect is Effect.READ):
                    again = ", and again in a new session" if was_tried else ""
                    text = f"its MCP server {self.name} refused the call{again}: {error}"
                    return ToolOutput(text, is_error=True)
                was_tried = True
            except NotSent:
                self._drop_session(session)
                if was_tried:
                    raise
                was_tried = True

    async def wait_for_session(self) -> "McpSession":
        """The session that stands, or the next. Raises NotSent when none comes."""
        try:
            async with asyncio.timeout(WAIT_SESSION_S):
                return await asyncio.shield(self._session)
        except TimeoutError:
            raise NotSent(f"its MCP server {self.name} is not there") from None

    def _drop_session(self, session: "McpSession") -> None:
        if self._session.done() and self._session.result() is session:
            self._session = asyncio.Future()

    async def approve(self, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """See PinStore.approve."""
        async with self._refresh_lock:
            names = await self.manager.pins.approve(self.name, code, tools)
            self._changed.set()
        if self._session.done():
            with suppress(AidaemonError):
                await self._refresh_if_changed(self._session.result())
        return names


def _read_arguments(names: Sequence[str], given: str) -> dict[str, str]:
    """Raises UsageError where they do not fit."""
    if not given or not names:
        return {}
    parts = [word.partition("=") for word in given.split()]
    if all(name in names and sign for name, sign, _ in parts):
        return {name: text for name, _, text in parts}
    if len(names) == 1:
        return {names[0]: given}
    raise UsageError(f"Its arguments: {' '.join(f'{name}=...' for name in names)}")
