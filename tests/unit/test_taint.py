"""Where text from outside came into a turn (F3): shown by `show`, given as the reason by /status."""

import pytest

from daemon.core.events import (
    ChildReturned,
    Event,
    HistoryCompressed,
    Limits,
    MemoryHit,
    Outcome,
    RecordedEvent,
    Steered,
    ToolFinished,
    UserSaid,
)
from daemon.core.provenance import find_taint
from daemon.core.trust import Effect, Label
from tests.fakes.tools import NOON

OUT = Label.UNTRUSTED


def said(
    label: Label = Label.TRUSTED,
    before: Label = Label.TRUSTED,
    memories: tuple[MemoryHit, ...] = (),
) -> UserSaid:
    return UserSaid("hello", "me", "i", label, 0.5, Limits(), memories, before=before)


def result(label: Label) -> ToolFinished:
    return ToolFinished("2.0", "web_fetch", Outcome.OK, "text", Effect.FETCH, 0.5, label)


@pytest.mark.parametrize(
    ("events", "seq", "by"),
    [
        ([said(OUT)], 1, "the message itself came from outside"),
        ([said(before=OUT)], 1, "earlier turns of this chat had read text from outside"),
        (
            [said(memories=(MemoryHit("m", "buy  milk", OUT),))],
            1,
            "a memory from outside: buy milk",
        ),
        ([said(), result(Label.TRUSTED), result(OUT), result(OUT)], 3, "the result of web_fetch"),
        ([said(), Steered("x", "eve", "i2", OUT, 0.5)], 2, "a message from outside"),
        (
            [said(), ChildReturned("step.1", "t2", "done", "x", OUT)],
            2,
            "the answer of another agent (step.1)",
        ),
        (
            [said(), HistoryCompressed("periodic-summary", 9, 1, 0, summary="s", label=OUT)],
            2,
            "a summary of text from outside",
        ),
    ],
)
def test_F3_the_first_thing_from_outside_is_named(events: list[Event], seq: int, by: str) -> None:
    found = find_taint([RecordedEvent(place, NOON, event) for place, event in enumerate(events, 1)])
    assert found is not None
    assert (found.seq, found.by) == (seq, by)


def test_a_turn_that_saw_nothing_from_outside_has_no_such_place() -> None:
    assert (
        find_taint([RecordedEvent(1, NOON, said()), RecordedEvent(2, NOON, result(Label.TRUSTED))])
        is None
    )
