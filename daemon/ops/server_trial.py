"""Tries one server as the daemon would start it: what it offers, or its last words (G2)."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from secrets import token_hex

from daemon.core import value
from daemon.core.errors import AidaemonError
from daemon.core.trust import Effect
from daemon.tools.layers.layer import OUT, Layer
from daemon.tools.mcp.address import server_address
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.last_words import LastWords
from daemon.tools.mcp.server_files import reaches
from daemon.tools.mcp.servers import Connect
from daemon.tools.mcp.tools import (
    ServerTool,
    find_effect,
    make_tool_name,
    read_hints,
    sanitize_line,
)
from daemon.tools.shell.sandbox import Sandbox

TRIAL_S = 90.0


@value
class Trial:
    """`problem` says why it did not list its tools."""

    tools: Sequence[ServerTool] = ()
    left_out: Sequence[str] = ()
    problem: str = ""


async def try_server(
    name: str,
    config: McpConfig,
    sandbox: Sandbox,
    folder: Path,
    connect: Connect,
    redact: Callable[[str], str] = str,
) -> Trial:
    """Start it, ask for its tools, and end it. `folder` is its home, as in the daemon."""
    said, problem = LastWords(redact), ""
    try:
        async with asyncio.timeout(TRIAL_S):
            network = sandbox.open_proxy(config.domains) if config.domains else nullcontext()
            async with network as proxy, _open_layer(config, sandbox) as layer:
                address = await asyncio.to_thread(
                    server_address, name, config, sandbox, folder, proxy, layer
                )
                async with connect(address, lambda: None, said.note) as session:
                    listed = await session.list_tools()
    except TimeoutError:
        problem = f"it said nothing within {TRIAL_S:g} s"
    except (AidaemonError, OSError, ValueError, ExceptionGroup) as error:
        problem = str(error)
    else:
        if listed.tools:
            left_out = [
                f"  {sanitize_line(one)}: {sanitize_line(why)}"
                for one, why in listed.left_out.items()
            ]
            return Trial(listed.tools, left_out)
        problem = "it has no tools"
    return Trial(problem=said.explain(problem, config) + said.quote())


def _open_layer(config: McpConfig, sandbox: Sandbox) -> AbstractAsyncContextManager[Layer | None]:
    """What it writes in the workspace meanwhile is dropped: nobody ordered it."""
    if sandbox.layers is None or not reaches(config, sandbox.workspace):
        return nullcontext()
    return sandbox.layers.open(f"trial-{token_hex(4)}", out=f"{OUT}/trial")


def render_tools(name: str, config: McpConfig, tools: Sequence[ServerTool]) -> list[str]:
    """A line for each tool: the effect that it gets, and what it says of itself."""
    asks = {Effect.READ: "never asks", Effect.FETCH: "asks after something private was read"}
    rows = [(make_tool_name(name, one.name), find_effect(config, one), one) for one in tools]
    width = max((len(shown) for shown, _, _ in rows), default=0)
    lines = []
    for shown, effect, tool in rows:
        said = ", ".join(read_hints(tool)) or "nothing"
        asked = asks.get(effect, "asks before each call")
        lines.append(f"  {shown:<{width}}  {effect.value:<11}  {asked} (it says: {said})")
    return lines
