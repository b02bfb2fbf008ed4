"""What keeps an event stream honest while nothing happens: heartbeats, and watchers who have left."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession

from daemon.app.config import parse_config
from daemon.app.daemon import Daemon, open_daemon
from daemon.http.app import HttpServer, build_app
from daemon.http.config import HttpConfig
from daemon.settings.paths import Paths
from tests.fakes.chatting import streams
from tests.fakes.daemon_process import TOKEN, scripted
from tests.fakes.openai import FakeOpenAI, hangs


@dataclass(frozen=True, slots=True)
class Served:
    """A house behind a listener with quick heartbeats, and a client of it."""

    house: Daemon
    http: ClientSession
    model: FakeOpenAI


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    paths = Paths(tmp_path / "home", tmp_path / "config.toml")
    async with FakeOpenAI() as model:
        model.otherwise(hangs())
        config = scripted(model.base_url, "[agent]\ndrain_seconds = 0\n")
        async with open_daemon(
            paths, parse_config(config, paths.config, env={}, secrets={})
        ) as house:
            server = HttpServer(
                HttpConfig(port=0), build_app(house.client, TOKEN, heartbeat_s=0.01)
            )
            async with ClientSession(
                await server.start(), headers={"Authorization": f"Bearer {TOKEN}"}
            ) as http:
                yield Served(house, http, model)
            await server.aclose()


async def test_a_stream_in_which_nothing_happens_beats(served: Served) -> None:
    turn = (await served.house.client.send("web:quiet", "hi")).turn
    async with served.http.get(f"/v1/runs/{turn}/events") as response, asyncio.timeout(10):
        beats = 0
        while beats < 3:
            beats += (await response.content.readuntil(b"\n\n")).startswith(b":")


async def test_a_watcher_who_left_is_let_go_while_the_run_goes_on(served: Served) -> None:
    turn = (await served.house.client.send("web:left", "hi")).turn
    response = await served.http.get(f"/v1/runs/{turn}/events")
    await response.content.readuntil(b"\n\n")
    assert served.house.client.events.is_watched(turn)
    await served.model.asked(1)
    response.close()
    async with asyncio.timeout(10):
        while served.house.client.events.is_watched(turn):
            await (await served.http.get("/health")).read()
    run = await served.house.client.get_run(turn)
    assert run and run.state == "running"


async def test_who_watches_late_sees_the_text_that_came_before(served: Served) -> None:
    gate, written = asyncio.Event(), asyncio.Event()
    served.model.script(streams("Slow ", gate, "answer.", written))
    turn = (await served.house.client.send("web:late", "hi")).turn
    await written.wait()
    for _ in range(20):  # by then the daemon has read the piece
        await (await served.http.get("/health")).read()
    async with served.http.get(f"/v1/runs/{turn}/events") as response, asyncio.timeout(10):
        while b"Slow" not in await response.content.readuntil(b"\n\n"):
            pass
        gate.set()
