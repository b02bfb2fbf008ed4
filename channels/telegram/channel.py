"""Telegram: one bot, as the house sees it (A14, E12)."""

import asyncio
import logging
import time
import zlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from channels.base import (
    Capabilities,
    ChannelError,
    DeliveryUnknown,
    Host,
    RateLimit,
    Rejected,
    RetryLater,
    Revoked,
)
from channels.markup.telegram import LIMIT, render_parts
from channels.message import Address, Attachment, Choice, MessagePart
from channels.telegram.api import MethodMissing, TelegramApi, TelegramThrottled, is_about_chat
from channels.telegram.config import TelegramAccount
from channels.telegram.poller import (
    Poller,
    TelegramBackoff,
    TelegramTiming,
    UpdateHandler,
    drop_webhook,
)
from channels.telegram.sending import (
    MAX_DOWNLOAD,
    MAX_UPLOAD,
    NO_PREVIEW,
    Params,
    chat_arguments,
    command_menu,
    download_file,
    keyboard,
    message_arguments,
    message_id_of,
    reply_arguments,
    send_formatted,
    upload_file,
)
from channels.telegram.updates import TelegramIdentity

CAPABILITIES = Capabilities(
    limit=LIMIT, can_find=False, max_upload=MAX_UPLOAD, max_download=MAX_DOWNLOAD
)
PRIVATE_RATE, GROUP_RATE = RateLimit(5, 5.0), RateLimit(20, 60.0)
MENU_TIMEOUT_S = 10.0
MAX_CHATS = 1000
DRAFT = "sendMessageDraft"
SEEN_REACTION = [{"type": "emoji", "emoji": "👀"}]

log = logging.getLogger(__name__)


