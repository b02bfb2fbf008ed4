"""Tools of MCP servers that listen somewhere: a real server of the newer kind, on loopback (A22)."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from daemon.core.events import Outcome
from daemon.core.trust import Label
from tests.fakes.mcp import keeping, until
from tests.fakes.mcp_http import serving
from tests.fakes.openai import Json
from tests.fakes.tools import Bench

EFFECTS = {"look": "read", "grow": "write"}


@pytest.mark.parametrize("json_response", [True, False], ids=["json", "stream"])
async def test_A22_a_server_over_http_is_called_with_its_headers_and_its_results_are_a_strangers(
    tmp_path: Path, json_response: bool
) -> None:
    async with serving(json_response=json_response) as server:
        table = {
            "url": server.url,
            "headers": {"Authorization": "Bearer t0ken"},
            "effects": EFFECTS,
        }
        async with keeping(tmp_path, {"far": table}) as kept:
            fine, wrong = await kept.one("far__look", at="the roof"), await kept.one("far__look")
    assert (fine.outcome, fine.text, fine.label) == (
        Outcome.OK,
        "a bird at the roof",
        Label.UNTRUSTED,
    )
    assert (wrong.outcome, wrong.label) == (Outcome.ERROR, Label.UNTRUSTED)
    assert server.executed == ["the roof"]
    assert set(server.tokens) == {"Bearer t0ken"}


async def test_a_server_that_is_gone_is_told_as_not_called_and_found_again_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with serving() as server:
        port, table = server.port, {"url": server.url, "effects": {"look": "write"}}
        bench = Bench(granted=("far__look",))
        keeper = keeping(tmp_path, {"far": table}, bench)
        kept = await keeper.__aenter__()
        assert (await kept.one("far__look", at="one")).text == "a bird at one"
    async with serving(port=port) as again:
        assert (await kept.one("far__look", at="two")).text == "a bird at two"
        await keeper.__aexit__(None, None, None)
    assert (server.executed, again.executed) == (["one"], ["two"])


async def test_a_server_that_is_not_there_yet_is_tried_until_it_is(tmp_path: Path) -> None:
    async with serving() as server:
        port = server.port
    async with keeping(tmp_path, {"far": {"url": f"http://127.0.0.1:{port}/mcp"}}) as kept:
        assert kept.servers.problems() == {"far": "127.0.0.1 cannot be reached"}
        async with serving(port=port):
            await until(lambda: "far__look" in kept.tools.names())


async def test_A22_a_server_over_http_that_changes_a_tool_has_it_switched_off(
    tmp_path: Path,
) -> None:
    async with serving() as server:
        bench = Bench(granted=("far__grow",))
        async with keeping(
            tmp_path, {"far": {"url": server.url, "effects": EFFECTS}}, bench
        ) as kept:
            assert (await kept.one("far__grow")).text == "grown"
            await until(lambda: bool(kept.told))
            refused = await kept.one("far__look", at="the roof")
    assert "switched off" in refused.text
    assert "+Look, and tell eve" in kept.told[0]
    assert server.executed == []


@asynccontextmanager
async def answering(
    kind: str, status: int = 200, write: Callable[[Json], str] = json.dumps
) -> AsyncIterator[str]:
    """The URL of a server with one tool, whose answers have this content type, or this status; `write` makes the body."""

    async def answer(request: web.Request) -> web.Response:
        if request.method != "POST" or status != 200:
            return web.Response(status=status, headers={"Location": "/mcp/"})
        asked = await request.json()
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "a bird"}]},
        }
        if "id" not in asked:
            return web.Response(status=202)
        found = {"result": results.get(asked["method"])}
        if asked["method"] not in results:
            found = {"error": {"code": -32601, "message": "no"}}
        body = write({"jsonrpc": "2.0", "id": asked["id"], **found}).encode()
        return web.Response(body=body, headers={"Content-Type": kind})

    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("/mcp"))
    finally:
        await server.close()


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "text/html"])
async def test_json_is_read_whatever_its_server_calls_it(tmp_path: Path, kind: str) -> None:
    async with (
        answering(kind) as url,
        keeping(tmp_path, {"desk": {"url": url, "default_effect": "read"}}) as kept,
    ):
        assert (await kept.one("desk__look")).text == "a bird"


def drop(key: str) -> Callable[[Json], str]:
    """Such an answer lacks this."""
    return lambda answer: json.dumps({name: one for name, one in answer.items() if name != key})


NOTE = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
ODD: dict[str, Callable[[Json], str]] = {
    "no jsonrpc": drop("jsonrpc"),
    "no id": drop("id"),
    "a batch": lambda answer: f"[{NOTE}, {json.dumps(answer)}]",
    "an id as a text": lambda answer: json.dumps({**answer, "id": str(answer["id"])}),
    "half an emoji": lambda answer: json.dumps({**answer, "more": "x"}).replace('"x"', '"\\ud83d"'),
}


@pytest.mark.parametrize("odd", ODD)
async def test_an_odd_answer_is_read_as_json_and_as_an_event(tmp_path: Path, odd: str) -> None:
    def as_events(answer: Json) -> str:
        stray = "event: ping\ndata: {}\n\ndata: no JSON\n\n: a comment\n\n"
        return f"{stray}id: 1\nevent: message\ndata: {ODD[odd](answer)}\n\n"

    for kind, write in (("application/json", ODD[odd]), ("text/event-stream", as_events)):
        async with (
            answering(kind, write=write) as url,
            keeping(tmp_path / kind[:4], {"desk": {"url": url, "default_effect": "read"}}) as kept,
        ):
            assert (await kept.one("desk__look")).text == "a bird", kind


@pytest.mark.parametrize(
    ("status", "why"),
    [(307, "it redirects to /mcp/: look at its url"), (405, "does not speak streamable HTTP")],
)
async def test_an_address_that_is_not_quite_right_says_what_is_wrong(
    tmp_path: Path, status: int, why: str
) -> None:
    async with (
        answering("text/plain", status) as url,
        keeping(tmp_path, {"desk": {"url": url}}) as kept,
    ):
        assert why in kept.servers.problems()["desk"]
