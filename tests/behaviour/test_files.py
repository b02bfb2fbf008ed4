"""The file tools: they do their work inside the workspace, and no path leads out of it."""

import asyncio
import json
import os
import threading
import unicodedata
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.events import ApprovalAsked, Outcome, ToolFinished
from daemon.tools.base import ToolError
from daemon.tools.calls import is_protected
from daemon.tools.config import ToolsConfig
from daemon.tools.workspace.fs import MAX_FILE_BYTES, Workspace
from tests.fakes.files import Desk, write_bytes
from tests.fakes.tools import Bench

SECRET = "the secret of the house"
DEADLINE = 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "workspace"
    place.mkdir()
    (place.parent / "secret.txt").write_text(SECRET)
    return place


async def bench(root: Path, protected: tuple[str, ...] = ()) -> Bench:
    return (await Desk.at(root.parent)).bench(protected=protected)


def names(place: Path) -> list[str]:
    return sorted(one.name for one in place.iterdir())


async def call(root: Path, name: str, **arguments: object) -> ToolFinished:
    async with asyncio.timeout(DEADLINE):
        return await (await bench(root)).one(name, json.dumps(arguments))


# -- what they are for ---------------------------------------------------------


async def test_what_is_written_can_be_read(root: Path) -> None:
    assert (
        await call(root, "write_file", path="a/b/notes.txt", text="one\ntwo\n")
    ).text == "wrote 8 bytes to a/b/notes.txt"
    assert (await call(root, "read_file", path="a/b/notes.txt")).text == "one\ntwo"
    assert (await call(root, "read_file", path=f"{root}/a/b/notes.txt")).text == "one\ntwo"
    assert (await call(root, "read_file", path="./a//b/./notes.txt")).text == "one\ntwo"


async def test_a_long_file_is_read_in_pages_that_say_how_to_go_on(root: Path) -> None:
    (root / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 2001)))
    first = (await call(root, "read_file", path="long.txt")).text
    assert first.startswith("line 1\nline 2\n")
    assert "characters left out" not in first
    following = int(first.rpartition("offset=")[2].rstrip("]"))
    second = (await call(root, "read_file", path="long.txt", offset=following, limit=2)).text
    last = following + 1
    assert (
        second
        == f"line {following}\nline {last}\n[lines {following}-{last} of 2000; continue with offset={last + 1}]"
    )


async def test_a_page_past_the_end_an_empty_file_and_one_endless_line_are_told_as_such(
    root: Path,
) -> None:
    (root / "short.txt").write_text("one\n")
    (root / "empty.txt").write_text("")
    (root / "wide.txt").write_text("x" * 9000)
    assert (
        "it has 1 lines; offset 5 is past its end"
        in (await call(root, "read_file", path="short.txt", offset=5)).text
    )
    assert (await call(root, "read_file", path="empty.txt")).text == "(the file is empty)"
    wide = (await call(root, "read_file", path="wide.txt")).text
    assert wide.endswith("[line cut: it has 9000 characters]")
    assert "characters left out" not in wide


async def test_an_edit_needs_its_piece_exactly_once(root: Path) -> None:
    (root / "notes.txt").write_text("red green red\n")
    assert (
        "2 times" in (await call(root, "edit_file", path="notes.txt", old="red", new="blue")).text
    )
    assert (
        "0 times" in (await call(root, "edit_file", path="notes.txt", old="pink", new="blue")).text
    )
    assert (root / "notes.txt").read_text() == "red green red\n"
    assert (
        await call(root, "edit_file", path="notes.txt", old="red green", new="blue")
    ).outcome is Outcome.OK
    assert (root / "notes.txt").read_text() == "blue red\n"


