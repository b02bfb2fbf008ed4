"""What a session said before: measured, hashed and repaired once per turn, the same bytes in every
prompt (A5, B4).

A repaired history is acceptable to any provider (A9, E8). Calls and results belong together by
place, not by id: some servers use the same id every time. Results stand directly behind the
assistant message that asked for them. No user text is ever lost.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain, pairwise
from operator import attrgetter

from daemon.core import value
from daemon.core.events import MemoryHit, RecordedEvent, Steered, Todo, TodosSet, UserSaid
from daemon.core.messages import PICTURE_TOKENS, Message, MessageRole, defuse
from daemon.core.provenance import SourcedText, collect_texts
from daemon.core.rows import GOAL_CHANNEL, GOAL_DONE, ChildRow, SessionRow
from daemon.core.trust import OWNER_NAME, Label, Sources, join_all, join_sources
from daemon.core.turn import EventSink, Turn
from daemon.core.turn_spec import TurnSpec
from daemon.store.codec import UnreadableEvent
from daemon.store.journal import Tx
from daemon.store.posting import begins_by_itself
from daemon.store.tables.sessions import SHOWN_TURNS, is_cleared
from daemon.tools.calls import truncate_middle

log = logging.getLogger(__name__)
CHARS_PER_TOKEN = 4
GET_PATH = attrgetter("path")
AROUND_A_CALL, ENVELOPE = 32, 16
DUE_PERCENT = 80
REFLECTION = "reflection"
SALIENT, PINNED_SHARE, PINNED_TURNS, MAX_PINNED_CHARS = 0.8, 8, 300, 1000
PINNED = "<earlier>\nSaid earlier, and kept because it is important:\n{}\n</earlier>"
STRIPPED = "[a tool call that was cut off]"
ENCODING = ("utf-8", "surrogatepass")


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Four bytes a token, and a few for the envelope."""
    size = 0
    for message in messages:
        parts = [message.text]
        for call in message.calls:
            parts += (call.name, call.arguments)
        own = ENVELOPE * (1 + len(message.calls)) + len("".join(parts).encode(*ENCODING))
        own += PICTURE_TOKENS * CHARS_PER_TOKEN * len(message.pictures)
        size += max(own, len(message.native.blocks)) if message.native else own
    return size // CHARS_PER_TOKEN


def estimate_max_tokens(messages: Sequence[Message], estimated: int) -> int:
    """The most that a request can take: for other scripts, and the provider's form of each call
    and result, on top of 4/3 of the estimate.
    """
    wide = calls = 0
    for message in messages:
        calls += len(message.calls)
        if not message.text.isascii():
            wide += len(message.text.encode(*ENCODING)) - len(message.text)
    return estimated * 4 // 3 + wide // 3 + AROUND_A_CALL * calls


def is_nearly_full(tokens: int, window: int) -> bool:
    """What would be sent has come to 80 % of the window (B4)."""
    return tokens * 100 >= window * DUE_PERCENT


def feed_messages(digest: blake2b, messages: Sequence[Message]) -> blake2b:
    """Add exactly these messages to the digest."""
    for message in messages:
        parts = [message.role, message.text, message.provider_id]
        for call in message.calls:
            parts += (call.provider_id, call.name, call.arguments)
        parts += map(GET_PATH, message.pictures)
        digest.update("\0".join((*parts, "")).encode(*ENCODING))
    return digest


def repair(history: Sequence[Message]) -> list[Message]:
    """Merge same-role neighbours; drop orphan results and strip orphan calls, so that each call
    stands before its result; merge again. Twice is the same as once.
    """
    history, sound = merge(history), list[Message]()
    index = 0
    while index < len(history):
        message = history[index]
        index += 1
        if message.role is MessageRole.TOOL:
            continue
        results: list[Message] = []
        while index < len(history) and history[index].role is MessageRole.TOOL:
            results.append(history[index])
            index += 1
        calls, paired = [], []
        for call in message.calls:
            ids = [result.provider_id for result in results]
            if call.provider_id in ids:
                calls.append(call)
                paired.append(results.pop(ids.index(call.provider_id)))
        if len(calls) < len(message.calls):
            message = replace(message, calls=tuple(calls), native=None)
        if message.text or message.calls:
            sound.append(message)
        elif message.role is MessageRole.ASSISTANT:
            sound.append(replace(message, text=STRIPPED, native=None))
        sound += paired
    return merge(sound)


