"""What a session said before: measured, hashed and repaired once per turn, the same bytes in every
prompt (A5, B4).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from itertools import chain, pairwise

from daemon.agent.context.repair import repair
from daemon.core import value
from daemon.core.events import MemoryHit, RecordedEvent, TurnEnded, UserSaid
from daemon.core.messages import Message, MessageRole
from daemon.core.provenance import SourcedText, collect_texts, is_owner_turn
from daemon.core.rows import ChildRow, SessionRow
from daemon.core.trust import Label, join_all
from daemon.core.turn import EventSink, Turn
from daemon.core.turn_spec import TurnSpec
from daemon.store.codec import UnreadableEvent
from daemon.store.journal import Tx

log = logging.getLogger(__name__)
CHARS_PER_TOKEN = 4
AROUND_A_CALL, ENVELOPE = 32, 16
DUE_PERCENT = 80
REFLECTION = "reflection"
TURNS = 30


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Four bytes a token, and a few for the envelope."""
    size = 0
    for message in messages:
        own = ENVELOPE + _count_bytes(message.text)
        for call in message.calls:
            own += ENVELOPE + len(call.name) + _count_bytes(call.arguments)
        size += max(own, len(message.native.blocks)) if message.native else own
    return size // CHARS_PER_TOKEN


def estimate_extra_tokens(messages: Sequence[Message]) -> int:
    """What messages can take beyond 4/3 of the estimate: other scripts, and the provider's form of
    each call and result.
    """
    wide = sum(_count_bytes(m.text) - len(m.text) for m in messages if not m.text.isascii())
    return wide // 3 + AROUND_A_CALL * sum(len(m.calls) for m in messages)


def is_nearly_full(tokens: int, window: int) -> bool:
    """What would be sent has come to 80 % of the window (B4)."""
    return tokens * 100 >= window * DUE_PERCENT


def hash_messages(messages: Sequence[Message], before: bytes = b"") -> bytes:
    """A digest of exactly these messages; `before` is the digest of what stands in front of
    them.
    """
    digest = blake2b(before, digest_size=12)
    for message in messages:
        parts = [message.role, message.text, message.provider_id]
        for call in message.calls:
            parts += (call.provider_id, call.name, call.arguments)
        digest.update("".join(f"{part}\0" for part in parts).encode("utf-8", "surrogatepass"))
    return digest.digest()


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


@value
class TurnMessages:
    """One turn that ended, or the summary of turns that are left out: repaired, measured and
    hashed once.
    """

    messages: tuple[Message, ...]
    tokens: int
    extra: int
    digest: bytes
    label: Label

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "TurnMessages":
        """Of the messages as they were said."""
        sound = tuple(repair(messages))
        label = join_all(message.label for message in sound)
        return cls(
            sound, estimate_tokens(sound), estimate_extra_tokens(sound), hash_messages(sound), label
        )


@value
class HistoryWindow:
    """All turns of a session that are shown, behind the summary of what was before them."""

    groups: tuple[TurnMessages, ...] = ()
    summary: TurnMessages | None = None
    messages: tuple[Message, ...] = ()
    tokens: int = 0
    extra: int = 0
    digest: bytes = b""
    _compacted: dict[tuple[int | None, Message | None], "HistoryWindow"] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(
        cls, groups: Sequence[TurnMessages], summary: TurnMessages | None = None
    ) -> "HistoryWindow":
        """Of these, oldest first."""
        shown = [group for group in (summary, *groups) if group and group.messages]
        messages = tuple(chain.from_iterable(group.messages for group in shown))
        if not all(meet_well(left.messages, right.messages) for left, right in pairwise(shown)):
            messages = tuple(repair(messages))
        digest = blake2b(b"".join(group.digest for group in shown), digest_size=12).digest()
        tokens, extra = sum(one.tokens for one in shown), sum(one.extra for one in shown)
        return cls(tuple(groups), summary, messages, tokens, extra, digest)

    def after_compaction(self, turn: Turn) -> "HistoryWindow":
        """What a turn's compression left of it; made once each time it changes."""
        if turn.kept_earlier is None and turn.summary is None:
            return self
        key = (turn.kept_earlier, turn.summary)
        if key not in self._compacted:
            summary = TurnMessages.of((turn.summary,)) if turn.summary else self.summary
            self._compacted.clear()
            kept = take_latest(self.groups, turn.kept_earlier)
            self._compacted[key] = HistoryWindow.of(kept, summary)
        return self._compacted[key]

    def fit(self, room: int) -> "HistoryWindow":
        """What fits. If it is too much, the oldest go, down to half of the room, so that the
        prefix then stays the same.
        """
        if self.tokens <= room:
            return self
        summary = self.summary if self.summary and self.summary.tokens <= room else None
        left, kept = room // 2 - (summary.tokens if summary else 0), 0
        for group in reversed(self.groups):
            left -= group.tokens
            if left < 0:
                break
            kept += 1
        return HistoryWindow.of(take_latest(self.groups, kept), summary)


