"""A daemon whose memory is looked at."""

import asyncio
import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.daemon_process import Daemon
from tests.fakes.openai import FakeOpenAI

USERS = '[[http.users]]\nname = "ed"\nrole = "editor"\ntoken = "editor-token"\n'


@dataclass
class Home:
    """A daemon and what its model was asked."""

    daemon: Daemon
    model: FakeOpenAI

    async def ask(self, text: str, session: str = "one") -> str:
        """What the model is shown at the end of the turn."""
        await self.daemon.ask(text, session)
        return str(self.model.requests[-1].body["messages"])

    async def until_indexed(self, rows: int) -> None:
        """So many spans are in memory."""
        async with asyncio.timeout(20):
            while await asyncio.to_thread(count, self.daemon.home) < rows:
                await asyncio.sleep(0.02)


def count(home: Path) -> int:
    with closing(sqlite3.connect(f"file:{home / 'memory.db'}?mode=ro", uri=True)) as file:
        return int(file.execute("SELECT count(*) FROM said").fetchone()[0])


def list_holding(home: Path, word: str) -> set[str]:
    """The files that hold the word, in whatever letters."""
    files = [one for one in home.rglob("*") if one.is_file() and one.name != "daemon.json"]
    return {one.name for one in files if word.lower().encode() in one.read_bytes().lower()}


async def until_gone(home: Path, word: str, left: Collection[str] = ()) -> None:
    """From all files but these."""
    async with asyncio.timeout(20):
        while await asyncio.to_thread(list_holding, home, word) - {*left}:
            await asyncio.sleep(0.05)


async def say_as_editor(home: Home, text: str) -> str:
    """What they are answered, and what the model was shown for it."""
    head, before = {"Authorization": "Bearer editor-token"}, len(home.model.requests)
    body = {"text": text}
    async with home.daemon.http.post("/v1/messages?wait=1", json=body, headers=head) as done:
        answer = await done.text()
        assert done.status == 200, answer
    assert len(home.model.requests) > before
    return answer + "".join(str(one.body) for one in home.model.requests[before:])


async def command(home: Home, text: str, session: str = "two") -> str:
    """What the owner is answered."""
    return str(await home.daemon.post("/v1/messages", session=session, text=text))
