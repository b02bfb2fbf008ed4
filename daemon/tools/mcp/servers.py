"""How a server is started: inside the sandbox, with an environment of its own and the places that the config names.

One MCP server, kept going: connected again when it breaks, its tools looked at whenever they may have changed.

All MCP servers of the config: started in the background, their tools found by those who look for tools.
"""

import asyncio
import logging
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import AidaemonError
from daemon.core.journal import Store
from daemon.tools.base import Tool
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.pins import (
    PinRepository,
    ServerPins,
    ToolListing,
    approve_waiting,
    compare_tools,
    escape_hidden,
    pins_from_json,
    pins_to_json,
    render_change,
)
from daemon.tools.mcp.protocol import (
    CallAnswer,
    Connect,
    McpSession,
    Notify,
    NotSent,
    ProcessAddress,
    ServerLost,
    ServerTool,
    UrlAddress,
)
from daemon.tools.mcp.tools import (
    DISABLED,
    ToolChanged,
    ToolMaker,
    exposed_name,
    sanitize_line,
    why_unfit,
)

PASSED_VARIABLES = ("PATH", "HOME", "LANG", "TZ")
PATH = "/usr/local/bin:/usr/bin:/bin"


class SandboxMissing(AidaemonError):
    """This machine has no sandbox."""


class McpSandbox(Protocol):
    """What keeps a server from the rest of the machine."""

    @property
    def kind(self) -> str:
        """What there is; "none" when nothing is."""
        ...

    def wrap_server(
        self,
        inner: Sequence[str],
        *,
        network: bool,
        writable: Sequence[Path],
        readable: Sequence[Path],
        env: Mapping[str, str],
        cwd: Path,
    ) -> list[str]:
        """The command line that runs `inner` behind it."""
        ...


def server_address(
    name: str, config: McpConfig, fence: McpSandbox, folder: Path
) -> ProcessAddress | UrlAddress:
    """Where the server is, or how to start it; `folder` is made for it, its home and the one place that it can always write to.

    Raises NoFence when it must be fenced in and cannot be.
    """
    if config.url:
        return UrlAddress(config.url, config.headers)
    inner = (_find_program(config.command), *config.args)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if config.sandbox == "off":
        return ProcessAddress(inner, {**_base_env(), **config.env}, str(folder))
    if fence.kind == "none":
        raise SandboxMissing(
            f"the MCP server {name} is not started: this machine has no sandbox. Install bubblewrap, "
            f'or set sandbox = "off" in [mcp.{name}] if it may do all that you may do'
        )
    env = {"PATH": PATH, "HOME": str(folder), "LANG": "C.UTF-8", **config.env}
    writable = [folder, *(Path(path).expanduser() for path in config.paths)]
    argv = fence.wrap_server(
        inner,
        network=config.network,
        writable=writable,
        readable=readable_paths(inner),
        env=env,
        cwd=folder,
    )
    return ProcessAddress(tuple(argv), env, str(folder))


def readable_paths(argv: Sequence[str]) -> list[Path]:
    """The program itself, the Python environment that it belongs to, and the files that the command line names."""
    program = Path(argv[0])
    named = [Path(word) for word in argv[1:] if word.startswith("/") and Path(word).is_file()]
    return [place for place in (program, *_venv_paths(program), *named) if place.exists()]


def _venv_paths(program: Path) -> list[Path]:
    """A venv is of no use without its packages, and these not without the interpreter that it was made from."""
    venv = program.parent.parent
    settings = venv / "pyvenv.cfg"
    if not settings.is_file():
        return []
    made_from = re.search(r"^home\s*=\s*(\S.*?)\s*$", settings.read_text(), re.MULTILINE)
    return [venv, Path(made_from[1]), Path(made_from[1]).parent / "lib"] if made_from else [venv]


def _find_program(command: str) -> str:
    found = shutil.which(Path(command).expanduser())
    return str(Path(found).absolute()) if found else command


def _base_env() -> dict[str, str]:
    return {"PATH": PATH} | {
        name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ
    }


log = logging.getLogger(__name__)

RECONNECT_DELAYS = (1.0, 2.0, 5.0, 15.0, 60.0, 300.0)
STEADY_S = 60.0
WAIT_SESSION_S = 10.0
REFRESH_EVERY_S = 1.0
NOTIFY_EVERY_S = 600.0


@value(kw_only=True)
class ServerDeps:
    """What every server works with."""

    connect: Connect
    replace_source: Callable[[str, Sequence[Tool]], tuple[str, ...]]
    pin_store: PinRepository
    sandbox: McpSandbox
    notify: Notify
    clock: Clock
    folder: Path
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    new_salt: Callable[[], str] = token_hex