def take_latest(groups: Sequence[TurnMessages], kept: int | None) -> tuple[TurnMessages, ...]:
    """The last `kept` of them, or as many as there are; None is all."""
    return tuple(groups) if kept is None else tuple(groups[max(0, len(groups) - kept) :])


def meet_well(left: Sequence[Message], right: Sequence[Message]) -> bool:
    """An answer, then a question: nothing to repair between them."""
    if not left or not right:
        return True
    last = left[-1]
    return (
        last.role is MessageRole.ASSISTANT and not last.calls and right[0].role is MessageRole.USER
    )


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


def sum_progress(tx: Tx, turn: Turn) -> int:
    """Its progress with that of all its sub-agents: who waits for one that gets further is not
    stuck (K25).
    """
    if not turn.children:
        return turn.progress
    below = tx.list_children(turn.id)
    turns = (rebuild_turn(one.turn, one.session, tx.list_events(one.turn)) for one in below)
    return turn.progress + sum(sum_progress(tx, one) for one in turns)


@dataclass(slots=True)
class History:
    """A session's turns that ended, oldest first, behind the summary of what is left out; and the
    tools it found.

    `texts_by_turn` tells who wrote what; compression takes nothing from it.
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
        messages, end = list(turn.messages), turn.ended
        if isinstance(end, TurnEnded) and end.reply not in ("", turn.answer):
            messages.append(Message(MessageRole.ASSISTANT, end.reply, label=turn.label))
        self.groups.append(TurnMessages.of(messages))
        self.texts_by_turn.append(collect_texts(turn))
        self.offers.extend(name for name in turn.offered_tools if name not in self.offers)
        self.reflection = None
        for one in turn.consultations:
            if one.purpose == REFLECTION and one.text:
                self.reflection = MemoryHit(
                    f"reflection:{turn.id}", one.text, turn.label, is_owner_turn(turn)
                )

    def trim(self, most: int = 2 * TURNS, kept: int = TURNS) -> None:
        """Keep memory bounded, by many turns at once, so that the prefix seldom changes; the
        journal keeps everything.
        """
        if len(self.groups) > most:
            self.groups[:] = take_latest(self.groups, kept)
        if len(self.texts_by_turn) > most:
            del self.texts_by_turn[:-kept]


def load_history(tx: Tx, session: SessionRow) -> History:
    """The latest turns since the session was last cleared, in the order in which they ended;
    unreadable ones are left out.
    """
    history = History()
    ended = [row for row in reversed(tx.list_turns(session.id, TURNS)) if row.state == "ended"]
    rows = [row for row in ended if not is_cleared(row.started_at, session)]
    for row in sorted(rows, key=lambda row: row.ended_at or row.started_at):
        try:
            history.add(rebuild_turn(row.id, session.id, tx.list_events(row.id)))
        except UnreadableEvent as error:
            log.warning("turn %s is left out of what the model is shown: %s", row.id, error)
    return history


def is_cleared(began: datetime, session: SessionRow) -> bool:
    """A turn that began then is from before the session was last cleared."""
    return session.cleared_at is not None and began <= session.cleared_at


def load_parent(tx: Tx, turn_id: str) -> tuple[ChildRow | None, TurnSpec | None]:
    """The row that links the turn to its parent, and the spec that the parent began with."""
    child = tx.get_child(turn_id)
    if child is None:
        return None, None
    said = next((entry.event for entry in tx.list_events(child.parent)), None)
    return child, said.terms if isinstance(said, UserSaid) else TurnSpec()
