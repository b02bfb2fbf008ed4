"""A whole house with fake channels, opened and closed as the daemon does it; and one that is cut off at any of its steps."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from channels.base import Channel
from daemon.app.channels import ChannelTimeouts, run_channels
from daemon.app.config import load_config
from daemon.app.daemon import Daemon, Overrides, open_daemon
from daemon.core.clock import Commit
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import OutboxRow
from daemon.store.journal import Store, Tx
from daemon.store.sqlite import SqliteStore
from tests.fakes.channel import NEVER, Trouble, brought
from tests.fakes.commits import commit_of
from tests.fakes.house import write_config
from tests.fakes.openai import FakeOpenAI

T = TypeVar("T")
STEPS = ("OutboxSender.", "HeldMessages.")
AT_ONCE = ChannelTimeouts(flush_s=0.0)


@asynccontextmanager
async def at_home(
    home: Path,
    model: FakeOpenAI,
    *channels: Channel,
    config: Mapping[str, object] | None = None,
    times: ChannelTimeouts | None = None,
    parts: Overrides | None = None,
    more: Mapping[str, object] | None = None,
) -> AsyncIterator[Daemon]:
    """Open it as `aidaemon run` does, without a listener. `config` is of [agent], `more` the other sections."""
    agent = {"drain_seconds": 0, "while_busy": "queue", **(config or {})}
    paths = write_config(home, model.base_url, {"agent": agent, **(more or {})})
    async with (
        open_daemon(paths, load_config(paths.config, env={}, secrets={}), parts) as house,
        run_channels(house, brought(*channels), times),
    ):
        await house.sessions.recover()
        yield house


@dataclass(slots=True)
class Cutter:
    """Counts the steps of a delivery; at the `at`-th nothing goes on, as if the daemon had been killed there."""

    at: int
    steps: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def step(self) -> None:
        """One more."""
        self.steps += 1
        if self.steps >= self.at:
            self.reached.set()
            await asyncio.sleep(NEVER)

    def around(self) -> Trouble:
        """For `FakeChannel.fail`: a step before the effect of a call, and one after it."""
        return Trouble(times=10_000, before=self.step, after=self.step)


@dataclass(slots=True)
class Journal:
    """The real one, whose disk may be full, and in which writes by the postman are steps."""

    cutter: Cutter | None = None
    full: bool = False
    _inner: Store | None = None

    def parts(self) -> Overrides:
        """For a house that writes in it."""
        return Overrides(open_store=self._open)

    async def _open(self, path: Path) -> Store:
        self._inner = await SqliteStore.open(path)
        return self

    @property
    def inner(self) -> Store:
        assert self._inner
        return self._inner

    async def write(self, work: Callable[[Tx], T]) -> T:
        if self.full:
            raise StoreUnavailable("the disk is full")
        if self.cutter is None or not work.__qualname__.startswith(STEPS):
            return await self.inner.write(work)
        await self.cutter.step()
        done = await self.inner.write(work)
        await self.cutter.step()
        return done

    def submit(self, work: Callable[[Tx], T]) -> Commit[T]:
        return commit_of(self.write(work))

    async def read(self, look: Callable[[Tx], T]) -> T:
        return await self.inner.read(look)

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        return self.inner.watch_outbox(told)

    @property
    def problem(self) -> str:
        return self.inner.problem

    async def aclose(self) -> None:
        await self.inner.aclose()


async def settled(holds: Callable[[], Awaitable[object]], seconds: float = 15.0) -> None:
    """Wait until the journal says so."""
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.01)


async def has_drafts(house: Daemon) -> bool:
    """A draft is noted in the journal."""
    return bool(await house.store.read(lambda tx: tx.list_drafts()))


async def has_buttons(house: Daemon) -> bool:
    """A question stands somewhere with buttons."""
    return bool(await house.store.read(lambda tx: tx.list_with_buttons()))


async def outbox(house: Daemon, channel: str = "telegram") -> list[OutboxRow]:
    """What was ever to be delivered there, in order."""
    states = ("new", "sending", "uncertain", "sent", "failed", "held", "withdrawn")
    rows = await house.store.read(
        lambda tx: [row for state in states for row in tx.list_outbox(state, channel)]
    )
    return sorted(rows, key=lambda row: (row.created_at, row.part))


async def states(house: Daemon, channel: str = "telegram") -> list[str]:
    """How far each has come."""
    return [row.state for row in await outbox(house, channel)]


async def reactions(house: Daemon) -> list[str]:
    """What people left on what the latest turn said."""
    [turn] = await house.store.read(lambda tx: tx.list_all_turns(1))
    view = await house.client.get_run(turn.id)
    assert view
    return view.reactions


async def is_sent(house: Daemon) -> bool:
    """There is one, and it has gone out."""
    return await states(house) == ["sent"]
