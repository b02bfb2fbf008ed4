"""What memory adds to a message before its turn, and what it keeps of a reflection after it."""

import asyncio
import logging
import sqlite3

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.events import MemoryHit
from daemon.core.messages import ACKNOWLEDGEMENT
from daemon.core.trust import Label
from memory.memory import Memory

log = logging.getLogger(__name__)
MAX_HITS = 5
RECALL_TIMEOUT_S = 2.0


@value
class MemoryRecall:
    """A memory that is slow or broken never holds up an answer (A4, A5)."""

    memory: Memory
    clock: Clock

    async def __call__(self, text: str) -> tuple[MemoryHit, ...]:
        """Facts that fit a message; none for a mere greeting or thanks."""
        if ACKNOWLEDGEMENT.fullmatch(text):
            return ()
        try:
            async with asyncio.timeout(RECALL_TIMEOUT_S):
                hits = await self.memory.recall(text, MAX_HITS)
        except (TimeoutError, sqlite3.Error) as error:
            log.warning("memory did not answer (%s); going on without", error or "too slow")
            return ()
        return tuple(MemoryHit(hit.id, hit.text, Label(hit.label), hit.owned) for hit in hits)

    async def keep(self, text: str, turn: str, label: Label, owned: bool) -> None:
        """Remember a reflection."""
        now = self.clock.now()
        try:
            await self.memory.remember(text, at=now, source=turn, label=label.value, owned=owned)
        except sqlite3.Error as error:
            log.warning("memory could not keep the reflection of turn %s: %s", turn, error)
