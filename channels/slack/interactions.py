"""Buttons, slash commands and shortcuts: Slack sends these once only, and wants its answer within three seconds (A14, A15)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from channels.base import ChannelError, Host, NotTaken
from channels.message import Address, Inbound, Piece
from channels.slack.reading import Reader
from channels.slack.sending import Sending
from channels.slack.shape import Json
from channels.text.verbatim import literal

Acknowledge = Callable[[dict[str, object] | None], Awaitable[None]]
NOT_WRITTEN = "This could not be written down, so nothing was done. Please try again in a moment."
log = logging.getLogger(__name__)


class Interactions:
    """Each is handled in a task of its own, so that /stop waits for nobody."""

    def __init__(
        self, host: Host, reader: Reader, sending: Sending, render: Callable[[str], Sequence[Piece]], answer_s: float
    ) -> None:
        self._host, self._reader, self._sending, self._render = host, reader, sending, render
        self._answer_s = answer_s

    async def handle(self, kind: str, payload: Json, acknowledge: Acknowledge) -> None:
        """One of them. Raises Unreadable."""
        match kind, payload.get("type"):
            case "slash_commands", _:
                await self._slash(self._reader.slash(payload), acknowledge)
            case _, "block_actions":
                await acknowledge(None)
                press = self._reader.pressed(payload)
                await self._whisper(press.address, press.sender.id, self._written(self._host.press(press)))
            case _, "message_action":
                await acknowledge(None)
                asked = self._reader.shortcut(payload)
                await self._whisper(asked.address, asked.sender.id, self._written(self._host.command(asked)))
            case _:
                await acknowledge(None)

    async def _slash(self, asked: Inbound, acknowledge: Acknowledge) -> None:
        replying = asyncio.create_task(self._written(self._host.command(asked)))
        try:
            done, _ = await asyncio.wait([replying], timeout=self._answer_s)
            if not done:
                await acknowledge(None)
                await self._whisper(asked.address, asked.sender.id, replying)
                return
            first, *more = [*self._pieces(await replying), None]
            await acknowledge({"response_type": "ephemeral", "text": first.text} if first else None)
            await self._show(asked.address, asked.sender.id, [piece for piece in more if piece])
        finally:
            replying.cancel()

    async def _written(self, answer: Awaitable[str]) -> str:
        try:
            return await answer
        except NotTaken:
            return NOT_WRITTEN

    async def _whisper(self, address: Address, person: str, answer: Awaitable[str]) -> None:
        await self._show(address, person, self._pieces(await answer))

    async def _show(self, address: Address, person: str, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            try:
                await self._sending.whisper(address, person, piece)
            except ChannelError as no:
                log.warning("a reply was not shown: %s", no)
                return

    def _pieces(self, words: str) -> Sequence[Piece]:
        return self._render(literal(words)) if words.strip() else ()
