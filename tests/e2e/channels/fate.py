"""A daemon that dies when its time has come: at the n-th thing of a kind that happens outside of it, and at once."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.born import Born, bear, nothing
from tests.fakes.command_line import KEPT, ROOT

Call = tuple[str, dict[str, Any]]


class Told(list[Call]):
    """The calls that a platform got; each is told of as it comes, before anything is done about it."""

    def __init__(self, calls: Iterable[Call], told: Callable[[str], None]) -> None:
        super().__init__(calls)
        self._told = told

    def append(self, call: Call) -> None:
        super().append(call)
        self._told(call[0])


@dataclass(slots=True)
class Fate:
    """A daemon with this `channel`. `kind` and `left`: what kills it, and how many more of it. `happens` is to be called for
    whatever happens.
    """

    home: Path
    channel: str
    kind: str = ""
    left: int = 0
    kills: int = 0
    heard: Callable[[str], None] = lambda kind: None
    dead: asyncio.Event = field(default_factory=asyncio.Event)
    pid: int = 0
    killed: bool = False
    _wake: asyncio.Task[int] | None = None

    @property
    def alive(self) -> bool:
        """It runs, and was not killed."""
        return self.pid != 0 and not self.dead.is_set()

    @property
    def log(self) -> str:
        """What all of its lives had to say."""
        return (self.home.parent / "log").read_text()

    async def start(self) -> None:
        """One more life, on the same HOME."""
        self.dead.clear()
        self.killed = False
        given = {name: os.environ[name] for name in KEPT if name in os.environ}
        given["PYTHONPATH"] = str(ROOT)
        words = ("run", "--home", str(self.home))
        log = os.open(self.home.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        it = await bear(words, (nothing(), log, log), given, knows=(self.channel,))
        os.close(log)
        self.pid = it.pid
        self._wake = asyncio.create_task(self._watch(it))

    async def _watch(self, it: Born) -> int:
        code = await it.wait()
        self.dead.set()
        return code

    def dies_at(self, kind: str, left: int = 1) -> None:
        """Arm it."""
        self.kind, self.left = kind, left

    def happens(self, kind: str) -> None:
        """Something did."""
        if self.alive and kind == self.kind and self.left:
            self.left -= 1
            if not self.left:
                self.kill()
        self.heard(kind)

    def kill(self) -> None:
        """Now."""
        if self.alive:
            self.killed = True
            self.kills += 1
            self.dead.set()
            os.killpg(self.pid, signal.SIGKILL)

    def freeze(self) -> None:
        """It does nothing more, and does not know it: what is sent to it stays on the wire."""
        assert self.pid
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        assert self.pid
        os.killpg(self.pid, signal.SIGCONT)

    async def buried(self) -> None:
        """It is over; whoever was not killed should not have died."""
        assert self._wake
        code = await self._wake
        self.pid, self._wake = 0, None
        assert self.killed, f"it ended by itself with {code}:\n{self.log[-4000:]}"

    async def terminate(self) -> int:
        """In good order; the exit code."""
        assert self.pid and self._wake
        os.kill(self.pid, signal.SIGTERM)
        async with asyncio.timeout(30):
            code = await self._wake
        self.pid, self._wake = 0, None
        return code

    async def aclose(self) -> None:
        """Whatever it is at."""
        self.kill()
        if self._wake:
            await self._wake