class Telegram:
    """channels.base.Channel. `pauses` is for tests; `can` as Telegram's documentation has it."""

    def __init__(
        self,
        config: TelegramAccount,
        *,
        name: str = "telegram",
        pauses: TelegramTiming | None = None,
    ) -> None:
        self.name = name
        self.capabilities = CAPABILITIES
        self._api = TelegramApi(config.base_url, config.bot_token, config.messages_per_second)
        self._pauses = pauses or TelegramTiming()
        self._missing: set[str] = set()
        self._edited_at: dict[str, float] = {}

    async def check(self) -> str:
        """Who we are there ("@my_bot"), asked now. Raises Revoked, Later."""
        me = await self._get_me()
        return f"@{me.username}" if me.username else str(me.id)

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        me = await self._wait_for_identity(host)
        await drop_webhook(self._api)
        greeting = asyncio.create_task(self._show_commands(host))
        hearing = UpdateHandler(self._api, host, me)
        try:
            await Poller(self._api, host, hearing.handle, self._pauses).run()
        finally:
            greeting.cancel()
            await asyncio.wait([greeting])
            await hearing.aclose()

    def rate_limit(self, address: Address) -> RateLimit:
        """One a second to a person, twenty a minute to a group, as Telegram has it."""
        return GROUP_RATE if address.chat.startswith("-") else PRIVATE_RATE

    def render(self, text: str) -> Sequence[MessagePart]:
        """Telegram's HTML, in pieces that fit."""
        return render_parts(text, LIMIT)

    async def send(
        self,
        address: Address,
        piece: MessagePart,
        key: str,
        *,
        choices: Sequence[Choice] = (),
        reply_to: str = "",
    ) -> str:
        """Send; the message's id. Telegram has no keys: what is Unclear stays so. Raises as Channel.send."""
        arguments = chat_arguments(address) | keyboard(choices) | reply_arguments(reply_to)
        return message_id_of(await self._send_text("sendMessage", piece, arguments))

    async def edit(
        self,
        address: Address,
        message_id: str,
        piece: MessagePart,
        *,
        choices: Sequence[Choice] = (),
    ) -> None:
        """Replace a message of ours."""
        try:
            await self._send_text(
                "editMessageText", piece, message_arguments(address, message_id) | keyboard(choices)
            )
        except Rejected as refused:
            if "not modified" not in str(refused):
                raise

    async def find(self, address: Address, key: str, piece: MessagePart, since: datetime) -> str:
        """Nobody can tell: a bot cannot read what stands in a chat."""
        return ""

    async def show_draft(
        self, address: Address, key: str, text: str, shown: str, *, private: bool
    ) -> str:
        """Show the tail of an unfinished text: as a draft of Telegram's own, which goes away by itself, or as a message."""
        piece = self.render(text)[-1]
        if not piece.plain.strip():
            return shown
        if private and not shown and await self._send_draft(address, key, piece):
            return ""
        if not shown:
            shown = await self.send(address, piece, key)
        elif self._may_edit(address):
            await self.edit(address, shown, piece)
        return shown

    async def delete(self, address: Address, message_id: str) -> None:
        """Take a message of ours away; one that is gone is gone."""
        try:
            await self._api.call("deleteMessage", message_arguments(address, message_id))
        except Rejected as refused:
            if "not found" not in str(refused):
                raise

    async def show_typing(self, address: Address, status: str = "") -> None:
        """ "typing ...", for five seconds; Telegram has no place for the status."""
        await self._call_optional("sendChatAction", chat_arguments(address) | {"action": "typing"})

    async def mark_seen(self, address: Address, message_id: str) -> None:
        """Two eyes under the message."""
        await self._call_optional(
            "setMessageReaction",
            message_arguments(address, message_id) | {"reaction": SEEN_REACTION},
        )

    async def upload(
        self, address: Address, file: Path, name: str, caption: MessagePart, key: str
    ) -> str:
        """Send a file, as a document. A caption that is too long for Telegram is shortened. Raises as Channel.send."""
        return await upload_file(self._api, chat_arguments(address), file, name, caption)

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        """Fetch a file that came with a message. Raises Refused, Later, Revoked."""
        await download_file(self._api, attachment, into)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._api.aclose()

    async def _send_text(self, method: str, piece: MessagePart, arguments: Params) -> object:
        more = arguments if method == DRAFT else arguments | {"link_preview_options": NO_PREVIEW}
        return await send_formatted(
            piece, "text", lambda words: self._api.call(method, more | words)
        )

    def _may_edit(self, address: Address) -> bool:
        """A group takes twenty messages a minute, changes among them: most are left to the answers."""
        now = time.monotonic()
        if (
            self.rate_limit(address) == GROUP_RATE
            and now < self._edited_at.get(address.chat, 0.0) + self._pauses.between_changes
        ):
            return False
        if len(self._edited_at) > MAX_CHATS:
            self._edited_at.clear()
        self._edited_at[address.chat] = now
        return True

    async def _send_draft(self, address: Address, key: str, piece: MessagePart) -> bool:
        """Whether it is shown as a draft of Telegram's own. A server that has none is not asked again."""
        if DRAFT in self._missing:
            return False
        try:
            await self._send_text(
                DRAFT,
                piece,
                chat_arguments(address) | {"draft_id": zlib.crc32(key.encode()) & 0x7FFFFFFF or 1},
            )
        except MethodMissing as lacking:
            self._note_missing(DRAFT, lacking)
            return False
        except Rejected as refused:
            if is_about_chat(refused):
                raise
            self._note_missing(DRAFT, refused)
            return False
        return True

    async def _call_optional(self, method: str, arguments: Params) -> None:
        """What is only nice to have: a server that does not know it is not asked again."""
        if method in self._missing:
            return
        try:
            await self._api.call(method, arguments)
        except MethodMissing as lacking:
            self._note_missing(method, lacking)
        except Rejected as refused:
            log.debug("%s: %s", self.name, refused)

    def _note_missing(self, method: str, why: Rejected) -> None:
        self._missing.add(method)
        log.info("%s: goes on without %s: %s", self.name, method, why)

    async def _get_me(self) -> TelegramIdentity:
        try:
            told = await self._api.call("getMe")
        except DeliveryUnknown as unclear:
            raise RetryLater(str(unclear), 1.0) from None
        me = told if isinstance(told, dict) else {}
        number = me.get("id")
        return TelegramIdentity(
            number if isinstance(number, int) else 0, str(me.get("username") or ""), self.name
        )

    async def _wait_for_identity(self, host: Host) -> TelegramIdentity:
        """Who we are, asked until there is an answer: without it nobody can tell what in a group is meant for us."""
        patience = TelegramBackoff(self._pauses)
        while True:
            try:
                return await self._get_me()
            except Revoked:
                raise
            except ChannelError as error:
                host.report_trouble(str(error))
                await patience.wait(error.after_s if isinstance(error, TelegramThrottled) else 0.0)

    async def _show_commands(self, host: Host) -> None:
        try:
            async with asyncio.timeout(MENU_TIMEOUT_S):
                await self._call_optional(
                    "setMyCommands", {"commands": command_menu(host.list_commands())}
                )
        except (ChannelError, TimeoutError) as error:
            log.info("%s: the commands are not in Telegram's menu: %s", self.name, error)
