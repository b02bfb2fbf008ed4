"""What the house itself asks, and what sub-agents ask, answered over HTTP like any other question (F2, E10, C8, A17)."""

from pathlib import Path

import pytest

from tests.fakes.daemon_process import Daemon, Json, error_of
from tests.fakes.openai import calls, says, tokens
from tests.fakes.wordy_model import Script, shell

pytestmark = pytest.mark.asyncio(loop_scope="module")

THRIFTY = '[identity]\nname = "thrifty"\n[model_policy.budget]\ntokens_per_run = 4000\n'
CAREFUL = '[identity]\nname = "careful"\n[[verify]]\nkind = "manual"\n'
PATIENT = '[identity]\nname = "patient"\n[loop]\nenabled = true\ncriterion = "manual"\nmax_iterations = 3\n'
DEAR = calls(("current_time", {}), usage=tokens(3900, 5))


@pytest.fixture(scope="module", autouse=True)
def agents(home: Path) -> None:
    """Read when they are first asked for; the daemon need not be told."""
    (home / "agents").mkdir(parents=True, exist_ok=True)
    for name, spec in (("thrifty", THRIFTY), ("careful", CAREFUL), ("patient", PATIENT)):
        (home / "agents" / f"{name}.toml").write_text(spec)


async def begun(daemon: Daemon, text: str, agent: str) -> str:
    """Say it to this agent, in a session of that name; the turn."""
    return str(
        (await daemon.post("/v1/messages", 202, session=text, text=text, agent=agent))["turn"]
    )


async def asked(daemon: Daemon, turn: str, session: str) -> Json:
    """The one question that waits in the session, once the run is suspended."""
    await daemon.until(turn, "run.suspended")
    (question,) = await daemon.listed("/v1/approvals", session=f"web:{session}")
    return question


async def test_a_used_up_budget_is_a_question_and_a_yes_goes_on_f2(
    daemon: Daemon, script: Script
) -> None:
    """F2: a second yes comes too late, and is told from a question that never was."""
    turn = await begun(daemon, script.on("extended", DEAR, says("done at last")), "thrifty")
    question = await asked(daemon, turn, "extended")
    assert (question["turn"], question["call_id"], question["tool"]) == (
        turn,
        "budget.1",
        "extend_budget",
    )
    assert '"limit": 4000' in str(question["arguments"]) and '"of": "sent"' in str(
        question["arguments"]
    )
    await daemon.post(f"/v1/runs/{turn}/approve", call_id="budget.1")
    await daemon.until(turn, "budget.raised")
    await daemon.until(turn, "run.completed")
    run = await daemon.run(turn)
    assert run["reply"] == "done at last"
    assert any(
        "a person raised the budget" in str(notice) and "8,000 tokens" in str(notice)
        for notice in notices(run)
    )
    for call_id, refused in (("budget.1", (409, "not_pending")), ("budget.9", (404, "not_found"))):
        async with daemon.http.post(
            f"/v1/runs/{turn}/approve", json={"call_id": call_id}
        ) as response:
            assert (await error_of(response))[:2] == refused


async def test_a_budget_that_is_not_raised_ends_the_run_with_that_reason_f2(
    daemon: Daemon, script: Script
) -> None:
    turn = await begun(daemon, script.on("refused", DEAR, says("never")), "thrifty")
    question = await asked(daemon, turn, "refused")
    await daemon.post(f"/v1/runs/{turn}/reject", call_id=str(question["call_id"]), reason="enough")
    await daemon.until(turn, "run.completed")
    run = await daemon.run(turn)
    assert run["stop_reason"] == "over_budget" and any(
        "stopped by the budget" in str(notice) for notice in notices(run)
    )


async def test_the_reason_of_a_rejected_review_is_feedback_for_the_model_e10(
    daemon: Daemon, script: Script
) -> None:
    """E10"""
    script.on("again.", says("Short."))  # as feedback ends
    turn = await begun(daemon, script.on("reviewed", says("A long answer.")), "careful")
    question = await asked(daemon, turn, "reviewed")
    assert question["tool"] == "review_answer" and "A long answer." in str(question["arguments"])
    await daemon.post(
        f"/v1/runs/{turn}/reject", call_id=str(question["call_id"]), reason="shorter, please"
    )
    reviews: list[str] = []
    async for sent in daemon.stream(turn):
        if sent.name == "approval.asked":
            reviews.append(str(sent.data["call_id"]))
        if sent.name == "approval.asked" and len(reviews) == 2:
            await daemon.post(f"/v1/runs/{turn}/approve", call_id=reviews[1])
    assert (await daemon.run(turn))["reply"] == "Short."
    assert "shorter, please" in str(script.model.requests[-1].body["messages"])


async def test_the_review_of_a_loop_is_answered_at_its_attempt_c8(
    daemon: Daemon, script: Script
) -> None:
    """C3, C8"""
    started = await daemon.post(
        "/api/agents/patient/loop/start",
        202,
        message=script.on("drafted", says("a first draft")),
        session="web:looping",
    )
    turn = f"{started['loopId']}-1"
    await daemon.until(turn, "run.completed")
    question: Json = {}
    while not question:  # the loop looks at its attempt once that is over
        question = next(iter(await daemon.listed("/v1/approvals", session="web:looping")), {})
    assert (question["turn"], question["tool"]) == (turn, "loop_review") and "a first draft" in str(
        question["arguments"]
    )
    await daemon.post(f"/v1/runs/{turn}/approve", call_id=str(question["call_id"]))
    status: Json = {}
    while status.get("status") != "completed":
        found = await daemon.get("/api/agents/patient/loop/status")
        assert isinstance(found, dict)
        status = found
    async with daemon.http.post(
        f"/v1/runs/{turn}/approve", json={"call_id": question["call_id"]}
    ) as response:
        assert (await error_of(response))[:2] == (409, "not_pending")


async def test_what_a_sub_agent_asks_is_found_in_the_session_that_it_works_for_a17(
    daemon: Daemon, script: Script
) -> None:
    """A17: and the runs name each other."""
    script.on("errand", shell("echo a; rm -f a"), says("the child did it"))
    turn = await daemon.begin(
        script.on("family", calls(("spawn_agent", {"task": "an errand"})), says("it is done")),
        "family",
    )
    child = str((await daemon.until(turn, "agent.started")).data["turn"])
    await daemon.until(child, "run.suspended")
    (question,) = await daemon.listed("/v1/approvals", session="web:family")
    assert (question["turn"], question["tool"]) == (child, "shell") and str(
        question["session"]
    ).startswith("sub-1-")
    await daemon.post(f"/v1/runs/{child}/approve", call_id=str(question["call_id"]))
    await daemon.until(turn, "run.completed")
    above, below = await daemon.run(turn), await daemon.run(child)
    assert (above["children"], above["parent"], above["agent"]) == ([child], None, "default")
    assert (below["children"], below["parent"], below["reply"]) == ([], turn, "the child did it")
    (listed,) = [line for line in await daemon.listed("/v1/runs") if line["turn"] == child]
    assert listed["parent"] == turn


def notices(run: Json) -> list[object]:
    found = run["notices"]
    assert isinstance(found, list)
    return found
