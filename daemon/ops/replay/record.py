"""A recorded turn that is run again: its place in the record, and the comparison of each event with
the one that was recorded.

Of two events of one kind all fields are compared, except these: `token_hash` and `expires` of a
question (random, and of the clock), `seconds` of a suspension (measured), and all of
HistoryCompressed (it depends on the sizes of earlier turns and of the system prompt). What comes
from outside is taken from the record, so it cannot differ.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import takewhile

from daemon.agent.turn_control import TurnControl
from daemon.core import value
from daemon.core.events import (
    ApprovalAsked,
    Event,
    HistoryCompressed,
    RecordedEvent,
    Steered,
    Suspended,
    TurnResumed,
    Verified,
)
from daemon.core.rows import InboxRow
from daemon.core.turn import Turn
from daemon.ops.replay.cuts import Cut, find_cut, find_seconds_asked

UNCOMPARED: Mapping[type, frozenset[str]] = {
    ApprovalAsked: frozenset(("token_hash", "expires")),
    Suspended: frozenset(("seconds",)),
    HistoryCompressed: frozenset(one.name for one in fields(HistoryCompressed)),
}
MOST_SHOWN, LEAD, MOST_TRIES = 100, 20, 3
NOTHING = "nothing"


@value
class FieldDifference:
    """One field, in both versions, shortened."""

    field: str
    recorded: str
    now: str


@value
class Difference:
    """The first event that came out otherwise. `kind` is the recorded one; where the kinds differ,
    the only field is "kind".
    """

    seq: int
    kind: str
    fields: tuple[FieldDifference, ...]


class Differs(Exception):
    """The loop did something else than what was recorded."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.kind)
        self.difference = difference


class RecordEnds(Exception):
    """The turn had come so far when it was read."""


class Resumed(Exception):
    """The worker was cut off here, and another one took the turn up."""


class StepCut(Exception):
    """What ran was left here: by a stop, or because the time was up."""


def compare(recorded: RecordedEvent, now: Event) -> Difference | None:
    """How the two differ; None where they do not."""
    was, kind = recorded.event, type(recorded.event)
    if type(now) is not kind:
        pair = _name(was), _name(now)
        return Difference(recorded.seq, kind.__name__, (FieldDifference("kind", *pair),))
    skipped = UNCOMPARED.get(kind, frozenset())
    found = [
        FieldDifference(one.name, *_shorten_pair(old, new))
        for one in fields(was)
        if one.name not in skipped
        and (old := getattr(was, one.name)) != (new := getattr(now, one.name))
    ]
    return Difference(recorded.seq, kind.__name__, tuple(found)) if found else None


def _name(event: Event) -> str:
    return _shorten(f"{type(event).__name__} {_describe(event)}".strip(), 0)


def _describe(event: Event) -> str:
    """What tells one event of a kind from another."""
    for name in ("reason", "kind", "check", "purpose", "tool", "detail"):
        if found := getattr(event, name, ""):
            return f"({found})"
    return ""


def _shorten_pair(old: object, new: object) -> tuple[str, str]:
    """Both from shortly before where they begin to differ."""
    texts = [str(old), str(new)]
    same = takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))
    begin = max(0, sum(1 for _ in same) - LEAD) if max(map(len, texts)) > MOST_SHOWN else 0
    return _shorten(texts[0], begin), _shorten(texts[1], begin)


def _shorten(text: str, begin: int) -> str:
    end = begin + MOST_SHOWN
    parts = "…" if begin else "", text[begin:end], "…" if text[end:] else ""
    return " ".join("".join(parts).split())


