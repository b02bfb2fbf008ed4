"""Answering and stopping runs over HTTP (B8). One daemon serves all of these tests."""

import asyncio
import json
from pathlib import Path
from time import monotonic
from typing import cast

import pytest

from tests.fakes.daemon_process import Daemon, error_of
from tests.fakes.openai import Json, calls, hangs, says
from tests.fakes.wordy_model import Script, shell


async def asked(daemon: Daemon, turn: str) -> str:
    """Wait for the run's first question; its call id."""
    return str((await daemon.until(turn, "approval.asked")).data["call_id"])


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_approval_is_answered_once_only(daemon: Daemon, script: Script) -> None:
    """B8."""
    turn = await daemon.begin(
        script.on("approved", shell("echo yes > made; echo made"), says("made it")), "approve"
    )
    call_id = await asked(daemon, turn)
    await daemon.post(f"/v1/runs/{turn}/approve", call_id=call_id)
    for verb in ("approve", "reject"):
        async with daemon.http.post(
            f"/v1/runs/{turn}/{verb}", json={"call_id": call_id}
        ) as response:
            assert (await error_of(response))[:2] == (409, "not_pending")
    await daemon.until(turn, "run.completed")
    run = await daemon.run(turn)
    (call,) = await daemon.calls_of(str(run["turn"]))
    assert (run["reply"], call["decision"], call["is_error"]) == ("made it", "ask", False)


async def test_a_rejection_is_told_to_the_model_with_its_reason(
    daemon: Daemon, script: Script
) -> None:
    turn = await daemon.begin(
        script.on("rejected", shell("echo no; rm -f y"), says("I did not")), "reject"
    )
    call_id = await asked(daemon, turn)
    await daemon.post(f"/v1/runs/{turn}/reject", call_id=call_id, reason="not on a Friday")
    await daemon.until(turn, "run.completed")
    run = await daemon.run(turn)
    (call,) = await daemon.calls_of(str(run["turn"]))
    assert (
        call["is_error"]
        and "not on a Friday" in str(call["result"])
        and run["reply"] == "I did not"
    )


async def test_two_gated_calls_of_one_reply_wait_each_on_their_own(
    daemon: Daemon, script: Script
) -> None:
    """B8."""
    both = calls(
        ("shell", {"command": "echo a; rm -f a"}), ("shell", {"command": "echo b; rm -f b"})
    )
    turn = await daemon.begin(script.on("gated", both, says("one of two")), "gated")
    await daemon.until(turn, "run.suspended")
    questions = await daemon.listed("/v1/approvals", session="web:gated")
    first, second = (question["call_id"] for question in questions)
    await daemon.post(f"/v1/runs/{turn}/approve", call_id=first)
    await daemon.post(f"/v1/runs/{turn}/reject", call_id=second)
    await daemon.until(turn, "run.completed")
    assert [call["is_error"] for call in await daemon.calls_of(turn)] == [False, True]


async def test_a_question_shows_what_is_asked_and_nothing_to_answer_it_with(
    daemon: Daemon, script: Script
) -> None:
    turn = await daemon.begin(script.on("shown", shell("echo q; rm -f q"), says("ok")), "shown")
    call_id = await asked(daemon, turn)
    questions = await daemon.listed("/v1/approvals", state="pending", session="web:shown")
    (question,) = questions
    assert set(question) == {
        "turn",
        "call_id",
        "session",
        "tool",
        "arguments",
        "effect",
        "label",
        "expires",
        "preview",
        "title",
        "text",
        "options",
        "root",
        "secret",
        "question",
    }
    assert len(str(question["question"])) < 32  # a button needs more of it
    assert (question["turn"], question["call_id"], question["tool"]) == (turn, call_id, "shell")
    await daemon.post(f"/v1/runs/{turn}/reject", call_id=call_id)


async def test_g_a_yes_is_no_yes_to_the_same_call_asked_anew_with_other_content(
    daemon: Daemon, script: Script, home: Path
) -> None:
    """Who says yes to what was shown first has not said yes to what runs now (class G)."""
    place = home / "workspace"
    (place / "anew.sh").write_text("echo good > anew.txt\n")
    turn = await daemon.begin(script.on("anew", shell("sh anew.sh"), says("done")), "anew")
    call_id = await asked(daemon, turn)
    (first,) = await daemon.listed("/v1/approvals", session="web:anew")
    (place / "anew.sh").write_text("echo evil > anew.txt\n")
    path, answer = f"/v1/runs/{turn}/approve", {"call_id": call_id}
    await daemon.post(path, question=first["question"], **answer)
    async with asyncio.timeout(10):
        while not (second := await daemon.listed("/v1/approvals", session="web:anew")):
            await asyncio.sleep(0.02)
    assert second[0]["call_id"] == call_id and second[0]["question"] != first["question"]
    for old in ({"question": first["question"]}, {}):  # an old yes, and one of an old client
        async with daemon.http.post(path, json=answer | old) as response:
            status, kind, message = await error_of(response)
        assert (status, kind) == (409, "asked_anew") and "GET /v1/approvals" in message
    assert not (place / "anew.txt").exists()
    await daemon.post(path, question=second[0]["question"], **answer)
    await daemon.until(turn, "run.completed")
    assert (place / "anew.txt").read_text() == "evil\n"  # as it was shown to them


