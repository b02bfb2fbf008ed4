"""Which private chats are the assistant's own: slash commands and shortcuts come from those between others, too (A14)."""

import asyncio
from collections import OrderedDict
from dataclasses import replace

from channels.base import Later, Revoked
from channels.message import Inbound
from channels.slack.errors import Declined
from channels.slack.web import Web

MOST = 2000


class OwnChats:
    """`look_s`: how long Slack's answer may take, for who gave the command waits for it."""

    def __init__(self, web: Web, look_s: float) -> None:
        self._web, self._look_s = web, look_s
        self._known: OrderedDict[str, bool] = OrderedDict()
        self._closed = False

    async def seen(self, asked: Inbound) -> Inbound:
        """The same; it is private only where that is known."""
        return replace(asked, private=asked.private and await self._is_own(asked.address.chat))

    async def _is_own(self, chat: str) -> bool:
        if chat in self._known or self._closed:
            return self._known.get(chat, False)
        try:
            async with asyncio.timeout(self._look_s):
                await self._web.read("conversations.info", channel=chat)
        except (Later, Revoked, TimeoutError):
            return False
        except Declined as no:
            self._closed = no.unknown
            own = False
        else:
            own = True
        self._known[chat] = own
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return own
