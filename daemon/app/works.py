"""What the channels are given of the house."""

from collections.abc import Mapping
from dataclasses import dataclass

from daemon.commands.base import Desk
from daemon.config.model import Config
from daemon.config.paths import Paths
from daemon.core.clock import Clock
from daemon.core.ids import NewId
from daemon.core.live import Live
from daemon.core.redaction import Redactor
from daemon.core.roles import Role
from daemon.delivery.outlet import Outlet
from daemon.intake import Intake


@dataclass(frozen=True, slots=True)
class Works:
    """`outlets` and `listed` are filled when the channels are opened; the house looks there how they are, and at what the config
    says of people, by channel and by sender.
    """

    config: Config
    paths: Paths
    clock: Clock
    live: Live
    redactor: Redactor
    new_id: NewId
    desk: Desk
    intake: Intake
    outlets: dict[str, Outlet]
    listed: dict[str, Mapping[str, Role]]

    def answers(self, channel: str) -> bool:
        """This channel is there, and works now."""
        return channel in self.outlets and self.outlets[channel].up.is_set()
