"""What an approved command leaves does not run later outside the sandbox; ordinary work with git and environments goes on."""

import json
import subprocess
import tempfile
from pathlib import Path

import pytest

from daemon.tools.config import ShellConfig
from daemon.tools.layers.runs_later import runs_later
from daemon.tools.shell.sandbox import SandboxKind
from daemon.tools.shell.tool import Shell, shell_tool
from tests.behaviour.test_files_labels import context
from tests.fakes.commands import Commands
from tests.fakes.tools import Bench

FENCES: tuple[SandboxKind, ...] = ("bubblewrap", "landlock")
NO_OVERLAY = "it is not there, for the test"
GROUNDS = (("bubblewrap", ""), ("bubblewrap", NO_OVERLAY), ("landlock", NO_OVERLAY))
GIT = {
    "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_AUTHOR_NAME": "o", "GIT_AUTHOR_EMAIL": "o@x", "GIT_COMMITTER_NAME": "o",
    "GIT_COMMITTER_EMAIL": "o@x", "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip
MARK = "touch $MARK"
EVIL = f"printf '#!/bin/sh\\n{MARK}\\n'"


class Ground:
    """A workspace with a repository of the owner's, and a quarantine beside it."""

    def __init__(self, place: Path, kind: SandboxKind, obstacle: str = "") -> None:
        self.obstacle = obstacle
        self.root, self.folder, self.mark = (
            place / "workspace",
            place / "quarantine",
            place / "fired",
        )
        self.root.mkdir()
        (self.root / "a.txt").write_text("one\n")
        self.owner("git init -q . && git add a.txt && git commit -qm one")
        self.commands = Commands(self.root, kind, obstacle=obstacle, quarantine=self.folder)
        self.sandbox = self.commands.sandbox

    async def command(self, line: str) -> str:
        """An approved command, from beginning to end; what was set aside."""
        around = context(Bench([]), untrusted=False)
        ran, _, note = await self.commands.run(line, around)
        self.output, self.exit_code = ran.output, ran.exit_code
        return note

    def owner(self, line: str) -> str:
        """What its owner does there, outside the sandbox."""
        done = subprocess.run(
            ["/bin/bash", "-c", line], cwd=self.root, env={**GIT, "MARK": str(self.mark)}, capture_output=True, text=True, check=False,
            timeout=60,
        )  # fmt: skip
        return done.stdout + done.stderr


@pytest.fixture
def ground(tmp_path: Path, request: pytest.FixtureRequest) -> Ground:
    at: tuple[SandboxKind, str] = getattr(request, "param", ("bubblewrap", ""))
    return Ground(tmp_path.resolve(), *at)


USE = "git status; git add -A; git commit -qm more; for d in */; do (cd $d && git status && git commit --allow-empty -qm x); done"
HOOKED = f"mkdir -p H; {EVIL} > H/pre-commit; chmod +x H/pre-commit"
ATTACKS = {
    "hook": (
        f"mkdir -p .git/hooks; {EVIL} > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        USE,
    ),
    "renamed repository": (
        f"mv .git old; cp -r old .git; mkdir -p .git/hooks; {EVIL} > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        USE,
    ),
    "fsmonitor": (f"git config core.fsmonitor '{MARK}; false'", USE),
    "fsmonitor, appended": (
        f"printf '[core]\\n\\tfsmonitor = \"{MARK}; false\"\\n' >> .git/config",
        USE,
    ),
    "common folder": (
        f"cp -r .git evil; printf '[core]\\n\\tfsmonitor = \"{MARK}; false\"\\n' >> evil/config; echo ../evil > .git/commondir",
        USE,
    ),
    "nested repository": (
        f"mkdir sub; cd sub; git init -q .; mkdir -p .git/hooks; {EVIL} > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        USE,
    ),
    "nested repository, settings": (
        f"mkdir sub; cd sub; git init -q .; git config core.fsmonitor '{MARK}; false'",
        USE,
    ),
    "nested bare repository": (
        f"git init -q --bare sub; cd sub; git config core.bare false; git config core.worktree .; git config core.fsmonitor '{MARK}; false'",
        USE,
    ),
    "pointer to a repository": (
        f"mkdir data; git init -q --separate-git-dir=$PWD/data/inner sub; git --git-dir=data/inner config core.fsmonitor '{MARK}; false'",
        USE,
    ),
    "settings that include": (
        f"mkdir sub; cd sub; git init -q .; printf '[core]\\n\\tfsmonitor = \"{MARK}; false\"\\n' > c; git config include.path ../c",
        USE,
    ),
    "start-up file of direnv": (f"echo '{MARK}' > .envrc", "test -e .envrc && . ./.envrc"),
    **{
        f"settings in {name}": (f"echo '{MARK}' > {name}", f"test -e {name} && . ./{name}")
        for name in (
            *(".npmrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml"),
            *(".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yaml"),
        )
    },
    "settings in a folder": (
        f"mkdir -p .husky .cargo; echo '{MARK}' > .husky/pre-push; echo '{MARK}' > .cargo/config.toml",
        "for f in .husky/pre-push .cargo/config.toml; do test ! -e $f || . ./$f; done",
    ),
    "start-up file of a shell": (f"echo '{MARK}' > .bashrc", "HOME=$PWD bash -ic true"),
    "launcher": (
        f"mkdir -p .venv/bin; {EVIL} > .venv/bin/python; chmod +x .venv/bin/python",
        ".venv/bin/python x",
    ),
    "launcher behind a link": (
        f"mkdir -p stuff/bin; {EVIL} > stuff/bin/python; chmod +x stuff/bin/python; ln -s stuff .venv",
        ".venv/bin/python x",
    ),
    "launchers behind a link": (
        f"mkdir -p stuff .venv; {EVIL} > stuff/python; chmod +x stuff/python; ln -s ../stuff .venv/bin",
        ".venv/bin/python x",
    ),
    "repository behind a link": (
        f"mkdir sub; git init -q --bare data; git --git-dir=data config core.bare false; git --git-dir=data config core.fsmonitor '{MARK}; false'; ln -s ../data sub/.git",
        USE,
    ),
    "editor": (
        "mkdir .vscode; echo 1 > .vscode/tasks.json",
        "test -e .vscode && $MARK; test -e .vscode && touch $MARK",
    ),
    "program of npm": (
        f"mkdir -p node_modules/.bin; {EVIL} > node_modules/.bin/tsc; chmod +x node_modules/.bin/tsc",
        "node_modules/.bin/tsc",
    ),
}


@pytest.mark.parametrize("ground", GROUNDS, indirect=True)
@pytest.mark.parametrize("attack", ATTACKS)
async def test_H_what_a_command_leaves_does_not_run_when_the_owner_works_there(
    ground: Ground, attack: str
) -> None:
    line, use = ATTACKS[attack]
    ground.owner(line)  # it bites: without the sandbox it fires
    ground.owner(use)
    assert ground.mark.exists()
    place = ground.root.parent / "sandboxed"
    place.mkdir()
    sandboxed = Ground(place, ground.sandbox.kind, ground.obstacle)
    await sandboxed.command(line)
    sandboxed.owner(use)
    assert not sandboxed.mark.exists()


VENV = "/usr/bin/python3 -m venv --without-pip .venv"
UNCHECKED = """python3 -c "import marshal, importlib.util as u; open('__pycache__/lib.cpython-%d%d.pyc' % __import__('sys').version_info[:2], 'wb').write(u.MAGIC_NUMBER + bytes([1]) + bytes(11) + marshal.dumps(compile(\\"import os; os.system('touch $MARK')\\", 'lib.py', 'exec')))" """
SHIFTED = "git checkout -qb topic; echo t > a.txt; git commit -qam t; git checkout -q -; echo m > a.txt; git commit -qam m; git checkout -q topic"
MAIN = "$(git for-each-ref --format='%(refname)' refs/heads | grep -v topic)"
# What the owner has, what a command does, what the owner does then.
OWNED = {
    "program of a filter": (
        "echo 'a.txt filter=f' > .gitattributes; mkdir t; echo cat > t/f; git config filter.f.clean 'sh t/f'",
        f"echo '{MARK}; cat' > t/f",
        "echo 2 > a.txt; git add a.txt",
    ),
    "program of a filter that is not there yet": (
        "echo 'a.txt filter=f' > .gitattributes; git config filter.f.clean 'sh t/f'",
        f"mkdir t; echo '{MARK}; cat' > t/f",
        "echo 2 > a.txt; git add a.txt",
    ),
    "program of an alias": (
        "echo true > st.sh; git config alias.st '!sh st.sh'",
        f"echo '{MARK}' > st.sh",
        "git st",
    ),
    "what a script of a hook starts": (
        "mkdir t; echo '. t/lib.sh' > t/check; echo true > t/lib.sh; echo 'sh t/check' > .git/hooks/pre-commit; chmod +x .git/hooks/*",
        f"rm -f t/lib.sh; mkdir -p t; echo '{MARK}' > t/lib.sh",
        USE,
    ),
    "module of a hook's program": (
        "mkdir t; echo 'import lib' > t/check.py; touch t/lib.py; printf '#!/bin/sh\\npython3 -B t/check.py' > .git/hooks/pre-commit; chmod +x .git/hooks/*",
        "echo \"import os; os.system('touch $MARK')\" > t/lib.py",
        USE,
    ),
    "what a hook that is a link leads to": (
        "mkdir t; echo true > t/check; chmod +x t/check; ln -s ../../t/check .git/hooks/pre-commit",
        f"{EVIL} > t/check",
        USE,
    ),
    "what a program that is a link leads to": (
        "mkdir t u; echo true > u/real; ln -s ../u/real t/check; echo 'sh t/check' > .git/hooks/pre-commit; chmod +x .git/hooks/*",
        f"echo '{MARK}' > u/real",
        USE,
    ),
    "folder of hooks that is a link": (
        "rm -rf .git/hooks; mkdir h; ln -s ../h .git/hooks",
        f"{EVIL} > h/pre-commit; chmod +x h/pre-commit",
        USE,
    ),
    "settings that are a link": (
        "mv .git/config cfg; ln -s ../cfg .git/config",
        f"printf '[core]\n\tfsmonitor = \"{MARK}; false\"\n' >> cfg",
        USE,
    ),
    "editor's folder that is a link": (
        "mkdir e; ln -s e .vscode",
        "echo 1 > e/tasks.json",
        "test ! -e .vscode/tasks.json || touch $MARK",
    ),
    "program with a blank in its name": (
        "mkdir 'my t'; echo true > 'my t/check'; echo 'sh \"my t/check\"; sh my\\ t/check' > .git/hooks/pre-commit; chmod +x .git/hooks/*",
        f"echo '{MARK}' > 'my t/check'",
        USE,
    ),
    "module beside the main one of a package": (
        "mkdir t; echo 'from . import lib' > t/__main__.py; touch t/lib.py; echo 'python3 -B -m t' > .git/hooks/pre-commit; chmod +x .git/hooks/*",
        "echo \"import os; os.system('touch $MARK')\" > t/lib.py",
        USE,
    ),
    "program after a variable": (
        "mkdir t; echo true > t/check; echo 'sh $PWD/t/check' > .git/hooks/pre-commit; chmod +x .git/hooks/*",
        f"echo '{MARK}' > t/check",
        USE,
    ),
    "program in a folder that is entered": (
        "mkdir t; echo true > t/check; echo 'cd t && sh ./check' > .git/hooks/pre-commit; chmod +x .git/hooks/*",
        f"echo '{MARK}' > t/check",
        USE,
    ),
    "part of a package of a hook's program": (
        "mkdir -p t/own; echo 'from own import lib' > t/check.py; touch t/own/lib.py; echo 'python3 -B t/check.py' > .git/hooks/pre-commit; chmod +x .git/hooks/*",
        "echo \"import os; os.system('touch $MARK')\" > t/own/lib.py",
        USE,
    ),
    "what .envrc sources": (
        "echo 'source_env_if_exists .envrc.local' > .envrc",
        f"echo '{MARK}' > .envrc.local",
        "test -e .envrc.local && . ./.envrc.local",
    ),
    "hooks of settings that are included": (
        "printf '[core]\\n\\thooksPath = own\\n' > shared; mkdir own; git config include.path ../shared",
        f"{EVIL} > own/pre-commit; chmod +x own/pre-commit",
        USE,
    ),
    "step of a rebase": (
        SHIFTED,
        f"git rebase {MAIN}; echo 'x {MARK}' >> .git/rebase-merge/git-rebase-todo",
        "git add -A; git -c core.editor=true rebase --continue",
    ),
    "address of a remote of the old kind": (
        "rm -rf .git/branches .git/remotes",
        'mkdir .git/remotes; echo "URL: ext::touch $MARK" > .git/remotes/origin',
        "git -c protocol.ext.allow=always fetch",
    ),
    "line at each start of an environment": (
        VENV,
        "echo \"import os; os.system('touch $MARK')\" | tee $(echo .venv/lib/python3*/site-packages)/a.pth",
        ".venv/bin/python -c 1",
    ),
    "home of an environment": (
        VENV,
        "mkdir -p s/bin s/lib; cp -r $(python3 -c 'import encodings as e; print(e.__path__[0][:-10])') s/lib/; find s -name '*.pyc' -delete;"
        ' echo "import posix; posix.system(\'touch $MARK\')" > $(echo s/lib/python3*)/encodings/__init__.py; sed -i "s#^home.*#home = $PWD/s/bin#" .venv/pyvenv.cfg',
        ".venv/bin/python -c 1",
    ),
    "compiled part of a program": (
        "echo 1 > lib.py; echo 'import lib' > run.py; python3 run.py",
        UNCHECKED,
        "python3 run.py",
    ),
    "repository below a folder called objects": (
        "mkdir -p game/objects/ab game/refs",
        f"cd game/objects/ab; git init -q .; git config core.fsmonitor '{MARK}; false'",
        "cd game/objects/ab; git status",
    ),
}


@pytest.mark.parametrize("ground", GROUNDS, indirect=True)
@pytest.mark.parametrize("attack", OWNED)
async def test_H_what_the_owners_settings_start_is_not_a_commands(
    ground: Ground, attack: str
) -> None:
    before, line, use = OWNED[attack]
    ground.owner(before)
    ground.owner(line)  # it bites: without the sandbox it fires
    ground.owner(use)
    assert ground.mark.exists()
    place = ground.root.parent / "sandboxed"
    place.mkdir()
    sandboxed = Ground(place, ground.sandbox.kind, ground.obstacle)
    sandboxed.owner(before)
    await sandboxed.command(line.replace("$MARK", str(sandboxed.mark)))
    sandboxed.owner(use)
    assert not sandboxed.mark.exists()


@pytest.mark.parametrize("ground", GROUNDS, indirect=True)
@pytest.mark.parametrize(
    "around",
    [
        "mv .git ..",  # the workspace is a folder of a repository
        "mv .git ../main.git; echo 'gitdir: ../main.git' > .git",  # it is a work tree of one elsewhere
        "rm -rf a.txt .git; (cd ..; git init -q main; cd main; git commit -q --allow-empty -m x; git worktree add -q ../workspace)",
    ],
    ids=["around", "pointer", "worktree"],
)
async def test_H_what_a_repository_outside_the_workspace_starts_is_not_a_commands(
    ground: Ground, around: str
) -> None:
    ground.owner(f"{around}; mkdir -p t; echo true > t/check")
    hooks = ground.owner("git rev-parse --git-path hooks").strip()
    name = "workspace/t/check" if around == "mv .git .." else "t/check"
    ground.owner(f"mkdir -p {hooks}; echo 'sh {name}' > {hooks}/pre-commit; chmod +x {hooks}/*")
    note = await ground.command(f"echo 'touch {ground.mark}' > t/check")
    assert "t/check" in note
    ground.owner("git commit -q --allow-empty -m more")
    assert not ground.mark.exists()
    ground.owner(f"echo 'touch {ground.mark}' > t/check; git commit -q --allow-empty -m more")
    assert ground.mark.exists()  # it bites
    assert runs_later(ground.root, "t/check") and not runs_later(ground.root, "t/other")


async def test_H_a_workspace_without_a_repository_becomes_none_that_starts_a_program(
    ground: Ground,
) -> None:
    ground.owner("rm -rf .git")
    own = f"core.bare false; git config core.worktree .; git config core.fsmonitor '{MARK}; false'"
    await ground.command(f"git init -q --bare .; export GIT_DIR=.; git config {own}")
    ground.owner("git status")
    assert not ground.mark.exists() and not (ground.root / "HEAD").exists()


def test_H_one_file_is_judged_like_what_a_command_leaves(ground: Ground) -> None:
    ground.owner(
        "mkdir -p bare/objects bare/refs half/objects tool/bin own; touch tool/pyvenv.cfg"
        " own/check.sh; echo 'sh own/check.sh' > .git/hooks/pre-commit"
    )
    runs = (
        "bare/config", "bare/hooks/post-commit", "half/refs/x", "env/bin/activate", "tool/bin/pip",
        "own/check.sh", "lefthook.yml", "a/b/.envrc", "x/site-packages/a.pth", "a/bunfig.toml",
    )  # fmt: skip
    plain = (
        "list.txt", "e/list.txt", "half/config", "own/other.sh", "bin/activate", "env/notes.md",
        ".", "", "../x", "/etc/passwd", "a\0b", "\ud800",
    )  # fmt: skip
    assert [one for one in runs if not runs_later(ground.root, one)] == []
    assert [one for one in plain if runs_later(ground.root, one)] == []
    assert runs_later(ground.root, f"{ground.root}/env/bin/activate")


@pytest.mark.parametrize("ground", GROUNDS, indirect=True)
async def test_H_what_was_there_before_stays_as_it_was(ground: Ground) -> None:
    hook, envrc, python = (
        ground.root / name for name in (".git/hooks/post-commit", ".envrc", ".venv/bin/python")
    )
    for place in (hook, envrc, python):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("the owner's\n")
    await ground.command(
        "for f in .git/hooks/post-commit .envrc .venv/bin/python; do echo evil > $f; rm -f $f; echo evil > $f; done"
    )
    assert [place.read_text() for place in (hook, envrc, python)] == ["the owner's\n"] * 3


@pytest.mark.parametrize("ground", GROUNDS, indirect=True)
async def test_H_hooks_in_a_folder_of_the_owners_choice_stay_as_they_were(ground: Ground) -> None:
    ground.owner(
        "mkdir .githooks; echo 'true' > .githooks/pre-commit; chmod +x .githooks/pre-commit; git config core.hooksPath .githooks"
    )
    await ground.command(f"cd .githooks; {EVIL} > pre-commit; {EVIL} > post-commit; chmod +x *")
    ground.owner(USE)
    assert not ground.mark.exists()
    assert (ground.root / ".githooks" / "pre-commit").read_text() == "true\n"


async def test_H_a_folder_above_a_repository_is_renamed_and_replaced_in_vain(
    ground: Ground,
) -> None:
    ground.owner("mkdir sub && cd sub && git init -q . && git commit --allow-empty -qm x")
    line = f"mv sub sub2; mkdir sub; cd sub; git init -q .; mkdir -p .git/hooks; {EVIL} > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git config core.fsmonitor '{MARK}'"
    await ground.command(line)
    ground.owner(USE)
    assert not ground.mark.exists()


async def test_H_nothing_is_lost_and_the_result_says_where_it_is(ground: Ground) -> None:
    note = await ground.command("echo 'export A=1' > .envrc")
    place = ground.folder / "held" / ".envrc"
    assert place.read_text() == "export A=1\n"
    assert ".envrc" in note and str(place.parent) in note
    assert "nothing is lost" in note


async def test_H_launchers_do_not_come_back_behind_a_link(ground: Ground) -> None:
    away = ground.root.parent / "away"
    away.mkdir()
    await ground.command(
        f"mkdir -p e/bin; touch e/pyvenv.cfg; {EVIL} > e/bin/ls; chmod +x e/bin/ls"
    )
    ground.owner("mv e f; ln -s ../away e")
    await ground.command("true")
    assert not list(away.iterdir())
    ground.owner("rm e; mv f e")
    await ground.command("ls e/bin")
    assert ground.output == "ls\n"


async def test_H_nothing_is_lost_where_the_quarantine_is_on_another_disk(ground: Ground) -> None:
    mine = ground.root.stat().st_dev
    places = (Path(place) for place in ("/dev/shm", "/var/tmp", "/tmp"))
    other = next((one for one in places if one.is_dir() and one.stat().st_dev != mine), None)
    if not other:
        pytest.skip("no other disk")
    with tempfile.TemporaryDirectory(dir=other) as folder:
        ground.folder = Path(folder) / "quarantine"
        ground.commands = Commands(ground.root, quarantine=ground.folder)
        await ground.command(f"{VENV}; echo 1 > .envrc; mkdir -p .vscode/a; ln -s b .vscode/a/c")
        assert (ground.folder / "held" / ".envrc").read_text() == "1\n"
        assert (ground.folder / "held" / ".vscode" / "a" / "c").readlink() == Path("b")
        await ground.command(".venv/bin/python -c 'print(1)'")
        assert ground.output == "1\n"


ORDINARY = {
    "commit": "echo two >> a.txt && git -c user.name=o -c user.email=o@x commit -qam two && git log --oneline | wc -l",
    "branch": "git checkout -q -b next && git branch --show-current",
    "init": "mkdir new && cd new && git init -q . && echo x > f && git add f && git -c user.name=o -c user.email=o@x commit -qm x && git log --oneline",
    "rebase": "git checkout -q -b next && echo b > b && git add b && git -c user.name=o -c user.email=o@x commit -qm b && git -c user.name=o -c user.email=o@x rebase -q HEAD~1",
    "compile": "echo 1 > lib.py && echo 'import lib' > run.py && python3 -m compileall -q . && python3 run.py",
    "clone": "git clone -q --no-hardlinks . copy && cd copy && git status && git remote -v && git pull -q",
}


@pytest.mark.parametrize("ground", GROUNDS, indirect=True)
@pytest.mark.parametrize("task", ORDINARY)
async def test_twins_git_works_for_an_approved_command(ground: Ground, task: str) -> None:
    if task == "clone":
        ground.owner("git checkout -q -b main")
    note = await ground.command(ORDINARY[task])
    assert (ground.exit_code, note) == (0, ""), ground.output


async def test_twins_a_clone_can_be_used_afterwards(ground: Ground) -> None:
    await ground.command("git clone -q --no-hardlinks . copy")
    assert await ground.command("cd copy && git fetch -q && git status && git remote -v") == ""
    assert ground.exit_code == 0
    assert "origin" in ground.output


async def test_twins_an_environment_serves_later_commands(ground: Ground) -> None:
    assert ".venv/bin" in await ground.command("/usr/bin/python3 -m venv --without-pip .venv")
    assert not (ground.root / ".venv" / "bin").exists()
    for _ in range(2):
        await ground.command(".venv/bin/python -c 'import sys; print(sys.prefix)'")
        assert ground.output.strip() == str(ground.root / ".venv")
    await ground.command(
        "rm -rf .venv && /usr/bin/python3 -m venv --without-pip .venv && .venv/bin/python -c 1"
    )
    assert ground.exit_code == 0, ground.output


async def test_twins_programs_of_packages_serve_later_commands(ground: Ground) -> None:
    await ground.command(
        "mkdir -p node_modules/.bin && printf '#!/bin/sh\\necho built' > node_modules/.bin/tsc && chmod +x node_modules/.bin/tsc"
    )
    await ground.command(
        "node_modules/.bin/tsc && rm -rf node_modules && mkdir -p node_modules/.bin && echo 1 > node_modules/.bin/x"
    )
    assert (ground.exit_code, ground.output) == (0, "built\n")


async def test_twins_launchers_of_the_owners_are_used_and_installing_does_not_fail(
    ground: Ground,
) -> None:
    ground.owner("/usr/bin/python3 -m venv --without-pip .venv")
    assert await ground.command(".venv/bin/python -c 'print(1)'") == ""
    assert ground.output == "1\n"
    note = await ground.command("echo evil > .venv/bin/new && rm -rf .venv/bin/python")
    assert ground.exit_code == 0
    assert ".venv/bin" in note
    assert ground.owner(".venv/bin/python -c 'print(2)'; ls .venv/bin/new").startswith("2\n")
    assert not (ground.root / ".venv" / "bin" / "new").exists()


async def test_H_settings_of_a_repository_keep_what_runs_nothing(ground: Ground) -> None:
    await ground.command(
        "git clone -q --no-hardlinks . copy; cd copy; git config core.pager evil; git config user.name me; git config alias.st '!evil'; git config filter.x.clean evil"
    )
    kept = (ground.root / "copy" / ".git" / "config").read_text()
    assert "evil" not in kept
    assert "name = me" in kept
    assert '[remote "origin"]' in kept
    assert "evil" in (ground.folder / "held" / "copy" / ".git" / "config").read_text()


async def test_H_the_result_of_the_tool_says_what_was_set_aside(ground: Ground) -> None:
    made = Shell(ground.sandbox, ShellConfig())
    rig = Bench([shell_tool(made)], {Shell: made}, granted=("shell",))
    told = await rig.one("shell", json.dumps({"command": "echo x > .envrc; echo done"}))
    assert "done" in told.text and "- .envrc" in told.text
    started = await rig.one(
        "shell", json.dumps({"command": "echo x > .bashrc", "background": True})
    )
    await made.background.find(started.text.partition(":")[0], rig.turn.session).task
    assert not (ground.root / ".bashrc").exists()