async def test_an_edit_says_what_it_replaced_and_where(root: Path) -> None:
    (root / "notes.txt").write_text("buy milk\ncall Ann\npay rent\n")
    done = await call(root, "edit_file", path="notes.txt", old="call Ann", new="call Tom")
    assert done.text == "edited notes.txt, line 2: 'call Ann' became 'call Tom'"


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("port=8080", "port=9090", "[a]\nport = 9090\n  if x :\n\t\tgo( 1 )\n"),
        ("if x:\ngo(1)", "if y:\ngo(2)", "[a]\nport = 8080\n  if y:\ngo(2 )\n"),
        ("go(1)", "go(1, 2)", "[a]\nport = 8080\n  if x :\n\t\tgo(1, 2)\n"),
        (" port  =  8080 ", "", "[a]\n\n  if x :\n\t\tgo( 1 )\n"),
    ],
)
async def test_an_edit_finds_its_piece_with_other_blanks_and_says_what_stood_there(
    root: Path, old: str, new: str, after: str
) -> None:
    (root / "a.ini").write_text("[a]\nport = 8080\n  if x :\n\t\tgo( 1 )\n")
    done = await call(root, "edit_file", path="a.ini", old=old, new=new)
    assert (root / "a.ini").read_text() == after
    assert done.outcome is Outcome.OK and done.text.startswith("edited a.ini, line ")


@pytest.mark.parametrize(
    "text", ["a = 1\na  =  1\n", "ba = 1\n", "a = 11\n", "a\n=\n1\n", "a b = 1\n", ""]
)
async def test_an_edit_does_not_guess_between_two_places_nor_cuts_words(
    root: Path, text: str
) -> None:
    (root / "a.txt").write_text(text)
    missed = await call(root, "edit_file", path="a.txt", old="a=1", new="a=2")
    if text == "a b = 1\n":
        missed = await call(root, "edit_file", path="a.txt", old="ab=1", new="ab=2")
    assert missed.outcome is Outcome.ERROR
    assert "Nothing was changed." in missed.text
    assert (root / "a.txt").read_text() == text


async def test_an_edit_that_keeps_bytes_that_are_no_text(root: Path) -> None:
    (root / "a.txt").write_bytes(b"\xff one\xfe\n")
    await call(root, "edit_file", path="a.txt", old="one", new="two")
    assert (root / "a.txt").read_bytes() == b"\xff two\xfe\n"


OLD_CHARSETS = {
    "cp1251": ("Иванов Пётр;Москва;1200\r\nСидорова Анна;Казань;450\r\n", "Москва", "Тверь", "€"),
    "gb18030": ("王伟,北京,1200\n李娜,上海,450\n备注：周五之前付款\n", "北京", "西安", ""),
    "cp932": ("山田太郎,東京,1200\n備考：金曜日までに支払うこと\n", "東京", "京都", "€"),
    "cp1252": ("Müller Jörg;Köln;1200 €\nGroß Käthe;Nürnberg;450\n", "Köln", "Düren", "Ж"),
    "utf-16": ("Größe;Menge\nKöln;12\n", "Köln", "Düren", ""),
    "utf-8-sig": ("Größe;Menge\nKöln;12\n", "Köln", "Düren", ""),
}


@pytest.mark.parametrize("codec", OLD_CHARSETS)
async def test_a_text_in_an_old_charset_is_read_found_and_edited_in_it(
    root: Path, codec: str
) -> None:
    text, old, new, _ = OLD_CHARSETS[codec]
    (root / "list.csv").write_bytes(text.encode(codec))
    read = await call(root, "read_file", path="list.csv")
    assert read.text.splitlines() == text.splitlines()
    found = await call(root, "search_files", pattern=old)
    assert found.text.startswith("list.csv:") and old in found.text
    done = await call(root, "edit_file", path="list.csv", old=old, new=new)
    assert done.outcome is Outcome.OK and new in done.text
    assert (root / "list.csv").read_bytes() == text.replace(old, new).encode(codec)
    await call(root, "delete_line", path="list.csv", text=new)
    kept = [line for line in text.splitlines(keepends=True) if old not in line]
    assert (root / "list.csv").read_bytes() == "".join(kept).encode(codec)


@pytest.mark.parametrize("codec", [name for name, (*_, odd) in OLD_CHARSETS.items() if odd])
async def test_a_sign_that_a_files_charset_lacks_changes_nothing_and_is_told(
    root: Path, codec: str
) -> None:
    text, old, _, odd = OLD_CHARSETS[codec]
    (root / "list.csv").write_bytes(text.encode(codec))
    if codec == "cp1251":
        odd = "東"
    missed = await call(root, "edit_file", path="list.csv", old=old, new=f"{old} {odd}")
    assert missed.outcome is Outcome.ERROR
    assert f"its charset {codec} has no {odd!r}. Nothing was changed. Next: " in missed.text
    assert (root / "list.csv").read_bytes() == text.encode(codec)


