"""Kill -9 while agents work for agents: none set to work twice, none lost, none at work for nobody (A17, B11, B5, F1, F2)."""

import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
import pytest_asyncio

from daemon.core.events import ChildReturned, ChildSpawned, Stop, ToolFinished
from tests.e2e.crash.life import Life
from tests.e2e.crash.person import Plan, Said
from tests.e2e.crash.promises import broken
from tests.e2e.crash.remains import Remains, Row
from tests.e2e.crash.sweep import Born, ended, every_moment, some_moments, tell
from tests.e2e.crash.world import World, world

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKING = "[{0} spawn.a note] {{a look+send}}"
PLANS = {
    "at once": "[{0} spawn.a+spawn.b+note] {{a note}} {{b look spawn.c}} {{c send}}",
    "one below the other": "[{0} look spawn.a] {{a spawn.b note}} {{b note+send}}",
    "in the background": "[{0} back.a+back.b note] {{a look note}} {{b send}}",
    "stopped": "[{0} note spawn.a+back.b] {{a note wait}} {{b spawn.c}} {{c note wait}}",
}
MEMBERS = {name: f'[identity]\nname = "{name}"\n' for name in ("one", "two")}
CREW = """[identity]
name = "crew"
[composite]
strategy = "{0}"
agents = [{{ agent = "one", brief = "(as one)" }}, {{ agent = "two", brief = "(as two)" }}]
"""
STEPS = (
    "",
    "look",
    "note",
    "spawn.a",
    "back.a note",
    "spawn.a+back.b",
    "look spawn.c",
    "note+spawn.b look",
)
BELOW = "{a look note} {b send} {c spawn.a+note}"
SEEDS, SESSIONS, MESSAGES, KILLS = 4, 2, 3, 6


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def killed() -> AsyncIterator[World]:
    async with world() as it:
        yield it


def told(killed: World, folder: Path, text: str, **more: object) -> Born:
    """Daemons that are told this, each in a place of its own."""

    def born() -> Life:
        place, name = killed.place(folder)
        life = Life(
            str(place), killed.model.base_url, {"terminal:a": [Said(name, text.format(name))]}
        )
        return replace(life, **more)  # type: ignore[arg-type] # fields of a Life

    return born


def spawned(it: Remains) -> list[ChildSpawned]:
    return [one for turn in it.turns for one in it.of(turn, ChildSpawned)]


async def test_a17_an_agent_that_works_for_another_is_killed_at_any_moment_and_goes_on(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """B5: it looks, it does something that a person is asked about; the kills fall into its work, its parent's, and between."""
    began, before = monotonic(), killed.kills
    killed.places.clear()
    ends = await every_moment(killed, told(killed, tmp_path, WORKING))
    assert all(len(spawned(it)) == 1 for it in ends)
    assert {
        "before send",
        "after send",
        "while a question is open",
        "before note",
        "within a commit",
    } <= set(killed.places)
    tell(capsys, "an agent below", killed.kills - before, began)


@pytest.mark.parametrize("plan", PLANS)
async def test_a17_however_agents_stand_to_each_other_a_kill_changes_nothing(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], plan: str
) -> None:
    """B5, F2: several at once, below each other, in the background, stopped with their parent; killed at the restart, too."""
    began, before = monotonic(), killed.kills
    ends = await some_moments(killed, told(killed, tmp_path, PLANS[plan]), 10, seed=len(plan))
    agents = [len(it.turns) for it in ends]
    assert max(agents) >= 3
    if plan == "stopped":
        assert all(
            Stop.CANCELLED in {turn.stop_reason for turn in it.turns.values()} for it in ends
        )
    tell(capsys, plan, killed.kills - before, began)


@pytest.mark.parametrize("how", ["arrived", "midway"])
async def test_a17_b5_4_a_kill_while_the_model_speaks_to_parent_or_child_changes_nothing(
    killed: World, tmp_path: Path, how: str
) -> None:
    born = told(killed, tmp_path, "[{0} spawn.a+back.b] {{a look}} {{b}}")
    ends = await ended(killed, [[replace(born(), die_asking=f"{how}:{n}")] for n in range(1, 7)])
    assert {len(it.requests) for it in ends} <= {7, 8}, (
        "six, and what was being answered at the kill"
    )
    assert all(len(spawned(it)) == 2 for it in ends)


@pytest.mark.parametrize("strategy", ["sequential", "parallel"])
async def test_b11_a_composite_is_killed_and_goes_on_where_it_was(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str
) -> None:
    """A17: each of its members works once, and what they said is what it answers."""
    began, before = monotonic(), killed.kills
    agents = {**MEMBERS, "crew": CREW.format(strategy)}
    ends = await some_moments(
        killed, told(killed, tmp_path, "[{0} look note]", agents=agents, chosen="crew"), 9, seed=11
    )
    for it in ends:
        root = next(turn for turn in it.turns.values() if not turn.parent)
        assert [one.stop for one in it.of(root.id, ChildReturned)] == ["done", "done"]
        assert (
            "re: " in root.reply
            and "two" in root.reply
            and ("one" in root.reply) == (strategy == "parallel")
        )
    tell(capsys, strategy, killed.kills - before, began)


