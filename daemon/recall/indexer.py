"""What was said becomes memory: from the journal, with a cursor kept beside the rows (A3)."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.ids import is_trial_session
from daemon.core.rows import LOOP_CHANNEL
from daemon.recall.forgetting import make_finder
from daemon.recall.utterances import list_utterances
from daemon.store.codec import UnreadableEvent
from daemon.store.journal import Store, Tx
from daemon.store.tables.turns import read_events
from memory.conversations import Conversations
from memory.utterance import Utterance

BATCH, BATCH_CHARS = 40, 20_000  # turns, and about so much text: a search waits for one batch
PAUSE_S = 0.05  # between two batches, so that a long journal holds up no turn
SETTLE_S = 1.0  # after a turn's end, so that its reply goes out first, and several are one commit
EVERY_S, RETRY_S = 600.0, 60.0

log = logging.getLogger(__name__)


@value
class IndexBatch:
    """The next turns that ended, by number and id, and what was said in them. `is_last`: there are
    no more.
    """

    turns: Sequence[tuple[int, str]]
    said: Sequence[Utterance]
    is_last: bool = True


@value
class ConversationIndexer:
    """Reads turns in the order in which they ended. Each text has a key, so what is read twice is
    kept once. `is_own`: nobody but the owner reads a session; `ended` is set when a turn has ended.
    """

    store: Store
    conversations: Conversations
    is_own: Callable[[Tx, str], bool]
    clock: Clock
    ended: asyncio.Event

    async def run(self) -> None:
        """Until cancelled: what has ended by now, then each turn that ends."""
        after: int | None = None
        is_old, closed_at = True, datetime.min.replace(tzinfo=UTC)
        while True:
            self.ended.clear()
            try:
                start = await self._find_start() if after is None else after
                after = await self.read_new(start)
                if abs((now := self.clock.now()) - closed_at) >= timedelta(seconds=EVERY_S):
                    await self.conversations.close_idle(now)
                    closed_at = now
                while is_old:
                    is_old = await self.conversations.renew_forms()
                    await asyncio.sleep(PAUSE_S)
                wait = EVERY_S
            except (StoreUnavailable, sqlite3.Error) as error:
                log.warning("conversations are not indexed now: %s", error)
                wait = RETRY_S
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self.ended.wait()
                    await asyncio.sleep(SETTLE_S)

    async def read_new(self, after: int) -> int:
        """All that has ended since this number, and the last one's."""
        is_more = True
        while is_more:
            batch = await self.store.read(lambda tx, after=after: self._read(tx, after))
            if batch.turns:
                after, turn = batch.turns[-1]
                await self.conversations.add(batch.said, f"{after} {turn}", make_finder)
            if is_more := not batch.is_last:
                await asyncio.sleep(PAUSE_S)
        return after

    async def _find_start(self) -> int:
        """Where the cursor stands; 0 where the journal has another turn there: it was restored."""
        number, _, turn = (await self.conversations.read_cursor()).partition(" ")
        if not number:
            return 0
        known = await self.store.read(lambda tx: tx.find_ended(int(number)))
        return int(number) if known == turn else 0

    def _read(self, tx: Tx, after: int) -> IndexBatch:
        ended, said, taken, size = tx.list_ended(after, BATCH), list[Utterance](), 0, 0
        if not ended:
            return IndexBatch((), said)
        events = tx.list_said_events(after, ended[-1][0])
        get_session, get_name = cache(tx.get_session), cache(tx.get_display_name)
        is_own = cache(partial(self.is_own, tx))
        for _, turn in ended:
            if size > BATCH_CHARS:
                break
            taken += 1
            session = get_session(turn.session)
            if not session or session.root or session.channel == LOOP_CHANNEL:
                continue  # what an agent or a loop does is no conversation
            if session.channel == "terminal" and is_trial_session(session.id):
                continue  # nor is a prompt of a file, and one run must not tell the next the answer
            try:
                heard = read_events(events[turn.id])
            except UnreadableEvent as error:
                log.warning("turn %s cannot be found by what was said: %s", turn.id, error)
                continue
            fresh = [*list_utterances(turn, session, heard, get_name, own=is_own(session.id))]
            size += sum(len(one.text) for one in fresh)
            said += fresh
        turns = [(number, turn.id) for number, turn in ended[:taken]]
        return IndexBatch(turns, said, taken == len(ended) < BATCH)
