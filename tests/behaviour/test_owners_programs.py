"""What the owner's hooks and settings of git spell waits, however it is spelt and wherever it leads."""

import asyncio
import subprocess
import time
from pathlib import Path

import pytest

from tests.behaviour.test_files_labels import context
from tests.fakes.commands import Commands
from tests.fakes.tools import Bench


@pytest.fixture(params=["", "a copy, for the test"], ids=["overlay", "copy"])
def commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Commands:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    monkeypatch.setenv("HOME", str(root.parent))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return Commands(root, obstacle=request.param)


def fired(commands: Commands) -> Path:
    return commands.root.parent / "fired"


def lay(place: Path, text: str) -> None:
    """A program of the owner's."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)


def git(place: Path, *words: str) -> str:
    """As the owner does, outside the sandbox."""
    line = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    ran = subprocess.run(line, cwd=place, capture_output=True, check=False)
    return ran.stdout.decode()


def enter(commands: Commands) -> None:
    """As a shell does that knows the folder, before its owner works there."""
    line = ["bash", "-c", ". ./.envrc; git status; tool"]
    subprocess.run(line, cwd=commands.root, capture_output=True, check=False)


def make_repository(place: Path, hook: str = "") -> None:
    git(place, "init", "-q", "-b", "main")
    (place / "a").write_text("a")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "one")
    if hook:
        lay(place / ".git/hooks/pre-commit", f"#!/bin/sh\n{hook}\n")


async def run(commands: Commands, line: str) -> str:
    ran, _, note = await commands.run(line, context(Bench([]), untrusted=False))
    assert ran.exit_code == 0, ran.output
    return note


def writes(commands: Commands, path: str) -> str:
    """The words of a command that leaves a program there which tells that it ran."""
    name = f"'{path}'"
    return (
        f"mkdir -p $(dirname {name}); printf '#!/bin/sh\\ntouch {fired(commands)}\\n' > {name};"
        f" chmod +x {name}"
    )


def commit(place: Path) -> None:
    git(place, "commit", "-q", "--allow-empty", "-m", "by hand")


async def test_hooks_wait_where_a_comment_follows_their_path_in_the_settings(commands: Commands) -> None:
    make_repository(commands.root)
    with (commands.root / ".git/config").open("a") as file:
        file.write("[core]\n\thooksPath = shared # with the team\n")
    await run(commands, writes(commands, "shared/pre-commit"))
    commit(commands.root)
    assert not fired(commands).exists()


async def test_settings_wait_that_others_include_by_a_path_in_quotes_with_a_comment(commands: Commands) -> None:
    make_repository(commands.root)
    with (commands.root / ".git/config").open("a") as file:
        file.write('[include]\n\tpath = "../git"config ; ours\n')
    (commands.root / "gitconfig").write_text("[pull]\n\tff = only\n")
    await run(commands, f"printf '[alias]\\n x = !touch {fired(commands)}\\n' > gitconfig")
    git(commands.root, "x")
    assert not fired(commands).exists()


async def test_an_aliass_program_waits_whatever_the_alias_is_called(commands: Commands) -> None:
    make_repository(commands.root)
    lay(commands.root / "scripts/profile.sh", "#!/bin/sh\n")
    git(commands.root, "config", "alias.profile", "!scripts/profile.sh")
    await run(commands, writes(commands, "scripts/profile.sh"))
    git(commands.root, "profile")
    assert not fired(commands).exists()


async def test_hooks_wait_in_the_template_of_new_repositories(commands: Commands) -> None:
    make_repository(commands.root)
    home = commands.root.parent
    (commands.root / "template").mkdir()
    (home / ".gitconfig").write_text(f"[init]\n\ttemplateDir = {commands.root}/template\n")
    await run(commands, writes(commands, "template/hooks/post-checkout"))
    git(home, "clone", "-q", "workspace", "copy")
    assert not fired(commands).exists()


async def test_what_a_hook_spells_waits_where_a_new_link_leads(commands: Commands) -> None:
    make_repository(commands.root, "if [ -f scripts/local.sh ]; then . scripts/local.sh; fi")
    await run(commands, f"{writes(commands, 'other/local.sh')}; ln -s other scripts")
    commit(commands.root)
    assert not fired(commands).exists()


async def test_a_link_waits_that_brings_an_earlier_file_where_a_hook_spells_it(
    commands: Commands,
) -> None:
    make_repository(commands.root, "if [ -f scripts/local.sh ]; then . scripts/local.sh; fi")
    await run(commands, writes(commands, "other/local.sh"))
    await run(commands, "ln -s other scripts; ln -s other plain")
    commit(commands.root)
    assert not fired(commands).exists()
    assert (commands.root / "plain").is_symlink()


async def test_what_a_hook_spells_waits_where_a_link_of_the_owners_leads(commands: Commands) -> None:
    lay(commands.root / "tools/check.sh", "#!/bin/sh\n")
    (commands.root / "scripts").symlink_to("tools")
    make_repository(commands.root, "sh scripts/check.sh")
    await run(commands, writes(commands, "tools/check.sh"))
    commit(commands.root)
    assert not fired(commands).exists()


async def test_hooks_wait_where_their_folder_is_a_link(commands: Commands) -> None:
    make_repository(commands.root)
    lay(commands.root / "shared/commit-msg", "#!/bin/sh\n")
    (commands.root / ".git/hooks/pre-commit.sample").unlink(missing_ok=True)
    for one in (commands.root / ".git/hooks").iterdir():
        one.unlink()
    (commands.root / ".git/hooks").rmdir()
    (commands.root / ".git/hooks").symlink_to("../shared")
    await run(commands, writes(commands, "shared/pre-commit"))
    commit(commands.root)
    assert not fired(commands).exists()


async def test_hooks_wait_where_the_settings_name_a_link(commands: Commands) -> None:
    make_repository(commands.root)
    lay(commands.root / "shared/commit-msg", "#!/bin/sh\n")
    (commands.root / "l").symlink_to("shared")
    git(commands.root, "config", "core.hooksPath", "l")
    await run(commands, writes(commands, "shared/pre-commit"))
    commit(commands.root)
    assert not fired(commands).exists()


async def test_what_a_hook_spells_waits_in_a_workspace_that_is_a_linked_work_tree(commands: Commands) -> None:
    main = commands.root.parent / "main"
    main.mkdir()
    lay(main / "scripts/check.sh", "#!/bin/sh\n")
    make_repository(main, "sh scripts/check.sh")
    commands.root.rmdir()
    git(main, "worktree", "add", "-q", str(commands.root))
    await run(commands, writes(commands, "scripts/check.sh"))
    commit(commands.root)
    assert not fired(commands).exists()


async def test_what_a_submodules_hook_spells_waits(commands: Commands) -> None:
    make_repository(commands.root)
    sub = commands.root.parent / "sub"
    sub.mkdir()
    lay(sub / "scripts/check.sh", "#!/bin/sh\n")
    make_repository(sub)
    git(commands.root, "-c", "protocol.file.allow=always", "submodule", "add", str(sub), "sub")
    lay(commands.root / ".git/modules/sub/hooks/pre-commit", "#!/bin/sh\nsh scripts/check.sh\n")
    await run(commands, writes(commands, "sub/scripts/check.sh"))
    commit(commands.root / "sub")
    assert not fired(commands).exists()


async def test_what_a_hook_spells_waits_in_a_folder_that_is_pointed_to_the_repository(commands: Commands) -> None:
    lay(commands.root / "scripts/check.sh", "#!/bin/sh\n")
    make_repository(commands.root, "sh scripts/check.sh")
    await run(
        commands,
        f"{writes(commands, 'sub/scripts/check.sh')}; echo 'gitdir: ../.git' > sub/.git",
    )
    commit(commands.root / "sub")
    assert not fired(commands).exists()


async def test_what_a_hook_spells_waits_in_a_work_tree_that_the_command_makes(commands: Commands) -> None:
    lay(commands.root / "scripts/check.sh", "#!/bin/sh\n")
    make_repository(commands.root, "sh scripts/check.sh")
    await run(commands, f"git worktree add -q wt; {writes(commands, 'wt/scripts/check.sh')}")
    commit(commands.root / "wt")
    assert not fired(commands).exists()


async def test_what_a_hook_spells_waits_however_many_other_files_it_may_mean(commands: Commands) -> None:
    lay(commands.root / "scripts/check.sh", "#!/bin/sh\n")
    make_repository(commands.root, "sh scripts/check.sh")
    await run(
        commands,
        f"mkdir bin; for n in $(seq 400); do touch bin/sh.$n; done;"
        f"{writes(commands, 'scripts/check.sh')}",
    )
    commit(commands.root)
    assert not fired(commands).exists()


async def test_what_a_hook_spells_waits_however_many_other_folders_it_may_mean(commands: Commands) -> None:
    lay(commands.root / "scripts/check.sh", "#!/bin/sh\n")
    words = [f"w{n}" for n in range(30)]
    make_repository(commands.root, f"# {' '.join(words)}\ncd scripts && ./check.sh")
    await run(commands, f"mkdir {' '.join(words)};{writes(commands, 'scripts/check.sh')}")
    commit(commands.root)
    assert not fired(commands).exists()


@pytest.mark.parametrize("home", ["$HOME", "${HOME}", "~"])
async def test_what_a_hook_spells_from_the_home_folder_waits(commands: Commands, home: str) -> None:
    lay(commands.root / "scripts/check.sh", "#!/bin/sh\n")
    make_repository(commands.root, f"sh {home}/workspace/scripts/check.sh")
    await run(commands, writes(commands, "scripts/check.sh"))
    commit(commands.root)
    assert not fired(commands).exists()


async def test_what_waits_comes_by_no_index_into_the_owners_tree(commands: Commands) -> None:
    lay(commands.root / "scripts/check.sh", "#!/bin/sh\n")
    make_repository(commands.root, "sh scripts/check.sh")
    await run(commands, f"{writes(commands, 'scripts/check.sh')}; git add -A")
    git(commands.root, "checkout", ".")
    commit(commands.root)
    assert not fired(commands).exists()


async def test_what_waits_comes_by_no_commit_into_the_owners_tree(commands: Commands) -> None:
    lay(commands.root / "scripts/check.sh", "#!/bin/sh\n")
    make_repository(commands.root, "sh scripts/check.sh")
    await run(
        commands,
        f"{writes(commands, 'scripts/check.sh')}; git -c user.name=a -c user.email=a commit -nqam x",
    )
    git(commands.root, "stash")
    commit(commands.root)
    assert not fired(commands).exists()


async def test_what_others_make_of_a_repository_with_what_waits_stays_beside_it(commands: Commands) -> None:
    lay(commands.root / "scripts/check.sh", "#!/bin/sh\n")
    make_repository(commands.root, "sh scripts/check.sh")
    who = "-c user.name=a -c user.email=a"
    note = await run(
        commands,
        f"git checkout -qb work; {writes(commands, 'scripts/check.sh')}; echo b > b; git add -A; git {who} commit -nqm two",
    )
    assert "scripts/check.sh waits for the owner" in note and "refs/layer" in note
    assert git(commands.root, "branch", "--show-current") == "main\n"
    assert "two" in git(commands.root, "log", "--format=%s", "refs/layer/heads/work")
    assert git(commands.root, "status", "--short").split() == ["??", "b"]


@pytest.mark.parametrize(
    "line",
    [
        "git checkout -qb work; echo b > b; git add b; git -c user.name=a -c user.email=a commit -nqm two",
        "git branch old; git tag v1; git checkout -q old",
        "git -c user.name=a -c user.email=a stash -qu",
    ],
    ids=["commit", "branches", "stash"],
)
async def test_a_commit_of_what_no_hook_spells_comes_over(commands: Commands, line: str) -> None:
    lay(commands.root / "scripts/check.sh", "#!/bin/sh\n")
    make_repository(commands.root, "sh scripts/check.sh")
    (commands.root / "c").write_text("c")
    assert await run(commands, line) == ""


# What a start-up file puts on the search path stands before the system's programs.
@pytest.mark.parametrize("how", ["export PATH=$PWD/bin:$PATH", 'a=bin\nPATH="$PWD/$a:$PATH"'])
async def test_a_program_waits_in_a_folder_that_a_start_up_file_searches(
    commands: Commands, how: str
) -> None:
    (commands.root / ".envrc").write_text(f"{how}\n")
    lay(commands.root / "bin/tool", "#!/bin/sh\n")
    line = f"{writes(commands, 'bin/git')}; {writes(commands, 'bin/tool')}; echo 1 > bin/notes"
    await run(commands, line)
    enter(commands)
    assert not fired(commands).exists()
    assert (commands.root / "bin/notes").exists()


async def test_a_link_waits_in_a_folder_that_a_start_up_file_searches(commands: Commands) -> None:
    (commands.root / ".envrc").write_text("export PATH=$PWD/bin:$PATH\n")
    await run(commands, writes(commands, "src/run"))
    await run(commands, "mkdir bin; ln -s ../src/run bin/git")
    enter(commands)
    assert not fired(commands).exists()


# A link to a file that is never read to its end (a root daemon's) held the merge, and each start.
async def test_no_link_keeps_a_merge_waiting(commands: Commands) -> None:
    make_repository(commands.root, "if [ -f local.sh ]; then . local.sh; fi")
    async with asyncio.timeout(10):
        await run(commands, "ln -s /proc/kmsg local.sh; echo 1 > plain")
    assert (commands.root / "plain").exists()


# Each file that a text may mean was read whole.
async def test_ten_times_as_many_long_files_cost_a_merge_little_more(tmp_path: Path) -> None:
    costs = list[float]()
    for count in (20, 200):
        (root := tmp_path.resolve() / f"at{count}").mkdir()
        commands = Commands(root, quarantine=tmp_path / f"held{count}")
        lay(root / "scripts/check.sh", "#!/bin/sh\n")
        make_repository(root, "sh scripts/check.sh")
        words = "seq -s ' ' -f 'bin/w%g' 20000"
        line = f"mkdir bin; {words} > bin/sh.0; for n in $(seq {count}); do cp bin/sh.0 bin/sh.$n; done"
        began = time.process_time()
        await run(commands, line)
        costs.append(time.process_time() - began)
    assert costs[1] < 4 * costs[0]
