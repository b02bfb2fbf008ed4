"""A scripted model for many tests at once: what it does is chosen by the last word that the user said."""

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.openai import Exchange, FakeOpenAI, Json, Step, by, calls, says


@dataclass(slots=True)
class Script:
    """Each test has a word of its own, so that tests do not use up each other's steps."""

    model: FakeOpenAI
    _steps: dict[str, list[Step]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.model.otherwise(by(self._choose))

    def on(self, word: str, *steps: Step) -> str:
        """Take these steps, one per request, while `word` is what was said last; "ok" when they are used up. Gives the word."""
        self._steps[word] = list(steps)
        return word

    def _choose(self, body: Json) -> Step:
        said = next(
            str(message["content"])
            for message in reversed(body["messages"])
            if message["role"] == "user"
        )
        steps = self._steps.get(said.split()[-1])
        return steps.pop(0) if steps else says("ok")


def shell(command: str) -> Step:
    """A call that waits for a person, as long as the command is not of the safe grammar."""
    return calls(("shell", {"command": command}))


@dataclass(slots=True)
class Turnstile:
    """A step that says when it is reached, and goes on when it is told to."""

    then: Step
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, x: Exchange) -> web.StreamResponse:
        self.reached.set()
        await self.open.wait()
        return await self.then(x)
