"""Who stands at the door of a channel (DESIGN 6, A13): those whom its config lists, and those who had a code; nobody else."""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256

from channels.message import Address, Inbound, Sender
from daemon.commands.base import parse
from daemon.core.clock import Clock
from daemon.core.ids import NewId
from daemon.core.places import parted
from daemon.core.roles import Person, Right, Role, may
from daemon.core.rows import OutboxRow
from daemon.delivery.addresses import chat_of, session_of
from daemon.delivery.letters import NOTICE
from daemon.people.people import People, name_of
from daemon.people.places import note_name, note_place
from daemon.store.protocol import Store, Tx

log = logging.getLogger(__name__)
MET, PAIR = "stranger", "pair"
ONCE_IN = timedelta(days=1)
NOTE_EVERY_S = 600.0
FULL_FOR_S = 600.0
LONGEST_NAME = 40
MOST_CODES, CODES_IN_S = 6, 3600.0
MOST_MET = 1000
"""So many strangers are answered in a day, and so many may try codes at a time."""
MOST_IN_A_GROUP = 5
"""So many such lines a group hears in a day: it takes few messages, and they are for those who are known there."""
STRANGER = "I only talk to people I know. If you were given a code for me, send it like this: /pair CODE"
LOOKING = "You may look here (/status, /tasks, /help), but giving me work is for others."
WRONG = "That code does not open anything (any more). Ask for a new one."
WELCOME = "Welcome: you are {role} here now. /help tells what you can say."