def merge(history: Sequence[Message]) -> list[Message]:
    """Neighbours of the same role become one message, their tool calls one list; tool results stay
    single.
    """
    merged: list[Message] = []
    for message in history:
        if merged and merged[-1].role is message.role is not MessageRole.TOOL:
            last = merged[-1]
            text = "\n\n".join(part for part in (last.text, message.text) if part)
            label, calls = last.label.join_with(message.label), last.calls + message.calls
            pictures = last.pictures + message.pictures
            merged[-1] = replace(
                last, text=text, calls=calls, label=label, native=None, pictures=pictures
            )
        else:
            merged.append(message)
    return merged


@value
class TurnMessages:
    """One turn that ended, or the summary of turns that are left out: repaired, measured and
    hashed once. `pins`: what of it stays when the turn is left out (A5).
    """

    messages: tuple[Message, ...]
    tokens: int
    digest: bytes
    label: Label
    pins: tuple[str, ...] = ()

    @classmethod
    def of(cls, messages: Sequence[Message], pins: tuple[str, ...] = ()) -> "TurnMessages":
        """Of the messages as they were said."""
        sound = tuple(repair(messages))
        digest = feed_messages(blake2b(digest_size=12), sound).digest()
        label = join_all(message.label for message in sound)
        return cls(sound, estimate_tokens(sound), digest, label, pins)


def find_pins(important: Sequence[UserSaid | Steered]) -> tuple[str, ...]:
    """What the owner typed and nobody else may have written: it stays when its turn is left out
    (A5).
    """
    return tuple(
        truncate_middle(one.text, MAX_PINNED_CHARS)
        for one in important
        if one.label is Label.TRUSTED
        and one.role == OWNER_NAME
        and not (one.quoted or (isinstance(one, UserSaid) and one.composed))
    )


@value
class HistoryWindow:
    """All turns of a session that are shown, behind the summary of what was before them, and behind
    what is pinned of it (A5).
    """

    groups: tuple[TurnMessages, ...] = ()
    summary: TurnMessages | None = None
    messages: tuple[Message, ...] = ()
    tokens: int = 0
    digest: bytes = b""
    pins: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        groups: Sequence[TurnMessages],
        summary: TurnMessages | None = None,
        pins: tuple[str, ...] = (),
    ) -> "HistoryWindow":
        """Of these, oldest first."""
        text = PINNED.format("\n".join(f"- {pin}" for pin in pins))
        pinned = TurnMessages.of((Message(MessageRole.USER, text),)) if pins else None
        shown = [group for group in (pinned, summary, *groups) if group and group.messages]
        messages = tuple(chain.from_iterable(group.messages for group in shown))
        if not all(meet_well(left.messages, right.messages) for left, right in pairwise(shown)):
            messages = tuple(repair(messages))
        digest = b"".join(group.digest for group in shown)
        tokens = sum(one.tokens for one in shown)
        return cls(tuple(groups), summary, messages, tokens, digest, pins)

    def shows(self, text: str) -> bool:
        """It stands in what is shown."""
        return any(text in one.text for one in self.messages)

    def after_compaction(self, turn: Turn) -> "HistoryWindow":
        """What a turn's compression left of it."""
        if turn.kept_earlier is None and turn.summary is None:
            return self
        summary = TurnMessages.of((turn.summary,)) if turn.summary else self.summary
        groups, pins = take_latest(self.groups, turn.kept_earlier, self.pins, turn.spec.window)
        return HistoryWindow.of(groups, summary, pins)


