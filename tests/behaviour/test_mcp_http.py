"""Tools of MCP servers that listen somewhere: a real server of the newer kind, on loopback (A22)."""

from pathlib import Path

import pytest

from daemon.core.events import Outcome
from daemon.core.trust import Label
from tests.fakes.mcp import keeping, until
from tests.fakes.mcp_http import serving
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
