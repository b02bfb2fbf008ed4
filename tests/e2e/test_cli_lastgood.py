"""A8 through the real process: what worked is kept, and takes over from a config that does not work."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, fails, says

VALUE = "sk-hunter2-9fQ2zz81"
Done = subprocess.CompletedProcess[str]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


@pytest_asyncio.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as model:
        yield model


async def chat(home: Path, config: str, **env: str) -> Done:
    """`chat --once hello` with this config file."""
    (home / "config.toml").write_text(config)
    return await asyncio.to_thread(aidaemon, "chat", "--once", "hello", home=home, env=env)


def good(model: FakeOpenAI) -> str:
    """A config that works where SERVER is set to this machine."""
    return scripted(model.base_url.replace("127.0.0.1", "${SERVER}"))


async def worked_once(home: Path, model: FakeOpenAI) -> str:
    """A home whose config has answered once; its text."""
    model.otherwise(says("hello yourself"))
    done = await chat(home, good(model), SERVER="127.0.0.1")
    assert (done.returncode, done.stdout) == (0, "hello yourself\n"), done.stderr
    return good(model)


def kept(home: Path) -> str:
    return (home / "config.toml.lastgood").read_text()


async def test_a8_after_a_successful_call_the_running_text_is_kept_unexpanded(
    home: Path, model: FakeOpenAI
):
    text = await worked_once(home, model)
    assert kept(home) == text and "${SERVER}" in text


async def test_a8_the_name_of_a_secret_is_kept_and_not_its_value(home: Path, model: FakeOpenAI):
    (home / "secrets.toml").touch(mode=0o600)
    (home / "secrets.toml").write_text(f'model = "{VALUE}"\n')
    key = f'base_url = "{model.base_url}"\napi_key = "secret:model"'
    text = scripted(model.base_url).replace(f'base_url = "{model.base_url}"', key)
    done = await chat(home, text)
    assert done.returncode == 0, done.stderr
    assert model.requests[0].headers["Authorization"] == f"Bearer {VALUE}"
    assert kept(home) == text and 'api_key = "secret:model"' in text
    holding = [one.name for one in home.rglob("*") if one.is_file() and VALUE in one.read_text("latin-1")]
    assert holding == ["secrets.toml"]


async def test_a8_a_file_that_does_not_load_is_answered_with_the_last_good_one_and_the_fault_is_named(
    home: Path, model: FakeOpenAI
):
    text = await worked_once(home, model)
    done = await chat(home, text + "[agent]\nmax_iterations = 99\n", SERVER="127.0.0.1")
    assert (done.returncode, done.stdout) == (0, "hello yourself\n"), done.stderr
    assert "agent.max_iterations: found 99" in done.stderr and "last good config" in done.stderr
    assert kept(home) == text


@pytest.mark.parametrize("status", [401, 404])
async def test_a8_a_first_call_that_is_refused_after_an_edit_is_answered_with_the_last_good_one(
    home: Path, model: FakeOpenAI, status: int
):
    text = await worked_once(home, model)
    model.script(fails(status))
    done = await chat(home, text.replace('"fake"', '"mistaken"'), SERVER="127.0.0.1")
    assert (done.returncode, done.stdout) == (0, "hello yourself\n"), done.stderr
    assert "last good config" in done.stderr and str(home / "config.toml") in done.stderr
    assert model.requests[-1]["model"] == "fake"
    assert kept(home) == text


async def test_a8_a_first_call_that_is_refused_without_an_edit_is_a_failure(
    home: Path, model: FakeOpenAI
):
    text = await worked_once(home, model)
    model.otherwise(fails(401))
    done = await chat(home, text, SERVER="127.0.0.1")
    assert done.returncode == 1 and "last good config" not in done.stderr
    assert kept(home) == text


async def test_a8_an_untried_file_never_overwrites_the_last_good_one(home: Path, model: FakeOpenAI):
    text = await worked_once(home, model)
    async with running_daemon(home, text + "# untried\n", {"SERVER": "127.0.0.1"}) as daemon:
        assert await daemon.terminate() == 0
    assert kept(home) == text


async def test_a8_an_edit_under_a_running_daemon_is_not_what_ran_and_is_not_kept(
    home: Path, model: FakeOpenAI
):
    model.otherwise(says("hello yourself"))
    text = good(model)
    async with running_daemon(home, text, {"SERVER": "127.0.0.1"}) as daemon:
        (home / "config.toml").write_text(text + "[agent]\nmax_iterations = 99\n")
        await daemon.ask("hello")
        await daemon.terminate()
    assert kept(home) == text


async def test_a8_run_falls_back_too_and_says_so(home: Path, model: FakeOpenAI):
    text = await worked_once(home, model)
    async with running_daemon(home, text + "nonsense\n", {"SERVER": "127.0.0.1"}) as daemon:
        assert (await daemon.ask("hello"))["reply"] == "hello yourself"
        told = "".join(daemon.log)
        assert "is not TOML" in told and "last good config" in told


async def test_a8_only_where_there_is_no_last_good_one_a_broken_file_exits_2(home: Path):
    done = await chat(home, "[agent]\nmax_iterations = 99\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "agent.max_iterations: found 99" in done.stderr and "Traceback" not in done.stderr
