"""A yes is for what runs, too: a script or build file that changes after it makes a new question, with the difference."""

import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from daemon.core.events import ApprovalAsked
from daemon.store.sqlite import SqliteStore
from daemon.tools.base import ToolError
from daemon.tools.shell.process import Start, run_process
from daemon.tools.shell.sandbox import Sandbox
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, Step, calls, says

DEPLOY = {"argv": ["sh", "deploy.sh"]}


def workspace(home: Path) -> Path:
    place = home / "workspace"
    place.mkdir(parents=True, exist_ok=True)
    return place


def runs(**arguments: object) -> Step:
    return calls(("shell", arguments))


async def waits(it: Living, reply: Step, session: str = SESSION) -> str:
    """A turn whose model wants this; it waits for a person."""
    it.model.script(reply, says("done"))
    turn = await it.say("deploy it", session)
    await it.until(turn, "run.suspended")
    return turn


async def questions(it: Living, turn: str) -> list[ApprovalAsked]:
    return [event for event in await it.events(turn) if isinstance(event, ApprovalAsked)]


async def waits_again(it: Living, turn: str, before: int = 1) -> ApprovalAsked:
    """One more question than before, once it stands."""
    async for event in it.house.client.stream_events(turn):
        asked = await questions(it, turn)
        if event.name == "run.suspended" and len(asked) > before:
            return asked[-1]
    raise AssertionError("it ended without a second question")


