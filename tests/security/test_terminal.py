"""Commands and questions: no bad line runs unasked, nine of ten good ones do; and what a good one may do is really harmless."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from daemon.core.events import Outcome, ToolFinished
from daemon.core.trust import Label
from daemon.tools.shell.sandbox import SandboxKind
from tests.fakes.tools import Bench
from tests.security.lines import LEAST, OUR_BAD, OUR_GOOD, asked_about, given, terminal, unasked
from tests.security.overhead import overhead


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "workspace"
    (place / "src").mkdir(parents=True)
    (place / "a.txt").write_text("one\ntwo\n")
    return place


async def test_no_bad_line_runs_unasked(workspace: Path) -> None:
    assert await unasked(workspace, [*given()[0], *OUR_BAD]) == []
    assert sorted(path.name for path in workspace.iterdir()) == ["a.txt", "src"]


@pytest.mark.parametrize("good", [given()[1], OUR_GOOD], ids=["given", "ours"])
def test_at_least_nine_of_ten_good_lines_need_no_question(good: Sequence[str]) -> None:
    asked = asked_about(good)
    assert 100 * len(asked) <= (100 - LEAST) * len(good), asked


async def test_after_outside_text_no_line_at_all_runs_unasked(workspace: Path) -> None:
    assert await unasked(workspace, [*given()[1], *OUR_GOOD], Label.UNTRUSTED) == []


# -- git, whose repository may name programs to run --------------------------------

TRAPS = """\
[core]
    fsmonitor = "touch {place}/caught-fsmonitor; false"
    hooksPath = {place}/hooks
    pager = "touch {place}/caught-pager; cat"
    sshCommand = "touch {place}/caught-ssh"
    editor = "touch {place}/caught-editor"
    attributesFile = {place}/attributes
[diff]
    external = "touch {place}/caught-external; true"
[diff "trap"]
    textconv = "touch {place}/caught-textconv; cat"
    command = "touch {place}/caught-command; true"
[filter "trap"]
    clean = "touch {place}/caught-clean; cat"
    smudge = "touch {place}/caught-smudge; cat"
    process = "touch {place}/caught-process; cat"
[gpg]
    program = "{place}/gpg-trap"
[log]
    showSignature = true
[alias]
    log = "!touch {place}/caught-alias"
[pager]
    log = "touch {place}/caught-pager-log; cat"
    diff = "touch {place}/caught-pager-diff; cat"
[include]
    path = {place}/more-settings
