"""A rule that names a tool or a server means exactly that; one that fits no form says so (F5)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.mcp import Script
from tests.fakes.openai import FakeOpenAI, calls, says

NOTE, LIST = (
    {"name": name, "description": f"{name} it.", "inputSchema": {"type": "object"}}
    for name in ("note", "list")
)


@pytest.fixture
async def daemon(tmp_path: Path, model: FakeOpenAI) -> AsyncIterator[Daemon]:
    script = Script(tmp_path / "d", "d")
    script.write([NOTE, LIST], {"note": [{"text": "noted"}], "list": [{"text": "listed"}]})
    table = script.table()
    lines = [f"{key} = {json.dumps(one)}" for key, one in table.items()]
    effects = '[mcp.d.effects]\nnote = "read"\nlist = "read"\n'
    config = scripted(model.base_url, "\n".join(["[mcp.d]", *lines, effects]))
    async with running_daemon(tmp_path / "home", config) as running:
        yield running


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


async def add(daemon: Daemon, rule: str) -> str:
    return str((await daemon.post("/v1/messages", text=f"/rules add {rule}"))["reply"])


async def refused(daemon: Daemon, model: FakeOpenAI, *tools: tuple[str, dict[str, object]]) -> list[str]:
    """Those of the tools that are not run when the model calls them."""
    model.script(*(calls(one) for one in tools), says("There."))
    run = await daemon.ask("try it")
    return [str(one["tool"]) for one in await daemon.calls_of(str(run["turn"])) if one["decision"] == "deny"]


TRIED: tuple[tuple[str, dict[str, object]], ...] = (("d__note", {}), ("d__list", {}), ("read_file", {"path": "a.txt"}), ("current_time", {}))


@pytest.mark.parametrize(
    ("rule", "meant"),
    [
        ("never use d__note", ["d__note"]),
        ("never use the server d", ["d__note", "d__list"]),
        ("deny tool=d__list", ["d__list"]),
        ("deny tool=d__*", ["d__note", "d__list"]),
        ("never use the tool read_file", ["read_file"]),
    ],
)
async def test_f5_exactly_the_tool_or_the_server_that_is_named(
    daemon: Daemon, model: FakeOpenAI, rule: str, meant: list[str]
) -> None:
    assert f"It can apply to these tools: {', '.join(meant)}" in await add(daemon, rule)
    assert await refused(daemon, model, *TRIED) == meant


async def test_f5_to_call_the_shell_is_no_phone_call(daemon: Daemon) -> None:
    said = await add(daemon, "never call the shell")
    assert "refuse every call of shell." in said and "It can apply to these tools: shell." in said
    assert "refuse every call of web_fetch." in await add(daemon, "never use web_fetch")
    assert "ask before every call of web_fetch." in await add(daemon, "ask before using web_fetch")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("never post on Sundays", "exception ('on Sundays'). The nearest is: deny effect=egress"),
        ("ask before deleting in March", "('in March'). The nearest is: ask effect=destructive"),
        ("never use d__nott", "There is no tool or server 'd__nott' now; did you mean 'd__note'?"),
        ("deny tool=shel", "There is no tool 'shel' now; did you mean 'shell'?"),
    ],
)
async def test_f5_what_fits_no_form_makes_no_rule_and_the_nearest_form_is_told(
    daemon: Daemon, model: FakeOpenAI, rule: str, why: str
) -> None:
    model.otherwise(says('{"problem": "It has a condition."}'))
    said = await add(daemon, rule)
    assert said.startswith("No rule was added.")
    assert why in said or "It has a condition." in said
    assert "deny tool=shell" in said, "the forms are told"
    assert "There are no rules." in str((await daemon.post("/v1/messages", text="/rules"))["reply"])
