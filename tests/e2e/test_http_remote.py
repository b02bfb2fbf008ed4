"""A client of a daemon that goes away, and of connections that break."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from daemon.client.http import DaemonStopped, HttpClient, RequestRefused
from daemon.client.view_types import LiveEvent
from tests.fakes.daemon_process import TOKEN, Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, hangs, says
from tests.fakes.wordy_model import Script, Turnstile

QUICK = (0.01, 0.01)


def free_port() -> int:
    """Below the ports that the system gives to outgoing connections, so that nobody takes it while the daemon is away."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


@dataclass(slots=True)
class CuttingProxy:
    """The daemon behind a wire that breaks after so many bytes of each answer; whole when no cuts are left."""

    daemon: Daemon
    cuts: list[int]
    carriers: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[str, None]:
        server = await asyncio.start_server(self.accept, "127.0.0.1")
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for carrier in self.carriers:
                carrier.cancel()
            await asyncio.gather(*self.carriers, return_exceptions=True)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.carriers.add(asyncio.ensure_future(self.carry(reader, writer)))

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(
            *self.daemon.url.removeprefix("http://").split(":")
        )
        with closing(writer), closing(back):
            back.write(await reader.readuntil(b"\r\n\r\n"))
            writer.write(await there.readuntil(b"\r\n\r\n"))
            left = self.cuts.pop(0) if self.cuts else 2**30
            while left and (piece := await there.read(min(left, 4096))):
                writer.write(piece)
                left -= len(piece)
            await writer.drain()


async def watched(door: HttpClient, turn: str) -> list[LiveEvent]:
    return [event async for event in door.stream_events(turn)]


async def test_a_watcher_over_a_wire_that_breaks_anywhere_sees_each_event_once(
    tmp_path: Path,
) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon,
    ):
        two = calls(("current_time", {}), ("current_time", {}))
        turn = str((await daemon.ask(Script(model).on("two", two, says("done"))))["turn"])
        door = HttpClient(daemon.url, TOKEN)
        whole = await watched(door, turn)
        for first in range(1, 2000, 61):
            async with CuttingProxy(daemon, [first, 200]).listening() as url:
                door = HttpClient(url, TOKEN, delays=QUICK)
                assert await watched(door, turn) == whole


async def test_a_draft_that_was_cut_off_is_taken_back(tmp_path: Path) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon,
    ):
        step = Turnstile(says("a draft of several pieces, and a whole reply in the end"))
        turn = await daemon.begin(Script(model).on("draft", step))
        await step.reached.wait()
        async with CuttingProxy(daemon, [200]).listening() as url:
            door = HttpClient(url, TOKEN, delays=QUICK)
            seen: list[LiveEvent] = []
            async for event in door.stream_events(turn):
                seen.append(event)
                step.open.set()
    names = [event.name for event in seen]
    assert names.index("model.delta") < names.index("model.reset") < names.index("model.response")
    assert names.count("model.response") == names.count("run.completed") == 1


async def test_a_watcher_stays_with_a_run_through_kill_9_and_a_new_start(tmp_path: Path) -> None:
    """K4: the model is asked again, and the watcher gets the answer without asking again."""
    async with FakeOpenAI() as model:
        config = scripted(model.base_url).replace("port = 0", f"port = {free_port()}")
        script = Script(model)
        script.on("survive", hangs())
        async with running_daemon(tmp_path / "home", config) as daemon:
            door = HttpClient(daemon.url, TOKEN, delays=(0.5,) * 20)
            turn = (await door.send("web:live", "please survive")).turn
            watching = asyncio.ensure_future(watched(door, turn))
            await model.hanging.wait()
            os.kill(daemon.process.pid, signal.SIGKILL)
            await daemon.process.wait()
        script.on("survive", says("I did"))
        async with running_daemon(tmp_path / "home", config):
            events = await watching
    assert (events[-1].name, events[-1].data["reply"]) == ("run.completed", "I did")
    seqs = [(event.seq, event.rest) for event in events if event.seq]
    assert len(set(seqs)) == len(seqs)


async def test_a_client_of_a_daemon_that_stopped_is_told_that_nothing_was_lost(
    tmp_path: Path,
) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon,
    ):
        model.script(hangs())
        door = HttpClient(daemon.url, TOKEN, delays=QUICK)
        turn = (await door.send("web:gone", "hi")).turn
        watching = asyncio.ensure_future(watched(door, turn))
        await model.hanging.wait()
        os.kill(daemon.process.pid, signal.SIGKILL)
        with pytest.raises(
            DaemonStopped, match=r"nothing was lost: start it again, the answer will come"
        ):
            await watching
        with pytest.raises(DaemonStopped, match="was not taken"):
            await door.send("web:gone", "and this?")


async def test_a_client_with_an_old_token_is_told_so(tmp_path: Path) -> None:
    async with (
        FakeOpenAI() as model,
        running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon,
    ):
        door = HttpClient(daemon.url, "an old one")
        with pytest.raises(RequestRefused, match="token"):
            await door.list_runs()
        with pytest.raises(RequestRefused, match="token"):
            await watched(door, "t")