@pytest.mark.parametrize("old", ["two", "two\n", "two\r\n"])
async def test_a_line_that_an_edit_deletes_goes_with_its_end(root: Path, old: str) -> None:
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree ")
    done = await call(root, "edit_file", path="a.txt", old=old, new="")
    assert done.text == "edited a.txt, line 2: 'two' was deleted"
    assert (root / "a.txt").read_bytes() == b"one\r\nthree "


async def test_an_edit_of_every_place_says_where(root: Path) -> None:
    (root / "a.py").write_text("def run():\n    pass\nrun()\n")
    missed = await call(root, "edit_file", path="a.py", old="run", new="go")
    assert "2 times (lines 1, 3)" in missed.text and "every=true" in missed.text
    done = await call(root, "edit_file", path="a.py", old="run", new="go", every=True)
    assert done.text == "edited a.py, line 1, 3: 'run' became 'go'"
    assert (root / "a.py").read_text() == "def go():\n    pass\ngo()\n"


async def test_a_line_is_deleted_with_its_end_when_it_is_the_only_one(root: Path) -> None:
    (root / "a.txt").write_bytes(b"buy milk\r\npay rent\r\ncall Ann\r\n")
    done = await call(root, "delete_line", path="a.txt", text="rent")
    assert done.text == "deleted the line with 'rent' from a.txt"
    assert (root / "a.txt").read_bytes() == b"buy milk\r\ncall Ann\r\n"
    for text, found in (("l", "2 lines have"), ("x", "0 lines have"), (" ", "2 lines have")):
        missed = await call(root, "delete_line", path="a.txt", text=text)
        assert missed.outcome is Outcome.ERROR and found in missed.text
    assert (await call(root, "delete_line", path="no.txt", text="x")).outcome is Outcome.ERROR
    assert not (root / "no.txt").exists()


@pytest.mark.parametrize("before", ["", "one\n", "one", "one\r\n", "one\r\ntwo"])
async def test_an_edit_without_an_old_piece_adds_at_the_end_and_loses_nothing(
    root: Path, before: str
) -> None:
    end = "\r\n" if "\r" in before else "\n"
    (root / "notes.txt").write_bytes(before.encode())
    done = await call(root, "edit_file", path="notes.txt", old="", new="last")
    lines = before.splitlines()
    assert (root / "notes.txt").read_bytes().decode() == end.join([*lines, "last", ""])
    assert done.text == f"edited notes.txt: added at its end, line {len(lines) + 1}: 'last'"


async def test_an_edit_that_finds_nothing_shows_the_nearest_lines_with_their_numbers(
    root: Path,
) -> None:
    (root / "notes.txt").write_text("buy milk\ncall Ann\npay rent\n")
    missed = await call(root, "edit_file", path="notes.txt", old="call Anne", new="call Tom")
    assert missed.outcome is Outcome.ERROR
    assert "0 times" in missed.text and missed.text.endswith("like it:\n2: call Ann")
    far = await call(root, "edit_file", path="notes.txt", old="zzzzzz", new="y")
    assert far.text.endswith("None of its 3 lines is like it.")
    twice = await call(root, "edit_file", path="notes.txt", old="y", new="z")
    assert "2 times (lines 1, 3)" in twice.text
    assert (root / "notes.txt").read_text() == "buy milk\ncall Ann\npay rent\n"


async def test_a_write_says_how_many_lines_it_replaced(root: Path) -> None:
    fresh = await call(root, "write_file", path="a.txt", text="one\ntwo\n")
    assert fresh.text == "wrote 8 bytes to a.txt"
    again = await call(root, "write_file", path="a.txt", text="x")
    assert again.text == "wrote 1 bytes to a.txt; this replaced the 2 lines that it held"


