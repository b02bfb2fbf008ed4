"""Loops of this very process.

The door of this very process.
"""

from collections.abc import AsyncIterator, Callable, Sequence

from daemon import VERSION
from daemon.access.directory import Directory
from daemon.client.event_stream import EventFormatter, format_live
from daemon.client.journal_reader import JournalReader
from daemon.client.protocol import (
    ApprovalView,
    DaemonClient,
    GrantView,
    HealthView,
    LiveEvent,
    LoopReader,
    LoopView,
    RunView,
    SendResult,
    loop_view,
)
from daemon.client.views import approval_view, grant_view, row_from_turn, run_view
from daemon.commands import approvals as standing
from daemon.commands.admin import open_directory
from daemon.commands.model import choose_agent
from daemon.commands.registry import CommandCall, Services, parse_command
from daemon.commands.run import earlier_reply, run_command
from daemon.commands.sessions import StopTargets, stop_session, stop_turns
from daemon.core import value
from daemon.core.errors import ConfigError, UsageError
from daemon.core.event_bus import EventBus, LiveItem, Quarantined, TextDelta, TurnFinished
from daemon.core.events import Answer, RecordedEvent, TurnEnded
from daemon.core.journal import ReadTx
from daemon.core.redaction import Redactor
from daemon.core.rows import EXACT_CALL, GrantBounds, LoopOrder, LoopRow, SessionRow
from daemon.core.trust import OWNER, Label, Person, Role, label_for_role
from daemon.loops.engine import LoopEngine
from daemon.services.approvals import answer_approval
from daemon.sessions.inbox import Inbox, InboxMessage


@value
class LocalLoops(LoopReader):
    """Everything a client can do with loops, done here."""

    engine: LoopEngine
    redactor: Redactor

    async def start(self, order: LoopOrder) -> LoopView:
        """Begin one."""
        return await self._view(await self.engine.start(self.redactor.redact_value(order)))

    async def stop(self, loop: LoopView) -> LoopView | None:
        """End it now."""
        row = await self.engine.stop(loop.loop_id, "stopped by the owner")
        return await self._view(row) if row else None

    async def pause(self, loop: LoopView) -> LoopView | None:
        """Not another attempt."""
        row = await self.engine.pause(loop.loop_id)
        return await self._view(row) if row else None

    async def resume(self, loop: LoopView) -> LoopView | None:
        """Go on, in this process."""
        row = await self.engine.resume(loop.loop_id)
        return await self._view(row) if row else None

    async def review(
        self, loop: LoopView, *, approved: bool, by: str, reason: str = ""
    ) -> LoopView | None:
        """Say whether the attempt will do."""
        row = await self.engine.review(
            loop.loop_id, approved=approved, by=by, reason=self.redactor.redact_text(reason)
        )
        return await self._view(row) if row else None

    async def _view(self, row: LoopRow) -> LoopView:
        return await self.store.read(lambda tx: loop_view(tx, row))


END_STATES = ("ended", "quarantined")


