"""What is used up is visible while it runs: /metrics and /status (D1)."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.daemon_process import Daemon, error_of, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, says

LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+-]+')
ASK = calls(("ask_user", {"question": "Which?", "options": ["red", "blue"]}))
LIMITS = "[agent]\nmax_iterations = 7\nmax_seconds = 90\n[budget]\ndaily_usd = 5.0\ndaily_tokens = 100000\n"
USERS = '[[http.users]]\nname = "anna"\nrole = "editor"\ntoken = "annas-token-of-many-letters"\n'


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


async def metrics(daemon: Daemon) -> dict[str, float]:
    async with daemon.http.get("/metrics") as response:
        assert response.status == 200, await response.text()
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = (await response.text()).splitlines()
    shown = [line for line in lines if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in shown), shown
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {re.split(r"[{ ]", line)[0] for line in shown} == names
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in shown}


async def test_d1_a_running_turns_use_stands_beside_its_limits_in_metrics_and_status(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(ASK, says("Blue."))
    async with running_daemon(tmp_path / "home", scripted(model.base_url, LIMITS)) as daemon:
        before = await metrics(daemon)
        assert before['aidaemon_open{of="turns"}'] == 0 and before["aidaemon_healthy"] == 1
        turn = await daemon.begin("choose a color")
        await daemon.until(turn, "approval.asked")
        seen = await metrics(daemon)
        assert seen['aidaemon_open{of="turns"}'] == seen['aidaemon_open{of="approvals"}'] == 1
        assert seen[f'aidaemon_turn_used{{turn="{turn}",of="iterations"}}'] == 1
        assert seen[f'aidaemon_turn_limit{{turn="{turn}",of="iterations"}}'] == 7
        assert seen[f'aidaemon_turn_limit{{turn="{turn}",of="seconds"}}'] == 90
        assert seen[f'aidaemon_turn_used{{turn="{turn}",of="input_tokens"}}'] > 0
        assert seen['aidaemon_day_limit{of="tokens"}'] == 100000
        assert seen['aidaemon_day_used{of="tokens"}'] > 0
        status = str((await daemon.post("/v1/messages", text="/status"))["reply"])
        shown = rf"{turn}: 1 of 7 iterations, 10 of 500,000 input tokens, \d+ of 90 seconds, \$0.0\d+ of \$2\n"
        assert re.search(shown, status), status


async def test_d1_calls_tokens_and_ends_are_counted_by_model_and_reason(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(says("Hello."), says("Hello."))
    async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
        await daemon.ask("hi")
        first = await metrics(daemon)
        await daemon.ask("hi again")
        second = await metrics(daemon)
    (calls_made,) = (key for key in first if key.startswith("aidaemon_model_calls_total"))
    assert (first[calls_made], second[calls_made]) == (1, 2)
    assert sum(number for key, number in second.items() if "turns_ended" in key) == 2


async def test_d1_metrics_are_for_who_manages_the_daemon(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with running_daemon(tmp_path / "home", scripted(model.base_url, USERS)) as daemon:
        for token, status in (("", 401), ("annas-token-of-many-letters", 403)):
            headers = {"Authorization": f"Bearer {token}"}
            async with daemon.http.get("/metrics", headers=headers) as response:
                assert (await error_of(response))[0] == status
