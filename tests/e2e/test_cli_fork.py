"""`aidaemon replay --fork-at` and `--to-test` (F7), as real processes."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from daemon.settings.secrets import SecretStore
from tests.fakes.command_line import ROOT, aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, says

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECRET = "sk-live-0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Past:
    home: Path
    model: FakeOpenAI
    plain: str
    tools: str
    waiting: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def past(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Past]:
    home = tmp_path_factory.mktemp("fork") / "home"
    async with FakeOpenAI() as model:
        async with running_daemon(home, scripted(model.base_url)) as daemon:
            model.script(says("hello"), calls(("calculate", {"expression": "6*7"})), says("42"))
            plain = str((await daemon.ask(f"my key is {SECRET}", "one"))["turn"])
            tools = str((await daemon.ask("what is 6 times 7?", "two"))["turn"])
            model.script(calls(("shell", {"command": "touch made.txt"})))
            waiting = await daemon.begin("make a file", "three")
            await daemon.until(waiting, "run.suspended")
        yield Past(home, model, plain, tools, waiting)


async def run(past: Past, *words: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(aidaemon, *words, home=past.home)


async def test_f7_a_run_goes_on_from_an_event_with_another_prompt_and_the_old_one_stays(past: Past):
    past.model.script(says("It is 63."))
    done = await run(past, "replay", past.tools, "--fork-at", "1", "--prompt", "What is 7 times 9?")
    assert done.returncode == 0, done.stderr
    begun, reply = done.stdout.splitlines()
    assert begun.startswith("turn ") and " goes on in terminal:fork-" in begun and reply == "It is 63."
    shown = await run(past, "show", past.tools)
    assert "what is 6 times 7?" in shown.stdout and "What is 7 times 9?" not in shown.stdout
    listed = await run(past, "sessions")
    assert "fork-" not in listed.stdout


async def test_f7_a_fork_that_waits_says_where_it_is_answered_and_an_answer_lets_it_go_on(past: Past):
    last = (await run(past, "show", past.waiting, "--jsonl")).stdout.count("\n")
    waits = await run(past, "replay", past.waiting, "--fork-at", str(last))
    assert waits.returncode == 0 and "It waits for an answer: `aidaemon chat --session fork-" in waits.stdout
    past.model.script(says("It is as you see."))
    gone_on = await run(past, "replay", past.waiting, "--fork-at", str(last), "--answer", "yes")
    assert gone_on.stdout.splitlines()[-1] == "It is as you see.", gone_on.stderr
    assert (past.home / "workspace" / "made.txt").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--fork-at", "99"), "event 99: expected 1 to"),
        (("--fork-at", "1", "--answer", "yes"), "nothing waits for an answer"),
        (("--fork-at", "1", "--to-test", "x.py"), "not allowed with"),
        (("--prompt", "x"), "are for --fork-at"),
    ],
)
async def test_f7_what_cannot_be_forked_is_told_with_exit_code_2(
    past: Past, words: tuple[str, ...], told: str
):
    done = await run(past, "replay", past.tools, *words)
    assert done.returncode == 2 and told in done.stderr


async def test_f7_a_run_becomes_a_test_that_needs_no_database_and_holds_no_secret(
    past: Past, tmp_path: Path
):
    SecretStore(past.home / "secrets.toml").put("KEY", SECRET)
    for turn in (past.tools, past.plain):
        file = tmp_path / f"test_{turn}.py"
        done = await run(past, "replay", turn, "--to-test", str(file))
        assert done.returncode == 0, done.stderr
        assert SECRET not in file.read_text()
        again = await run(past, "replay", turn, "--to-test", str(file))
        assert again.returncode == 2 and "is there already" in again.stderr
    words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)}
    ran = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr
    changed = file.read_text().replace('"hello"', '"goodbye"', 1)
    file.write_text(changed)
    ran = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60
    )
    assert "1 failed, 1 passed" in ran.stdout and "differs at event" in ran.stdout
