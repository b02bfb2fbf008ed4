"""Telegram: one bot (A14, E12). Polls for updates, hands them to the host, and acknowledges them by
the next poll (K1, K2).
"""

import asyncio
import logging
import re
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from channels.base import (
    TRANSIENT,
    Capabilities,
    ChannelError,
    Gone,
    Host,
    Moved,
    NotAccepted,
    RateLimit,
    Rejected,
    RetryLater,
    Unsupported,
)
from channels.content import describe_file
from channels.json_access import find_number, find_text
from channels.markup.split import truncate, utf16_length
from channels.markup.telegram import LIMIT, render_parts
from channels.message import (
    Address,
    Arrival,
    Attachment,
    ButtonPress,
    InboundMessage,
    MessagePart,
    OutboundMessage,
    Reference,
)
from channels.telegram.api import PollConflict, TelegramApi
from channels.telegram.config import TelegramAccount
from channels.telegram.updates import (
    UPDATE_KINDS,
    TelegramIdentity,
    album_of,
    goes_on,
    is_unfinished,
    merge_parts,
    parse_update,
    without_last_album,
)
from channels.transport import Backoff, OptionalCalls, RecentDict, check_size, too_large

MAX_UPLOAD, MAX_DOWNLOAD = 50 << 20, 20 << 20
CAPABILITIES = Capabilities(
    limit=LIMIT, can_find=False, max_upload=MAX_UPLOAD, max_download=MAX_DOWNLOAD
)
PRIVATE_RATE, GROUP_RATE = RateLimit(5, 5.0), RateLimit(20, 60.0)
MENU_S = 10.0
MAX_CHATS, MAX_CAPTION, MAX_COMMANDS, BUTTONS_PER_ROW = 1000, 1024, 100, 2
COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
DRAFT, THREAD = "sendMessageDraft", "message_thread_id"
SENDS = ("sendMessage", "sendDocument")
NO_TEXT = MessagePart("", "")
EXTRA_S = 10.0
MAX_UPDATES = 100
MAX_REMEMBERED = 2000
MAX_TOAST = 200
CONFLICT = (
    "another program polls this bot with the same token; end it, "
    "or get a new token from @BotFather ({error})"
)
Params = dict[str, Any]
Item = tuple[str, Arrival | None]


def join_passed(items: Sequence[Item]) -> list[Item]:
    """What somebody passes on belongs to what they say with it: the app sends the words, and each
    message that is passed on, as messages of their own within a second.
    """
    joined, latest = list[Item](), dict[tuple[Address, str], tuple[int, datetime]]()
    for query, item in items:
        if isinstance(item, InboundMessage) and item.sent_at and not item.edits:
            whose = item.address, item.sender.id
            at, before = latest.get(whose, (len(joined), item.sent_at))
            first = joined[at][1] if at < len(joined) else None
            is_soon = timedelta() <= item.sent_at - before <= timedelta(seconds=1)
            if isinstance(first, InboundMessage) and item.author and is_soon:
                joined[at] = joined[at][0], _pass_with(first, item)
                latest[whose] = at, item.sent_at
                continue
            latest[whose] = len(joined), item.sent_at
            if item.text.startswith("/"):
                del latest[whose]  # a command stands alone
        joined.append((query, item))
    return joined


def _pass_with(first: InboundMessage, passed: InboundMessage) -> InboundMessage:
    """The id tells what came with it: if only the first came before a crash, the whole is new."""
    text = passed.text or "\n".join(map(describe_file, passed.attachments))
    return replace(
        first,
        external_id=f"{first.external_id}+{passed.message_id}",
        addressed=first.addressed or passed.addressed,
        references=(*first.references, Reference("passed", text, author=passed.author)),
        attachments=(*first.attachments, *passed.attachments),
    )


log = logging.getLogger(__name__)


class TelegramTiming(NamedTuple):
    """Seconds. `first_s`, `longest_s`: pauses after failures; `poll_s`: how long Telegram may hold
    a poll open; `edit_s`: between changes of a draft in a group; `album_s`: until the rest of an
    album is there.
    """

    first_s: float = 0.5
    longest_s: float = 10.0
    poll_s: int = 30
    edit_s: float = 5.0
    album_s: float = 0.6


