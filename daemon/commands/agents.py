"""/agent: which agent answers this chat, and which there are (B1)."""

from dataclasses import replace

from daemon.commands.base import Command, Desk, Spoken
from daemon.commands.control import change
from daemon.core.errors import ConfigError
from daemon.core.rows import SessionRow


async def choose_agent(desk: Desk, session: SessionRow, name: str) -> str:
    """It answers from the next message on; gives what is worth knowing of it. Raises ConfigError: nothing changed."""
    warnings = desk.specs.warnings_of(name)
    await change(desk, session, lambda row: replace(row, agent=name))
    return "\n".join((f"Agent: {name}.", *warnings))


async def agent(desk: Desk, spoken: Spoken) -> str:
    """Show the agents, or set this chat's."""
    if not spoken.argument:
        return "\n".join(_line(desk, name, spoken.session.agent) for name in _names(desk, spoken.session.agent))
    try:
        return await choose_agent(desk, spoken.session, spoken.argument)
    except ConfigError as error:
        return f"Still agent {spoken.session.agent}: {error}"


def _names(desk: Desk, chosen: str) -> list[str]:
    """The chosen one too, when its file is gone."""
    return list(dict.fromkeys((*desk.specs.names(), chosen)))


def _line(desk: Desk, name: str, chosen: str) -> str:
    mark = "*" if name == chosen else "-"
    try:
        told = desk.specs.get(name).identity.description
    except ConfigError as error:
        told = f"cannot be used: {error}"
    return f"{mark} {name}: {told}" if told else f"{mark} {name}"


COMMANDS = (Command("agent", "list the agents, or choose this chat's: /agent NAME", agent),)
