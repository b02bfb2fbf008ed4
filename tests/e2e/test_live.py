"""The live socket: verbs and events of loops (C4, C8), roles (C9), and loops that end with their page (C10)."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import ClientWebSocketResponse, WSServerHandshakeError

from daemon.http.sign_in import sign_request
from tests.fakes.daemon_process import TOKEN, Daemon, Json, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, says
from tests.fakes.wordy_model import Turnstile

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOPING = """[agent.loop]
enabled = true
max_iterations = 2
[loops]
teardown_grace_ms = {grace}
[[http.users]]
name = "vera"
role = "viewer"
token = "viewer-token"
[[http.users]]
name = "ed"
role = "editor"
token = "editor-token"
"""
LONG, SHORT = 60_000, 50


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(home: Path, model: FakeOpenAI) -> AsyncIterator[Daemon]:
    config = scripted(model.base_url, LOOPING.format(grace=LONG))
    async with running_daemon(home, config) as daemon:
        yield daemon


class Live:
    """A page's connection."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.socket = socket

    async def receive(self) -> Json:
        async with asyncio.timeout(20):
            return await self.socket.receive_json()

    async def until(self, kind: str, /, **expected: object) -> Json:
        """The next message of this type with these values."""
        while True:
            message = await self.receive()
            if message["type"] == kind and expected.items() <= message.items():
                return message

    async def ask(self, kind: str, /, **given: object) -> Json:
        """Send a verb; its answer."""
        await self.socket.send_json({"type": kind, "agent": "default", "id": 7, **given})
        while True:
            message = await self.receive()
            if message.get("id") == 7:
                return message

    async def seen_to_the_end(self) -> list[Json]:
        seen = []
        while True:
            seen.append(message := await self.receive())
            if message["type"] == "agent:status" and message["status"] in ("idle", "error"):
                return seen


@asynccontextmanager
async def live(
    daemon: Daemon, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Live]:
    async with daemon.http.ws_connect("/live", headers=headers) as socket:
        connected = Live(socket)
        connected.hello = await connected.until("hello")  # type: ignore[attr-defined]
        yield connected


def shows(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_C4_C8_a_loop_is_started_and_each_event_is_told_by_its_name(
    daemon: Daemon, model: FakeOpenAI
) -> None:
    model.script(says("one"), says("two"))
    async with live(daemon) as page:
        started = await page.ask("loop:start", message="go on")
        loop = started["loop"]
        assert isinstance(loop, dict) and loop["status"] == "running"
        about = {"agentId": "default", "loopId": loop["loopId"]}
        seen = await page.seen_to_the_end()
        told = [message for message in seen if message["type"] != "notification"]
        assert [message for message in told if message.get("status") != "running"] == [
            {"type": "agent:loop_iteration", **about, "iteration": 1, "maxIterations": 2, "output": "one"},
            {"type": "progress", **about, "iteration": 1, "learning": "one"},
            {"type": "agent:loop_iteration", **about, "iteration": 2, "maxIterations": 2, "output": "two"},
            {"type": "progress", **about, "iteration": 2, "learning": "two"},
            {"type": "completed", **about, "totalIterations": 2, "finalOutput": "two"},
            {"type": "agent:status", **about, "status": "idle"},
        ]
        notices = [message["text"] for message in seen if message["type"] == "notification"]
        assert notices == ["one", "two", "two"]


async def test_C4_a_review_is_an_action_that_is_required_and_is_answered_here(
    daemon: Daemon, model: FakeOpenAI
) -> None:
    model.script(says("look at it"))
    async with live(daemon) as page:
        started = await page.ask("loop:start", message="make it", criterion="manual")
        asked = await page.until("notification", kind="action_required")
        assert asked["actions"] == ["approve", "reject"] and asked["text"] == "look at it"
        loop = started["loop"]
        assert isinstance(loop, dict)
        ended = await page.ask("loop:approve", loopId=loop["loopId"], approved=True)
        assert isinstance(ended["loop"], dict) and ended["loop"]["status"] == "completed"
        again = await page.ask("loop:approve", loopId=loop["loopId"], approved=True)
        assert again["error"]["type"] == "not_now"  # type: ignore[index]


async def test_C8_a_loop_is_paused_resumed_and_stopped_and_hello_tells_of_it(
    daemon: Daemon, model: FakeOpenAI
) -> None:
    gate = Turnstile(says("late"))
    model.script(gate)
    async with live(daemon) as page:
        await page.ask("loop:start", message="wait")
        await asyncio.wait_for(gate.reached.wait(), 10)
        paused = await page.ask("loop:pause")
        assert isinstance(paused["loop"], dict) and paused["loop"]["status"] == "paused"
        async with live(daemon) as other:
            [active] = other.hello["loops"]  # type: ignore[attr-defined]
            assert active["message"] == "wait"
        resumed = await page.ask("loop:resume")
        assert isinstance(resumed["loop"], dict) and resumed["loop"]["status"] == "running"
        stopped = await page.ask("loop:stop")
        assert isinstance(stopped["loop"], dict) and stopped["loop"]["status"] == "failed"
        assert (await page.ask("loop:stop"))["error"]["type"] == "no_loop"  # type: ignore[index]
    gate.open.set()


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ("no JSON", "message:"),
        ("[1, 2]", "valid dictionary"),
        ('{"type": "loop:start"}', "agent: Field required"),
        ('{"type": "loop:dance", "agent": "default"}', "expected one of loop:start"),
        ('{"type": "loop:start", "agent": "default", "message": " "}', "message: "),
        ('{"type": "loop:start", "agent": "nobody", "message": "x"}', "nobody"),
        ('{"type": "loop:approve", "agent": "default", "loopId": "x", "approved": true}', "no loop 'x'"),
    ],
)
async def test_what_cannot_be_done_is_told_as_an_error_and_the_socket_goes_on(
    daemon: Daemon, sent: str, told: str
) -> None:
    async with live(daemon) as page:
        await page.socket.send_str(sent)
        error = await page.until("agent:error")
        assert told in error["error"]["message"]  # type: ignore[index]
        assert (await page.ask("loop:stop"))["error"]["type"] == "no_loop"  # type: ignore[index]


