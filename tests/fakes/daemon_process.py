"""`aidaemon run` as a real process, driven from outside by its HTTP door."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import ClientResponse, ClientSession

from tests.fakes import born
from tests.fakes.command_line import KEPT, ROOT
from tests.fakes.sse import Sent, events_of

TOKEN = "test-token-0123456789"
Json = dict[str, object]


class NotReady(AssertionError):
    """It ended before it said that it is ready."""


@dataclass(slots=True)
class Daemon:
    """A daemon that is ready."""

    url: str
    home: Path
    process: asyncio.subprocess.Process | born.Born
    http: ClientSession = field(repr=False)
    log: list[str] = field(default_factory=list)

    async def get(self, path: str, **query: str) -> object:
        """The JSON of a page that must be there."""
        async with self.http.get(path, params=query) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def post(self, path: str, expect: int = 200, **body: object) -> Json:
        """The JSON answer, which must have this status."""
        async with self.http.post(path, json=body) as response:
            assert response.status == expect, await response.text()
            return await response.json()

    async def ask(self, text: str, session: str = "default") -> Json:
        """Say it and wait for the run's end."""
        return await self.post("/v1/messages?wait=1", session=session, text=text)

    async def begin(self, text: str, session: str = "default") -> str:
        """Say it; the turn."""
        return str((await self.post("/v1/messages", 202, session=session, text=text))["turn"])

    async def run(self, turn: str) -> Json:
        """The run as it is now."""
        view = await self.get(f"/v1/runs/{turn}")
        assert isinstance(view, dict)
        return view

    async def stream(self, turn: str, last: str = "") -> AsyncIterator[Sent]:
        """The events of the run, from one connection."""
        headers = {"Last-Event-ID": last} if last else {}
        async with self.http.get(f"/v1/runs/{turn}/events", headers=headers) as response:
            assert response.status == 200, await response.text()
            async for sent in events_of(response):
                yield sent

    async def calls_of(self, turn: str) -> list[Json]:
        """The run's calls."""
        calls = (await self.run(turn))["calls"]
        assert isinstance(calls, list)
        return calls

    async def listed(self, path: str, **query: str) -> list[Json]:
        """The JSON list of a page."""
        listed = await self.get(path, **query)
        assert isinstance(listed, list)
        return listed

    async def until(self, turn: str, name: str) -> Sent:
        """Watch the run until it tells this."""
        async for sent in self.stream(turn):
            if sent.name == name:
                return sent
        raise AssertionError(f"run {turn} ended without {name}")

    async def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 30)


@asynccontextmanager
async def running_daemon(
    home: Path,
    config: str | None,
    env: Mapping[str, str] | None = None,
    *,
    verbose: bool = False,
    python: str = sys.executable,
    module: str = "daemon",
) -> AsyncGenerator[Daemon, None]:
    """Start it on this HOME with this config, or with what is there; killed at the end if it still runs.

    `module`: what is run in its place.
    """
    if config is not None:
        _write(home, config)
    given = {name: os.environ[name] for name in KEPT if name in os.environ} | {
        "PYTHONPATH": str(ROOT),
        **(env or {}),
    }
    words = ("run", "--home", str(home), *["--verbose"] * verbose)
    process, stderr, hear_no_more = await _started((python, module), words, given, env or {})
    log: list[str] = []
    try:
        async with asyncio.timeout(30):
            url = await _ready(stderr, log)
        async with (
            asyncio.TaskGroup() as group,
            ClientSession(url, headers={"Authorization": f"Bearer {TOKEN}"}) as http,
        ):
            reading = group.create_task(_read_on(stderr, log))
            yield Daemon(url, home, process, http, log)
            reading.cancel()
    finally:
        with suppress(ProcessLookupError):  # it has ended, and nobody has asked yet
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        hear_no_more()


def scripted(base_url: str, more: str = "") -> str:
    """A config that asks this model server and listens where there is room."""
    return (
        f'[provider]\nkind = "openai"\nbase_url = "{base_url}"\n[provider.models]\nprimary = "fake"\n'
        f'[http]\nport = 0\ntoken = "{TOKEN}"\n{more}'
    )


def _write(home: Path, config: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(config)


async def _started(
    program: tuple[str, str],
    words: Sequence[str],
    env: Mapping[str, str],
    changed: Mapping[str, str],
) -> tuple[asyncio.subprocess.Process | born.Born, asyncio.StreamReader, Callable[[], None]]:
    """The process, what it says, and how to hear no more of it."""
    python, module = program
    if module == "daemon" and born.may_bear(python, changed):
        return await born.bear_and_hear(words, env)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", module, *words), env=env, stderr=pipe, start_new_session=True
    )
    assert process.stderr
    return process, process.stderr, lambda: None


async def _ready(stderr: asyncio.StreamReader, log: list[str]) -> str:
    while line := (await stderr.readline()).decode():
        log.append(line)
        if line.startswith("ready "):
            return line.split()[1]
    raise NotReady("the daemon did not become ready:\n" + "".join(log))


async def _read_on(stderr: asyncio.StreamReader, log: list[str]) -> None:
    while line := (await stderr.readline()).decode():
        log.append(line)


async def error_of(response: ClientResponse) -> tuple[int, str, str]:
    """(status, type, message) of an error, whose shape is checked."""
    body = await response.json()
    assert list(body) == ["error"] and sorted(body["error"]) == ["message", "type"]
    return response.status, body["error"]["type"], body["error"]["message"]
