"""The client of the daemon in this process."""

from collections.abc import AsyncIterator, Callable, Sequence

from daemon import VERSION
from daemon.access.directory import NewCode, PairedPerson
from daemon.client.event_stream import EventFormatter, format_live
from daemon.client.journal_reader import JournalReader
from daemon.client.protocol import (
    ApprovalView,
    DaemonClient,
    GrantView,
    HealthView,
    LiveEvent,
    LoopAction,
    LoopView,
    RunView,
    SendResult,
)
from daemon.client.views import approval_view, grant_view, loop_view, row_from_turn, run_view
from daemon.commands.registry import CommandCall, CommandRunner, parse_command
from daemon.core import value
from daemon.core.errors import ConfigError, UsageError
from daemon.core.event_bus import EventBus, LiveItem, Quarantined, TextDelta, TurnFinished
from daemon.core.events import RecordedEvent, TurnEnded
from daemon.core.rows import EXACT_CALL, GrantBounds, LoopOrder, LoopRow, SessionRow
from daemon.core.trust import OWNER, Answer, Label, Person, Role, label_for_role
from daemon.loops.engine import LoopEngine
from daemon.services.admin import PeopleService
from daemon.services.approvals import ApprovalService
from daemon.services.sessions import SessionService
from daemon.sessions.inbox import Inbox, InboxMessage

END_STATES = ("ended", "quarantined")
STOPPED_BY = "stopped by the owner"