async def test_an_answer_to_a_call_that_never_was_is_not_found(daemon: Daemon) -> None:
    turn = (await daemon.ask("hi", "nocall"))["turn"]
    async with daemon.http.post(f"/v1/runs/{turn}/approve", json={"call_id": "99.0"}) as response:
        assert (await error_of(response))[:2] == (404, "not_found")


async def test_an_answer_with_a_scope_nobody_knows_is_refused(daemon: Daemon) -> None:
    async with daemon.http.post(
        "/v1/runs/t/approve", json={"call_id": "3.0", "scope": "forever"}
    ) as response:
        status, _, message = await error_of(response)
    assert (status, message.split(":")[0]) == (400, "scope")


async def test_a_message_behind_a_suspended_run_is_a_run_of_its_own_or_its_answer(
    daemon: Daemon, script: Script
) -> None:
    """architecture.md: text typed while an approval is the session's open question rejects it with that text as the reason."""
    turn = await daemon.begin(
        script.on("question", shell("echo z; rm -f z"), says("as you wish")), "typed"
    )
    await asked(daemon, turn)
    assert await daemon.post("/v1/messages", 202, session="typed", text="rather not") == {
        "steered": turn
    }
    await daemon.until(turn, "run.completed")
    (call,) = await daemon.calls_of(turn)
    assert "rather not" in str(call["result"])


async def test_H1_a_question_of_the_models_is_answered_by_an_option_or_a_message(
    daemon: Daemon, script: Script
) -> None:
    question = {"question": "Which colour?", "options": ["red", "blue"]}
    for session, answers in (("option", True), ("words", False)):
        steps = script.on(session, calls(("ask_user", question)), says("thanks"))
        turn = await daemon.begin(steps, session)
        call = await asked(daemon, turn)
        listed = cast("list[Json]", await daemon.get("/v1/approvals"))
        [shown] = [one for one in listed if one["turn"] == turn]
        assert json.loads(shown["arguments"])["options"] == ["red", "blue"]
        path = f"/v1/runs/{turn}/approve"
        _, _, why = await error_of(await daemon.http.post(path, json={"call_id": call}))
        assert "Choose one of its options, or write the answer" in why
        wrong = await daemon.http.post(path, json={"call_id": call, "option": "green"})
        assert "red, blue" in (await error_of(wrong))[2]
        if answers:
            await daemon.post(path, call_id=call, option="blue")
        else:
            sent = await daemon.post("/v1/messages", 202, session=session, text="green")
            assert sent == {"steered": turn}
        await daemon.until(turn, "run.completed")
        (result,) = await daemon.calls_of(turn)
        assert ("They chose: blue" if answers else "own words") in str(result["result"])


async def test_a_permission_is_listed_with_its_bounds_and_taken_back(
    daemon: Daemon, script: Script
) -> None:
    """A15."""
    turn = await daemon.begin(script.on("granted", shell("echo g; rm -f g"), says("ok")), "granted")
    await daemon.post(
        f"/v1/runs/{turn}/approve",
        call_id=await asked(daemon, turn),
        scope="session",
        times=2,
        minutes=5,
    )
    await daemon.until(turn, "run.completed")
    [grant] = await daemon.listed("/v1/grants")
    assert (grant["session"], grant["tool"], grant["uses_left"], grant["uses"]) == (
        "web:granted",
        "shell",
        2,
        0,
    )
    async with daemon.http.delete(f"/v1/grants/{grant['id']}") as response:
        assert (response.status, await response.json()) == (
            200,
            {"id": grant["id"], "revoked": True},
        )
    async with daemon.http.delete(f"/v1/grants/{grant['id']}") as response:
        assert (await error_of(response))[:2] == (404, "not_found")
    assert await daemon.listed("/v1/grants") == []


@pytest.mark.parametrize("how", ["cancel", "stop"])
async def test_a_run_in_a_model_call_is_stopped_within_a_second(
    daemon: Daemon, script: Script, how: str
) -> None:
    turn = await daemon.begin(script.on(f"hang-{how}", hangs()), f"hang-{how}")
    await daemon.until(turn, "cycle.start")
    began = monotonic()
    if how == "cancel":
        assert await daemon.post(f"/v1/runs/{turn}/cancel") == {"turn": turn, "cancelled": True}
    else:
        assert (await daemon.post(f"/v1/sessions/web:hang-{how}/stop"))["stopped"] == [turn]
    await daemon.until(turn, "run.completed")
    assert monotonic() - began < 1
    assert (await daemon.run(turn))["stop_reason"] == "cancelled"


async def test_a_run_in_a_tool_is_cancelled_within_a_second(daemon: Daemon, script: Script) -> None:
    turn = await daemon.begin(
        script.on("sleeper", shell("sleep 25; echo slept"), says("never")), "sleeper"
    )
    await daemon.post(f"/v1/runs/{turn}/approve", call_id=await asked(daemon, turn))
    await daemon.until(turn, "tool.started")
    began = monotonic()
    await daemon.post(f"/v1/runs/{turn}/cancel")
    await daemon.until(turn, "run.completed")
    assert monotonic() - began < 1


async def test_cancelling_a_run_that_has_ended_changes_nothing(daemon: Daemon) -> None:
    turn = (await daemon.ask("hi", "over"))["turn"]
    assert await daemon.post(f"/v1/runs/{turn}/cancel") == {"turn": turn, "cancelled": False}
    assert (await daemon.run(str(turn)))["stop_reason"] == "done"
