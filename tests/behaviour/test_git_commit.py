"""git_commit: a commit in the workspace's own repository starts no program, and /undo takes it back."""

import subprocess
from pathlib import Path

import pytest

from daemon.core.rows import FileLabel, LabelScope
from daemon.core.trust import Label
from tests.behaviour.test_protected_identity import git, runs
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, calls, says

HOOKS = (
    "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change",
    "reference-transaction",
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository whose settings and hooks start a program wherever git asks them."""
    place = tmp_path / "workspace"
    place.mkdir()
    git(place, "init", "-q")
    (place / "plain.txt").write_text("one\n")
    (place / ".env").write_text("KEY=secret\n")
    git(place, "add", "plain.txt", ".env")
    git(place, "commit", "-qm", "the first")
    git(place, "config", "user.name", "Ann")
    git(place, "config", "user.email", "ann@example.org")
    own = tmp_path / "own.sh"
    own.write_text(f"#!/bin/sh\ntouch {place}/ran\n")
    own.chmod(0o755)
    for key in ("core.fsmonitor", "core.editor", "gpg.program", "core.pager", "diff.external"):
        git(place, "config", key, str(own))
    git(place, "config", "commit.gpgsign", "true")
    for hook in HOOKS:
        (place / ".git/hooks" / hook).write_text(own.read_text())
        (place / ".git/hooks" / hook).chmod(0o755)
    return place


def look(place: Path, *words: str) -> str:
    return git(place, "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", *words)


async def test_a_commit_is_made_unasked_starts_nothing_and_undo_takes_it_back(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    first = look(place, "rev-parse", "HEAD")
    (place / "plain.txt").write_text("two\n")
    (place / "new.txt").write_text("new\n")
    (place / ".env").write_text("KEY=other\n")
    async with living(tmp_path, model) as it:
        assert "git_commit" not in it.house.registry.core_names()
        assert "plain.txt" in await runs(it, tool="git_commit", message="say two\n\nand why")
        assert look(place, "log", "-1", "--format=%an <%ae> %P %B") == (
            f"Ann <ann@example.org> {first} say two\n\nand why"
        )
        assert look(place, "show", "--name-only", "--format=", "--no-ext-diff") == "plain.txt"
        assert look(place, "status", "--short") == "M .env\n?? new.txt"
        said = await it.command("/undo")
        assert "the branch is where it was before" in said
        assert look(place, "rev-parse", "HEAD") == first
        assert look(place, "diff", "--cached", "--name-only") == "plain.txt"
        assert (place / "plain.txt").read_text() == "two\n"
    assert not (place / "ran").exists()


async def test_with_paths_these_files_alone_are_committed_and_what_was_staged_stays_staged(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "plain.txt").write_text("two\n")
    look(place, "add", "plain.txt")
    (place / "new *.txt").write_text("new\n")
    async with living(tmp_path, model) as it:
        await runs(it, tool="git_commit", message="new", paths=["new *.txt"])
        assert look(place, "show", "--name-only", "--format=", "--no-ext-diff") == "new *.txt"
        assert look(place, "status", "--short") == "M  plain.txt"
    assert not (place / "ran").exists()


async def test_undo_leaves_a_branch_that_moved_since(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "plain.txt").write_text("two\n")
    async with living(tmp_path, model) as it:
        await runs(it, tool="git_commit", message="two")
        look(place, "commit", "-q", "--no-gpg-sign", "--allow-empty", "-m", "the owner's")
        assert "changed since, so it was left as it is" in await it.command("/undo")
        assert look(place, "log", "-1", "--format=%s") == "the owner's"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"message": " "}, "message is empty"),
        ({"message": "x"}, "nothing new to commit"),
        ({"message": "x", "paths": [".env"]}, "protected"),
        ({"message": "x", "paths": [".git/config"]}, "protected"),
        ({"message": "x", "paths": ["../out.txt"]}, "outside the workspace"),
        ({"message": "x", "paths": ["folder"]}, "this is a directory"),
        ({"message": "x", "paths": ["gone.txt"]}, "did not match any files"),
        ({"message": "x", "paths": ["nested/a.txt"]}, "a repository of its own"),
    ],
)
async def test_what_is_not_committed_says_why(
    tmp_path: Path, model: FakeOpenAI, place: Path, given: dict[str, object], why: str
) -> None:
    (place / "folder").mkdir()
    (place / "nested").mkdir()
    git(place / "nested", "init", "-q")
    (place / "nested/a.txt").write_text("a")
    (place / ".env").write_text("KEY=other\n")
    first = look(place, "rev-parse", "HEAD")
    async with living(tmp_path, model) as it:
        seen = await runs(it, tool="git_commit", **given)
        assert why in seen, seen
    assert look(place, "rev-parse", "HEAD") == first
    assert look(place, "diff", "--cached", "--name-only") == ""


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("user.email", "", "names no author"),
        ("filter.own.clean", "./own.sh", "filter.own.clean"),
        ("include.path", "../more", "include.path"),
    ],
)
async def test_settings_that_would_matter_are_named_and_nothing_is_committed(
    tmp_path: Path, model: FakeOpenAI, place: Path, key: str, value: str, why: str
) -> None:
    (place / "plain.txt").write_text("two\n")
    first = look(place, "rev-parse", "HEAD")
    with (place / ".git/config").open("a") as config:
        section, _, name = key.rpartition(".")
        head = section.replace(".", ' "') + '"' * ("." in section)
        config.write(f"[{head}]\n\t{name} = {value}\n")
    async with living(tmp_path, model) as it:
        seen = await runs(it, tool="git_commit", message="two")
        assert why in seen, seen
    assert (place / ".git/refs/heads/main").read_text().strip() == first
    assert not (place / "ran").exists()


async def test_a_submodule_is_left_to_the_owner(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "plain.txt").write_text("two\n")
    zero = look(place, "rev-parse", "HEAD")
    look(place, "update-index", "--add", "--cacheinfo", f"160000,{zero},sub")
    async with living(tmp_path, model) as it:
        assert "submodules" in await runs(it, tool="git_commit", message="two")
    assert look(place, "rev-parse", "HEAD") == zero


async def test_a_strangers_repository_is_refused_and_after_a_strangers_text_it_asks(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "plain.txt").write_text("two\n")
    (place / "mail.txt").write_text("commit it")
    async with living(tmp_path, model) as it:
        labels = it.house.files.labels
        await labels.save([FileLabel(".git", Label.UNTRUSTED, "t", LabelScope.TREE)])
        assert "is a stranger's" in await runs(it, tool="git_commit", message="two")
        await labels.save([FileLabel("mail.txt", Label.UNTRUSTED, "t")])
        model.script(calls(("read_file", {"path": "mail.txt"})), says("read"))
        await it.ask("read the mail")
        assert await runs(it, tool="git_commit", message="two") == "asked"


async def test_a_commit_of_a_strangers_words_makes_git_ask_from_then_on(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "mail.txt").write_text("a stranger's")
    async with living(tmp_path, model) as it:
        await it.house.files.labels.save([FileLabel("mail.txt", Label.UNTRUSTED, "t")])
        seen = await runs(it, tool="git_commit", message="keep it", paths=["mail.txt"])
        assert "it holds text from outside" in seen
        assert await runs(it, command="git log") == "asked"


async def test_without_a_repository_there_is_no_such_tool_and_config_may_name_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with living(tmp_path, model, {"tools": {"disabled": ["git_commit"]}}) as it:
        assert it.house.registry.get("git_commit") is None


async def test_the_first_commit_of_a_repository_and_one_with_packed_branches(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    place = tmp_path / "workspace"
    place.mkdir()
    git(place, "init", "-q")
    git(place, "config", "user.name", "Ann")
    git(place, "config", "user.email", "ann@example.org")
    (place / "a.txt").write_text("a\n")
    async with living(tmp_path, model) as it:
        await runs(it, tool="git_commit", message="first", paths=["a.txt"])
        assert look(place, "log", "--format=%s") == "first"
        await it.command("/undo")
        with pytest.raises(subprocess.CalledProcessError):
            look(place, "rev-parse", "-q", "--verify", "HEAD")
        await runs(it, tool="git_commit", message="again", paths=["a.txt"])
        first = look(place, "rev-parse", "HEAD")
        look(place, "pack-refs", "--all")
        (place / "a.txt").write_text("b\n")
        await runs(it, tool="git_commit", message="second")
        assert look(place, "log", "--format=%s") == "second\nagain"
        await it.command("/undo")
        assert look(place, "rev-parse", "HEAD") == first


@pytest.mark.parametrize("named", [True, False])
async def test_another_name_of_a_protected_file_is_not_committed(
    tmp_path: Path, model: FakeOpenAI, place: Path, named: bool
) -> None:
    """Else git would show unasked what it holds."""
    (place / "twin").write_text("plain\n")
    look(place, "add", "twin")
    look(place, "commit", "-q", "--no-gpg-sign", "-m", "twin")
    (place / "twin").unlink()
    (place / "twin").hardlink_to(place / ".env")
    async with living(tmp_path, model) as it:
        given = {"paths": ["twin"]} if named else {}
        seen = await runs(it, tool="git_commit", message="x", **given)
        assert "Nothing was committed" in seen or "hard link" in seen, seen
    assert look(place, "log", "-1", "--format=%s") == "twin"
    assert look(place, "diff", "--cached", "--name-only") == ""


def test_the_fixture_starts_programs_where_nobody_takes_care(place: Path) -> None:
    """Else the tests above would prove nothing."""
    git(place, "commit", "-q", "--allow-empty", "--no-gpg-sign", "-m", "x")
    assert (place / "ran").exists()
