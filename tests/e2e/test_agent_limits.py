"""Limits of agent files, through the real process: whose number counts, and what is said at its end (A12, A19, B2, B11, C7, F2)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from zoneinfo import available_timezones

import pytest

from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, hangs, says, tokens

PRICED = "[provider.prices.fake]\ninput = 10.0\noutput = 100.0\n"
MISER = """[identity]
name = "miser"
[iteration]
max_cycles = 9
[[iteration.termination_conditions]]
kind = "budget-exhausted"
[model_policy.budget]
usd_per_run = %s
"""
WORKER = '[identity]\nname = "worker"\n[iteration]\nmax_cycles = %s\n'
LEADER = '[identity]\nname = "leader"\n[composite]\nstrategy = "sequential"\nagents = [{ agent = "worker" }]\n'
ZONES = sorted(one for one in available_timezones() if one.startswith("America/"))


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


def write(home: Path, **agents: str) -> None:
    (home / "agents").mkdir(parents=True)
    for name, text in agents.items():
        (home / "agents" / f"{name}.toml").write_text(text)


def working(model: FakeOpenAI) -> None:
    """Always one more look, each at something else."""
    zones: Iterator[str] = iter(ZONES)

    def step(body: Json) -> Step:
        return calls(("current_time", {"zone": next(zones)}), usage=tokens(1000, 50))

    model.otherwise(by(step))


async def run(home: Path, config: str, agent: str) -> Json:
    async with running_daemon(home, config) as daemon:
        await daemon.post("/v1/messages", text=f"/agent {agent}")
        return await daemon.ask("go")


async def test_b2_f2_a_run_that_cannot_afford_its_first_call_is_over_budget_and_says_the_estimate(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    write(tmp_path / "home", miser=MISER % "0.001")
    ended = await run(tmp_path / "home", scripted(model.base_url, PRICED), "miser")
    assert (ended["stop_reason"], ended["iterations"], model.count) == ("over_budget", 0, 0)
    assert "not enough for the first call (which may take $0.0" in ended["reply"]
    assert "of $0.001)" in ended["reply"]


async def test_b2_f2_a_run_whose_money_is_spent_has_ended_as_its_author_said(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    write(tmp_path / "home", miser=MISER % "0.06")
    working(model)
    ended = await run(tmp_path / "home", scripted(model.base_url, PRICED), "miser")
    assert ended["stop_reason"] == "condition" and ended["iterations"] > 0


async def test_a19_what_a_run_cost_is_its_agents_cost_too_in_runs_and_cost(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home = tmp_path / "home"
    write(home, worker=WORKER % 3, leader=LEADER)
    working(model)
    config = scripted(model.base_url, PRICED)
    ended = await run(home, config, "leader")
    spent = 3 * (1000 * 10 + 50 * 100) / 1e6
    assert (ended["usage"]["usd"], ended["tree"]["usd"]) == (0.0, pytest.approx(spent))
    assert ended["tree"]["input_tokens"] == 3000
    async with running_daemon(home, config) as daemon:
        [line] = [one for one in await daemon.listed("/v1/runs") if one["turn"] == ended["turn"]]
        assert line["usd"] == pytest.approx(spent)
        cost = str((await daemon.post("/v1/messages", text="/cost"))["reply"])
    assert f"${spent:.4f}" in cost.partition("This chat, seven days:")[2]
    shown = await asyncio.to_thread(aidaemon, "runs", home=home)
    [row] = [one for one in shown.stdout.splitlines() if str(ended["turn"]) in one]
    assert f"${spent:.4f}" in row


@pytest.mark.parametrize(
    ("cycles", "most", "made", "told"),
    [
        (14, "", 14, "raise max_cycles in agents/worker.toml"),
        (14, "[subagents]\nmax_cycles = 12\n", 12, "(at most max_cycles in [subagents])"),
    ],
)
async def test_a12_b11_a_members_max_cycles_is_its_own_within_a_bound_that_is_named(
    tmp_path: Path, model: FakeOpenAI, cycles: int, most: str, made: int, told: str
) -> None:
    write(tmp_path / "home", worker=WORKER % cycles, leader=LEADER)
    working(model)
    await run(tmp_path / "home", scripted(model.base_url, most), "leader")
    async with running_daemon(tmp_path / "home", scripted(model.base_url, most)) as daemon:
        [turn] = [one["turn"] for one in await daemon.listed("/v1/runs") if one["agent"] == "worker"]
        member = await daemon.run(str(turn))
    assert (member["iterations"], member["stop_reason"]) == (made, "max_iterations")
    assert told in str(member["reply"])


async def test_f2_when_the_time_is_up_it_asks_for_more_and_a_yes_goes_on(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(("current_time", {})), hangs(), says("It is noon."))
    config = scripted(model.base_url, "[agent]\nmax_seconds = 1\n")
    async with running_daemon(tmp_path / "home", config) as daemon:
        turn = await daemon.begin("what time is it?")
        asked = await daemon.until(turn, "approval.asked")
        assert '"of": "seconds"' in str(asked.data["arguments"])
        await daemon.post(f"/v1/runs/{turn}/approve", call_id=asked.data["call_id"])
        await daemon.until(turn, "run.completed")
        run = await daemon.run(turn)
    assert (run["stop_reason"], run["reply"]) == ("done", "It is noon.")


async def test_c7_an_attempt_of_a_loop_that_runs_out_asks_for_more_as_a_turn_does(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    look = calls(("current_time", {}), usage=tokens(12_000, 10))
    model.script(look, says("All is done."))
    loop = '[agent]\nmax_input_tokens = 10000\n[agent.loop]\nenabled = true\ncriterion = "regex"\nvalue = "done"\n'
    async with running_daemon(tmp_path / "home", scripted(model.base_url, loop)) as daemon:
        begun = await daemon.post("/api/agents/default/loop/start", 202, message="do it")
        async with asyncio.timeout(20):
            while not (waiting := await daemon.listed("/v1/approvals")):
                await asyncio.sleep(0.02)
        [asked] = waiting
        assert asked["tool"] == "extend_budget" and str(begun["loopId"]) in str(asked["turn"])
        await daemon.post(f"/v1/runs/{asked['turn']}/approve", call_id=asked["call_id"])
        async with asyncio.timeout(20):
            while (view := await daemon.get("/api/agents/default/loop/status"))["active"]:  # type: ignore[index]
                await asyncio.sleep(0.02)
    assert isinstance(view, dict) and view["finalOutput"] == "All is done."
