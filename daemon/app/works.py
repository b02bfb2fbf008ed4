"""What the channels are given of the house."""

from dataclasses import dataclass

from daemon.commands.base import Desk
from daemon.config.model import Config
from daemon.config.paths import Paths
from daemon.core.clock import Clock
from daemon.core.ids import NewId
from daemon.core.live import Live
from daemon.core.redaction import Redactor
from daemon.delivery.outlet import Outlet
from daemon.intake import Intake


@dataclass(frozen=True, slots=True)
class Works:
    """`outlets` is filled when the channels are opened; the house looks there how they are."""

    config: Config
    paths: Paths
    clock: Clock
    live: Live
    redactor: Redactor
    new_id: NewId
    desk: Desk
    intake: Intake
    outlets: dict[str, Outlet]

    def answers(self, channel: str) -> bool:
        """This channel is there, and works now."""
        return channel in self.outlets and self.outlets[channel].up.is_set()
