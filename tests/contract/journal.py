"""Rows and short ways for tests of the journal."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from daemon.core.events import (
    Answer,
    ApprovalAnswered,
    ApprovalAsked,
    ChildSpawned,
    Event,
    Limits,
    ModelReplied,
    Outcome,
    RecordedEvent,
    Steered,
    Stop,
    ToolFinished,
    TurnEnded,
    UserSaid,
)
from daemon.core.messages import ToolCall, Usage
from daemon.core.rows import GrantRow, InboxRow, OutboxRow, SessionRow, TurnRow
from daemon.core.trust import Effect, Label
from daemon.store.journal import Store, Tx

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
HOME = "terminal:home"


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def session(name: str = HOME, channel: str = "terminal") -> SessionRow:
    return SessionRow(name, channel, "chat-1", Label.TRUSTED, NOW)


def message(
    name: str, *, session: str = HOME, turn: str = "", steers: str = "", state: str = "new"
) -> InboxRow:
    """An accepted message; its turn is called after it: message m1 begins turn t1."""
    own = turn or "t" + name[1:]
    return InboxRow(
        name,
        "terminal",
        "",
        f"x-{name}",
        session,
        "ann",
        "hello",
        Label.TRUSTED,
        own,
        NOW,
        steers,
        state,
    )


def turn(name: str, *, session: str = HOME, at: datetime = NOW) -> TurnRow:
    return TurnRow(name, session, "", "m" + name[1:], "running", Label.TRUSTED, at)


def notice(turn: str = "", part: int = -1, channel: str = "telegram") -> OutboxRow:
    return OutboxRow(turn, part, HOME, channel, "chat-1", "notice", "look", NOW)


def grant(name: str, session: str = HOME) -> GrantRow:
    return GrantRow(name, session, "shell", "hash", '{"command":"ls"}', "ann", NOW)


def said(name: str = "m1", label: Label = Label.TRUSTED) -> UserSaid:
    return UserSaid("hello", "ann", name, label, 0.5, Limits())


def steered(name: str, label: Label = Label.TRUSTED) -> Steered:
    return Steered("and this", "ann", name, label, 0.5)


def replied(*, calls: int = 0, usd: float | None = 0.25, model: str = "m") -> ModelReplied:
    asked = tuple(ToolCall(f"p{index}", "shell", "{}") for index in range(calls))
    return ModelReplied("text", asked, Usage(100, 10, 40, usd), "prov", model, "stop", 0.5)


def finished(label: Label = Label.TRUSTED) -> ToolFinished:
    return ToolFinished("2.0", "shell", Outcome.OK, "out", Effect.READ, 0.3, label)


def asked(call_id: str = "2.0", expires: datetime | None = None) -> ApprovalAsked:
    return ApprovalAsked(
        call_id,
        "shell",
        '{"command":"rm ä"}',
        "hash",
        Effect.DESTRUCTIVE,
        "token",
        expires or after(60),
    )


def answered(answer: Answer, call_id: str = "2.0") -> ApprovalAnswered:
    return ApprovalAnswered(call_id, answer, "ann", "because")


CHILD = "sub-1-c"
LIMITS = Limits(max_iterations=3, max_seconds=2.5, max_input_tokens=700, max_usd=0.125)


def spawned(
    name: str = "t2",
    *,
    key: str = "2.0",
    where: str = CHILD,
    report: str = "",
    label: Label = Label.TRUSTED,
) -> ChildSpawned:
    """An agent set to work on turn `name`, in a session of its own."""
    own = "m" + name[1:]
    return ChildSpawned(
        key,
        name,
        where,
        own,
        "digger",
        "dig here",
        "ann",
        label,
        LIMITS,
        1,
        max_chars=20,
        report=report,
    )


def ended(reply: str = "bye", reason: Stop = Stop.DONE) -> TurnEnded:
    return TurnEnded(reason, "in words", reply)


def begin_child(tx: Tx, name: str = "t2", where: str = CHILD) -> int:
    """A worker takes the child's message up; gives the epoch."""
    epoch = tx.claim_session(where, "worker")
    tx.begin_turn(replace(turn(name, session=where), agent="digger", parent="t1"), epoch)
    return epoch


def recorded(*events: Event, first: int = 1, at: datetime = NOW) -> list[RecordedEvent]:
    return [RecordedEvent(seq, at, event) for seq, event in enumerate(events, first)]


def begin(tx: Tx, name: str = "t1", *, where: str = HOME, channel: str = "terminal") -> int:
    """A session, its message and its turn, in one go; gives the epoch."""
    if tx.get_session(where) is None:
        tx.put_session(session(where, channel))
    tx.accept_input(message("m" + name[1:], session=where))
    epoch = tx.claim_session(where, "worker")
    tx.begin_turn(turn(name, session=where), epoch)
    return epoch


async def begun(store: Store, *events: Event, channel: str = "terminal", where: str = HOME) -> int:
    """The same, with these events."""

    def work(tx: Tx) -> int:
        epoch = begin(tx, channel=channel, where=where)
        tx.append_events(where, epoch, "t1", recorded(*events))
        return epoch

    return await store.write(work)


async def add(
    store: Store, epoch: int, *events: Event, first: int, name: str = "t1", at: datetime = NOW
) -> None:
    await store.write(
        lambda tx: tx.append_events(HOME, epoch, name, recorded(*events, first=first, at=at))
    )
