"""What a channel hands over is written to the inbox, in order per conversation, and only then
acknowledged (F1).
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from channels.base import ChannelError, NotAccepted
from channels.message import (
    Address,
    Arrival,
    ButtonPress,
    ChatMoved,
    InboundMail,
    InboundMessage,
    Reaction,
    Reference,
    UnreadableUpdate,
)
from daemon.access.chat_ids import chat_id, parse_address, session_id
from daemon.commands.registry import (
    ASKS_TO_START,
    COMMANDS,
    CommandCall,
    CommandRunner,
    drop_argument,
    fence_argument,
    parse_command,
)
from daemon.core.clock import BackgroundTasks, Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.messages import drop_lone_surrogates
from daemon.core.quoted import is_typed
from daemon.core.rows import InboxRow
from daemon.core.trust import Label, Person, Right, Role, has_right
from daemon.gateway.admission import (
    LOOK_ONLY_NOTICE,
    PAIR_COMMAND,
    STRANGER_NOTICE,
    WELCOME_TEXT,
    Admission,
)
from daemon.gateway.buttons import ButtonHandler
from daemon.gateway.references import (
    has_begun,
    is_known,
    render_beside,
    render_passed,
    render_reference,
)
from daemon.outbox.channel_supervisor import ChannelState
from daemon.sessions.brakes import TooMany
from daemon.sessions.inbox import Inbox
from daemon.sessions.inbox import InboxMessage as Message
from daemon.settings.redaction import Redactor
from daemon.store.journal import Store, Tx
from daemon.tools.workspace.inbox_folder import attachments_to_json, make_safe_name
from daemon.triggers.mail import MailTrigger, Standing, join_subject

TOO_MANY_NOTICE = (
    "Slowly, please: {why}. The same goes for what you send until then; what I took before is"
    " answered."
)
EDITED_TEXT = "{text} (I have edited my message; it now reads so)"


T = TypeVar("T")

log = logging.getLogger(__name__)
MAX_QUARANTINED, MAX_RAW_CHARS, MAX_EMOJI_CHARS = 100, 4000, 32
MAX_CONVERSATIONS = 200
MARK_SEEN_TIMEOUT_S = 10.0
COMMAND_WAIT_S, CLOSE_TIMEOUT_S = 2.0, 2.0
MESSAGE_FAILED = (
    "An internal error stopped me from reading your message (see the log). Please rephrase it."
)
PRESS_FAILED = (
    "An internal error (see the log): it is unknown whether this counted. Check"
    " whether it still waits."
)
UNKNOWN_PERSON = "I only talk to people I know. Nothing was done."


@dataclass
class ChannelHost:
    """`channels.base.Host`, for one channel."""

    state: ChannelState
    store: Store
    clock: Clock
    inbox: Inbox
    commands: CommandRunner
    buttons: ButtonHandler
    admission: Admission
    redactor: Redactor
    mail: MailTrigger | None = None
    _background: BackgroundTasks = field(default_factory=BackgroundTasks)
    _running_commands: set[str] = field(default_factory=set)

    async def accept(self, arrivals: Sequence[Arrival]) -> None:
        """In order per conversation; conversations in parallel, so that one commit serves many.
        Raises NotAccepted.
        """
        for moved in arrivals:
            if isinstance(moved, ChatMoved):  # before what was said there
                await _as_not_accepted(self.state.move_chat(self.store, moved.old, moved.new))
        chats: dict[object, list[Arrival]] = {}
        if self.state.moved_chats:
            arrivals = [*map(self._use_first_id, arrivals)]
        for arrival in arrivals:
            chats.setdefault(getattr(arrival, "address", None), []).append(arrival)
        done = await asyncio.gather(*map(self._handle, chats.values()), return_exceptions=True)
        for error in done:
            if isinstance(error, StoreUnavailable | TooMany):
                raise NotAccepted(str(error)) from error
            if error is not None:
                raise error

    def _use_first_id(self, arrival: Arrival) -> Arrival:
        """As the journal knows its chat, which may have moved."""
        match arrival:
            case InboundMessage():
                return replace(arrival, address=self.state.to_journal(arrival.address))
            case ButtonPress() | Reaction():
                return arrival._replace(address=self.state.to_journal(arrival.address))
            case _:
                return arrival

    async def _handle(self, arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            match arrival:
                case InboundMail() if self.mail:
                    await self._isolate(arrival, self._handle_mail(arrival, self.mail))
                case InboundMessage():
                    if await self._isolate(arrival, self._handle_message(arrival), MESSAGE_FAILED):
                        await self._isolate(arrival, self._report_failure(arrival))
                case ButtonPress():
                    await self._isolate(arrival, self._handle_press(arrival))
                case Reaction():
                    await self._isolate(arrival, self._handle_reaction(arrival))
                case UnreadableUpdate():
                    await self._isolate(arrival, self._quarantine(arrival))

    async def _isolate(
        self, arrival: Arrival, work: Awaitable[str | None], broken: str = ""
    ) -> str | None:
        """The result of `work`. An arrival that it fails on is set aside and delays nothing behind
        it; then `broken`.
        """
        try:
            return await work
        except (StoreUnavailable, TooMany):  # a mail stays in the mailbox, and is read again
            raise
        except Exception as error:
            log.exception("%s: an incoming update failed", self.state.name)
            external = (
                arrival.external_id
                if isinstance(arrival, InboundMessage | UnreadableUpdate)
                else f"{type(arrival).__name__}/{getattr(arrival, 'message_id', '')}"
            )
            reason = f"{type(error).__name__}: {error}"
            await self._quarantine(
                UnreadableUpdate(self.state.name, external, repr(arrival), reason)
            )
            return broken

    async def _report_failure(self, inbound: InboundMessage) -> None:
        """Tell a known sender that their message failed."""
        if inbound.addressed and await self.admission.identify(inbound.sender):
            await self.admission.post_once(inbound, MESSAGE_FAILED)

    async def press_button(self, press: ButtonPress) -> str:
        """What to show to who pressed. Raises NotAccepted."""
        press = press._replace(address=self.state.to_journal(press.address))
        work = self._isolate(press, self._handle_press(press), PRESS_FAILED)
        return await _as_not_accepted(work) or ""

    async def run_command(self, inbound: InboundMessage) -> str:
        """The reply of a command that the platform wants at once. Raises NotAccepted."""
        inbound = replace(inbound, address=self.state.to_journal(inbound.address))
        work = self._isolate(inbound, self._run_command_now(inbound), MESSAGE_FAILED)
        return await _as_not_accepted(work) or ""

    async def _run_command_now(self, inbound: InboundMessage) -> str:
        inbound = replace(inbound, text=drop_lone_surrogates(inbound.text))
        person, command = await self.admission.identify(inbound.sender), parse_command(inbound.text)
        if person is None:
            return await self.admission.pair(inbound) or UNKNOWN_PERSON
        if command is None:
            return UNKNOWN_PERSON
        if command[0] == PAIR_COMMAND:
            return WELCOME_TEXT.format(role=person.role.value)
        if person.role is Role.OWNER and inbound.private:
            await self.admission.save_owner_chat(inbound)
        return await self._accept_command(inbound, person, *command, shown=True)

    async def load_cursor(self) -> str:
        """Up to where this account has been read."""
        return await _as_not_accepted(self.store.read(lambda tx: tx.get_cursor(self.state.name)))

    async def save_cursor(self, cursor: str) -> None:
        """On disk when it returns. Raises NotAccepted."""
        await _as_not_accepted(self.store.write(lambda tx: tx.put_cursor(self.state.name, cursor)))

    async def list_conversations(self) -> Sequence[Address]:
        """The chats of this channel, latest first."""
        rows = await _as_not_accepted(
            self.store.read(lambda tx: tx.list_channel_sessions(self.state.name, MAX_CONVERSATIONS))
        )
        # agents work in their parent's chat
        chats = (parse_address(row.channel, row.chat) for row in rows)
        return list(dict.fromkeys(map(self.state.to_platform, chats)))

    def report_alive(self) -> None:
        """The platform has answered."""
        self.state.mark_alive()

    def report_trouble(self, why: str) -> None:
        """It does not answer as it should."""
        self.state.mark_failing(self.redactor.redact_text(why))

    def list_commands(self) -> Sequence[tuple[str, str]]:
        """For the platform's own menu."""
        return [(command.name, command.help) for command in COMMANDS.values()]

    async def _handle_message(self, inbound: InboundMessage) -> None:
        if not inbound.addressed:
            return
        inbound = replace(inbound, text=drop_lone_surrogates(inbound.text))
        person = await self.admission.identify(inbound.sender)
        if person is None:
            # a code may let them in, else they get one polite line a day; nothing they say is kept
            if await self.admission.pair(inbound, post=True) is None:
                await self.admission.notify_daily(inbound, STRANGER_NOTICE)
            return
        if person.role is Role.OWNER and inbound.private:
            await self.admission.save_owner_chat(inbound)
        may_be_command = "/" in inbound.text and not inbound.forwarded
        command = parse_command(inbound.text) if may_be_command else None
        bare = not (inbound.forwarded or inbound.attachments or inbound.references)
        may_talk = has_right(person.role, Right.TALK)
        if bare and may_talk and ASKS_TO_START.fullmatch(inbound.text):
            command = ("start", "")
        if command and not is_typed(inbound.text, inbound.data):
            command = None
        if command and command[0] == PAIR_COMMAND:
            # they sent a code, and are known: it came twice perhaps, or a crash came before they
            # were told
            welcome = WELCOME_TEXT.format(role=person.role.value)
            await self.admission.post_once(inbound, welcome)
        elif command:
            await self._accept_command(inbound, person, *command, shown=False)
        elif not (inbound.text.strip() or inbound.attachments):
            return
        elif not may_talk:
            await self.admission.notify_daily(inbound, LOOK_ONLY_NOTICE)
        else:
            busy = self.inbox.sessions.running_turn(session_id(inbound.address))
            try:
                if inbound.references:
                    inbound = await self._drop_known(inbound)
                receipt = await self.inbox.accept(self._inbox_message(inbound, person))
            except TooMany as error:
                if error.first:  # one line for all that come too fast, not one for each
                    await self.admission.post_once(inbound, TOO_MANY_NOTICE.format(why=error))
                return
            if busy and not receipt.duplicate:
                self._background.start(self._mark_seen(inbound), f"mark of {self.state.name}")

    async def _handle_mail(self, mail: InboundMail, trigger: MailTrigger) -> None:
        """Words of somebody whom the config trusts, and has proven; else an event from outside."""
        if trigger.standing(mail) is Standing.TRUSTED:
            await self._handle_message(replace(mail, text=join_subject(mail)))
            return
        await trigger.accept(mail)

    async def _accept_command(
        self, inbound: InboundMessage, person: Person, name: str, argument: str, *, shown: bool
    ) -> str:
        """Run it without waiting for a turn (E7); the same command again is dropped."""
        receipt = await self.inbox.accept(self._inbox_message(inbound, person), command=True)
        row = receipt.row
        session = await self.store.read(lambda tx: tx.get_session(row.session))
        if session is None or (receipt.duplicate and row.id in self._running_commands):
            return ""
        if receipt.duplicate:
            await self.commands.settle_interrupted(row.id)
            return await self.commands.earlier_reply(row) if shown else ""
        argument = drop_argument(argument, row)
        argument = self.redactor.redact_text(fence_argument(name, argument, inbound.data))
        given = session, person.name, name, argument, person.role
        command = CommandCall(*given, private=inbound.private)
        task = self._background.start(
            self._run_command(row, command, shown=shown), f"command /{name} of {self.state.name}"
        )
        done, _ = await asyncio.wait([task], timeout=None if shown else COMMAND_WAIT_S)
        return task.result() if done else ""

    async def _run_command(self, row: InboxRow, command: CommandCall, *, shown: bool) -> str:
        self._running_commands.add(row.id)
        try:
            return await self.commands.run(row, command, shown=shown)
        finally:
            self._running_commands.discard(row.id)

    def _inbox_message(self, inbound: InboundMessage, person: Person) -> Message:
        """Texts of others are marked, as their label is (trust.md)."""
        address, text, data, own = inbound.address, inbound.text, inbound.data, ""
        if inbound.edits:
            text = EDITED_TEXT.format(text=text)
        if inbound.forwarded:
            text = render_passed(inbound)
            data = (text,)
        for reference in inbound.references:
            shown = drop_lone_surrogates(render_reference(reference))
            if reference.by == "sender":
                beside, own = drop_lone_surrogates(render_beside(reference)), shown
                text, data = f"{text}\n\n{beside}".strip(), (*data, beside)
            else:
                data += (shown,)
            text = f"{text}\n\n{shown}".strip()
        files = [replace(one, name=make_safe_name(one.name)) for one in inbound.attachments]
        return Message(
            address.channel,
            chat_id(address),
            session_id(address),
            person.name,
            inbound.external_id,
            text,
            Label.UNTRUSTED if inbound.forwarded else Label.TRUSTED,
            stream=self.state.channel.capabilities.drafts,
            role=person.role.value,
            attachments=attachments_to_json(files) if files else "",
            message_id="" if inbound.private else inbound.message_id,
            session_label=Label.TRUSTED,
            data=data,
            own=own,
        )

    async def _drop_known(self, inbound: InboundMessage) -> InboundMessage:
        """Without the messages that the model has before it."""
        where = session_id(inbound.address)

        def look(tx: Tx) -> tuple[Reference, ...]:
            return tuple(one for one in inbound.references if not is_known(tx, where, inbound, one))

        return replace(inbound, references=await self.store.read(look))

    async def knows_thread(self, address: Address) -> bool:
        """The conversation has begun there, so that the first message of the thread is known."""
        where = session_id(self.state.to_journal(address))
        return await _as_not_accepted(self.store.read(lambda tx: has_begun(tx, where)))

    async def _mark_seen(self, inbound: InboundMessage) -> None:
        """Mark a message that has to wait, where the platform can."""
        channel, address = self.state.channel, self.state.to_platform(inbound.address)
        if not (channel.capabilities.reactions and self.state.rate_limit.try_acquire(address)):
            return
        try:
            marking = channel.mark_seen(address, inbound.message_id)
            async with asyncio.timeout(MARK_SEEN_TIMEOUT_S):
                await marking
        except (ChannelError, TimeoutError) as error:
            log.debug("%s: a message was not marked as seen: %s", self.state.name, error)

    async def _handle_press(self, press: ButtonPress) -> str:
        return await self.buttons.answer(press, await self.admission.identify(press.sender))

    async def _handle_reaction(self, reaction: Reaction) -> None:
        """Store it with the turn that it is about."""
        if await self.admission.identify(reaction.sender) is None:
            return
        where = reaction.address.channel, chat_id(reaction.address), reaction.message_id
        emoji = drop_lone_surrogates(reaction.emoji)[:MAX_EMOJI_CHARS]

        def work(tx: Tx) -> None:
            if said := tx.find_delivery(*where):
                tx.put_reaction(said.turn, reaction.sender.id, emoji)

        await self.store.write(work)

    async def _quarantine(self, update: UnreadableUpdate) -> None:
        """Keep the latest hundred."""
        log.warning("%s: an unreadable update is set aside (%s)", update.channel, update.reason)
        name, now = f"{update.channel}/{update.external_id}", self.clock.now()
        why, raw = (
            self.redactor.redact_text(text)[:MAX_RAW_CHARS] for text in (update.reason, update.raw)
        )
        await self.store.write(lambda tx: tx.add_unreadable(name, now, why, raw, MAX_QUARANTINED))

    async def aclose(self) -> None:
        """What takes too long is left; the next start reports interrupted commands."""
        await self._background.aclose(CLOSE_TIMEOUT_S)


async def _as_not_accepted(work: Awaitable[T]) -> T:
    try:
        return await work
    except StoreUnavailable as error:
        raise NotAccepted(str(error)) from error
