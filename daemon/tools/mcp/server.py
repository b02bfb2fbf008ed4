"""One MCP server, kept going: connected again when it breaks, its tools looked at whenever they may have changed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex

from daemon.core.clock import Clock
from daemon.core.errors import AidaemonError
from daemon.tools.base import Tool
from daemon.tools.mcp.approving import Shelf, approve_kept, change
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.diffs import visible
from daemon.tools.mcp.launch import Fence, place_of
from daemon.tools.mcp.naming import shown_name
from daemon.tools.mcp.pins import Looked, Pins, look
from daemon.tools.mcp.session import Connect, Definition, NotSent, Said, ServerLost, Session, Tell
from daemon.tools.mcp.texts import one_line
from daemon.tools.mcp.tools import OFF, Changed, Maker, fit

log = logging.getLogger(__name__)

WAITS = (1.0, 2.0, 5.0, 15.0, 60.0, 300.0)
STEADY_S = 60.0
REACH_S = 10.0
LOOK_EVERY_S = 1.0
TELL_EVERY_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What every server works with."""

    connect: Connect
    adopt: Callable[[str, Sequence[Tool]], tuple[str, ...]]
    shelf: Shelf
    fence: Fence
    tell: Tell
    clock: Clock
    folder: Path
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    new_salt: Callable[[], str] = token_hex


@dataclass(slots=True)
class Server:
    """`tried` is set once it is known what the server offers, or that it cannot be had for now; `ailment` says why not."""

    name: str
    config: McpConfig
    means: Means
    ailment: str = "not started yet"
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    looked: Looked | None = None
    _session: Session | None = None
    _up: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _told_at: float = -TELL_EVERY_S

    async def run(self) -> None:
        """For as long as the house stands."""
        failures = 0
        while True:
            began = self.means.clock.monotonic()
            self.ailment = await self._once()
            if self.means.clock.monotonic() - began > STEADY_S:
                failures = 0
            wait = WAITS[min(failures, len(WAITS) - 1)]
            failures += 1
            log.warning("MCP server %s: %s; it is tried again in %g s", self.name, one_line(self.ailment), wait)
            self.tried.set()
            await self.means.sleep(wait)

    async def _once(self) -> str:
        """One connection, from its beginning to its end; why it ended."""
        try:
            place = await asyncio.to_thread(place_of, self.name, self.config, self.means.fence, self.means.folder / self.name)
            async with self.means.connect(place, changed=self._changed.set, heard=self._heard) as session:
                return await self._talk(session)
        except AidaemonError as error:
            return str(error)
        except Exception as error:  # the border of a server: what it breaks is its own connection, no more
            log.debug("MCP server %s", self.name, exc_info=True)
            return f"{type(error).__name__}: {error}"

    async def _talk(self, session: Session) -> str:
        """What goes wrong is given back, not raised: the connection it would pass through makes other errors of it."""
        try:
            self._changed.clear()
            await self._look(session)
            self._session, self.ailment = session, ""
            self._up.set()
            self.tried.set()
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(session))
                why = await session.lost()
                watching.cancel()
        except AidaemonError as error:
            return str(error)
        finally:
            self._forget(session)
        return why

    async def _watch(self, session: Session) -> None:
        while True:
            await self._changed.wait()
            with suppress(AidaemonError):
                await self._look_again(session)
            await self.means.sleep(LOOK_EVERY_S)

    async def _look_again(self, session: Session) -> None:
        async with self._looking:
            if self._changed.is_set():
                self._changed.clear()
                try:
                    await self._look(session)
                except BaseException:
                    self._changed.set()
                    raise

    def _heard(self, line: str) -> None:
        log.info("MCP server %s says: %s", self.name, one_line(line, 500))

    async def _look(self, session: Session) -> None:
        offered = self._fit(await session.list_tools())
        before = await self.means.shelf.pins(self.name)
        looked = look(before, offered)
        if not looked.pins.salt:
            looked = replace(looked, pins=replace(looked.pins, salt=self.means.new_salt()))
        if looked.pins != before:
            await self.means.shelf.keep(self.name, looked.pins)
        self._show(looked)
        if looked.first:
            names = ", ".join(visible(one.name) for one in offered)
            log.info("MCP server %s is met for the first time: its tools are taken as they are now (%s)", self.name, names)
        await self._tell(looked.pins)

    def _fit(self, offered: Sequence[Definition]) -> list[Definition]:
        """Each name once, and only what a model can be shown."""
        found: dict[str, Definition] = {}
        for one in offered:
            why = "it is listed twice" if one.name in found else fit(one)
            if why:
                log.warning("MCP server %s: its tool %s is left out: %s", self.name, one_line(visible(one.name)), why)
            else:
                found[one.name] = one
        return list(found.values())

    def _show(self, looked: Looked) -> None:
        maker = Maker(self.name, self.config, self)
        tools = [maker.usable(one) for one in looked.usable]
        tools += [maker.off(pin.definition, known=pin.definition.name in looked.pins.approved) for pin in looked.off]
        before, self.looked = self.looked, looked
        if before and (before.usable, before.off) == (looked.usable, looked.off):
            return
        if taken := self.means.adopt(f"mcp {self.name}", tools):
            log.warning("MCP server %s: these names are others' already: %s", self.name, ", ".join(taken))

    async def _tell(self, pins: Pins) -> None:
        """Once for each change, and not more often than every ten minutes: a server must not be able to talk to the owner."""
        now = self.means.clock.monotonic()
        if not pins.code or pins.code == pins.told or now - self._told_at < TELL_EVERY_S:
            return
        self._told_at = now
        await self.means.shelf.keep(self.name, replace(pins, told=pins.code))
        await self.means.tell(
            f"The MCP server {self.name} has changed its tools. What is changed or new is switched off until you approve it:\n"
            f"{change(self.name, pins)}"
        )

    async def call(self, definition: Definition, arguments: Mapping[str, object]) -> Said:
        """Ask the server once; before that, what it offers is looked at again if it said that it has changed."""
        session = await self._reach()
        try:
            return await self._ask(session, definition, arguments)
        except NotSent:
            self._forget(session)
        return await self._ask(await self._reach(), definition, arguments)

    async def _ask(self, session: Session, definition: Definition, arguments: Mapping[str, object]) -> Said:
        try:
            await self._look_again(session)
        except ServerLost as error:
            raise NotSent(str(error)) from error
        if self.looked and definition not in self.looked.usable:
            raise Changed(OFF.format(tool=shown_name(self.name, definition.name), server=self.name))
        return await session.call_tool(definition.name, arguments)

    def _forget(self, session: Session) -> None:
        """It is gone; the next one is waited for."""
        if self._session is session:
            self._session = None
            self._up.clear()

    async def _reach(self) -> Session:
        """The connection; a broken one gets a moment to come back."""
        try:
            async with asyncio.timeout(REACH_S):
                await self._up.wait()
        except TimeoutError:
            raise NotSent(f"its MCP server {self.name} is not there") from None
        if self._session is None:
            raise NotSent(f"its MCP server {self.name} has just gone")
        return self._session

    async def approve(self, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """See approving.approve_kept; what is approved can be called at once."""
        async with self._looking:
            names = await approve_kept(self.means.shelf, self.name, code, tools)
            self._changed.set()
        if self._session:
            with suppress(AidaemonError):
                await self._look_again(self._session)
        return names
