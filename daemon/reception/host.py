"""The house as one channel sees it: what comes in is written down, in order per conversation, and only then acknowledged (F1)."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from channels.base import ChannelError, NotTaken
from channels.message import Address, Arrival, Inbound, Poison, Press, Reaction
from daemon.commands.base import Desk, Spoken, parse
from daemon.commands.obey import cut_off, obey, said_before
from daemon.commands.table import TABLE
from daemon.core.errors import StoreUnavailable
from daemon.core.label import Label
from daemon.core.redaction import Redactor
from daemon.core.roles import Person
from daemon.core.rows import InboxRow
from daemon.delivery.addresses import address_of, chat_of, session_of
from daemon.delivery.errands import Errands
from daemon.delivery.outlet import Outlet
from daemon.intake import Inbound as Message
from daemon.intake import Intake
from daemon.people.feedback import note_reaction
from daemon.reception.attached import attached, readable, sayable, spoken_text
from daemon.reception.pressing import Pressing
from daemon.reception.visitors import PAIR, Visitors, welcome
from daemon.store.protocol import Tx

A = TypeVar("A", bound=Arrival)
T = TypeVar("T")

log = logging.getLogger(__name__)
CURSOR, POISON = "cursor", "unreadable"
MOST_POISON, RAW = 100, 4000
MOST_CONVERSATIONS = 200
SEEN_S = 10.0
INLINE_S, CLOSE_S = 2.0, 2.0
BROKEN = "I could not take in what you wrote: a fault of mine, which my log tells of. It is set aside; say it in other words."
BROKEN_PRESS = "A fault of mine, which my log tells of: I cannot tell whether this counted. Look whether it still waits."
NOT_FOR_YOU = "I only talk to people I know. Nothing was done."


@dataclass(slots=True)
class Reception:
    """`channels.base.Host`, for one channel."""

    outlet: Outlet
    desk: Desk
    intake: Intake
    visitors: Visitors
    redactor: Redactor
    _errands: Errands = field(default_factory=Errands)
    _obeying: set[str] = field(default_factory=set)

    async def take(self, arrivals: Sequence[Arrival]) -> None:
        """In order per conversation; conversations side by side, so that one commit serves many. Raises NotTaken."""
        lanes: dict[object, list[Arrival]] = {}
        for arrival in arrivals:
            lanes.setdefault(arrival.channel if isinstance(arrival, Poison) else arrival.address, []).append(arrival)
        done = await asyncio.gather(*map(self._in_order, lanes.values()), return_exceptions=True)
        for trouble in done:
            if isinstance(trouble, StoreUnavailable):
                raise NotTaken(str(trouble)) from trouble
            if trouble is not None:
                raise trouble

    async def _in_order(self, arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            if not await self._unharmed(arrival, self._one, broken=False) and isinstance(arrival, Inbound):
                await self._unharmed(arrival, self._tell_broken, broken=False)

    async def _unharmed(self, arrival: A, work: Callable[[A], Awaitable[T]], *, broken: T) -> T:
        """What came of it. What the house cannot take is set aside, and holds up nothing behind it: that is `broken`."""
        try:
            return await work(arrival)
        except StoreUnavailable:
            raise
        except Exception as error:
            log.exception("%s: something came that breaks me", self.outlet.name)
            await self._poison(_broken(self.outlet.name, arrival, error))
            return broken

    async def _tell_broken(self, inbound: Inbound) -> bool:
        """Whoever may talk to me learns that this came to nothing."""
        if inbound.addressed and await self.visitors.person(inbound.sender):
            await self.visitors.post_once(inbound, BROKEN)
        return True

    async def _one(self, arrival: Arrival) -> bool:
        arrival = readable(arrival)
        match arrival:
            case Inbound():
                await self._message(arrival)
            case Press():
                await self._pressed(arrival)
            case Reaction():
                await self._reacted(arrival)
            case Poison():
                await self._poison(arrival)
        return True

    async def press(self, press: Press) -> str:
        """What to show to who pressed. Raises NotTaken."""
        return await _or_not_taken(self._unharmed(press, self._pressed, broken=BROKEN_PRESS))

    async def command(self, inbound: Inbound) -> str:
        """The reply of a command that the platform wants at once. Raises NotTaken."""
        return await _or_not_taken(self._unharmed(inbound, self._at_once, broken=BROKEN))

    async def _at_once(self, inbound: Inbound) -> str:
        inbound = sayable(inbound)
        person, spoken = await self.visitors.person(inbound.sender), parse(inbound.text)
        if person is None:
            return await self.visitors.pair(inbound, spoken) or NOT_FOR_YOU
        if spoken is None:
            return NOT_FOR_YOU
        if spoken[0] == PAIR:
            return welcome(person)
        await self.visitors.note_place(inbound, person)
        return await self._command(inbound, person, *spoken, shown=True)

    async def cursor(self) -> str:
        """How far this account has been read."""
        return await _or_not_taken(self.desk.store.read(lambda tx: tx.kept(CURSOR, self.outlet.name) or ""))

    async def keep_cursor(self, cursor: str) -> None:
        """On disk when it returns. Raises NotTaken."""
        await _or_not_taken(self.desk.store.write(lambda tx: tx.keep(CURSOR, self.outlet.name, cursor)))

    async def conversations(self) -> Sequence[Address]:
        """Where this channel has talked before, latest first."""
        rows = await _or_not_taken(self.desk.store.read(lambda tx: tx.sessions_of(self.outlet.name, MOST_CONVERSATIONS)))
        return list(dict.fromkeys(address_of(row.channel, row.chat) for row in rows))  # agents work in their parent's chat

    def alive(self) -> None:
        """The platform has answered."""
        self.outlet.alive()

    def ailing(self, why: str) -> None:
        """It does not answer as it should."""
        self.outlet.ailing(self.redactor.text(why))

    def commands(self) -> Sequence[tuple[str, str]]:
        """For the platform's own menu."""
        return [(command.name, command.help) for command in TABLE.values()]

    async def _message(self, inbound: Inbound) -> None:
        if not inbound.addressed:
            return
        person = await self.visitors.person(inbound.sender)
        if person is None:
            await self.visitors.meet(inbound)
            return
        await self.visitors.note_place(inbound, person)
        spoken = None if inbound.forwarded else parse(inbound.text)
        if spoken and spoken[0] == PAIR:
            await self.visitors.welcome(inbound, person)
        elif spoken:
            await self._command(inbound, person, *spoken, shown=False)
        elif (inbound.text.strip() or inbound.attachments) and not await self.visitors.refuse(inbound, person):
            await self._work(inbound, person)

    async def _work(self, inbound: Inbound, person: Person) -> None:
        busy = self.desk.sessions.running(session_of(inbound.address))
        taken = await self.intake.take(self._row(inbound, person))
        if busy and not taken.again:
            self._errands.start(self._mark_seen(inbound), f"mark of {self.outlet.name}")

    async def _command(self, inbound: Inbound, person: Person, name: str, argument: str, *, shown: bool) -> str:
        """Out of band: it waits for no turn (E7), and nobody waits for one that takes its time. The same again is dropped."""
        taken = await self.intake.take(self._row(inbound, person), command=True)
        row = taken.row
        session = await self.desk.store.read(lambda tx: tx.session(row.session))
        if session is None or (taken.again and row.id in self._obeying):
            return ""
        if taken.again:
            await cut_off(self.desk, row)
            return await said_before(self.desk, row) if shown else ""
        spoken = Spoken(session, person.name, name, self.redactor.text(argument), person.role)
        task = self._errands.start(self._obey(row, spoken, shown=shown), f"command /{name} of {self.outlet.name}")
        done, _ = await asyncio.wait([task], timeout=None if shown else INLINE_S)
        return task.result() if done else ""

    async def _obey(self, row: InboxRow, spoken: Spoken, *, shown: bool) -> str:
        self._obeying.add(row.id)
        try:
            return await obey(self.desk, row, spoken, shown=shown)
        finally:
            self._obeying.discard(row.id)

    def _row(self, inbound: Inbound, person: Person) -> Message:
        address = inbound.address
        own = not inbound.forwarded and (inbound.quotes_own or not inbound.quoted)
        return Message(
            channel=address.channel,
            chat=chat_of(address),
            session=session_of(address),
            sender=person.name,
            external_id=inbound.external_id,
            text=spoken_text(inbound),
            label=Label.TRUSTED if own else Label.UNTRUSTED,
            watched=self.outlet.channel.can.drafts,
            role=person.role.value,
            attachments=attached(inbound.attachments),
            message_id="" if inbound.private else inbound.message_id,
            reached=Label.TRUSTED,
        )

    async def _mark_seen(self, inbound: Inbound) -> None:
        """A message that has to wait is marked, where the platform has a way to."""
        channel = self.outlet.channel
        if not channel.can.reactions or not self.outlet.pacing.spare(inbound.address):
            return
        try:
            await asyncio.wait_for(channel.seen(inbound.address, inbound.message_id), SEEN_S)
        except (ChannelError, TimeoutError) as error:
            log.debug("%s: a message was not marked as seen: %s", self.outlet.name, error)

    async def _pressed(self, press: Press) -> str:
        return await Pressing(self.desk).press(press, await self.visitors.person(press.sender))

    async def _reacted(self, reaction: Reaction) -> None:
        """Kept beside the turn whose reply it is about."""
        if await self.visitors.person(reaction.sender) is None:
            return
        where = reaction.address.channel, chat_of(reaction.address), reaction.message_id

        def work(tx: Tx) -> None:
            said = tx.delivered_as(*where)
            if said:
                note_reaction(tx, said.turn, reaction.sender.id, reaction.emoji)

        await self.desk.store.write(work)

    async def _poison(self, poison: Poison) -> None:
        """Set aside, the latest hundred; the daemon's log tells of it."""
        log.warning("%s: something came that I cannot read (%s); it is set aside", poison.channel, poison.why)
        name, at = f"{poison.channel}/{poison.external_id}", self.desk.clock.now().isoformat()
        kept = json.dumps({"at": at, "why": self.redactor.text(poison.why)[:RAW], "raw": self.redactor.text(poison.raw)[:RAW]})

        def work(tx: Tx) -> None:
            known = tx.all_kept(POISON)
            older = sorted(known, key=lambda other: known[other])
            for other in older[: max(0, len(older) + 1 - MOST_POISON)]:
                tx.drop(POISON, other)
            tx.keep(POISON, name, kept)

        await self.desk.store.write(work)

    async def aclose(self) -> None:
        """Errands that are not done in a moment are left; of a command it is told at the next start."""
        await self._errands.aclose(CLOSE_S)


def _broken(channel: str, arrival: Arrival, error: Exception) -> Poison:
    external = arrival.external_id if isinstance(arrival, Inbound | Poison) else f"{type(arrival).__name__}/{arrival.message_id}"
    return Poison(channel, external, repr(arrival), f"{type(error).__name__}: {error}")


async def _or_not_taken(work: Coroutine[None, None, T]) -> T:
    try:
        return await work
    except StoreUnavailable as error:
        raise NotTaken(str(error)) from error
