"""One turn, shown in its conversation while it works: that it types, the text as it grows, one line on what it is at (E12).

A draft that stays at the platform is noted in the journal before it is made: the reply takes its place, after a crash too.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from channels.base import ChannelError, Later, Unclear
from channels.message import Address
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.live import Glimpse
from daemon.delivery.letters import DRAFT, GONE, draft_key
from daemon.delivery.outlet import Outlet
from daemon.delivery.progress import Progress
from daemon.store.protocol import Store

log = logging.getLogger(__name__)
TYPING_AFTER_S, DRAFT_AFTER_S, LOOK_EVERY_S = 0.4, 1.2, 0.3
LAST_CALL_S = 5.0
FADES_S = 20.0
"""What goes away by itself is shown again after so long: Telegram takes it away after thirty."""


@dataclass(slots=True)
class Follower:
    """Watches one turn. Nothing here has to succeed. `message` is the one that shows the draft, "" while there is none that is
    known; `noted` is what the journal has of it. `showing` while the platform is asked to show one; after a refusal, and where
    it is not known whether there is one, no more are tried (`mute`).
    """

    turn: str
    address: Address
    outlet: Outlet
    store: Store
    clock: Clock
    watch: AbstractContextManager[AsyncIterator[Glimpse]]
    progress: Progress = field(default_factory=Progress)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    began: float = 0.0
    shown_at: float = 0.0
    shown: str = ""
    message: str = ""
    private: bool = False
    noted: str | None = None
    showing: bool = False
    mute: bool = False
    typed_at: float | None = None
    busy_since: float = 0.0

    async def follow(self, glimpses: AsyncIterator[Glimpse]) -> None:
        """Until the turn has ended, waits for a person, or the reply is about to go out."""
        self.began = self.busy_since = self.clock.monotonic()
        looking = asyncio.create_task(self._look(glimpses), name=f"look {self.turn}")
        try:
            await self._wait(TYPING_AFTER_S)
            while not self.progress.over:
                await self._type()
                await self._draft()
                await self._wait(LOOK_EVERY_S)
            await self._tidy()
        finally:
            looking.cancel()
            self.watch.__exit__(None, None, None)

    async def _look(self, glimpses: AsyncIterator[Glimpse]) -> None:
        async for item in glimpses:
            before = len(self.progress.running)
            self.progress.see(item)
            if len(self.progress.running) != before:
                self.busy_since = self.clock.monotonic()
            if self.progress.over:
                self.changed.set()
                return

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.changed.wait(), seconds)
        except TimeoutError:
            return

    async def _type(self) -> None:
        can, now = self.outlet.channel.can, self.clock.monotonic()
        recent = self.typed_at is not None and now - self.typed_at < can.typing_every_s
        if recent or not can.typing or not self.outlet.up.is_set():
            return
        self.typed_at = now
        status = ", ".join(dict.fromkeys(self.progress.running.values()))
        try:
            await asyncio.wait_for(self.outlet.channel.typing(self.address, status), LAST_CALL_S)
        except (ChannelError, TimeoutError) as error:
            log.debug("%s: no sign of typing: %s", self.outlet.name, error)
            self.typed_at = now + (error.after_s if isinstance(error, Later) else 0.0)

    async def _draft(self) -> None:
        can, now = self.outlet.channel.can, self.clock.monotonic()
        if self.mute or not can.drafts or now - self.began < DRAFT_AFTER_S or now - self.shown_at < can.draft_every_s:
            return
        text = self.progress.shown(now - self.busy_since)
        stands = text == self.shown and not (self.noted == GONE and now - self.shown_at >= FADES_S)
        if not text or stands or self.progress.over or not self.outlet.up.is_set():
            return
        if not self.outlet.pacing.spare(self.address):
            return
        self.shown_at, self.shown, self.showing = now, text, True
        try:
            await self._show(text)
        except (ChannelError, TimeoutError, StoreUnavailable) as error:
            log.debug("%s: a draft was not shown: %s", self.outlet.name, error)
            self.outlet.pacing.heed(self.address, error, spare=True)
            unclear = isinstance(error, Unclear | TimeoutError)
            self.mute = not self.message if unclear else not isinstance(error, Later | StoreUnavailable)
        finally:
            self.showing = False

    async def _show(self, text: str) -> None:
        """Noted before it is made; the note holds its id as soon as that is known."""
        if self.noted is None:
            known = await self._left()
            if known == "":
                self.mute = True  # a crash came before its id was known: the reply finds out what became of it
                return
            await self._note(self.message)
        draft = self.outlet.channel.draft(self.address, draft_key(self.turn), text, self.message, private=self.private)
        self.message = await asyncio.wait_for(draft, LAST_CALL_S)
        await self._note(self.message or GONE)

    async def _left(self) -> str | None:
        """What the journal has of a draft that a former daemon showed, and whether nobody else reads the chat."""
        known, begun = await self.store.read(lambda tx: (tx.kept(DRAFT, self.turn), tx.input_of(self.turn)))
        self.private, self.message = begun is not None and not begun.message_id, (known or "").removeprefix(GONE)
        return known

    async def _note(self, shown: str) -> None:
        if self.noted != shown:
            await self.store.write(lambda tx: tx.keep(DRAFT, self.turn, shown))
            self.noted = shown

    async def _tidy(self) -> None:
        """No reply will take the draft's place, not now at least: it goes. What does not go is left for the reply."""
        if not self.progress.unanswered:
            return
        try:
            if not (self.noted or (self.noted is None and await self._left())):
                return
            if self.message:
                await asyncio.wait_for(self.outlet.channel.delete(self.address, self.message), LAST_CALL_S)
            await self.store.write(lambda tx: tx.drop(DRAFT, self.turn))
        except (ChannelError, TimeoutError, StoreUnavailable) as error:
            log.debug("%s: a draft stays: %s", self.outlet.name, error)
