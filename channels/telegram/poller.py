"""Edits that change no word: Telegram sends a message again as edited when it has only got a preview, or a reaction.

What a batch of updates comes to in the house: messages in order, buttons in between, answers to those on the side.

Hears what happens: polls, hands over, and only then acknowledges, by the next poll (K1, #2).
"""

import asyncio
import logging
import time
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from channels.base import (
    ChannelError,
    DeliveryUnknown,
    Host,
    NotAccepted,
    Rejected,
    RetryLater,
    Revoked,
)
from channels.message import Arrival, ButtonPress, InboundMessage
from channels.telegram.api import PollConflict, TelegramApi, TelegramThrottled
from channels.telegram.sending import MAX_TOAST, shorten
from channels.telegram.updates import (
    UPDATE_KINDS,
    CallbackPress,
    TelegramIdentity,
    album_of,
    merge_albums,
    parse_update,
    update_id_of,
    without_last_album,
)

MAX_REMEMBERED_EDITS = 2000


@dataclass(slots=True)
class EditFilter:
    """What the latest messages said that were handed over, as sums; in memory only. `keep` or `forget` after each batch."""

    most: int = MAX_REMEMBERED_EDITS
    _accepted: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _pending: dict[str, int] = field(default_factory=dict)

    def is_new(self, message: InboundMessage) -> bool:
        """Whether it says something else than when it was last heard of, or nobody knows."""
        name, now = message.edits or message.external_id, _checksum(message)
        before = self._pending.get(name, self._accepted.get(name))
        self._pending[name] = now
        return not message.edits or before != now

    def commit(self) -> None:
        """The house has all of it."""
        for name, now in self._pending.items():
            self._accepted[name] = now
            self._accepted.move_to_end(name)
        self._pending = {}
        while len(self._accepted) > self.most:
            self._accepted.popitem(last=False)

    def rollback(self) -> None:
        """The house has not taken it: it comes again."""
        self._pending = {}


def _checksum(message: InboundMessage) -> int:
    files = [(file.kind, file.name, file.mime, file.size) for file in message.attachments]
    return zlib.crc32(repr((message.text, message.addressed, files)).encode())


log = logging.getLogger(__name__)


class UpdateHandler:
    """Owns the answers to pressed buttons, which no message waits for; `aclose` ends them."""

    def __init__(self, api: TelegramApi, host: Host, me: TelegramIdentity) -> None:
        self._api, self._host, self._me = api, host, me
        self._answers: set[asyncio.Task[None]] = set()
        self._edits = EditFilter()

    async def handle(self, updates: Sequence[object]) -> None:
        """All of it, in order. Raises NotTaken."""
        try:
            await self._deliver(merge_albums(self._parse_updates(updates)))
        except NotAccepted:
            self._edits.rollback()
            raise
        self._edits.commit()

    async def aclose(self) -> None:
        """End the answers that are under way."""
        for task in self._answers:
            task.cancel()
        if self._answers:
            await asyncio.wait(self._answers)

    def _parse_updates(
        self, updates: Sequence[object]
    ) -> Iterator[tuple[str, Arrival | CallbackPress]]:
        for raw in updates:
            heard = parse_update(raw, self._me)
            if heard is None or (
                isinstance(heard, InboundMessage) and not self._edits.is_new(heard)
            ):
                continue
            yield album_of(raw), heard

    async def _deliver(self, heard: Sequence[Arrival | CallbackPress]) -> None:
        waiting: list[Arrival] = []
        for one in heard:
            if isinstance(one, CallbackPress):
                await self._accept(waiting)
                waiting = []
                self._answer(
                    one.query, await self._host.press_button(one.press) if one.press else ""
                )
            elif not isinstance(one, ButtonPress):
                waiting.append(one)
        await self._accept(waiting)

    async def _accept(self, arrivals: list[Arrival]) -> None:
        if arrivals:
            await self._host.accept(arrivals)

    def _answer(self, query: str, text: str) -> None:
        task = asyncio.create_task(self._send_answer(query, text))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _send_answer(self, query: str, text: str) -> None:
        arguments = {"callback_query_id": query} | (
            {"text": shorten(text, MAX_TOAST)} if text else {}
        )
        try:
            await self._api.call("answerCallbackQuery", arguments)
        except ChannelError as error:
            log.info("telegram: a button's answer was not shown: %s", error)


MORE_S = 10.0
AT_ONCE = 100
FIRST = 0
UNREADABLE = "Telegram's answer to a poll cannot be read"
CONFLICT = "another program polls this bot with the same token; end it, or get the bot a new token from @BotFather ({why})"


@dataclass(frozen=True, slots=True)
class TelegramTiming:
    """Seconds. After a failure `first`, doubled each time up to `longest`; `poll`: how long Telegram may hold a poll open;
    `between_changes`: of a draft in a group; `album`: until the rest of one is there.
    """

    first: float = 0.5
    longest: float = 10.0
    poll: int = 30
    between_changes: float = 5.0
    album: float = 0.6