@value
class LocalClient(JournalReader, DaemonClient):
    """Everything a client can do, done here."""

    inbox: Inbox
    commands: CommandRunner
    approvals: ApprovalService
    sessions: SessionService
    people: PeopleService
    loops: LoopEngine
    events: EventBus
    problems: Callable[[], Sequence[str]]
    notice: Callable[[], str]

    async def send(
        self,
        session: str,
        text: str,
        client_id: str | None = None,
        *,
        stream: bool = True,
        by: Person = OWNER,
    ) -> SendResult:
        text = self.inbox.redactor.redact_text(text)
        channel, _, chat = session.partition(":")
        message = InboxMessage(
            channel,
            chat,
            session,
            by.name,
            f"{session}/{client_id or self.inbox.new_id()}",
            text,
            label_for_role(by.role),
            stream=stream,
            role=by.role.value,
        )
        command = parse_command(text)
        receipt = await self.inbox.accept(message, command=bool(command))
        if not command:
            if receipt.joined_turn:
                return SendResult(steered=receipt.joined_turn)
            return SendResult(turn=receipt.row.turn)
        name, argument = command
        if receipt.duplicate:
            return SendResult(command=name, reply=await self.commands.earlier_reply(receipt.row))
        call = CommandCall(await self._find_session(session), by.name, name, argument, by.role)
        reply = await self.commands.run(receipt.row, call, shown=True)
        return SendResult(command=name, reply=reply)

    async def _find_session(self, session: str) -> SessionRow:
        row = await self.store.read(lambda tx: tx.get_session(session))
        if row is None:
            raise KeyError(session)
        return row

    async def set_agent(self, session: str, agent: str) -> None:
        row = await self.store.read(lambda tx: tx.get_session(session))
        if row is None:
            channel, _, chat = session.partition(":")
            row = SessionRow(session, channel, chat, Label.TRUSTED, self.inbox.clock.now())
        try:
            await self.sessions.choose_agent(row, agent)
        except ConfigError as error:
            raise UsageError(str(error)) from error

    async def wait_until_ended(self, turn: str) -> RunView:
        with self.events.subscribe(turn, _is_end) as items:
            if not self.inbox.sessions.owns_turn(turn):
                view = await self._find_run(turn)
                if view.state in END_STATES:
                    return view
            item = await anext(items)
        if isinstance(item, TurnFinished):
            return run_view(row_from_turn(item.turn), item.turn.events)
        return await self._find_run(turn)

    async def _find_run(self, turn: str) -> RunView:
        view = await self.get_run(turn)
        if view is None:
            raise KeyError(turn)
        return view

    async def stream_events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        formatter = EventFormatter()
        with self.events.subscribe(turn) as items:
            view = await self._find_run(turn)
            recorded = await self.store.read(lambda tx: tx.list_events(turn))
            for event in _format_after(formatter, recorded, after):
                yield event
            last = recorded[-1].seq if recorded else 0
            if view.state == "quarantined":
                for event in formatter.format_quarantined("\n".join(view.notices)):
                    yield event
            elif view.state != "ended" and not (last and _is_last(recorded[-1])):
                async for item in items:
                    for event in _format_item(formatter, item, last, after):
                        yield event
                    if _is_last(item):
                        return

    async def cancel_run(self, turn: str) -> bool:
        view = await self.get_run(turn)
        if view is None or view.state in END_STATES:
            return False
        session = await self._find_session(view.session)

        return await self.sessions.stop_turn(session, turn, STOPPED_BY)

    async def stop_session(self, session: str) -> list[str]:
        row = await self.store.read(lambda tx: tx.get_session(session))
        return await self.sessions.stop_session(row, STOPPED_BY) if row else []

    async def list_approvals(
        self, state: str = "pending", session: str | None = None
    ) -> list[ApprovalView]:
        rows = await self.store.read(lambda tx: tx.list_approvals(state, session))
        now = self.inbox.clock.now()
        return [approval_view(row) for row in rows if row.state != "pending" or row.expires > now]

    async def answer_approval(
        self,
        turn: str,
        call_id: str,
        answer: Answer,
        by: Person = OWNER,
        reason: str = "",
        bounds: GrantBounds | None = None,
    ) -> bool:
        reason = self.inbox.redactor.redact_text(reason)
        bounds = bounds or EXACT_CALL
        answered = await self.approvals.answer(turn, call_id, answer, by, reason, bounds)
        return answered is not None

    async def list_grants(self) -> list[GrantView]:
        return [grant_view(row) for row in await self.approvals.list_grants()]

    async def revoke_grant(self, grant_id: str) -> bool:
        return await self.approvals.revoke_grant(grant_id)

    async def mark_delivered(self, turn: str, part: int) -> None:
        await self.store.write(lambda tx: tx.mark_delivery(turn, part, "sent"))

    async def invite(self, role: Role, channel: str = "") -> NewCode:
        return await self.people.invite(role, channel)

    async def list_people(self) -> list[PairedPerson]:
        return await self.people.list_people()

    async def remove_person(self, name: str) -> bool:
        return await self.people.remove(name)

    async def start_loop(self, order: LoopOrder) -> LoopView:
        row = await self.loops.start(self.inbox.redactor.redact_value(order))
        return await self.store.read(lambda tx: loop_view(tx, row))

    async def change_loop(self, loop: LoopView, action: LoopAction) -> LoopView | None:
        engine = self.loops
        match action:
            case LoopAction.STOP:
                row = await engine.stop(loop.loop_id, STOPPED_BY)
            case LoopAction.PAUSE:
                row = await engine.pause(loop.loop_id)
            case LoopAction.RESUME:
                row = await engine.resume(loop.loop_id)
        return await self._view_loop(row)

    async def review_loop(
        self, loop: LoopView, *, approved: bool, by: str, reason: str = ""
    ) -> LoopView | None:
        reason = self.inbox.redactor.redact_text(reason)
        row = await self.loops.review(loop.loop_id, approved=approved, by=by, reason=reason)
        return await self._view_loop(row)

    async def _view_loop(self, row: LoopRow | None) -> LoopView | None:
        return await self.store.read(lambda tx: loop_view(tx, row)) if row else None

    async def get_health(self) -> HealthView:
        problems, notice = list(self.problems()), self.notice()
        return HealthView(not problems, VERSION, [*problems, *([notice] if notice else [])])


def _is_end(item: LiveItem) -> bool:
    return isinstance(item, TurnFinished | Quarantined)


def _is_last(item: LiveItem) -> bool:
    ended = isinstance(item, RecordedEvent) and isinstance(item.event, TurnEnded)
    return ended or isinstance(item, Quarantined)


def _format_after(
    formatter: EventFormatter, recorded: Sequence[RecordedEvent], after: int
) -> list[LiveEvent]:
    """The formatter sees all events, because it counts; the client gets those that it has not
    seen.
    """
    events = [event for item in recorded for event in formatter.format(item)]
    return [event for event in events if event.seq is None or event.seq > after]


def _format_item(
    formatter: EventFormatter, item: LiveItem, last: int, after: int
) -> list[LiveEvent]:
    """`last` is the last event that came from the journal."""
    match item:
        case RecordedEvent():
            return _format_after(formatter, [item], after) if item.seq > last else []
        case Quarantined():
            return formatter.format_quarantined(item.notice)
        case TurnFinished():
            return []
        case TextDelta() if item.after < last:
            return []  # the reply of this draft is known already
        case _:
            return [format_live(item)]
