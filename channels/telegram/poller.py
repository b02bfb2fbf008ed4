"""Polls for updates, hands them to the host, and acknowledges them by the next poll (K1, K2)."""

import asyncio
import logging
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from channels.base import TRANSIENT, ChannelError, Host, NotAccepted, RetryLater
from channels.markup.split import truncate
from channels.message import Arrival, InboundMessage
from channels.telegram.api import PollConflict, TelegramApi
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
from channels.transport import Backoff, RecentDict

EXTRA_S = 10.0
MAX_UPDATES = 100
MAX_REMEMBERED = 2000
MAX_TOAST = 200
CONFLICT = (
    "another program polls this bot with the same token; end it, "
    "or get a new token from @BotFather ({error})"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TelegramTiming:
    """Seconds. `first_s`, `longest_s`: pauses after failures; `poll_s`: how long Telegram may hold
    a poll open; `edit_s`: between changes of a draft in a group; `album_s`: until the rest of an
    album is there.
    """

    first_s: float = 0.5
    longest_s: float = 10.0
    poll_s: int = 30
    edit_s: float = 5.0
    album_s: float = 0.6


class Poller:
    """The offset is kept in memory only: after a restart Telegram sends again what was not
    acknowledged, and the host drops what it has.
    """

    def __init__(
        self, api: TelegramApi, host: Host, me: TelegramIdentity, timing: TelegramTiming
    ) -> None:
        self._api, self._host, self._me, self._timing = api, host, me, timing
        self._offset = 0
        self._unnumbered: list[object] | None = None
        self._texts = RecentDict[str, int](MAX_REMEMBERED)
        self._answers: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled. Raises Revoked."""
        backoff = Backoff(self._timing.first_s, self._timing.longest_s)
        hold_s = 0  # the first answer comes at once, so that the channel is seen to work
        try:
            while True:
                asked_at = time.monotonic()
                try:
                    updates = await self._complete_album(await self._poll(hold_s))
                except TRANSIENT as error:
                    hold_s = await self._handle_failure(error, backoff)
                    continue
                self._host.report_alive()
                took_s = time.monotonic() - asked_at
                if await self._deliver(updates) and self._advance(updates):
                    backoff.reset()
                else:
                    await backoff.wait()
                if not updates and took_s < min(hold_s, 1) / 2:
                    await asyncio.sleep(self._timing.first_s)  # this server holds no poll open
                hold_s = self._timing.poll_s
        finally:
            for task in self._answers:
                task.cancel()
            if self._answers:
                await asyncio.wait(self._answers)

    async def _poll(self, hold_s: int) -> list[object]:
        params = {"timeout": hold_s, "limit": MAX_UPDATES, "allowed_updates": UPDATE_KINDS}
        if self._offset:
            params["offset"] = self._offset
        updates = await self._api.call("getUpdates", params, timeout_s=hold_s + EXTRA_S)
        if not isinstance(updates, list):
            raise RetryLater("Telegram's answer to a poll cannot be read")
        return updates

    async def _complete_album(self, updates: list[object]) -> list[object]:
        """An album may be cut by the end of a poll: ask once more, as nothing is acknowledged yet.
        Raises Revoked.
        """
        if not updates or not album_of(updates[-1]):
            return updates
        if len(updates) >= MAX_UPDATES:
            return without_last_album(updates)
        await asyncio.sleep(self._timing.album_s)
        try:
            again = await self._poll(0)
        except TRANSIENT:
            return updates  # the next poll shows what is wrong
        return updates + [raw for raw in again if raw not in updates]

    async def _handle_failure(self, error: ChannelError, backoff: Backoff) -> int:
        """Wait; how long the next poll may be held. Our poll ends a rival's, so a short one would
        prove nothing.
        """
        is_conflict = isinstance(error, PollConflict)
        self._host.report_trouble(CONFLICT.format(error=error) if is_conflict else str(error))
        if is_conflict and "webhook" in str(error).lower():
            await delete_webhook(self._api)
        await backoff.wait(error)
        return self._timing.poll_s if is_conflict else 0

    async def _deliver(self, updates: Sequence[object]) -> bool:
        """All of them to the host, in order; False where it could not accept them."""
        batch = []
        texts = {}
        try:
            for item in merge_albums(self._parse(updates, texts)):
                if not isinstance(item, CallbackPress):
                    batch.append(item)
                    continue
                if batch:
                    await self._host.accept(batch)
                    batch = []
                toast = await self._host.press_button(item.press) if item.press else ""
                task = asyncio.create_task(self._answer(item.query, toast))
                self._answers.add(task)
                task.add_done_callback(self._answers.discard)
            if batch:
                await self._host.accept(batch)
        except NotAccepted as error:
            log.warning(
                "telegram: %s updates were not accepted (%s); they are polled again",
                len(updates),
                error,
            )
            return False
        for key, checksum in texts.items():
            self._texts[key] = checksum
        return True

    def _parse(
        self, updates: Sequence[object], texts: dict[str, int]
    ) -> Iterator[tuple[str, Arrival | CallbackPress]]:
        """Telegram sends a message as edited when it only got a preview or a reaction: those are
        left out.
        """
        for raw in updates:
            item = parse_update(raw, self._me)
            if isinstance(item, InboundMessage):
                files = [(file.kind, file.name, file.mime, file.size) for file in item.attachments]
                checksum = zlib.crc32(repr((item.text, item.addressed, files)).encode())
                key = item.edits or item.external_id
                before = texts.get(key, self._texts.get(key))
                texts[key] = checksum
                if item.edits and before == checksum:
                    continue
            if item is not None:
                yield album_of(raw), item

    def _advance(self, updates: list[object]) -> bool:
        """Whether the next poll acknowledges these."""
        numbers = [number for number in map(update_id_of, updates) if number is not None]
        if numbers:
            self._offset = max(numbers) + 1
        elif updates and self._offset and updates != self._unnumbered:
            self._offset += len(
                updates
            )  # updates have consecutive numbers, also where they show none
            self._unnumbered = updates
        return bool(numbers) or not updates

    async def _answer(self, query: str, text: str) -> None:
        params = {"callback_query_id": query, "text": truncate(text, MAX_TOAST)}
        try:
            await self._api.call(
                "answerCallbackQuery", params if text else {"callback_query_id": query}
            )
        except ChannelError as error:
            log.info("telegram: a button's answer was not shown: %s", error)


async def delete_webhook(api: TelegramApi) -> None:
    """Where Telegram pushes updates to an address, none can be polled. Raises Revoked."""
    try:
        info = await api.call("getWebhookInfo", timeout_s=EXTRA_S)
        if isinstance(info, dict) and info.get("url"):
            await api.call("deleteWebhook", timeout_s=EXTRA_S)
            log.warning(
                "telegram: the bot had a webhook; it was deleted, because this daemon polls"
            )
    except TRANSIENT as error:
        log.info("telegram: whether the bot has a webhook is not known: %s", error)