@dataclass(slots=True)
class TelegramBackoff:
    """How long to wait before the next try."""

    pauses: TelegramTiming
    wait_s: float = 0.0

    async def wait(self, at_least_s: float = 0.0) -> None:
        """Wait, longer each time."""
        self.wait_s = (
            min(self.wait_s * 2, self.pauses.longest) if self.wait_s else self.pauses.first
        )
        await asyncio.sleep(max(self.wait_s, at_least_s))

    def reset(self) -> None:
        """The next failure is the first again."""
        self.wait_s = 0.0


@dataclass(slots=True)
class Poller:
    """`hand_over` returns when all of a batch is the house's, and raises NotTaken if it is not. The offset is kept in memory
    only: after a restart Telegram sends again what was not acknowledged, and the house knows what it has.
    """

    api: TelegramApi
    host: Host
    hand_over: Callable[[list[object]], Awaitable[None]]
    pauses: TelegramTiming
    offset: int = 0
    unnumbered: list[object] | None = None

    async def run(self) -> None:
        """Until cancelled. Raises Revoked."""
        patience = TelegramBackoff(self.pauses)
        hold_s = FIRST  # the first answer comes at once, so that it is seen soon that all is well
        while True:
            asked = time.monotonic()
            try:
                updates = await self._complete_album(await self._poll(hold_s))
            except Revoked:
                raise
            except ChannelError as error:
                hold_s = await self._handle_failure(error, patience)
                continue
            self.host.report_alive()
            idle_s = time.monotonic() - asked
            if await self._hand_over(updates) and self._advance_offset(updates):
                patience.reset()
            else:
                await patience.wait()
            if not updates and idle_s < min(hold_s, 1) / 2:
                await asyncio.sleep(
                    self.pauses.first
                )  # a server that holds no poll open is asked now and then
            hold_s = self.pauses.poll

    async def _poll(self, hold_s: int) -> list[object]:
        arguments = {"timeout": hold_s, "limit": AT_ONCE, "allowed_updates": list(UPDATE_KINDS)}
        arguments |= {"offset": self.offset} if self.offset else {}
        updates = await self.api.call("getUpdates", arguments, timeout_s=hold_s + MORE_S)
        if not isinstance(updates, list):
            raise DeliveryUnknown(UNREADABLE)
        return updates

    async def _complete_album(self, updates: list[object]) -> list[object]:
        """An album may be cut by the end of what was polled: it is asked for again, once, as nothing is acknowledged yet.
        Raises Revoked.
        """
        if not updates or not album_of(updates[-1]):
            return updates
        if len(updates) >= AT_ONCE:
            return without_last_album(updates)
        await asyncio.sleep(self.pauses.album)
        try:
            again = await self._poll(FIRST)
        except (Rejected, RetryLater, DeliveryUnknown):
            return updates  # what is wrong is seen by the next poll
        return updates + [raw for raw in again if raw not in updates]

    async def _handle_failure(self, error: ChannelError, patience: TelegramBackoff) -> int:
        """Wait; how long the next poll may be held. A rival's poll is ended by ours, so that a short one would prove nothing."""
        rival = isinstance(error, PollConflict)
        self.host.report_trouble(CONFLICT.format(why=error) if rival else str(error))
        if rival and "webhook" in str(error).lower():
            await drop_webhook(self.api)
        await patience.wait(error.after_s if isinstance(error, TelegramThrottled) else 0.0)
        return self.pauses.poll if rival else FIRST

    async def _hand_over(self, updates: list[object]) -> bool:
        try:
            await self.hand_over(updates)
        except NotAccepted as error:
            log.warning(
                "telegram: %s updates were not taken (%s); they are asked for again",
                len(updates),
                error,
            )
            return False
        return True

    def _advance_offset(self, updates: list[object]) -> bool:
        """Whether the next poll will bring something else."""
        if not updates:
            return True
        numbers = [number for number in map(update_id_of, updates) if number is not None]
        if numbers:
            self.offset = max(numbers) + 1
        elif self.offset and updates != self.unnumbered:
            self.offset += len(
                updates
            )  # what shows no number was numbered all the same: one after the other
            self.unnumbered = updates
        return bool(numbers)


async def drop_webhook(api: TelegramApi) -> None:
    """Where updates are pushed to an address, none can be polled for."""
    try:
        info = await api.call("getWebhookInfo", timeout_s=MORE_S)
        if isinstance(info, dict) and info.get("url"):
            await api.call("deleteWebhook", timeout_s=MORE_S)
            log.warning("telegram: the bot had a webhook; it was taken away, for this house polls")
    except (Rejected, RetryLater, DeliveryUnknown) as error:
        log.info("telegram: whether the bot has a webhook is not known: %s", error)