@dataclass(slots=True)
class Visitors:
    """One per channel. `roles` is what its config says."""

    channel: str
    roles: Mapping[str, Role]
    people: People
    store: Store
    clock: Clock
    new_id: NewId
    _codes: dict[str, deque[float]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _place: tuple[str, float] = ("", 0.0)
    _told: dict[str, datetime] = field(default_factory=dict)
    _lines: dict[str, deque[float]] = field(default_factory=dict)
    _full_until: float = 0.0

    async def person(self, sender: Sender) -> Person | None:
        """Who that is to the house, as things stand now; None for a stranger. A name says nothing here, the id does."""
        role = await self.people.admit(*self._named(sender), self.roles)
        if role is None:
            return None
        person = Person(f"{self.channel}:{sender.id}", role)
        await self._note_name(person.name, sender.name)
        return person

    def _named(self, sender: Sender) -> tuple[str, str, str]:
        """(kind, account, id): how people.py has them."""
        account, kind = parted(self.channel)
        return kind, account, sender.id

    async def _note_name(self, person: str, called: str) -> None:
        shown = " ".join("".join(char for char in called if char.isprintable()).split())[:LONGEST_NAME]
        if shown and self._names.get(person) != shown:
            await self.store.write(lambda tx: note_name(tx, person, shown))
            self._names[person] = shown

    async def meet(self, inbound: Inbound) -> None:
        """A stranger: a code may let them in, else they get one polite line a day, and nothing that they say is kept."""
        said = await self.pair(inbound, parse(inbound.text), post=True)
        if said is None:
            await self._once_a_day(inbound, STRANGER)

    async def pair(self, inbound: Inbound, spoken: tuple[str, str] | None, *, post: bool = False) -> str | None:
        """What is said to somebody who tries a code, "" for nothing; None for whoever says something else. `post`: it is sent."""
        if spoken is None or spoken[0] not in (PAIR, "start") or not spoken[1]:
            return None
        if not self._may_try(inbound.sender.id):
            return ""
        role = await self.people.pair(*self._named(inbound.sender), spoken[1])
        log.info("%s: %s %s", self.channel, inbound.sender.id, f"was let in as {role}" if role else "gave a wrong code")
        said = WELCOME.format(role=role.value) if role else WRONG
        if post and (role or not self._is_crowded(inbound)):
            await self.post_once(inbound, said)
        return said

    async def welcome(self, inbound: Inbound, person: Person) -> None:
        """They sent a code, and are known: it came twice perhaps, or a crash came before they were told."""
        await self.post_once(inbound, welcome(person))

    async def post_once(self, inbound: Inbound, said: str) -> None:
        """One answer to one message, however often that comes. Raises StoreUnavailable."""
        line = self._line(inbound.address, said, f"{self.channel}/{inbound.external_id}")

        def work(tx: Tx) -> None:
            if not tx.outbox_of(line.turn):
                tx.post(line)

        await self.store.write(work)

    async def refuse(self, inbound: Inbound, person: Person) -> bool:
        """Whether this person may give no work; then they are told so."""
        if may(person.role, Right.TALK):
            return False
        await self._once_a_day(inbound, LOOKING)
        return True

    async def note_place(self, inbound: Inbound, person: Person) -> None:
        """Where the owner can be told things: in the private chat of each channel in which they spoke last."""
        session, now = session_of(inbound.address), self.clock.monotonic()
        known, noted = self._place
        if person.role is not Role.OWNER or not inbound.private or (known == session and now - noted < NOTE_EVERY_S):
            return
        name, at = name_of(*self._named(inbound.sender)), self.clock.now()
        await self.store.write(lambda tx: note_place(tx, self.channel, session, name, at))
        self._place = session, now

    def _may_try(self, sender: str) -> bool:
        """Whoever tries codes all day is not answered all day."""
        now = self.clock.monotonic()
        if len(self._codes) >= MOST_MET:
            self._codes = {other: tries for other, tries in self._codes.items() if now - tries[-1] < CODES_IN_S}
        if len(self._codes) >= MOST_MET and sender not in self._codes:
            return False
        tries = self._codes.setdefault(sender, deque(maxlen=MOST_CODES))
        if len(tries) == MOST_CODES and now - tries[0] < CODES_IN_S:
            return False
        tries.append(now)
        return True

    def _is_crowded(self, inbound: Inbound) -> bool:
        """In this group enough has been said to strangers today. One more is counted, if not."""
        if inbound.private:
            return False
        now = self.clock.monotonic()
        lines = self._lines.setdefault(inbound.address.chat, deque(maxlen=MOST_IN_A_GROUP))
        if len(lines) == MOST_IN_A_GROUP and now - lines[0] < ONCE_IN.total_seconds():
            return True
        lines.append(now)
        if len(self._lines) > MOST_MET:
            del self._lines[next(iter(self._lines))]
        return False

    async def _once_a_day(self, inbound: Inbound, text: str) -> None:
        """Most of what crowds of strangers say ends here, before the journal is asked."""
        name, now = name_of(*self._named(inbound.sender)), self.clock.monotonic()
        told, day = self._told.get(name), self.clock.now()
        if now < self._full_until or (told and abs(day - told) < ONCE_IN):
            return
        if self._is_crowded(inbound):
            return
        if len(self._told) >= MOST_MET:
            self._told.clear()
        if not await self._told_now(name, inbound.address, text):
            self._full_until = now + FULL_FOR_S
        self._told[name] = day

    async def _told_now(self, name: str, address: Address, text: str) -> bool:
        """False where there were too many today already."""
        now = self.clock.now()

        def work(tx: Tx) -> bool:
            met = tx.kept(MET, name)
            if met and abs(now - datetime.fromisoformat(met)) < ONCE_IN:
                return True
            known = tx.all_kept(MET)
            old = [other for other, at in known.items() if abs(now - datetime.fromisoformat(at)) >= ONCE_IN]
            for other in old:
                tx.drop(MET, other)
            if len(known) - len(old) >= MOST_MET:
                return False
            tx.keep(MET, name, now.isoformat())
            tx.post(self._line(address, text))
            return True

        return await self.store.write(work)

    def _line(self, address: Address, text: str, about: str = "") -> OutboxRow:
        name = sha256(about.encode("utf-8", "replace")).hexdigest()[:26] if about else self.new_id()
        where = session_of(address), address.channel, chat_of(address)
        return OutboxRow(f"{NOTICE}{name}", -1, *where, "notice", text, self.clock.now())


def welcome(person: Person) -> str:
    """What is said to somebody who has just become known."""
    return WELCOME.format(role=person.role.value)
