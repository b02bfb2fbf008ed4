"""Kill -9 around permissions that are used up, events of strangers, and pinned rules (A13, A15, A16, F5; B5)."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
import pytest_asyncio

from daemon.core.events import ApprovalAnswered, CallJudged, Event
from daemon.core.trust import Decision
from tests.e2e.crash.moments import Notebook
from tests.e2e.crash.person import TIMES, Said
from tests.e2e.crash.remains import Remains, Row
from tests.e2e.crash.stranger import listening
from tests.e2e.crash.sweep import (
    ROLLED_BACK,
    ended,
    every_moment,
    in_a_copy,
    some_moments,
    tell,
    told,
    unseen,
)
from tests.e2e.crash.world import World, world

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT, OTHER = "terminal:a", "terminal:b"
RULE = "/rules add never pay anybody"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def killed() -> AsyncIterator[World]:
    async with world() as it:
        yield it


def paid(it: Remains) -> int:
    return sum(line["tool"] == "pay" for line in it.outside.effects.lines())


async def test_a15_whenever_it_is_killed_a_permission_for_two_times_is_for_two_calls(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """K7: the first call is asked about, the next two are not, the fourth is again; nothing is used up in vain."""
    began, before = monotonic(), killed.kills
    plan = {CHAT: [Said("a", "[{0}a pay pay+pay+pay]")]}
    ends = await every_moment(killed, told(killed, tmp_path, plan), ROLLED_BACK)
    assert {(len(it.grants), len(it.uses), len(it.approvals)) for it in ends} == {(1, TIMES, 2)}
    assert {paid(it) for it in ends} == {3, 4}
    tell(capsys, "two times", killed.kills - before, began)


async def test_a15_conversations_that_race_for_the_last_use_of_a_permission_get_it_once(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, before = monotonic(), killed.kills
    plan = {
        session: [Said(session[-1], "[{0}" + session[-1] + " pay pay pay]")]
        for session in (CHAT, OTHER)
    }
    ends = await some_moments(killed, told(killed, tmp_path, plan), 12, seed=15)
    assert all(len(it.uses) == TIMES * len(it.grants) for it in ends)
    tell(capsys, "a race for two times", killed.kills - before, began)


async def test_a16_an_event_is_handled_once_whenever_the_daemon_is_killed_however_often_it_is_sent(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A13, K2, #15, #16: what it wants done is asked of the owner, who is told once what came of it."""
    began, before = monotonic(), killed.kills
    killed.places.clear()
    plan = {CHAT: [Said("e", "[{0}e look send]", stranger=True)]}
    born = told(killed, tmp_path, plan, config=listening(CHAT))
    ends = await every_moment(killed, born, but="")
    # The sender and the daemon pass moments at once: a count may miss the sender's, a name does not.
    ends += await ended(killed, [[replace(born(), die_in="after an event was taken")]])
    assert {len(it.approvals) for it in ends} == {1}
    sent = {"before an event is sent", "after an event was taken"}
    assert sent | {"while a question is open", "before send"} <= set(killed.places)
    tell(capsys, "an event", killed.kills - before, began)


