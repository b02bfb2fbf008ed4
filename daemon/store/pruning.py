"""Removes what old turns said, after `[store] keep_days` (0: keep all)."""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.store.journal import Store
from daemon.store.sqlite import SqliteStore

BATCH = 50
EVERY_S = 3600.0

log = logging.getLogger(__name__)
Forget = Callable[[Collection[str]], Awaitable[object]]


class StoreConfig(BaseModel):
    """[store]: the journal."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keep_days: int = Field(
        0, ge=0, description="remove what turns said so many days after they ended; 0: keep all"
    )
    snapshots: int = Field(
        7, ge=0, le=100, description="daily backups that are kept in HOME/backups; 0: make none"
    )


async def prune(
    store: Store,
    clock: Clock,
    days: int,
    cited: Collection[str],
    forget: Forget | None = None,
) -> int:
    """Remove the events and texts of turns that ended so long ago; returns how many turns those
    were.

    What guards against repeats stays (ids of messages, keys of deliveries), and daily sums. Whole
    turns stay that are open or not delivered, that have an unknown outcome, and that a memory
    (`cited`) or a grant cites. `forget`: takes them out of memory first.
    """
    before, count = clock.now() - timedelta(days=days), 0
    while turns := await store.read(lambda tx: tx.list_prunable(before, cited, BATCH)):
        if forget:
            await forget(turns)
        await store.write(lambda tx, turns=turns: tx.prune_turns(turns))
        count += len(turns)
    if count and isinstance(store, SqliteStore):
        await store.vacuum()
    return count


async def keep_pruning(
    store: Store,
    clock: Clock,
    days: int,
    list_cited: Callable[[], Awaitable[Collection[str]]],
    forget: Forget | None = None,
    every_s: float = EVERY_S,
) -> None:
    """Every hour, until cancelled."""
    while True:
        try:
            if count := await prune(store, clock, days, await list_cited(), forget):
                log.info("the texts of %d turns older than %d days are removed", count, days)
        except (StoreUnavailable, sqlite3.Error) as error:
            log.warning("old turns are not removed now: %s", error)
        await asyncio.sleep(every_s)
