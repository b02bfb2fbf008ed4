"""All commands there are, /help among them."""

from difflib import get_close_matches

from daemon.commands import agents, choose, control, late, loop, people, permit, reload, standing, status
from daemon.commands.base import Command, Desk, Spoken
from daemon.core.roles import Right, may


async def show_help(desk: Desk, spoken: Spoken) -> str:
    """One line each."""
    return "\n".join(f"/{command.name} - {command.help}" for command in TABLE.values() if command.name != "start")


HELP = (
    Command("help", "this list", show_help, Right.LOOK),
    Command("start", "say hello", show_help, Right.LOOK),
)
OTHERS = (*choose.COMMANDS, *agents.COMMANDS, *loop.COMMANDS, *permit.COMMANDS, *standing.COMMANDS)
HOUSE = (*late.COMMANDS, *reload.COMMANDS, *people.COMMANDS)
TABLE = {c.name: c for c in (*HELP, *status.COMMANDS, *control.COMMANDS, *OTHERS, *HOUSE)}


async def run(desk: Desk, spoken: Spoken) -> str:
    """The reply of the command; an unknown one gets the nearest known."""
    command = TABLE.get(spoken.name)
    if not may(spoken.role, command.right if command else Right.TALK):
        return f"/{spoken.name} is not for you: here you are {spoken.sender}, {spoken.role.value}. Nothing was done."
    if command is None:
        near = get_close_matches(spoken.name, TABLE, n=1)
        return f"I do not know /{spoken.name}." + (f" Did you mean /{near[0]}?" if near else "") + " /help lists all."
    return await command.run(desk, spoken)
