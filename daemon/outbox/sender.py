"""A file on its way to a conversation: what the outbox says of it.

A delivery on its way: what has gone, what is next, and what is not known of it.

A reply takes the place of what was shown of it while it grew, before a crash perhaps (E12; K4).

One delivery, from its row in the outbox to the platform's yes: written down before, found out after, never left in between.

Each message of it goes through: sending (on disk) -> the platform -> its id (on disk). What a crash or a lost answer leaves
unsure is looked for at the platform, or sent again under the same key (DESIGN 5, promise 4; K12 to #14).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ValidationError

from channels.base import Channel, ChannelError, DeliveryUnknown, Rejected, RetryLater, Revoked
from channels.message import Choice, MessagePart
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.journal import Store, Tx
from daemon.core.rows import UNSENT_STATES, OutboxRow
from daemon.outbox.approval_messages import ApprovalMessages
from daemon.outbox.channel_supervisor import ChannelState
from daemon.outbox.live_drafts import LiveDrafts
from daemon.outbox.message import (
    APPROVAL,
    FILE,
    NOTICE,
    REPLY,
    OutboundMessage,
    draft_key,
    message_key,
)
from daemon.outbox.render import MessageRenderer


@value
class AttachmentFile:
    """The file as it was when it was handed over, the name it is to have, and what is said with it."""

    path: Path
    name: str
    caption: str


class _Body(BaseModel):
    path: str
    name: str
    caption: str = ""


async def delete_stale_copies(store: Store, root: Path) -> None:
    """Take away copies that no delivery waits for any more, those of a daemon that died before it could say so."""
    waiting = await store.read(
        lambda tx: [
            row.body for state in UNSENT_STATES for row in tx.list_outbox(state) if row.kind == FILE
        ]
    )
    await asyncio.to_thread(_delete_files, root, frozenset(_path(body) for body in waiting))


async def delete_copy(body: str, root: Path) -> None:
    """The copy is needed no more. One that cannot be taken away now is when the next daemon starts."""
    path = Path(_path(body))
    if path.is_relative_to(root):
        with suppress(OSError):
            await asyncio.to_thread(path.unlink, missing_ok=True)


def _delete_files(root: Path, kept: frozenset[str]) -> None:
    for copy in root.glob("*"):
        if str(copy) not in kept:
            copy.unlink(missing_ok=True)


def _path(body: str) -> str:
    try:
        return _Body.model_validate_json(body).path
    except ValidationError:
        return ""


def load_attachment(body: str, root: Path) -> AttachmentFile:
    """What a delivery of a file holds. Raises Refused where the copy is gone, or was never under `root`."""
    try:
        told = _Body.model_validate_json(body)
    except ValidationError as error:
        raise Rejected("the delivery does not say which file") from error
    path = Path(told.path)
    if not path.is_relative_to(root) or not path.is_file():
        raise Rejected(f"the copy of {told.name} is gone")
    return AttachmentFile(path, told.name, told.caption or told.name)


FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
BLIND_PAUSES = (0.5, 2.0, 8.0, 32.0, 128.0)
"""Between tries that a platform did not answer, where nobody can look whether they arrived: each may be one message too many."""


@dataclass(slots=True)
class DeliveryState:
    """`ids` are those of the messages that have gone, `unsure` says that the next one may have gone, too; `lost` counts the
    answers to it that were lost. `written` is what the journal has.
    """

    message: OutboundMessage
    pieces: Sequence[MessagePart]
    file: AttachmentFile | None
    ids: list[str]
    unsure: bool
    written: tuple[str, int] = ("", -1)
    pause: float = FIRST_PAUSE
    lost: int = 0

    @property
    def row(self) -> OutboxRow:
        """Where it stands in the outbox."""
        return self.message.row

    @property
    def key(self) -> str:
        """The name of the next message."""
        return message_key(self.row.turn, self.row.part, len(self.ids))

    @property
    def piece(self) -> MessagePart:
        """What the next message says."""
        return self.pieces[len(self.ids)]

    @property
    def choices(self) -> Sequence[Choice]:
        """The buttons stand under the last message."""
        return self.message.choices if len(self.ids) == len(self.pieces) - 1 else ()

    @property
    def reply_to(self) -> str:
        """The first message is the answer."""
        return "" if self.ids else self.message.reply_to

    @property
    def attachment(self) -> AttachmentFile | None:
        """The first message brings the file."""
        return None if self.ids else self.file

    @property
    def done(self) -> bool:
        """All has gone."""
        return len(self.ids) >= len(self.pieces)

    def mark_sent(self, message: str) -> None:
        """The platform has the next message, under this id."""
        self.ids.append("".join(message.split()) or "-")
        self.unsure, self.pause, self.lost = False, FIRST_PAUSE, 0

    def drop_draft(self) -> None:
        """Nothing is to be replaced any more."""
        self.message = replace(self.message, draft=None)


log = logging.getLogger(__name__)


async def replace_draft(channel: Channel, parcel: DeliveryState) -> str:
    """The id of the draft, which now shows the reply; "" where there is none that can. Raises Later, Unclear, Revoked."""
    shown = parcel.message.draft or await _find_draft(channel, parcel)
    if not shown:
        return ""
    if parcel.message.draft_outdated:
        await _delete_draft(channel, parcel, shown)
        return ""
    try:
        await channel.edit(parcel.message.address, shown, parcel.piece, choices=parcel.choices)
    except Rejected as error:
        log.info(
            "%s: a draft cannot be replaced (%s); the reply is sent by itself", channel.name, error
        )
        await _delete_draft(channel, parcel, shown)
        return ""
    except DeliveryUnknown as error:
        raise RetryLater(
            str(error)
        ) from error  # once more does no harm, however often: nothing is doubled by it
    return shown


async def _find_draft(channel: Channel, parcel: DeliveryState) -> str:
    """One was begun, and what became of it is not known. Under the same key the platform gives the first one, or makes one.

    Where there are keys nothing is looked for: a platform that finds by words would take an equal answer of before for it.
    """
    letter, key = parcel.message, draft_key(parcel.row.turn)
    if not channel.capabilities.idempotent:
        return await channel.find(letter.address, key, parcel.piece, letter.since)
    try:
        return await channel.show_draft(
            letter.address, key, letter.markdown, "", private=not letter.reply_to
        )
    except Rejected:
        return ""


async def _delete_draft(channel: Channel, parcel: DeliveryState, shown: str) -> None:
    try:
        await channel.delete(parcel.message.address, shown)
    except ChannelError as error:
        log.debug("%s: it stays where it is: %s", channel.name, error)


NEW, SENDING, SENT, UNCERTAIN, FAILED = "new", "sending", "sent", "uncertain", "failed"
OVER = (SENT, FAILED)
CALLED = {REPLY: "a reply", APPROVAL: "a question", FILE: "a file", "notice": "a notice"}
DOWN_PAUSE = 120.0
GIVE_UP_S = 86_400.0
DAY = "the platform did not take it for a day"
LOST = "the platform has answered none of {tries} tries; it may have arrived"

Tell = Callable[[Tx, str, str], bool]


@value
class OutboxSender:
    """Takes deliveries to their end: sent, or failed for good, and then the owner is told elsewhere, in the same step.

    `tell(tx, text, not_on)` posts a notice to the owner.
    """

    store: Store
    clock: Clock
    drafts: LiveDrafts
    approvals: ApprovalMessages
    renderer: MessageRenderer
    tell: Tell
    files: Path
    give_up_s: float = GIVE_UP_S

    async def deliver(self, outlet: ChannelState, row: OutboxRow, since: float) -> None:
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
        except Rejected as error:
            await self.mark_failed(outlet, row, str(error))
            return
        if row.kind == FILE:
            await delete_copy(row.body, self.files)
        if parcel.message.choices:
            self.approvals.add_turn(row.turn)
        else:
            self.approvals.on_delivery(row.turn)

    async def _packed(self, outlet: ChannelState, row: OutboxRow) -> DeliveryState:
        """As the journal has it now, whatever was known of it before. Raises Refused for a file that is gone."""
        letter = await self.renderer.render(
            outlet.name, row, buttons=outlet.channel.capabilities.buttons
        )
        now, over = letter.row, letter.row.state in OVER
        file = load_attachment(now.body, self.files) if now.kind == FILE and not over else None
        pieces = [] if over else outlet.channel.render(file.caption if file else letter.markdown)
        ids = now.platform_message_id.split()
        return DeliveryState(letter, pieces, file, ids, now.state in (SENDING, UNCERTAIN))

    async def _through(self, outlet: ChannelState, parcel: DeliveryState, since: float) -> None:
        while not parcel.done:
            try:
                await self._next(outlet, parcel)
            except Rejected:
                raise
            except ChannelError as error:
                if self.clock.monotonic() - since > self.give_up_s:
                    raise Rejected(f"{DAY}: {error}") from error
                await self._pause(outlet, parcel, error)
                await self._anew(outlet, parcel)

    async def _anew(self, outlet: ChannelState, parcel: DeliveryState) -> None:
        """A question that has waited is put as things stand now."""
        if parcel.row.kind == APPROVAL and not (parcel.ids or parcel.unsure):
            again = await self._packed(outlet, parcel.row)
            parcel.message, parcel.pieces = again.message, again.pieces

    async def _next(self, outlet: ChannelState, parcel: DeliveryState) -> None:
        """One message more. What was in doubt is no longer, once the platform has said yes or a plain no."""
        sent = await self._found(outlet, parcel) if parcel.unsure else ""
        if not sent:
            await outlet.rate_limit.acquire(parcel.message.address)
            await self._mark(parcel, SENDING)
            sent = await self._send(outlet, parcel)
        parcel.mark_sent(sent)
        await self._mark(parcel, SENT if parcel.done else SENDING)

    async def _found(self, outlet: ChannelState, parcel: DeliveryState) -> str:
        """What the platform has under this key, or says it has: a message that is known as another one is not this one."""
        found = await outlet.channel.find(
            parcel.message.address, parcel.key, parcel.piece, parcel.message.since
        )
        if not found or found in parcel.ids:
            return ""
        row = parcel.row
        known = await self.store.read(lambda tx: tx.find_delivery(row.channel, row.chat, found))
        return found if known is None or (known.turn, known.part) == (row.turn, row.part) else ""

    async def _send(self, outlet: ChannelState, parcel: DeliveryState) -> str:
        channel, address, file = outlet.channel, parcel.message.address, parcel.attachment
        if file:
            return await channel.upload(address, file.path, file.name, parcel.piece, parcel.key)
        if not parcel.ids and parcel.message.draft is not None:
            if sent := await replace_draft(channel, parcel):
                return sent
            parcel.drop_draft()
        return await channel.send(
            address, parcel.piece, parcel.key, choices=parcel.choices, reply_to=parcel.reply_to
        )

    async def _pause(
        self, outlet: ChannelState, parcel: DeliveryState, error: ChannelError
    ) -> None:
        """Wait as long as the platform wants, or until it is back; what is unsure stays so until it is known."""
        parcel.unsure = parcel.unsure or isinstance(error, DeliveryUnknown)
        wait = self._wait(outlet, parcel, error)
        outlet.rate_limit.on_error(parcel.message.address, error)
        if isinstance(error, Revoked):
            outlet.mark_failing(str(error), refused=True)
        log.info(
            "%s: a message to %s waits %.1f s: %s", outlet.name, parcel.row.session, wait, error
        )
        await self._mark(parcel, UNCERTAIN if parcel.unsure else NEW, str(error))
        if outlet.up.is_set() or (isinstance(error, RetryLater) and error.after_s):
            await asyncio.sleep(wait)
            return
        try:
            await asyncio.wait_for(outlet.up.wait(), DOWN_PAUSE)
        except TimeoutError:
            return

    @staticmethod
    def _wait(outlet: ChannelState, parcel: DeliveryState, error: ChannelError) -> float:
        """Seconds. Raises Refused where one try more could only make it worse."""
        can, pause = outlet.channel.capabilities, parcel.pause
        parcel.pause = min(pause * 2, LONGEST_PAUSE)
        if isinstance(error, DeliveryUnknown) and not (
            can.idempotent or (can.can_find and not parcel.attachment)
        ):
            parcel.lost += 1
            if parcel.lost > len(BLIND_PAUSES):
                raise Rejected(f"{LOST.format(tries=parcel.lost)}: {error}") from error
            return BLIND_PAUSES[parcel.lost - 1]
        return error.after_s if isinstance(error, RetryLater) and error.after_s else pause

    async def mark_failed(self, outlet: ChannelState, row: OutboxRow, why: str) -> None:
        """It has failed for good. The house's own notices are not told of in turn: that would have no end."""
        log.warning(
            "%s: a %s to %s cannot be delivered: %s", outlet.name, row.kind, row.session, why
        )
        told = f"I could not deliver {CALLED.get(row.kind, 'a message')} to {row.session} on {outlet.name}: {why}."
        told += (
            " The file itself is where it was."
            if row.kind == FILE
            else f" Its text is kept: aidaemon show {row.turn}"
        )

        def work(tx: Tx) -> None:
            tx.mark_delivery(row.turn, row.part, FAILED, error=why)
            if row.kind == REPLY:
                tx.remove_draft(row.turn)
            if not row.turn.startswith(NOTICE):
                self.tell(tx, told, outlet.name)

        await self._write(work)
        if row.kind == FILE:
            await delete_copy(row.body, self.files)

    async def _mark(self, parcel: DeliveryState, state: str, error: str = "") -> None:
        """On disk when it returns: nothing is sent before, and nothing is forgotten after, however long the disk is full."""
        if parcel.written == (state, len(parcel.ids)):
            return
        row, letter, ids = parcel.row, parcel.message, " ".join(parcel.ids)
        copy = letter.copy if state == SENDING and not parcel.written[0] else None
        over = row.kind == REPLY and bool(parcel.ids)

        def work(tx: Tx) -> None:
            tx.mark_delivery(row.turn, row.part, state, ids, error)
            if copy:
                tx.post_delivery(copy)
            if over:
                tx.remove_draft(row.turn)
            if state == SENT and letter.choices:
                tx.set_buttons(row.turn, row.part, shown=True)

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
