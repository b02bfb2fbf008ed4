"""What memory has to say to a message, before its turn begins (A4, A5)."""

import asyncio
import logging
import sqlite3
from dataclasses import dataclass

from daemon.core.events import MemoryHit
from daemon.core.importance import ACKNOWLEDGEMENT
from daemon.core.label import Label
from memory.memory import Memory

log = logging.getLogger(__name__)
MOST = 5
PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Recollect:
    """Facts that fit a message. A memory that is slow or broken never holds up an answer."""

    memory: Memory

    async def __call__(self, text: str) -> tuple[MemoryHit, ...]:
        """At most five; none for a mere greeting or thanks."""
        if ACKNOWLEDGEMENT.fullmatch(text):
            return ()
        try:
            async with asyncio.timeout(PATIENCE_S):
                hits = await self.memory.recall(text, MOST)
        except (TimeoutError, sqlite3.Error) as error:
            log.warning("memory did not answer (%s); going on without", error or "too slow")
            return ()
        return tuple(MemoryHit(hit.id, hit.text, Label(hit.label), hit.owned) for hit in hits)
