"""A whole daemon in this process, over a scripted model: the real composition root, its door, a HOME on disk."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from daemon.app.config import load_config
from daemon.app.daemon import Daemon, Overrides, open_daemon
from daemon.client.view_types import LiveEvent, RunView
from daemon.core.events import Event
from daemon.core.rows import FileLabel, LabelScope
from daemon.core.trust import Label
from daemon.sessions.inbox import InboxMessage
from daemon.settings.paths import Paths, resolve_paths
from tests.fakes.openai import FakeOpenAI

SESSION = "web:test"


@dataclass
class Living:
    """A house one can talk to."""

    house: Daemon
    paths: Paths
    model: FakeOpenAI

    async def say(self, text: str, session: str = SESSION) -> str:
        """Send, without waiting; the turn."""
        accepted = await self.house.client.send(session, text, stream=False)
        return accepted.turn or accepted.steered

    async def ask(self, text: str, session: str = SESSION) -> RunView:
        """Send, and wait for the end of it."""
        return await self.settled(await self.say(text, session))

    async def settled(self, turn: str) -> RunView:
        return await self.house.client.wait_until_ended(turn)

    async def command(self, text: str, session: str = SESSION) -> str:
        return (await self.house.client.send(session, text)).reply

    async def from_other(self, sender: str, text: str, session: str = SESSION) -> str:
        """A message of somebody else in the same conversation."""
        channel, _, chat = session.partition(":")
        taken = await self.house.client.inbox.accept(
            InboxMessage(channel, chat, session, sender, f"{sender}/{text}", text)
        )
        return taken.row.turn

    async def until(self, turn: str, name: str) -> LiveEvent:
        """The first event of this name."""
        async for event in self.house.client.stream_events(turn):
            if event.name == name:
                return event
        raise AssertionError(f"{turn} ended without {name}")

    async def events(self, turn: str) -> list[Event]:
        return [
            entry.event for entry in await self.house.store.read(lambda tx: tx.list_events(turn))
        ]


def write_config(home: Path, base_url: str, config: Mapping[str, object] | None = None) -> Paths:
    """A config.toml that asks the scripted model."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    extra = dict(config or {})
    provider = {"kind": "openai", "base_url": base_url, "models": {"primary": "scripted"}}
    provider |= extra.pop("provider", {})  # type: ignore[operator]
    (home / "config.toml").write_text(tomli_w.dumps({"provider": provider, **extra}))
    return resolve_paths(str(home), None)


@asynccontextmanager
async def living(
    home: Path,
    model: FakeOpenAI,
    config: Mapping[str, object] | None = None,
    parts: Overrides | None = None,
    *,
    trusted: bool = True,
) -> AsyncIterator[Living]:
    """Open a house at `home`, take up what was left there, close it in good order. `trusted`: its owner
    has said that the workspace is theirs.
    """
    paths = write_config(home, model.base_url, config)
    loaded = load_config(paths.config, env={}, secrets={})
    async with open_daemon(paths, loaded, parts) as house:
        if trusted and "" not in house.files.labels.by_folded:
            await house.files.labels.save([FileLabel("", Label.TRUSTED, "owner", LabelScope.TREE)])
        await house.sessions.recover()
        yield Living(house, paths, model)