class Telegram:
    """channels.base.Channel."""

    Config = TelegramAccount

    def __init__(
        self,
        config: TelegramAccount,
        *,
        name: str = "telegram",
        timing: TelegramTiming | None = None,
    ) -> None:
        self.name = name
        self.capabilities = CAPABILITIES
        self._api = TelegramApi(config.base_url, config.bot_token, config.messages_per_second)
        self._timing = timing or TelegramTiming()
        self._optional = OptionalCalls(name)
        self._edited_at = RecentDict[str, float](MAX_CHATS)

    async def check(self) -> str:
        me = await self._get_me()
        return f"@{me.username}" if me.username else str(me.id)

    async def run(self, host: Host) -> None:
        backoff = Backoff(self._timing.first_s, self._timing.longest_s)
        # without the identity nobody can tell what in a group is meant for us
        me = await backoff.retry(self._get_me, TRANSIENT, host.report_trouble)
        menu = asyncio.create_task(self._set_menu(host))
        try:
            await Poller(self._api, host, me, self._timing).run()
        finally:
            menu.cancel()
            await asyncio.wait([menu])

    def rate_limit(self, address: Address) -> RateLimit:
        return GROUP_RATE if address.chat.startswith("-") else PRIVATE_RATE

    render = staticmethod(render_parts)

    async def send(self, message: OutboundMessage) -> str:
        """Telegram has no keys: after DeliveryUnknown nobody can tell whether it was sent. A file
        is a document; a caption that is too long is shortened, without its markup.
        """
        method, part, params = "sendMessage", message.part, _place(message)
        if message.file:
            await check_size(message.file, message.name, MAX_UPLOAD, "Telegram")
            method, short = "sendDocument", truncate(part.plain, MAX_CAPTION)
            if short != part.plain or utf16_length(part.text) > MAX_CAPTION:
                part = MessagePart("", short)
            params["file"] = message.file, message.name
        if message.reply_to.isdigit():
            reply = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
            params["reply_parameters"] = reply
        sent = await self._send_text(method, part, params)
        return str(find_number(sent, "message_id") or "")  # the server may not say

    async def edit(self, message_id: str, message: OutboundMessage) -> None:
        try:
            params = _place(message) | {"message_id": _id(message_id)}
            params.pop(THREAD, None)
            await self._send_text("editMessageText", message.part, params)
        except Rejected as error:
            if "not modified" not in str(error):
                raise

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        """A bot cannot read what is in a chat."""
        return ""

    async def show_draft(self, address: Address, key: str, text: str, shown: str) -> str:
        """The end of it: as Telegram's own draft, which goes away by itself, or as a message."""
        message = OutboundMessage(address, self.render(text)[-1], key)
        if not message.part.plain.strip():
            return shown
        in_group, now = self.rate_limit(address) == GROUP_RATE, time.monotonic()
        if not (in_group or shown) and DRAFT not in self._optional.unsupported:
            params = _place(message) | {"draft_id": zlib.crc32(key.encode()) & 0x7FFFFFFF or 1}
            try:
                await self._send_text(DRAFT, message.part, params)
                return ""
            except Gone:
                raise
            except Rejected as error:
                self._optional.disable(DRAFT, error)
        if not shown:
            return await self.send(message)
        if in_group:  # its few messages a minute are left to the answers
            if now < self._edited_at.get(address.chat, 0.0) + self._timing.edit_s:
                return shown
            self._edited_at[address.chat] = now
        await self.edit(shown, message)
        return shown

    async def delete(self, address: Address, message_id: str) -> None:
        with suppress(Gone):
            params = {"chat_id": _id(address.chat), "message_id": _id(message_id)}
            await self._api.call("deleteMessage", params)

    async def show_typing(self, address: Address, status: str = "") -> None:
        """For five seconds; Telegram has no place for the status."""
        params = _place(OutboundMessage(address, NO_TEXT)) | {"action": "typing"}
        await self._optional.attempt("typing", self._api.call, "sendChatAction", params)

    async def mark_seen(self, address: Address, message_id: str) -> None:
        params = {
            "chat_id": _id(address.chat),
            "message_id": _id(message_id),
            "reaction": [{"type": "emoji", "emoji": "👀"}],
        }
        await self._optional.attempt("reactions", self._api.call, "setMessageReaction", params)

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        if attachment.size > MAX_DOWNLOAD:
            raise too_large(attachment.name, MAX_DOWNLOAD)
        path = find_text(await self._api.call("getFile", {"file_id": attachment.ref}), "file_path")
        if not path:
            raise Rejected(f"Telegram does not say where {attachment.name} is")
        url = self._api.files + path.lstrip("/")
        await self._api.http.download(url, attachment, into, MAX_DOWNLOAD)

    async def aclose(self) -> None:
        await self._api.http.aclose()

    async def _send_text(self, method: str, part: MessagePart, params: Params) -> object:
        """In its topic; without where Telegram refuses it there, as it does for a topic that was
        deleted: that refusal has no code of its own.
        """
        try:
            return await self._send_styled(method, part, params)
        except Rejected as error:
            if THREAD not in params or isinstance(error, Moved | Unsupported):
                raise
            refusal = error
        outside = {key: given for key, given in params.items() if key != THREAD}
        sent = await self._send_styled(method, part, outside)
        log.info("%s: sent outside of its topic: %s", self.name, refusal)
        return sent

    async def _send_styled(self, method: str, part: MessagePart, params: Params) -> object:
        """With its markup; without where Telegram refuses it so, for whatever reason. An edit is
        refused where it changes nothing, too.
        """
        field = "caption" if "file" in params else "text"
        if field == "text" and method != DRAFT:
            params["link_preview_options"] = {"is_disabled": True}
        if part.text:
            try:
                styled = params | {field: part.text, "parse_mode": "HTML"}
                return await self._api.call(method, styled)
            except Rejected as error:
                is_final = isinstance(error, Gone | Unsupported) or method not in SENDS
                if is_final and "parse entities" not in str(error):
                    raise
                log.info("%s: sent without markup: %s", self.name, error)
        return await self._api.call(method, params | ({field: part.plain} if part.plain else {}))

    async def _get_me(self) -> TelegramIdentity:
        me = await self._api.call("getMe")
        return TelegramIdentity(find_number(me, "id"), find_text(me, "username"), self.name)

    async def _set_menu(self, host: Host) -> None:
        menu = [
            {"command": name, "description": text[:256] or name}
            for name, text in host.list_commands()
            if COMMAND_NAME.fullmatch(name)
        ]
        params = {"commands": menu[:MAX_COMMANDS]}
        try:
            async with asyncio.timeout(MENU_S):
                await self._optional.attempt("a menu", self._api.call, "setMyCommands", params)
        except (ChannelError, TimeoutError) as error:
            log.info("%s: the commands are not in Telegram's menu: %s", self.name, error)


