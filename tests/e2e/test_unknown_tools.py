"""An agent file that names a tool that there is not is told so, before the start and after it (B1, B2)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.mcp import Script
from tests.fakes.openai import FakeOpenAI, says

BOOK = {"name": "book", "description": "Book a room.", "inputSchema": {"type": "object"}}
ENDS = """[[iteration.termination_conditions]]
kind = "tool-result"
tool = "{tool}"
match = {{ exit_code = 0 }}
"""


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        fake.otherwise(says("ok"))
        yield fake


def write_agent(home: Path, *tools: str) -> None:
    (home / "agents").mkdir(parents=True, exist_ok=True)
    text = "".join(ENDS.format(tool=tool) for tool in tools)
    (home / "agents" / "x.toml").write_text(f'[identity]\nname = "x"\n[iteration]\nmax_cycles = 3\n{text}')


def unknown(said: str) -> list[str]:
    """The keys and names of the tools that there are not."""
    return [line.partition("termination_conditions.")[2] for line in said.splitlines() if "there is no tool" in line]


def check(home: Path) -> list[str]:
    done = aidaemon("config", "check", home=home)
    assert done.returncode == 0, done
    return unknown(done.stderr)


async def choose(daemon: Daemon) -> list[str]:
    return unknown(str((await daemon.post("/v1/messages", text="/agent x"))["reply"]))


async def test_config_check_knows_every_tool_of_a_daemon_and_names_the_nearest_of_an_unknown_one(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(scripted(model.base_url))
    write_agent(home, "shell.exec", "read_file", "web_*", "schedule", "propose_plan", "red_file")
    expected = [
        "0.tool: there is no tool 'shell.exec'; did you mean 'shell'?",
        "5.tool: there is no tool 'red_file'; did you mean 'read_file'?",
    ]
    assert check(home) == expected
    async with running_daemon(home, None) as daemon:
        assert await choose(daemon) == expected


async def test_a_tool_that_the_config_switches_off_is_one_that_there_is_not(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    (tmp_path / "config.toml").write_text(
        scripted(model.base_url, '[tools]\ndisabled = ["web_*"]\n')
    )
    write_agent(tmp_path, "web_fetch", "shell")
    assert [line.split("; ")[0] for line in check(tmp_path)] == ["0.tool: there is no tool 'web_fetch'"]


async def test_a_servers_tools_are_known_before_it_has_listed_them_and_a_wrong_one_is_named(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Any may be there before the first start; then what is pinned, though the server is gone by now."""
    home, script = tmp_path / "home", Script(tmp_path / "desk")
    script.write([BOOK])
    table = [f"{key} = {json.dumps(one)}" for key, one in script.table().items()]
    config = scripted(model.base_url, "\n".join(["[mcp.desk]", *table, ""]))
    home.mkdir()
    (home / "config.toml").write_text(config)
    write_agent(home, "desk__book", "desk__bok", "shop__buy")
    far = "2.tool: there is no tool 'shop__buy'"
    near = "1.tool: there is no tool 'desk__bok'; did you mean 'desk__book'?"
    assert check(home) == [far]
    async with running_daemon(home, None) as daemon:
        await daemon.ask("hello")  # a turn waits until the server has listed its tools
        assert await choose(daemon) == [near, far]
        assert check(home) == [near, far]
        await daemon.terminate()
    script.file.unlink()  # it does not start any more
    async with running_daemon(home, None) as daemon:
        assert unknown("".join(daemon.log)) == [near, far]
        assert await choose(daemon) == [near, far]
