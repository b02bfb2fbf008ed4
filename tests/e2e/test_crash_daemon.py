"""Kill -9 around what the house itself asks people, and around shorter histories (F2, E10, B4, D7, F1; B5)."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from time import monotonic

import pytest
import pytest_asyncio

from daemon.core.events import (
    ApprovalAnswered,
    BudgetRaised,
    HistoryCompressed,
    ModelAsked,
    ModelReplied,
)
from daemon.core.trust import Answer
from tests.e2e.crash.life import Life
from tests.e2e.crash.model import is_summary
from tests.e2e.crash.person import Said
from tests.e2e.crash.promises import broken
from tests.e2e.crash.promises_daemon import talk
from tests.e2e.crash.remains import Remains
from tests.e2e.crash.sweep import Born, ended, every_moment, some_moments, tell
from tests.e2e.crash.world import World, world
from tests.fakes.openai import Asked

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENOUGH_FOR_ONE = 700  # tokens: for one request and not for two
LONG = 70
WINDOW = {"context_window": 4000, "max_iterations": 25}
REVIEWED = {"verify": [{"kind": "manual"}]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def killed() -> AsyncIterator[World]:
    async with world() as it:
        yield it


def told(
    killed: World, folder: Path, *texts: str, agent: Mapping[str, object], **more: object
) -> Born:
    """Daemons that are told these, each in a place of its own, all with the same words: so that what they ask can be compared."""

    def born() -> Life:
        place, _ = killed.place(folder)
        said = [Said(f"q{n}", f"[q{n} {text}]".replace(" ]", "]")) for n, text in enumerate(texts)]
        life = Life(str(place), killed.model.base_url, {"terminal:a": said}, agent=agent)
        return replace(life, **more)  # type: ignore[arg-type] # fields of a Life

    return born


def raised(it: Remains) -> list[BudgetRaised]:
    return [one for turn in it.turns for one in it.of(turn, BudgetRaised)]


async def test_f2_whenever_it_is_killed_a_turn_that_asks_for_more_budget_asks_once_and_gets_it_once(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """K15, #16. What was reserved for a call that a kill cut off is spent: such a turn may have to ask a second time."""
    began, before = monotonic(), killed.kills
    killed.places.clear()
    agent = {"on_budget": "ask", "max_input_tokens": ENOUGH_FOR_ONE}
    ends = await every_moment(killed, told(killed, tmp_path, "note", agent=agent))
    assert {len(raised(it)) for it in ends} == {1, 2}
    assert {"while a question is open", "after a question was answered", "within a commit"} <= set(
        killed.places
    )
    tell(capsys, "more budget", killed.kills - before, began)


async def test_f2_more_for_the_day_is_asked_for_once_and_still_holds_after_a_kill(
    killed: World, tmp_path: Path
) -> None:
    """Once for what is missing."""
    config = {"budget": {"daily_tokens": 1050}}
    ends = await some_moments(
        killed, told(killed, tmp_path, "look note", agent={}, config=config), 8, seed=3
    )
    for it in ends:  # what a kill cut off counts as spent, so more may be missing a second time
        cut_off = sum(
            len(it.of(turn, ModelAsked)) - len(it.of(turn, ModelReplied)) for turn in it.turns
        )
        assert [one.day_tokens for one in raised(it)] in ([1050], [1050] * (1 + cut_off))


