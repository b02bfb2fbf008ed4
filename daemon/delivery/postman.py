"""One delivery, from its row in the outbox to the platform's yes: written down before, found out after, never left in between.

Each message of it goes through: sending (on disk) -> the platform -> its id (on disk). What a crash or a lost answer leaves
unsure is looked for at the platform, or sent again under the same key (DESIGN 5, promise 4; B5 #12 to #14).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from channels.base import ChannelError, Later, Refused, Revoked, Unclear
from channels.message import Piece
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import OutboxRow
from daemon.delivery.drafts import DRAFT, Drafts
from daemon.delivery.enclosed import Enclosed, enclosed
from daemon.delivery.letters import FILE, REPLY, Letter, draft_key, key_of
from daemon.delivery.outlet import Outlet
from daemon.delivery.writing import Writing
from daemon.store.protocol import Store, Tx

log = logging.getLogger(__name__)
NEW, SENDING, SENT, UNCERTAIN, FAILED = "new", "sending", "sent", "uncertain", "failed"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
GIVE_UP_S = 86_400.0
DAY = "the platform did not take it for a day"

Tell = Callable[[str, str], Awaitable[None]]


@dataclass(slots=True)
class Parcel:
    """A delivery on its way: what has gone, whether the next message of it may have gone too."""

    row: OutboxRow
    letter: Letter
    pieces: Sequence[Piece] = ()
    file: Enclosed | None = None
    ids: list[str] = field(default_factory=list)
    unsure: bool = False
    written: tuple[str, int] = ("", -1)
    pause: float = FIRST_PAUSE

    @property
    def key(self) -> str:
        """Of the next message."""
        return key_of(self.row.turn, self.row.part, len(self.ids))

    @property
    def last(self) -> bool:
        """The next message is the last one."""
        return len(self.ids) == len(self.pieces) - 1


@dataclass(frozen=True, slots=True)
class Postman:
    """Takes deliveries to their end: sent, or failed for good, and then the owner is told elsewhere. `tell(text, not_on)`."""

    store: Store
    clock: Clock
    drafts: Drafts
    writing: Writing
    tell: Tell
    files: Path
    give_up_s: float = field(default=GIVE_UP_S)

    async def deliver(self, outlet: Outlet, row: OutboxRow) -> None:
        """Until it is sent or has failed. Cancelled in between, it goes on at the next start."""
        if row.kind == REPLY:
            await self.drafts.finish(row.turn)
        parcel = Parcel(row, await self.writing.letter(outlet.name, row, buttons=outlet.channel.can.buttons))
        try:
            self._enclose(outlet, parcel)
            await self._through(outlet, parcel)
        except Refused as error:
            await self._failed(outlet, parcel, str(error))

    async def _through(self, outlet: Outlet, parcel: Parcel) -> None:
        began = self.clock.monotonic()
        while len(parcel.ids) < len(parcel.pieces):
            try:
                await self._next(outlet, parcel)
            except Refused:
                raise
            except ChannelError as error:
                if self.clock.monotonic() - began > self.give_up_s:
                    raise Refused(f"{DAY}: {error}") from error
                await self._pause(outlet, parcel, error)

    def _enclose(self, outlet: Outlet, parcel: Parcel) -> None:
        row = parcel.row
        parcel.ids, parcel.unsure = row.platform_message_id.split(), row.state in (SENDING, UNCERTAIN)
        parcel.file = enclosed(row.body, self.files) if row.kind == FILE else None
        pieces = outlet.channel.render(parcel.file.caption if parcel.file else parcel.letter.markdown)
        parcel.pieces = pieces[:1] if parcel.file else pieces

    async def _next(self, outlet: Outlet, parcel: Parcel) -> None:
        """One message more. What was in doubt is no longer, once the platform has said yes or a plain no."""
        sent = await self._found(outlet, parcel) if parcel.unsure else ""
        if not sent:
            await outlet.pacing.turn(parcel.letter.address)
            await self._mark(parcel, SENDING)
            sent = await self._send(outlet, parcel)
        parcel.unsure, parcel.pause = False, FIRST_PAUSE
        parcel.ids.append(sent)
        await self._mark(parcel, SENDING if len(parcel.ids) < len(parcel.pieces) else SENT)

    async def _found(self, outlet: Outlet, parcel: Parcel) -> str:
        piece = parcel.pieces[len(parcel.ids)]
        return await outlet.channel.find(parcel.letter.address, parcel.key, piece, parcel.letter.since)

    async def _send(self, outlet: Outlet, parcel: Parcel) -> str:
        channel, letter, index = outlet.channel, parcel.letter, len(parcel.ids)
        piece = parcel.pieces[index]
        choices = letter.choices if parcel.last else ()
        if parcel.file:
            return await channel.upload(letter.address, parcel.file.path, parcel.file.name, piece, parcel.key)
        if index == 0 and parcel.row.kind == REPLY and (sent := await self._over_the_draft(outlet, parcel, piece)):
            return sent
        return await channel.send(
            letter.address, piece, parcel.key, choices=choices, reply_to="" if index else letter.reply_to
        )

    async def _over_the_draft(self, outlet: Outlet, parcel: Parcel, piece: Piece) -> str:
        """The reply takes the place of what was shown of it while it grew, before a crash perhaps; "" when nothing was (E12)."""
        turn, address = parcel.row.turn, parcel.letter.address
        shown = await self.store.read(lambda tx: tx.kept(DRAFT, turn))
        if shown is None:
            return ""
        if not shown:
            shown = await outlet.channel.find(address, draft_key(turn), piece, parcel.letter.since)
        try:
            if shown:
                await outlet.channel.edit(address, shown, piece, choices=parcel.letter.choices if parcel.last else ())
        except Refused as error:
            log.info("%s: a draft cannot be replaced (%s); the reply is sent by itself", outlet.name, error)
            return ""
        return shown

    async def _pause(self, outlet: Outlet, parcel: Parcel, error: ChannelError) -> None:
        """Wait as long as the platform wants, or until it is back; what is unsure stays so until it is known."""
        parcel.unsure = parcel.unsure or isinstance(error, Unclear)
        wait = parcel.pause
        if isinstance(error, Later) and error.after_s:
            outlet.pacing.complained(parcel.letter.address, error.after_s)
            wait = error.after_s
        if isinstance(error, Revoked):
            outlet.ailing(str(error), refused=True)
        log.info("%s: a message to %s waits %.1f s: %s", outlet.name, parcel.row.session, wait, error)
        await self._mark(parcel, UNCERTAIN if parcel.unsure else NEW)
        parcel.pause = min(parcel.pause * 2, LONGEST_PAUSE)
        if outlet.up.is_set() or (isinstance(error, Later) and error.after_s):
            await asyncio.sleep(wait)
            return
        try:
            await asyncio.wait_for(outlet.up.wait(), LONGEST_PAUSE)
        except TimeoutError:
            return

    async def _failed(self, outlet: Outlet, parcel: Parcel, why: str) -> None:
        row = parcel.row
        log.warning("%s: a %s to %s cannot be delivered: %s", outlet.name, row.kind, row.session, why)
        await self._mark(parcel, FAILED, why)
        where = f"{row.session} on {outlet.name}"
        await self.tell(
            f"I could not deliver a {row.kind} to {where}: {why}. Its text is kept: aidaemon show {row.turn}", outlet.name
        )

    async def _mark(self, parcel: Parcel, state: str, error: str = "") -> None:
        """On disk when it returns: nothing is sent before, and nothing is forgotten after, however long the disk is full."""
        if parcel.written == (state, len(parcel.ids)):
            return
        row, ids = parcel.row, " ".join(parcel.ids)
        copy = parcel.letter.copy if state == SENDING and not parcel.written[0] else None
        over = row.kind == REPLY and bool(parcel.ids or state == FAILED)

        def work(tx: Tx) -> None:
            tx.mark_outbox(row.turn, row.part, state, ids, error)
            if copy:
                tx.post(copy)
            if over:
                tx.drop(DRAFT, row.turn)

        pause = FIRST_PAUSE
        while True:
            try:
                await self.store.write(work)
            except StoreUnavailable as trouble:
                log.error("a delivery cannot be written down (%s); it waits", trouble)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                break
        parcel.written = (state, len(parcel.ids))
        parcel.row = replace(row, state=state)
