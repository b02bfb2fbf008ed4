"""MCP servers of the config, each a source of tools."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

from daemon import addons as plugins
from daemon.core.clock import Clock
from daemon.core.journal import Store
from daemon.settings.model import Config
from daemon.tools.mcp.protocol import Connect, McpServers, Notify
from daemon.tools.mcp.servers import McpSandbox, ServerDeps, ServerManager, StoredPins
from daemon.tools.registry import ToolRegistry

FOLDER = "mcp"


async def open_servers(
    config: Config,
    *,
    home: Path,
    store: Store,
    tools: ToolRegistry,
    fence: McpSandbox,
    clock: Clock,
    tell: Notify,
    stack: AsyncExitStack,
) -> McpServers:
    """Start them, in the background.

    Raises ConfigError when the package that speaks the protocol is not installed.
    """
    connect = cast(Connect, await asyncio.to_thread(plugins.load_addon, "mcp", "client"))
    servers = ServerManager(config.mcp, ServerDeps(
        connect=connect, replace_source=tools.replace_source, pin_store=StoredPins(store), sandbox=fence, notify=tell, clock=clock, folder=home / FOLDER,
    ))  # fmt: skip
    stack.push_async_callback(servers.aclose)
    servers.start()
    return servers
