"""Telegram: one bot, as the house sees it (A14, E12)."""

import asyncio
import logging
import time
import zlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from channels.base import Capabilities, ChannelError, Host, Later, Rate, Refused, Revoked, Unclear
from channels.message import Address, Attachment, Choice, Piece
from channels.telegram.api import Api, Lacking, Throttled, refused_for_the_chat
from channels.telegram.config import TelegramAccount
from channels.telegram.files import MOST_FETCH, MOST_UPLOAD, fetch, upload
from channels.telegram.hearing import Hearing
from channels.telegram.poller import Patience, Pauses, Poller, drop_webhook
from channels.telegram.reading import Me
from channels.telegram.sending import NO_PREVIEW, Arguments, answer_to, buttons, formatted, menu, one, place, sent_id
from channels.text.telegram import LIMIT, pieces

CAN = Capabilities(limit=LIMIT, finds=False, most_upload=MOST_UPLOAD, most_fetch=MOST_FETCH)
TO_ONE, TO_MANY = Rate(5, 5.0), Rate(20, 60.0)
GREETING_S = 10.0
MOST_REMEMBERED = 1000
DRAFT = "sendMessageDraft"
SEEN = [{"type": "emoji", "emoji": "👀"}]

log = logging.getLogger(__name__)


class Telegram:
    """channels.base.Channel. `pauses` is for tests; `can` as Telegram's documentation has it."""

    def __init__(self, config: TelegramAccount, *, name: str = "telegram", pauses: Pauses | None = None) -> None:
        self.name = name
        self.can = CAN
        self._api = Api(config.base_url, config.bot_token, config.messages_per_second)
        self._pauses = pauses or Pauses()
        self._lacking: set[str] = set()
        self._changed: dict[str, float] = {}

    async def check(self) -> str:
        """Who we are there ("@my_bot"), asked now. Raises Revoked, Later."""
        me = await self._me()
        return f"@{me.username}" if me.username else str(me.id)

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        me = await self._introduced(host)
        await drop_webhook(self._api)
        greeting = asyncio.create_task(self._show_commands(host))
        hearing = Hearing(self._api, host, me)
        try:
            await Poller(self._api, host, hearing.hand_over, self._pauses).run()
        finally:
            greeting.cancel()
            await asyncio.wait([greeting])
            await hearing.aclose()

    def rate(self, address: Address) -> Rate:
        """One a second to a person, twenty a minute to a group, as Telegram has it."""
        return TO_MANY if address.chat.startswith("-") else TO_ONE

    def render(self, text: str) -> Sequence[Piece]:
        """Telegram's HTML, in pieces that fit."""
        return pieces(text, LIMIT)

    async def send(self, address: Address, piece: Piece, key: str, *, choices: Sequence[Choice] = (), reply_to: str = "") -> str:
        """Send; the message's id. Telegram has no keys: what is Unclear stays so. Raises as Channel.send."""
        arguments = place(address) | buttons(choices) | answer_to(reply_to)
        return sent_id(await self._worded("sendMessage", piece, arguments))

    async def edit(self, address: Address, message_id: str, piece: Piece, *, choices: Sequence[Choice] = ()) -> None:
        """Replace a message of ours."""
        try:
            await self._worded("editMessageText", piece, one(address, message_id) | buttons(choices))
        except Refused as refused:
            if "not modified" not in str(refused):
                raise

    async def find(self, address: Address, key: str, piece: Piece, since: datetime) -> str:
        """Nobody can tell: a bot cannot read what stands in a chat."""
        return ""

    async def draft(self, address: Address, key: str, text: str, shown: str, *, private: bool) -> str:
        """Show the tail of an unfinished text: as a draft of Telegram's own, which goes away by itself, or as a message."""
        piece = self.render(text)[-1]
        if not piece.plain.strip():
            return shown
        if private and not shown and await self._drafted(address, key, piece):
            return ""
        if not shown:
            shown = await self.send(address, piece, key)
        elif self._may_change(address):
            await self.edit(address, shown, piece)
        return shown

    async def delete(self, address: Address, message_id: str) -> None:
        """Take a message of ours away; one that is gone is gone."""
        try:
            await self._api.call("deleteMessage", one(address, message_id))
        except Refused as refused:
            if "not found" not in str(refused):
                raise

    async def typing(self, address: Address, status: str = "") -> None:
        """ "typing ...", for five seconds; Telegram has no place for the status."""
        await self._if_it_can("sendChatAction", place(address) | {"action": "typing"})

    async def seen(self, address: Address, message_id: str) -> None:
        """Two eyes under the message."""
        await self._if_it_can("setMessageReaction", one(address, message_id) | {"reaction": SEEN})

    async def upload(self, address: Address, file: Path, name: str, caption: Piece, key: str) -> str:
        """Send a file, as a document. A caption that is too long for Telegram is shortened. Raises as Channel.send."""
        return await upload(self._api, place(address), file, name, caption)

    async def fetch(self, attachment: Attachment, into: BinaryIO) -> None:
        """Fetch a file that came with a message. Raises Refused, Later, Revoked."""
        await fetch(self._api, attachment, into)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._api.aclose()

    async def _worded(self, method: str, piece: Piece, arguments: Arguments) -> object:
        more = arguments if method == DRAFT else arguments | {"link_preview_options": NO_PREVIEW}
        return await formatted(piece, "text", lambda words: self._api.call(method, more | words))

    def _may_change(self, address: Address) -> bool:
        """A group takes twenty messages a minute, changes among them: most are left to the answers."""
        now = time.monotonic()
        if self.rate(address) == TO_MANY and now < self._changed.get(address.chat, 0.0) + self._pauses.between_changes:
            return False
        if len(self._changed) > MOST_REMEMBERED:
            self._changed.clear()
        self._changed[address.chat] = now
        return True

    async def _drafted(self, address: Address, key: str, piece: Piece) -> bool:
        """Whether it is shown as a draft of Telegram's own. A server that has none is not asked again."""
        if DRAFT in self._lacking:
            return False
        try:
            await self._worded(DRAFT, piece, place(address) | {"draft_id": zlib.crc32(key.encode()) & 0x7FFFFFFF or 1})
        except Lacking as lacking:
            self._lacks(DRAFT, lacking)
            return False
        except Refused as refused:
            if refused_for_the_chat(refused):
                raise
            self._lacks(DRAFT, refused)
            return False
        return True

    async def _if_it_can(self, method: str, arguments: Arguments) -> None:
        """What is only nice to have: a server that does not know it is not asked again."""
        if method in self._lacking:
            return
        try:
            await self._api.call(method, arguments)
        except Lacking as lacking:
            self._lacks(method, lacking)
        except Refused as refused:
            log.debug("%s: %s", self.name, refused)

    def _lacks(self, method: str, why: Refused) -> None:
        self._lacking.add(method)
        log.info("%s: goes on without %s: %s", self.name, method, why)

    async def _me(self) -> Me:
        try:
            told = await self._api.call("getMe")
        except Unclear as unclear:
            raise Later(str(unclear), 1.0) from None
        me = told if isinstance(told, dict) else {}
        number = me.get("id")
        return Me(number if isinstance(number, int) else 0, str(me.get("username") or ""), self.name)

    async def _introduced(self, host: Host) -> Me:
        """Who we are, asked until there is an answer: without it nobody can tell what in a group is meant for us."""
        patience = Patience(self._pauses)
        while True:
            try:
                return await self._me()
            except Revoked:
                raise
            except ChannelError as error:
                host.ailing(str(error))
                await patience.failed(error.after_s if isinstance(error, Throttled) else 0.0)

    async def _show_commands(self, host: Host) -> None:
        try:
            async with asyncio.timeout(GREETING_S):
                await self._if_it_can("setMyCommands", {"commands": menu(host.commands())})
        except (ChannelError, TimeoutError) as error:
            log.info("%s: the commands are not in Telegram's menu: %s", self.name, error)
