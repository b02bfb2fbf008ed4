"""What commands do to repositories of git: whole objects come over and references last; what the owner did meanwhile stays, and nothing of the history is lost."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from daemon.core.trust import Label
from daemon.tools.base import ToolContext
from daemon.tools.layers.git_index import is_fine_index
from daemon.tools.layers.merge import Merge
from daemon.tools.layers.step import Step
from daemon.tools.shell.process import run_process
from daemon.tools.shell.run import Given, open_run
from tests.behaviour.test_deferred import GIT, GROUNDS
from tests.behaviour.test_files_labels import context
from tests.fakes.commands import DEADLINE, Commands
from tests.fakes.tools import Bench

G = "git -c user.name=o -c user.email=o@x"
COMMIT = f"echo 2 > a.txt; {G} commit -qam two"
# An object that another one's name leads to.
SWAP = "o=.git/objects; n=$(echo evil | git hash-object -w --stdin); "
NAMED = "h=$(git rev-parse HEAD:a.txt); chmod -R u+w .git/objects; "

# A file of an object that says another length than it has.
NO_OBJECT = """
import hashlib, pathlib, zlib
data = b"blob 9" + bytes(1) + b"abc"
name = hashlib.sha1(data).hexdigest()
place = pathlib.Path(".git/objects", name[:2])
place.mkdir(exist_ok=True)
(place / name[2:]).write_bytes(zlib.compress(data))
"""


@pytest.fixture(params=GROUNDS, ids=["overlay", "copy", "landlock"])
def commands(tmp_path: Path, request: pytest.FixtureRequest) -> Commands:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    owner(root, "git init -q -b main . && git add a.txt && git commit -qm one")
    kind, obstacle = request.param
    return Commands(root, kind, obstacle=obstacle)


def owner(root: Path, line: str) -> str:
    """What the owner's own shell prints."""
    done = subprocess.run(
        ["/bin/bash", "-c", line], cwd=root, env=GIT, capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip
    return done.stdout + done.stderr


class Watched(list[Step]):
    """Steps of a merge that is killed before its first one: the next daemon does them then."""

    def __init__(self, steps: list[Step], then: Callable[[], object]) -> None:
        super().__init__(steps)
        self.then, self.walks = then, 0

    def __iter__(self) -> Iterator[Step]:
        self.walks += 1
        if self.walks == 1:  # it notes what it is about to do
            yield from super().__iter__()
        else:
            self.then()


def around() -> ToolContext:
    return context(Bench([]), untrusted=False)


async def run(commands: Commands, line: str, meanwhile: str = "true") -> str:
    """What did not come over. `meanwhile`: what the owner does before it has ended."""
    given = Given(["/bin/bash", "-c", line])
    async with open_run(commands.sandbox, given, around(), Label.TRUSTED, None, "") as one:
        ran = await run_process(one.argv, one.cwd, one.env, DEADLINE, 4000, start=one.start)
        assert ran.exit_code == 0, ran.output
        owner(commands.root, meanwhile)
        return (await one.finish())[1]


DAMAGE: dict[str, str] = {
    "an object that is cut": f"{COMMIT}; f=$(git rev-parse HEAD | sed 's,^..,.git/objects/&/,'); chmod u+w $f; truncate -s 20 $f",
    "an object with more behind it": f"{COMMIT}; f=$(git rev-parse HEAD | sed 's,^..,.git/objects/&/,'); chmod u+w $f; echo >> $f",
    "an object by another's name": f"{COMMIT}; {SWAP}b=$(git rev-parse HEAD:a.txt); chmod -R u+w $o; cp $o/${{n:0:2}}/${{n:2}} $o/${{b:0:2}}/${{b:2}}",
    "a pack that is cut": f"{COMMIT}; git repack -qad; chmod u+w .git/objects/pack/*; truncate -s -30 .git/objects/pack/*.pack",
    "an object that is missing": f"{COMMIT}; {SWAP}b=$(git rev-parse HEAD:a.txt); rm -f $o/${{b:0:2}}/${{b:2}}",
    "a branch without a commit": "echo 1234567890123456789012345678901234567890 > .git/refs/heads/main",
    "a branch that is a word": "echo evil > .git/refs/heads/main",
    "a head that is a word": "echo evil > .git/HEAD",
    "a list of branches that is none": "echo evil > .git/packed-refs",
    "no head": "rm .git/HEAD",
    "no branches": "rm -r .git/refs",
    "a head that is a folder": "rm .git/HEAD; mkdir .git/HEAD",
    "a head that is a link": "ln -sf refs/heads/main .git/HEAD",
    "branches that are a file": "rm -r .git/refs; echo 1 > .git/refs",
    "a branch that leads to itself": "echo 'ref: refs/heads/main' > .git/refs/heads/main",
    "a head by a name that git refuses": "echo 'ref: refs/heads/a..b' > .git/HEAD",
    "a branch by a name that git refuses": "cp .git/refs/heads/main '.git/refs/heads/a b'",
    "a list that git cannot read": "git pack-refs --all; echo '# more' >> .git/packed-refs",
    "a list that begins with a tag's commit": "echo ^$(git rev-parse HEAD) > .git/packed-refs",
    "a branch with a hash of another length": "echo $(git rev-parse HEAD)$(git rev-parse HEAD | cut -c1-24) > .git/refs/heads/main",
    "an end of history that hides the rest": f"{COMMIT}; git rev-parse HEAD~1 > .git/shallow",
    "an end of history that is a word": "echo evil > .git/shallow",
    "what is no object": f"{COMMIT}; python3 -c '{NO_OBJECT}'",
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
async def test_nothing_of_a_damaged_repository_comes_over(commands: Commands, damage: str) -> None:
    note = await run(commands, DAMAGE[damage])
    assert "nothing of this repository was changed" in note
    assert owner(commands.root, "git log --format=%s; git show HEAD:a.txt") == "one\none\n"
    assert "error" not in owner(commands.root, "git fsck --full")


async def test_a_history_that_ends_early_keeps_its_end(commands: Commands) -> None:
    owner(
        commands.root, "echo 2 > a.txt; git commit -qam two; git clone -q --depth 1 file://$PWD s"
    )
    note = await run(commands, "rm s/.git/shallow")
    assert "nothing of this repository was changed" in note
    assert owner(commands.root, "cd s; git log --format=%s; git fsck") == "two\n"


async def test_a_history_that_ended_early_becomes_whole(commands: Commands) -> None:
    owner(
        commands.root, "echo 2 > a.txt; git commit -qam two; git clone -q --depth 1 file://$PWD s"
    )
    await run(commands, "cd s; git fetch -q --unshallow file://${PWD%/s}")
    assert owner(commands.root, "cd s; git log --format=%s; git fsck") == "two\none\n"


async def test_a_repository_of_the_owners_leads_to_no_other(commands: Commands) -> None:
    await run(commands, "mkdir .git/worktrees; echo worktrees > .git/commondir")
    assert owner(commands.root, "git log --format=%s") == "one\n"


async def test_two_commands_at_once_make_no_repository_with_programs(commands: Commands) -> None:
    """Neither has made all of it: the second began before the first came over."""
    (commands.root / "d").mkdir()
    (commands.root / "d/k").touch()
    settings = '[core]\\n repositoryformatversion = 0\\n bare = false\\n worktree = .\\n fsmonitor = "touch fired; false"\\n'
    first = f"cd d; mkdir objects; echo ref: refs/heads/m > HEAD; printf '{settings}' > config"
    given = Given(["/bin/bash", "-c", "mkdir d/refs"])
    async with open_run(commands.sandbox, given, around(), Label.TRUSTED, None, "") as one:
        await run(commands, first)
        await run_process(one.argv, one.cwd, one.env, DEADLINE, 4000, start=one.start)
        await one.finish()
    assert (commands.root / "d/config").exists()
    owner(commands.root / "d", "git status")
    assert not [*commands.root.rglob("fired")]


async def test_a_pack_whose_index_lies_about_it_shows_what_it_holds(commands: Commands) -> None:
    """The index of another pack would give an old file's name to new content."""
    line = (
        f"{NAMED}{COMMIT}; git repack -qad; for p in .git/objects/pack/*.pack; do :; done;"
        " f=${p%.pack}.idx; chmod u+w $f; printf evil | dd of=$f bs=1 seek=1100 conv=notrunc status=none"
    )
    await run(commands, line)
    assert owner(commands.root, "git fsck --full; git log --format=%s") == "two\none\n"


KEPT: dict[str, tuple[str, str]] = {
    "deleted objects": ("rm -rf .git/objects/??", "one\none\n"),
    "a lock that a killed command left": ("touch .git/index.lock", "one\none\n"),
    "what shows other parents": ("git commit-graph write; echo evil > .git/objects/info/commit-graph", "one\none\n"),
    "objects of another place": ("echo /tmp/x > .git/objects/info/alternates", "one\none\n"),
    "an object in another's place": (f"{SWAP}git replace $(git rev-parse HEAD:a.txt) $n", "one\none\n"),
    "attributes": ("echo '* filter=x' > .git/info/attributes", "one\none\n"),
    "what nobody knows": ("echo evil > .git/evil; mkdir .git/x; echo evil > .git/x/y", "one\none\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
async def test_a_repository_has_what_it_had(commands: Commands, case: str) -> None:
    line, shows = KEPT[case]
    await run(commands, line)
    assert owner(commands.root, "git log --format=%s; git show HEAD:a.txt") == shows
    found = {str(one.relative_to(commands.root)) for one in commands.root.rglob("*")}
    assert not [one for one in found if "evil" in one or "lock" in one or "replace/" in one]
    assert not {".git/objects/info/alternates", ".git/info/attributes", ".git/x/y"} & found


MEANWHILE: dict[str, tuple[str, str, str]] = {
    "committed": (
        "echo own > b.txt; git add b.txt; git commit -qm own",
        "git log --format=%s; echo -; git log --format=%s refs/layer/heads/main; git fsck",
        "own\none\n-\ntwo\none\n",
    ),
    "staged": (
        "echo own > b.txt; git add b.txt",
        "git diff --cached --name-only; echo -; git log --format=%s; git log --format=%s refs/layer/heads/main",
        "b.txt\n-\none\ntwo\none\n",
    ),
    "made a branch": ("git branch own", "git branch --format='%(refname)'; git log --format=%s main", "refs/heads/main\nrefs/heads/own\ntwo\none\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", MEANWHILE)
async def test_what_the_owner_did_meanwhile_stays_and_the_commands_is_beside_it(
    commands: Commands, case: str
) -> None:
    change, look, prints = MEANWHILE[case]
    said = await run(commands, COMMIT, meanwhile=change)
    assert owner(commands.root, look) == prints
    assert ("refs/layer" in said) == ("layer" in look)


@pytest.mark.parametrize("packed", ["", "; git pack-refs --all"])
async def test_what_two_commands_committed_meanwhile_is_beside_it(
    commands: Commands, packed: str
) -> None:
    for line, change in (("two", "own"), ("three", "mine")):
        text = COMMIT.replace("two", line).replace("2", line)
        said = await run(commands, text, meanwhile=f"git commit -qm {change} --allow-empty{packed}")
    assert "git log refs/layer-2/heads/NAME" in said
    look = "git log --format=%s main; for one in layer layer-2; do git log --format=%s refs/$one/heads/main; done; git fsck"
    assert owner(commands.root, look) == "mine\nown\none\ntwo\none\nthree\nown\none\n"


async def test_a_broken_branch_of_the_owners_hinders_no_commit(commands: Commands) -> None:
    owner(commands.root, f"echo {'1' * 40} > .git/refs/heads/broken")
    await run(commands, COMMIT)
    assert owner(commands.root, "git log --format=%s main") == "two\none\n"


DELETED: dict[str, tuple[str, str]] = {
    "the workspace's own": ("rm -rf .git", ".git"),
    "one below": ("rm -rf r", "r/.git"),
    "a bare one": ("rm -rf bare", "bare"),
    "the folder that it was in": ("mv r s; mkdir r; echo 1 > r/x", "r/.git"),
}


@pytest.mark.parametrize("case", DELETED)
async def test_a_deleted_repository_is_kept_aside(commands: Commands, case: str) -> None:
    line, place = DELETED[case]
    owner(commands.root, "git clone -q . r; git clone -q --bare . bare")
    note = await run(commands, line)
    assert not (commands.root / place).exists()
    (kept,) = commands.quarantine.glob(f"meanwhile-*/deleted/{place}")
    assert str(kept) in note
    assert owner(commands.root, f"git --git-dir={kept} log --format=%s") == "one\n"


async def test_what_waits_of_a_deleted_repository_goes_with_it(commands: Commands) -> None:
    await run(commands, "git config alias.x '!touch x'")
    await run(commands, "rm -rf .git")
    await run(commands, "[ ! -e .git ]")


async def test_a_deleted_repository_stays_where_the_owner_works_in_it(commands: Commands) -> None:
    note = await run(commands, "rm -rf .git", meanwhile="echo 3 > a.txt; git commit -qam own")
    assert owner(commands.root, "git log --format=%s") == "own\none\n"
    # Of a copy, nobody knows whether it was deleted there or is new in the workspace.
    assert ("only the owner" in note) == (not commands.layers.obstacle)


async def test_a_repository_is_not_replaced_by_a_pointer(commands: Commands) -> None:
    note = await run(commands, "git clone -q --bare . r; rm -rf .git; echo 'gitdir: r' > .git")
    assert owner(commands.root, "git log --format=%s") == "one\n"
    assert (commands.root / ".git").is_dir() and "only the owner" in note


async def test_what_is_pushed_to_a_repository_of_the_owners_comes_over(commands: Commands) -> None:
    owner(commands.root, "git clone -q --bare . r")
    await run(commands, f"{COMMIT}; git push -q ./r main")
    assert (
        owner(commands.root, "git --git-dir=r log --format=%s; git --git-dir=r fsck")
        == "two\none\n"
    )


async def test_long_hashes_and_shallow_clones_come_over(commands: Commands) -> None:
    await run(
        commands,
        f"git init -q --object-format=sha256 -b main l; cd l; echo 1 > f; git add f; {G} commit -qm long;"
        f" cd ..; {COMMIT}; git clone -q --depth 1 file://$PWD s",
    )
    look = (
        "cd l; git fsck; git log --format=%s; git status -s; cd ../s; git fsck; git log --format=%s"
    )
    assert owner(commands.root, look) == "long\ntwo\n"


async def test_an_index_is_read_by_the_settings_that_come_over(commands: Commands) -> None:
    """What of new settings does not come over says nothing of the hashes."""
    await run(
        commands,
        "git init -q r; cd r; echo 1 > f; git add f; echo 'objectformat = sha256' > .git/config",
    )
    assert (commands.root / "r/.git/config").read_text().strip() == ""
    assert owner(commands.root, "cd r; git ls-files") == "f\n"


async def test_a_killed_merge_deletes_what_its_command_deleted(commands: Commands) -> None:
    (commands.root / "d").mkdir()
    (commands.root / "d/old").write_text("old")
    line = "rm -r d; mkdir d; echo new > d/new"
    given = Given(["/bin/bash", "-c", line])
    async with open_run(commands.sandbox, given, around(), Label.TRUSTED, None, "") as one:
        await run_process(one.argv, one.cwd, one.env, DEADLINE, 4000, start=one.start)
        assert one.layer
        kept = commands.quarantine / "kept"
        merge = Merge.read(one.layer, kept)
        steps = [*merge.steps]
        first = Watched(steps, lambda: Merge.read(one.layer, kept).apply())
        replace(merge, steps=first).apply()
    assert [path.name for path in (commands.root / "d").iterdir()] == ["new"]


async def test_a_large_commit_and_many_branches_come_over(commands: Commands) -> None:
    line = (
        f"seq 3000 | while read n; do echo $n > $n; done; git add .; {G} commit -qm many; git gc -q"
    )
    note = await run(
        commands, f"{line}; for n in $(seq 300); do git branch b$n; done; git pack-refs --all"
    )
    assert note == ""
    assert owner(commands.root, "git fsck; git status -s; git branch | wc -l") == "301\n"


@pytest.mark.parametrize("size", [20, 32])
def test_an_index_is_fine_whatever_hashes_are_in_it(size: int) -> None:
    random = Random(28)
    for _ in range(3000):
        entry = (random.randbytes(40 + size) + b"\0\5" + b"a.txt").ljust(
            (42 + size + 5) // 8 * 8 + 8, b"\0"
        )
        data = (
            b"DIRC\0\0\0\2\0\0\0\2"
            + entry
            + random.randbytes(40 + size)
            + b"\0\1b".ljust(10, b"\0")
            + random.randbytes(size)
        )
        assert is_fine_index(data, long=size == 32)


async def test_references_come_last_and_a_second_merge_does_the_rest(commands: Commands) -> None:
    async with open_run(
        commands.sandbox, Given(["/bin/bash", "-c", COMMIT]), around(), Label.TRUSTED, None, ""
    ) as one:
        await run_process(one.argv, one.cwd, one.env, DEADLINE, 4000, start=one.start)
        layer = one.layer
        assert layer
        merge = Merge.read(layer, commands.quarantine / "kept")
        names = [step.change.path for step in merge.steps if step.action == "merge"]
        first = [number for number, name in enumerate(names) if name.startswith(".git/refs/")]
        objects = [number for number, name in enumerate(names) if name.startswith(".git/objects/")]
        assert objects and first and max(objects) < min(first)
        for count in range(len(names)):
            replace(merge, steps=merge.steps[:count]).apply()
            assert "error" not in owner(commands.root, "git fsck --full")
            merge = Merge.read(layer, commands.quarantine / "kept")
        merge.apply()
    assert owner(commands.root, "git log --format=%s; git status -s; git fsck") == "two\none\n"
