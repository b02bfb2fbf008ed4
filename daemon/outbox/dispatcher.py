"""Sends the outbox: one worker per conversation, in order (F1, guarantees.md)."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from channels.message import Address
from daemon.access.chat_ids import parse_address
from daemon.core.clock import BackgroundTasks
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import OutboxRow
from daemon.outbox.channel_supervisor import ChannelState
from daemon.outbox.sender import OutboxSender
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
PAUSE_S = 1.0
TRIES = 3


@dataclass(slots=True)
class OutboxDispatcher:
    """Owner of the workers. What is not sent when it is closed stands in the outbox still.

    `_known` holds what is queued; what is `_done` leaves it only after a look at the outbox that
    began later, for an earlier one may still show it as unsent.
    """

    store: Store
    channels: Mapping[str, ChannelState]
    sender: OutboxSender
    _queues: dict[Address, deque[tuple[OutboxRow, float]]] = field(default_factory=dict)
    _workers: dict[Address, asyncio.Task[None]] = field(default_factory=dict)
    _known: set[tuple[str, int]] = field(default_factory=set)
    _done: set[tuple[str, int]] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    async def run(self) -> None:
        """Until cancelled: first what a former daemon left, then whatever comes."""
        unwatch = self.store.watch_outbox(self._wake.set)
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                try:
                    await self._collect()
                except StoreUnavailable as error:
                    log.error("the outbox cannot be read (%s); it is looked at again", error)
                    await asyncio.sleep(PAUSE_S)
                    self._wake.set()
        finally:
            unwatch()
            await self._tasks.aclose()

    async def drain(self, seconds: float) -> None:
        """Wait, so long at most, until nothing is on its way on the channels that work."""
        try:
            await self._collect()
        except StoreUnavailable as error:
            log.error("the outbox cannot be read: %s", error)
        running = self._workers.items()
        workers = [task for one, task in running if self.channels[one.channel].up.is_set()]
        if workers:
            await asyncio.wait(workers, timeout=seconds)

    async def _collect(self) -> None:
        """New rows go to the end of their conversation's queue; those that are queued already stay
        where they are.
        """

        def look(tx: Tx) -> list[OutboxRow]:
            return [row for name in self.channels for row in tx.list_unsent(name)]

        done, self._done = self._done, set()
        rows = await self.store.read(look)
        self._known -= done
        for row in rows:
            if (row.turn, row.part) in self._known:
                continue
            self._known.add((row.turn, row.part))
            channel, address = self.channels[row.channel], parse_address(row.channel, row.chat)
            queue = self._queues.setdefault(address, deque())
            queue.append((row, self.sender.clock.monotonic()))
            if address not in self._workers:
                work = self._work(channel, address)
                self._workers[address] = self._tasks.start(work, f"delivery {address}")

    async def _work(self, channel: ChannelState, address: Address) -> None:
        queue = self._queues[address]
        try:
            while queue:
                row, since = queue[0]
                await self._deliver(channel, row, since)
                queue.popleft()
                self._done.add((row.turn, row.part))
        finally:
            if queue:  # what broke off is found again at the next look
                self._done |= {(row.turn, row.part) for row, _ in queue}
                self._wake.set()
            del self._workers[address], self._queues[address]

    async def _deliver(self, channel: ChannelState, row: OutboxRow, since: float) -> None:
        """After an error it is tried again from what the journal has; after the third it has
        failed.
        """
        tries = 0
        while True:
            try:
                return await self.sender.deliver(channel, row, since)
            except StoreUnavailable as error:
                log.error("a delivery to %s waits: %s", row.session, error)
            except Exception as error:  # what breaks one delivery must not hold up those behind it
                log.exception("a delivery to %s broke off", row.session)
                tries += 1
                if tries == TRIES:
                    why = f"it broke off: {type(error).__name__}"
                    return await self.sender.mark_failed(channel, row, why)
            await asyncio.sleep(PAUSE_S)
