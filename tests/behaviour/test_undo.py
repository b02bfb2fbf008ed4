"""/undo in a whole house: the model changes files, their owner takes it back (F8); labels hold in the next conversation (F3)."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from daemon.core.rows import FileLabel
from daemon.core.trust import Label
from daemon.sessions.inbox import InboxMessage
from daemon.tools.workspace.file_store import FileLabels
from daemon.tools.workspace.fs import Workspace
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.house import SESSION, living
from tests.fakes.openai import FakeOpenAI, Step, calls, says

OTHER = "web:other"


def writes(path: str, text: str) -> Step:
    return calls(("write_file", {"path": path, "text": text}))


async def test_F8_undo_takes_back_turn_by_turn_and_can_itself_be_taken_back(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(
        writes("a.txt", "one"),
        says("ok"),
        writes("a.txt", "two"),
        writes("b.txt", "new"),
        says("ok"),
    )
    async with living(tmp_path, model) as it:
        place = tmp_path / "workspace"
        first, second = (await it.ask("write")).turn, (await it.ask("write more")).turn
        said = await it.command("/undo")
        assert said.startswith(f"Undone, of {second} (/undo ")
        assert said.endswith("- a.txt: as it was before\n- b.txt: removed; it did not exist before")
        assert (place / "a.txt").read_text() == "one"
        again = said.partition("(/undo ")[2].partition(" ")[0]
        await it.command(f"/undo {again}")
        assert ((place / "a.txt").read_text(), (place / "b.txt").read_text()) == ("two", "new")
        await it.command("/undo")
        assert f"of {first} " in await it.command("/undo")
        assert list(place.iterdir()) == []
        assert (await it.command("/undo")).startswith("There is no file change to undo here.")
        listed = (await it.command("/undo list")).splitlines()
        assert listed[0] == "File changes, latest first (/undo ID undoes one):"
        assert f"- {first}, " in listed[-1]
        assert listed[-1].endswith("undone: a.txt (new)")


async def test_F8_undo_leaves_what_was_changed_since_and_knows_only_this_chat(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(writes("a.txt", "mine"), writes("b.txt", "mine"), says("ok"))
    async with living(tmp_path, model) as it:
        turn = (await it.ask("write")).turn
        (tmp_path / "workspace/a.txt").write_text("the owner's own")
        assert (await it.command("/undo", OTHER)).startswith("There is no file change")
        assert (await it.command(f"/undo {turn}", OTHER)).startswith(
            f"{turn} changed no file in this chat."
        )
        said = await it.command(f"/undo {turn}")
        assert f"Not undone, of {turn}:\n- a.txt: changed since, so it was left as it is" in said
        assert "- b.txt: removed" in said
        assert (tmp_path / "workspace/a.txt").read_text() == "the owner's own"


async def test_F8_undo_works_after_a_restart(tmp_path: Path, model: FakeOpenAI) -> None:
    model.script(writes("a.txt", "mine"), says("ok"))
    async with living(tmp_path, model) as it:
        await it.ask("write")
    async with living(tmp_path, model) as it:
        assert "- a.txt: removed" in await it.command("/undo")
    assert list((tmp_path / "workspace").iterdir()) == []


async def test_F3_a_file_from_outside_taints_another_conversation_after_a_restart(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(("read_file", {"path": "a.txt"})), says("ok"))
    async with living(tmp_path, model) as it:
        (tmp_path / "workspace/a.txt").write_text("evil")
        labels = FileLabels(Workspace(tmp_path / "workspace"), it.house.store, [])
        await labels.save([FileLabel("a.txt", Label.UNTRUSTED, "t")])
    async with living(tmp_path, model) as it:
        turn = (await it.ask("read it", OTHER)).turn
        row = await it.house.store.read(lambda tx: tx.get_turn(turn))
        assert row is not None
        assert row.label is Label.UNTRUSTED


async def test_F8_an_undo_that_a_kill_cut_off_is_carried_out_after_the_restart(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A real process is killed as soon as the first of many files is restored: the last that changed."""
    number = 60
    files = {f"f{n:02}.txt": f"the owner's {n}" for n in range(number)}
    workspace = tmp_path / "home" / "workspace"
    config = scripted(model.base_url)
    async with running_daemon(tmp_path / "home", config) as daemon:
        model.script(
            calls(*[("write_file", {"path": name, "text": "old"}) for name in files]), says("ok")
        )
        await daemon.ask("write")
        model.script(
            calls(*[("write_file", {"path": name, "text": text}) for name, text in files.items()]),
            says("ok"),
        )
        turn = str((await daemon.ask("write more"))["turn"])
        texts = [(workspace / name).read_text() for name in files]
        assert texts == list(files.values())
        undo = asyncio.create_task(daemon.post("/v1/messages", text="/undo"))
        async with asyncio.timeout(20):
            while (workspace / f"f{number - 1}.txt").read_text() != "old":
                await asyncio.sleep(0)
        daemon.process.kill()
        await daemon.process.wait()
        undo.cancel()
        await asyncio.gather(undo, return_exceptions=True)
        assert (workspace / "f00.txt").read_text() != "old"
    async with running_daemon(tmp_path / "home", config) as daemon:
        assert {(workspace / name).read_text() for name in files} == {"old"}
    with closing(sqlite3.connect(tmp_path / "home" / "journal.db")) as journal:
        [(said,)] = journal.execute("SELECT body FROM outbox WHERE body LIKE '%ndone%'").fetchall()
    assert said.startswith(f"Undone, of {turn} (/undo ")
    assert said.count("as it was before") == number and "Not undone" not in said


async def test_F8_an_undo_of_before_is_not_carried_out_once_something_else_was_said(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """It would mean another task by then."""
    async with living(tmp_path, model) as it:
        model.script(writes("a.txt", "one"), says("ok"))
        await it.ask("write")
        message = InboxMessage("web", "test", SESSION, "owner", "x", "/undo", role="owner")
        await it.house.inbox.accept(message, command=True)  # cut off here
        model.script(writes("a.txt", "two"), says("ok"))
        await it.ask("write more")
    async with living(tmp_path, model) as it:
        assert (tmp_path / "workspace/a.txt").read_text() == "two"
