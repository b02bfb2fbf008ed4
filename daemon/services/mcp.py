"""MCP servers: list them, show what has changed, approve it (A22)."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from daemon.tools.mcp.pins import (
    DIFF_LINES,
    PinStore,
    escape_hidden,
    render_change,
    render_overview,
)

MCP_CODE = re.compile(r"[0-9a-f]{8}")
MCP_VERBS = ("list", "whole", "approve")
MCP_USAGE = (
    "/mcp lists the servers, /mcp NAME [TOOL] shows what has changed (/mcp whole NAME all of it), "
    "/mcp approve NAME CODE [TOOL] approves it."
)
ApproveServer = Callable[[str, str, Sequence[str]], Awaitable[tuple[str, ...]]]


async def answer_mcp(
    text: str,
    pins: PinStore,
    names: Sequence[str],
    *,
    problems: Mapping[str, str] | None = None,
    approve: ApproveServer | None = None,
) -> str:
    """The reply to /mcp TEXT; `names` are the configured servers, `approve` that of a running
    daemon.
    """
    verb, words = "", text.split()
    if words and words[0] in MCP_VERBS:
        verb, *words = words
    if not words:
        return (
            MCP_USAGE
            if verb in ("approve", "whole")
            else render_overview(names, await pins.all(), problems or {})
        )
    server, *rest = words
    if server not in names:
        return (
            f"There is no MCP server {server}; configured: {', '.join(names) or 'none'}."
            f" {MCP_USAGE}"
        )
    if verb == "approve" and rest and MCP_CODE.fullmatch(rest[0]):
        approved = await (approve or pins.approve)(server, rest[0], rest[1:])
        if approved:
            return f"Approved, of {server}: {', '.join(map(escape_hidden, approved))}"
        return (
            f"Nothing was approved: {rest[0]} is not the code of the current changes. /mcp"
            f" {server} shows them."
        )
    return render_change(
        server, await pins.get(server), rest, lines=0 if verb == "whole" else DIFF_LINES
    )
