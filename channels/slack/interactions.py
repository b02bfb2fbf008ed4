"""Buttons, slash commands and shortcuts: Slack sends these once only, and wants its answer within three seconds (A14, A15)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from channels.base import ChannelError, Host, Later, NotTaken, Refused
from channels.message import Inbound, Piece, Press
from channels.slack.afterwards import Afterwards
from channels.slack.own_chats import OwnChats
from channels.slack.reading import Reader
from channels.slack.sending import Sending
from channels.slack.shape import Json, maybe, table
from channels.text.verbatim import literal

Acknowledge = Callable[[dict[str, object] | None], Awaitable[bool]]
NOT_WRITTEN = "This could not be written down, so nothing was done. Please try again in a moment."
log = logging.getLogger(__name__)


class Interactions:
    """Each is handled in a task of its own, so that /stop waits for nobody."""

    def __init__(
        self,
        host: Host,
        reader: Reader,
        sending: Sending,
        own_chats: OwnChats,
        render: Callable[[str], Sequence[Piece]],
        afterwards: Callable[[str], Afterwards],
        answer_s: float,
    ) -> None:
        self._host, self._reader, self._sending, self._render = host, reader, sending, render
        self._own_chats = own_chats
        self._afterwards, self._answer_s = afterwards, answer_s

    async def handle(self, kind: str, payload: Json, acknowledge: Acknowledge) -> None:
        """One of them. Raises Unreadable."""
        match kind, payload.get("type"):
            case "slash_commands", _:
                await self._slash(self._reader.slash(payload), self._later(payload), acknowledge)
            case _, "block_actions":
                await acknowledge(None)
                press = self._reader.pressed(payload)
                await self._show(press, self._pieces(await self._written(self._host.press(press))), self._later({}))
            case _, "message_action":
                await acknowledge(None)
                asked = self._reader.shortcut(payload)
                pieces = self._pieces(await self._written(self._obeyed(asked)))
                await self._show(_visibly(asked, payload), pieces, self._later(payload))
            case _:
                await acknowledge(None)

    async def _slash(self, asked: Inbound, later: Afterwards, acknowledge: Acknowledge) -> None:
        replying = asyncio.create_task(self._written(self._obeyed(asked)))
        try:
            done, _ = await asyncio.wait([replying], timeout=self._answer_s)
            if not done:
                await acknowledge(None)
                await self._show(asked, self._pieces(await replying), later)
                return
            pieces = self._pieces(await replying)
            told = await acknowledge({"response_type": "ephemeral", "text": pieces[0].text} if pieces else None)
            await self._show(asked, pieces[1:] if told else pieces, later)
        finally:
            replying.cancel()

    async def _obeyed(self, asked: Inbound) -> str:
        return await self._host.command(await self._own_chats.seen(asked))

    async def _written(self, answer: Awaitable[str]) -> str:
        try:
            return await answer
        except NotTaken:
            return NOT_WRITTEN

    async def _show(self, to: Inbound | Press, pieces: Sequence[Piece], later: Afterwards) -> None:
        """`later`: the way for where the bot is no member and may show nobody anything."""
        member = True
        for piece in pieces:
            try:
                member = member and await self._whispered(to, piece, later)
                if not member:
                    await later.tell(piece.text)
            except ChannelError as no:
                log.warning("a reply was not shown: %s", no)
                return

    async def _whispered(self, to: Inbound | Press, piece: Piece, later: Afterwards) -> bool:
        try:
            await self._sending.whisper(to.address, to.sender.id, piece)
        except (Refused, Later):
            if not later.open:
                raise
            return False
        return True

    def _later(self, payload: Json) -> Afterwards:
        return self._afterwards(maybe(payload, "response_url"))

    def _pieces(self, words: str) -> Sequence[Piece]:
        return self._render(literal(words)) if words.strip() else ()


def _visibly(asked: Inbound, payload: Json) -> Inbound:
    """What is shown to one person in a thread is seen only where that has begun."""
    begun = maybe(table(payload, "message"), "thread_ts")
    return asked if begun else replace(asked, address=replace(asked.address, thread=""))
