"""Sends the outbox: one worker per conversation, in order (F1, guarantees.md).

Each message of a delivery goes through: sending (on disk) -> the platform -> its id (on disk). What
a crash or a lost answer leaves unsure is looked for at the platform, or sent again under the same
key (promise 4; K12 to K14).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from channels.base import (
    Channel,
    ChannelError,
    DeliveryUnknown,
    Moved,
    Rejected,
    RetryLater,
    Revoked,
)
from channels.message import Address, OutboundMessage
from daemon.access.chat_ids import NOTICE, parse_address
from daemon.core.clock import BackgroundTasks, Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.messages import MAIL, describe_message
from daemon.core.rows import OutboxRow
from daemon.outbox.channel_supervisor import ChannelState
from daemon.outbox.held import (
    HeldMessages,
    NotifyConfig,
    hold_answer,
    hold_back,
    is_held_answer,
)
from daemon.outbox.live_messages import ApprovalMessages, LiveDrafts
from daemon.outbox.message import (
    APPROVAL,
    FILE,
    FIRST_PAUSE,
    REPLY,
    AttachmentFile,
    Delivery,
    load_delivery,
    message_key,
)
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
LONGEST_PAUSE = 15.0
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
PAUSE_S = 1.0
TRIES = 3


@dataclass
class OutboxSender:
    """Takes deliveries to their end: sent, or failed for good, and then the owner is told
    elsewhere, in the same step. What is not sent when it is closed stands in the outbox still.

    `tell(tx, text, row)` tells the owner elsewhere of a row that failed; `files` has the copies of
    files; `_known` holds what is queued; what is `_done` leaves it only after a look at the outbox
    that began later, for an earlier one may still show it as unsent.
    """

    store: Store
    clock: Clock
    channels: Mapping[str, ChannelState]
    drafts: LiveDrafts
    approvals: ApprovalMessages
    tell: Callable[[Tx, str, OutboxRow], None]
    files: Path
    held: HeldMessages
    give_up_s: float = GIVE_UP_S
    _queues: dict[Address, deque[tuple[OutboxRow, float]]] = field(default_factory=dict)
    _workers: dict[Address, asyncio.Task[None]] = field(default_factory=dict)
    _known: set[tuple[str, int]] = field(default_factory=set)
    _done: set[tuple[str, int]] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    async def run(self) -> None:
        """Until cancelled: first what a former daemon left, then whatever comes."""
        unwatch = self.store.watch_outbox(self._wake.set)
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                try:
                    await self._collect()
                except StoreUnavailable as error:
                    log.error("the outbox cannot be read (%s); it is looked at again", error)
                    await asyncio.sleep(PAUSE_S)
                    self._wake.set()
        finally:
            unwatch()
            await self._tasks.aclose()

    async def drain(self, seconds: float) -> None:
        """Wait, so long at most, until nothing is on its way on the channels that work."""
        try:
            async with asyncio.timeout(seconds):
                await self._collect()
        except (StoreUnavailable, TimeoutError) as error:
            why = str(error) or f"not within {seconds:g} s"
            log.error("the outbox cannot be read (%s); the next start sends what is left", why)
        running = self._workers.items()
        if workers := [task for one, task in running if self.channels[one.channel].up.is_set()]:
            await asyncio.wait(workers, timeout=seconds)

    async def _collect(self) -> None:
        """New rows go to the end of their conversation's queue; those that are queued already stay
        where they are.
        """
        done, self._done = self._done, set()
        config, now = self.held.get_notify(), self.clock.now()
        if await self.held.release(config, now):
            self.held.is_held.set()
        rows = await self.store.read(
            lambda tx: [row for name in self.channels for row in tx.list_unsent(name)]
        )
        self._known -= done
        for row in await self._hold_back(rows, config, now):
            if (row.turn, row.part) in self._known:
                continue
            self._known.add((row.turn, row.part))
            address = parse_address(row.channel, row.chat)
            self._queues.setdefault(address, deque()).append((row, self.clock.monotonic()))
            if address not in self._workers:
                work = self._work(self.channels[row.channel], address)
                self._workers[address] = self._tasks.start(work, f"delivery {address}")

    async def _hold_back(
        self, rows: Sequence[OutboxRow], config: NotifyConfig, now: datetime
    ) -> list[OutboxRow]:
        """Those that do not wait: for the end of quiet hours, the digest, or /undo. None of them
        overtakes one that waited: what was due by `now` has been let go.
        """
        fresh = [row for row in rows if (row.turn, row.part) not in self._known]
        is_quiet = config.find_due(now) is not None
        fresh = [row for row in fresh if is_quiet or is_held_answer(row)]
        if not fresh:
            return list(rows)
        hold_s = self.held.get_hold_s()
        held = await self.store.write(
            lambda tx: {
                (row.turn, row.part)
                for row in fresh
                if hold_back(tx, row, config, now) or hold_answer(tx, row, hold_s, now)
            }
        )
        return [row for row in rows if (row.turn, row.part) not in held]

    async def _work(self, channel: ChannelState, address: Address) -> None:
        """After an error a delivery is tried again from what the journal has; after the third it
        has failed.
        """
        queue, tries = self._queues[address], 0
        try:
            while queue:
                row, since = queue[0]
                try:
                    await self._deliver(channel, row, since)
                except StoreUnavailable as error:
                    log.error("a delivery to %s waits: %s", row.session, error)
                    await asyncio.sleep(PAUSE_S)
                    continue
                except Exception as error:  # what breaks one must not hold up those behind it
                    log.exception("a delivery to %s broke off", row.session)
                    tries += 1
                    if tries < TRIES:
                        await asyncio.sleep(PAUSE_S)
                        continue
                    await self._fail(channel, row, f"it broke off: {type(error).__name__}")
                tries = 0
                queue.popleft()
                self._done.add((row.turn, row.part))
        finally:
            if queue:  # what broke off is found again at the next look
                self._done |= {(row.turn, row.part) for row, _ in queue}
                self._wake.set()
            del self._workers[address], self._queues[address]

    async def _deliver(self, channel: ChannelState, row: OutboxRow, since: float) -> None:
        """Until it is sent or has failed; it waits `since` (monotonic). Cancelled in between, it
        goes on at the next start.

        Raises StoreUnavailable: then it is to be tried again.
        """
        if row.kind == REPLY:
            await self.drafts.finish(row.turn)
        try:
            delivery = await self._load(channel, row)
            while len(delivery.ids) < len(delivery.parts):
                try:
                    await self._send_next(channel, delivery)
                except Moved as moved:
                    delivery = await self._follow(channel, delivery, moved)
                except Rejected:
                    raise
                except ChannelError as error:
                    if self.clock.monotonic() - since > self.give_up_s:
                        raise Rejected(f"{DAY}: {error}") from error
                    await self._pause(channel, delivery, error)
                    if row.kind == APPROVAL and not (delivery.ids or delivery.unsure):
                        again = await self._load(channel, row)  # it may be settled now
                        again.pause, again.written = delivery.pause, delivery.written
                        delivery = again
            await self._mark(delivery, SENT)
        except Rejected as error:
            await self._fail(channel, row, str(error))
            return
        if row.kind == FILE:
            await self._delete_copy(row)
        if delivery.choices or row.turn in self.approvals.open_turns:
            self.approvals.add_turn(row.turn)

    async def _follow(self, channel: ChannelState, delivery: Delivery, moved: Moved) -> Delivery:
        """The rest of it, for the chat's new id, which is on disk before anything is sent there.
        Raises Rejected where that leads nowhere.
        """
        await channel.move_chat(self.store, delivery.address.chat, moved.chat)
        again = await self._load(channel, delivery.row)
        if again.address == delivery.address:
            raise Rejected(str(moved)) from moved
        again.written, again.unsure = delivery.written, False
        return again

    async def _load(self, channel: ChannelState, row: OutboxRow) -> Delivery:
        """As the journal has it now. Raises Rejected for a file that is gone."""
        delivery = await self.store.read(lambda tx: load_delivery(tx, row, self.channels))
        row, text = delivery.row, delivery.markdown
        delivery.ids = row.platform_message_id.split()
        if row.state in (SENT, FAILED):
            delivery.written = SENT, len(delivery.ids)
            return delivery
        delivery.unsure = row.state in (SENDING, UNCERTAIN)
        if row.kind == FILE:
            file = delivery.file = AttachmentFile.load(row.body, self.files)
            text = file.caption or file.name
        delivery.parts = channel.channel.render(text)
        return delivery

    async def _send_next(self, channel: ChannelState, delivery: Delivery) -> None:
        """One message more: the first brings the file, takes the draft's place and is the answer;
        the last has the buttons. What was in doubt is no longer, once the platform has said yes or
        a plain no.
        """
        row, index = delivery.row, len(delivery.ids)
        is_last, file = index + 1 == len(delivery.parts), None if index else delivery.file
        message = OutboundMessage(
            delivery.address,
            delivery.parts[index],
            message_key(row.turn, row.part, index),
            delivery.choices if is_last else (),
            "" if index else delivery.reply_to,
            file.path if file else None,
            file.name if file else "",
            row.created_at,
        )
        where, sent = (row.channel, row.chat), ""
        if delivery.unsure:
            sent = await channel.channel.find(message, delivery.since)
            known = await self.store.read(lambda tx: tx.find_delivery(*where, sent))
            is_another = known and (known.turn, known.part) != (row.turn, row.part)
            if is_another or sent in delivery.ids:
                sent = ""
        if not sent:
            await channel.rate_limit.acquire(delivery.address)
            await self._mark(delivery, SENDING)
            if delivery.draft is not None and not index:
                sent = await _replace_draft(channel.channel, delivery, message)
            sent = sent or await channel.channel.send(message)
        delivery.ids.append("".join(sent.split()) or "-")
        delivery.unsure, delivery.pause, delivery.lost = False, FIRST_PAUSE, 0
        await self._mark(delivery, SENT if is_last else SENDING)

    async def _pause(self, channel: ChannelState, delivery: Delivery, error: ChannelError) -> None:
        """Wait as long as the platform wants, or until it is back; what is unsure stays so until
        it is known.

        Raises Rejected where one try more could only make it worse.
        """
        can, asked = channel.channel.capabilities, getattr(error, "after_s", 0.0)
        wait = asked or delivery.pause
        delivery.pause = min(delivery.pause * 2, LONGEST_PAUSE)
        if isinstance(error, DeliveryUnknown):
            delivery.unsure = True
            findable = can.can_find and not (delivery.file and not delivery.ids)
            if not (can.idempotent or findable):
                delivery.lost += 1
                if delivery.lost > len(BLIND_PAUSES):
                    raise Rejected(f"{LOST.format(tries=delivery.lost)}: {error}") from error
                wait = BLIND_PAUSES[delivery.lost - 1]
        channel.rate_limit.on_error(delivery.address, error)
        if isinstance(error, Revoked):
            channel.mark_failing(str(error), refused=True)
        text = "%s: a message to %s waits %.1f s: %s"
        log.info(text, channel.name, delivery.row.session, wait, error)
        await self._mark(delivery, UNCERTAIN if delivery.unsure else NEW, str(error))
        if channel.up.is_set() or asked:
            await asyncio.sleep(wait)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(DOWN_PAUSE):
                await channel.up.wait()

    async def _fail(self, channel: ChannelState, row: OutboxRow, why: str) -> None:
        """It has failed for good. A failed notice causes no other notice."""
        log.warning("%s: %s to %s cannot be sent: %s", channel.name, row.kind, row.session, why)
        kind, notice = KINDS.get(row.kind, "a message"), ""
        if not row.turn.startswith(NOTICE):
            kept = f"Its text is kept: aidaemon show {row.turn}"
            kept = "The file itself is where it was." if row.kind == FILE else kept
            to = f"{kind} to {row.session}"
            if row.kind == MAIL:
                to = describe_message(row)
            notice = f"I could not deliver {to} on {channel.name}: {why}. {kept}"
        delivery = Delivery(row, parse_address(row.channel, row.chat), row.created_at)
        await self._mark(delivery, FAILED, why, notice)
        if row.kind == FILE:
            await self._delete_copy(row)

    async def _delete_copy(self, row: OutboxRow) -> None:
        """If that fails, the next start deletes it."""
        with suppress(OSError, Rejected):
            path = AttachmentFile.load(row.body, self.files).path
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _mark(
        self, delivery: Delivery, state: str, error: str = "", notice: str = ""
    ) -> None:
        """On disk when it returns: nothing is sent before, and nothing is forgotten after, however
        long the disk is full. `notice` is for the owner.
        """
        written, row, pause = (state, len(delivery.ids)), delivery.row, FIRST_PAUSE
        if delivery.written == written:
            return

        def work(tx: Tx) -> None:
            at = self.clock.now()
            tx.mark_delivery(row.turn, row.part, state, " ".join(delivery.ids), error, at)
            if delivery.copy and state == SENDING and not delivery.written[0]:
                tx.post_delivery(delivery.copy)
            if row.kind == REPLY and (delivery.ids or state == FAILED):
                tx.remove_draft(row.turn)
            if delivery.choices and state == SENT:
                tx.set_buttons(row.turn, row.part, shown=True)
            if notice:
                self.tell(tx, notice, row)
            if state == FAILED and (notice or _is_owners(tx, row.session)):
                tx.note_failure(self.clock.now(), row.turn, row.part)

        while True:
            try:
                await self.store.write(work)
                break
            except StoreUnavailable as unavailable:
                text = "the journal does not take the state of a delivery (%s); it waits"
                log.error(text, unavailable)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        delivery.written = written


def _is_owners(tx: Tx, session: str) -> bool:
    return any(chat.session == session for chat in tx.list_owner_chats())


async def _replace_draft(channel: Channel, delivery: Delivery, message: OutboundMessage) -> str:
    """The id of the draft that shows the message now; "" where none can, then it is gone.

    A draft may have been begun whose id is not known: under the same key the platform gives the
    first one, or makes one. A platform without keys is searched; one with keys is not, for it could
    find an equal answer of before.
    """
    draft, key = delivery.draft, message_key(delivery.row.turn, "draft")
    if not draft and channel.capabilities.idempotent:
        with suppress(Rejected):
            draft = await channel.show_draft(message.address, key, delivery.markdown, "")
    elif not draft:
        draft = await channel.find(replace(message, key=key), delivery.since)
    if draft and not delivery.draft_outdated:
        try:
            await channel.edit(draft, message)
            return draft
        except Rejected as error:
            log.info("%s: a draft cannot be replaced: %s", channel.name, error)
        except DeliveryUnknown as error:
            raise RetryLater(str(error)) from error  # an edit may be repeated: it sends nothing
    if draft:
        with suppress(ChannelError):
            await channel.delete(message.address, draft)
    delivery.draft = None
    return ""