async def test_a_message_that_is_too_large_ends_its_own_connection_only(daemon: Daemon) -> None:
    async with live(daemon) as page, live(daemon) as other:
        await page.socket.send_str("x" * 70_000)
        async with asyncio.timeout(10):
            while not page.socket.closed:
                await page.socket.receive()
        assert page.socket.close_code == 1009
        assert (await other.ask("loop:stop"))["error"]["type"] == "no_loop"  # type: ignore[index]


async def test_C9_a_viewer_watches_and_starts_nothing(daemon: Daemon) -> None:
    async with live(daemon, shows("viewer-token")) as page:
        for verb in ("loop:start", "loop:stop", "loop:approve"):
            refused = await page.ask(verb, message="x", loopId="x", approved=True)
            assert refused["error"]["type"] == "POLICY_ERROR"  # type: ignore[index]
            assert "viewer" in refused["error"]["message"]  # type: ignore[index]


async def test_C9_of_the_owners_own_conversations_others_see_nothing(
    daemon: Daemon, model: FakeOpenAI
) -> None:
    model.script(says("private one"), says("private two"), says("shared one"), says("shared two"))
    async with live(daemon, shows("viewer-token")) as viewer, live(daemon) as owner:
        await owner.ask("loop:start", message="mine", session="terminal:main")
        await owner.seen_to_the_end()
        async with live(daemon, shows("editor-token")) as editor:
            await editor.ask("loop:start", message="ours")
            await editor.seen_to_the_end()
        seen = await viewer.seen_to_the_end()
    assert {message.get("output") for message in seen} & {"shared one", "private one"} == {"shared one"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        (shows("wrong"), 401),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
    ],
)
async def test_nobody_connects_without_a_token_or_from_another_site(
    daemon: Daemon, headers: Mapping[str, str], status: int
) -> None:
    with pytest.raises(WSServerHandshakeError) as refused:
        async with live(daemon, headers):
            pass
    assert refused.value.status == status


async def find_loop(daemon: Daemon) -> Json:
    return (await daemon.listed("/api/loops"))[0]


async def start_and_leave(daemon: Daemon, gate: Turnstile) -> None:
    async with live(daemon) as page:
        await page.ask("loop:start", message="while I look")
        await asyncio.wait_for(gate.reached.wait(), 10)


