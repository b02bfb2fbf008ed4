"""/people: who has been let in by a code, and taking that back (DESIGN 6 Roles)."""

from daemon.commands.base import Command, Desk, Spoken
from daemon.core.roles import Right
from daemon.people.people import People

USAGE = "Say /people, or /people remove NAME with a name of that list."
NOBODY = "Nobody has been let in by a code. `aidaemon pair` prints one. Whom config.toml lists is not in this list."


async def people(desk: Desk, spoken: Spoken) -> str:
    """The list; or one name less in it."""
    register = People(desk.store, desk.clock)
    verb, _, name = spoken.argument.partition(" ")
    if verb in ("", "list"):
        return "\n".join(f"- {known.name}: {known.role}" for known in await register.known()) or NOBODY
    if verb != "remove" or not name.strip():
        return USAGE
    gone = await register.remove(name.strip())
    return f"{name.strip()} is a stranger again." if gone else f"Nobody is known as {name.strip()}. {USAGE}"


COMMANDS = (Command("people", "who was let in by a code; /people remove NAME", people, Right.MANAGE),)
