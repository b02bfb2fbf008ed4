"""/people /mcp /reload: for who manages the daemon (A20, A22, trust.md)."""

from typing import Protocol

from daemon.commands.registry import CommandCall, Handlers
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.services.mcp import answer_mcp
from daemon.services.people import PeopleService
from daemon.tools.mcp.pins import PinStore
from daemon.tools.mcp.servers import ServerManager

PEOPLE_USAGE = "Use /people, or /people remove NAME with a name of that list."
NOBODY = (
    "Nobody has been let in by a code. `aidaemon pair` prints one. People in config.toml"
    " are not listed here."
)


@value
class ReloadResult:
    """Keys whose value in the file has changed: those that apply now, and those that need a
    restart.
    """

    live: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


class ConfigReloader(Protocol):
    """The running config, and its file."""

    async def reload(self) -> ReloadResult:
        """Apply what the file says now, where possible. Raises ConfigError: nothing has changed."""
        ...


@value
class AdminCommands:
    """`servers`: None without MCP servers."""

    people: PeopleService
    config: ConfigReloader
    pins: PinStore
    servers: ServerManager | None

    def handlers(self) -> Handlers:
        """By command."""
        return {"people": self.list_or_remove, "mcp": self.mcp, "reload": self.reload}

    async def list_or_remove(self, call: CommandCall) -> str:
        """/people [remove NAME]"""
        verb, _, name = call.argument.partition(" ")
        if verb in ("", "list"):
            return (
                "\n".join(f"- {one.name}: {one.role}" for one in await self.people.list_people())
                or NOBODY
            )
        name = name.strip()
        if verb != "remove" or not name:
            return PEOPLE_USAGE
        if not await self.people.remove(name):
            return f"Nobody is known as {name}. {PEOPLE_USAGE}"
        if self.people.is_in_config(name):
            return (
                f"The code of {name} is revoked, but config.toml still lists them: remove"
                " them there, too."
            )
        return f"{name} is removed."

    async def mcp(self, call: CommandCall) -> str:
        """See services.mcp."""
        if self.servers is None:
            return await answer_mcp(call.argument, self.pins, ())
        names, problems = self.servers.names(), self.servers.problems()
        return await answer_mcp(
            call.argument, self.pins, names, problems=problems, approve=self.servers.approve
        )

    async def reload(self, call: CommandCall) -> str:
        """A running turn keeps its settings; what needs a restart is named."""
        try:
            found = await self.config.reload()
        except ConfigError as error:
            return f"The file has errors, so nothing changes:\n{error}"
        applied = (
            f"Applied from the next message on: {', '.join(found.live)}." if found.live else ""
        )
        waiting = f"A restart is needed for: {', '.join(found.restart)}." if found.restart else ""
        return "\n".join(line for line in (applied, waiting) if line) or "The file has not changed."
