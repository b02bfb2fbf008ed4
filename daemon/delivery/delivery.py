"""The outbox, emptied: one worker per conversation, in the order in which things were said (F1, DESIGN 5)."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from channels.message import Address
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import OutboxRow
from daemon.delivery.addresses import address_of
from daemon.delivery.outlet import Outlet
from daemon.delivery.postman import FAILED, Postman
from daemon.store.protocol import ReadTx, Store

log = logging.getLogger(__name__)
PAUSE_S = 1.0


@dataclass(slots=True)
class Delivery:
    """Owner of the workers. What is not sent when it is closed stands in the outbox still."""

    store: Store
    outlets: Mapping[str, Outlet]
    postman: Postman
    _queues: dict[Address, deque[OutboxRow]] = field(default_factory=dict)
    _workers: dict[Address, asyncio.Task[None]] = field(default_factory=dict)
    _known: set[tuple[str, int]] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Until cancelled: first what a former daemon left, then whatever comes."""
        unwatch = self.store.watch_outbox(self._wake.set)
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._collect()
        finally:
            unwatch()
            for worker in self._workers.values():
                worker.cancel()
            await asyncio.gather(*self._workers.values(), return_exceptions=True)

    async def idle(self, seconds: float) -> None:
        """Wait, so long at most, until nothing is on its way."""
        await asyncio.sleep(0)
        workers = list(self._workers.values())
        if workers:
            await asyncio.wait(workers, timeout=seconds)

    async def _collect(self) -> None:
        """New ones go to the end of their conversation's queue; those that are queued already stay where they are."""

        def look(tx: ReadTx) -> list[tuple[str, OutboxRow]]:
            return [(name, row) for name in self.outlets for row in tx.unsent(name)]

        try:
            found = await self.store.read(look)
        except StoreUnavailable as error:
            log.error("the outbox cannot be read (%s); it is looked at again", error)
            await asyncio.sleep(PAUSE_S)
            self._wake.set()
            return
        for name, row in found:
            if (row.turn, row.part) not in self._known:
                self._known.add((row.turn, row.part))
                self._enqueue(self.outlets[name], row)

    def _enqueue(self, outlet: Outlet, row: OutboxRow) -> None:
        address = address_of(outlet.name, row.chat)
        self._queues.setdefault(address, deque()).append(row)
        if address not in self._workers:
            self._workers[address] = asyncio.create_task(self._work(outlet, address), name=f"delivery {address}")

    async def _work(self, outlet: Outlet, address: Address) -> None:
        queue = self._queues[address]
        try:
            while queue:
                await self._deliver(outlet, queue[0])
                row = queue.popleft()
                self._known.discard((row.turn, row.part))
        finally:
            del self._workers[address], self._queues[address]

    async def _deliver(self, outlet: Outlet, row: OutboxRow) -> None:
        while True:
            try:
                await self.postman.deliver(outlet, row)
            except StoreUnavailable as error:
                log.error("a delivery to %s waits: %s", row.session, error)
                await asyncio.sleep(PAUSE_S)
            except Exception as error:  # what breaks one delivery must not hold up those behind it
                log.exception("a delivery to %s broke off", row.session)
                await self._set_aside(row, f"{type(error).__name__}: {error}")
                return
            else:
                return

    async def _set_aside(self, row: OutboxRow, why: str) -> None:
        try:
            await self.store.write(lambda tx: tx.mark_outbox(row.turn, row.part, FAILED, error=why))
        except StoreUnavailable as error:
            log.error("it stays in the outbox: %s", error)
