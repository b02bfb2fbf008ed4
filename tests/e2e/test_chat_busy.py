"""A command that takes long: a daemon that is busy is not taken for one that is gone."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from daemon.app.config import parse_config
from daemon.app.daemon import open_daemon
from daemon.client.http import DaemonStopped, HttpClient
from daemon.http.app import HttpServer, build_app
from daemon.http.config import HttpConfig
from daemon.settings.paths import Paths
from daemon.store.lock import lock_home
from tests.e2e.test_chat_window import PROMPT
from tests.fakes.command_line import ROOT
from tests.fakes.daemon_process import TOKEN, scripted
from tests.fakes.openai import FakeOpenAI
from tests.fakes.screen import window

HERE = "terminal:main"
REPLY = "Journal: ok"


@dataclass(slots=True)
class Busy:
    """A daemon in this process that answers each command late."""

    home: Path
    url: str = ""
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    looks: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    is_stuck: bool = False

    async def hold(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A message waits until it is `ready`; the third question for its health makes it so."""
        if request.path.endswith("/messages"):
            self.sent.append(request.path)
            await self.ready.wait()
        elif request.path == "/health":
            self.looks.append(request.path)
            if self.is_stuck:
                await self.ready.wait()
            elif len(self.looks) == 3:
                self.ready.set()
        return await handler(request)


@pytest.fixture
async def busy(tmp_path: Path) -> AsyncIterator[Busy]:
    home = tmp_path / "home"
    made, paths = Busy(home), Paths(home, home / "config.toml")
    async with FakeOpenAI() as model:
        home.mkdir()
        paths.config.write_text(scripted(model.base_url))
        loaded = parse_config(scripted(model.base_url), paths.config, env={}, secrets={})
        with lock_home(home):
            async with open_daemon(paths, loaded) as house:
                house.ready.set()
                app = build_app(house.client, TOKEN)
                app.middlewares.append(web.middleware(partial(Busy.hold, made)))
                server = HttpServer(HttpConfig(port=0), app)
                made.url = await server.start()
                known = {"pid": os.getpid(), "url": made.url, "token": TOKEN}
                paths.daemon.write_text(json.dumps(known))
                yield made
                await server.aclose()


async def test_the_reply_to_a_long_command_comes_when_it_is_ready(busy: Busy) -> None:
    result = await HttpClient(busy.url, TOKEN, patience_s=0.2).send(HERE, "/status", "1")
    assert REPLY in result.reply
    assert len(busy.sent) == 1 and len(busy.looks) == 3


async def test_a_daemon_that_does_not_even_say_that_it_is_alive_is_gone(busy: Busy) -> None:
    busy.is_stuck = True
    with pytest.raises(DaemonStopped, match="look whether the message is there"):
        await HttpClient(busy.url, TOKEN, patience_s=0.2).send(HERE, "/status", "1")
    assert len(busy.sent) == len(busy.looks) == 1


async def test_a_person_sees_that_a_long_command_is_still_at_work(busy: Busy) -> None:
    async with window("chat", "--home", str(busy.home)) as shown:
        await shown.sees(PROMPT)
        shown.types("/status\r")
        await shown.sees("waiting for the answer to /status · 3 s")
        busy.ready.set()
        await shown.sees(REPLY)
        await shown.loses("waiting for the answer")


async def test_a_chat_without_a_screen_says_that_a_long_command_is_still_at_work(
    busy: Busy,
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "daemon", "chat", "--home", str(busy.home), "--once", "/status"),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    async with asyncio.timeout(30):
        assert b"still at work" in await process.stderr.readline()
        busy.ready.set()
        out, _ = await process.communicate()
    assert REPLY in out.decode()
