"""Messages that another one points at and that the platform does not send along: looked up, and the
latest kept.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any

from channels.base import DeliveryUnknown, RetryLater
from channels.content import UNREADABLE_REFERENCE
from channels.json_access import MALFORMED, Json
from channels.message import Arrival, InboundMessage, Reference
from channels.transport import RecentDict

PAUSE_S, MAX_KEPT = 30.0, 200


class Lookups(ABC):
    """Of one account. `gone`: what is said of a message that the platform does not show."""

    def __init__(self, platform: str, gone: str, limit_s: float) -> None:
        self._slow, self._gone = f"{platform} does not answer at the moment", gone
        self._limit_s, self._kept = limit_s, RecentDict[Hashable, Any](MAX_KEPT)
        self._ask_at = self._until = 0.0

    async def complete(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """With what they point at, or a line that it could not be read; all of them within
        `limit_s`. Raises NotAccepted, Revoked.
        """
        self._until = asyncio.get_running_loop().time() + self._limit_s
        return [
            await self._add_references(item) if isinstance(item, InboundMessage) else item
            for item in arrivals
        ]

    @abstractmethod
    async def _add_references(self, item: InboundMessage) -> InboundMessage:
        """The message with what it points at."""

    async def _fetch(self, key: Hashable, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What `ask` gave, now or before, None is not kept; a text where there is no answer, and
        then the platform is not asked for a while.
        """
        loop = asyncio.get_running_loop()
        if key in self._kept:
            return self._kept[key]
        if loop.time() < self._ask_at:
            return self._slow
        try:
            async with asyncio.timeout_at(self._until):
                found = await ask()
        except (RetryLater, DeliveryUnknown, TimeoutError) as error:
            after_s = error.after_s if isinstance(error, RetryLater) else 0.0
            self._ask_at = loop.time() + max(PAUSE_S, after_s)
            return self._slow
        if found is not None:
            self._kept[key] = found
        return found

    def _refer(
        self, kind: str, found: Any, parse: Callable[[Json], Reference], message_id: str = ""
    ) -> Reference:
        """As `parse` reads what was fetched, or a line that says why it cannot be read."""
        why = found if isinstance(found, str) else self._gone
        if isinstance(found, dict) and found:
            try:
                return parse(found)
            except MALFORMED as error:
                why = str(error)
        return Reference(kind, UNREADABLE_REFERENCE.format(why=why), message_id=message_id)
