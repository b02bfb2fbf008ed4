"""For who manages the daemon: MCP servers (list them, show what has changed, approve it: A22), and
people who may talk to it (trust.md).
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from daemon.access.chat_ids import account_name
from daemon.access.directory import Directory, drop_queued, roles_by_name
from daemon.core import value
from daemon.core.trust import Role
from daemon.sessions.manager import SessionManager
from daemon.tools.mcp.pins import (
    PinStore,
    escape_hidden,
    render_change,
    render_overview,
)
from daemon.tools.mcp.servers import ServerManager

DROPPED_REASON = "its sender was removed from the list"
MCP_CODE = re.compile(r"[0-9a-f]{8}")
MCP_USAGE = (
    "/mcp lists the servers, /mcp NAME [TOOL] shows what has changed (/mcp whole NAME all of it), "
    "/mcp approve NAME CODE [TOOL] approves it."
)


async def answer_mcp(
    text: str, pins: PinStore, names: Sequence[str], servers: ServerManager | None = None
) -> str:
    """The reply to /mcp TEXT; `names` are the configured servers, `servers` those of a running
    daemon.
    """
    words = text.split()
    verb = words.pop(0) if words and words[0] in ("list", "whole", "approve", "forget") else ""
    if not words:
        if verb in ("approve", "whole", "forget"):
            return MCP_USAGE
        down = servers.problems() if servers else {}
        words = servers.list_last_words() if servers else {}
        problems = {name: f"{why}{words.get(name, '')}" for name, why in down.items()}
        return render_overview(names, await pins.all(), problems)
    server, *rest = words
    if verb == "forget" and server not in names:
        await pins.forget(server)
        return f"{server} is met anew if it comes back."
    if server not in names or verb == "forget":
        return (
            f"There is no MCP server {server}; configured: {', '.join(names) or 'none'}."
            f" {MCP_USAGE}"
        )
    if verb == "approve" and rest and MCP_CODE.fullmatch(rest[0]):
        if approved := await (servers or pins).approve(server, rest[0], rest[1:]):
            return f"Approved, of {server}: {', '.join(map(escape_hidden, approved))}"
        return (
            f"Nothing was approved: {rest[0]} is not the code of the current changes. /mcp"
            f" {server} shows them."
        )
    return render_change(server, await pins.get(server), rest, whole=verb == "whole")


@value(kw_only=True)
class PeopleService(Directory):
    """`config_roles`: the roles that the config gives, by channel and sender."""

    sessions: SessionManager
    config_roles: Mapping[str, Mapping[str, Role]]

    async def remove(self, name: str) -> bool:
        """Their queued work is dropped, too."""
        if not await Directory.remove(self, name):
            return False
        for channel, roles in self.config_roles.items():
            for row in await drop_queued(self, channel, roles):
                self.sessions.drop(row, DROPPED_REASON)
        # what runs for them ends at once, and with it what they see of it
        if name.count("/") == 2 and not self.is_in_config(name):
            kind, account, sender = map(unquote, name.split("/"))
            self.sessions.cancel_sender(f"{account_name(kind, account)}:{sender}", DROPPED_REASON)
        return True

    def is_in_config(self, name: str) -> bool:
        """The config lists them, whatever the journal says."""
        return any(name in roles_by_name(*channel) for channel in self.config_roles.items())
