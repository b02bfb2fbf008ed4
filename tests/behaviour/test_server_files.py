"""An MCP server reads the workspace and writes in out/NAME; with write = "workspace" anywhere in it. What it writes is judged at the end of each call."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from daemon.core.trust import Label
from daemon.tools.layers.layer import Layers
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.server_files import open_files
from daemon.tools.shell.sandbox import Sandbox, ServerPlaces
from tests.behaviour.test_manifest import HAND
from tests.fakes.house import Living, living
from tests.fakes.mcp import VENV
from tests.fakes.openai import FakeOpenAI, calls, says


class Hand:
    """A server with a shell in its hand, beside a living house."""

    def __init__(self, folder: Path, model: FakeOpenAI) -> None:
        self.folder, self.model = folder, model
        self.plan, self.log = folder / "plan.json", folder / "log.jsonl"
        self.root = folder / "home" / "workspace"
        self.it: Living

    def does(self, line: str) -> None:
        self.plan.write_text(json.dumps({"tools": {"act": line}}))

    @asynccontextmanager
    async def living(
        self, write: str = "out", paths: list[Path] | None = None
    ) -> AsyncIterator[Living]:
        self.does("true")
        self.root.mkdir(parents=True, exist_ok=True)
        places = [*map(str, paths or [self.root]), str(VENV), str(self.folder / "log")]
        (self.folder / "log").mkdir(exist_ok=True)
        args = [str(HAND), str(self.plan), str(self.folder / "log" / "log.jsonl")]
        table = {
            "command": sys.executable,
            "args": args,
            "paths": places,
            "write": write,
            "default_effect": "read",
        }
        async with living(self.folder / "home", self.model, {"mcp": {"hand": table}}) as self.it:
            await self.it.house.wait_for_servers(20)
            yield self.it

    async def call(self, line: str) -> str:
        """What the model is told of one call that runs this line in the workspace."""
        self.does(f"cd {self.root}; {line}")
        self.model.script(calls(("hand__act", {})), says("done"))
        view = await self.it.ask("go on")
        return view.calls[-1].result or ""


@pytest.fixture
async def hand(tmp_path: Path) -> AsyncIterator[Hand]:
    async with FakeOpenAI() as model:
        yield Hand(tmp_path.resolve(), model)


async def label(it: Living, path: str) -> Label:
    return (await it.house.files.read(path, bytes))[1]


async def test_it_reads_the_workspace_and_writes_in_its_own_folder_alone(hand: Hand) -> None:
    async with hand.living() as it:
        (hand.root / "a.txt").write_text("mine")
        told = await hand.call("cat a.txt; echo x > b.txt || echo closed; echo y > out/hand/c.txt")
        assert "mine" in told and "closed" in told
        assert not (hand.root / "b.txt").exists()
        assert (hand.root / "out/hand/c.txt").read_text() == "y\n"
        assert await label(it, "out/hand/c.txt") is Label.UNTRUSTED
        assert await label(it, "a.txt") is Label.TRUSTED
        assert "c.txt" not in await hand.call("rm out/hand/c.txt; echo z > out/hand/d.txt")
        assert [one.name for one in (hand.root / "out/hand").iterdir()] == ["d.txt"]


async def test_it_sees_at_once_what_the_owner_changes(hand: Hand) -> None:
    async with hand.living():
        await hand.call("cat a.txt 2>&1")
        (hand.root / "a.txt").write_text("new")
        assert "new" in await hand.call("cat a.txt")


async def test_with_the_workspace_to_write_what_it_changes_comes_over_call_by_call(
    hand: Hand,
) -> None:
    (hand.root).mkdir(parents=True)
    (hand.root / "a.txt").write_text("one")
    async with hand.living("workspace") as it:
        await hand.call("echo two > a.txt; mkdir d; echo x > d/n.txt")
        assert (hand.root / "a.txt").read_text() == "two\n"
        assert (hand.root / "d/n.txt").read_text() == "x\n"
        assert await label(it, "a.txt") is await label(it, "d/n.txt") is Label.UNTRUSTED
        await hand.call("echo three >> a.txt; rm d/n.txt")
        assert (hand.root / "a.txt").read_text() == "two\nthree\n"
        assert not (hand.root / "d/n.txt").exists()


async def test_it_starts_anew_where_the_owner_changed_what_it_had_written(hand: Hand) -> None:
    (hand.root).mkdir(parents=True)
    (hand.root / "a.txt").write_text("one\n")
    async with hand.living("workspace"):
        await hand.call("echo two >> a.txt")
        (hand.root / "a.txt").write_text("the owner's\n")
        told = await hand.call("cat a.txt; echo three >> a.txt")
        assert "the owner's" in told
        assert (hand.root / "a.txt").read_text() == "the owner's\nthree\n"


async def test_what_the_owner_changes_during_its_call_stays_and_its_own_is_kept(hand: Hand) -> None:
    (hand.root).mkdir(parents=True)
    (hand.root / "a.txt").write_text("one\n")
    (hand.root / "gate").touch()
    async with hand.living("workspace"):
        line = "echo theirs > a.txt; until grep -q go gate; do sleep 0.02; done"
        calling = asyncio.create_task(hand.call(line))
        await asyncio.sleep(0.5)
        (hand.root / "a.txt").write_text("mine\n")
        (hand.root / "gate").write_text("go")
        assert "meanwhile" in await calling
        assert (hand.root / "a.txt").read_text() == "mine\n"
    kept = [one.read_text() for one in (hand.folder / "home/quarantine").rglob("a.txt")]
    assert kept == ["theirs\n"]


@pytest.mark.parametrize("write", ["out", "workspace"])
async def test_what_could_run_later_waits_and_links_out_are_not_followed(
    hand: Hand, write: str
) -> None:
    secret = hand.folder / "secret"
    secret.write_text("the secret")
    async with hand.living(write):
        at = "out/hand" if write == "out" else "."
        told = await hand.call(
            f"cd {at}; echo evil > .envrc; ln -s {secret} link; mkdir s; ln -s {hand.folder} s/l"
        )
        assert ".envrc" in told and "link" in told
        left = {one.name for one in (hand.root / at).iterdir()} - {"out"}
        assert left <= {"s"} and not list((hand.root / at).glob("s/*"))
    texts = [one.read_bytes() for one in hand.root.rglob("*") if one.is_file()]
    assert not any(b"the secret" in text for text in texts)


async def test_what_a_killed_daemon_left_of_a_server_comes_over_at_the_next_start(
    hand: Hand,
) -> None:
    async with hand.living("workspace") as it:
        layers = it.house.sandbox.layers
        assert layers
        (layer,) = layers.folder.iterdir()
        (layer / "upper" / "late.txt").write_text("evil")
        # as a kill would leave it: beside the house, which goes on
        copied = hand.folder / "copied"
        await asyncio.to_thread(layer.rename, copied)
        await asyncio.to_thread(copied.rename, layer)
    assert (hand.root / "late.txt").read_text() == "evil"
    async with hand.living("workspace") as it:
        assert await label(it, "late.txt") is Label.UNTRUSTED


async def test_paths_beside_the_workspace_are_written_as_ever_but_not_what_runs_later(
    hand: Hand,
) -> None:
    other = hand.folder / "other"
    (other / ".git" / "hooks").mkdir(parents=True)
    async with hand.living(paths=[other]):
        told = await hand.call(
            f"cd {other}; echo 1 > a; echo evil > .git/hooks/pre-commit || echo closed"
        )
        assert "closed" in told
    assert (other / "a").read_text() == "1\n"
    assert list((other / ".git" / "hooks").iterdir()) == []


async def test_by_landlock_alone_it_writes_nowhere_where_something_runs_later(
    tmp_path: Path,
) -> None:
    """Landlock takes nothing out of a folder, and puts nothing in the place of one."""
    names = "root", "repository", "plain", "own"
    root, repository, plain, own = (tmp_path / one for one in names)
    scripts = repository / "scripts"
    for place in (root, repository / ".git" / "hooks", plain, own / ".config" / "git", scripts):
        place.mkdir(parents=True)
    for name in ("HEAD", "objects", "refs"):
        (repository / ".git" / name).touch()
    (repository / ".git" / "config").write_text("[core]\n\thooksPath = scripts\n")
    layers = Layers(root, tmp_path / "layers", tmp_path / "held", obstacle="no bubblewrap")
    sandbox = Sandbox(root, "landlock", "", layers)
    config = McpConfig(command="hand", paths=[str(root)], write="workspace")
    async with open_files("hand", config, sandbox, None) as files:
        assert files
        places = ServerPlaces((own, root, repository, scripts, plain), (), files.layer)
        words = sandbox.wrap_server(["true"], network=False, places=places, env={}, cwd=own)
        out = Path(sandbox.find_out(files.layer)["OUT"])
        assert out == files.layer.upper / "out" / "hand"
    pairs = [*pairwise(words)]
    written = {Path(place) for word, place in pairs if word == "--write"}
    assert written == {own, plain, out}
    assert {("--read", str(one)) for one in (repository, scripts, root)} <= {*pairs}
