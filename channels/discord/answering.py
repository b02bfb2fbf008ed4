"""Buttons and the commands of Discord's menu: first within 3 seconds, then in the house's words, for one person only (E7)."""

import asyncio
import logging

from channels.base import ChannelError, Host, NotTaken, Revoked
from channels.discord import sending
from channels.discord.calling import Calls
from channels.discord.gateway import Patience
from channels.discord.lib import http
from channels.discord.reading import Asked
from channels.message import Press
from channels.text.discord import pieces
from channels.text.verbatim import literal

log = logging.getLogger(__name__)
AT_ONCE_S = 2.5
THINKING, UNCHANGED = 5, 6
NOT_NOTED = "That could not be written down just now. Please try again in a moment."
TRIES = 4
MOST_PIECES = 5


class Answers:
    """One account's."""

    def __init__(self, calls: Calls, host: Host, patience: Patience) -> None:
        self._calls, self._host, self._patience = calls, host, patience

    async def answer(self, asked: Asked) -> None:
        """See it through; whatever goes wrong ends this one only."""
        try:
            await self._defer(asked)
        except Revoked:
            return  # the connection is told the same
        except ChannelError as late:
            log.warning("Discord did not take the answer to a button or command in time: %s", late)
        text = await self._told(asked)
        try:
            await self._tell(asked, text)
        except ChannelError as lost:
            log.warning("Discord did not take the reply to a button or command: %s", lost)

    async def _defer(self, asked: Asked) -> None:
        kind = {"type": UNCHANGED} if isinstance(asked.what, Press) else {"type": THINKING, "data": {"flags": sending.EPHEMERAL}}
        where = {"webhook_id": asked.id, "webhook_token": asked.token}
        route = http.Route("POST", "/interactions/{webhook_id}/{webhook_token}/callback", **where)
        await self._calls.call(lambda rest: rest.request(route, json=kind), sends=True, within_s=AT_ONCE_S)

    async def _told(self, asked: Asked) -> str:
        for tries in range(TRIES):
            try:
                if isinstance(asked.what, Press):
                    return await self._host.press(asked.what)
                return await self._host.command(asked.what)
            except NotTaken as full:
                log.warning("a button or command cannot be written down, it is tried again: %s", full)
                await asyncio.sleep(self._patience.retries[min(tries, len(self._patience.retries) - 1)])
        return NOT_NOTED

    async def _tell(self, asked: Asked, text: str) -> None:
        where = {"webhook_id": asked.app, "webhook_token": asked.token}
        if not text.strip():
            if not isinstance(asked.what, Press):
                thinking = http.Route("DELETE", "/webhooks/{webhook_id}/{webhook_token}/messages/@original", **where)
                await self._calls.call(lambda rest: rest.request(thinking))
            return
        route = http.Route("POST", "/webhooks/{webhook_id}/{webhook_token}", **where)
        for piece in pieces(literal(text))[:MOST_PIECES]:
            body = sending.whisper(piece.text)
            await self._calls.call(lambda rest, body=body: rest.request(route, json=body), sends=True)