async def test_the_question_names_the_script_with_its_size_and_age(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    (workspace(tmp_path) / "deploy.sh").write_text("echo one\necho two\n")
    async with living(tmp_path, model) as it:
        await waits(it, runs(**DEPLOY))
        shown = await it.command("/approve show 1")
        assert "runs deploy.sh (2 lines, changed " in shown and " ago)" in shown


@pytest.mark.parametrize("restart", [False, True])
async def test_a_script_swapped_before_the_yes_is_used_is_asked_about_again_with_the_difference(
    tmp_path: Path, model: FakeOpenAI, restart: bool
) -> None:
    place = workspace(tmp_path)
    (place / "deploy.sh").write_text("echo good > result\n")
    async with AsyncExitStack() as stack:
        it = await stack.enter_async_context(living(tmp_path, model))
        turn = await waits(it, runs(**DEPLOY))
        (place / "deploy.sh").write_text("echo evil\u202e > result\n")
        if restart:
            await stack.aclose()
            it = await stack.enter_async_context(living(tmp_path, model))
        await it.command("/approve")
        asked = await waits_again(it, turn)
        assert not (place / "result").exists()
        assert "what runs has changed since it was allowed:" in asked.preview
        assert "-echo good > result" in asked.preview and "+echo evil" in asked.preview
        shown = await it.command("/approve show 1")
        assert "\u202e" not in shown and "deploy.sh has changed" in shown
        (place / "deploy.sh").write_text("echo good > result\n")  # not what was asked about now
        await it.command("/approve")
        await waits_again(it, turn, 2)
        assert not (place / "result").exists()
        told = await it.command("/approve")  # a second tap is no yes to what was not seen
        assert "see it whole first" in told and not (place / "result").exists()


async def test_an_unchanged_script_runs_with_one_question(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = workspace(tmp_path)
    (place / "deploy.sh").write_text("echo good > result\n")
    async with living(tmp_path, model) as it:
        turn = await waits(it, runs(**DEPLOY))
    async with living(tmp_path, model) as it:
        await it.command("/approve")
        await it.settled(turn)
        assert (place / "result").read_text() == "good\n" and len(await questions(it, turn)) == 1


async def test_a_permission_for_always_ends_where_the_makefile_is_rewritten(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = workspace(tmp_path)
    (place / "Makefile").write_text("test:\n\techo good >> result\n")
    async with living(tmp_path, model) as it:
        turn = await waits(it, runs(command="make test"))
        await it.command("/approve always")
        await it.settled(turn)
        model.script(runs(command="make test"), says("done"))
        await it.ask("again")  # the same content asks nothing
    (place / "Makefile").write_text("test:\n\techo evil >> result\n")
    async with living(tmp_path, model) as it:
        turn = await waits(it, runs(command="make test"))
        (asked,) = await questions(it, turn)
        assert "-\techo good >> result" in asked.preview and "+\techo evil" in asked.preview
        await it.command("/deny")
        await it.settled(turn)
        (place / "Makefile").write_text("test:\n\techo good >> result\n")
        model.script(runs(command="make test"), says("done"))
        await it.ask("again")  # what was allowed is allowed
        (place / "GNUmakefile").write_text("test:\n\techo evil\n")  # make takes this one first
        turn = await waits(it, runs(command="make test"))
        (asked,) = await questions(it, turn)
        assert "GNUmakefile is new" in asked.preview


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ("lib.sh", "sh deploy.sh"),
        ("tool.py", "python3 main.py"),
        ("build.js", "npm run build"),
        ("conftest.py", "pytest -q"),
        ("notes.txt", "cat notes.txt | sh"),
        ("anything.txt", "python3 started.py"),
    ],
)
async def test_what_the_script_names_is_part_of_what_was_allowed(
    tmp_path: Path, model: FakeOpenAI, changed: str, line: str
) -> None:
    place = workspace(tmp_path)
    (place / "deploy.sh").write_text(". ./lib.sh\n")
    (place / "main.py").write_text("import tool\n")
    (place / "started.py").write_text("import os\nos.system('sh anything' + '.txt')\n")
    (place / "package.json").write_text('{"scripts": {"build": "node build.js"}}')
    (place / changed).write_text("# innocent\n")
    async with living(tmp_path, model) as it:
        turn = await waits(it, runs(command=line))
        (place / changed).write_text("# evil\n")
        await it.command("/approve")
        asked = await waits_again(it, turn)
        assert f"{changed} has changed" in asked.preview and "+# evil" in asked.preview


async def test_a_script_that_the_same_reply_writes_is_asked_about_as_written(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = workspace(tmp_path)
    reply = calls(
        ("write_file", {"path": "deploy.sh", "text": "echo fine > result\n"}), ("shell", DEPLOY)
    )
    async with living(tmp_path, model) as it:
        turn = await waits(it, reply)
        await it.command("/approve")
        await it.settled(turn)
        assert (place / "result").read_text() == "fine\n" and len(await questions(it, turn)) == 1


async def test_an_approved_command_that_rewrites_the_script_of_the_next_makes_a_new_question(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = workspace(tmp_path)
    (place / "deploy.sh").write_text("echo good > result\n")
    reply = calls(
        ("shell", {"command": "echo 'echo evil > result' > deploy.sh"}), ("shell", DEPLOY)
    )
    async with living(tmp_path, model) as it:
        turn = await waits(it, reply)
        await it.command("/approve all")  # shows them first
        await it.command("/approve all")
        asked = await waits_again(it, turn, 2)
        assert "+echo evil > result" in asked.preview
        assert not (place / "result").exists()


async def test_nothing_that_was_asked_about_runs_beside_a_command_in_the_background(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = workspace(tmp_path)
    (place / "deploy.sh").write_text("echo good > result\n")
    async with living(tmp_path, model) as it:
        turn = await waits(it, runs(command="sleep 60", background=True))
        await it.command("/approve")
        await it.settled(turn)
        turn = await waits(it, runs(**DEPLOY))
        await it.command("/approve")
        await it.settled(turn)
        told = model.requests[-1].last("tool")["content"]
        assert "could change that after it was looked at" in told and "stop_command" in told
        assert not (place / "result").exists()


async def test_a_permission_of_before_asks_once_more_where_a_file_runs(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = workspace(tmp_path)
    (place / "deploy.sh").write_text("echo good\n")
    async with living(tmp_path, model) as it:
        turn = await waits(it, runs(**DEPLOY))
        await it.command("/approve always")
        await it.settled(turn)
        store = it.house.store
        assert isinstance(store, SqliteStore)
        (grant,) = await store.read(lambda tx: tx.list_grants("*"))
        assert "deploy.sh" in grant.binds
        await store.write(lambda tx: tx._run("UPDATE grants SET binds = ''"))
        turn = await waits(it, runs(**DEPLOY))
        (asked,) = await questions(it, turn)
        assert "what was allowed before did not say what these hold" in asked.preview


async def test_a_script_swapped_while_its_sandbox_is_built_runs_nothing(tmp_path: Path) -> None:
    script = tmp_path / "deploy.sh"
    script.write_text("echo good")
    sandbox = await Sandbox.open(tmp_path)

    async def look() -> None:
        script.write_text("echo evil > result")
        raise ToolError("Not run: it has changed")

    argv = sandbox.wrap(["/bin/sh", "deploy.sh"])
    with pytest.raises(ToolError, match="it has changed"):
        await run_process(argv, tmp_path, sandbox.env, 5, 1000, start=Start(look))
    assert not (tmp_path / "result").exists()


async def test_what_was_kept_for_a_difference_is_private_and_goes_after_three_months(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    (workspace(tmp_path) / "deploy.sh").write_text("echo one\n")
    async with living(tmp_path, model) as it:
        await waits(it, runs(**DEPLOY))
        (kept,) = (tmp_path / "undo").glob("bound-*")
        assert kept.read_text() == "echo one\n" and kept.stat().st_mode & 0o777 == 0o600
    async with living(tmp_path, model):
        assert kept.exists()
    long_ago = kept.stat().st_mtime - 92 * 86_400
    os.utime(kept, (long_ago, long_ago))
    async with living(tmp_path, model):
        assert not kept.exists()


async def test_a_test_that_the_model_wrote_needs_no_new_yes_and_one_that_appeared_does(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = workspace(tmp_path)
    body = "import unittest\nclass A(unittest.TestCase):\n def test_a(self): {}\n"
    (place / "test_a.py").write_text(body.format("pass"))
    line = runs(command="python3 -m unittest -q")
    async with living(tmp_path, model) as it:
        turn = await waits(it, line)
        await it.command("/approve always")
        await it.settled(turn)
        write = {"path": "test_a.py", "text": body.format("open('own', 'w')")}
        model.script(calls(("write_file", write)), line, says("done"))
        await it.ask("write a test and run it")
        assert (place / "own").exists()
    (place / "test_b.py").write_text(body.format("open('evil', 'w')"))
    async with living(tmp_path, model) as it:
        turn = await waits(it, line)
        (asked,) = await questions(it, turn)
        assert (
            "test_b.py is new" in asked.preview
            and "test_a.py" not in asked.preview.partition("what runs has changed")[2]
        )
        assert not (place / "evil").exists()
