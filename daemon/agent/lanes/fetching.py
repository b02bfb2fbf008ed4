"""The files of a message are fetched before its turn begins: bounded in time, and left at once when the turn is stopped."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from daemon.agent.lanes.control import Control
from daemon.core.rows import InboxRow

PATIENCE_S = 120.0
LATE = "[The files of this message could not be fetched in time. They can be sent again.]"
STOPPED = "[The files of this message were not fetched: it was stopped.]"


@dataclass(slots=True)
class Fetching:
    """At most one message's files at a time. Until they are there the message is still in the queue: a crash loses nothing."""

    patience_s: float = PATIENCE_S
    _turn: str = ""
    _control: Control | None = None

    async def files_of(self, row: InboxRow, fetch: Callable[[InboxRow], Awaitable[str]]) -> str:
        """What came of them, in words for the model; "" for a message without any."""
        if not row.attachments:
            return ""
        control = Control(asyncio.get_running_loop().time)
        self._turn, self._control = row.turn, control
        try:
            async with control.within(self.patience_s):
                return await fetch(row)
            return STOPPED if control.cancelled else LATE
        finally:
            self._turn, self._control = "", None

    def stop(self, turn_id: str) -> None:
        """Nobody needs them any more."""
        if turn_id == self._turn and self._control:
            self._control.cancel("stopped")
