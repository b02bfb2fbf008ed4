"""Lives in a row, each ended by kill -9 but for the last, and what the promises say to it."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from signal import SIGKILL

from tests.e2e.crash.life import Life
from tests.e2e.crash.model import Deadly
from tests.e2e.crash.promises import broken, stale_owners_are_refused
from tests.e2e.crash.promises_kin import budgets_add_up
from tests.e2e.crash.promises_tools import on_disk, servers_are_gone, undo_is_usable
from tests.e2e.crash.remains import Remains, copied, remains
from tests.fakes.born import bear_at, door
from tests.fakes.openai import Asked, FakeOpenAI

AT_ONCE = 3
LONGEST_S = 90.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a life ended: 0 in good order, negative by that signal."""

    pid: int
    status: int


@dataclass(slots=True)
class World:
    """A model that outlives all daemons, and a count of kills; so many live at a time."""

    model: FakeOpenAI
    places_to_live: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    kills: int = 0
    places: dict[str, int] = field(default_factory=dict)

    def place(self, folder: Path) -> tuple[Path, str]:
        """A folder for lives in a row, and a name for what is said in it that nobody else has said."""
        name = f"k{next(self.numbers)}"
        place = folder / name
        place.mkdir()
        return place, name

    async def live(self, life: Life) -> Ended:
        """One life, from its start to its end."""
        async with self.places_to_live, asyncio.timeout(LONGEST_S):
            it = await bear_at(door("tests.e2e.crash.nursery"), life.told())
            if life.die_after:
                await asyncio.wait((it.ended,), timeout=life.die_after)
                it.kill()
            ended = Ended(it.pid, await it.wait())
        if ended.status == -SIGKILL:
            self.kills += 1
        elif ended.status:
            raise AssertionError(f"life {life} ended with {ended.status}:\n{_log(life)}")
        return ended

    async def lives(self, lives: Sequence[Life]) -> tuple[Remains, list[str]]:
        """All of them in a row in one place, then as many as it takes to come to a good end; what broke."""
        kills, halfway = 0, []
        for life in lives:
            kills += (await self.live(life)).status == -SIGKILL
            halfway += await self._halfway(life)
        last = replace(lives[-1], die_at=0, die_in="", die_asking="", die_after=0.0)
        ended = await self.live(last)
        it = await remains(Path(last.folder), last.plan, self._asked(last), kills, ended.pid)
        for death in it.outside.deaths.lines():
            self.places[death["at"]] = self.places.get(death["at"], 0) + 1
        faults = (
            broken(it)
            + await stale_owners_are_refused(it)
            + await budgets_add_up(it.outside.folder, it)
        )
        faults += await undo_is_usable(it) + await servers_are_gone(it.outside.folder)
        return it, [f"{last.folder}: {fault}\n{_log(last)}" for fault in (*halfway, *faults)]

    async def _halfway(self, life: Life) -> list[str]:
        """What must hold at every moment, before anybody has put anything right."""
        folder = Path(life.folder)
        if not (folder / "home" / "journal.db").exists():
            return []
        place = copied(folder)
        it = await remains(place, life.plan, self._asked(life), kills=1)
        faults = (
            await budgets_add_up(place, it) + on_disk(folder, it) + await servers_are_gone(folder)
        )
        return [f"at the kill: {fault}" for fault in faults]

    def _asked(self, life: Life) -> list[Asked]:
        return [one for one in self.model.requests if one.headers["X-Home"] == life.folder]


def _log(life: Life) -> str:
    return (Path(life.folder) / "log").read_text()[-4000:]


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Open it."""
    async with FakeOpenAI() as model:
        model.otherwise(Deadly())
        yield World(model)
