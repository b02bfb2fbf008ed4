"""/people: who has been let in by a code, and taking that back (DESIGN 6 Roles).

/reload: take on what the config file says now (A20).
"""

from dataclasses import replace

from daemon.access.directory import Directory
from daemon.access.revocation import drop_queued, roles_by_name
from daemon.commands.registry import Command, CommandCall, Services
from daemon.core.errors import ConfigError
from daemon.core.trust import Right

PEOPLE_USAGE = "Say /people, or /people remove NAME with a name of that list."
DROPPED_REASON = "whoever sent it was taken off the list"
NOBODY = "Nobody has been let in by a code. `aidaemon pair` prints one. Whom config.toml lists is not in this list."


async def run_people(desk: Services, spoken: CommandCall) -> str:
    """The list; or one name less in it."""
    known = open_directory(desk)
    verb, _, name = spoken.argument.partition(" ")
    if verb in ("", "list"):
        return "\n".join(f"- {one.name}: {one.role}" for one in await known.list_people()) or NOBODY
    if verb != "remove" or not name.strip():
        return PEOPLE_USAGE
    return await _remove_person(desk, known, name.strip())


def open_directory(desk: Services) -> Directory:
    """Who is known, for every door; what those whom it removes have said and nobody has begun yet is left undone."""
    plain = Directory(desk.store, desk.clock)

    async def leave_undone() -> None:
        for channel, roles in desk.config_roles.items():
            for row in await drop_queued(plain, channel, roles):
                desk.sessions.drop(row, DROPPED_REASON)

    return replace(plain, on_removal=leave_undone)


async def _remove_person(desk: Services, known: Directory, name: str) -> str:
    if not await known.remove(name):
        return f"Nobody is known as {name}. {PEOPLE_USAGE}"
    if any(name in roles_by_name(channel, roles) for channel, roles in desk.config_roles.items()):
        return f"{name} is not let in by a code any more, but config.toml still lists them: take them out there, too."
    return f"{name} is a stranger again."


COMMANDS = (
    Command("people", "who was let in by a code; /people remove NAME", run_people, Right.MANAGE),
)


async def run_reload(desk: Services, spoken: CommandCall) -> str:
    """A turn keeps what it began with; what cannot change in a running daemon is named."""
    try:
        found = await desk.settings.reload()
    except ConfigError as error:
        return f"The file is not in order, so nothing changes:\n{error}\nI go on with the config that runs."
    lines = (
        f"From the next message on these hold as the file says: {', '.join(found.live)}."
        if found.live
        else "",
        f"These need a restart of the daemon: {', '.join(found.restart)}." if found.restart else "",
    )
    return "\n".join(line for line in lines if line) or "The file says nothing new."


RELOAD_COMMANDS = (
    Command("reload", "take on what the config file says now", run_reload, Right.MANAGE),
)