"""
MAKE = (
    "git init -q -b main . && git config user.email a@b && git config user.name Ada && printf 'one\\n' > a.txt && mkdir -p src &&"
    " printf 'x=1\\n' > src/a.py && git add . && git commit -qm first && printf 'two\\n' >> a.txt && git commit -qam second &&"
    " printf 'three\\n' >> a.txt && printf '* diff=trap filter=trap\\n' > .gitattributes"
)


async def run(bench: Bench, line: str) -> ToolFinished:
    async with asyncio.timeout(30):
        return await bench.one("shell", json.dumps({"command": line}))


async def repository(workspace: Path) -> None:
    """One with history, an open change, and a trap in every place that can name a program."""
    made = await run(terminal(workspace, granted=("shell",)), MAKE)
    assert made.outcome is Outcome.OK, made.text
    config = workspace / ".git" / "config"
    config.write_text(config.read_text() + TRAPS.replace("{place}", str(workspace)))
    hooks = workspace / "hooks"
    for place in (hooks, workspace / ".git" / "hooks"):
        place.mkdir(exist_ok=True)
        for name in (
            "post-index-change",
            "pre-commit",
            "post-checkout",
            "fsmonitor-watchman",
            "reference-transaction",
        ):
            (place / name).write_text(f"#!/bin/sh\ntouch {workspace}/caught-hook-{name}\n")
            (place / name).chmod(0o755)


def caught(workspace: Path) -> list[str]:
    return sorted(path.name for path in workspace.glob("caught-*"))


LOOKS = [
    "git status", "git status -sb", "git diff", "git diff HEAD~1", "git diff --stat", "git log", "git log -p",
    "git log --oneline -5", "git show", "git show HEAD:a.txt", "git blame a.txt", "git branch -a", "git tag", "git ls-files",
    "git ls-files -m", "git rev-parse HEAD", "git shortlog -sn HEAD", "git describe --always",
    "git log --follow a.txt", "git diff --cached",
]  # fmt: skip


@pytest.mark.parametrize("line", LOOKS)
async def test_git_looks_unasked_and_no_program_of_the_repository_runs(
    workspace: Path, line: str
) -> None:
    await repository(workspace)
    index = (workspace / ".git" / "index").read_bytes()
    result = await run(terminal(workspace), line)
    assert result.outcome is Outcome.OK, result.text
    assert caught(workspace) == []
    assert (workspace / ".git" / "index").read_bytes() == index


async def test_the_traps_would_catch_who_runs_git_as_it_is(workspace: Path) -> None:
    await repository(workspace)
    for line in ("git status", "git diff", "git -c diff.external= log -p"):
        await run(terminal(workspace, granted=("shell",)), f"{line}; true")
    assert {"caught-fsmonitor", "caught-command"} <= set(caught(workspace))


async def test_git_tells_what_is_there(workspace: Path) -> None:
    await repository(workspace)
    bench = terminal(workspace)
    assert "second" in (await run(bench, "git log --oneline -5")).text
    assert "+three" in (await run(bench, "git diff HEAD~1")).text
    assert " M a.txt" in (await run(bench, "git status -s")).text
    assert "main" in (await run(bench, "git branch")).text


async def test_git_where_there_is_no_repository_says_so(workspace: Path) -> None:
    result = await run(terminal(workspace), "git log")
    assert (result.outcome, "not a git repository" in result.text) == (Outcome.ERROR, True)


# -- what only the sandbox can stop ------------------------------------------------


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
async def test_a_link_in_the_workspace_leads_a_harmless_command_nowhere(
    workspace: Path, kind: SandboxKind
) -> None:
    (workspace.parent / "secret.txt").write_text("hush")
    (workspace / "link").symlink_to(workspace.parent / "secret.txt")
    (workspace / "self").symlink_to(f"/proc/{os.getpid()}/environ")
    for line in ("cat link", "grep h link", "head -5 self", "cat self"):
        result = await run(terminal(workspace, kind), line)
        assert (result.outcome, "hush" in result.text) == (Outcome.ERROR, False)


async def test_the_network_for_a_command_is_asked_for_and_shown_and_taints(workspace: Path) -> None:
    """A command of the safe grammar too; its output is a stranger's text."""
    bench = terminal(workspace)
    await bench.run(("shell", '{"command": "cat a.txt", "network": true}'))
    assert bench.turn.pending
    tool = bench.dispatcher.registry.get("shell")
    assert tool
    assert tool.preview and "with the network" in tool.preview(
        {"command": "cat a.txt", "network": True}
    )
    result = (
        await terminal(workspace, granted=("shell",)).run(
            ("shell", '{"command": "cat a.txt", "network": true}')
        )
    )[0]
    assert result
    assert result.label is Label.UNTRUSTED


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock", "none"])
async def test_text_from_outside_has_a_shell_only_behind_a_fence(
    workspace: Path, kind: SandboxKind
) -> None:
    result = await run(terminal(workspace, kind, ("shell",), Label.UNTRUSTED), "touch made")
    assert (result.outcome is Outcome.OK, (workspace / "made").exists()) == ((kind != "none"),) * 2


async def test_the_fence_costs_little() -> None:
    """Bubblewrap alone takes 5 to 6 ms; bounds are wide, for the machine may be busy."""
    taken = await overhead(rounds=9)
    assert taken["bubblewrap"] - taken["none"] < 60
    assert taken["landlock"] - taken["none"] < 200
