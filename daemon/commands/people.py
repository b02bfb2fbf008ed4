"""/people: who has been let in by a code, and taking that back (DESIGN 6 Roles)."""

from dataclasses import replace

from daemon.commands.base import Command, Desk, Spoken
from daemon.core.roles import Right
from daemon.people.gone import by_name, turned_away
from daemon.people.people import People

USAGE = "Say /people, or /people remove NAME with a name of that list."
UNDONE = "whoever sent it was taken off the list"
NOBODY = "Nobody has been let in by a code. `aidaemon pair` prints one. Whom config.toml lists is not in this list."


async def people(desk: Desk, spoken: Spoken) -> str:
    """The list; or one name less in it."""
    known = register(desk)
    verb, _, name = spoken.argument.partition(" ")
    if verb in ("", "list"):
        return "\n".join(f"- {one.name}: {one.role}" for one in await known.known()) or NOBODY
    if verb != "remove" or not name.strip():
        return USAGE
    return await _remove(desk, known, name.strip())


def register(desk: Desk) -> People:
    """Who is known, for every door; what those whom it removes have said and nobody has begun yet is left undone."""
    plain = People(desk.store, desk.clock)

    async def leave_undone() -> None:
        for channel, roles in desk.listed.items():
            for row in await turned_away(plain, channel, roles):
                desk.sessions.drop(row, UNDONE)

    return replace(plain, on_removal=leave_undone)


async def _remove(desk: Desk, known: People, name: str) -> str:
    if not await known.remove(name):
        return f"Nobody is known as {name}. {USAGE}"
    if any(name in by_name(channel, roles) for channel, roles in desk.listed.items()):
        return f"{name} is not let in by a code any more, but config.toml still lists them: take them out there, too."
    return f"{name} is a stranger again."


COMMANDS = (Command("people", "who was let in by a code; /people remove NAME", people, Right.MANAGE),)
