"""Where the events of a turn go."""

from collections.abc import Sequence
from typing import Protocol

from daemon.core.events import Recorded


class EventSink(Protocol):
    """Where a turn's events are written, in one transaction, before anything follows from them."""

    async def append(self, turn_id: str, recorded: Sequence[Recorded]) -> None:
        """Durable when it returns. Raises Fenced when another worker owns the session, StoreUnavailable when the disk fails."""
        ...