async def test_C10_a_loop_ends_when_its_page_is_gone_for_the_grace_time(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    gate = Turnstile(says("never"))
    model.script(gate)
    config = scripted(model.base_url, LOOPING.format(grace=SHORT))
    async with running_daemon(tmp_path / "home", config) as daemon:
        async with live(daemon, shows("editor-token")) as other:
            await start_and_leave(daemon, gate)
            async with asyncio.timeout(10):
                while not (await find_loop(daemon))["ended"]:
                    await other.socket.ping()
                    await asyncio.sleep(0.02)
        loop = await find_loop(daemon)
        assert loop["error"] == "its page was closed" and loop["status"] == "failed"
    gate.open.set()


async def test_C10_who_comes_back_or_never_leaves_keeps_the_loop_and_http_loops_stay(
    daemon: Daemon, model: FakeOpenAI
) -> None:
    gate = Turnstile(says("kept"))
    model.script(gate, says("kept too"))
    async with live(daemon) as second:
        await start_and_leave(daemon, gate)
        gate.open.set()
        assert (await second.seen_to_the_end())[-1]["status"] == "idle"
    model.script(says("a"), says("b"))
    await daemon.post("/api/agents/default/loop/start", 202, message="over HTTP")
    async with live(daemon):
        pass
    async with asyncio.timeout(20):
        while not (await find_loop(daemon))["ended"]:
            await asyncio.sleep(0.02)
    assert (await find_loop(daemon))["status"] == "completed"


async def test_C10_a_page_that_is_loaded_again_within_the_grace_keeps_its_loop(
    daemon: Daemon, model: FakeOpenAI
) -> None:
    gate = Turnstile(says("kept"))
    model.script(gate, says("kept too"))
    await start_and_leave(daemon, gate)
    async with live(daemon) as again:
        gate.open.set()
        assert (await again.seen_to_the_end())[-1]["status"] == "idle"


async def test_C10_the_grace_is_a_minute_where_nothing_is_said(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home = tmp_path / "home"
    async with running_daemon(home, scripted(model.base_url)):
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "daemon", "config", "get", "loops", "--home", str(home)),
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await done.communicate()
    assert b"teardown_grace_ms = 60000" in printed and b"teardown_on_disconnect = true" in printed


@pytest.mark.parametrize(("off", "ends"), [("", True), ("teardown_on_disconnect = false\n", False)])
async def test_C10_after_a_kill_the_grace_begins_at_the_start_and_can_be_off(
    tmp_path: Path, model: FakeOpenAI, off: str, ends: bool
) -> None:
    first, second = Turnstile(says("never")), Turnstile(says("resumed"))
    model.script(first, second, says("and done"))
    looping = LOOPING.format(grace=SHORT).replace("[loops]\n", f"[loops]\n{off}")
    config = scripted(model.base_url, looping)
    async with running_daemon(tmp_path / "home", config) as daemon, live(daemon) as page:
        await page.ask("loop:start", message="over a kill")
        await asyncio.wait_for(first.reached.wait(), 10)
        daemon.process.kill()
        await daemon.process.wait()
    async with running_daemon(tmp_path / "home", None) as daemon:
        if not ends:
            second.open.set()
        async with asyncio.timeout(20):
            while not (loop := await find_loop(daemon))["ended"]:
                await asyncio.sleep(0.02)
        assert loop["error"] == ("its page was closed" if ends else None)
    first.open.set()
    second.open.set()


async def test_the_signature_of_a_page_is_its_protocol_and_the_answer_names_ours(daemon: Daemon) -> None:
    async with daemon.http.post("/v1/sign-in") as response:
        code = (await response.json())["link"].split("#code=")[1]
    async with daemon.http.post("/v1/sign-in/redeem", json={"code": code}) as response:
        key, cookies = (await response.json())["key"], response.cookies
    [cookie] = cookies.values()
    sent = {"Authorization": "", "Cookie": f"{cookie.key}={cookie.value}"}
    signature = sign_request(key, "GET", "/live", time.time(), "once", b"")
    protocols = ("aidaemon", f"sig.{signature}")
    async with daemon.http.ws_connect("/live", headers=sent, protocols=protocols) as socket:
        assert socket.protocol == "aidaemon"
        assert (await socket.receive_json())["type"] == "hello"
    with pytest.raises(WSServerHandshakeError):
        async with daemon.http.ws_connect("/live", headers=sent, protocols=("aidaemon",)):
            pass
    assert TOKEN not in key
