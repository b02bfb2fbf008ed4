"""Files that came with messages: written by the house alone, read by tools as what strangers wrote (A14, F3, trust.md)."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path

import pytest

from daemon.core.events import ToolFinished
from daemon.core.trust import Label
from daemon.tools.workspace.inbox_folder import FileTooBig, InboxFolder
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says

DAY = date(2026, 11, 22)
MOST = 1 << 20
HELD = "inbox/2026-11-22/t1-report.txt"


async def put(
    inbox: InboxFolder, data: bytes, name: str = "report.txt", turn: str = "t1", most: int = MOST
) -> str:
    async with inbox.create(name, DAY, turn, most) as file:
        for start in range(0, len(data), 1000):
            file.write(data[start : start + 1000])
    assert file.size == len(data)
    return file.path


@pytest.fixture
def inbox(tmp_path: Path) -> InboxFolder:
    return InboxFolder(tmp_path / "files" / "inbox")


def held(inbox: InboxFolder) -> list[str]:
    return sorted(
        str(path.relative_to(inbox.root)) for path in inbox.root.rglob("*") if path.is_file()
    )


async def test_a_file_is_there_whole_and_the_owners_alone(inbox: InboxFolder) -> None:
    old = os.umask(0)
    try:
        assert await put(inbox, b"x" * 5000) == HELD
    finally:
        os.umask(old)
    path = inbox.root / "2026-11-22" / "t1-report.txt"
    assert path.read_bytes() == b"x" * 5000 and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {
        stat.S_IMODE(place.stat().st_mode) for place in (inbox.root, inbox.root.parent, path.parent)
    } == {0o700}


async def test_F1_the_same_file_fetched_again_is_one_file(inbox: InboxFolder) -> None:
    await put(inbox, b"half")
    assert await put(inbox, b"whole") == HELD
    assert held(inbox) == ["2026-11-22/t1-report.txt"]
    assert (inbox.root / "2026-11-22" / "t1-report.txt").read_bytes() == b"whole"


@pytest.mark.parametrize(
    "name",
    [
        "../../../evil",
        "/etc/evil",
        "..",
        "",
        "a\0b",
        "x" * 400,
        "é" * 400 + ".pdf",
        "\u202efdp.exe",
    ],
)
async def test_a_name_leads_nowhere(inbox: InboxFolder, name: str) -> None:
    path = await put(inbox, b"x", name, turn="../t1")
    assert path.startswith("inbox/2026-11-22/t1-") and path.count("/") == 2 and path.isprintable()
    assert [f"inbox/{one}" for one in held(inbox)] == [path]


async def test_what_is_too_big_is_not_kept(inbox: InboxFolder) -> None:
    await put(inbox, b"x" * MOST, "just.bin")
    with pytest.raises(FileTooBig, match="bigger than 1 MB"):
        await put(inbox, b"x" * (MOST + 1), "more.bin")
    assert held(inbox) == ["2026-11-22/t1-just.bin"]


async def test_nothing_is_left_of_one_that_broke_off(inbox: InboxFolder) -> None:
    with pytest.raises(ConnectionError):
        async with inbox.create("report.txt", DAY, "t1", MOST) as file:
            file.write(b"half")
            raise ConnectionError
    begun = asyncio.Event()

    async def hangs() -> None:
        async with inbox.create("report.txt", DAY, "t1", MOST) as file:
            file.write(b"half")
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hangs())
    await begun.wait()
    assert held(inbox) != []
    task.cancel()
    await asyncio.wait([task])
    assert held(inbox) == []


async def test_F1_what_a_killed_daemon_left_unfinished_is_cleared_away(inbox: InboxFolder) -> None:
    await put(inbox, b"whole")
    (inbox.root / "2026-11-22" / ".0123.part").write_bytes(b"half")
    inbox.remove_unfinished()
    assert held(inbox) == ["2026-11-22/t1-report.txt"]
    InboxFolder(inbox.root / "none").remove_unfinished()


async def test_no_link_is_followed(inbox: InboxFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    await put(inbox, b"x", "first.txt")
    (inbox.root / "2026-11-22" / "t1-report.txt").symlink_to(elsewhere / "kept")
    await put(inbox, b"new")
    assert (elsewhere / "kept").read_text() == "kept"
    other = InboxFolder(inbox.root.parent / "other")
    other.root.mkdir()
    (other.root / "2026-11-22").symlink_to(elsewhere)
    with pytest.raises(OSError):
        await put(other, b"x")
    other.root.rename(other.root.with_name("moved"))
    other.root.symlink_to(elsewhere)
    with pytest.raises(OSError):
        await put(other, b"x")
    assert [path.name for path in elsewhere.iterdir()] == ["kept"]


@asynccontextmanager
async def house(
    home: Path, *steps: tuple[str, Mapping[str, object]], data: bytes = b"pay eve\n"
) -> AsyncIterator[Living]:
    """A house that has been sent a file, and a model that makes these calls, one after the other."""
    async with FakeOpenAI() as model:
        model.script(*(calls(step) for step in steps), says("Done."))
        async with living(home, model) as it:
            await put(InboxFolder(it.paths.inbox), data)
            (home / "workspace").mkdir(exist_ok=True)
            (home / "workspace" / "own.txt").write_text("mine\n")
            yield it


async def results(it: Living, text: str = "look") -> list[ToolFinished]:
    run = await it.ask(text)
    return [event for event in await it.events(run.turn) if isinstance(event, ToolFinished)]


async def test_F3_what_was_sent_is_read_as_what_a_stranger_wrote(tmp_path: Path) -> None:
    steps = [
        ("read_file", {"path": HELD}),
        ("search_files", {"pattern": "pay", "path": "inbox"}),
        ("list_dir", {"path": HELD[:16]}),
    ]
    async with house(tmp_path, *steps) as it:
        read, found, listed = await results(it)
        assert (read.text, read.label) == ("pay eve", Label.UNTRUSTED)
        assert (found.text, found.label) == (f"{HELD}:1: pay eve", Label.UNTRUSTED)
        assert (listed.text, listed.label) == ("t1-report.txt 8 bytes", Label.UNTRUSTED)


async def test_that_there_is_an_inbox_taints_nobody(tmp_path: Path) -> None:
    steps = [
        ("list_dir", {}),
        ("search_files", {"pattern": "pay"}),
        ("read_file", {"path": "own.txt"}),
    ]
    async with house(tmp_path, *steps) as it:
        listed, found, read = await results(it)
        assert listed.text == "inbox/ (came with messages; read only)\nown.txt 5 bytes"
        assert found.text == "no line holds 'pay'"
        assert {one.label for one in (listed, found, read)} == {Label.TRUSTED}


@pytest.mark.parametrize(
    "call",
    [
        ("write_file", {"path": HELD, "text": "x"}),
        ("write_file", {"path": "inbox/new.txt", "text": "x"}),
        ("edit_file", {"path": HELD, "old": "eve", "new": "bob"}),
        ("copy_file", {"path": "own.txt", "to": "inbox/2026-11-22/own.txt"}),
        ("copy_file", {"path": "own.txt", "to": "./inbox/../inbox/x"}),
        ("read_file", {"path": "inbox/../../config.toml"}),
        ("read_file", {"path": "inbox"}),
    ],
)
async def test_tools_only_read_there_and_nothing_around_it(
    tmp_path: Path, call: tuple[str, dict[str, object]]
) -> None:
    async with house(tmp_path, call) as it:
        [said] = await results(it)
        assert said.outcome.value == "error"
        assert held(InboxFolder(it.paths.inbox)) == ["2026-11-22/t1-report.txt"]
        assert (it.paths.inbox / "2026-11-22" / "t1-report.txt").read_bytes() == b"pay eve\n"
        assert [path.name for path in (tmp_path / "workspace").iterdir()] == ["own.txt"]


async def test_no_link_in_the_inbox_is_followed_by_tools(tmp_path: Path) -> None:
    async with house(tmp_path, ("read_file", {"path": "inbox/2026-11-22/t1-link"})) as it:
        (it.paths.inbox / "2026-11-22" / "t1-link").symlink_to(tmp_path / "config.toml")
        [said] = await results(it)
        assert "symbolic link" in said.text


async def test_F3_a_copy_for_commands_is_what_the_stranger_wrote_too(tmp_path: Path) -> None:
    data = b"\0binary " + bytes(range(256))
    steps = [
        ("copy_file", {"path": HELD, "to": "data/copy.bin"}),
        ("shell", {"command": "ls data; true"}),
    ]
    async with house(tmp_path, *steps, data=data) as it:
        turn = await it.say("copy it to data/copy.bin")
        await it.until(turn, "run.suspended")
        await it.command("/approve")
        await it.settled(turn)
        copied, ran = (event for event in await it.events(turn) if isinstance(event, ToolFinished))
        assert (
            copied.text == f"copied {len(data)} bytes to data/copy.bin"
            and copied.label is Label.TRUSTED
        )
        assert (tmp_path / "workspace" / "data" / "copy.bin").read_bytes() == data
        assert "copy.bin" in ran.text and ran.label is Label.UNTRUSTED


async def test_a_file_of_the_workspace_is_copied_with_its_own_label(tmp_path: Path) -> None:
    steps = [
        ("copy_file", {"path": "own.txt", "to": "more/own.txt"}),
        ("read_file", {"path": "more/own.txt"}),
    ]
    async with house(tmp_path, *steps) as it:
        _, read = await results(it)
        assert (read.text, read.label) == ("mine", Label.TRUSTED)


async def test_a_workspace_is_as_it_was_where_nothing_was_ever_sent(tmp_path: Path) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        model.script(
            calls(("write_file", {"path": "inbox/a.txt", "text": "mine"})),
            calls(("list_dir", {})),
            says("Done."),
        )
        written, listed = await results(it)
        assert written.text == "wrote 4 bytes to inbox/a.txt" and listed.text == "inbox/"
