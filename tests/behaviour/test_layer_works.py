"""Ordinary pieces of work, each right on an overlay, on a copy and under landlock: what its commands say, what the owner finds then."""

import subprocess
from pathlib import Path

import pytest

from daemon.tools.shell.sandbox import SandboxKind
from tests.behaviour.test_deferred import GIT, GROUNDS
from tests.behaviour.test_files_labels import context
from tests.fakes.commands import Commands
from tests.fakes.tools import Bench
from tests.full_form import FULL

G = "git -c user.name=o -c user.email=o@x"
DIVERGED = (
    f"git checkout -qb t; echo t > t; git add t; {G} commit -qm t; git checkout -q main;"
    f" echo m > m; git add m; {G} commit -qm m"
)
STOPPED = (
    f"git checkout -qb t; echo t > a.txt; {G} commit -qam t; git checkout -q main;"
    f" echo m > a.txt; {G} commit -qam m; {G} merge t || true"
)
# What is run one after the other, what the owner runs then, and what that prints.
WORKS: dict[str, tuple[list[str], str, str]] = {
    "an environment and what it runs": (
        ["/usr/bin/python3 -m venv --without-pip .venv", ".venv/bin/python -c 'print(6 * 7)' > out"],
        "cat out; ls .venv/bin 2>/dev/null", "42\n",
    ),
    "packages of npm and their programs": (
        [
            "mkdir -p node_modules/p node_modules/.bin; printf '#!/bin/sh\\necho built > out' > node_modules/p/cli;"
            " chmod +x node_modules/p/cli; ln -s ../p/cli node_modules/.bin/tsc",
            "node_modules/.bin/tsc",
        ],
        "cat out", "built\n",
    ),
    "make, twice": (
        ["printf 'out: in\\n\\tcp in out\\n' > Makefile; echo 1 > in; make", "make -q"],
        "cat out", "1\n",
    ),
    "a build folder": (
        ["mkdir -p target/d; seq 200 | while read n; do echo $n > target/d/$n; done; ln target/d/1 target/app", "rm -r target/d"],
        "ls target; cat target/app", "app\n1\n",
    ),
    "a commit": ([f"echo 2 >> a.txt; {G} commit -qam two"], "git log --format=%s; git status -s", "two\none\n"),
    "a branch": (["git checkout -qb next; git branch x; git branch -D x"], "git branch", "  main\n* next\n"),
    "a merge": ([DIVERGED, f"{G} merge -q -m both t"], "git log --format=%s -1; ls", "both\na.txt\nm\nt\n"),
    "a merge that stops": (
        [STOPPED, f"echo both > a.txt; git add a.txt; {G} commit -qm solved"],
        "git log --format=%s -1; cat a.txt; git status -s", "solved\nboth\n",
    ),
    "a merge that waits": ([STOPPED], "git status -s; git merge --abort; cat a.txt", "UU a.txt\nm\n"),
    "a rebase": ([DIVERGED, f"git checkout -q t; {G} rebase -q main"], "git log --format=%s", "t\nm\none\n"),
    "an amended commit": ([f"echo 2 > a.txt; {G} commit -qa --amend -m x"], "git log --format=%s", "x\n"),
    "a stash": (
        [f"echo 2 > a.txt; {G} stash -q; echo 3 > b.txt", "git stash pop -q"],
        "cat a.txt; git stash list", "2\n",
    ),
    "a stash that waits": ([f"echo 2 > a.txt; {G} stash -q"], "cat a.txt; git stash pop -q; cat a.txt", "one\n2\n"),
    "a reset": ([f"echo 2 > a.txt; {G} commit -qam two; git reset -q --hard HEAD~1"], "cat a.txt; git log --format=%s", "one\none\n"),
    "a revert": ([f"echo 2 > a.txt; {G} commit -qam two; {G} revert --no-edit HEAD"], "cat a.txt", "one\n"),
    "tags": ([f"git tag v1; {G} tag -a -m x v2"], "git tag", "v1\nv2\n"),
    "gc": (["git gc -q"], "git log --format=%s; git fsck 2>&1", "one\n"),
    "a detached head": (["git checkout -q --detach"], "git symbolic-ref -q HEAD || echo none", "none\n"),
    "a clone": (["git clone -q --no-hardlinks . copy", "cd copy; git fetch -q"], "cd copy; git log --format=%s", "one\n"),
    "a new repository": (
        [f"mkdir n; cd n; git init -q -b main .; echo 1 > f; git add f; {G} commit -qm 1", f"cd n; echo 2 > f; {G} commit -qam 2"],
        "cd n; git log --format=%s; git status -s", "2\n1\n",
    ),
    "a work tree": (
        ["git worktree add -q wt -b w", f"cd wt; echo 1 > f; git add f; {G} commit -qm w"],
        "cd wt; git log --format=%s; git status -s", "w\none\n",
    ),
    "a work tree that goes": (["git worktree add -q wt -b w", "git worktree remove wt"], "ls; git worktree list | wc -l", "a.txt\n1\n"),
    "a submodule": (
        [
            f"git clone -q --no-hardlinks . s; cd s; git checkout -q --detach; cd ..; git -c protocol.file.allow=always submodule --quiet add ./s sub; {G} commit -qm sub",
            f"cd sub; echo 2 >> a.txt; {G} commit -qam two; cd ..; {G} commit -qam up; git submodule status --cached > out",
        ],
        "git log --format=%s; cat sub/a.txt .gitmodules", 'up\nsub\none\none\n2\n[submodule "sub"]\n\tpath = sub\n\turl = ./s\n',
    ),
    "one byte behind a gigabyte": (["truncate -s 1G big", "printf x >> big"], "stat -c %s big; tail -c1 big; rm big", "1073741825\nx"),
    "many files": (
        [f"mkdir d; cd d; seq {50_000 if FULL else 10_000} | xargs -n 2000 touch", "find d -type f | wc -l; rm -r d"],
        "ls", "a.txt\n",
    ),
    "a package that is edited in its place": (
        [
            "/usr/bin/python3 -m venv --without-pip .venv; mkdir -p src; echo 'x = 6' > src/mine.py; echo $PWD/src > $(echo .venv/lib/*/site-packages)/mine.pth",
            ".venv/bin/python -c 'import mine; print(mine.x)' > out",
        ],
        "cat out", "6\n",
    ),
    "a renamed file": (["git mv a.txt z.txt"], "git status -s", "R  a.txt -> z.txt\n"),
    "sed in place": (["sed -i s/one/two/ a.txt"], "cat a.txt", "two\n"),
    "moved and deleted": (["mkdir d; mv a.txt d/; touch x; rm x"], "ls; cat d/a.txt", "d\none\n"),
    "a mode": (["chmod +x a.txt"], "test -x a.txt && echo x", "x\n"),
    "links within": (["ln -s a.txt l; mkdir d; ln -s ../a.txt d/l; ln -s d e"], "cat l e/l", "one\none\n"),
    "a formatter over a tree": (
        ["seq 300 | while read n; do echo $n > $n.py; done", "for f in *.py; do echo '#' >> $f; done"],
        "cat *.py | grep -c '#'", "300\n",
    ),
    "a server of one's own that is asked": (
        ["python3 -m http.server 8123 >/dev/null 2>&1 & until python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/a.txt').read().decode().strip())\" > out 2>/dev/null; do sleep 0.1; done; kill %1"],
        "cat out", "one\n",
    ),
    "settings of git are the owner's": (["git config user.name me; git remote add o https://x.example/r; git config user.name > out"], "cat out; git remote; git config user.name || echo nobody", "me\nnobody\n"),
}  # fmt: skip


