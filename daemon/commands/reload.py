"""/reload: take on what the config file says now (A20)."""

from daemon.commands.base import Command, Desk, Spoken
from daemon.core.errors import ConfigError
from daemon.core.roles import Right


async def reload(desk: Desk, spoken: Spoken) -> str:
    """A turn keeps what it began with; what cannot change in a running daemon is named."""
    try:
        found = await desk.settings.reload()
    except ConfigError as error:
        return f"The file is not in order, so nothing changes:\n{error}\nI go on with the config that runs."
    lines = (
        f"From the next message on these hold as the file says: {', '.join(found.live)}." if found.live else "",
        f"These need a restart of the daemon: {', '.join(found.restart)}." if found.restart else "",
    )
    return "\n".join(line for line in lines if line) or "The file says nothing new."


COMMANDS = (Command("reload", "take on what the config file says now", reload, Right.MANAGE),)
