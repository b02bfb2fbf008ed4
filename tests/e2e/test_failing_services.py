"""A service that fails is asked again, and ends the turn at the third failing call (D3, E6)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Step, calls, says
from tests.fakes.web import Site, response, site

TRIES = 3
DOWN = response("no database", kind="text/plain", status="500 Oh No")
FINE = response("all is well", kind="text/plain")


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


def asks(url: str, method: str = "GET", **more: object) -> Step:
    return calls(("http_request", {"method": method, "url": url, **more}))


def config(model: FakeOpenAI, service: Site) -> str:
    return scripted(model.base_url, f'[tools.http]\nallow = ["{service.place}"]\n')


async def retries(daemon: Daemon, turn: str) -> int:
    return len([sent async for sent in daemon.stream(turn) if sent.name == "tool.retry"])


async def test_e6_a_get_that_fails_once_is_retried_and_costs_no_iteration(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with site() as service:
        url = service.put("/state", DOWN, FINE)
        model.script(asks(url, headers={"X-Mark": "a"}), says("It is well."))
        async with running_daemon(tmp_path / "home", config(model, service)) as daemon:
            run = await daemon.ask(f"how is {url} with the header X-Mark: a?")
            assert (run["stop_reason"], run["iterations"], len(service.seen)) == ("done", 1, 2)
            assert await retries(daemon, str(run["turn"])) == 1
    assert "all is well" in str(model.requests[1].last("tool")["content"])


async def test_d3_a_service_that_answers_500_to_three_calls_ends_the_turn(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with site() as service:
        urls = [service.put(f"/state/{number}", DOWN) for number in range(6)]
        model.script(*map(asks, urls[:3]), says("It is down."))
        async with running_daemon(tmp_path / "home", config(model, service)) as daemon:
            run = await daemon.ask(f"how are {' '.join(urls)}?")
            assert (run["stop_reason"], run["iterations"]) == ("failed", 3)
            assert len(service.seen) == 3 * TRIES
    assert "no database" in str(model.requests[3].last("tool")["content"])
    told = str(model.requests[3].last("user")["content"])
    assert "dependency: http_request 127.0.0.1 failed 3 times running" in told