# Under landlock a copy lies elsewhere, so a path that is written down leads nowhere; and no program listens.
TOO_LARGE_TO_COPY = ("one byte behind a gigabyte", "many files")
NEEDS_ITS_PLACE = (
    "a clone", "a work tree", "a work tree that goes", "a submodule",
    "a server of one's own that is asked", "a package that is edited in its place",
)  # fmt: skip
CASES = [
    pytest.param(kind, obstacle, work, id=f"{work}, {name}")
    for (kind, obstacle), name in zip(GROUNDS, ("overlay", "copy", "landlock"), strict=True)
    for work in WORKS
    if not (kind == "landlock" and work in NEEDS_ITS_PLACE)
    and not (obstacle and work in TOO_LARGE_TO_COPY)
]


@pytest.mark.parametrize(("kind", "obstacle", "work"), CASES)
async def test_ordinary_work_is_right(
    tmp_path: Path, kind: SandboxKind, obstacle: str, work: str
) -> None:
    lines, then, prints = WORKS[work]
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    owner(root, "git init -q -b main . && git add a.txt && git commit -qm one")
    commands = Commands(root, kind, obstacle=obstacle)
    for line in lines:
        ran, _, _ = await commands.run(line, context(Bench([]), untrusted=False))
        assert ran.exit_code == 0, ran.output
    assert owner(root, then) == prints
    assert "fatal" not in owner(root, "git fsck 2>&1")


def owner(root: Path, line: str) -> str:
    """What the owner's own shell prints."""
    done = subprocess.run(
        ["/bin/bash", "-c", line], cwd=root, env=GIT, capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip
    return done.stdout
