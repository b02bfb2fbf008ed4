"""Commands whose parts are imported only when somebody gives them."""

from typing import cast

from daemon import plugins
from daemon.commands.base import Command, Desk, Run, Spoken
from daemon.core.roles import Right

UNDO = "take back what I did to files: /undo [ID], /undo list"
RULES = "what I must ask first, or never do: /rules add SENTENCE, confirm N, remove N"
MCP = "servers of others and their tools; /mcp approve NAME"


async def run(desk: Desk, spoken: Spoken) -> str:
    """The command of this name: see commands.mcp, commands.rules and commands.undo."""
    return await cast(Run, plugins.load("commands", spoken.name))(desk, spoken)


COMMANDS = (
    Command("undo", UNDO, run, Right.DANGER),
    Command("rules", RULES, run, Right.MANAGE),
    Command("mcp", MCP, run, Right.MANAGE),
)
