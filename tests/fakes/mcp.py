"""Real MCP servers that play scripts, and the part of the house that keeps them, over a dispatcher."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daemon.core.events import ToolFinished
from daemon.store.sqlite import SqliteStore
from daemon.tools.mcp.client import connect
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.pins import PinStore
from daemon.tools.mcp.servers import ServerManager
from daemon.tools.registry import ToolRegistry
from daemon.tools.shell.sandbox import Sandbox
from tests.fakes.tools import Bench

Json = dict[str, Any]
PROGRAM = Path(__file__).with_name("mcp_server.py")
VENV = Path(sys.prefix)
WITHIN_S = 20.0


@dataclass
class Script:
    """What a server plays, and what it has done."""

    folder: Path
    name: str = "desk"

    @property
    def file(self) -> Path:
        return self.folder / f"{self.name}.json"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.jsonl"

    def write(
        self, tools: list[Json], outputs: Mapping[str, list[Json]] | None = None, **more: object
    ) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps({"tools": tools, "outputs": outputs or {}, **more}))

    def table(self, **more: object) -> Json:
        """The [mcp.NAME] of it, in the sandbox."""
        args = [str(PROGRAM), str(self.file), str(self.log)]
        return {"command": sys.executable, "args": args, "paths": [str(self.folder)], **more}

    def lines(self, key: str) -> list[Json]:
        """The lines of its log that have this key."""
        if not self.log.exists():
            return []
        return [line for line in map(json.loads, self.log.read_text().splitlines()) if key in line]

    def executed(self) -> list[tuple[str, Json]]:
        return [(line["tool"], line["arguments"]) for line in self.lines("tool")]

    def starts(self) -> int:
        return len(self.lines("started"))


@dataclass
class Kept:
    """Servers at work, whose tools a dispatcher has."""

    servers: ServerManager
    bench: Bench
    pins: PinStore
    told: list[str] = field(default_factory=list)

    @property
    def tools(self) -> ToolRegistry:
        found = self.bench.dispatcher.registry
        assert isinstance(found, ToolRegistry)
        return found

    async def one(self, name: str, **arguments: object) -> ToolFinished:
        """One call."""
        return await self.bench.one(name, json.dumps(arguments))


async def until(true: Callable[[], bool], within: float = WITHIN_S) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(within):
        while not true():
            await asyncio.sleep(0.01)


async def hurry(seconds: float) -> None:
    """Waits between tries, twenty times as short."""
    await asyncio.sleep(seconds / 20)


@asynccontextmanager
async def keeping(
    home: Path,
    configs: Mapping[str, Mapping[str, object]],
    bench: Bench | None = None,
    sandbox: Sandbox | None = None,
    wait: bool = True,
) -> AsyncIterator[Kept]:
    """The servers of a config, started, all of them looked at once; closed again."""
    workspace = home / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    store = await SqliteStore.open(home / "journal.db")
    bench, told, pins = bench or Bench(), [], PinStore(store)
    fence = sandbox or await Sandbox.open(workspace)

    async def tell(text: str) -> None:
        told.append(text)

    toolbox = bench.dispatcher.registry
    assert isinstance(toolbox, ToolRegistry)
    servers = ServerManager(
        connect=connect,
        registry=toolbox,
        pins=pins,
        sandbox=fence,
        notify=tell,
        clock=bench.clock,
        folder=home / "mcp",
        sleep=hurry,
    )
    servers.configure({name: McpConfig.model_validate(one) for name, one in configs.items()})
    try:
        assert not wait or await servers.ready(WITHIN_S)
        yield Kept(servers, bench, pins, told)
    finally:
        await servers.aclose()
        await store.aclose()