@dataclass(slots=True)
class McpServer:
    """`tried` is set once it is known what the server offers, or that it cannot be had for now; `ailment` says why not."""

    name: str
    config: McpConfig
    deps: ServerDeps
    problem: str = "not started yet"
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    listing: ToolListing | None = None
    _session: McpSession | None = None
    _connected: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _refresh_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _notified_at: float = -NOTIFY_EVERY_S

    async def run(self) -> None:
        """For as long as the house stands."""
        failures = 0
        while True:
            began = self.deps.clock.monotonic()
            self.problem = await self._connect_once()
            if self.deps.clock.monotonic() - began > STEADY_S:
                failures = 0
            wait = RECONNECT_DELAYS[min(failures, len(RECONNECT_DELAYS) - 1)]
            failures += 1
            log.warning(
                "MCP server %s: %s; it is tried again in %g s",
                self.name,
                sanitize_line(self.problem),
                wait,
            )
            self.tried.set()
            await self.deps.sleep(wait)

    async def _connect_once(self) -> str:
        """One connection, from its beginning to its end; why it ended."""
        try:
            place = await asyncio.to_thread(
                server_address,
                self.name,
                self.config,
                self.deps.sandbox,
                self.deps.folder / self.name,
            )
            async with self.deps.connect(
                place, changed=self._changed.set, heard=self._log_stderr
            ) as session:
                return await self._serve_session(session)
        except AidaemonError as error:
            return str(error)
        except (
            Exception
        ) as error:  # the border of a server: what it breaks is its own connection, no more
            log.debug("MCP server %s", self.name, exc_info=True)
            return f"{type(error).__name__}: {error}"

    async def _serve_session(self, session: McpSession) -> str:
        """What goes wrong is given back, not raised: the connection it would pass through makes other errors of it."""
        try:
            self._changed.clear()
            await self._refresh(session)
            self._session, self.problem = session, ""
            self._connected.set()
            self.tried.set()
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(session))
                why = await session.wait_lost()
                watching.cancel()
        except AidaemonError as error:
            return str(error)
        finally:
            self._drop_session(session)
        return why

    async def _watch(self, session: McpSession) -> None:
        while True:
            await self._changed.wait()
            with suppress(AidaemonError):
                await self._refresh_if_changed(session)
            await self.deps.sleep(REFRESH_EVERY_S)

    async def _refresh_if_changed(self, session: McpSession) -> None:
        async with self._refresh_lock:
            if self._changed.is_set():
                self._changed.clear()
                try:
                    await self._refresh(session)
                except BaseException:
                    self._changed.set()
                    raise

    def _log_stderr(self, line: str) -> None:
        log.info("MCP server %s says: %s", self.name, sanitize_line(line, 500))

    async def _refresh(self, session: McpSession) -> None:
        offered = self._drop_unfit(await session.list_tools())
        before = await self.deps.pin_store.get(self.name)
        looked = compare_tools(before, offered)
        if not looked.pins.salt:
            looked = replace(looked, pins=replace(looked.pins, salt=self.deps.new_salt()))
        if looked.pins != before:
            await self.deps.pin_store.keep(self.name, looked.pins)
        self._publish(looked)
        if looked.first:
            names = ", ".join(escape_hidden(one.name) for one in offered)
            log.info(
                "MCP server %s is met for the first time: its tools are taken as they are now (%s)",
                self.name,
                names,
            )
        await self._notify_owner(looked.pins)

    def _drop_unfit(self, offered: Sequence[ServerTool]) -> list[ServerTool]:
        """Each name once, and only what a model can be shown."""
        found: dict[str, ServerTool] = {}
        for one in offered:
            why = "it is listed twice" if one.name in found else why_unfit(one)
            if why:
                log.warning(
                    "MCP server %s: its tool %s is left out: %s",
                    self.name,
                    sanitize_line(escape_hidden(one.name)),
                    why,
                )
            else:
                found[one.name] = one
        return list(found.values())

    def _publish(self, looked: ToolListing) -> None:
        maker = ToolMaker(self.name, self.config, self)
        tools = [maker.usable(one) for one in looked.usable]
        tools += [
            maker.disabled(pin.definition, known=pin.definition.name in looked.pins.approved)
            for pin in looked.disabled
        ]
        before, self.listing = self.listing, looked
        if before and (before.usable, before.disabled) == (looked.usable, looked.disabled):
            return
        if taken := self.deps.replace_source(f"mcp {self.name}", tools):
            log.warning(
                "MCP server %s: these names are others' already: %s", self.name, ", ".join(taken)
            )

    async def _notify_owner(self, pins: ServerPins) -> None:
        """Once for each change, and not more often than every ten minutes: a server must not be able to talk to the owner."""
        now = self.deps.clock.monotonic()
        if (
            not pins.code
            or pins.code == pins.notified_code
            or now - self._notified_at < NOTIFY_EVERY_S
        ):
            return
        self._notified_at = now
        await self.deps.pin_store.keep(self.name, replace(pins, notified_code=pins.code))
        await self.deps.notify(
            f"The MCP server {self.name} has changed its tools. What is changed or new is switched off until you approve it:\n"
            f"{render_change(self.name, pins)}"
        )

    async def call(self, definition: ServerTool, arguments: Mapping[str, object]) -> CallAnswer:
        """Ask the server once; before that, what it offers is looked at again if it said that it has changed."""
        session = await self._wait_session()
        try:
            return await self._call_session(session, definition, arguments)
        except NotSent:
            self._drop_session(session)
        return await self._call_session(await self._wait_session(), definition, arguments)

    async def _call_session(
        self, session: McpSession, definition: ServerTool, arguments: Mapping[str, object]
    ) -> CallAnswer:
        try:
            await self._refresh_if_changed(session)
        except ServerLost as error:
            raise NotSent(str(error)) from error
        if self.listing and definition not in self.listing.usable:
            raise ToolChanged(
                DISABLED.format(tool=exposed_name(self.name, definition.name), server=self.name)
            )
        return await session.call_tool(definition.name, arguments)

    def _drop_session(self, session: McpSession) -> None:
        """It is gone; the next one is waited for."""
        if self._session is session:
            self._session = None
            self._connected.clear()

    async def _wait_session(self) -> McpSession:
        """The connection; a broken one gets a moment to come back."""
        try:
            async with asyncio.timeout(WAIT_SESSION_S):
                await self._connected.wait()
        except TimeoutError:
            raise NotSent(f"its MCP server {self.name} is not there") from None
        if self._session is None:
            raise NotSent(f"its MCP server {self.name} has just gone")
        return self._session

    async def approve(self, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """See approving.approve_kept; what is approved can be called at once."""
        async with self._refresh_lock:
            names = await approve_waiting(self.deps.pin_store, self.name, code, tools)
            self._changed.set()
        if self._session:
            with suppress(AidaemonError):
                await self._refresh_if_changed(self._session)
        return names


@value
class StoredPins:
    """See server.Shelf."""

    store: Store

    async def get(self, server: str) -> ServerPins | None:
        """Those of this server; None when it was never met."""
        text = await self.store.read(lambda tx: tx.get_pins(server))
        return None if text is None else pins_from_json(text)

    async def keep(self, server: str, pins: ServerPins) -> None:
        """From now on these."""
        text = pins_to_json(pins)
        await self.store.write(lambda tx: tx.put_pins(server, text))

    async def all(self) -> dict[str, ServerPins]:
        """Of every server that was ever met."""
        kept = await self.store.read(lambda tx: tx.list_pins())
        return {name: pins_from_json(text) for name, text in kept.items()}


class ServerManager:
    """Nothing is started before `start`, and nothing is left after `aclose`."""

    def __init__(self, configs: Mapping[str, McpConfig], means: ServerDeps) -> None:
        self._servers = {name: McpServer(name, config, means) for name, config in configs.items()}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, in the background: nobody waits for a slow server."""
        for name, server in self._servers.items():
            self._tasks.append(asyncio.create_task(server.run(), name=f"mcp {name}"))

    async def ready(self, seconds: float) -> bool:
        """Wait until every server has shown its tools or has failed once; False when that takes longer than these seconds."""
        try:
            async with asyncio.timeout(seconds):
                for server in self._servers.values():
                    await server.tried.wait()
        except TimeoutError:
            return False
        return True

    async def aclose(self) -> None:
        """End all connections and all processes."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()

    def problems(self) -> dict[str, str]:
        """Why a server's tools cannot be used just now, by its name."""
        return {name: server.problem for name, server in self._servers.items() if server.problem}

    def names(self) -> tuple[str, ...]:
        """All that are configured."""
        return tuple(self._servers)

    async def approve(self, server: str, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """See Server.approve; KeyError for a server that is not configured."""
        return await self._servers[server].approve(code, tools)
