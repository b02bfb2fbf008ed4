"""Goes on from an event of a recorded turn, in a conversation of its own, with another model,
prompt, answer or budget (F7). What was recorded before stays as it is, and runs no second time.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from daemon.agent.context.history import rebuild_turn
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import UsageError
from daemon.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    RecordedEvent,
    Steered,
    ToolFinished,
    TurnEnded,
    UserSaid,
)
from daemon.core.ids import NewId, new_trial_session
from daemon.core.messages import MessageRole, score_importance
from daemon.core.reports import ForkChange, ForkView
from daemon.core.rows import InboxRow, SessionRow, TurnRow
from daemon.core.trust import OWNER_NAME, Answer, Label
from daemon.core.turn import Turn
from daemon.sessions.manager import SessionManager
from daemon.store.journal import Store, Tx
from daemon.store.tables.sessions import SHOWN_TURNS

ANSWERS = {"yes": Answer.ONCE, "no": Answer.DENY}
ASKED_FOR = timedelta(days=1)
NOT_THERE = "event {at}: expected 1 to {last}, an event of the turn before its end"
AGENT_AT_WORK = (
    "at event {at} an agent is at work for the turn; choose an event before it was set to work, or"
    " after its result"
)
NOTHING_ASKED = "nothing waits for an answer at event {at}; leave the answer out"


@value
class ForkService:
    """Copies the beginning of a turn, and has the copy go on."""

    store: Store
    sessions: SessionManager
    clock: Clock
    new_id: NewId

    async def fork(self, turn: str, at: int, change: ForkChange) -> ForkView | None:
        """The new turn; None for no such one. Raises UsageError: nothing was begun."""
        session, copy = new_trial_session("fork"), self.new_id()

        def work(tx: Tx) -> SessionRow | None:
            row = tx.get_turn(turn)
            source = tx.get_session(row.session) if row else None
            if row is None or source is None:
                return None
            known = tx.list_events(turn)
            if known and isinstance(known[-1].event, TurnEnded):
                known.pop()
            if not 1 <= at <= len(known):
                raise UsageError(NOT_THERE.format(at=at, last=len(known)))
            events = self._change(known[:at], change, copy)
            forked = rebuild_turn(copy, session, events)
            if any(state.call_id in forked.children for state in forked.pending):
                raise UsageError(AGENT_AT_WORK.format(at=at))
            place = replace(
                source,
                id=session,
                channel="terminal",
                chat=session.partition(":")[2],
                created_at=self.clock.now(),
                root="",
                paused=False,
                model=change.model or source.model,
            )
            tx.put_session(place)
            self._copy_history(tx, row, place)
            self._begin(tx, row, forked, events, change)
            return place

        place = await self.store.write(work)
        if place is None:
            return None
        self.sessions.wake_turn(place, copy)
        return ForkView(copy, session)

    def _change(
        self, recorded: list[RecordedEvent], change: ForkChange, copy: str
    ) -> list[RecordedEvent]:
        """The events with what is to be otherwise."""
        now, first = self.clock.now(), recorded[0]
        said = first.event
        if not isinstance(said, UserSaid):
            raise UsageError("the turn does not begin with a message; it cannot be forked")
        if change.max_usd is not None:
            said = replace(said, limits=replace(said.limits, max_usd=change.max_usd))
        more: list[Event] = []
        if change.prompt and len(recorded) == 1:
            said = replace(said, text=change.prompt, quoted=())
        elif change.prompt:
            score = score_importance(MessageRole.USER, change.prompt)
            more.append(Steered(change.prompt, OWNER_NAME, f"{copy}.prompt", Label.TRUSTED, score))
        open_ones = _list_open(recorded)
        if change.answer and not open_ones:
            raise UsageError(NOTHING_ASKED.format(at=len(recorded)))
        changed = [replace(first, event=said), *recorded[1:]]
        for place, one in enumerate(changed):
            asked = one.event
            if isinstance(asked, ApprovalAsked) and asked.call_id in open_ones:
                changed[place] = replace(one, event=replace(asked, expires=now + ASKED_FOR))
        last = changed[-1].seq
        added = [RecordedEvent(last + count, now, event) for count, event in enumerate(more, 1)]
        return changed + added

    def _copy_history(self, tx: Tx, row: TurnRow, place: SessionRow) -> None:
        """The turns before, as the model was shown them; they cost nothing more."""
        before = tx.list_all_turns(SHOWN_TURNS, session=row.session, after=row.id)
        for old in reversed(before):
            if old.state == "ended":
                free = replace(old, id=self.new_id(), session=place.id, parent="", usd=0.0)
                free = replace(free, input_tokens=0, output_tokens=0, cached_tokens=0)
                tx.copy_turn(free, old.id)

    def _begin(
        self,
        tx: Tx,
        row: TurnRow,
        forked: Turn,
        events: list[RecordedEvent],
        change: ForkChange,
    ) -> None:
        """The turn as if it had been interrupted there, with the message that began it."""
        now, message = self.clock.now(), self.new_id()
        said = events[0].event
        assert isinstance(said, UserSaid)
        tx.accept_input(
            InboxRow(
                message,
                "terminal",
                forked.session.partition(":")[2],
                f"{forked.session}/{message}",
                forked.session,
                said.sender,
                said.text,
                said.label,
                forked.id,
                now,
                state="taken",
                role=said.role,
            )
        )
        tx.add_turn(
            TurnRow(
                forked.id,
                forked.session,
                "",
                message,
                "running",
                forked.label,
                now,
                iterations=forked.iterations,
                agent=row.agent,
                private=forked.private,
            ),
            events,
        )
        answer = ANSWERS.get(change.answer, Answer.TEXT)
        reason = "" if change.answer in ANSWERS else change.answer
        for asked in _list_open(events).values():
            tx.open_approval(forked.session, forked.id, asked, now)
            if change.answer:
                tx.answer_approval(forked.id, asked.call_id, answer, OWNER_NAME, reason, now)


def _list_open(recorded: Sequence[RecordedEvent]) -> dict[str, ApprovalAsked]:
    """Questions without an answer, by their calls."""
    found: dict[str, ApprovalAsked] = {}
    for one in recorded:
        if isinstance(one.event, ApprovalAsked):
            found[one.event.call_id] = one.event
        elif isinstance(one.event, ApprovalAnswered | ToolFinished):
            found.pop(one.event.call_id, None)
    return found
