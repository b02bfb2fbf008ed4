"""The stream of a run's events under kill -9 of the daemon: each client sees each event once, in order, whatever they
reconnect to (done means 2 of the page)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.fakes.daemon_process import TOKEN, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, says
from tests.fakes.sse import Sent, events_of

CLIENTS, KILLS = 50, 20
# a call that a kill cuts off counts as spent
MORE = "[agent]\nmax_iterations = 25\nmax_usd = 1000.0\nmax_input_tokens = 100_000_000\n"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def _go_on(body: Json) -> Step:
    """One more call each time, until there were enough for all kills."""
    done = sum(message["role"] == "tool" for message in body["messages"])
    return calls(("calculate", {"expression": f"{done}+1"})) if done <= KILLS else says("It ends.")


async def _nothing() -> AsyncIterator[Sent]:
    for sent in ():
        yield sent


class Watcher:
    """A client that reconnects for ever, and keeps what it has seen."""

    def __init__(self, find_url: Callable[[], str]) -> None:
        self.find_url, self.seen, self.changed = find_url, list[Sent](), asyncio.Event()

    async def watch(self, turn: str) -> None:
        last = ""
        # a dead daemon's port may be another server's by now, and that one says nothing
        patience = ClientTimeout(total=None, sock_connect=5, sock_read=20)
        async with ClientSession(headers=HEADERS, timeout=patience) as http:
            while not (self.seen and self.seen[-1].name == "run.completed"):
                with suppress(ClientError, OSError, asyncio.IncompleteReadError, TimeoutError):
                    sent = {"Last-Event-ID": last} if last else {}
                    url = f"{self.find_url()}/v1/runs/{turn}/events"
                    async with http.get(url, headers=sent) as response:
                        known = response.status == 200
                        async for event in events_of(response) if known else _nothing():
                            if event.id:
                                last = event.id
                                self.seen.append(event)
                                self.changed.set()
                await asyncio.sleep(0.02)  # between two tries to connect

    async def until_results(self, count: int) -> None:
        while sum(event.name == "tool_result" for event in self.seen) < count:
            self.changed.clear()
            await self.changed.wait()


@pytest.mark.timeout(300)
async def test_fifty_clients_see_each_event_once_in_order_over_twenty_kills(tmp_path: Path) -> None:
    home, url, whole = tmp_path / "home", "", list[Sent]()
    watchers = [Watcher(lambda: url) for _ in range(CLIENTS)]
    async with FakeOpenAI() as model, asyncio.TaskGroup() as group:
        model.otherwise(by(_go_on))
        config = scripted(model.base_url, MORE)
        turn = ""
        for kill in range(KILLS + 1):
            async with running_daemon(home, config) as daemon:
                url = daemon.url
                if not turn:
                    turn = await daemon.begin("count")
                    for watcher in watchers:
                        group.create_task(watcher.watch(turn))
                if kill < KILLS:
                    async with asyncio.timeout(60):
                        await watchers[kill % CLIENTS].until_results(kill + 1)
                    daemon.process.kill()
                    await daemon.process.wait()
                    continue
                async with asyncio.timeout(60):
                    last = await daemon.until(turn, "run.completed")
                assert last.data["reply"] == "It ends."
                whole += [sent async for sent in daemon.stream(turn) if sent.id]
                async with asyncio.timeout(30):
                    for watcher in watchers:
                        while not (watcher.seen and watcher.seen[-1].name == "run.completed"):
                            watcher.changed.clear()
                            await watcher.changed.wait()
    expected = [(sent.id, sent.name) for sent in whole]
    assert len(set(expected)) == len(expected) > KILLS
    for watcher in watchers:
        assert [(sent.id, sent.name) for sent in watcher.seen] == expected
