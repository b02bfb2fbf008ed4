"""One daemon with all three channels and the HTTP door, from one config.toml."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.channels.stage import Tables, brisk, by_bot, config
from tests.fakes.daemon_process import Daemon, running_daemon
from tests.fakes.openai import FakeOpenAI
from tests.fakes.platform import OWNER, Platform
from tests.fakes.platforms import NAMES, comings

PATIENCE_S = 90.0


@dataclass(slots=True)
class Whole:
    """The platforms by name, and the owner's chat on each."""

    platforms: dict[str, Platform]
    model: FakeOpenAI
    daemon: Daemon

    def chat(self, name: str) -> str:
        """The owner's."""
        return self.platforms[name].private(OWNER)

    def say(self, text: str, *names: str) -> None:
        """The owner says it there."""
        for name in names or NAMES:
            self.platforms[name].say(OWNER, self.chat(name), text)

    def told(self, name: str) -> list[str]:
        """What the owner was told there, for good."""
        return [one.text for one in by_bot(self.platforms[name], self.chat(name))]

    async def answered(self, *texts: str, on: tuple[str, ...] = NAMES) -> None:
        """Each chat has just these answers, in this order, whatever notices stand between them."""
        for name in on:
            await self.platforms[name].until(
                lambda name=name: self._replies(name) == list(texts), PATIENCE_S
            )

    def _replies(self, name: str) -> list[str]:
        return [text for text in self.told(name) if text.startswith("re: ")]

    async def health(self) -> tuple[int, str]:
        """Status, and what ails it."""
        async with self.daemon.http.get("/health") as response:
            return response.status, await response.text()

    async def status(self) -> str:
        """What /status says at the HTTP door."""
        return str(
            (await self.daemon.post("/v1/messages", session="default", text="/status"))["reply"]
        )


@asynccontextmanager
async def whole(
    folder: Path,
    more: Tables = {},  # noqa: B006 - it is only read
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Whole]:
    """All is well, and everybody listens."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(FakeOpenAI())
        platforms = {name: brisk(name) for name in NAMES}
        for platform in platforms.values():
            await platform.start()
            stack.push_async_callback(platform.stop)
        written = config(model, *platforms.values(), more=more)
        daemon = await stack.enter_async_context(running_daemon(folder / "home", written, env))
        for platform in platforms.values():
            await platform.until(lambda platform=platform: comings(platform) > 0)
        yield Whole(platforms, model, daemon)