def talk(name: str, chance: random.Random) -> Plan:
    def said(session: str, number: int) -> Said:
        client = f"{name}{session}{number}"
        return Said(
            client,
            f"[{client} {chance.choice(STEPS)}] ".replace(" ]", "]") + BELOW,
            at_once=chance.random() < 0.4,
        )

    return {
        f"terminal:{session}": [said(session, number) for number in range(MESSAGES)]
        for session in "abc"[:SESSIONS]
    }


async def test_a17_f1_whatever_moments_are_chosen_agents_and_their_parents_keep_every_promise(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, before = monotonic(), killed.kills
    rows: list[list[Life]] = []
    for seed in range(SEEDS):
        chance, (place, name) = random.Random(seed), killed.place(tmp_path)
        life = Life(
            str(place), killed.model.base_url, talk(name, chance), hasty=chance.random() < 0.7
        )
        rows.append([replace(life, die_at=chance.randrange(5, 90)) for _ in range(KILLS)])
    ends = await ended(killed, rows)
    assert sum(len(spawned(it)) for it in ends) >= 2 * SEEDS
    assert killed.kills - before >= SEEDS * KILLS // 2
    tell(capsys, "agents, random", killed.kills - before, began)


Spoil = Callable[[Remains], Remains]


def child(it: Remains) -> str:
    return next(turn.id for turn in it.turns.values() if turn.parent)


def root(it: Remains) -> str:
    return next(turn.id for turn in it.turns.values() if not turn.parent)


def rows(it: Remains, ending: str, **change: str) -> list[Row]:
    return [row | change if row["external_id"].endswith(ending) else row for row in it.inbox]


def again(it: Remains, kind: type) -> Remains:
    """The first event of this kind stands in its turn twice."""
    events = {
        turn: [*them, *[one for one in them if isinstance(one.event, kind)][:1]]
        for turn, them in it.events.items()
    }
    return replace(it, events=events)


def other(it: Remains, turn: str, **change: object) -> Remains:
    row = replace(it.turns[turn], **change)  # type: ignore[arg-type] # fields of a TurnRow
    return replace(it, turns=it.turns | {turn: row})


def misheard(it: Remains) -> Remains:
    def spoilt(event: object) -> object:
        return (
            replace(event, text="somebody else's words")
            if isinstance(event, ToolFinished)
            else event
        )

    heard = [replace(one, event=spoilt(one.event)) for one in it.events[root(it)]]  # type: ignore[arg-type]
    return replace(it, events=it.events | {root(it): heard})


WRONGS: dict[str, tuple[Spoil, str]] = {
    "a call sets two agents to work": (lambda it: again(it, ChildSpawned), "set 2 agents to work"),
    "a task is done by two": (
        lambda it: replace(
            it,
            turns=it.turns | {"x": it.turns[child(it)]},
            events=it.events | {"x": it.events[child(it)]},
        ),
        "was given to 2 agents",
    ),
    "an agent has no message": (
        lambda it: replace(it, inbox=[row for row in it.inbox if row["turn"] != child(it)]),
        "has the messages []",
    ),
    "an agent works for somebody else": (
        lambda it: other(it, child(it), parent="nobody"),
        "works for nobody",
    ),
    "a parent hears what its agent did not say": (misheard, "whose reply was"),
    "a parent hears that all went well": (
        lambda it: other(it, child(it), stop_reason=Stop.FAILED),
        "ended well, it ended",
    ),
    "a report is lost": (
        lambda it: replace(it, inbox=rows(it, "/report", external_id="x")),
        "there are []",
    ),
    "a report comes twice": (
        lambda it: replace(
            it,
            inbox=[*it.inbox, *[row for row in it.inbox if row["external_id"].endswith("/report")]],
        ),
        "reports due are",
    ),
    "a report goes elsewhere": (
        lambda it: replace(it, inbox=rows(it, "/report", session="terminal:b")),
        "the report {",
    ),
    "a report says something else": (
        lambda it: replace(it, inbox=rows(it, "/report", body="nothing")),
        "the report {",
    ),
    "an agent works on": (
        lambda it: other(
            it, root(it), stop_reason=Stop.CANCELLED, ended_at=it.turns[child(it)].started_at
        ),
        "went on",
    ),
    "a stop is forgotten": (
        lambda it: replace(
            it, turns={name: replace(row, stop_reason=Stop.DONE) for name, row in it.turns.items()}
        ),
        "was stopped, and ended",
    ),
    "an agent is never done": (
        lambda it: replace(it, children=[replace(row, done=False) for row in it.children]),
        "is not done",
    ),
    "an agent speaks to the chat": (
        lambda it: replace(
            it, outbox=[*it.outbox, it.outbox[-1] | {"turn": child(it), "part": "9"}]
        ),
        " sent {",
    ),
    "a question of an agent is put to nobody": (
        lambda it: replace(it, outbox=[row for row in it.outbox if row["kind"] != "approval"]),
        "and put [",
    ),
}


async def test_the_check_sees_every_kind_of_wrong_done_to_agents_a17(
    killed: World, tmp_path: Path
) -> None:
    born = told(killed, tmp_path, "[{0} spawn.a+back.b] {{a note+send}} {{b look}}")
    (it,) = await ended(killed, [[born()]])
    assert broken(it) == []
    it.outside.stops.note(turn=root(it))  # as if somebody had stopped it, and nobody had listened
    unseen = [
        what
        for what, (spoil, words) in WRONGS.items()
        if not any(words in fault for fault in broken(spoil(it)))
    ]
    assert unseen == []