async def test_a16_events_and_a_conversation_leave_each_other_alone_whatever_is_killed(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, before = monotonic(), killed.kills
    events = [
        Said(f"e{n}", "[{0}e" + str(n) + " send]", at_once=True, stranger=True) for n in range(2)
    ]
    plan = {CHAT: [*events, Said("c", "[{0}c note]", at_once=True)]}
    ends = await some_moments(
        killed, told(killed, tmp_path, plan, config=listening(CHAT)), 10, seed=16
    )
    assert {len(it.turns) for it in ends} == {3}
    tell(capsys, "events and a chat", killed.kills - before, began)


async def test_f5_a_rule_that_was_told_as_kept_holds_whenever_the_daemon_is_killed(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, before = monotonic(), killed.kills
    plan = {CHAT: [Said("r", RULE), Said("a", "[{0}a pay]")]}
    ends = await every_moment(killed, told(killed, tmp_path, plan))
    assert {paid(it) for it in ends} == {0}
    tell(capsys, "a rule", killed.kills - before, began)


Spoil = Callable[[Remains], Remains]


def noted(name: str, **line: str) -> Spoil:
    """One more line in a notebook outside."""
    return lambda it: in_a_copy(it, lambda folder: Notebook(folder / name).note(**line))


def granted(**change: str) -> Spoil:
    return lambda it: replace(it, grants=[row | change for row in it.grants])


def used(it: Remains, *calls: str) -> Remains:
    """These calls too."""
    return replace(
        it, uses=[*it.uses, *({"call": call, "grant_id": it.grants[0]["id"]} for call in calls)]
    )


def asked(it: Remains) -> str:
    """A call that a person said yes to."""
    row = next(row for row in it.approvals if row["tool"] == "pay")
    return f"{row['turn']}/{row['call_id']}"


def event(it: Remains) -> Row:
    return next(row for row in it.inbox if row["channel"] == "event")


def two_turns(it: Remains) -> Remains:
    name = event(it)["turn"]
    return replace(
        it, turns=it.turns | {"x": it.turns[name]}, events=it.events | {"x": it.events[name]}
    )


def elsewhere(it: Remains) -> Remains:
    own = event(it)["turn"]
    return replace(
        it, outbox=[row | {"session": OTHER} if row["turn"] == own else row for row in it.outbox]
    )


def without(it: Remains, kind: type[Event]) -> Remains:
    """As if such a thing had never happened."""
    return replace(
        it,
        events={
            turn: [one for one in them if not isinstance(one.event, kind)]
            for turn, them in it.events.items()
        },
    )


WRONGS: dict[str, tuple[Spoil, str]] = {
    "a use is not counted": (granted(uses_left="1"), "1 left"),
    "a permission is used up by nobody": (lambda it: replace(it, uses=it.uses[1:]), "used by 1"),
    "a call uses it twice": (lambda it: used(it, it.uses[0]["call"]), "permissions were used by"),
    "a use is for nothing": (lambda it: used(it, "nobody/1.0"), "permissions were used by"),
    "an effect is allowed by nobody": (lambda it: replace(it, uses=[]), "allowed by nobody"),
    "an effect is allowed twice": (lambda it: used(it, asked(it)), "allowed twice"),
    "there are more effects than it is for": (
        lambda it: replace(it, grants=[]),
        "0 permissions are for",
    ),
    "an event comes twice": (lambda it: replace(it, inbox=[*it.inbox, event(it)]), "the inbox has"),
    "an event is lost": (
        lambda it: replace(it, inbox=[row for row in it.inbox if row != event(it)]),
        "the inbox has",
    ),
    "an event becomes something else the next time": (
        lambda it: noted(
            "strangers", client=event(it)["external_id"][4:], session="event_x", turn="x"
        )(it),
        "its sender was told",
    ),
    "an event has two turns": (two_turns, "with 2 turns"),
    "what came of an event is told twice": (
        lambda it: replace(it, outbox=[*it.outbox, *it.outbox]),
        "was answered with",
    ),
    "what came of an event is told to somebody else": (elsewhere, "was answered with"),
    "what came of an event is not shown": (
        lambda it: in_a_copy(it, lambda folder: (folder / "shown").write_text("")),
        "was shown as set()",
    ),
    "an event acts unasked": (lambda it: without(it, ApprovalAnswered), "happened with 0 yeses"),
}


async def test_the_check_sees_every_kind_of_wrong_done_to_permissions_and_events_a15_a16(
    killed: World, tmp_path: Path
) -> None:
    plan = {
        OTHER: [Said("a", "[{0}a pay pay pay]")],
        CHAT: [Said("e", "[{0}e send]", stranger=True)],
    }
    (it,) = await ended(killed, [[told(killed, tmp_path, plan, config=listening(CHAT))()]])
    assert unseen(WRONGS, it) == []


def let_through(it: Remains) -> Remains:
    def spoilt(event: Event) -> Event:
        return replace(event, decision=Decision.ALLOW) if isinstance(event, CallJudged) else event

    events = {
        turn: [replace(one, event=spoilt(one.event)) for one in them]
        for turn, them in it.events.items()
    }
    return replace(it, events=events)


WRONG_RULES: dict[str, tuple[Spoil, str]] = {
    "a rule is forgotten": (lambda it: replace(it, rules=[]), "kept is {}"),
    "a rule is kept as another": (
        lambda it: replace(
            it, rules=[replace(row, said=row.said.replace("never", "always")) for row in it.rules]
        ),
        "/rules add never pay anybody' was told",
    ),
    "a rule is not obeyed": (
        lambda it: noted("effects", turn=next(iter(it.turns)), call="3.0", tool="pay", text="x")(
            it
        ),
        "a rule forbids it, and ['x'] happened",
    ),
    "a rule is not looked at": (let_through, "a rule forbids it"),
}


async def test_the_check_sees_every_kind_of_wrong_done_to_rules_f5(
    killed: World, tmp_path: Path
) -> None:
    (it,) = await ended(
        killed, [[told(killed, tmp_path, {CHAT: [Said("r", RULE), Said("a", "[{0}a pay]")]})()]]
    )
    assert unseen(WRONG_RULES, it) == []
