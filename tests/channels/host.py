"""A house of its own for one channel: it writes everything down in memory, and fails when a test wants it to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from channels.base import Channel, NotAccepted
from channels.message import (
    Address,
    Arrival,
    ButtonPress,
    InboundMessage,
    Reaction,
    UnreadableUpdate,
)


class Ledger:
    """channels.base.Host in memory. `entries`: all that was taken or pressed, in order and once each, as the house keeps it;
    `offers`: every batch as the channel offered it; `ailments`: what was said to be wrong.

    Failures: `refuse(times)` raises NotTaken so many times, from `take` and `press`; `hold()` lets them wait until `release()`.
    """

    def __init__(
        self,
        *,
        toast: str = "done",
        reply: str = "ok",
        commands: Sequence[tuple[str, str]] = (("help", "what there is"),),
    ) -> None:
        self.entries: list[Arrival] = []
        self.offers: list[tuple[Arrival, ...]] = []
        self.ailments: list[str] = []
        self.asked: list[InboundMessage] = []
        self.lives = 0
        self.kept = ""
        self.known: list[Address] = []
        self.toast, self.reply = toast, reply
        self._commands = commands
        self._seen: set[str] = set()
        self._refusals = 0
        self._open = asyncio.Event()
        self._open.set()
        self._news = asyncio.Event()

    @property
    def messages(self) -> list[InboundMessage]:
        """The messages that were taken, in order."""
        return [entry for entry in self.entries if isinstance(entry, InboundMessage)]

    @property
    def texts(self) -> list[str]:
        """Their texts."""
        return [message.text for message in self.messages]

    @property
    def presses(self) -> list[ButtonPress]:
        """The buttons that were pressed."""
        return [entry for entry in self.entries if isinstance(entry, ButtonPress)]

    @property
    def reactions(self) -> list[Reaction]:
        """The reactions that were taken."""
        return [entry for entry in self.entries if isinstance(entry, Reaction)]

    @property
    def poison(self) -> list[UnreadableUpdate]:
        """What could not be read."""
        return [entry for entry in self.entries if isinstance(entry, UnreadableUpdate)]

    def refuse(self, times: int = 1) -> None:
        """The next calls of `take` and `press` fail: the disk is full."""
        self._refusals = times

    def hold(self) -> None:
        """`take` and `press` wait, before they write anything, until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Go on."""
        self._open.set()

    async def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait until this holds, looking whenever something was taken or said. Raises TimeoutError, with what there was."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await self._news.wait()
        except TimeoutError as late:
            raise TimeoutError(
                f"entries {self.entries}, ailments {self.ailments}, alive {self.lives} times"
            ) from late

    async def accept(self, arrivals: Sequence[Arrival]) -> None:
        self.offers.append(tuple(arrivals))
        self._tell()
        await self._let_in()
        for arrival in arrivals:
            key = (
                arrival.external_id
                if isinstance(arrival, InboundMessage | UnreadableUpdate)
                else ""
            )
            if not key or key not in self._seen:
                self._seen.add(key)
                self.entries.append(arrival)
        self._tell()

    async def press_button(self, press: ButtonPress) -> str:
        await self._let_in()
        self.entries.append(press)
        self._tell()
        return self.toast

    async def run_command(self, inbound: InboundMessage) -> str:
        await self._let_in()
        self.asked.append(inbound)
        self._tell()
        return self.reply

    async def load_cursor(self) -> str:
        return self.kept

    async def save_cursor(self, cursor: str) -> None:
        await self._let_in()
        self.kept = cursor

    async def list_conversations(self) -> Sequence[Address]:
        return list(self.known)

    async def knows_thread(self, address: Address) -> bool:
        return address in self.known

    def report_alive(self) -> None:
        self.lives += 1
        self._tell()

    def report_trouble(self, why: str) -> None:
        self.ailments.append(why)
        self._tell()

    def list_commands(self) -> Sequence[tuple[str, str]]:
        return self._commands

    async def _let_in(self) -> None:
        await self._open.wait()
        if self._refusals:
            self._refusals -= 1
            raise NotAccepted("the disk is full")

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


@asynccontextmanager
async def running(channel: Channel, host: Ledger) -> AsyncIterator[asyncio.Task[None]]:
    """The channel, listening; stopped and let go of at the end. What ended it by itself is raised by the task."""
    task = asyncio.create_task(channel.run(host))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        await channel.aclose()
