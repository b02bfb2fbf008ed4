"""The owner's word on what a server has changed: what is shown before a yes, and the yes, which is to exactly that (A22)."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from daemon.tools.mcp.diffs import LINES, difference, visible
from daemon.tools.mcp.naming import shown_name
from daemon.tools.mcp.pins import Pins, approve

APPROVE = "Approve exactly this: /mcp approve {server} {code}"


class Shelf(Protocol):
    """Where the pins of all servers are kept."""

    async def pins(self, server: str) -> Pins | None:
        """Those of this server; None when it was never met."""
        ...

    async def keep(self, server: str, pins: Pins) -> None:
        """From now on these. Raises StoreUnavailable."""
        ...


async def approve_kept(shelf: Shelf, server: str, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
    """Yes to what stands behind this code, or to these tools of it, named either way; the server's names of those that hold
    now. None of them when something else waits by now.
    """
    pins = await shelf.pins(server) or Pins()
    if not pins.code or pins.code != code:
        return ()
    names = tuple(name for name in pins.waiting if not tools or name in tools or shown_name(server, name) in tools)
    if names:
        await shelf.keep(server, approve(pins, names))
    return names


def overview(servers: Sequence[str], pins: Mapping[str, Pins], ailments: Mapping[str, str]) -> str:
    """A line for each configured server, and what waits."""
    lines = [_line(name, pins.get(name), ailments.get(name, "")) for name in servers]
    return "\n".join(lines) if lines else "No MCP server is configured: [mcp.NAME] in config.toml."


def _line(server: str, pins: Pins | None, ailment: str) -> str:
    if pins is None:
        return f"{server}: not met yet" + (f"; {visible(ailment)}" if ailment else "")
    names = ", ".join(shown_name(server, name) for name in pins.approved) or "no tools"
    waits = f"; {len(pins.waiting)} changed or new, which wait for you: /mcp {server}" if pins.waiting else ""
    return f"{server}: {names}{waits}" + (f"\n   it is not there now: {visible(ailment)}" if ailment else "")


def change(server: str, pins: Pins | None, tools: Sequence[str] = (), *, lines: int = LINES) -> str:
    """What waits, and what to say to approve exactly that."""
    if pins is None or not pins.waiting:
        return f"Nothing of {server} waits for an approval."
    named = [name for name in pins.waiting if name in tools or shown_name(server, name) in tools]
    if tools and not named:
        return f"No tool of that name waits: {', '.join(visible(name) for name in pins.waiting)}."
    shown = difference(pins, named, lines=lines)
    words = " ".join([pins.code, *(shown_name(server, name) for name in named)])
    more = f"All of it: /mcp whole {server}\n" if lines and shown != difference(pins, named, lines=0) else ""
    return f"{shown}\n{more}{APPROVE.format(server=server, code=words)}"
