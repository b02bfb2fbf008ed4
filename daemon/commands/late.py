"""Commands whose parts are imported only when somebody gives them."""

from typing import cast

from daemon import plugins
from daemon.commands.base import Command, Desk, Run, Spoken
from daemon.core.roles import Right


async def mcp(desk: Desk, spoken: Spoken) -> str:
    """/mcp: see commands.mcp."""
    return await cast(Run, plugins.load("commands", "mcp"))(desk, spoken)


COMMANDS = (Command("mcp", "servers of others and their tools; /mcp approve NAME", mcp, Right.MANAGE),)
