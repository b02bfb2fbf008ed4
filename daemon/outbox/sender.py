"""Sends one delivery: from its row in the outbox to the platform's answer.

Each message of it goes through: sending (on disk) -> the platform -> its id (on disk). What a crash
or a lost answer leaves unsure is looked for at the platform, or sent again under the same key
(promise 4; K12 to K14).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ValidationError

from channels.base import Channel, ChannelError, DeliveryUnknown, Rejected, RetryLater, Revoked
from channels.message import MessagePart, OutboundMessage
from daemon.access.chat_ids import NOTICE
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.rows import UNSENT_STATES, OutboxRow
from daemon.outbox.approval_messages import ApprovalMessages
from daemon.outbox.channel_supervisor import ChannelState
from daemon.outbox.live_drafts import LiveDrafts
from daemon.outbox.message import APPROVAL, FILE, REPLY, Delivery, draft_key, message_key
from daemon.outbox.render import build_message
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
BLIND_PAUSES = (0.5, 2.0, 8.0, 32.0, 128.0)
"""Between tries that a platform did not answer, where nobody can look whether they arrived: each
may send a duplicate.
"""
NEW, SENDING, SENT, UNCERTAIN, FAILED = "new", "sending", "sent", "uncertain", "failed"
KINDS = {REPLY: "a reply", APPROVAL: "a question", FILE: "a file", "notice": "a notice"}
DOWN_PAUSE = 120.0
GIVE_UP_S = 86_400.0
DAY = "the platform did not take it for a day"
LOST = "the platform has answered none of {tries} tries; it may have arrived"


class AttachmentFile(BaseModel):
    """The copy of a file as it was when it was handed over, its name, and the text beside it."""

    path: Path
    name: str
    caption: str = ""

    @classmethod
    def load(cls, body: str, root: Path) -> "AttachmentFile":
        """From the body of a delivery. Raises Rejected where the copy is gone, or was never under
        `root`.
        """
        try:
            file = cls.model_validate_json(body)
        except ValidationError as error:
            raise Rejected("the delivery does not say which file") from error
        if not file.path.is_relative_to(root) or not file.path.is_file():
            raise Rejected(f"the copy of {file.name} is gone")
        return file


async def delete_stale_copies(store: Store, root: Path) -> None:
    """Delete copies that no delivery waits for, left by a daemon that crashed."""
    rows = await store.read(
        lambda tx: [r for state in UNSENT_STATES for r in tx.list_outbox(state)]
    )
    kept = set()
    for row in rows:
        with suppress(ValidationError):
            if row.kind == FILE:
                kept.add(AttachmentFile.model_validate_json(row.body).path)

    def delete() -> None:
        for copy in root.glob("*"):
            if copy not in kept:
                copy.unlink(missing_ok=True)

    await asyncio.to_thread(delete)


@dataclass(slots=True)
class DeliveryState:
    """`ids` are those of the messages that were sent, `unsure` says that the next one may have
    been sent, too; `lost` counts the answers to it that were lost. `written` is what the
    journal has.
    """

    message: Delivery
    pieces: Sequence[MessagePart]
    file: AttachmentFile | None
    ids: list[str]
    unsure: bool
    written: tuple[str, int] = ("", -1)
    pause: float = FIRST_PAUSE
    lost: int = 0


@dataclass(slots=True)
class OutboxSender:
    """Takes deliveries to their end: sent, or failed for good, and then the owner is told
    elsewhere, in the same step.

    `tell(tx, text, not_on)` posts a notice to the owner; `is_up` says whether a channel works.
    """

    store: Store
    clock: Clock
    drafts: LiveDrafts
    approvals: ApprovalMessages
    is_up: Callable[[str], bool]
    tell: Callable[[Tx, str, str], bool]
    files: Path
    give_up_s: float = GIVE_UP_S

    async def deliver(self, channel: ChannelState, row: OutboxRow, since: float) -> None:
        """Until it is sent or has failed; it waits `since` (monotonic). Cancelled in between, it
        goes on at the next start.

        Raises StoreUnavailable: then it is to be tried again.
        """
        if row.kind == REPLY:
            await self.drafts.finish(row.turn)
        try:
            state = await self._load(channel, row)
            while len(state.ids) < len(state.pieces):
                try:
                    await self._send_next(channel, state)
                except Rejected:
                    raise
                except ChannelError as error:
                    if self.clock.monotonic() - since > self.give_up_s:
                        raise Rejected(f"{DAY}: {error}") from error
                    await self._pause(channel, state, error)
                    if row.kind == APPROVAL and not (state.ids or state.unsure):
                        again = await self._load(
                            channel, state.message.row
                        )  # it may be settled now
                        state.message, state.pieces = again.message, again.pieces
            if state.message.row.state not in (SENT, FAILED) and state.written[0] != SENT:
                await self._mark(state, SENT)
        except Rejected as error:
            await self.mark_failed(channel, row, str(error))
            return
        await self._delete_copy(row)
        if state.message.choices:
            self.approvals.add_turn(row.turn)
        else:
            self.approvals.on_delivery(row.turn)

    async def _load(self, channel: ChannelState, row: OutboxRow) -> DeliveryState:
        """As the journal has it now. Raises Rejected for a file that is gone."""
        platform, buttons = channel.channel, channel.channel.capabilities.buttons
        message = await self.store.read(
            lambda tx: build_message(tx, channel.name, row, buttons=buttons, is_up=self.is_up)
        )
        now, file = message.row, None
        pieces: Sequence[MessagePart] = []
        if now.state not in (SENT, FAILED):
            text = message.markdown
            if now.kind == FILE:
                file = AttachmentFile.load(now.body, self.files)
                text = file.caption or file.name
            pieces = platform.render(text)
        ids = now.platform_message_id.split()
        return DeliveryState(message, pieces, file, ids, now.state in (SENDING, UNCERTAIN))

    async def _send_next(self, channel: ChannelState, state: DeliveryState) -> None:
        """One message more. What was in doubt is no longer, once the platform has said yes or a
        plain no.
        """
        message, index = state.message, len(state.ids)
        row, address, piece = message.row, message.address, state.pieces[index]
        key = message_key(row.turn, row.part, index)
        sent = ""
        if state.unsure:
            asked = OutboundMessage(address, piece, key)
            found = await channel.channel.find(asked, message.since)
            if found and found not in state.ids:
                known = await self.store.read(
                    lambda tx: tx.find_delivery(row.channel, row.chat, found)
                )
                if known is None or (known.turn, known.part) == (row.turn, row.part):
                    sent = found  # a message that is known as another one is not this one
        if not sent:
            await channel.rate_limit.acquire(address)
            await self._mark(state, SENDING)
            sent = await _send(channel.channel, state, piece, key)
        state.ids.append("".join(sent.split()) or "-")
        state.unsure, state.pause, state.lost = False, FIRST_PAUSE, 0
        await self._mark(state, SENT if len(state.ids) == len(state.pieces) else SENDING)

    async def _pause(
        self, channel: ChannelState, state: DeliveryState, error: ChannelError
    ) -> None:
        """Wait as long as the platform wants, or until it is back; what is unsure stays so until
        it is known.

        Raises Rejected where one try more could only make it worse.
        """
        can, wait = channel.channel.capabilities, state.pause
        asked = error.after_s if isinstance(error, RetryLater) else 0.0
        state.pause = min(wait * 2, LONGEST_PAUSE)
        wait = asked or wait
        if isinstance(error, DeliveryUnknown):
            state.unsure = True
            findable = can.can_find and not (state.file and not state.ids)
            if not (can.idempotent or findable):
                state.lost += 1
                if state.lost > len(BLIND_PAUSES):
                    raise Rejected(f"{LOST.format(tries=state.lost)}: {error}") from error
                wait = BLIND_PAUSES[state.lost - 1]
        row = state.message.row
        channel.rate_limit.on_error(state.message.address, error)
        if isinstance(error, Revoked):
            channel.mark_failing(str(error), refused=True)
        log.info("%s: a message to %s waits %.1f s: %s", channel.name, row.session, wait, error)
        await self._mark(state, UNCERTAIN if state.unsure else NEW, str(error))
        if channel.up.is_set() or asked:
            await asyncio.sleep(wait)
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(channel.up.wait(), DOWN_PAUSE)

    async def mark_failed(self, channel: ChannelState, row: OutboxRow, why: str) -> None:
        """It has failed for good. A failed notice causes no other notice."""
        log.warning("%s: %s to %s cannot be sent: %s", channel.name, row.kind, row.session, why)
        kind = KINDS.get(row.kind, "a message")
        text = f"I could not deliver {kind} to {row.session} on {channel.name}: {why}."
        kept = f"Its text is kept: aidaemon show {row.turn}"
        text = f"{text} {'The file itself is where it was.' if row.kind == FILE else kept}"

        def work(tx: Tx) -> None:
            tx.mark_delivery(row.turn, row.part, FAILED, error=why)
            if row.kind == REPLY:
                tx.remove_draft(row.turn)
            if not row.turn.startswith(NOTICE):
                self.tell(tx, text, channel.name)

        await self._write(work)
        await self._delete_copy(row)

    async def _delete_copy(self, row: OutboxRow) -> None:
        """Delete the copy of a file; if that fails, the next start deletes it."""
        if row.kind == FILE:
            with suppress(OSError, Rejected):
                path = AttachmentFile.load(row.body, self.files).path
                await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _mark(self, state: DeliveryState, name: str, error: str = "") -> None:
        """On disk when it returns: nothing is sent before, and nothing is forgotten after, however
        long the disk is full.
        """
        written = (name, len(state.ids))
        if state.written == written:
            return
        message, ids = state.message, " ".join(state.ids)
        row = message.row
        copy = message.copy if name == SENDING and not state.written[0] else None

        def work(tx: Tx) -> None:
            tx.mark_delivery(row.turn, row.part, name, ids, error)
            if copy:
                tx.post_delivery(copy)
            if row.kind == REPLY and ids:
                tx.remove_draft(row.turn)
            if name == SENT and message.choices:
                tx.set_buttons(row.turn, row.part, shown=True)

        await self._write(work)
        state.written = written

    async def _write(self, work: Callable[[Tx], None]) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                return await self.store.write(work)
            except StoreUnavailable as error:
                log.error("the journal does not take the state of a delivery (%s); it waits", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)


async def _send(channel: Channel, state: DeliveryState, piece: MessagePart, key: str) -> str:
    """The first message brings the file, takes the draft's place and is the answer; the last has
    the buttons.
    """
    message, first = state.message, not state.ids
    if state.file and first:
        return await channel.send(
            OutboundMessage(message.address, piece, key, file=state.file.path, name=state.file.name)
        )
    choices = message.choices if len(state.ids) == len(state.pieces) - 1 else ()
    outbound = OutboundMessage(message.address, piece, key, choices)
    if first and message.draft is not None:
        shown = message.draft or await _find_draft(channel, message, piece)
        if shown and not message.draft_outdated:
            try:
                await channel.edit(shown, outbound)
                return shown
            except Rejected as error:
                log.info("%s: a draft cannot be replaced: %s", channel.name, error)
            except DeliveryUnknown as error:
                raise RetryLater(str(error)) from error  # an edit may be repeated: it sends nothing
        if shown:
            with suppress(ChannelError):
                await channel.delete(message.address, shown)
        state.message = replace(message, draft=None)
    return await channel.send(replace(outbound, reply_to=message.reply_to if first else ""))


async def _find_draft(channel: Channel, message: Delivery, piece: MessagePart) -> str:
    """A draft was begun, and its id is not known. Under the same key the platform gives the first
    one, or makes one.

    Where there are keys nothing is searched for: a platform that finds by words could find an equal
    answer of before.
    """
    key = draft_key(message.row.turn)
    if not channel.capabilities.idempotent:
        return await channel.find(OutboundMessage(message.address, piece, key), message.since)
    try:
        return await channel.show_draft(message.address, key, message.markdown, "")
    except Rejected:
        return ""