async def test_e10_whenever_it_is_killed_each_answer_is_looked_at_once(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """K15, #16: the person says no to the first answer, and yes to the second."""
    began, before = monotonic(), killed.kills
    ends = await every_moment(killed, told(killed, tmp_path, "", agent=REVIEWED, doubts=1))
    answers = [[row["answer"] for row in it.approvals] for it in ends]
    assert all(given == [Answer.DENY, Answer.ONCE] for given in answers if len(given) == 2)
    assert sum(len(given) == 2 for given in answers) >= len(ends) - 1, (
        "but for one who forgot at the kill that it had said no"
    )
    tell(capsys, "reviews", killed.kills - before, began)


async def reference(killed: World, born: Born) -> Remains:
    """What becomes of it when nobody kills it."""
    (it,) = await ended(killed, [[born()]])
    assert any(it.of(turn, HistoryCompressed) for turn in it.turns)
    return it


def hashes(it: Remains) -> list[str]:
    """What each request was, by its event; one that was asked again is the same one."""
    asked = [one.prompt_hash for turn in it.turns for one in it.of(turn, ModelAsked)]
    return [value for value, _ in groupby(asked)]


@pytest.mark.parametrize("strategy", ["rolling-window", "periodic-summary"])
async def test_b4_whenever_it_is_killed_the_model_is_shown_what_it_would_have_been_shown(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str
) -> None:
    """A5, D7, K5, #6: the same requests, to the byte, in the turn that got shorter and in the one after it."""
    began, before = monotonic(), killed.kills
    agent = {**WINDOW, "summary_strategy": strategy}
    born = told(killed, tmp_path, "look look look look", "look", agent=agent, long_looks=LONG)
    whole = await reference(killed, born)
    ends = await (
        every_moment(killed, born)
        if strategy == "periodic-summary"
        else some_moments(killed, born, 12, seed=7)
    )
    assert [
        it.outside.folder.name
        for it in ends
        if (talk(it), hashes(it)) != (talk(whole), hashes(whole))
    ] == []
    tell(capsys, strategy, killed.kills - before, began)


@pytest.mark.parametrize("how", ["arrived", "midway"])
async def test_b4_a_kill_while_a_model_sums_up_has_it_sum_up_again(
    killed: World, tmp_path: Path, how: str
) -> None:
    agent = {**WINDOW, "summary_strategy": "periodic-summary"}
    born = told(killed, tmp_path, "look look look look", "look", agent=agent, long_looks=LONG)
    whole = await reference(killed, born)
    number = 1 + next(n for n, one in enumerate(whole.requests) if is_summary(one.body))
    (it,) = await ended(killed, [[replace(born(), die_asking=f"{how}:{number}")]])
    assert (talk(it), hashes(it)) == (talk(whole), hashes(whole))
    assert sum(is_summary(one.body) for one in it.requests) == 1 + sum(
        is_summary(one.body) for one in whole.requests
    )


def again(it: Remains, kind: type) -> Remains:
    """The first event of this kind stands in its turn twice."""
    events = {
        turn: [*them, *[one for one in them if isinstance(one.event, kind)][:1]]
        for turn, them in it.events.items()
    }
    return replace(it, events=events)


def unseen_words(it: Remains) -> Remains:
    """As if the model had not been shown what was said."""
    blind = [
        replace(one, body={"messages": [{"role": "user", "content": "[somebody]"}]})
        for one in it.requests
    ]
    return replace(it, requests=blind)


def unlooked(it: Remains) -> Remains:
    """As if nobody had said yes to the answer."""
    kept = {
        turn: [
            one
            for one in them
            if not (
                isinstance(one.event, ApprovalAnswered) and one.event.call_id.startswith("review")
            )
        ]
        for turn, them in it.events.items()
    }
    return replace(it, events=kept)


def summed_up(one: Asked) -> Asked:
    """As if this had been a question beside the loop."""
    return replace(one, body={"messages": [{"role": "system", "content": "You keep the record"}]})


WRONGS: dict[str, tuple[Callable[[Remains], Remains], str]] = {
    "a yes counts twice": (lambda it: again(it, BudgetRaised), "raised for ["),
    "a yes is lost": (
        lambda it: replace(
            it,
            events={
                turn: [one for one in them if not isinstance(one.event, BudgetRaised)]
                for turn, them in it.events.items()
            },
        ),
        "raised for []",
    ),
    "an answer is delivered without a yes": (unlooked, "with a yes to []"),
    "a question is put to nobody": (
        lambda it: replace(it, outbox=[row for row in it.outbox if row["kind"] != "approval"]),
        "were put to somebody",
    ),
    "what was said is not shown": (unseen_words, "was shown 0 times"),
    "the model was asked for a summary behind the journal's back": (
        lambda it: replace(it, requests=[*it.requests, summed_up(it.requests[0])]),
        "requests for a summary",
    ),
}


async def test_the_check_sees_every_kind_of_wrong_done_by_the_daemon_f2_e10_b4(
    killed: World, tmp_path: Path
) -> None:
    agent = {"on_budget": "ask", "max_input_tokens": ENOUGH_FOR_ONE, **REVIEWED}
    (it,) = await ended(killed, [[told(killed, tmp_path, "note", agent=agent)()]])
    unseen = [
        what
        for what, (spoil, words) in WRONGS.items()
        if not any(words in fault for fault in broken(spoil(it)))
    ]
    assert unseen == []