def _place(message: OutboundMessage) -> Params:
    """Where it is sent, and its buttons."""
    address = message.address
    params: Params = {"chat_id": _id(address.chat)}
    if address.thread:
        params[THREAD] = _id(address.thread)
    buttons = [{"text": one.label, "callback_data": one.data} for one in message.choices]
    if buttons:
        ends = range(0, len(buttons), BUTTONS_PER_ROW)
        rows = [buttons[at : at + BUTTONS_PER_ROW] for at in ends]
        params["reply_markup"] = {"inline_keyboard": rows}
    return params


def _id(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text


@dataclass
class Poller:
    """The offset is kept in memory only: after a restart Telegram sends again what was not
    acknowledged, and the host drops what it has.
    """

    api: TelegramApi
    host: Host
    me: TelegramIdentity
    timing: TelegramTiming
    _offset: int = 0
    _unnumbered: Sequence[object] = ()
    _texts: RecentDict[str, int] = field(default_factory=partial(RecentDict, MAX_REMEMBERED))
    _answers: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Until cancelled. Raises Revoked."""
        await self._delete_webhook()
        backoff = Backoff(self.timing.first_s, self.timing.longest_s)
        hold_s = 0  # the first answer comes at once, so that the channel is seen to work
        try:
            while True:
                asked_at = time.monotonic()
                try:
                    updates = await self._poll(hold_s)
                    if updates and is_unfinished(updates[-1]):
                        updates = await self._complete(updates)
                except TRANSIENT as error:
                    hold_s = await self._handle_failure(error, backoff)
                    continue
                self.host.report_alive()
                took_s = time.monotonic() - asked_at
                if await self._deliver(updates):
                    backoff.pause_s = 0.0
                else:
                    await backoff.wait()
                if not updates and took_s < min(hold_s, 1) / 2:
                    await asyncio.sleep(self.timing.first_s)  # this server holds no poll open
                hold_s = self.timing.poll_s
        finally:
            for task in self._answers:
                task.cancel()
            if self._answers:
                await asyncio.wait(self._answers)

    async def _poll(self, hold_s: int) -> list[object]:
        params = {"timeout": hold_s, "limit": MAX_UPDATES, "allowed_updates": UPDATE_KINDS}
        if self._offset:
            params["offset"] = self._offset
        updates = await self.api.call("getUpdates", params, timeout_s=hold_s + EXTRA_S)
        if not isinstance(updates, list):
            raise RetryLater("Telegram's answer to a poll cannot be read")
        return updates

    async def _complete(self, updates: list[object]) -> list[object]:
        """An album, or a text in parts, may be cut by the end of a poll: ask once more, as nothing
        is acknowledged yet. Raises Revoked.
        """
        if len(updates) >= MAX_UPDATES:
            return without_last_album(updates)
        await asyncio.sleep(self.timing.album_s)
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
        self.host.report_trouble(CONFLICT.format(error=error) if is_conflict else str(error))
        if is_conflict and "webhook" in str(error).lower():
            await self._delete_webhook()
        await backoff.wait(error)
        return self.timing.poll_s if is_conflict else 0

    async def _deliver(self, updates: Sequence[object]) -> bool:
        """All of them to the host, in order. False where it could not accept them, or the next poll
        does not acknowledge them.
        """
        batch: list[Arrival] = []
        texts: dict[str, int] = {}
        try:
            for query, item in join_passed(self._parse(updates, texts)):
                if item is not None and not isinstance(item, ButtonPress):
                    batch.append(item)
                    continue
                if batch:
                    await self.host.accept(batch)
                    batch = []
                toast = await self.host.press_button(item) if item else ""
                task = asyncio.create_task(self._answer(query, toast))
                self._answers.add(task)
                task.add_done_callback(self._answers.discard)
            if batch:
                await self.host.accept(batch)
        except NotAccepted as error:
            text = "telegram: %s updates were not accepted (%s); they are polled again"
            log.warning(text, len(updates), error)
            return False
        for key, checksum in texts.items():
            self._texts[key] = checksum
        if latest := max((find_number(raw, "update_id") for raw in updates), default=0):
            self._offset = latest + 1
        elif updates and self._offset and updates != self._unnumbered:
            # updates have consecutive numbers, also where they show none
            self._offset += len(updates)
            self._unnumbered = updates
        return bool(latest) or not updates

    def _parse(self, updates: Sequence[object], texts: dict[str, int]) -> list[Item]:
        """(query to answer, what came); each album, and each text that the app has split, as one
        message in place of its first part.

        Edits that change nothing are left out: Telegram sends them for previews and reactions.
        """
        items: list[Item] = []
        albums: dict[tuple[Address, str, str], tuple[int, list[InboundMessage]]] = {}
        latest: dict[int, tuple[object, int, list[InboundMessage]]] = {}  # by chat
        for raw in updates:
            item = parse_update(raw, self.me)
            query = find_text(raw, "callback_query", "id")
            if isinstance(item, InboundMessage):
                files = [(file.kind, file.name, file.mime, file.size) for file in item.attachments]
                checksum = zlib.crc32(repr((item.text, item.addressed, files)).encode())
                key = item.edits or item.external_id
                before = texts.get(key, self._texts.get(key))
                texts[key] = checksum
                if item.edits and before == checksum:
                    continue
                if album := album_of(raw):
                    whose = item.address, item.sender.id, album
                    at, parts = albums.setdefault(whose, (len(items), []))
                else:
                    chat = find_number(raw, "message", "chat", "id")
                    former, at, parts = latest.get(chat, (None, 0, []))
                    if not (former and goes_on(former, raw)):
                        at, parts = len(items), []
                    latest[chat] = raw, at, parts
                parts.append(item)
                if at < len(items):
                    items[at] = query, merge_parts(parts)
                    continue
            if item or query:
                items.append((query, item))
        return items

    async def _answer(self, query: str, text: str) -> None:
        toast = {"text": truncate(text, MAX_TOAST)} if text else {}
        try:
            await self.api.call("answerCallbackQuery", {"callback_query_id": query} | toast)
        except ChannelError as error:
            log.info("telegram: a button's answer was not shown: %s", error)

    async def _delete_webhook(self) -> None:
        """Where Telegram pushes updates to an address, none can be polled. Raises Revoked."""
        try:
            if find_text(await self.api.call("getWebhookInfo", timeout_s=EXTRA_S), "url"):
                await self.api.call("deleteWebhook", timeout_s=EXTRA_S)
                log.warning(
                    "telegram: the bot had a webhook; it was deleted, because this daemon polls"
                )
        except TRANSIENT as error:
            log.info("telegram: whether the bot has a webhook is not known: %s", error)