@dataclass(slots=True)
class RecordedControl(TurnControl):
    """What reached the turn from outside, as the record tells: texts that steer it, a stop, the end
    of its time.
    """

    timed_out_after: float = 0.0
    steps_at: tuple[int, int] = (-1, 0)
    in_step: bool = False
    ahead: bool = False
    turn: "ReplayedTurn | None" = None

    @property
    def active_seconds(self) -> float:
        """Nothing, until the record says that the time was up."""
        return self.timed_out_after

    @asynccontextmanager
    async def time_limit(self, max_seconds: float) -> AsyncIterator[None]:
        """Leave the body where the record says that it was left. Where the loop tries again and
        again at the same event, it waits for something that is not recorded: raises Differs.
        """
        assert self.turn
        (seq, tries), now = self.steps_at, self.turn.seq
        self.steps_at = now, tries + 1 if seq == now else 1
        if self.steps_at[1] > MOST_TRIES:
            raise Differs(self.turn.differ_from(NOTHING))
        self.in_step = True
        try:
            with suppress(StepCut):
                yield
        finally:
            self.in_step = False

    async def has_steers(self) -> bool:
        """Within a check of an answer: whether a text came while it was made."""
        return bool(self.steers) or (self.in_step and self.ahead)


@dataclass(slots=True)
class ReplayedTurn(Turn):
    """Compares each event with the record, and believes the recorded one. Writes nothing."""

    record_: Sequence[RecordedEvent] = ()
    cut: Cut | None = None
    control: RecordedControl = field(default_factory=lambda: RecordedControl(float))

    def begin(self) -> None:
        """Look at the record as a whole."""
        self.cut = find_cut([one.event for one in self.record_])
        self.renew_control()

    def renew_control(self) -> None:
        """A worker takes the turn up."""
        self.control = RecordedControl(float, turn=self)
        self._look()

    @property
    def next(self) -> RecordedEvent | None:
        """What was recorded next."""
        return self.record_[self.seq] if self.seq < len(self.record_) else None

    def peek(self) -> Event | None:
        """The same, without its place."""
        return self.next.event if self.next else None

    @property
    def is_cut(self) -> bool:
        """From here on there is only what ends a turn that was cut."""
        return self.cut is not None and self.seq >= self.cut.index

    def expect(self) -> Event:
        """What was recorded next, where the loop needs it. Raises RecordEnds and Resumed."""
        event = self.peek()
        if event is None:
            raise RecordEnds()
        if isinstance(event, TurnResumed):
            raise Resumed()
        return event

    def take(self) -> None:
        """Believe what was recorded next: it comes from outside."""
        if self.next:
            self.replay(self.next)
            self._look()

    def record(self, event: Event, at: datetime) -> RecordedEvent:
        """Raises Differs, RecordEnds and Resumed."""
        self.expect()
        assert self.next
        if found := compare(self.next, event):
            raise Differs(found)
        taken = self.next
        self.take()
        return taken

    async def commit(self) -> None:
        """Nothing is written."""

    def differ_from(self, now: str) -> Difference:
        """The loop does not do what was recorded next."""
        was = _name(self.next.event) if self.next else NOTHING
        kind = type(self.next.event).__name__ if self.next else ""
        return Difference(self.seq + 1, kind, (FieldDifference("kind", was, now),))

    def _look(self) -> None:
        """What has reached the turn by now."""
        control, first = self.control, self.peek()
        control.steers.clear()
        at, end = self.seq, len(self.record_)
        while at < end and isinstance(event := self.record_[at].event, Steered):
            control.steers.append(_make_row(event, self.session, self.record_[0].at))
            at += 1
        at = self.seq
        while at < end and isinstance(self.record_[at].event, Verified):
            at += 1
        control.ahead = at < end and isinstance(self.record_[at].event, Steered)
        control.cancel_reason = (
            self.cut.detail if self.cut and self.is_cut and self.cut.is_stop else ""
        )
        asked = find_seconds_asked(first) if first else None
        late = self.cut is not None and self.is_cut and self.cut.is_late
        control.timed_out_after = 0.0
        if asked is not None or late:
            control.timed_out_after = max(asked or 0.0, self.limits.max_seconds)


def _make_row(said: Steered, session: str, at: datetime) -> InboxRow:
    return InboxRow(
        said.input_id, "", "", "", session, said.sender, said.text, said.label, "", at,
        role=said.role, quoted=said.quoted,
    )  # fmt: skip
