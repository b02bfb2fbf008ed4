"""A turn goes on from one of its events with something else (F7), through the whole daemon."""

from pathlib import Path

import pytest

from daemon.client.view_types import RunView
from daemon.core.errors import UsageError
from daemon.core.events import Event, ModelReplied, ToolFinished, ToolStarted, UserSaid
from daemon.core.reports import ForkView
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says

WRITE = calls(("write_file", {"path": "a.txt", "text": "one"}))


async def fork(it: Living, turn: str, at: int, **change: object) -> ForkView:
    found = await it.house.client.fork_run(turn, at, **change)  # type: ignore[arg-type]
    assert found
    return found


async def seq_of(it: Living, turn: str, kind: type[Event]) -> int:
    """The place of the first event of this kind."""
    return 1 + [type(event) for event in await it.events(turn)].index(kind)


async def ask_file(it: Living) -> RunView:
    it.model.script(calls(("calculate", {"expression": "40+2"})), says("It is 42."))
    return await it.ask("What is 40 and 2?")


async def test_f7_from_the_first_event_with_another_prompt_everything_is_done_anew(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path / "home", model) as it:
        before = await ask_file(it)
        model.script(says("It is 7."))
        forked = await fork(it, before.turn, 1, prompt="What is 3 and 4?")
        ended = await it.settled(forked.turn)
        assert (ended.reply, ended.session) == ("It is 7.", forked.session)
        assert model.requests[-1].last("user")["content"].endswith("What is 3 and 4?")
        assert await it.settled(before.turn) == before


async def test_f7_what_was_done_before_is_not_done_again_and_the_new_model_sees_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path / "home", model) as it:
        before = await ask_file(it)
        model.script(says("So it is 42, says another."))
        at = await seq_of(it, before.turn, ToolFinished)
        forked = await fork(it, before.turn, at, model="another")
        ended = await it.settled(forked.turn)
        assert ended.reply == "So it is 42, says another."
        assert model.requests[-1]["model"] == "another"
        assert "42" in model.requests[-1].last("tool")["content"]
        starts = [event for event in await it.events(forked.turn) if isinstance(event, ToolStarted)]
        assert len(starts) == 1
        assert (await it.events(before.turn))[:at] == (await it.events(forked.turn))[:at]


async def test_f7_a_prompt_later_on_is_said_in_addition(tmp_path: Path, model: FakeOpenAI) -> None:
    async with living(tmp_path / "home", model) as it:
        before = await ask_file(it)
        model.script(says("Forty-two."))
        at = await seq_of(it, before.turn, ToolFinished)
        forked = await fork(it, before.turn, at, prompt="Answer in words.")
        assert (await it.settled(forked.turn)).reply == "Forty-two."
        assert "Answer in words." in str(model.requests[-1].last("user")["content"])


@pytest.mark.parametrize(("answer", "written"), [("yes", True), ("no", False)])
async def test_f7_another_answer_to_what_was_asked_leads_elsewhere(
    tmp_path: Path, model: FakeOpenAI, answer: str, written: bool
) -> None:
    approvals = {"tools": {"approvals": "always"}}
    async with living(tmp_path / "home", model, approvals) as it:
        model.script(WRITE)
        turn = await it.say("Write it")
        await it.until(turn, "run.suspended")
        at = len(await it.events(turn))
        model.script(says("It is as you see."))
        forked = await fork(it, turn, at, answer=answer)
        assert (await it.settled(forked.turn)).reply == "It is as you see."
        assert (tmp_path / "home" / "workspace" / "a.txt").exists() is written
        assert (await it.house.client.get_run(turn)).state == "suspended"  # type: ignore[union-attr]


async def test_f7_a_question_that_waits_is_put_again_in_the_fork(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path / "home", model, {"tools": {"approvals": "always"}}) as it:
        model.script(WRITE)
        turn = await it.say("Write it")
        await it.until(turn, "run.suspended")
        forked = await fork(it, turn, len(await it.events(turn)))
        [asked] = await it.house.client.list_approvals(session=forked.session)
        assert (asked.turn, asked.tool) == (forked.turn, "write_file")


async def test_f7_another_budget_ends_the_turn_where_it_is_used_up(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    price = {"prices": {"scripted": {"input": 1.0, "output": 1.0}}}
    async with living(tmp_path / "home", model, {"provider": price}) as it:
        before = await ask_file(it)
        at = await seq_of(it, before.turn, ModelReplied)
        forked = await fork(it, before.turn, at, max_usd=0.000001)
        said = (await it.events(forked.turn))[0]
        assert isinstance(said, UserSaid) and said.limits.max_usd == 0.000001
        waiting = await it.until(forked.turn, "run.suspended")
        assert waiting.data["waiting_for"] == ["budget.1"]


async def test_f7_the_fork_is_shown_the_turns_before_and_remembers_nothing_of_its_own(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path / "home", model) as it:
        model.script(says("Nice to meet you, Ada."))
        await it.ask("My name is Ada and my boat is called Argo")
        before = await ask_file(it)
        model.script(says("You are Ada."))
        forked = await fork(it, before.turn, 1, prompt="Who am I?")
        assert (await it.settled(forked.turn)).reply == "You are Ada."
        assert "My name is Ada" in str(model.requests[-1]["messages"])
        costs = await it.house.client.get_session(forked.session)
        assert costs and costs.turns == 2


@pytest.mark.parametrize("at", [0, 99])
async def test_f7_an_event_that_is_not_there_is_named(
    tmp_path: Path, model: FakeOpenAI, at: int
) -> None:
    async with living(tmp_path / "home", model) as it:
        before = await ask_file(it)
        with pytest.raises(UsageError, match=f"event {at}: expected 1 to"):
            await fork(it, before.turn, at)
        with pytest.raises(UsageError, match="nothing waits for an answer"):
            await fork(it, before.turn, 1, answer="yes")
        assert await it.house.client.fork_run("nothing", 1) is None