@value
class LocalClient(JournalReader, DaemonClient):
    """Everything a client can do, done here."""

    desk: Services
    intake: Inbox
    live: EventBus
    problems: Callable[[], Sequence[str]]

    async def send(
        self,
        session: str,
        text: str,
        client_id: str | None = None,
        *,
        stream: bool = True,
        by: Person = OWNER,
    ) -> SendResult:
        """A command is done at once; anything else is taken in."""
        text = self.intake.redactor.redact_text(text)
        channel, _, chat = session.partition(":")
        external = f"{session}/{client_id or self.desk.new_id()}"
        inbound = InboxMessage(
            channel,
            chat,
            session,
            by.name,
            external,
            text,
            label_for_role(by.role),
            stream=stream,
            role=by.role.value,
        )
        spoken = parse_command(text)
        if spoken:
            return await self._run_command(inbound, by.role, *spoken)
        taken = await self.intake.accept(inbound)
        return (
            SendResult(steered=taken.joined_turn)
            if taken.joined_turn
            else SendResult(turn=taken.row.turn)
        )

    async def _run_command(
        self, inbound: InboxMessage, role: Role, name: str, argument: str
    ) -> SendResult:
        taken = await self.intake.accept(inbound, command=True)
        if taken.duplicate:
            return SendResult(command=name, reply=await earlier_reply(self.desk, taken.row))
        session = await self._get_session(inbound.session)
        reply = await run_command(
            self.desk,
            taken.row,
            CommandCall(session, inbound.sender, name, argument, role),
            shown=True,
        )
        return SendResult(command=name, reply=reply)

    async def _get_session(self, session: str) -> SessionRow:
        row = await self.store.read(lambda tx: tx.get_session(session))
        if row is None:
            raise KeyError(session)
        return row

    async def set_agent(self, session: str, agent: str) -> None:
        """A session that nothing was said in yet is made."""
        row = await self.store.read(lambda tx: tx.get_session(session))
        if row is None:
            channel, _, chat = session.partition(":")
            row = SessionRow(session, channel, chat, Label.TRUSTED, self.desk.clock.now())
        try:
            await choose_agent(self.desk, row, agent)
        except ConfigError as error:
            raise UsageError(str(error)) from error

    async def wait_until_ended(self, turn: str) -> RunView:
        """Wait for the end of it."""
        with self.live.subscribe(turn, _is_end) as glimpses:
            if not self.desk.sessions.owns_turn(turn):
                view = await self._get_known_run(turn)
                if view.state in END_STATES:
                    return view
            item = await anext(glimpses)
        return (
            run_view(row_from_turn(item.turn), item.turn.events)
            if isinstance(item, TurnFinished)
            else await self._get_known_run(turn)
        )

    async def _get_known_run(self, turn: str) -> RunView:
        view = await self.get_run(turn)
        if view is None:
            raise KeyError(turn)
        return view

    async def stream_events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        """From the journal first, then as it happens; nothing twice, nothing missed."""
        narrator = EventFormatter()
        with self.live.subscribe(turn) as glimpses:
            view = await self._get_known_run(turn)
            recorded = await self.store.read(lambda tx: tx.list_events(turn))
            for event in _format_new(narrator, recorded, after):
                yield event
            if view.state == "quarantined":
                for event in narrator.format_quarantined("\n".join(view.notices)):
                    yield event
            elif view.state not in END_STATES and not (
                recorded and isinstance(recorded[-1].event, TurnEnded)
            ):
                async for event in _format_live_events(
                    narrator, glimpses, recorded[-1].seq if recorded else 0, after
                ):
                    yield event

    async def cancel_run(self, turn: str) -> bool:
        """Stop this run, wherever it is."""
        view = await self.get_run(turn)
        if view is None or view.state in END_STATES:
            return False

        def look(tx: ReadTx) -> StopTargets:
            begun = tx.get_turn(turn)
            return StopTargets([] if begun and begun.ended_at else [turn])

        return bool(
            await stop_turns(
                self.desk, await self._get_session(view.session), look, "stopped by the owner"
            )
        )

    async def stop_session(self, session: str) -> list[str]:
        """Stop everything of the session."""
        row = await self.store.read(lambda tx: tx.get_session(session))
        return await stop_session(self.desk, row, "stopped by the owner") if row else []

    async def list_approvals(
        self, state: str = "pending", session: str | None = None
    ) -> list[ApprovalView]:
        """Questions to a person."""
        rows = await self.store.read(lambda tx: tx.list_approvals(state, session))
        now = self.desk.clock.now()
        return [approval_view(row) for row in rows if row.state != "pending" or row.expires > now]

    async def answer_approval(
        self,
        turn: str,
        call_id: str,
        answer: Answer,
        by: Person = OWNER,
        reason: str = "",
        bounds: GrantBounds = EXACT_CALL,
    ) -> bool:
        """Answer one, once."""
        said = self.intake.redactor.redact_text(reason)
        return await answer_approval(self.desk, turn, call_id, answer, by, said, bounds) is not None

    async def list_grants(self) -> list[GrantView]:
        """What needs no question any more."""
        return [grant_view(row) for row in await standing.list_grants(self.desk)]

    async def revoke_grant(self, grant_id: str) -> bool:
        """Take a permission back."""
        return await standing.revoke_grant(self.desk, grant_id)

    def people(self) -> Directory:
        """Who is known, and letting one more in."""
        return open_directory(self.desk)

    def loops(self) -> LocalLoops:
        """What can be done with loops."""
        return LocalLoops(self.store, self.desk.loops, self.intake.redactor)

    async def mark_delivered(self, turn: str, part: int) -> None:
        """It has been shown."""
        await self.store.write(lambda tx: tx.mark_delivery(turn, part, "sent"))

    async def get_health(self) -> HealthView:
        """How this process is."""
        problems = list(self.problems())
        return HealthView(not problems, VERSION, problems)


def _is_end(item: LiveItem) -> bool:
    return isinstance(item, TurnFinished | Quarantined)


def _is_last(item: LiveItem) -> bool:
    return isinstance(item, Quarantined) or (
        isinstance(item, RecordedEvent) and isinstance(item.event, TurnEnded)
    )


def _format_new(
    narrator: EventFormatter, recorded: Sequence[RecordedEvent], after: int
) -> list[LiveEvent]:
    """Events are narrated from the first one on, since they count; told are those that the watcher has not seen."""
    return [
        event for entry in recorded for event in narrator.format(entry) if _is_new(event, after)
    ]


def _is_new(event: LiveEvent, after: int) -> bool:
    return event.seq is None or event.seq > after


async def _format_live_events(
    narrator: EventFormatter, glimpses: AsyncIterator[LiveItem], seen: int, after: int
) -> AsyncIterator[LiveEvent]:
    async for item in glimpses:
        match item:
            case RecordedEvent():
                events = _format_new(narrator, [item], after) if item.seq > seen else []
            case Quarantined():
                events = narrator.format_quarantined(item.notice)
            case TurnFinished():
                events = []
            case TextDelta() if item.after < seen:
                events = []  # the reply that it was a draft of has been told already
            case _:
                events = [format_live(item)]
        for event in events:
            yield event
        if _is_last(item):
            return
