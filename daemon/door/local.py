"""The door of this very process."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from daemon import VERSION
from daemon.commands import standing
from daemon.commands.agents import choose_agent
from daemon.commands.answering import answer_call
from daemon.commands.base import Desk, Spoken, parse
from daemon.commands.control import Stopped, stop_session, stop_turns
from daemon.commands.obey import obey, said_before
from daemon.commands.people import register
from daemon.core.asking import EXACT, Bounds
from daemon.core.errors import ConfigError, UsageError
from daemon.core.events import Answer, Recorded, TurnEnded
from daemon.core.label import Label
from daemon.core.live import Glimpse, Live, Over, SetAside, TextDelta
from daemon.core.roles import OWNER, Person, Role, label_of
from daemon.core.rows import SessionRow
from daemon.door.base import Accepted, ApprovalView, Door, GrantView, HealthView, LiveEvent, RunView
from daemon.door.local_loops import LocalLoops
from daemon.door.narrate import Narrator, glimpse
from daemon.door.reading import Reading
from daemon.door.views import approval_view, grant_view, row_of, run_view
from daemon.intake import Inbound, Intake
from daemon.people.people import People
from daemon.store.protocol import ReadTx

OVER = ("ended", "quarantined")


@dataclass(frozen=True, slots=True)
class LocalDoor(Reading, Door):
    """Everything a client can do, done here."""

    desk: Desk
    intake: Intake
    live: Live
    problems: Callable[[], Sequence[str]]

    async def send(
        self, session: str, text: str, client_id: str | None = None, *, stream: bool = True, by: Person = OWNER
    ) -> Accepted:
        """A command is done at once; anything else is taken in."""
        text = self.intake.redactor.text(text)
        channel, _, chat = session.partition(":")
        external = f"{session}/{client_id or self.desk.new_id()}"
        inbound = Inbound(channel, chat, session, by.name, external, text, label_of(by.role), watched=stream, role=by.role.value)
        spoken = parse(text)
        if spoken:
            return await self._command(inbound, by.role, *spoken)
        taken = await self.intake.take(inbound)
        return Accepted(steered=taken.steers) if taken.steers else Accepted(turn=taken.row.turn)

    async def _command(self, inbound: Inbound, role: Role, name: str, argument: str) -> Accepted:
        taken = await self.intake.take(inbound, command=True)
        if taken.again:
            return Accepted(command=name, reply=await said_before(self.desk, taken.row))
        session = await self._session(inbound.session)
        reply = await obey(self.desk, taken.row, Spoken(session, inbound.sender, name, argument, role), shown=True)
        return Accepted(command=name, reply=reply)

    async def _session(self, session: str) -> SessionRow:
        row = await self.store.read(lambda tx: tx.session(session))
        if row is None:
            raise KeyError(session)
        return row

    async def choose(self, session: str, agent: str) -> None:
        """A session that nothing was said in yet is made."""
        row = await self.store.read(lambda tx: tx.session(session))
        if row is None:
            channel, _, chat = session.partition(":")
            row = SessionRow(session, channel, chat, Label.TRUSTED, self.desk.clock.now())
        try:
            await choose_agent(self.desk, row, agent)
        except ConfigError as error:
            raise UsageError(str(error)) from error

    async def settled(self, turn: str) -> RunView:
        """Wait for the end of it."""
        with self.live.watch(turn, _is_over) as glimpses:
            if not self.desk.sessions.holds(turn):
                view = await self._known(turn)
                if view.state in OVER:
                    return view
            item = await anext(glimpses)
        return run_view(row_of(item.turn), item.turn.events) if isinstance(item, Over) else await self._known(turn)

    async def _known(self, turn: str) -> RunView:
        view = await self.run(turn)
        if view is None:
            raise KeyError(turn)
        return view

    async def events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        """From the journal first, then as it happens; nothing twice, nothing missed."""
        narrator = Narrator()
        with self.live.watch(turn) as glimpses:
            view = await self._known(turn)
            recorded = await self.store.read(lambda tx: tx.events(turn))
            for event in _told(narrator, recorded, after):
                yield event
            if view.state == "quarantined":
                for event in narrator.quarantined("\n".join(view.notices)):
                    yield event
            elif view.state not in OVER and not (recorded and isinstance(recorded[-1].event, TurnEnded)):
                async for event in _follow(narrator, glimpses, recorded[-1].seq if recorded else 0, after):
                    yield event

    async def cancel(self, turn: str) -> bool:
        """Stop this run, wherever it is."""
        view = await self.run(turn)
        if view is None or view.state in OVER:
            return False

        def look(tx: ReadTx) -> Stopped:
            begun = tx.turn(turn)
            return Stopped([] if begun and begun.ended_at else [turn])

        return bool(await stop_turns(self.desk, await self._session(view.session), look, "stopped by the owner"))

    async def stop(self, session: str) -> list[str]:
        """Stop everything of the session."""
        row = await self.store.read(lambda tx: tx.session(session))
        return await stop_session(self.desk, row, "stopped by the owner") if row else []

    async def approvals(self, state: str = "pending", session: str | None = None) -> list[ApprovalView]:
        """Questions to a person."""
        rows = await self.store.read(lambda tx: tx.approvals(state, session))
        now = self.desk.clock.now()
        return [approval_view(row) for row in rows if row.state != "pending" or row.expires > now]

    async def answer(
        self, turn: str, call_id: str, answer: Answer, by: Person = OWNER, reason: str = "", bounds: Bounds = EXACT
    ) -> bool:
        """Answer one, once."""
        said = self.intake.redactor.text(reason)
        return await answer_call(self.desk, turn, call_id, answer, by, said, bounds) is not None

    async def grants(self) -> list[GrantView]:
        """What needs no question any more."""
        return [grant_view(row) for row in await standing.holding(self.desk)]

    async def revoke(self, grant_id: str) -> bool:
        """Take a permission back."""
        return await standing.revoke(self.desk, grant_id)

    def people(self) -> People:
        """Who is known, and letting one more in."""
        return register(self.desk)

    def loops(self) -> LocalLoops:
        """What can be done with loops."""
        return LocalLoops(self.store, self.desk.loops, self.intake.redactor)

    async def delivered(self, turn: str, part: int) -> None:
        """It has been shown."""
        await self.store.write(lambda tx: tx.mark_outbox(turn, part, "sent"))

    async def health(self) -> HealthView:
        """How this process is."""
        problems = list(self.problems())
        return HealthView(not problems, VERSION, problems)


def _is_over(item: Glimpse) -> bool:
    return isinstance(item, Over | SetAside)


def _is_last(item: Glimpse) -> bool:
    return isinstance(item, SetAside) or (isinstance(item, Recorded) and isinstance(item.event, TurnEnded))


def _told(narrator: Narrator, recorded: Sequence[Recorded], after: int) -> list[LiveEvent]:
    """Events are narrated from the first one on, since they count; told are those that the watcher has not seen."""
    return [event for entry in recorded for event in narrator.narrate(entry) if _unseen(event, after)]


def _unseen(event: LiveEvent, after: int) -> bool:
    return event.seq is None or event.seq > after


async def _follow(
    narrator: Narrator, glimpses: AsyncIterator[Glimpse], seen: int, after: int
) -> AsyncIterator[LiveEvent]:
    async for item in glimpses:
        match item:
            case Recorded():
                events = _told(narrator, [item], after) if item.seq > seen else []
            case SetAside():
                events = narrator.quarantined(item.notice)
            case Over():
                events = []
            case TextDelta() if item.after < seen:
                events = []  # the reply that it was a draft of has been told already
            case _:
                events = [glimpse(item)]
        for event in events:
            yield event
        if _is_last(item):
            return
