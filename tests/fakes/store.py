"""A journal whose disk fails when a test says so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from daemon.core.clock import Commit
from daemon.core.errors import StoreUnavailable
from daemon.store.journal import Store, Tx
from tests.fakes.commits import commit_of

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

    def submit(self, work: Callable[[Tx], T]) -> Commit[T]:
        return commit_of(self.write(work))

    async def read(self, look: Callable[[Tx], T]) -> T:
        return await self.store.read(look)

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        return self.store.watch_outbox(told)

    async def aclose(self) -> None:
        await self.store.aclose()