async def test_an_edit_keeps_windows_line_ends(root: Path) -> None:
    (root / "dos.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await call(root, "edit_file", path="dos.txt", old="one\ntwo", new="1\n2")
    assert (root / "dos.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_writing_keeps_the_permissions_and_leaves_nothing_behind(root: Path) -> None:
    (root / "run.sh").write_text("old")
    (root / "run.sh").chmod(0o755)
    await call(root, "write_file", path="run.sh", text="new")
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o755
    assert names(root) == ["run.sh"]


async def test_a_directory_is_listed_with_kinds_and_sizes(root: Path) -> None:
    (root / "folder").mkdir()
    (root / "file.txt").write_text("12345")
    (root / "link").symlink_to("/etc")
    assert (
        await call(root, "list_dir")
    ).text == "file.txt 5 bytes\nfolder/\nlink (link, not followed)"
    assert (await call(root, "list_dir", path="folder")).text == "(the directory is empty)"


async def test_search_finds_lines_by_text_and_by_pattern(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "a.txt").write_text("alpha\nbeta\n")
    (root / "sub/b.txt").write_text("gamma\nalphabet\n")
    (root / "sub/.hidden").write_text("alpha\n")
    (root / "binary").write_bytes(b"alpha\0")
    (root / "link").symlink_to(root.parent / "secret.txt")
    assert (
        await call(root, "search_files", pattern="alpha")
    ).text == "a.txt:1: alpha\nsub/b.txt:2: alphabet"
    assert (
        await call(root, "search_files", pattern="^a.*t$", regex=True)
    ).text == "sub/b.txt:2: alphabet"
    assert (await call(root, "search_files", pattern="beta", path="a.txt")).text == "a.txt:2: beta"
    assert (
        await call(root, "search_files", pattern="gamma", path="sub")
    ).text == "sub/b.txt:1: gamma"
    assert (await call(root, "search_files", pattern="secret")).text == "no line holds 'secret'"


async def test_a_bad_pattern_is_told_and_an_endless_one_is_cut_off(root: Path) -> None:
    (root / "a.txt").write_text("a" * 60 + "!\n")
    assert (
        "not a regular expression"
        in (await call(root, "search_files", pattern="(", regex=True)).text
    )
    long = await call(root, "search_files", pattern="[^\u0100-\uffff]" * 2000, regex=True)
    assert long.outcome is Outcome.ERROR and "at most 1000" in long.text
    endless = await call(root, "search_files", pattern="(a+)+$", regex=True)
    assert "took more than 0.5 s" in endless.text


# -- what they must not do (A6 Files) ------------------------------------------

OUTSIDE = [
    "../secret.txt", "/etc/passwd", "a/../../secret.txt", "..", "/", "~/secret.txt", "~root/x", "/proc/self/environ",
    "/proc/self/root/etc/passwd", "/proc/self/cwd/secret.txt", "/proc/self/fd/0", "a\0b", "\0", "//etc/passwd", "./../secret.txt",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize(
    "name", ["read_file", "write_file", "edit_file", "delete_line", "list_dir", "search_files"]
)
async def test_a_path_that_leads_outside_is_refused(root: Path, name: str, path: str) -> None:
    more = {"read_file": {}, "write_file": {"text": "x"}, "edit_file": {"old": "the", "new": "x"}, "delete_line": {"text": "the"}, "list_dir": {},
            "search_files": {"pattern": "the"}}[name]  # fmt: skip
    result = await call(root, name, path=path, **more)
    assert result.outcome is Outcome.ERROR
    assert SECRET not in result.text
    assert "outside the workspace" in result.text or "NUL" in result.text
    assert (root.parent / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("path", ["link.txt", "folder/secret.txt", "inner/link.txt", "loop"])
@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file", "delete_line"])
async def test_symbolic_links_are_not_followed_wherever_they_stand(
    root: Path, name: str, path: str
) -> None:
    (root / "inner").mkdir()
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    (root / "folder").symlink_to(root.parent)
    (root / "inner/link.txt").symlink_to("../../secret.txt")
    (root / "loop").symlink_to("loop")
    more = {
        "read_file": {},
        "write_file": {"text": "x"},
        "edit_file": {"old": "the", "new": "x"},
        "delete_line": {"text": "the"},
    }[name]
    result = await call(root, name, path=path, **more)
    assert result.outcome is Outcome.ERROR
    assert "symbolic link" in result.text
    assert (root.parent / "secret.txt").read_text() == SECRET


async def test_a_linked_directory_is_neither_listed_nor_searched(root: Path) -> None:
    (root / "folder").symlink_to(root.parent)
    assert (await call(root, "list_dir", path="folder")).outcome is Outcome.ERROR
    assert (
        await call(root, "search_files", path="folder", pattern="secret")
    ).outcome is Outcome.ERROR
    assert (
        await call(root, "search_files", pattern="secret of")
    ).text == "no line holds 'secret of'"


async def test_a_hard_link_to_a_file_outside_is_not_read_and_never_written_through(
    root: Path,
) -> None:
    os.link(root.parent / "secret.txt", root / "twin.txt")
    assert SECRET not in (await call(root, "read_file", path="twin.txt")).text
    assert (
        await call(root, "search_files", pattern="secret of")
    ).text == "no line holds 'secret of'"
    await call(root, "write_file", path="twin.txt", text="changed")
    assert (root.parent / "secret.txt").read_text() == SECRET


async def test_fifos_devices_and_directories_are_no_files_and_hold_nobody_up(root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    for name, more in (
        ("read_file", {}),
        ("write_file", {"text": "x"}),
        ("edit_file", {"old": "a", "new": "b"}),
    ):
        for path in ("fifo", "folder", "", "."):
            result = await call(root, name, path=path, **more)
            assert result.outcome is Outcome.ERROR, (name, path)
    assert (await call(root, "search_files", pattern="x")).outcome is Outcome.OK


async def test_a_device_is_not_read(root: Path) -> None:
    files = Workspace(Path("/dev"))
    with pytest.raises(ToolError, match="not an ordinary file"):
        files.read("null")


async def test_huge_and_binary_files_are_refused_at_once(root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    (root / "binary").write_bytes(b"\0\1\2" * 100)
    assert f"{1 << 40} bytes are too many" in (await call(root, "read_file", path="sparse")).text
    assert "a binary file of 300 bytes" in (await call(root, "read_file", path="binary")).text
    assert MAX_FILE_BYTES < 1 << 40


async def test_strange_names_are_told_and_not_fatal(root: Path) -> None:
    for path in ("x" * 300, "a/" * 3000 + "b", "\ud800", "missing.txt", "notes.txt/x"):
        (root / "notes.txt").write_text("x")
        assert (await call(root, "read_file", path=path)).outcome is Outcome.ERROR
    assert (await call(root, "write_file", path="ok.txt", text="\ud800")).outcome is Outcome.ERROR
    assert not (root / "ok.txt").exists()
    assert (await call(root, "write_file", path="d/x", text="\ud800")).outcome is Outcome.ERROR
    assert not (root / "d").exists()  # it would have no label
    name = "й" * 127
    assert (await call(root, "write_file", path=name, text="x")).outcome is Outcome.OK


async def test_a_failed_write_leaves_the_old_file_whole(root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder/kept.txt").write_text("old")
    assert (await call(root, "write_file", path="folder", text="x")).outcome is Outcome.ERROR
    assert (
        await call(root, "write_file", path="folder/kept.txt/x", text="x")
    ).outcome is Outcome.ERROR
    assert (root / "folder/kept.txt").read_text() == "old"
    assert (names(root), names(root / "folder")) == (["folder"], ["kept.txt"])


@pytest.mark.parametrize("place", ["last", "middle"])
def test_a_link_slipped_in_between_check_and_open_leads_nowhere(root: Path, place: str) -> None:
    """The race of A6: a link swapped in and out while the file is read and written, 4,000 times."""
    files, over = Workspace(root), threading.Event()
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "notes.txt").write_text(SECRET)
    inside, path = (
        (root / "a", "a/notes.txt") if place == "middle" else (root / "notes.txt", "notes.txt")
    )

    def swap() -> None:
        while not over.is_set():
            with suppress(OSError):
                _become_real(inside, path)
            with suppress(OSError):
                _become_link(inside, outside if place == "middle" else outside / "notes.txt")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        outcomes = {_attempt(files, path, turn) for turn in range(4_000)}
    finally:
        over.set()
        swapper.join()
    assert SECRET not in outcomes
    assert (outside / "notes.txt").read_text() == SECRET
    assert names(outside) == ["notes.txt"]
    assert {"refused", "done"} <= outcomes


def _become_real(inside: Path, path: str) -> None:
    """One moment a link stands here, the next a real thing, wherever the reader is just then."""
    if inside.is_symlink():
        inside.unlink()
    if "/" in path:
        inside.mkdir(exist_ok=True)
    with (inside.parent / "new.tmp").open("w") as file:
        file.write("mine")
    (inside.parent / "new.tmp").rename(inside.parent / path)


def _become_link(inside: Path, target: Path) -> None:
    inside.rename(inside.with_name(f"aside{os.urandom(4).hex()}"))
    inside.symlink_to(target)


def _attempt(files: Workspace, path: str, turn: int) -> str:
    try:
        if turn % 10:
            return SECRET if SECRET.encode() in files.read(path) else "done"
        write_bytes(files, path, b"mine")
    except ToolError:
        return "refused"
    return "done"


# -- protected paths (B8) ------------------------------------------------------

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
PROTECTED = (".env*", ".git/hooks", "Keys")


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (".env", True), (".env.local", True), ("app/.ENV", True), (".git/hooks/pre-commit", True), ("./.git//hooks", True),
        ("keys/a", True), (".git/config", True), ("env", False), ("hooks/x", False), ("a/monkeys", False),
    ],
)  # fmt: skip
async def test_a_protected_path_is_asked_about(root: Path, path: str, asked: bool) -> None:
    rig = await bench(root, PROTECTED)
    await rig.run(("write_file", json.dumps({"path": path, "text": "x"})))
    assert bool(rig.recorded(ApprovalAsked)) is asked


@pytest.mark.parametrize(
    "path", [".env", ".git/hooks/pre-commit", ".git/config", "deep/.git/config"]
)
async def test_what_git_would_run_for_the_owner_is_protected_from_the_start(
    root: Path, path: str
) -> None:
    rig = await bench(root, tuple(ToolsConfig().protected_paths))
    await rig.run(
        ("write_file", json.dumps({"path": path, "text": "[core]\n\tfsmonitor = evil\n"}))
    )
    assert rig.recorded(ApprovalAsked)


async def test_a_search_passes_protected_files_over(root: Path) -> None:
    (root / "Keys").mkdir()
    (root / "Keys/a.txt").write_text("alpha")
    result = await (await bench(root, PROTECTED)).one("search_files", '{"pattern": "alpha"}')
    assert result.text == "no line holds 'alpha'"


async def test_B8_a_protected_name_is_listed_without_its_size_and_an_agent_s_own_paths_count_too(
    root: Path,
) -> None:
    (root / "keys").mkdir()
    (root / ".env").write_text("TOKEN=1")
    (root / "plain.txt").write_text("alpha")
    rig = await bench(root, PROTECTED)
    assert (await rig.one("list_dir")).text == ".env (protected)\nkeys/\nplain.txt 5 bytes"
    rig = await bench(root, PROTECTED)
    rig.turn.spec = replace(rig.turn.spec, protected_paths=("plain*",))
    assert (await rig.one("list_dir")).text == ".env (protected)\nkeys/\nplain.txt (protected)"
    assert (await rig.one("search_files", '{"pattern": "alpha"}')).text == "no line holds 'alpha'"


async def test_B8_who_was_allowed_to_search_a_protected_place_finds_what_is_in_it(
    root: Path,
) -> None:
    (root / "Keys/deep").mkdir(parents=True)
    (root / "Keys/deep/a.txt").write_text("alpha")
    rig = await bench(root, PROTECTED)
    await rig.run(("search_files", '{"pattern": "alpha", "path": "Keys"}'))
    rig.answer(rig.turn.calls[0].call_id)
    await rig.again()
    [result] = rig.results
    assert result is not None
    assert result.text == "Keys/deep/a.txt:1: alpha"


@pytest.mark.parametrize(
    "path",
    [
        ".ENV", ".Env.local", "a/.env/b", ".e\u200bnv", ".env.", ".env ", "．env", ".ｅｎｖ", "\u2024env",
        ".GIT/Hooks/pre-commit", "x/.git/hooks",
        ".git/hoo\u00adks/x", ".g\u200cit/hooks/x", "KEYS", "\u212aeys/a", "keys/\ufe0f", ".env\ufe0f",
    ],
)  # fmt: skip
def test_B8_every_spelling_that_some_disk_takes_for_a_protected_name_is_protected(
    path: str,
) -> None:
    assert is_protected(PurePosixPath(path), PROTECTED)


@given(st.sampled_from([".env", ".git/hooks/x", "keys/a"]), st.sampled_from(FORMS), st.data())
def test_B8_case_form_and_unseen_characters_hide_nothing(
    path: str, form: Form, data: st.DataObject
) -> None:
    letters = [
        data.draw(st.sampled_from([one, one.upper(), f"{one}\u200d", f"\u2060{one}"]))
        for one in path
    ]
    assert is_protected(PurePosixPath(unicodedata.normalize(form, "".join(letters))), PROTECTED)
