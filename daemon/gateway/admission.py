"""Who writes to a channel (trust.md, A13): those whom its config lists, and those who
had a code; nobody else.
"""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256

from channels.message import Address, InboundMessage, Sender
from daemon.access.chat_ids import NOTICE, chat_id, session_id
from daemon.access.directory import Directory, person_name
from daemon.commands.registry import parse_command
from daemon.core.clock import Clock
from daemon.core.ids import NewId, split_channel
from daemon.core.rows import OutboxRow, OwnerChat
from daemon.core.trust import Person, Right, Role, has_right
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
PAIR_COMMAND = "pair"
NOTICE_INTERVAL = timedelta(days=1)
PLACE_INTERVAL_S = 600.0
STRANGERS_PAUSE_S = 600.0
MAX_NAME_CHARS = 40
MAX_CODE_TRIES, CODE_WINDOW_S = 6, 3600.0
MAX_STRANGERS = 1000
"""So many strangers are answered in a day, and so many may try codes at a time."""
MAX_GROUP_NOTICES = 5
"""Per group and day: a group takes few messages, and they are for known people."""
STRANGER_NOTICE = (
    "I only talk to people I know. If you were given a code for me, send it like this: /pair CODE"
)
LOOK_ONLY_NOTICE = "You may look here (/status, /tasks, /help), but giving me work is for others."
WRONG_CODE = "That code does not open anything (any more). Ask for a new one."
WELCOME_TEXT = "Welcome: you are {role} here now. /help tells what you can say."


