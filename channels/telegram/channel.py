"""Telegram: one bot (A14, E12)."""

import asyncio
import logging
import re
import time
import zlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from channels.base import (
    TRANSIENT,
    Capabilities,
    ChannelError,
    Gone,
    Host,
    RateLimit,
    Rejected,
)
from channels.markup.split import truncate, utf16_length
from channels.markup.telegram import LIMIT, render_parts
from channels.message import Address, Attachment, Choice, MessagePart, OutboundMessage
from channels.telegram.api import TelegramApi
from channels.telegram.config import TelegramAccount
from channels.telegram.poller import Poller, TelegramTiming, delete_webhook
from channels.telegram.updates import TelegramIdentity
from channels.transport import Backoff, OptionalCalls, check_size, too_large

MAX_UPLOAD, MAX_DOWNLOAD = 50 << 20, 20 << 20
CAPABILITIES = Capabilities(
    limit=LIMIT, can_find=False, max_upload=MAX_UPLOAD, max_download=MAX_DOWNLOAD
)
PRIVATE_RATE, GROUP_RATE = RateLimit(5, 5.0), RateLimit(20, 60.0)
MENU_S, UPLOAD_S = 10.0, 180.0
MAX_CHATS, MAX_CAPTION, MAX_COMMANDS, BUTTONS_PER_ROW = 1000, 1024, 100, 2
COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
DRAFT = "sendMessageDraft"
Params = dict[str, Any]

