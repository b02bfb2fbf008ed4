"""A journal whose disk fails when a test says so."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from daemon.core.errors import StoreUnavailable
from daemon.store.journal import Store, Tx

T = TypeVar("T")


@dataclass
class FailingStore:
    """`Store` over another one; set `broken` and nothing can be written."""

    store: Store
    broken: bool = False

    @property
    def problem(self) -> str:
        return "the journal cannot be written" if self.broken else ""

    async def write(self, work: Callable[[Tx], T]) -> T:
        if self.broken:
            raise StoreUnavailable()
        return await self.store.write(work)

    def submit(self, work: Callable[[Tx], T]) -> asyncio.Future[T]:
        return asyncio.ensure_future(self.write(work))

    async def read(self, look: Callable[[Tx], T]) -> T:
        return await self.store.read(look)

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        return self.store.watch_outbox(told)

    async def aclose(self) -> None:
        await self.store.aclose()
