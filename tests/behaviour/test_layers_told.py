"""What the owner is told of layers, and does about what waits: the result, /status, /trust, doctor, a HOME of before."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.agent.config import AgentConfig
from daemon.agent.spec.registry import AgentRegistry
from daemon.ops.doctor import DoctorInput, run_checks
from daemon.tools.config import ShellConfig
from tests.behaviour.test_layer_repositories import owner
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


LIMITS: dict[str, tuple[str, str]] = {
    "a folder is renamed": ("python3 -c 'import os; os.rename(\"d\", \"e\")'", "moves with mv only"),
    "a local path is cloned": ("git clone -q r c", "--no-hardlinks"),
}
if os.geteuid() == 0:  # nobody else can give a file away
    LIMITS["another user's file is written"] = ("echo 2 >> theirs", "belongs to another user")


@pytest.mark.parametrize("case", LIMITS)
async def test_a_command_that_fails_by_its_layer_is_told_why(
    tmp_path: Path, model: FakeOpenAI, case: str
) -> None:
    line, words = LIMITS[case]
    async with living(tmp_path, model) as it:
        root = it.house.files.workspace.root
        (root / "d").mkdir()
        (root / "theirs").write_text("1")
        (root / "theirs").chmod(0o666)
        if case.startswith("another"):
            os.chown(root / "theirs", 12345, 12345)
        git = "git init -q r; cd r; git -c user.name=o -c user.email=o@x commit -q --allow-empty -m 1"
        owner(root, git)
        told = await command(it, model, line)
        assert words in told and "exit_code: 0" not in told
        assert words not in await command(it, model, "echo fine; exit 1")


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
        tmp_path, tmp_path / "config.toml", "", None, [], tmp_path / "workspace", tmp_path, "", "none", "none",
        AgentRegistry(tmp_path / "agents", AgentConfig()), shell,
    )  # fmt: skip
    (found,) = [one for one in await run_checks(given) if one.name == "layers"]
    assert found.state == state
    assert ("copy of the workspace" in found.found) == (state == "warn")
