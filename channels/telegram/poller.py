"""Hears what happens: polls, hands over, and only then acknowledges, by the next poll (B5 #1, #2)."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from channels.base import ChannelError, Host, Later, NotTaken, Refused, Revoked, Unclear
from channels.telegram.albums import album_of, before_the_last
from channels.telegram.api import Api, Conflict, Throttled
from channels.telegram.reading import READ, number_of

MORE_S = 10.0
AT_ONCE = 100
FIRST = 0
UNREADABLE = "Telegram's answer to a poll cannot be read"
RIVAL = "another program polls this bot with the same token; end it, or get the bot a new token from @BotFather ({why})"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds. After a failure `first`, doubled each time up to `longest`; `poll`: how long Telegram may hold a poll open;
    `between_changes`: of a draft in a group; `album`: until the rest of one is there.
    """

    first: float = 0.5
    longest: float = 10.0
    poll: int = 30
    between_changes: float = 5.0
    album: float = 0.6


@dataclass(slots=True)
class Patience:
    """How long to wait before the next try."""

    pauses: Pauses
    wait_s: float = 0.0

    async def failed(self, at_least_s: float = 0.0) -> None:
        """Wait, longer each time."""
        self.wait_s = min(self.wait_s * 2, self.pauses.longest) if self.wait_s else self.pauses.first
        await asyncio.sleep(max(self.wait_s, at_least_s))

    def succeeded(self) -> None:
        """The next failure is the first again."""
        self.wait_s = 0.0


@dataclass(slots=True)
class Poller:
    """`hand_over` returns when all of a batch is the house's, and raises NotTaken if it is not. The offset is kept in memory
    only: after a restart Telegram sends again what was not acknowledged, and the house knows what it has.
    """

    api: Api
    host: Host
    hand_over: Callable[[list[object]], Awaitable[None]]
    pauses: Pauses
    offset: int = 0
    strays: list[object] | None = None

    async def run(self) -> None:
        """Until cancelled. Raises Revoked."""
        patience = Patience(self.pauses)
        hold_s = FIRST  # the first answer comes at once, so that it is seen soon that all is well
        while True:
            asked = time.monotonic()
            try:
                updates = await self._whole(await self._poll(hold_s))
            except Revoked:
                raise
            except ChannelError as error:
                hold_s = await self._failed(error, patience)
                continue
            self.host.alive()
            idle_s = time.monotonic() - asked
            if await self._handed_over(updates) and self._acknowledged(updates):
                patience.succeeded()
            else:
                await patience.failed()
            if not updates and idle_s < min(hold_s, 1) / 2:
                await asyncio.sleep(self.pauses.first)  # a server that holds no poll open is asked now and then
            hold_s = self.pauses.poll

    async def _poll(self, hold_s: int) -> list[object]:
        arguments = {"timeout": hold_s, "limit": AT_ONCE, "allowed_updates": list(READ)}
        arguments |= {"offset": self.offset} if self.offset else {}
        updates = await self.api.call("getUpdates", arguments, timeout_s=hold_s + MORE_S)
        if not isinstance(updates, list):
            raise Unclear(UNREADABLE)
        return updates

    async def _whole(self, updates: list[object]) -> list[object]:
        """An album may be cut by the end of what was polled: it is asked for again, once, as nothing is acknowledged yet.
        Raises Revoked.
        """
        if not updates or not album_of(updates[-1]):
            return updates
        if len(updates) >= AT_ONCE:
            return before_the_last(updates)
        await asyncio.sleep(self.pauses.album)
        try:
            again = await self._poll(FIRST)
        except (Refused, Later, Unclear):
            return updates  # what is wrong is seen by the next poll
        return updates + [raw for raw in again if raw not in updates]

    async def _failed(self, error: ChannelError, patience: Patience) -> int:
        """Wait; how long the next poll may be held. A rival's poll is ended by ours, so that a short one would prove nothing."""
        rival = isinstance(error, Conflict)
        self.host.ailing(RIVAL.format(why=error) if rival else str(error))
        if rival and "webhook" in str(error).lower():
            await drop_webhook(self.api)
        await patience.failed(error.after_s if isinstance(error, Throttled) else 0.0)
        return self.pauses.poll if rival else FIRST

    async def _handed_over(self, updates: list[object]) -> bool:
        try:
            await self.hand_over(updates)
        except NotTaken as error:
            log.warning("telegram: %s updates were not taken (%s); they are asked for again", len(updates), error)
            return False
        return True

    def _acknowledged(self, updates: list[object]) -> bool:
        """Whether the next poll will bring something else."""
        if not updates:
            return True
        numbers = [number for number in map(number_of, updates) if number is not None]
        if numbers:
            self.offset = max(numbers) + 1
        elif self.offset and updates != self.strays:
            self.offset += len(updates)  # what shows no number was numbered all the same: one after the other
            self.strays = updates
        return bool(numbers)


async def drop_webhook(api: Api) -> None:
    """Where updates are pushed to an address, none can be polled for."""
    try:
        info = await api.call("getWebhookInfo", timeout_s=MORE_S)
        if isinstance(info, dict) and info.get("url"):
            await api.call("deleteWebhook", timeout_s=MORE_S)
            log.warning("telegram: the bot had a webhook; it was taken away, for this house polls")
    except (Refused, Later, Unclear) as error:
        log.info("telegram: whether the bot has a webhook is not known: %s", error)
