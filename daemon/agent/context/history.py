"""Turns as the journal has them: one taken up again, and the earlier ones that the model is shown."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from daemon.agent.context.builder import TurnContext
from daemon.agent.context.history_window import HistoryWindow, TurnMessages, take_latest
from daemon.core.events import MemoryHit, RecordedEvent, TurnEnded, UserSaid
from daemon.core.journal import ReadTx
from daemon.core.messages import Message, MessageRole
from daemon.core.provenance import SourcedText, TrustContext, collect_texts, is_owner_turn
from daemon.core.rows import ChildRow, SessionRow
from daemon.core.trust import Label, join_all
from daemon.core.turn import EventSink, Turn
from daemon.core.turn_spec import TurnSpec
from daemon.store.codec import UnreadableEvent

log = logging.getLogger(__name__)
REFLECTION = "reflection"
TURNS = 30


class ReadOnlySink:
    """The sink of a turn that is only looked at."""

    async def append(self, turn_id: str, recorded: Sequence[RecordedEvent]) -> None:
        """Nothing is ever recorded in it."""
        raise RuntimeError(f"turn {turn_id} is read only")


def rebuild_turn(
    turn_id: str,
    session: str,
    recorded: Sequence[RecordedEvent],
    sink: EventSink | None = None,
    parent: str = "",
) -> Turn:
    """The turn, folded from its events."""
    turn = Turn(id=turn_id, session=session, sink=sink or ReadOnlySink(), parent=parent)
    for entry in recorded:
        turn.replay(entry)
    return turn


def load_turn_spec(tx: ReadTx, turn_id: str) -> TurnSpec:
    """What a turn was begun under."""
    said = next((entry.event for entry in tx.list_events(turn_id)), None)
    return said.terms if isinstance(said, UserSaid) else TurnSpec()


def sum_progress(tx: ReadTx, turn: Turn) -> int:
    """How far it has come, with all who work for it: whoever waits for one that gets further is not stuck (K25)."""
    below = (
        rebuild_turn(child.turn, child.session, tx.list_events(child.turn))
        for child in tx.list_children(turn.id)
    )
    return (
        turn.progress + sum(sum_progress(tx, one) for one in below)
        if turn.children
        else turn.progress
    )


@dataclass(slots=True)
class History:
    """What a session said before, a group for each turn, oldest first, behind the summary of what is shown no more; and the
    tools it found. It grows with each turn that ends. `said` tells who wrote what; compression takes nothing from it.
    """

    groups: list[TurnMessages] = field(default_factory=list)
    summary: TurnMessages | None = None
    offers: list[str] = field(default_factory=list)
    reflection: MemoryHit | None = None
    texts_by_turn: list[tuple[SourcedText, ...]] = field(default_factory=list)

    @property
    def label(self) -> Label:
        """Of all that is shown of it."""
        return join_all(group.label for group in (*self.groups, self.summary) if group)

    @property
    def texts(self) -> tuple[SourcedText, ...]:
        """Everything that was said, oldest first."""
        return tuple(chain.from_iterable(self.texts_by_turn))

    @property
    def window(self) -> HistoryWindow:
        """As the next turn is shown it."""
        return HistoryWindow.of(self.groups, self.summary)

    def add(self, turn: Turn) -> None:
        """The turn has ended: later turns see it, and what it left of those before it (B4)."""
        if turn.kept_earlier is not None:
            self.groups[:] = take_latest(self.groups, turn.kept_earlier)
        if turn.summary:
            self.summary = TurnMessages.of((turn.summary,))
        self.groups.append(TurnMessages.of(render_turn(turn)))
        self.texts_by_turn.append(collect_texts(turn))
        self.offers.extend(name for name in turn.offered_tools if name not in self.offers)
        thoughts = [
            one.text for one in turn.consultations if one.purpose == REFLECTION and one.text
        ]
        self.reflection = (
            MemoryHit(f"reflection:{turn.id}", thoughts[-1], turn.label, is_owner_turn(turn))
            if thoughts
            else None
        )

    def trim(self, most: int = 2 * TURNS, kept: int = TURNS) -> None:
        """Keep memory bounded, by many turns at once, so that the prefix seldom changes; the journal keeps everything."""
        if len(self.groups) > most:
            self.groups[:] = take_latest(self.groups, kept)
        if len(self.texts_by_turn) > most:
            del self.texts_by_turn[:-kept]


def render_turn(turn: Turn) -> list[Message]:
    """A turn as later turns see it. Where the house had the last word, that stands at its end."""
    messages = list(turn.messages)
    end = turn.ended
    if isinstance(end, TurnEnded) and end.reply not in ("", turn.answer):
        messages.append(Message(MessageRole.ASSISTANT, end.reply, label=turn.label))
    return messages


def load_history(tx: ReadTx, session: SessionRow) -> History:
    """The latest turns that ended, since the session was last cleared; one that cannot be read does not take the others along.

    In the order in which they ended, as whoever lived through it has them: one that waited for a person may have ended late.
    """
    past = History()
    ended = [row for row in reversed(tx.list_turns(session.id, TURNS)) if row.state == "ended"]
    rows = [row for row in ended if not is_cleared(row.started_at, session)]
    for row in sorted(rows, key=lambda row: row.ended_at or row.started_at):
        try:
            past.add(rebuild_turn(row.id, session.id, tx.list_events(row.id)))
        except UnreadableEvent as error:
            log.warning("turn %s is left out of what the model is shown: %s", row.id, error)
    return past


def is_cleared(began: datetime, session: SessionRow) -> bool:
    """A turn that began then is from before the session was last cleared."""
    return session.cleared_at is not None and began <= session.cleared_at


def build_turn_context(
    session: SessionRow, past: History, *, effort: str, stream: bool
) -> TurnContext:
    """What the next turn stands in."""
    return TurnContext(
        trust=TrustContext(session.label, past.texts, not session.has_no_approver, session.root),
        history=past.window,
        offers=tuple(past.offers),
        model=session.model,
        effort=session.effort or effort,
        stream=stream,
    )


def load_parent(tx: ReadTx, turn_id: str) -> tuple[ChildRow | None, TurnSpec | None]:
    """Whose child the turn is, and what that one was begun under."""
    child = tx.get_child(turn_id)
    return child, load_turn_spec(tx, child.parent) if child else None
