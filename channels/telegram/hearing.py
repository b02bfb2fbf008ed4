"""What a batch of updates comes to in the house: messages in order, buttons in between, answers to those on the side."""

import asyncio
import logging
from collections.abc import Iterator, Sequence

from channels.base import ChannelError, Host, NotTaken
from channels.message import Arrival, Inbound, Press
from channels.telegram.albums import album_of, joined
from channels.telegram.api import Api
from channels.telegram.reading import Me, Pressed, read
from channels.telegram.sending import LONGEST_TOAST, shortened
from channels.telegram.unchanged import Said

log = logging.getLogger(__name__)


class Hearing:
    """Owns the answers to pressed buttons, which no message waits for; `aclose` ends them."""

    def __init__(self, api: Api, host: Host, me: Me) -> None:
        self._api, self._host, self._me = api, host, me
        self._answers: set[asyncio.Task[None]] = set()
        self._said = Said()

    async def hand_over(self, updates: Sequence[object]) -> None:
        """All of it, in order. Raises NotTaken."""
        try:
            await self._handed_over(joined(self._heard(updates)))
        except NotTaken:
            self._said.forget()
            raise
        self._said.keep()

    async def aclose(self) -> None:
        """End the answers that are under way."""
        for task in self._answers:
            task.cancel()
        if self._answers:
            await asyncio.wait(self._answers)

    def _heard(self, updates: Sequence[object]) -> Iterator[tuple[str, Arrival | Pressed]]:
        for raw in updates:
            heard = read(raw, self._me)
            if heard is None or (isinstance(heard, Inbound) and not self._said.anew(heard)):
                continue
            yield album_of(raw), heard

    async def _handed_over(self, heard: Sequence[Arrival | Pressed]) -> None:
        waiting: list[Arrival] = []
        for one in heard:
            if isinstance(one, Pressed):
                await self._take(waiting)
                waiting = []
                self._answer(one.query, await self._host.press(one.press) if one.press else "")
            elif not isinstance(one, Press):
                waiting.append(one)
        await self._take(waiting)

    async def _take(self, arrivals: list[Arrival]) -> None:
        if arrivals:
            await self._host.take(arrivals)

    def _answer(self, query: str, text: str) -> None:
        task = asyncio.create_task(self._answered(query, text))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answered(self, query: str, text: str) -> None:
        arguments = {"callback_query_id": query} | ({"text": shortened(text, LONGEST_TOAST)} if text else {})
        try:
            await self._api.call("answerCallbackQuery", arguments)
        except ChannelError as error:
            log.info("telegram: a button's answer was not shown: %s", error)
