"""Tells the owner of a journal that cannot be used: past the outbox, which is in it."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from channels.message import Address, OutboundMessage
from daemon.access.chat_ids import parse_address
from daemon.core.errors import StoreUnavailable
from daemon.outbox.channel_supervisor import ChannelState
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
LOOK_EVERY_S, TELL_AFTER_S, LEARN_EVERY_S, SEND_S = 2.0, 10.0, 60.0, 30.0
CANNOT_USE = (
    "I take in nothing and start nothing now: {problem}. What I took in before is kept. On the"
    " machine, `aidaemon doctor` says what to do. Send again what I do not answer."
)
WORKS_AGAIN = "The journal works again; I go on."


@dataclass
class JournalAlarm:
    """Tells once that the journal has not worked for TELL_AFTER_S, and once that it works again.
    Learns where the owner was met while the journal can be read.
    """

    store: Store
    channels: Mapping[str, ChannelState]
    _chats: Sequence[Address] = ()
    _learned: float = -LEARN_EVERY_S
    _since: float | None = None
    _told: bool = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._look(asyncio.get_running_loop().time())
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self, now: float) -> None:
        problem = self.store.problem
        if not problem:
            self._since = None
            if self._told and await self._send(WORKS_AGAIN):
                self._told = False
            if now - self._learned >= LEARN_EVERY_S:
                self._learned = now
                with suppress(StoreUnavailable):
                    self._chats = await self.store.read(_list_chats)
            return
        self._since = now if self._since is None else self._since
        if not self._told and now - self._since >= TELL_AFTER_S:
            self._told = await self._send(CANNOT_USE.format(problem=problem))

    async def _send(self, text: str) -> bool:
        """To the first chat that takes it."""
        for address in self._chats:
            state = self.channels.get(address.channel)
            if state is None or not state.up.is_set():
                continue
            message = OutboundMessage(address, state.channel.render(text)[0])
            try:
                async with asyncio.timeout(SEND_S):
                    await state.channel.send(message)
            except Exception:  # what one channel breaks is its own: the others go on, and this
                log.exception("%s: the owner could not be told", state.name)
            else:
                return True
        return False


def _list_chats(tx: Tx) -> list[Address]:
    rows = [tx.get_session(chat.session) for chat in tx.list_owner_chats()]
    return [parse_address(row.channel, row.chat) for row in rows if row]
