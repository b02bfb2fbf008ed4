"""Whatever way a secret comes into the house, it gets no further than the door (A6 of the reference)."""

import asyncio
import json
from pathlib import Path

import pytest

from daemon.core.events import Answer, ModelFailed, ModelReplied, ModelRetried
from daemon.core.requests import LoopOrder
from daemon.settings.secrets import SecretStore
from daemon.store.codec import encode
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, Step, breaks_midstream, calls, fails, says

VALUE = "hunter2-9fQ2zz81/+"
AGAIN = fails(
    500,
    {"error": {"message": f"cannot reach db with {VALUE}", "type": "server_error"}},
    {"retry-after-ms": "1"},
)
SHELL = calls(("shell", {"command": "echo > made"}))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    SecretStore(tmp_path / "home" / "secrets.toml").put("db", VALUE)
    return tmp_path / "home"


async def written(life: Living, turn: str) -> str:
    return "\n".join("".join(map(str, encode(event))) for event in await life.events(turn))


async def kept(life: Living) -> str:
    """The journal, byte for byte."""
    files = sorted(life.paths.home.glob("journal.db*"))
    return "".join(file.read_bytes().decode("utf-8", "replace") for file in files)


@pytest.mark.parametrize("step", [AGAIN, breaks_midstream(f"it is {VALUE} and", "error")])
async def test_A6_what_a_server_echoes_is_clean_in_the_notice_of_another_try(
    home: Path, step: Step
):
    async with FakeOpenAI() as model, living(home, model) as life:
        model.script(step, says("fine"))
        turn = await life.say("hi")
        await life.settled(turn)
        assert any(isinstance(event, ModelRetried) for event in await life.events(turn))
        assert VALUE not in await written(life, turn)


async def test_A6_and_in_the_story_of_a_failure(home: Path):
    async with FakeOpenAI() as model, living(home, model) as life:
        model.otherwise(
            fails(400, {"error": {"message": f"bad key {VALUE}", "type": "invalid_request_error"}})
        )
        view = await life.ask("hi")
        failed = next(
            event for event in await life.events(view.turn) if isinstance(event, ModelFailed)
        )
        assert "bad key [secret db]" in failed.message and VALUE not in str(view.reply)


async def test_A6_a_draft_shows_a_secret_in_no_piece(home: Path):
    async with FakeOpenAI() as model, living(home, model) as life:
        model.script(says(f"the password is {VALUE}, no more"))
        turn = (await life.house.client.send(SESSION, "hi")).turn
        told = [
            event
            async for event in life.house.client.stream_events(turn)
            if event.name == "model.delta"
        ]
        draft = "".join(str(event.data["text"]) for event in told)
        assert draft == "the password is [secret db], no more"
        assert VALUE not in await written(life, turn)


async def test_A6_the_reason_of_a_refusal_and_the_model_that_reads_it(home: Path):
    async with FakeOpenAI() as model, living(home, model) as life:
        model.script(SHELL, says("all right"))
        turn = await life.say("do it")
        await life.until(turn, "approval.asked")
        (asked,) = await life.house.client.list_approvals()
        await life.house.client.answer_approval(
            turn, asked.call_id, Answer.DENY, reason=f"not with {VALUE}"
        )
        await life.settled(turn)
        assert "not with [secret db]" in model.requests[-1].raw.decode()
        assert VALUE not in await kept(life)


async def test_A6_a_command_a_steering_message_and_an_answer_in_words(home: Path):
    async with FakeOpenAI() as model, living(home, model) as life:
        model.script(SHELL, says("all right"))
        turn = await life.say(f"use {VALUE}")
        await life.until(turn, "approval.asked")
        await life.say(f"no, {VALUE} is wrong")
        await life.settled(turn)
        assert VALUE not in await life.command(f"/model {VALUE}")
        assert VALUE not in await kept(life)
        assert all(VALUE not in asked.raw.decode() for asked in model.requests)


async def test_A6_a_loops_order_and_an_events_payload(home: Path):
    async with (
        FakeOpenAI() as model,
        living(home, model, {"agent": {"loop": {"enabled": True}}}) as life,
    ):
        loop = await life.house.client.start_loop(
            LoopOrder("default", f"say {VALUE}", SESSION, max_iterations=1)
        )
        await life.settled(f"{loop.loop_id}-1")
        taken = await life.house.triggers.accept("mail", {"body": [f"key: {VALUE}"]}, 10)
        await life.settled(taken.turn)
        assert VALUE not in await kept(life)
        sent = [asked.raw.decode() for asked in model.requests]
        assert len(sent) >= 2 and not any(
            VALUE in body or json.dumps(VALUE)[1:-1] in body for body in sent
        )


async def test_A6_history_from_before_a_secret_was_one_goes_to_no_model(home: Path):
    late = "late-secret-1a2b3c"
    async with FakeOpenAI() as model, living(home, model) as life:
        model.script(says("ok"), says("ok"))
        await life.ask(f"it is {late}")
        await asyncio.to_thread(SecretStore(home / "secrets.toml").put, "late", late)
        view = await life.ask("go on")
        assert (
            "it is [secret late]" in model.requests[-1].raw.decode()
            and late not in model.requests[-1].raw.decode()
        )
        replied = [
            event for event in await life.events(view.turn) if isinstance(event, ModelReplied)
        ]
        assert replied[0].text == "ok"
