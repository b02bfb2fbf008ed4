"""Why turns end: logged every time, counted by reason, and an alarm for an agent that runs out of its budget too often (D6)."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import Alarm
from daemon.core.trust import Effect
from daemon.tools.signature import bind, tool
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, fails, hangs, says
from tests.fakes.wordy_model import Turnstile

TERMINAL = "terminal:main"
LOGGER = "daemon.agent.loop"


@tool(effect=Effect.READ)
async def look(at: str = "") -> str:
    """Look at something."""
    return f"saw {at}"


PARTS = Overrides(tools=bind([look], {}))
SHORT = {"agent": {"max_iterations": 1}}
LAST = "This is how far I came."


def choose(body: Json) -> Step:
    """ "much" takes more iterations than there are; all else is answered at once."""
    said = next(
        str(message["content"])
        for message in reversed(body["messages"])
        if message["role"] == "user"
    )
    said = said.rpartition("</memory>\n")[2]
    return calls(("look", {"at": "home"})) if said == "much" else says(LAST)


@asynccontextmanager
async def house(
    home: Path, model: FakeOpenAI, config: Mapping[str, object] = SHORT
) -> AsyncIterator[Living]:
    model.otherwise(by(choose))
    async with living(home, model, config, PARTS) as it:
        yield it


async def end(it: Living, *texts: str, session: str = TERMINAL) -> list[str]:
    """Ask all this; what alarms it raised."""
    alarms: list[str] = []
    for text in texts:
        run = await it.ask(text, session)
        assert run.stop_reason == ("max_iterations" if text == "much" else "done")
        alarms += [event.text for event in await it.events(run.turn) if isinstance(event, Alarm)]
    return alarms


async def notices(it: Living, session: str = TERMINAL) -> list[str]:
    return [
        item.body
        for item in await it.house.client.list_undelivered(session)
        if item.kind == "notice"
    ]


async def test_d6_three_of_ten_turns_out_of_budget_raise_an_alarm_and_the_owner_is_told(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with house(tmp_path, model) as it:
        assert await end(it, "much", "little", "little", "much", "little") == []
        [alarm] = await end(it, "much")
        assert await notices(it) == [alarm]
    assert (
        "The agent default ran out of its budget in 3 of its last 10 turns (max_iterations)"
        in alarm
    )
    assert "`aidaemon runs` shows them" in alarm


async def test_d6_less_often_is_no_alarm(tmp_path: Path, model: FakeOpenAI) -> None:
    """The first of them is eleven turns ago when the third comes."""
    async with house(tmp_path, model) as it:
        assert await end(it, "much", "much", *["little"] * 9, "much") == []
        assert await notices(it) == []


async def test_d6_the_alarm_comes_once_and_again_only_after_three_more(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with house(tmp_path, model) as it:
        assert [len(await end(it, "much")) for _ in range(7)] == [0, 0, 1, 0, 0, 1, 0]
        assert len(await notices(it)) == 2


async def test_d6_a_restart_forgets_nothing_and_repeats_nothing(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    counts: list[int] = []
    for _ in range(7):
        async with house(tmp_path, model) as it:
            counts.append(len(await end(it, "much")))
    assert counts == [0, 0, 1, 0, 0, 1, 0]


async def test_d6_each_agent_is_watched_for_itself(tmp_path: Path, model: FakeOpenAI) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "digger.toml").write_text('[identity]\nname = "digger"\n')
    async with house(tmp_path, model) as it:
        assert await end(it, "much", "much") == []
        assert "digger" in await it.command("/agent digger", "terminal:other")
        assert await end(it, "much", "much", session="terminal:other") == []
        [alarm] = await end(it, "much", session="terminal:other")
        assert alarm.startswith("The agent digger ran out")
        assert (await notices(it), await notices(it, "terminal:other")) == ([], [alarm])


async def test_d6_every_way_to_exhaust_a_budget_counts_and_no_other(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """D1: a failed turn, a stopped one, and one that was done are no sign of limits that are too low."""
    config = {"agent": {"max_iterations": 1, "max_seconds": 0.3}}
    async with house(tmp_path, model, config) as it:
        model.script(fails(401))
        assert (await it.ask("a", TERMINAL)).stop_reason == "failed"
        model.script(hangs())
        turn = await it.say("b", TERMINAL)
        await model.hanging.wait()
        await it.command("/stop", TERMINAL)
        assert (await it.settled(turn)).stop_reason == "cancelled"
        for _ in range(2):
            model.script(hangs())
            assert (await it.ask("c", TERMINAL)).stop_reason == "deadline"
        [alarm] = await end(it, "much")
    assert "in 3 of its last 10 turns (deadline, max_iterations)" in alarm


async def test_d6_every_end_is_logged_with_its_reason_and_how_far_it_came(
    tmp_path: Path, model: FakeOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    """A turn that could not even begin, too."""
    (tmp_path / "agents").mkdir()
    caplog.set_level(logging.INFO, LOGGER)
    async with house(tmp_path, model, {"agent": {"max_iterations": 1, "max_seconds": 2}}) as it:
        (tmp_path / "agents" / "broken.toml").write_text('[identity]\nname = "broken"\n')
        turns = [(await it.ask(text)).turn for text in ("little", "much")]
        model.script(fails(401))
        turns.append((await it.ask("refused")).turn)
        model.script(hangs())
        turns.append((await it.ask("slow")).turn)
        await it.command("/agent broken")
        (tmp_path / "agents" / "broken.toml").write_text("[identity\n")
        turns.append((await it.ask("little")).turn)
    ends = [record.getMessage() for record in caplog.records if " ended: " in record.getMessage()]
    told = [
        "done, after 0 iterations",
        "max_iterations (all 1 iterations are used up), after 1 iterations",
        "failed (auth), after 0 iterations",
        "deadline (the time for one turn is used up (2 s)), after 0 iterations",
        "failed (agent), after 0 iterations",
    ]
    assert ends == [
        f"turn {turn} of web:test ended: {how}" for turn, how in zip(turns, told, strict=True)
    ]


async def test_d6_status_counts_the_reasons_over_a_restart(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with house(tmp_path, model) as it:
        await end(it, "much", "little", "little")
        model.script(fails(401))
        await it.ask("refused")
    async with house(tmp_path, model) as it:
        assert "Turns of seven days ended: done 2, failed 1, max_iterations 1" in await it.command(
            "/status"
        )


async def test_d7_every_step_of_a_turn_is_logged(
    tmp_path: Path, model: FakeOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "daemon.agent.loop")
    turnstile = Turnstile(calls(("look", {"at": "home"})))
    model.script(turnstile, says(LAST))
    async with living(tmp_path, model, parts=PARTS) as it:
        turnstile.open.set()
        run = await it.ask("look around")
        kinds = [type(event).__name__ for event in await it.events(run.turn)]
    steps = [record.getMessage() for record in caplog.records if run.turn in record.getMessage()]
    looks = [step for step in steps if "looking" in step]
    assert len(looks) >= 4  # ask, dispatch, ask, judge
    assert f"turn {run.turn}: TurnEnded" in steps
    assert kinds[-1] == "TurnEnded"
