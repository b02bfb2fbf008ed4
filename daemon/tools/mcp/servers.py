"""All MCP servers of the config: started in the background, their tools found by those who look for tools."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.pins import KIND, Pins, read, written
from daemon.tools.mcp.server import Means, Server

T = TypeVar("T")


class Reading(Protocol):
    """Looking at what is kept."""

    def kept(self, kind: str, name: str) -> str | None:
        """What is kept under this name."""
        ...

    def all_kept(self, kind: str) -> dict[str, str]:
        """All of this kind."""
        ...


class Writing(Reading, Protocol):
    """Keeping."""

    def keep(self, kind: str, name: str, value: str) -> None:
        """Keep this."""
        ...


class Store(Protocol):
    """The journal, as far as it is needed here."""

    async def write(self, work: Callable[[Writing], T]) -> T:
        """In one piece, on disk when it returns."""
        ...

    async def read(self, look: Callable[[Reading], T]) -> T:
        """See what is there."""
        ...


@dataclass(frozen=True, slots=True)
class StoredPins:
    """See server.Shelf."""

    store: Store

    async def pins(self, server: str) -> Pins | None:
        """Those of this server; None when it was never met."""
        text = await self.store.read(lambda tx: tx.kept(KIND, server))
        return None if text is None else read(text)

    async def keep(self, server: str, pins: Pins) -> None:
        """From now on these."""
        text = written(pins)
        await self.store.write(lambda tx: tx.keep(KIND, server, text))

    async def all(self) -> dict[str, Pins]:
        """Of every server that was ever met."""
        kept = await self.store.read(lambda tx: tx.all_kept(KIND))
        return {name: read(text) for name, text in kept.items()}


class Servers:
    """Nothing is started before `start`, and nothing is left after `aclose`."""

    def __init__(self, configs: Mapping[str, McpConfig], means: Means) -> None:
        self._servers = {name: Server(name, config, means) for name, config in configs.items()}
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

    def ailments(self) -> dict[str, str]:
        """Why a server's tools cannot be used just now, by its name."""
        return {name: server.ailment for name, server in self._servers.items() if server.ailment}

    def names(self) -> tuple[str, ...]:
        """All that are configured."""
        return tuple(self._servers)

    async def approve(self, server: str, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """See Server.approve; KeyError for a server that is not configured."""
        return await self._servers[server].approve(code, tools)
