"""Turns as the journal has them: one taken up again, and the earlier ones that the model is shown."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from daemon.agent.context import Scene
from daemon.agent.fit.earlier import Earlier, Group, latest
from daemon.core.codec import UnreadableEvent
from daemon.core.events import MemoryHit, Recorded, TurnEnded, UserSaid
from daemon.core.label import Label, join_all
from daemon.core.messages import Message, Role
from daemon.core.rows import ChildRow, SessionRow
from daemon.core.sink import EventSink
from daemon.core.sources import Said, Setting, is_owners, said_in
from daemon.core.terms import Terms
from daemon.core.turn import Turn
from daemon.store.protocol import ReadTx

log = logging.getLogger(__name__)
REFLECTION = "reflection"
TURNS = 30


class Nowhere:
    """The sink of a turn that is only looked at."""

    async def append(self, turn_id: str, recorded: Sequence[Recorded]) -> None:
        """Nothing is ever recorded in it."""
        raise RuntimeError(f"turn {turn_id} is read only")


def rebuild(turn_id: str, session: str, recorded: Sequence[Recorded], sink: EventSink | None = None, parent: str = "") -> Turn:
    """The turn, folded from its events."""
    turn = Turn(id=turn_id, session=session, sink=sink or Nowhere(), parent=parent)
    for entry in recorded:
        turn.replay(entry)
    return turn


def terms_of(tx: ReadTx, turn_id: str) -> Terms:
    """What a turn was begun under."""
    said = next((entry.event for entry in tx.events(turn_id)), None)
    return said.terms if isinstance(said, UserSaid) else Terms()


def progress_of(tx: ReadTx, turn: Turn) -> int:
    """How far it has come, with all who work for it: whoever waits for one that gets further is not stuck (B5 #25)."""
    below = (rebuild(child.turn, child.session, tx.events(child.turn)) for child in tx.children(turn.id))
    return turn.progress + sum(progress_of(tx, one) for one in below) if turn.children else turn.progress


@dataclass(slots=True)
class Past:
    """What a session said before, a group for each turn, oldest first, behind the summary of what is shown no more; and the
    tools it found. It grows with each turn that ends. `said` tells who wrote what; compression takes nothing from it.
    """

    groups: list[Group] = field(default_factory=list)
    summary: Group | None = None
    offers: list[str] = field(default_factory=list)
    reflection: MemoryHit | None = None
    said: list[tuple[Said, ...]] = field(default_factory=list)

    @property
    def label(self) -> Label:
        """Of all that is shown of it."""
        return join_all(group.label for group in (*self.groups, self.summary) if group)

    @property
    def heard(self) -> tuple[Said, ...]:
        """Everything that was said, oldest first."""
        return tuple(chain.from_iterable(self.said))

    @property
    def earlier(self) -> Earlier:
        """As the next turn is shown it."""
        return Earlier.of(self.groups, self.summary)

    def add(self, turn: Turn) -> None:
        """The turn has ended: later turns see it, and what it left of those before it (B4)."""
        if turn.kept_earlier is not None:
            self.groups[:] = latest(self.groups, turn.kept_earlier)
        if turn.summary:
            self.summary = Group.of((turn.summary,))
        self.groups.append(Group.of(told(turn)))
        self.said.append(said_in(turn))
        self.offers.extend(name for name in turn.offers if name not in self.offers)
        thoughts = [one.text for one in turn.consulted if one.purpose == REFLECTION and one.text]
        self.reflection = MemoryHit(f"reflection:{turn.id}", thoughts[-1], turn.label, is_owners(turn)) if thoughts else None

    def trim(self, most: int = 2 * TURNS, kept: int = TURNS) -> None:
        """Keep memory bounded, by many turns at once, so that the prefix seldom changes; the journal keeps everything."""
        if len(self.groups) > most:
            self.groups[:] = latest(self.groups, kept)
        if len(self.said) > most:
            del self.said[:-kept]


def told(turn: Turn) -> list[Message]:
    """A turn as later turns see it. Where the house had the last word, that stands at its end."""
    messages = list(turn.messages)
    end = turn.ended
    if isinstance(end, TurnEnded) and end.reply not in ("", turn.answer):
        messages.append(Message(Role.ASSISTANT, end.reply, label=turn.label))
    return messages


def load_past(tx: ReadTx, session: SessionRow) -> Past:
    """The latest turns that ended, since the session was last cleared; one that cannot be read does not take the others along.

    In the order in which they ended, as whoever lived through it has them: one that waited for a person may have ended late.
    """
    past = Past()
    ended = [row for row in reversed(tx.turns(session.id, TURNS)) if row.state == "ended"]
    rows = [row for row in ended if not is_cleared(row.started_at, session)]
    for row in sorted(rows, key=lambda row: row.ended_at or row.started_at):
        try:
            past.add(rebuild(row.id, session.id, tx.events(row.id)))
        except UnreadableEvent as error:
            log.warning("turn %s is left out of what the model is shown: %s", row.id, error)
    return past


def is_cleared(began: datetime, session: SessionRow) -> bool:
    """A turn that began then is from before the session was last cleared."""
    return session.cleared_at is not None and began <= session.cleared_at


def scene_of(session: SessionRow, past: Past, *, effort: str, stream: bool) -> Scene:
    """What the next turn stands in."""
    return Scene(
        setting=Setting(session.label, past.heard, not session.unheard, session.root),
        earlier=past.earlier,
        offers=tuple(past.offers),
        model=session.model,
        effort=session.effort or effort,
        stream=stream,
    )


def kin_of(tx: ReadTx, turn_id: str) -> tuple[ChildRow | None, Terms | None]:
    """Whose child the turn is, and what that one was begun under."""
    child = tx.child(turn_id)
    return child, terms_of(tx, child.parent) if child else None