log = logging.getLogger(__name__)


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
        self._edited_at: dict[str, float] = {}

    async def check(self) -> str:
        me = await self._get_me()
        return f"@{me.username}" if me.username else str(me.id)

    async def run(self, host: Host) -> None:
        backoff = Backoff(self._timing.first_s, self._timing.longest_s)
        # without the identity nobody can tell what in a group is meant for us
        me = await backoff.retry(self._get_me, TRANSIENT, host.report_trouble)
        await delete_webhook(self._api)
        menu = asyncio.create_task(self._set_menu(host))
        try:
            await Poller(self._api, host, me, self._timing).run()
        finally:
            menu.cancel()
            await asyncio.wait([menu])

    def rate_limit(self, address: Address) -> RateLimit:
        return GROUP_RATE if address.chat.startswith("-") else PRIVATE_RATE

    def render(self, text: str) -> Sequence[MessagePart]:
        return render_parts(text, LIMIT)

    async def send(self, message: OutboundMessage) -> str:
        """Telegram has no keys: after DeliveryUnknown nobody can tell whether it was sent."""
        if message.file:
            return await self._upload(message, message.file)
        params = _chat(message.address) | _keyboard(message.choices)
        if message.reply_to.isdigit():
            reply = {"message_id": int(message.reply_to), "allow_sending_without_reply": True}
            params["reply_parameters"] = reply
        return _message_id(await self._send_text("sendMessage", message.part, params))

    async def edit(self, message_id: str, message: OutboundMessage) -> None:
        try:
            params = _message(message.address, message_id) | _keyboard(message.choices)
            await self._send_text("editMessageText", message.part, params)
        except Rejected as error:
            if "not modified" not in str(error):
                raise

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        """A bot cannot read what is in a chat."""
        return ""

    async def show_draft(self, address: Address, key: str, text: str, shown: str) -> str:
        """The end of it: as Telegram's own draft, which goes away by itself, or as a message."""
        part = self.render(text)[-1]
        if not part.plain.strip():
            return shown
        in_group = self.rate_limit(address) == GROUP_RATE
        if not in_group and not shown and self._optional.has(DRAFT):
            params = _chat(address) | {"draft_id": zlib.crc32(key.encode()) & 0x7FFFFFFF or 1}
            try:
                await self._send_text(DRAFT, part, params)
            except Gone:
                raise
            except Rejected as error:
                self._optional.disable(DRAFT, error)
            else:
                return ""
        message = OutboundMessage(address, part, key)
        if not shown:
            return await self.send(message)
        now = time.monotonic()
        if in_group:  # its few messages a minute are left to the answers
            if now < self._edited_at.get(address.chat, 0.0) + self._timing.edit_s:
                return shown
            if len(self._edited_at) > MAX_CHATS:
                self._edited_at.clear()
            self._edited_at[address.chat] = now
        await self.edit(shown, message)
        return shown

    async def delete(self, address: Address, message_id: str) -> None:
        try:
            await self._api.call("deleteMessage", _message(address, message_id))
        except Gone:
            return

    async def show_typing(self, address: Address, status: str = "") -> None:
        """For five seconds; Telegram has no place for the status."""
        await self._call_optional("sendChatAction", _chat(address) | {"action": "typing"})

    async def mark_seen(self, address: Address, message_id: str) -> None:
        reaction = {"reaction": [{"type": "emoji", "emoji": "👀"}]}
        await self._call_optional("setMessageReaction", _message(address, message_id) | reaction)

    async def _upload(self, message: OutboundMessage, file: Path) -> str:
        """As a document. A caption that is too long is shortened, without its markup."""
        await check_size(file, message.name, MAX_UPLOAD, "Telegram")
        caption = message.part
        short = truncate(caption.plain, MAX_CAPTION)
        if short != caption.plain or utf16_length(caption.text) > MAX_CAPTION:
            caption = MessagePart("", short)
        return _message_id(
            await self._send_text(
                "sendDocument", caption, _chat(message.address), (file, message.name)
            )
        )

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        if attachment.size > MAX_DOWNLOAD:
            raise too_large(attachment.name, MAX_DOWNLOAD)
        answer = await self._api.call("getFile", {"file_id": attachment.ref})
        path = answer.get("file_path") if isinstance(answer, dict) else None
        if not path:
            raise Rejected(f"Telegram does not say where {attachment.name} is")
        await self._api.download(attachment, str(path), into, MAX_DOWNLOAD)

    async def aclose(self) -> None:
        await self._api.aclose()

    async def _send_text(
        self, method: str, part: MessagePart, params: Params, file: tuple[Path, str] | None = None
    ) -> object:
        """With its markup; without where Telegram cannot parse that."""
        field = "caption" if file else "text"
        how: Params = {"file": file, "timeout_s": UPLOAD_S} if file else {}
        if not file and method != DRAFT:
            params = params | {"link_preview_options": {"is_disabled": True}}
        if part.text:
            try:
                styled = params | {field: part.text, "parse_mode": "HTML"}
                return await self._api.call(method, styled, **how)
            except Rejected as error:
                if "parse entities" not in str(error):
                    raise
        plain = params | ({field: part.plain} if part.plain else {})
        return await self._api.call(method, plain, **how)

    async def _call_optional(self, method: str, params: Params) -> None:
        await self._optional.attempt(method, self._api.call, method, params)

    async def _get_me(self) -> TelegramIdentity:
        answer = await self._api.call("getMe")
        me = answer if isinstance(answer, dict) else {}
        number = me.get("id")
        username = str(me.get("username") or "")
        return TelegramIdentity(number if isinstance(number, int) else 0, username, self.name)

    async def _set_menu(self, host: Host) -> None:
        named = {name.removeprefix("/"): text for name, text in host.list_commands()}
        menu = [
            {"command": name, "description": text[:256] or name}
            for name, text in named.items()
            if COMMAND_NAME.fullmatch(name)
        ]
        try:
            async with asyncio.timeout(MENU_S):
                await self._call_optional("setMyCommands", {"commands": menu[:MAX_COMMANDS]})
        except (ChannelError, TimeoutError) as error:
            log.info("%s: the commands are not in Telegram's menu: %s", self.name, error)


def _chat(address: Address) -> Params:
    thread = {"message_thread_id": _id(address.thread)} if address.thread else {}
    return {"chat_id": _id(address.chat), **thread}


def _message(address: Address, message_id: str) -> Params:
    return {"chat_id": _id(address.chat), "message_id": _id(message_id)}


def _id(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text


def _keyboard(choices: Sequence[Choice]) -> Params:
    if not choices:
        return {}
    buttons = [{"text": choice.label, "callback_data": choice.data} for choice in choices]
    rows = [buttons[at : at + BUTTONS_PER_ROW] for at in range(0, len(buttons), BUTTONS_PER_ROW)]
    return {"reply_markup": {"inline_keyboard": rows}}


def _message_id(sent: object) -> str:
    """ "" where the server does not say."""
    number = sent.get("message_id") if isinstance(sent, dict) else None
    return "" if number is None else str(number)
