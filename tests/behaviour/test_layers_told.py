"""What the owner is told of layers, and does about what waits: the result, /status, /trust, doctor, a HOME of before."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.agent.config import AgentConfig
from daemon.agent.spec.registry import AgentRegistry
from daemon.ops.doctor import DoctorInput, run_checks
from daemon.tools.config import ShellConfig
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as found:
        yield found


async def command(it: Living, model: FakeOpenAI, line: str) -> str:
    """The result of a command with the owner's yes."""
    model.script(calls(("shell", {"command": line})), says("done"))
    turn = await it.say("do it")
    await it.until(turn, "run.suspended")
    await it.command("/approve")
    return (await it.settled(turn)).calls[-1].result or ""


LAUNCHER = "mkdir -p .venv/bin; for n in a b c d; do echo 'echo hello' > .venv/bin/$n; done; chmod +x .venv/bin/*"


async def test_trust_lists_what_waits_and_brings_it_by_name(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path, model) as it:
        root = it.house.files.workspace.root
        told = await command(it, model, f"{LAUNCHER}; echo 1 > .envrc")
        assert "- .venv/bin: 4 files" in told and "- .envrc" in told and "/trust PATH" in told
        assert [one.name for one in root.iterdir()] == []
        for reply in (await it.command("/status"), await it.command("/trust")):
            assert ".venv/bin: 4 files" in reply and ".envrc" in reply
        assert "in its place (4 files)" in await it.command("/trust .venv")
        assert (root / ".venv/bin/a").stat().st_mode & 0o111
        assert not (root / ".envrc").exists()
        assert "hello" in await command(it, model, ".venv/bin/a")
        assert ".venv" not in await it.command("/trust")


async def test_all_that_is_trusted_brings_nothing_that_waits(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path, model) as it:
        await command(it, model, "echo 1 > .envrc")
        await it.command("/trust .")
        assert not (it.house.files.workspace.root / ".envrc").exists()


async def test_launchers_that_a_version_before_set_aside_wait_in_their_place(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    old = tmp_path / "quarantine" / "lent" / ".venv%2Fbin"
    old.mkdir(parents=True)
    (old / "a").write_text("#!/bin/sh\necho hello\n")
    (old / "a").chmod(0o755)
    async with living(tmp_path, model) as it:
        assert ".venv/bin/a" in await it.command("/trust")
        assert "hello" in await command(it, model, ".venv/bin/a")


@pytest.mark.parametrize(("layers", "state"), [("layers", "ok"), ("workspace/layers", "warn")])
async def test_doctor_says_how_commands_write(tmp_path: Path, layers: str, state: str) -> None:
    (tmp_path / "workspace").mkdir()
    shell = ShellConfig(layers=Path(layers))
    given = DoctorInput(
        tmp_path, tmp_path / "config.toml", "", None, tmp_path / "workspace", tmp_path, "",
        AgentRegistry(tmp_path / "agents", AgentConfig()), shell,
    )  # fmt: skip
    (found,) = [one for one in await run_checks(given) if one.name == "layers"]
    assert found.state == state
    assert ("copy of the workspace" in found.found) == (state == "warn")
