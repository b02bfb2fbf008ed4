"""Who writes to a channel (trust.md, A13): those whom its config lists, and those who
had a code; nobody else.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256

from channels.base import RateLimit
from channels.message import Address, InboundMessage, Sender
from daemon.access.chat_ids import NOTICE, chat_id, session_id
from daemon.access.directory import Directory, person_name
from daemon.commands.registry import parse_command
from daemon.core.clock import Clock
from daemon.core.ids import NewId
from daemon.core.rows import OutboxRow, OwnerChat
from daemon.core.trust import Person, Role
from daemon.outbox.channel_supervisor import RateWindow
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
PAIR_COMMAND = "pair"
NOTICE_INTERVAL = timedelta(days=1)
PLACE_INTERVAL_S = 600.0
STRANGERS_PAUSE_S = 600.0
MAX_NAME_CHARS = 40
CODE_TRIES = RateLimit(6, 3600.0)
MAX_STRANGERS = 1000
"""So many strangers are answered in a day, and so many may try codes at a time."""
MAX_GROUP_NOTICES = 5
"""Per group and day: a group takes few messages, and they are for known people."""
GROUP_NOTICES = RateLimit(MAX_GROUP_NOTICES, NOTICE_INTERVAL.total_seconds())
STRANGER_NOTICE = (
    "I only talk to people I know. If you were given a code for me, send it like this: /pair CODE"
)
LOOK_ONLY_NOTICE = "You may look here (/status, /tasks, /help), but giving me work is for others."
WRONG_CODE = "That code does not open anything (any more). Ask for a new one."
WELCOME_TEXT = "Welcome: you are {role} here now. /help tells what you can say."


@dataclass
class Admission:
    """One per channel. `roles` is what its config says; `place` is the channel's kind and account,
    as people are stored.
    """

    channel: str
    place: tuple[str, str]
    roles: Mapping[str, Role]
    people: Directory
    store: Store
    clock: Clock
    new_id: NewId
    _code_tries: dict[str, RateWindow] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _owner_chat: tuple[str, float] = ("", 0.0)
    _notified: dict[str, datetime] = field(default_factory=dict)
    _group_notices: dict[str, RateWindow] = field(default_factory=dict)
    _paused_until: float = 0.0

    async def identify(self, sender: Sender) -> Person | None:
        """The person this sender is now; None for a stranger. A name says nothing
        here, the id does.
        """
        role = self.roles.get(sender.id) or await self.people.role_of(*self.place, sender.id)
        if role is None:
            return None
        name = f"{self.channel}:{sender.id}"
        words = "".join(char for char in sender.name if char.isprintable()).split()
        shown = " ".join(words)[:MAX_NAME_CHARS]
        if shown and self._names.get(name) != shown:
            await self.store.write(lambda tx: tx.put_display_name(name, shown))
            self._names[name] = shown
        return Person(name, role)

    async def pair(self, inbound: InboundMessage, *, post: bool = False) -> str | None:
        """What is said to somebody who tries a code, "" for nothing; None for whoever says
        something else. `post`: it is sent.
        """
        name, code = parse_command(inbound.text) or ("", "")
        if name not in (PAIR_COMMAND, "start") or not code:
            return None
        sender, now = inbound.sender.id, self.clock.monotonic()
        if len(self._code_tries) >= MAX_STRANGERS:
            tries = self._code_tries.items()
            self._code_tries = {other: one for other, one in tries if one.is_used(now)}
        if len(self._code_tries) >= MAX_STRANGERS and sender not in self._code_tries:
            return ""
        window = self._code_tries.setdefault(sender, RateWindow(CODE_TRIES))
        if window.find_wait(now):  # whoever tries codes all day is not answered all day
            return ""
        window.sent.append(now)
        role = await self.people.pair(*self.place, sender, code)
        done = f"was let in as {role}" if role else "gave a wrong code"
        log.info("%s: %s %s", self.channel, sender, done)
        said = WELCOME_TEXT.format(role=role.value) if role else WRONG_CODE
        if post and (role or not self._group_is_full(inbound)):
            await self.post_once(inbound, said)
        return said

    async def post_once(self, inbound: InboundMessage, said: str) -> None:
        """One answer to one message, however often that comes. Raises StoreUnavailable."""
        about = f"{self.channel}/{inbound.external_id}".encode("utf-8", "replace")
        line = self._notice_row(inbound.address, said, sha256(about).hexdigest()[:26])

        def work(tx: Tx) -> None:
            if not tx.list_turn_outbox(line.turn):
                tx.post_delivery(line)

        await self.store.write(work)

    async def save_owner_chat(self, inbound: InboundMessage) -> None:
        """Where the owner can be told things: in the private chat of each channel in which they
        spoke last.
        """
        session, now = session_id(inbound.address), self.clock.monotonic()
        known, noted = self._owner_chat
        if known != session or now - noted >= PLACE_INTERVAL_S:
            name = person_name(*self.place, inbound.sender.id)
            chat = OwnerChat(self.channel, session, name, self.clock.now())
            await self.store.write(lambda tx: tx.put_owner_chat(chat))
            self._owner_chat = session, now

    def _group_is_full(self, inbound: InboundMessage) -> bool:
        """In this group enough has been said to strangers today. One more is counted, if not."""
        if inbound.private:
            return False
        chat, now = inbound.address.chat, self.clock.monotonic()
        notices = self._group_notices.setdefault(chat, RateWindow(GROUP_NOTICES))
        if notices.find_wait(now):
            return True
        notices.sent.append(now)
        if len(self._group_notices) > MAX_STRANGERS:
            del self._group_notices[next(iter(self._group_notices))]
        return False

    async def notify_daily(self, inbound: InboundMessage, text: str) -> None:
        """Once a day for each person; most of what crowds of strangers say ends here, before the
        journal is asked.
        """
        name, now = person_name(*self.place, inbound.sender.id), self.clock.now()
        notified, at = self._notified.get(name), self.clock.monotonic()
        is_known = notified and abs(now - notified) < NOTICE_INTERVAL
        if at < self._paused_until or is_known or self._group_is_full(inbound):
            return
        if len(self._notified) >= MAX_STRANGERS:
            self._notified.clear()

        def work(tx: Tx) -> bool:
            """False where there were too many today already."""
            if tx.is_known_stranger(name, now, NOTICE_INTERVAL):
                return True
            if is_new := tx.add_stranger(name, now, NOTICE_INTERVAL, MAX_STRANGERS):
                tx.post_delivery(self._notice_row(inbound.address, text, self.new_id()))
            return is_new

        if not await self.store.write(work):
            self._paused_until = at + STRANGERS_PAUSE_S
        self._notified[name] = now

    def _notice_row(self, address: Address, text: str, name: str) -> OutboxRow:
        where = session_id(address), address.channel, chat_id(address)
        now = self.clock.now()  # due at once: they have just written
        return OutboxRow(f"{NOTICE}{name}", -1, *where, "notice", text, now, due=now)
