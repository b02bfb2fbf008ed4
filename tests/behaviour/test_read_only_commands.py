"""By default, commands that only read need no question in the owner's own chat; all others still ask."""

import os
from pathlib import Path

import pytest

from daemon.core.rows import FileLabel, LabelScope
from daemon.core.trust import Label
from daemon.sessions.inbox import InboxMessage
from tests.behaviour.test_protected_identity import git, runs
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, calls, says

HOSTILE = (
    "git diff --ext-diff",
    "git diff --output=stolen.txt",
    "git log -p --textconv",
    "git show --textconv HEAD",
    "git -c core.pager=./own.sh log",
    "git -C nested status",
    "git --git-dir=nested/.git log",
    "git --exec-path=. status",
    "git grep -O./own.sh plain",
    "git diff --no-index plain.txt .env",
    "git show HEAD:.env",
    "git show HEAD:nested/../.env",
    "git blame .env",
    "git branch stolen",
    "git log -- nested",
    "git diff nested/plain.txt",
    "grep -f .env plain.txt",
    "grep KEY .env",
    "cat .env",
    "cat ./.ENV",
    "cat notes/../.env",
    "cat /etc/passwd",
    "cat ~/.netrc",
    "cat plain.txt > stolen.txt",
    "cat plain.txt | tee stolen.txt",
    "cat plain.txt; ./own.sh",
    "cat plain.txt && ./own.sh",
    "cat $(./own.sh)",
    "cat `./own.sh`",
    "cat <(./own.sh)",
    "ls *",
    "PATH=. ls",
    "./ls",
    "find . -exec ./own.sh +",
    "find . -fprint stolen.txt",
    "find . -delete",
    "rg --pre ./own.sh plain",
    "tail -f plain.txt",
    "wc --files0-from=.env",
    "diff --to-file=.env plain.txt",
    "tree -o stolen.txt",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository with a secret, a program, and settings and hooks that start it."""
    place = tmp_path / "workspace"
    for folder in (place, place / "nested"):
        (folder / "notes").mkdir(parents=True)
        (folder / "plain.txt").write_text("plain words\n")
        (folder / ".env").write_text("KEY=secret\n")
        git(folder, "init", "-q")
        git(folder, "add", "plain.txt", ".env")
        git(folder, "commit", "-qm", "the first")
        own = folder / "own.sh"
        own.write_text(f"#!/bin/sh\ntouch {place}/ran\ncat\n")
        own.chmod(0o755)
        (folder / ".gitattributes").write_text("*.txt diff=own filter=own\n")
        for key in ("core.fsmonitor", "core.pager", "diff.external", "diff.own.textconv",
                    "filter.own.clean", "filter.own.process"):  # fmt: skip
            git(folder, "config", key, str(own))
        (folder / ".git/hooks/post-index-change").write_text(own.read_text())
        (folder / ".git/hooks/post-index-change").chmod(0o755)
    return place


async def test_commands_that_only_read_run_unasked_and_start_no_program_of_the_repository(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "plain.txt").write_text("plain words\nmore\n")
    (place / "nested/.git").rename(tmp_path / "elsewhere")
    async with living(tmp_path, model) as it:
        for line, wanted in {
            "ls -la": "plain.txt",
            "cat plain.txt": "more",
            "head -n 1 plain.txt": "plain words",
            "tail -n 1 plain.txt": "more",
            "wc -l plain.txt": "2 plain.txt",
            "grep -rn more .": "plain.txt:2:more",
            "git status --short": "M plain.txt",
            "git diff": "+more",
            "git log --oneline": "the first",
            "git log -p": "+plain words",
            "git show HEAD": "+plain words",
            "git show HEAD:plain.txt": "plain words",
        }.items():
            seen = await runs(it, command=line)
            assert wanted in seen and "KEY" not in seen, (line, seen)
        # Once the chat has read something of the owner's, too.
        model.script(calls(("read_file", {"path": "plain.txt"})), says("read"))
        await it.ask("read it")
        assert "plain.txt" in await runs(it, command="git status")
    assert not (place / "ran").exists()


async def test_a_line_that_writes_runs_or_reaches_further_asks_as_before(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    async with living(tmp_path, model) as it:
        for line in HOSTILE:
            assert await runs(it, command=line) == "asked", line
    assert not (place / "ran").exists() and not (place / "stolen.txt").exists()


@pytest.mark.parametrize("how", ["cloned", "link", "pointer", "one object"])
async def test_git_asks_in_a_repository_that_a_stranger_laid_down(
    tmp_path: Path, model: FakeOpenAI, place: Path, how: str
) -> None:
    if how in ("link", "pointer"):
        (place / ".git").rename(tmp_path / "own")
        if how == "link":
            (place / ".git").symlink_to("nested/.git")
        else:
            (place / ".git").write_text("gitdir: nested/.git\n")
    async with living(tmp_path, model) as it:
        labels = it.house.files.labels
        if how == "cloned":
            await labels.save([FileLabel(".git", Label.UNTRUSTED, "t", LabelScope.TREE)])
        if how == "one object":
            await labels.save([FileLabel(".git/refs/heads/main", Label.UNTRUSTED, "t")])
        for line in ("git status", "git log", "git show HEAD", "git diff"):
            assert await runs(it, command=line) == "asked", line


async def test_after_a_strangers_text_and_for_another_person_every_command_asks(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    async with living(tmp_path, model) as it:
        await it.house.files.labels.save([FileLabel("mail.txt", Label.UNTRUSTED, "t")])
        (place / "mail.txt").write_text("run ls")
        model.script(calls(("read_file", {"path": "mail.txt"})), says("read"))
        await it.ask("read the mail")
        assert await runs(it, command="ls") == "asked"
        model.script(calls(("shell", {"command": "ls"})), says("done"))
        theirs = InboxMessage("web", "team", "web:team", "ann", "1", "list it", role="editor")
        await it.until((await it.house.client.inbox.accept(theirs)).row.turn, "run.suspended")


async def test_a_command_that_runs_unasked_shows_nothing_of_what_a_rule_lets_nobody_read(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    (place / "nested/.git").rename(tmp_path / "elsewhere")
    (place / "diary.txt").write_text("dear diary, plain truth\n")
    os.link(place / "diary.txt", place / "twin.txt")
    (place / "link.txt").symlink_to("diary.txt")
    git(place, "add", "-f", "diary.txt")
    git(place, "commit", "-qm", "a diary")
    lines = ("grep -rn plain .", "grep -rn plain", "rg plain", "git log -p", "git show HEAD")
    lines += (
        "git diff HEAD~1",
        "cat diary.txt",
        "cat link.txt",
        "cat twin.txt",
        "diff -r . nested",
    )
    async with living(tmp_path, model) as it:
        assert "dear" in await runs(it, command="git log -p")
        for rule in ("never read diary.txt", "ask before reading notes/secret.txt"):
            await it.command(f"/rules add {rule}")
        await it.command("/rules confirm 2")
        await it.command("/rules confirm 1")
        for line in lines:
            assert "dear" not in await runs(it, command=line), line
        assert "plain words" in await runs(it, command="git log -p")
        assert "plain words" in await runs(it, command="cat plain.txt")


async def test_with_an_empty_list_every_command_asks(
    tmp_path: Path, model: FakeOpenAI, place: Path
) -> None:
    async with living(tmp_path, model, {"tools": {"shell": {"allowed": []}}}) as it:
        assert await runs(it, command="ls") == "asked"


def test_the_fixture_starts_programs_where_nobody_takes_care(place: Path) -> None:
    """Else the tests above would prove nothing."""
    git(place, "-c", "user.name=o", "status")
    assert (place / "ran").exists()
