"""MCP servers of the config, each a source of tools."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

from daemon import plugins
from daemon.config.model import Config
from daemon.core.clock import Clock
from daemon.store.protocol import Store
from daemon.tools.mcp.launch import Fence
from daemon.tools.mcp.running import Running
from daemon.tools.mcp.server import Means
from daemon.tools.mcp.servers import Servers, StoredPins
from daemon.tools.mcp.session import Connect, Tell
from daemon.tools.toolbox import Tools

FOLDER = "mcp"


async def open_servers(
    config: Config, *, home: Path, store: Store, tools: Tools, fence: Fence, clock: Clock, tell: Tell, stack: AsyncExitStack
) -> Running:
    """Start them, in the background.

    Raises ConfigError when the package that speaks the protocol is not installed.
    """
    connect = cast(Connect, await asyncio.to_thread(plugins.load, "mcp", "client"))
    servers = Servers(config.mcp, Means(
        connect=connect, adopt=tools.adopt, shelf=StoredPins(store), fence=fence, tell=tell, clock=clock, folder=home / FOLDER,
    ))  # fmt: skip
    stack.push_async_callback(servers.aclose)
    servers.start()
    return servers
