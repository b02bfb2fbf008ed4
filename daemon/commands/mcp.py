"""/mcp: servers whose tools are used, what they have changed, and the owner's yes to it (A22)."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from daemon.commands.base import Desk, Spoken
from daemon.tools.mcp.approving import approve_kept, change, overview
from daemon.tools.mcp.diffs import LINES, visible
from daemon.tools.mcp.servers import StoredPins

CODE = re.compile(r"[0-9a-f]{8}")
VERBS = ("list", "whole", "approve")
USAGE = (
    "/mcp lists the servers, /mcp NAME [TOOL] shows what has changed (/mcp whole NAME all of it), "
    "/mcp approve NAME CODE [TOOL] approves it."
)


class Approve(Protocol):
    """Takes a yes, and gives the names that hold from then on."""

    async def __call__(self, server: str, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """See tools.mcp.approving.approve_kept."""
        ...


async def mcp(desk: Desk, spoken: Spoken) -> str:
    """What the words say; without any, all servers."""
    pins, servers = StoredPins(desk.store), desk.servers
    if servers is None:
        return await answer(spoken.argument, pins, ())
    return await answer(spoken.argument, pins, servers.names(), ailments=servers.ailments(), approve=servers.approve)


async def answer(
    said: str,
    pins: StoredPins,
    names: Sequence[str],
    *,
    ailments: Mapping[str, str] | None = None,
    approve: Approve | None = None,
) -> str:
    """The reply; `names` are the configured servers."""
    verb, words = "", said.split()
    if words and words[0] in VERBS:
        verb, *words = words
    if not words:
        return USAGE if verb in ("approve", "whole") else overview(names, await pins.all(), ailments or {})
    server, *rest = words
    if server not in names:
        return f"There is no MCP server {server}; configured: {', '.join(names) or 'none'}. {USAGE}"
    if verb == "approve" and rest and CODE.fullmatch(rest[0]):
        return await _approve(approve or partial(approve_kept, pins), server, rest[0], rest[1:])
    return change(server, await pins.pins(server), rest, lines=0 if verb == "whole" else LINES)


async def _approve(approve: Approve, server: str, code: str, tools: Sequence[str]) -> str:
    held = await approve(server, code, tools)
    if not held:
        return f"Nothing was approved: what waits by now is not what {code} stands for. /mcp {server} shows it."
    return f"Approved, of {server}: {', '.join(visible(name) for name in held)}"
