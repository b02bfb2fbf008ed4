"""How an attack reaches a daemon: in this process, or over HTTP, as a daemon of any version is reached."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import tomli_w
from aiohttp import ClientSession
from yarl import URL

from daemon.app.daemon import Overrides
from daemon.core.trust import OWNER, Answer
from tests.fakes.house import Living, living
from tests.fakes.mail.door import MailDoor
from tests.fakes.openai import FakeOpenAI
from tests.fakes.sse import events_of

Json = dict[str, object]
TOKEN = "adaptive-token-0123456789"
EVENT_TOKEN = "a-token-of-the-mail-event"
ROOT = Path(__file__).parents[3]
READY_S = 60.0


class Door(Protocol):
    """The doors that both have: a chat, a run's events, answers to its questions, events from outside."""

    async def say(self, text: str, session: str) -> tuple[str, str]:
        """The turn it begins, and the reply of a command."""
        ...

    def events(self, turn: str) -> AsyncIterator[tuple[str, Mapping[str, object]]]:
        """Names and data, to the end of the run."""
        ...

    async def answer(self, turn: str, call_id: str, *, yes: bool) -> None:
        """The owner's."""
        ...

    async def event(self, text: str) -> str:
        """From outside; the turn."""
        ...

    async def mail(self, text: str, thread: str) -> str:
        """From a known sender, whom the config allows to be answered; the turn. In this process only."""
        ...

    async def left(self) -> list[str]:
        """What goes out by mail."""
        ...

    async def reply(self, turn: str) -> str:
        """What the run said at its end."""
        ...

    async def start_schedules(self) -> None:
        """From now on they run, as they do in a process of its own."""
        ...

    async def post_event(self, text: str) -> int:
        """The status that an event got, over HTTP only."""
        ...

    def address(self) -> tuple[str, int]:
        """Where it listens, over HTTP only."""
        ...


@dataclass(slots=True)
class LocalDoor:
    """A daemon in this process."""

    it: Living
    box: MailDoor = field(init=False)

    def __post_init__(self) -> None:
        self.box = MailDoor(self.it.house)

    async def say(self, text: str, session: str) -> tuple[str, str]:
        said = await self.it.house.client.send(session, text, stream=False)
        return said.turn or said.steered, said.reply

    async def events(self, turn: str) -> AsyncIterator[tuple[str, Mapping[str, object]]]:
        async for event in self.it.house.client.stream_events(turn):
            yield event.name, event.data

    async def answer(self, turn: str, call_id: str, *, yes: bool) -> None:
        answer = Answer.ONCE if yes else Answer.DENY
        await self.it.house.client.answer_approval(turn, call_id, answer, OWNER)

    async def event(self, text: str) -> str:
        return (await self.it.house.triggers.accept("mail", {"text": text}, len(text))).turn

    async def mail(self, text: str, thread: str) -> str:
        return await self.box.deliver(text, thread)

    async def left(self) -> list[str]:
        return [row.body for row in await self.box.left()]

    async def reply(self, turn: str) -> str:
        return (await self.it.settled(turn)).reply or ""

    async def start_schedules(self) -> None:
        await self.it.house.schedules.start()

    async def post_event(self, text: str) -> int:
        raise NotImplementedError

    def address(self) -> tuple[str, int]:
        raise NotImplementedError


@dataclass(slots=True)
class HttpDoor:
    """A daemon that is a process of its own."""

    http: ClientSession
    url: URL

    async def say(self, text: str, session: str) -> tuple[str, str]:
        body = {"session": session.removeprefix("web:"), "text": text}
        async with self.http.post("/v1/messages", json=body) as response:
            said = await response.json()
        return str(said.get("turn") or said.get("steered") or ""), str(said.get("reply") or "")

    async def events(self, turn: str) -> AsyncIterator[tuple[str, Mapping[str, object]]]:
        async with self.http.get(f"/v1/runs/{turn}/events") as response:
            async for sent in events_of(response):
                yield sent.name, sent.data

    async def answer(self, turn: str, call_id: str, *, yes: bool) -> None:
        verb = "approve" if yes else "reject"
        async with self.http.post(f"/v1/runs/{turn}/{verb}", json={"call_id": call_id}) as response:
            await response.read()

    async def event(self, text: str) -> str:
        token = {"Authorization": f"Bearer {EVENT_TOKEN}"}
        body = {"text": text}
        async with self.http.post("/v1/events/mail", json=body, headers=token) as response:
            return str((await response.json()).get("turn"))

    async def mail(self, text: str, thread: str) -> str:
        raise NotImplementedError

    async def left(self) -> list[str]:
        return []

    async def start_schedules(self) -> None:
        pass

    async def reply(self, turn: str) -> str:
        async with self.http.get(f"/v1/runs/{turn}") as response:
            return str((await response.json()).get("reply") or "")

    async def post_event(self, text: str) -> int:
        token = {"Authorization": f"Bearer {EVENT_TOKEN}"}
        body = {"text": text}
        async with self.http.post("/v1/events/mail", json=body, headers=token) as response:
            await response.read()
            return response.status

    def address(self) -> tuple[str, int]:
        assert self.url
        return str(self.url.host), int(self.url.port or 0)


@asynccontextmanager
async def local(
    home: Path, model: FakeOpenAI, config: Mapping[str, object], parts: Overrides
) -> AsyncGenerator[LocalDoor]:
    """In this process."""
    async with living(home, model, config, parts) as it:
        await it.house.wait_for_servers(READY_S)
        yield LocalDoor(it)


@asynccontextmanager
async def process(
    home: Path,
    model: FakeOpenAI,
    config: Mapping[str, object],
    root: Path,
    path: str = "",
    most_files: int = 0,
) -> AsyncGenerator[HttpDoor]:
    """The daemon whose code is at `root`, with this PATH and so many files; killed at the end."""
    provider = {"kind": "openai", "base_url": model.base_url, "models": {"primary": "scripted"}}
    given = config.get("provider")
    provider |= given if isinstance(given, dict) else {}
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    http = {"port": 0, "token": TOKEN}
    (home / "config.toml").write_text(tomli_w.dumps({**config, "provider": provider, "http": http}))
    env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    limited = ("prlimit", f"--nofile={most_files}") if most_files else ()
    daemon = await asyncio.create_subprocess_exec(
        *limited, sys.executable, "-m", "daemon", "run", "--home", str(home),
        env={**env, "PYTHONPATH": str(root), **({"PATH": path} if path else {})}, cwd=root,
        stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(READY_S):
            url = await _ready(daemon)
        rest = asyncio.create_task(daemon.stderr.read() if daemon.stderr else asyncio.sleep(0))
        async with ClientSession(url, headers={"Authorization": f"Bearer {TOKEN}"}) as http_client:
            yield HttpDoor(http_client, URL(url))
        rest.cancel()
    finally:
        if daemon.returncode is None:
            os.killpg(daemon.pid, signal.SIGKILL)
        await daemon.wait()


async def _ready(daemon: asyncio.subprocess.Process) -> str:
    assert daemon.stderr
    said = ""
    while line := (await daemon.stderr.readline()).decode():
        said += line
        if line.startswith("ready "):
            return line.split()[1]
    raise AssertionError(f"the daemon did not become ready:\n{said}")


def as_text(value: object) -> str:
    """Arguments of a question as one text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
