"""Turns as the journal has them: one taken up again, and the earlier ones that the model is shown."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from daemon.agent.context import Earlier, Scene
from daemon.core.codec import UnreadableEvent
from daemon.core.events import Recorded, TurnEnded
from daemon.core.messages import Message, Role
from daemon.core.rows import SessionRow
from daemon.core.turn import EventSink, Turn
from daemon.store.protocol import ReadTx

log = logging.getLogger(__name__)
TURNS = 30


class Nowhere:
    """The sink of a turn that is only looked at."""

    async def append(self, turn_id: str, recorded: Sequence[Recorded]) -> None:
        """Nothing is ever recorded in it."""
        raise RuntimeError(f"turn {turn_id} is read only")


def rebuild(turn_id: str, session: str, recorded: Sequence[Recorded], sink: EventSink | None = None) -> Turn:
    """The turn, folded from its events."""
    turn = Turn(id=turn_id, session=session, sink=sink or Nowhere())
    for entry in recorded:
        turn.replay(entry)
    return turn


@dataclass(slots=True)
class Past:
    """What a session said before, oldest first, and the tools it found; grows with each turn that ends."""

    messages: list[Message] = field(default_factory=list)
    offers: list[str] = field(default_factory=list)

    def add(self, turn: Turn) -> None:
        """The turn has ended: later turns see it."""
        self.messages.extend(told(turn))
        self.offers.extend(name for name in turn.offers if name not in self.offers)

    def trim(self, most: int = 1000) -> None:
        """Keep memory bounded; the journal keeps everything."""
        del self.messages[: max(0, len(self.messages) - most)]


def told(turn: Turn) -> list[Message]:
    """A turn as later turns see it. Where the house had the last word, that stands at its end."""
    messages = list(turn.messages)
    end = turn.ended
    if isinstance(end, TurnEnded) and end.reply not in ("", turn.answer):
        messages.append(Message(Role.ASSISTANT, end.reply, label=turn.label))
    return messages


def load_past(tx: ReadTx, session: SessionRow) -> Past:
    """The latest turns that ended, since the session was last cleared; one that cannot be read does not take the others along."""
    past = Past()
    for row in reversed(tx.turns(session.id, TURNS)):
        cleared = session.cleared_at is not None and row.started_at <= session.cleared_at
        if row.state == "ended" and not cleared:
            try:
                past.add(rebuild(row.id, session.id, tx.events(row.id)))
            except UnreadableEvent as error:
                log.warning("turn %s is left out of what the model is shown: %s", row.id, error)
    return past


def scene_of(session: SessionRow, past: Past, *, effort: str, stream: bool) -> Scene:
    """What the next turn stands in."""
    return Scene(
        session_label=session.label,
        earlier=Earlier.of(past.messages),
        offers=tuple(past.offers),
        model=session.model,
        effort=session.effort or effort,
        stream=stream,
    )
