"""What watchers of a turn see as it happens: drafts, which are not stored, and events."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from daemon.core import value
from daemon.core.events import RecordedEvent
from daemon.core.turn import Turn

BACKLOG = 10_000


@value
class TextDelta:
    """A piece of the draft of a reply, which is void once an event later than `after` is known."""

    text: str
    after: int = 0


@value
class DraftDropped:
    """The draft so far is void: the call is repeated, elsewhere perhaps."""


@value
class ToolOutputChunk:
    """A piece of what a running tool prints."""

    call_id: str
    text: str


@value
class Quarantined:
    """The turn was quarantined: no event of its own will say that it is over."""

    notice: str


@value
class TurnFinished:
    """The turn has ended, and that is on disk: here it is, whole."""

    turn: Turn


DROPPABLE = (TextDelta, DraftDropped, ToolOutputChunk)
LiveItem = TextDelta | DraftDropped | ToolOutputChunk | Quarantined | TurnFinished | RecordedEvent


def is_turn_over(item: LiveItem) -> bool:
    """Nothing more happens to the turn."""
    return isinstance(item, TurnFinished | Quarantined)


Accepts = Callable[[LiveItem], bool]
Watchers = dict[asyncio.Queue[LiveItem], Accepts | None]


@dataclass(slots=True)
class EventBus:
    """One hub per process. Publishing never waits: a watcher that falls 10,000 items behind loses
    drafts, never an event.

    `turn_listeners`: told of the session and id of each turn that begins or is resumed;
    `end_listeners`: told whenever one has ended.
    A draft is kept while it grows, so that whoever comes in the middle of it sees its beginning.
    """

    turn_listeners: list[Callable[[str, str], None]] = field(default_factory=list)
    end_listeners: list[Callable[[], None]] = field(default_factory=list)
    _watchers: dict[str, Watchers] = field(default_factory=dict)
    _drafts: dict[str, list[TextDelta]] = field(default_factory=dict)

    def publish(self, turn_id: str, item: LiveItem) -> None:
        """Show it to those who watch this turn."""
        if isinstance(item, TextDelta):
            self._drafts.setdefault(turn_id, []).append(item)
        elif not isinstance(item, ToolOutputChunk):
            self._drafts.pop(turn_id, None)
        for queue, accepts in self._watchers.get(turn_id, {}).items():
            wanted = accepts is None or accepts(item)
            if wanted and (queue.qsize() < BACKLOG or not isinstance(item, DROPPABLE)):
                queue.put_nowait(item)

    def is_watched(self, turn_id: str) -> bool:
        """Somebody is looking at everything: a reply is asked for piece by piece."""
        return None in self._watchers.get(turn_id, {}).values()

    @contextmanager
    def subscribe(
        self, turn_id: str, only: Accepts | None = None
    ) -> Iterator[asyncio.Queue[LiveItem]]:
        """Everything, or only this, that happens to the turn from now on. The watcher decides when
        it has seen the last.
        """
        queue: asyncio.Queue[LiveItem] = asyncio.Queue()
        if draft := self._drafts.get(turn_id):
            beginning = TextDelta("".join(piece.text for piece in draft), draft[-1].after)
            if only is None or only(beginning):
                queue.put_nowait(beginning)
        watchers = self._watchers.setdefault(turn_id, {})
        watchers[queue] = only
        try:
            yield queue
        finally:
            del watchers[queue]
            if not watchers:
                del self._watchers[turn_id]