@dataclass(slots=True)
class Admission:
    """One per channel. `roles` is what its config says."""

    channel: str
    roles: Mapping[str, Role]
    people: Directory
    store: Store
    clock: Clock
    new_id: NewId
    _code_tries: dict[str, deque[float]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _owner_chat: tuple[str, float] = ("", 0.0)
    _notified: dict[str, datetime] = field(default_factory=dict)
    _group_notices: dict[str, deque[float]] = field(default_factory=dict)
    _paused_until: float = 0.0

    async def identify(self, sender: Sender) -> Person | None:
        """The person this sender is now; None for a stranger. A name says nothing
        here, the id does.
        """
        role = await self.people.role_of(*self._access_name(sender), self.roles)
        if role is None:
            return None
        person = Person(f"{self.channel}:{sender.id}", role)
        await self._save_name(person.name, sender.name)
        return person

    def _access_name(self, sender: Sender) -> tuple[str, str, str]:
        """(kind, account, id): how people.py has them."""
        account, kind = split_channel(self.channel)
        return kind, account, sender.id

    async def _save_name(self, person: str, called: str) -> None:
        shown = " ".join("".join(char for char in called if char.isprintable()).split())[
            :MAX_NAME_CHARS
        ]
        if shown and self._names.get(person) != shown:
            await self.store.write(lambda tx: tx.put_display_name(person, shown))
            self._names[person] = shown

    async def handle_stranger(self, inbound: InboundMessage) -> None:
        """A stranger: a code may let them in, else they get one polite line a day, and nothing
        that they say is kept.
        """
        said = await self.pair(inbound, parse_command(inbound.text), post=True)
        if said is None:
            await self._notify_daily(inbound, STRANGER_NOTICE)

    async def pair(
        self, inbound: InboundMessage, spoken: tuple[str, str] | None, *, post: bool = False
    ) -> str | None:
        """What is said to somebody who tries a code, "" for nothing; None for whoever says
        something else. `post`: it is sent.
        """
        if spoken is None or spoken[0] not in (PAIR_COMMAND, "start") or not spoken[1]:
            return None
        if not self._may_try_code(inbound.sender.id):
            return ""
        role = await self.people.pair(*self._access_name(inbound.sender), spoken[1])
        log.info(
            "%s: %s %s",
            self.channel,
            inbound.sender.id,
            f"was let in as {role}" if role else "gave a wrong code",
        )
        said = WELCOME_TEXT.format(role=role.value) if role else WRONG_CODE
        if post and (role or not self._group_is_full(inbound)):
            await self.post_once(inbound, said)
        return said

    async def welcome(self, inbound: InboundMessage, person: Person) -> None:
        """They sent a code, and are known: it came twice perhaps, or a crash came before they were
        told.
        """
        await self.post_once(inbound, welcome_text(person))

    async def post_once(self, inbound: InboundMessage, said: str) -> None:
        """One answer to one message, however often that comes. Raises StoreUnavailable."""
        line = self._notice_row(inbound.address, said, f"{self.channel}/{inbound.external_id}")

        def work(tx: Tx) -> None:
            if not tx.list_turn_outbox(line.turn):
                tx.post_delivery(line)

        await self.store.write(work)

    async def refuse_work(self, inbound: InboundMessage, person: Person) -> bool:
        """Whether this person may give no work; then they are told so."""
        if has_right(person.role, Right.TALK):
            return False
        await self._notify_daily(inbound, LOOK_ONLY_NOTICE)
        return True

    async def save_owner_chat(self, inbound: InboundMessage, person: Person) -> None:
        """Where the owner can be told things: in the private chat of each channel in which they
        spoke last.
        """
        session, now = session_id(inbound.address), self.clock.monotonic()
        known, noted = self._owner_chat
        if (
            person.role is not Role.OWNER
            or not inbound.private
            or (known == session and now - noted < PLACE_INTERVAL_S)
        ):
            return
        name, at = person_name(*self._access_name(inbound.sender)), self.clock.now()
        await self.store.write(
            lambda tx: tx.put_owner_chat(OwnerChat(self.channel, session, name, at))
        )
        self._owner_chat = session, now

    def _may_try_code(self, sender: str) -> bool:
        """Whoever tries codes all day is not answered all day."""
        now = self.clock.monotonic()
        if len(self._code_tries) >= MAX_STRANGERS:
            self._code_tries = {
                other: tries
                for other, tries in self._code_tries.items()
                if now - tries[-1] < CODE_WINDOW_S
            }
        if len(self._code_tries) >= MAX_STRANGERS and sender not in self._code_tries:
            return False
        tries = self._code_tries.setdefault(sender, deque(maxlen=MAX_CODE_TRIES))
        if len(tries) == MAX_CODE_TRIES and now - tries[0] < CODE_WINDOW_S:
            return False
        tries.append(now)
        return True

    def _group_is_full(self, inbound: InboundMessage) -> bool:
        """In this group enough has been said to strangers today. One more is counted, if not."""
        if inbound.private:
            return False
        now = self.clock.monotonic()
        lines = self._group_notices.setdefault(
            inbound.address.chat, deque(maxlen=MAX_GROUP_NOTICES)
        )
        if len(lines) == MAX_GROUP_NOTICES and now - lines[0] < NOTICE_INTERVAL.total_seconds():
            return True
        lines.append(now)
        if len(self._group_notices) > MAX_STRANGERS:
            del self._group_notices[next(iter(self._group_notices))]
        return False

    async def _notify_daily(self, inbound: InboundMessage, text: str) -> None:
        """Most of what crowds of strangers say ends here, before the journal is asked."""
        name, now = person_name(*self._access_name(inbound.sender)), self.clock.monotonic()
        told, day = self._notified.get(name), self.clock.now()
        if now < self._paused_until or (told and abs(day - told) < NOTICE_INTERVAL):
            return
        if self._group_is_full(inbound):
            return
        if len(self._notified) >= MAX_STRANGERS:
            self._notified.clear()
        if not await self._post_daily_notice(name, inbound.address, text):
            self._paused_until = now + STRANGERS_PAUSE_S
        self._notified[name] = day

    async def _post_daily_notice(self, name: str, address: Address, text: str) -> bool:
        """False where there were too many today already."""
        now = self.clock.now()

        def work(tx: Tx) -> bool:
            if tx.is_known_stranger(name, now, NOTICE_INTERVAL):
                return True
            if not tx.add_stranger(name, now, NOTICE_INTERVAL, MAX_STRANGERS):
                return False
            tx.post_delivery(self._notice_row(address, text))
            return True

        return await self.store.write(work)

    def _notice_row(self, address: Address, text: str, about: str = "") -> OutboxRow:
        name = sha256(about.encode("utf-8", "replace")).hexdigest()[:26] if about else self.new_id()
        where = session_id(address), address.channel, chat_id(address)
        return OutboxRow(f"{NOTICE}{name}", -1, *where, "notice", text, self.clock.now())


def welcome_text(person: Person) -> str:
    """What is said to somebody who has just become known."""
    return WELCOME_TEXT.format(role=person.role.value)