def take_latest(
    groups: Sequence[TurnMessages], kept: int | None, pins: tuple[str, ...], window: int
) -> tuple[tuple[TurnMessages, ...], tuple[str, ...]]:
    """The last `kept` of them, or as many as there are, None is all; and what stays of all before
    them: the latest pins that take an eighth of the window.
    """
    first = 0 if kept is None else max(0, len(groups) - kept)
    stay, room = list[str](), window * CHARS_PER_TOKEN // PINNED_SHARE
    for pin in reversed((*pins, *chain.from_iterable(one.pins for one in groups[:first]))):
        if pin in stay:
            continue
        room -= len(pin.encode(*ENCODING)) + ENVELOPE
        if room < 0:
            break
        stay.insert(0, pin)
    return tuple(groups[first:]), tuple(stay)


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

    `texts_by_turn` tells who wrote what; compression takes nothing from it. `plan` is the todo list
    as the model wrote it last, `plan_age` how many turns ago. `label` and `private` are those of
    all that was said since it was cleared: nothing of them ages out.
    """

    groups: list[TurnMessages] = field(default_factory=list)
    summary: TurnMessages | None = None
    pins: tuple[str, ...] = ()
    offers: dict[str, None] = field(default_factory=dict)
    reflection: MemoryHit | None = None
    texts_by_turn: list[tuple[SourcedText, ...]] = field(default_factory=list)
    plan: tuple[Todo, ...] = ()
    plan_age: int = 0
    label: Label = Label.TRUSTED
    private: Sources = ()
    _window: HistoryWindow | None = None

    @property
    def texts(self) -> tuple[SourcedText, ...]:
        """Everything that was said, oldest first."""
        return tuple(chain.from_iterable(self.texts_by_turn))

    @property
    def window(self) -> HistoryWindow:
        """As the next turn is shown it."""
        if self._window is None:
            self._window = HistoryWindow.of(self.groups, self.summary, self.pins)
        return self._window

    def add(self, turn: Turn) -> None:
        """The turn has ended: later turns see it, and what it left of those before it (B4). Memory
        stays bounded: many turns go at once, so that the prefix seldom changes.
        """
        self._window = None
        if turn.kept_earlier is not None:
            self._keep_latest(turn.kept_earlier, turn.spec.window)
        if turn.summary:
            self.summary = TurnMessages.of((turn.summary,))
        messages, end = list(turn.messages), turn.ended
        given = end.reply if end else ""
        if given and given != turn.answer and given != defuse(turn.answer):
            messages.append(Message(MessageRole.ASSISTANT, given, label=turn.label))
        said = [one.event for one in turn.events if isinstance(one.event, UserSaid | Steered)]
        typed = not begins_by_itself(turn.session)
        important = [one for one in said if typed and one.importance >= SALIENT]
        self.groups.append(TurnMessages.of(messages, find_pins(important) if important else ()))
        self.label = join_all((self.label, turn.label))
        self.private = join_sources((self.private, turn.private))
        self.texts_by_turn.append(collect_texts(turn))
        self.offers |= dict.fromkeys(turn.offered_tools)
        self.reflection = None
        if turn.todos or self.plan:
            self._take_plan(turn)
        for one in turn.consultations:
            if one.purpose == REFLECTION and one.text:
                hit = MemoryHit(f"reflection:{turn.id}", one.text, turn.label, owned=False)
                self.reflection = hit  # what the model thinks of it is nobody's word
        if len(self.texts_by_turn) > 2 * SHOWN_TURNS:
            del self.texts_by_turn[:-SHOWN_TURNS]
        if len(self.groups) > 2 * SHOWN_TURNS:
            self._keep_latest(SHOWN_TURNS, turn.spec.window)

    def _keep_latest(self, kept: int, window: int) -> None:
        self.groups[:], self.pins = take_latest(self.groups, kept, self.pins, window)

    def _take_plan(self, turn: Turn) -> None:
        wrote = any(isinstance(one.event, TodosSet) and one.event.call_id for one in turn.events)
        self.plan_age = 0 if wrote else self.plan_age + 1
        if wrote or turn.todos:
            self.plan = turn.todos


def load_history(tx: Tx, session: SessionRow) -> History:
    """The latest turns since the session was last cleared, in the order in which they ended;
    unreadable ones are left out; what is pinned of those before them. A goal's knows the tool that
    ends it.
    """
    history = History(offers={GOAL_DONE: None} if session.channel == GOAL_CHANNEL else {})
    latest = tx.list_turns(session.id, SHOWN_TURNS)
    rows = [
        row
        for row in reversed(latest)
        if row.state == "ended" and not is_cleared(row.started_at, session)
    ]
    window = TurnSpec().window
    if len(latest) == SHOWN_TURNS:
        older = tx.list_salient(session, SALIENT, shown=SHOWN_TURNS, limit=PINNED_TURNS)
        history.pins = () if begins_by_itself(session.id) else find_pins(older)
    for row in sorted(rows, key=lambda row: row.ended_at or row.started_at):
        history.label = join_all((history.label, row.label))
        history.private = join_sources((history.private, row.private))
        try:
            turn = rebuild_turn(row.id, session.id, tx.list_events(row.id))
            history.add(turn)
            window = turn.spec.window
        except UnreadableEvent as error:
            log.warning("turn %s is left out of what the model is shown: %s", row.id, error)
    if history.pins:
        _, history.pins = take_latest((), None, history.pins, window)
    return history


def load_parent(tx: Tx, turn_id: str) -> tuple[ChildRow | None, TurnSpec | None]:
    """The row that links the turn to its parent, and the spec of the parent."""
    child = tx.get_child(turn_id)
    if child is None:
        return None, None
    return child, rebuild_turn(child.parent, "", tx.list_events(child.parent)).spec
