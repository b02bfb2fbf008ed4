"""What a turn is given of the owner's past (A3, A4, A5)."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.events import MemoryHit
from daemon.core.messages import ACKNOWLEDGEMENT
from daemon.core.trust import Label
from daemon.core.turn import Turn
from daemon.tools.memory_tools import describe_fact, describe_found, describe_source
from memory.conversations import Conversations
from memory.facts import Ended, MemoryFull
from memory.memory import Memory
from memory.search import Found, Scope

MAX_FACTS = 5
LEAST_SHARE = 0.3  # of how well the best one fits; less is a common word
MAX_CHARS, MIN_CHARS, MAX_TOTAL = 400, 40, 1500
CANDIDATES = 20
TIMEOUT_S = 2.0

log = logging.getLogger(__name__)


@value
class MemoryRecall:
    """A memory that is slow or broken never holds up an answer (A4, A5). `count_shown`: how many
    pinned facts, and how much of what was said.
    """

    memory: Memory
    conversations: Conversations
    clock: Clock
    is_own: Callable[[str], Awaitable[bool]]
    count_shown: Callable[[], tuple[int, int]]

    async def __call__(
        self, text: str, session: str, is_shown: Callable[[str], bool]
    ) -> tuple[MemoryHit, ...]:
        """What the owner pinned, trusted facts that fit their message, and what they said and were
        answered before, unless it is shown already; none for a mere greeting or thanks, and none
        where others read along.
        """
        is_empty = self.memory.is_empty and self.conversations.is_empty
        if is_empty or ACKNOWLEDGEMENT.fullmatch(text) or not await self.is_own(session):
            return ()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                pins, count = self.count_shown()
                facts = await self.memory.recall(text, MAX_FACTS, pins)
        except (TimeoutError, sqlite3.Error) as error:
            log.warning("memory did not answer (%s); going on without", error or "too slow")
            return ()
        least = LEAST_SHARE * max((one.score for one in facts), default=0.0)
        facts = [one for one in facts if one.pinned or one.score >= least]
        said, ended = list[Found](), dict[str, Ended]()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                most = CANDIDATES * bool(count)
                said = await self.conversations.search(text, Scope(), most, automatic=True)
                ended = await self.memory.find_ended([one.text for one in said if one.fits])
        except (TimeoutError, sqlite3.Error) as error:
            said = []
            log.warning("what was said is not searched (%s)", error or "too slow")
        known = {text, *(one.text for fact in facts for one in (fact, *fact.former))}
        known |= {one.text for one in ended.values()}  # a fact tells what held before as that
        fresh = [
            one for one in said if one.fits and one.text not in known and not is_shown(one.text)
        ]
        return (
            *(
                MemoryHit(one.id, describe_fact(one), Label(one.label), one.is_owners)
                for one in facts
            ),
            *_fit(fresh[:count], ended, session),
        )

    async def may_find(self, text: str, turn: Turn) -> bool:
        """A search by these words finds something of the owner's that the turn was not shown."""
        if not (self.count_shown()[1] and await self.is_own(turn.session)):
            return False
        try:
            async with asyncio.timeout(TIMEOUT_S):
                facts = await self.memory.recall(text, MAX_FACTS)
                said = await self.conversations.search(text, Scope(), MAX_FACTS)
        except (TimeoutError, sqlite3.Error) as error:
            log.warning("memory did not answer (%s); going on without", error or "too slow")
            return False
        return not {*(one.id for one in facts), *(one.key for one in said)} <= {*turn.memory_ids}

    async def keep(self, text: str, turn: Turn) -> None:
        """Remember a reflection; one on text from outside waits for the owner's yes."""
        try:
            await self.memory.remember(
                text,
                at=self.clock.now(),
                source=turn.id,
                label=turn.label.value,
                owned=False,  # it is the model's
                where=describe_source(turn, turn.label, "reflection"),
            )
        except (MemoryFull, sqlite3.Error) as error:
            log.warning("memory could not keep the reflection of turn %s: %s", turn.id, error)


def _fit(said: Sequence[Found], ended: Mapping[str, Ended], session: str) -> Iterator[MemoryHit]:
    """As the model is shown it, up to a budget. What was said elsewhere is private here: others may
    read this session.
    """
    space = MAX_TOTAL
    for one in said:
        if space < MIN_CHARS:
            return
        text = describe_found(one, min(MAX_CHARS, space), ended.get(one.text))
        space -= len(text)
        is_private = one.private or one.session != session
        yield MemoryHit(one.key, text, Label(one.label), owned=False, private=is_private)
