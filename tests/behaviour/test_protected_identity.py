"""Protected things are protected by what they are: links, hard links, folders, contents that git has kept."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says

SECRET = "the-key-of-the-owner"
ALLOWED = ["cat", "grep", "git", "diff", "ls", "head", "strings", "find"]
CONFIG = {"tools": {"shell": {"allowed": ALLOWED}}}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    (place / "notes").mkdir(parents=True)
    (place / ".env").write_text(f"KEY={SECRET}\n")
    (place / "plain.txt").write_text("plain words\n")
    return place


def git(place: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=o", "-c", "user.email=o@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *who, *words], cwd=place, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


async def runs(it: Living, *argv: str, tool: str = "shell", **arguments: object) -> str:
    """What the model is told of the call; "asked" when a person would be asked first."""
    given: dict[str, object] = {"argv": list(argv)} if argv else dict(arguments)
    it.model.script(calls((tool, given)), says("done"))
    turn = await it.say("look at it")
    async for event in it.house.client.stream_events(turn):
        if event.name == "run.suspended":
            await it.command("/deny")
            await it.settled(turn)
            return "asked"
    return it.model.requests[-1].last("tool")["content"]


async def test_a_link_to_a_protected_file_is_asked_about_like_the_file(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "link").symlink_to(".env")
    (place / "chain").symlink_to("notes/link")
    (place / "notes" / "link").symlink_to("../link")
    (place / "folder").symlink_to("notes")
    os.link(place / ".env", place / "twin")
    os.link(place / ".env", place / "notes" / "twin")
    (place / "out").symlink_to("/etc/hostname")
    async with living(tmp_path, model, CONFIG) as it:
        for argv in (
            ("cat", "link"), ("cat", "chain"), ("cat", "folder/link"), ("head", "-n5", "twin"),
            ("diff", "link", "plain.txt"), ("strings", "notes/twin"), ("grep", "KEY", "folder/twin"),
            ("cat", "out"), ("cat", ".ENV"),
        ):  # fmt: skip
            assert await runs(it, *argv) == "asked", argv
        assert "plain words" in await runs(it, "cat", "plain.txt")


async def test_a_command_that_needs_no_question_finds_nothing_of_protected_files_on_its_way(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    os.link(place / ".env", place / "notes" / "twin.txt")
    (place / "keys").mkdir()
    (place / "keys" / "one").write_text(SECRET)
    (place / "settings.txt").write_text(f"also {SECRET}")
    (place / ".env.real").symlink_to("settings.txt")  # a protected name leads to it
    config = {"tools": {"protected_paths": [".env*", "keys"], **CONFIG["tools"]}}
    async with living(tmp_path, model, config) as it:
        for argv in (("grep", "-r", "the-key", "."), ("grep", "-rh", "also", ".")):
            told = await runs(it, *argv)
            assert SECRET not in told and told != "asked", argv
        assert await runs(it, "cat", "keys/one") == "asked"
        assert "plain words" in await runs(it, "grep", "-r", "plain", ".")
        assert (place / ".env").read_text() == f"KEY={SECRET}\n"


async def test_file_tools_read_nothing_through_links_and_hard_links(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "link").symlink_to(".env")
    os.link(place / ".env", place / "twin.txt")
    async with living(tmp_path, model) as it:
        for path in ("link", "twin.txt"):
            told = await runs(it, tool="read_file", path=path)
            assert SECRET not in told and "link" in told
        assert SECRET not in await runs(it, tool="search_files", pattern="the-key")


async def test_git_shows_no_content_of_a_protected_file_unasked(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "private").mkdir()
    (place / "private" / "key").write_text(SECRET)
    git(place, "init", "-q")
    git(place, "add", "-f", ".")
    git(place, "commit", "-qm", "one")
    blob, tree = git(place, "rev-parse", "HEAD:.env"), git(place, "rev-parse", "HEAD:private")
    plain = git(place, "rev-parse", "HEAD:plain.txt")
    git(place, "tag", "kept", blob)
    git(place, "tag", "-a", "-m", "x", "signed", blob)
    git(place, "mv", ".env", "renamed.txt")
    git(place, "mv", "plain.txt", "other.txt")
    git(place, "commit", "-qm", "two")
    (place / ".ENV").write_text(f"{SECRET} again")
    git(place, "add", "-f", ".ENV")
    git(place, "commit", "-qm", "three")
    git(place, "rm", "-qf", ".ENV")
    config = {"tools": {"protected_paths": [".env*", "private/key"], **CONFIG["tools"]}}
    empty = git(place, "hash-object", "-t", "tree", "/dev/null")
    async with living(tmp_path, model, config) as it:
        for argv in (
            ("show", blob), ("show", blob[:8]), ("show", "kept"), ("show", "signed"),
            ("show", "HEAD", blob), ("diff", plain, blob), ("diff", f"{plain}..{blob}"),
            ("show", "HEAD~2:.env"), ("show", "HEAD~2"), ("log", "-p"), ("log", "-p", "--all"),
            ("log", "-p", "--", ".env"), ("diff", "HEAD~2", "HEAD~1", "--", ".env"),
            ("diff", tree, empty), ("diff", "HEAD:private", empty), ("diff", f"{empty}..{tree}"),
            ("log", "-p", "--", ".ENV"), ("diff", "--cached"), ("show", "HEAD:private/key"),
            ("blame", "HEAD~2", "--", ".env"), ("cat-file", "-p", blob), ("grep", "key", "HEAD"),
            ("archive", "HEAD"), ("stash", "show", "-p"), ("checkout", "HEAD~2", "--", ".env"),
            ("restore", "-s", "HEAD~2", ".env"), ("show", f"{tree}:key"),
        ):  # fmt: skip
            told = await runs(it, "git", *argv)
            assert SECRET not in told or "renamed.txt" in told, (argv, told)
        for argv in (("log", "-p"), ("log", "--check"), ("log", "-U1"), ("show",)):
            assert await runs(it, "git", *argv, "--follow", "other.txt") == "asked", argv
        assert "two" in await runs(it, "git", "log", "--follow", "--stat", "-n", "3", "other.txt")
        assert await runs(it, "git", "status", "-v") == "asked"
        assert await runs(it, "git", "log", "-L1,2:other.txt") == "asked"
        told = await runs(it, "git", "show", blob)
        assert "name a file as COMMIT:PATH" in told
        assert "plain words" in await runs(it, "git", "show", "HEAD:other.txt")
        assert "two" in await runs(it, "git", "log", "--oneline")


async def test_a_protected_file_or_folder_that_a_command_renames_stays_protected(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "private" / "deep").mkdir(parents=True)
    (place / "private" / "deep" / "key").write_text(SECRET)
    git(place, "init", "-q")
    (place / ".git" / "hooks").mkdir(exist_ok=True)
    config = {"tools": {"protected_paths": [".env*", "private", ".git/hooks"], **CONFIG["tools"]}}
    async with living(tmp_path, model, config) as it:
        line = "mv .env e.txt; mv private public; mkdir in; mv public in/; mv .git g"
        model.script(calls(("shell", {"command": line})), says("done"))
        turn = await it.say("tidy up")
        await it.until(turn, "run.suspended")
        await it.command("/approve")
        await it.settled(turn)
        assert (place / "in" / "public" / "deep" / "key").exists()
        for path in ("e.txt", "in/public/deep/key"):
            assert "that was renamed" in await runs(it, tool="read_file", path=path)
            assert await runs(it, "cat", path) == "asked"
        if (place / "g").exists():  # a sandbox may hold it in its place
            hook = {"path": "g/hooks/pre-commit", "text": "evil"}
            assert "that was renamed" in await runs(it, tool="write_file", **hook)
            assert not (place / "g" / "hooks" / "pre-commit").exists()
        assert SECRET not in await runs(it, "grep", "-r", "the-key", ".")
        assert SECRET not in await runs(it, tool="search_files", pattern="the-key")
        assert "plain words" in await runs(it, tool="read_file", path="plain.txt")


async def test_a_new_file_in_the_place_of_a_protected_one_that_is_gone_is_read(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    """A file system gives the number of a removed file to the next one."""
    async with living(tmp_path, model, CONFIG) as it:
        assert await runs(it, "ls")  # the protected file is known from now on
        number = (place / ".env").stat().st_ino
        line = "rm .env; for n in 1 2 3 4 5 6 7 8; do echo plain > n$n; done"
        model.script(calls(("shell", {"command": line})), says("done"))
        turn = await it.say("tidy up")
        await it.until(turn, "run.suspended")
        await it.command("/approve")
        await it.settled(turn)
        (place / "touched").write_text("x")
        for n in range(1, 9):
            path = f"n{n}"
            same = (place / path).stat().st_ino == number
            assert "plain" in await runs(it, tool="read_file", path=path), same
        assert "n8" in await runs(it, tool="search_files", pattern="plain")
