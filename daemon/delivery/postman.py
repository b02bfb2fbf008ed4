"""One delivery, from its row in the outbox to the platform's yes: written down before, found out after, never left in between.

Each message of it goes through: sending (on disk) -> the platform -> its id (on disk). What a crash or a lost answer leaves
unsure is looked for at the platform, or sent again under the same key (DESIGN 5, promise 4; B5 #12 to #14).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from channels.base import ChannelError, Later, Refused, Revoked, Unclear
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import OutboxRow
from daemon.delivery.closing import Closing, note_open
from daemon.delivery.drafts import Drafts
from daemon.delivery.enclosed import enclosed, let_go
from daemon.delivery.letters import APPROVAL, DRAFT, FILE, NOTICE, REPLY
from daemon.delivery.outlet import Outlet
from daemon.delivery.parcel import BLIND_PAUSES, FIRST_PAUSE, LONGEST_PAUSE, Parcel
from daemon.delivery.replacing import over_the_draft
from daemon.delivery.writing import Writing
from daemon.store.protocol import Store, Tx

log = logging.getLogger(__name__)
NEW, SENDING, SENT, UNCERTAIN, FAILED = "new", "sending", "sent", "uncertain", "failed"
OVER = (SENT, FAILED)
CALLED = {REPLY: "a reply", APPROVAL: "a question", FILE: "a file", "notice": "a notice"}
DOWN_PAUSE = 120.0
GIVE_UP_S = 86_400.0
DAY = "the platform did not take it for a day"
LOST = "the platform has answered none of {tries} tries; it may have arrived"

Tell = Callable[[Tx, str, str], bool]


@dataclass(frozen=True, slots=True)
class Postman:
    """Takes deliveries to their end: sent, or failed for good, and then the owner is told elsewhere, in the same step.

    `tell(tx, text, not_on)` posts a notice to the owner.
    """

    store: Store
    clock: Clock
    drafts: Drafts
    closing: Closing
    writing: Writing
    tell: Tell
    files: Path
    give_up_s: float = GIVE_UP_S

    async def deliver(self, outlet: Outlet, row: OutboxRow, since: float) -> None:
        """Until it is sent or has failed; it waits `since` (monotonic). Cancelled in between, it goes on at the next start.

        Raises StoreUnavailable: then it is to be tried again.
        """
        if row.kind == REPLY:
            await self.drafts.finish(row.turn)
        try:
            parcel = await self._packed(outlet, row)
            await self._through(outlet, parcel, since)
            if parcel.row.state not in OVER and parcel.written[0] != SENT:
                await self._mark(parcel, SENT)
        except Refused as error:
            await self.failed(outlet, row, str(error))
            return
        if row.kind == FILE:
            await let_go(row.body, self.files)
        if parcel.letter.choices:
            self.closing.look(row.turn)
        else:
            self.closing.told(row.turn)

    async def _packed(self, outlet: Outlet, row: OutboxRow) -> Parcel:
        """As the journal has it now, whatever was known of it before. Raises Refused for a file that is gone."""
        letter = await self.writing.letter(outlet.name, row, buttons=outlet.channel.can.buttons)
        now, over = letter.row, letter.row.state in OVER
        file = enclosed(now.body, self.files) if now.kind == FILE and not over else None
        pieces = [] if over else outlet.channel.render(file.caption if file else letter.markdown)
        ids = now.platform_message_id.split()
        return Parcel(letter, pieces, file, ids, now.state in (SENDING, UNCERTAIN))

    async def _through(self, outlet: Outlet, parcel: Parcel, since: float) -> None:
        while not parcel.done:
            try:
                await self._next(outlet, parcel)
            except Refused:
                raise
            except ChannelError as error:
                if self.clock.monotonic() - since > self.give_up_s:
                    raise Refused(f"{DAY}: {error}") from error
                await self._pause(outlet, parcel, error)
                await self._anew(outlet, parcel)

    async def _anew(self, outlet: Outlet, parcel: Parcel) -> None:
        """A question that has waited is put as things stand now."""
        if parcel.row.kind == APPROVAL and not (parcel.ids or parcel.unsure):
            again = await self._packed(outlet, parcel.row)
            parcel.letter, parcel.pieces = again.letter, again.pieces

    async def _next(self, outlet: Outlet, parcel: Parcel) -> None:
        """One message more. What was in doubt is no longer, once the platform has said yes or a plain no."""
        sent = await self._found(outlet, parcel) if parcel.unsure else ""
        if not sent:
            await outlet.pacing.turn(parcel.letter.address)
            await self._mark(parcel, SENDING)
            sent = await self._send(outlet, parcel)
        parcel.went(sent)
        await self._mark(parcel, SENT if parcel.done else SENDING)

    async def _found(self, outlet: Outlet, parcel: Parcel) -> str:
        """What the platform has under this key, or says it has: a message that is known as another one is not this one."""
        found = await outlet.channel.find(parcel.letter.address, parcel.key, parcel.piece, parcel.letter.since)
        if not found or found in parcel.ids:
            return ""
        row = parcel.row
        known = await self.store.read(lambda tx: tx.delivered_as(row.channel, row.chat, found))
        return found if known is None or (known.turn, known.part) == (row.turn, row.part) else ""

    async def _send(self, outlet: Outlet, parcel: Parcel) -> str:
        channel, address, file = outlet.channel, parcel.letter.address, parcel.enclosed
        if file:
            return await channel.upload(address, file.path, file.name, parcel.piece, parcel.key)
        if not parcel.ids and parcel.letter.draft is not None:
            if sent := await over_the_draft(channel, parcel):
                return sent
            parcel.no_draft()
        return await channel.send(address, parcel.piece, parcel.key, choices=parcel.choices, reply_to=parcel.reply_to)

    async def _pause(self, outlet: Outlet, parcel: Parcel, error: ChannelError) -> None:
        """Wait as long as the platform wants, or until it is back; what is unsure stays so until it is known."""
        parcel.unsure = parcel.unsure or isinstance(error, Unclear)
        wait = self._wait(outlet, parcel, error)
        outlet.pacing.heed(parcel.letter.address, error)
        if isinstance(error, Revoked):
            outlet.ailing(str(error), refused=True)
        log.info("%s: a message to %s waits %.1f s: %s", outlet.name, parcel.row.session, wait, error)
        await self._mark(parcel, UNCERTAIN if parcel.unsure else NEW, str(error))
        if outlet.up.is_set() or (isinstance(error, Later) and error.after_s):
            await asyncio.sleep(wait)
            return
        try:
            await asyncio.wait_for(outlet.up.wait(), DOWN_PAUSE)
        except TimeoutError:
            return

    @staticmethod
    def _wait(outlet: Outlet, parcel: Parcel, error: ChannelError) -> float:
        """Seconds. Raises Refused where one try more could only make it worse."""
        can, pause = outlet.channel.can, parcel.pause
        parcel.pause = min(pause * 2, LONGEST_PAUSE)
        if isinstance(error, Unclear) and not (can.keyed or (can.finds and not parcel.enclosed)):
            parcel.lost += 1
            if parcel.lost > len(BLIND_PAUSES):
                raise Refused(f"{LOST.format(tries=parcel.lost)}: {error}") from error
            return BLIND_PAUSES[parcel.lost - 1]
        return error.after_s if isinstance(error, Later) and error.after_s else pause

    async def failed(self, outlet: Outlet, row: OutboxRow, why: str) -> None:
        """It has failed for good. The house's own notices are not told of in turn: that would have no end."""
        log.warning("%s: a %s to %s cannot be delivered: %s", outlet.name, row.kind, row.session, why)
        told = f"I could not deliver {CALLED.get(row.kind, 'a message')} to {row.session} on {outlet.name}: {why}."
        told += " The file itself is where it was." if row.kind == FILE else f" Its text is kept: aidaemon show {row.turn}"

        def work(tx: Tx) -> None:
            tx.mark_outbox(row.turn, row.part, FAILED, error=why)
            if row.kind == REPLY:
                tx.drop(DRAFT, row.turn)
            if not row.turn.startswith(NOTICE):
                self.tell(tx, told, outlet.name)

        await self._write(work)
        if row.kind == FILE:
            await let_go(row.body, self.files)

    async def _mark(self, parcel: Parcel, state: str, error: str = "") -> None:
        """On disk when it returns: nothing is sent before, and nothing is forgotten after, however long the disk is full."""
        if parcel.written == (state, len(parcel.ids)):
            return
        row, letter, ids = parcel.row, parcel.letter, " ".join(parcel.ids)
        copy = letter.copy if state == SENDING and not parcel.written[0] else None
        over = row.kind == REPLY and bool(parcel.ids)

        def work(tx: Tx) -> None:
            tx.mark_outbox(row.turn, row.part, state, ids, error)
            if copy:
                tx.post(copy)
            if over:
                tx.drop(DRAFT, row.turn)
            if state == SENT and letter.choices:
                note_open(tx, row)

        await self._write(work)
        parcel.written = (state, len(parcel.ids))

    async def _write(self, work: Callable[[Tx], None]) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                return await self.store.write(work)
            except StoreUnavailable as trouble:
                log.error("a delivery cannot be written down (%s); it waits", trouble)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
