"""A yes is for what runs, too: a script or build file that changes after it makes a new question, with the difference."""

import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from daemon.core.events import ApprovalAsked
from daemon.core.rows import FileLabel
from daemon.core.trust import Label
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
        assert "names deploy.sh (2 lines, changed " in shown and " ago)" in shown


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


async def leave(it: Living, path: str, text: str, session: str = "web:download") -> None:
    """A command with a network, to which the owner says yes, leaves a stranger's file."""
    line = f"mkdir -p $(dirname {path}) && printf '%s' '{text}' > {path}"
    turn = await waits(it, runs(command=line, network=True), session)
    await it.command("/approve", session)
    await it.settled(turn)


async def runs_unasked(it: Living, reply: Step) -> bool:
    """Ends without a question."""
    it.model.script(reply, says("done"))
    turn = await it.say("again")
    async for event in it.house.client.stream_events(turn):
        if event.name == "run.suspended":
            return False
    return True


async def test_a_permission_for_always_ends_when_a_stranger_has_left_something_and_says_what(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place, line = workspace(tmp_path), runs(command="make test")
    (place / "Makefile").write_text("-include more.mk\ntest:\n\techo good >> result\n")
    async with living(tmp_path, model) as it:
        turn = await waits(it, line)
        await it.command("/approve always")
        await it.settled(turn)
        assert await runs_unasked(it, line)
        await leave(it, "more.mk", "$(shell echo evil > result)")
    async with living(tmp_path, model) as it:
        turn = await waits(it, line)
        (asked,) = await questions(it, turn)
        assert "may run what strangers left here: more.mk" in asked.preview
        assert "more.mk is new" in asked.preview and "+$(shell echo evil" in asked.preview
        await it.command("/deny")
        await it.settled(turn)
        assert (place / "result").read_text() == "good\ngood\n"
        (place / "more.mk").unlink()
        assert await runs_unasked(it, line)  # what was allowed is allowed


async def test_what_the_owner_changes_and_what_is_written_by_their_words_ends_no_permission(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place, line = workspace(tmp_path), runs(command="sh all.sh")
    (place / "all.sh").write_text("sh one.sh; sh two.sh\n")
    (place / "one.sh").write_text("true\n")
    (place / "two.sh").write_text("true\n")
    async with living(tmp_path, model) as it:
        turn = await waits(it, line)
        await it.command("/approve always")
        await it.settled(turn)
        (place / "one.sh").write_text("echo one >> result\n")  # in an editor
        write = {"path": "two.sh", "text": "echo two >> result\n"}
        model.script(calls(("write_file", write)), line, says("done"))
        await it.ask("let two.sh print two, and run it")
        assert (place / "result").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("count", [3, 300])
async def test_the_last_of_many_files_of_strangers_ends_a_permission_too(
    tmp_path: Path, model: FakeOpenAI, count: int
) -> None:
    place, line = workspace(tmp_path), runs(command="ls -1 | wc -l > count")
    folder = place / "cloned"
    (folder / ".git").mkdir(parents=True)  # a repository of its own
    for number in range(count):
        (folder / f"{number:03}.sh").write_text("true\n")
    async with living(tmp_path, model) as it:
        turn = await waits(it, line)
        await it.command("/approve always")
        await it.settled(turn)
        assert await runs_unasked(it, line)
        (folder / f"{count - 1:03}.sh").write_text("evil\n")  # pulled
        assert not await runs_unasked(it, line)


@pytest.mark.parametrize("size", [0, 70_000_000])
async def test_what_commands_of_the_owner_make_of_what_is_there_ends_no_permission(
    tmp_path: Path, model: FakeOpenAI, size: int
) -> None:
    place = workspace(tmp_path)
    (place / "cloned" / ".git").mkdir(parents=True)  # so nothing that commands leave is known
    (place / "cloned" / "data").write_text("1\n")
    with (place / "big").open("wb") as file:
        file.truncate(size)
    os.chown(place / "big", 12345, -1)  # another user's
    (place / "made").mkdir()
    build = runs(command="date +%N > made/built")
    other = runs(command="date +%N > made/other; sh made/built")
    async with living(tmp_path, model) as it:
        for line, chat in ((build, "web:build"), (other, "web:other")):
            turn = await waits(it, line, chat)
            await it.command("/approve always", chat)
            await it.settled(turn)
        for line in (build, other, build, other):
            assert await runs_unasked(it, line)
        (place / "cloned" / "data").write_text("2\n")
        assert not await runs_unasked(it, build)


async def test_what_a_command_fetches_is_no_news_to_it_but_to_all_others(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    fetch, other = runs(command="date +%N > fetched", network=True), runs(command="sh fetched")
    workspace(tmp_path)
    async with living(tmp_path, model) as it:
        for line in (fetch, other):
            turn = await waits(it, line)
            await it.command("/approve always")
            await it.settled(turn)
        assert await runs_unasked(it, other)
        assert await runs_unasked(it, fetch)
        assert await runs_unasked(it, fetch)
        assert not await runs_unasked(it, other)


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


@pytest.mark.parametrize("strange", [True, False])
async def test_what_a_command_in_the_background_writes_is_run_by_no_other_until_it_ends(
    tmp_path: Path, model: FakeOpenAI, strange: bool
) -> None:
    place = workspace(tmp_path)
    (place / "deploy.sh").write_text("echo good > result\n")
    async with living(tmp_path, model) as it:
        line = "echo 'echo evil > result' > deploy.sh; sleep 60"
        turn = await waits(it, runs(command=line, background=True, network=strange))
        await it.command("/approve")
        await it.settled(turn)
        turn = await waits(it, runs(**DEPLOY))
        await it.command("/approve")
        await it.settled(turn)
        assert (place / "result").read_text() == "good\n"


async def test_a_permission_of_before_asks_once_more_and_says_why(
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
        before = """UPDATE grants SET binds = '{"": "before"}'"""  # as the migration leaves it
        await store.write(lambda tx: tx._run(before))
        turn = await waits(it, runs(**DEPLOY))
        (asked,) = await questions(it, turn)
        assert "files were bound in another way when it was allowed" in asked.preview
        await it.command("/approve show 1")
        await it.command("/approve always")
        await it.settled(turn)
        assert await runs_unasked(it, runs(**DEPLOY))


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


async def test_a_yes_to_a_launcher_that_was_set_aside_holds_until_a_stranger_puts_another_there(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place, line = workspace(tmp_path), runs(argv=[".venv/bin/tool"])
    writes = "printf '#!/bin/sh\\necho {} >> result\\n' > .venv/bin/tool; chmod +x .venv/bin/tool"
    venv = "/usr/bin/python3 -m venv --without-pip .venv; "
    async with living(tmp_path, model) as it:
        turn = await waits(it, runs(command=venv + writes.format("good")))
        await it.command("/approve")
        await it.settled(turn)
        assert not (place / ".venv" / "bin").exists()
        turn = await waits(it, line)
        await it.command("/approve always")
        await it.settled(turn)
        assert await runs_unasked(it, line)
        turn = await waits(it, runs(command=writes.format("evil"), network=True), "web:download")
        await it.command("/approve", "web:download")
        await it.settled(turn)
        turn = await waits(it, line)
        (asked,) = await questions(it, turn)
        assert ".venv/bin/tool is new" in asked.preview
        assert (place / "result").read_text() == "good\ngood\n"


@pytest.mark.parametrize(
    ("line", "asks"), [("wc -l *.md > count", False), ("sh later.md || true", True)]
)
async def test_a_note_that_is_written_of_a_page_ends_a_permission_only_where_the_words_name_it(
    tmp_path: Path, model: FakeOpenAI, line: str, asks: bool
) -> None:
    place = workspace(tmp_path)
    (place / "notes.md").write_text("true\n")
    (place / "page.txt").write_text("a page\n")
    async with living(tmp_path, model) as it:
        page = FileLabel("page.txt", Label.UNTRUSTED, "")
        await it.house.files.labels.save([page])
        turn = await waits(it, runs(command=line))
        await it.command("/approve always")
        await it.settled(turn)
        read = calls(("read_file", {"path": "page.txt"}))
        write = calls(("write_file", {"path": "later.md", "text": "echo evil > result\n"}))
        it.model.script(read, write, says("done"))
        await it.ask("Read page.txt and sum it up in later.md", "web:reads")
        assert (place / "later.md").exists()  # such a note needs no question
        assert await runs_unasked(it, runs(command=line)) != asks
        assert not (place / "result").exists()


@pytest.mark.parametrize("path", [".env", "linked"])
async def test_what_a_protected_file_holds_is_neither_kept_nor_shown_when_it_changes(
    tmp_path: Path, model: FakeOpenAI, path: str
) -> None:
    place = workspace(tmp_path)
    (place / ".env").write_text("WORD=walrus\n")
    os.link(place / ".env", place / "linked")
    async with living(tmp_path, model) as it:
        turn = await waits(it, runs(command=f"sh {path}"))
        assert f"names {path} (1 line" in await it.command("/approve show 1")
        (place / path).write_text("WORD=teal\n")
        await it.command("/approve")
        asked = await waits_again(it, turn)
        assert f"{path} has changed (not shown)" in asked.preview
        assert "walrus" not in asked.preview and "teal" not in asked.preview
        assert not [*(tmp_path / "undo").glob("bound-*")]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("words", [{"command": "a" * 900_000}, {"argv": ["a/" * 400_000] * 20}])
async def test_a_very_long_word_is_looked_at_in_no_time(
    tmp_path: Path, model: FakeOpenAI, words: dict[str, object]
) -> None:
    async with living(tmp_path, model) as it:
        turn = await waits(it, runs(**words))
        assert len(await questions(it, turn)) == 1


async def test_odd_names_of_strangers_files_are_told_on_one_line(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place, line = workspace(tmp_path), runs(command="ls -1 | wc -l > count")
    (place / "cloned" / ".git").mkdir(parents=True)
    for name in (b"\xff.sh", b"b\nnames nothing at all", b"c\x1b[31m", b"\xe2\x80\xaed"):
        (place / "cloned" / os.fsdecode(name)).write_text("true\n")
    async with living(tmp_path, model) as it:
        turn = await waits(it, line)
        (asked,) = await questions(it, turn)
        assert "names nothing at all" in asked.preview
        assert not any(one.startswith("names nothing") for one in asked.preview.splitlines())
        await it.command("/approve always")
        await it.settled(turn)
        assert await runs_unasked(it, line)
        (place / "cloned" / os.fsdecode(b"e\xff\nnames nothing new")).write_text("evil\n")
        turn = await waits(it, line)
        (asked,) = await questions(it, turn)
        assert not any(one.startswith("names nothing") for one in asked.preview.splitlines())
        shown = await it.command("/approve show 1")
        assert "\x1b" not in shown and "\u202e" not in shown


async def test_a_stranger_ends_a_permission_also_where_nobody_can_look_any_more(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place, line = workspace(tmp_path), runs(command="sh deep/part; date +%N > deep/made")
    (place / "deep").mkdir()
    (place / "deep" / "part").write_text("true\n")
    for number in range(5):
        (place / f"{number}.txt").write_text("mine\n")
    async with living(tmp_path, model) as it:
        it.house.effects.max_entries = 3  # what is deep is beyond
        await leave(it, "deep/first", "true")
        turn = await waits(it, line)
        await it.command("/approve always")
        await it.settled(turn)
        for _ in range(2):
            assert await runs_unasked(it, line)
        await leave(it, "deep/part", "echo evil > result")
        assert not await runs_unasked(it, line)
        assert not (place / "result").exists()


@pytest.mark.parametrize("answer", ["/approve", "/approve session", "/approve always"])
async def test_what_a_command_of_a_tainted_chat_leaves_is_no_owners_whatever_the_yes(
    tmp_path: Path, model: FakeOpenAI, answer: str
) -> None:
    place = workspace(tmp_path)
    (place / "go.sh").write_text("sh part || true\n")
    (place / "page.txt").write_text("a page\n")
    async with living(tmp_path, model) as it:
        await it.house.files.labels.save([FileLabel("page.txt", Label.UNTRUSTED, "")])
        turn = await waits(it, runs(command="sh go.sh"))
        await it.command("/approve always")
        await it.settled(turn)
        read, line = calls(("read_file", {"path": "page.txt"})), "echo 'echo evil > result' > part"
        it.model.script(read, runs(command=line), says("done"))
        turn = await it.say("Read page.txt", "web:reads")
        await it.until(turn, "approval.asked")
        await it.command(answer, "web:reads")
        await it.settled(turn)
        assert not await runs_unasked(it, runs(command="sh go.sh"))
        assert (place / "part").exists() and not (place / "result").exists()
