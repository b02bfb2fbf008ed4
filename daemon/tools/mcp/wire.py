"""What the ways to a server have in common: whether the connection still holds, and how much may come over it."""

import asyncio
from dataclasses import dataclass, field

LONGEST_MESSAGE = 16 << 20


@dataclass(slots=True)
class Wire:
    """A connection as its users see it. `why` is empty as long as it holds."""

    why: str = ""
    _cut: asyncio.Event = field(default_factory=asyncio.Event)

    def cut(self, why: str) -> None:
        """It is gone; the first reason counts."""
        self.why = self.why or why
        self._cut.set()

    async def gone(self) -> str:
        """Waits until it is; why."""
        await self._cut.wait()
        return self.why
