"""The hub: who is shown what of a running turn."""

from datetime import UTC, datetime

from daemon.core.event_bus import BACKLOG, DraftDropped, EventBus, LiveItem, Quarantined, TextDelta
from daemon.core.events import RecordedEvent, Stop, TurnEnded

ENDED = RecordedEvent(1, datetime(2026, 1, 1, tzinfo=UTC), TurnEnded(Stop.DONE, "", "ok"))


def is_recorded(glimpse: LiveItem) -> bool:
    return isinstance(glimpse, RecordedEvent)


async def test_who_waits_for_one_thing_is_shown_nothing_else_and_makes_nobody_write_drafts() -> (
    None
):
    live = EventBus()
    with live.subscribe("t", is_recorded) as seen:
        assert not live.is_watched("t")
        live.publish("t", TextDelta("o"))
        live.publish("t", ENDED)
        assert await seen.get() is ENDED


async def test_one_who_watches_everything_is_enough_for_them_to_be_written() -> None:
    live = EventBus()
    with live.subscribe("t", is_recorded), live.subscribe("t") as seen:
        assert live.is_watched("t")
        live.publish("t", TextDelta("o"))
        live.publish("t", ENDED)
        shown: list[LiveItem] = [await seen.get(), await seen.get()]
        assert shown == [TextDelta("o"), ENDED]
    assert not live.is_watched("t")


async def test_a_watcher_that_falls_far_behind_loses_drafts_but_hears_of_the_end() -> None:
    live = EventBus()
    with live.subscribe("t") as seen:
        for _ in range(BACKLOG + 5):
            live.publish("t", TextDelta("o"))
        live.publish("t", ENDED)
        shown = [await seen.get() for _ in range(BACKLOG + 1)]
        assert shown[-1] is ENDED


async def first_shown(live: EventBus, then: LiveItem) -> LiveItem:
    """What a watcher who comes now is shown first, if the next thing to happen is `then`."""
    with live.subscribe("t") as seen:
        live.publish("t", then)
        return await seen.get()


async def test_who_comes_in_the_middle_of_a_draft_sees_its_beginning_and_never_an_old_one() -> None:
    live = EventBus()
    live.publish("t", TextDelta("Hel", 2))
    live.publish("t", TextDelta("lo", 2))
    assert await first_shown(live, DraftDropped()) == TextDelta("Hello", 2)
    live.publish("t", TextDelta("Good", 2))
    assert await first_shown(live, ENDED) == TextDelta("Good", 2)
    assert await first_shown(live, Quarantined("over")) == Quarantined("over")
