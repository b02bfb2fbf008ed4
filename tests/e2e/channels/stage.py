"""A platform, a model and a daemon between them, for a test of one channel or of several."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from tests.e2e.channels.fate import Fate, Told
from tests.fakes.daemon_process import scripted
from tests.fakes.discord import FakeDiscord
from tests.fakes.openai import FakeOpenAI, Json
from tests.fakes.platform import Platform, Shown
from tests.fakes.platforms import comings, fake
from tests.fakes.slack import FakeSlack
from tests.fakes.telegram import FakeTelegram

MARK = re.compile(r"\bm\d{3}\b")
Tables = Mapping[str, Mapping[str, object]]


def brisk(name: str) -> Platform:
    """The platform of this name. Slack is as patient as ever, but its pauses are shorter."""
    return FakeSlack(ack_s=1.0, retries_s=(0.0, 0.5, 2.0)) if name == "slack" else fake(name)


class Acknowledged(list[tuple[Json, Json | None]]):
    """What Slack was acknowledged; `told` hears of each as it comes, before anything is done about it."""

    def __init__(self, told: Callable[[str], None]) -> None:
        super().__init__()
        self._told = told

    def append(self, one: tuple[Json, Json | None]) -> None:
        super().append(one)
        self._told("ack")


def handed_out(platform: Platform) -> bool:
    """What people said is on its way to the bot."""
    match platform:
        case FakeSlack():
            return platform.sockets._queue.empty()
        case FakeDiscord():
            return all(
                session.sent == len(session.log) for session in platform.gateway.sessions.values()
            )
        case FakeTelegram():
            return platform._poll is None
        case _:
            return False


def _between_polls(platform: Platform) -> bool:
    """Telegram has no poll open on which it could tell what comes."""
    return isinstance(platform, FakeTelegram) and platform._poll is None


def said_last(body: Json) -> str:
    """The last words of a person in a request to the model."""
    return next((str(m["content"]) for m in reversed(body["messages"]) if m["role"] == "user"), "")


def by_bot(platform: Platform, chat: str) -> list[Shown]:
    """What the bot has said there, for good."""
    return [one for one in platform.shown(chat) if one.by_bot and not one.draft]


def config(model: FakeOpenAI, *platforms: Platform, more: Tables = {}) -> str:  # noqa: B006 - it is only read
    """config.toml with these channels."""
    tables = {platform.name: platform.config() for platform in platforms}
    for name, table in more.items():
        tables[name] = {**tables.get(name, {}), **table}
    return scripted(model.base_url, tomli_w.dumps(tables))


@dataclass(slots=True)
class Stage:
    """One channel. All that happens at the platform is told to `fate`."""

    platform: Platform
    model: FakeOpenAI
    fate: Fate

    async def listening(self) -> None:
        """A new life that has come so far as to hear what is said."""
        before = comings(self.platform)
        await self.fate.start()
        await self.platform.until(
            lambda: comings(self.platform) > before and not _between_polls(self.platform)
        )

    async def handed_out(self) -> None:
        """Wait until what people said is on its way to the bot."""
        async with asyncio.timeout(20):
            while not handed_out(self.platform):
                await asyncio.sleep(0.01)

    async def dies(self) -> None:
        """Its time has come, or comes soon."""
        async with asyncio.timeout(20):
            await self.fate.dead.wait()
        await self.fate.buried()

    def table(self, query: str) -> list[tuple[Any, ...]]:
        """What the journal says now."""
        with closing(sqlite3.connect(f"file:{self.fate.home}/journal.db?mode=ro", uri=True)) as db:
            return db.execute(query).fetchall()

    async def until(self, query: str, *row: object) -> None:
        """Wait until this is what the journal says."""
        async with asyncio.timeout(20):
            while self.table(query) != [row]:
                await asyncio.sleep(0.002)

    async def says(self, chat: str, *texts: str) -> None:
        """Wait until the bot has said just this there."""
        await self.platform.until(
            lambda: [one.text for one in by_bot(self.platform, chat)] == list(texts)
        )


@asynccontextmanager
async def stage(
    name: str, folder: Path, settings: Callable[[Platform], Tables] = lambda _: {}
) -> AsyncIterator[Stage]:
    """`settings`: more tables for config.toml. No daemon runs yet."""
    async with FakeOpenAI() as model:
        platform = brisk(name)
        await platform.start()
        fate = Fate(folder / "home", name)
        platform.calls.made = Told(platform.calls.made, fate.happens)
        if isinstance(platform, FakeSlack):
            platform.sockets.acked = Acknowledged(fate.happens)
        fate.home.mkdir()
        (fate.home / "config.toml").write_text(config(model, platform, more=settings(platform)))
        try:
            yield Stage(platform, model, fate)
        finally:
            await fate.aclose()
            await platform.stop()
