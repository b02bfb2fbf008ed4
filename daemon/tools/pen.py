"""Writing down what several tools did at once."""

import asyncio
from dataclasses import dataclass, field

from daemon.core.turn import Turn


@dataclass(slots=True)
class Pen:
    """One commit of a turn at a time: tools that finish together share one, and none is written twice."""

    turn: Turn
    _held: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def commit(self) -> None:
        """Durable when it returns. A stop in the middle waits for the disk: nobody could say what had been written."""
        async with self._held:
            await self.turn.commit()
