"""/mcp: servers whose tools are used, what they have changed, and the owner's yes to it (A22)."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from daemon.commands.registry import CommandCall, Services
from daemon.tools.mcp.pins import (
    DIFF_LINES,
    approve_waiting,
    escape_hidden,
    render_change,
    render_overview,
)
from daemon.tools.mcp.servers import StoredPins

MCP_CODE = re.compile(r"[0-9a-f]{8}")
MCP_VERBS = ("list", "whole", "approve")
MCP_USAGE = (
    "/mcp lists the servers, /mcp NAME [TOOL] shows what has changed (/mcp whole NAME all of it), "
    "/mcp approve NAME CODE [TOOL] approves it."
)


class ApproveServer(Protocol):
    """Takes a yes, and gives the names that hold from then on."""

    async def __call__(self, server: str, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """See tools.mcp.approving.approve_kept."""
        ...


async def run_mcp(desk: Services, spoken: CommandCall) -> str:
    """What the words say; without any, all servers."""
    pins, servers = StoredPins(desk.store), desk.servers
    if servers is None:
        return await answer_mcp(spoken.argument, pins, ())
    return await answer_mcp(
        spoken.argument, pins, servers.names(), ailments=servers.problems(), approve=servers.approve
    )


async def answer_mcp(
    said: str,
    pins: StoredPins,
    names: Sequence[str],
    *,
    ailments: Mapping[str, str] | None = None,
    approve: ApproveServer | None = None,
) -> str:
    """The reply; `names` are the configured servers."""
    verb, words = "", said.split()
    if words and words[0] in MCP_VERBS:
        verb, *words = words
    if not words:
        return (
            MCP_USAGE
            if verb in ("approve", "whole")
            else render_overview(names, await pins.all(), ailments or {})
        )
    server, *rest = words
    if server not in names:
        return f"There is no MCP server {server}; configured: {', '.join(names) or 'none'}. {MCP_USAGE}"
    if verb == "approve" and rest and MCP_CODE.fullmatch(rest[0]):
        return await _approve(approve or partial(approve_waiting, pins), server, rest[0], rest[1:])
    return render_change(
        server, await pins.get(server), rest, lines=0 if verb == "whole" else DIFF_LINES
    )


async def _approve(approve: ApproveServer, server: str, code: str, tools: Sequence[str]) -> str:
    held = await approve(server, code, tools)
    if not held:
        return f"Nothing was approved: what waits by now is not what {code} stands for. /mcp {server} shows it."
    return f"Approved, of {server}: {', '.join(escape_hidden(name) for name in held)}"
