"""People who may talk to the daemon: invite, list, remove (trust.md)."""

from collections.abc import Mapping

from daemon.access.directory import Directory
from daemon.access.revocation import drop_queued, roles_by_name
from daemon.core import value
from daemon.core.trust import Role
from daemon.sessions.manager import SessionManager

DROPPED_REASON = "its sender was removed from the list"


@value(kw_only=True)
class PeopleService(Directory):
    """`config_roles`: the roles that the config gives, by channel and sender."""

    sessions: SessionManager
    config_roles: Mapping[str, Mapping[str, Role]]

    async def remove(self, name: str) -> bool:
        """Their queued work is dropped, too."""
        removed = await Directory.remove(self, name)
        if removed:
            for channel, roles in self.config_roles.items():
                for row in await drop_queued(self, channel, roles):
                    self.sessions.drop(row, DROPPED_REASON)
        return removed

    def is_in_config(self, name: str) -> bool:
        """The config lists them, whatever the journal says."""
        return any(
            name in roles_by_name(channel, roles) for channel, roles in self.config_roles.items()
        )
