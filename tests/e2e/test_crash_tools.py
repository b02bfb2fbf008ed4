"""Kill -9 around MCP servers, files and their former versions, and the config (A20, A22, F3, F8; B5)."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
import pytest_asyncio

from daemon.core.events import Event, Outcome, ToolFinished, ToolStarted
from daemon.core.trust import Label
from tests.e2e.crash.life import Life
from tests.e2e.crash.person import Said
from tests.e2e.crash.promises_tools import servers_are_gone, undo_is_usable
from tests.e2e.crash.remains import Remains
from tests.e2e.crash.sweep import (
    ROLLED_BACK,
    Born,
    ended,
    every_moment,
    in_a_copy,
    some_moments,
    tell,
    told,
    unseen,
)
from tests.e2e.crash.world import World, world
from tests.fakes import mcp_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "terminal:a"
ORDER = {
    "name": "order",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
SENT = "desk__order"
FILES = [
    Said("a", "[{0}a hear write.x+edit.x]"),
    Said("c", "/clear"),
    Said("b", "[{0}b write.x+write.y]"),
    Said("u", "/undo"),
    Said("d", "[{0}d read.x write.z]"),
]
SETS = {CHAT: [Said("a", "[{0}a set.21 set.22]")]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def killed() -> AsyncIterator[World]:
    async with world() as it:
        yield it


def served(killed: World, folder: Path, text: str, kills: str = "") -> Born:
    """Each with an MCP server, which kills its daemon at the first thing that it is told to do, or does not."""

    def one() -> Life:
        life = told(killed, folder, {CHAT: [Said("a", text)]})()
        script, log = Path(life.folder) / "desk.json", Path(life.folder) / "desk.jsonl"
        first = {"arguments": {"text": f"{life.plan[CHAT][0].client}.0.{SENT}"}, "kills": kills}
        script.write_text(
            json.dumps({"tools": [ORDER], "outputs": {"order": [first, {"text": "done"}]}})
        )
        desk = {
            "command": sys.executable,
            "args": [mcp_server.__file__, str(script), str(log)],
            "sandbox": "off",
            "effects": {"order": "egress"},
        }
        return replace(life, config={"mcp": {"desk": desk}})

    return one


def outcomes(ends: list[Remains]) -> set[Outcome]:
    return {one.outcome for it in ends for turn in it.turns for one in it.of(turn, ToolFinished)}


async def test_a22_whenever_a_daemon_is_killed_its_server_goes_and_comes_again_and_does_nothing_twice(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """K6 to #9: the effect is a real one, of a real process, and asked about."""
    began, before = monotonic(), killed.kills
    ends = await every_moment(killed, served(killed, tmp_path, f"[{{0}}a {SENT}]"))
    assert outcomes(ends) == {Outcome.OK, Outcome.UNKNOWN}
    tell(capsys, "a server", killed.kills - before, began)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a22_a_daemon_killed_while_its_server_works_does_not_ask_it_again(
    killed: World, tmp_path: Path, when: str
) -> None:
    (it,) = await ended(killed, [[served(killed, tmp_path, f"[{{0}}a {SENT} {SENT}]", when)()] * 2])
    told = [one.outcome for turn in it.turns for one in it.of(turn, ToolFinished)]
    assert (it.kills, told) == (1, [Outcome.UNKNOWN, Outcome.OK])


async def test_f8_whenever_it_is_killed_a_file_holds_old_or_new_and_can_be_taken_back(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F3: what was written after hearing a stranger is marked, from the moment on at which it stands there."""
    began, before = monotonic(), killed.kills
    killed.places.clear()
    ends = await every_moment(
        killed, told(killed, tmp_path, {CHAT: FILES[:1]}, finely=True), ROLLED_BACK
    )
    assert outcomes(ends) >= {Outcome.OK, Outcome.UNKNOWN}
    assert {"before os.rename", "before open"} <= set(killed.places)
    tell(capsys, "two changes of a file", killed.kills - before, began)


async def test_f3_f8_a_mark_goes_where_its_text_goes_through_overwriting_and_undo(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, before = monotonic(), killed.kills
    ends = await some_moments(
        killed, told(killed, tmp_path, {CHAT: FILES}, finely=True), 30, seed=8
    )
    assert all(
        {Label.TRUSTED, Label.UNTRUSTED} == {turn.label for turn in it.turns.values()}
        for it in ends
    )
    tell(capsys, "files", killed.kills - before, began)


async def test_a20_whenever_it_is_killed_the_config_is_the_old_one_or_the_new_one(
    killed: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began, before = monotonic(), killed.kills
    ends = await every_moment(killed, told(killed, tmp_path, SETS, finely=True), ROLLED_BACK)
    assert outcomes(ends) == {Outcome.OK, Outcome.UNKNOWN}
    tell(capsys, "the config", killed.kills - before, began)


Spoil = Callable[[Remains], Remains]


def changed(name: str, change: Callable[[str], str]) -> Spoil:
    """This file outside holds something else; where there was none it was empty."""

    def spoil(folder: Path) -> None:
        file = folder / name
        file.write_text(change(file.read_text() if file.exists() else ""))

    return lambda it: in_a_copy(it, spoil)


def happened(change: Callable[[Event], Event | None]) -> Spoil:
    """The journal says something else."""

    def spoil(it: Remains) -> Remains:
        told = {
            turn: [(one, change(one.event)) for one in them] for turn, them in it.events.items()
        }
        return replace(
            it,
            events={
                turn: [replace(one, event=now) for one, now in them if now]
                for turn, them in told.items()
            },
        )

    return spoil


def former(change: Callable[[Path], object]) -> Spoil:
    """Something is done to what one of the former versions was."""
    return lambda it: in_a_copy(
        it, lambda folder: change(next((folder / "home" / "undo").iterdir()))
    )


def executed(log: str) -> str:
    return next(line for line in log.splitlines() if '"tool"' in line)


def trusting(event: Event) -> Event:
    return replace(event, label=Label.TRUSTED) if isinstance(event, ToolFinished) else event


WRONG_SERVERS: dict[str, tuple[Spoil, str]] = {
    "an effect happens twice": (
        changed("desk.jsonl", lambda log: f"{log}{executed(log)}\n"),
        "2 times",
    ),
    "an effect that was told never happened": (
        changed("desk.jsonl", lambda log: log.replace(f"{executed(log)}\n", "")),
        "0 times, with 1 starts",
    ),
    "an effect has no start": (
        happened(lambda one: None if isinstance(one, ToolStarted) else one),
        "with 0 starts",
    ),
    "an effect was asked for by nobody": (
        changed("desk.jsonl", lambda log: log.replace(f'.0.{SENT}"', '.7"')),
        "which nobody asked for",
    ),
    "the last daemon has no server": (lambda it: replace(it, last=1), "had 0 servers"),
    "a daemon has two servers": (
        changed(
            "desk.jsonl",
            lambda log: log + next(line for line in log.splitlines() if '"started"' in line) + "\n",
        ),
        "had 2 servers",
    ),
}
X = "home/workspace/x.txt"
WRONG_FILES: dict[str, tuple[Spoil, str]] = {
    "a file holds half": (changed(X, lambda text: text[:5]), "neither old nor new"),
    "a change that was told is lost": (
        changed("home/workspace/z.txt", lambda text: "x"),
        "neither old nor new",
    ),
    "a file comes from nowhere": (
        changed("home/workspace/new.txt", lambda text: text),
        "nobody tells where it came from",
    ),
    "something is left in the workspace": (
        changed("home/workspace/.x.tmp", lambda text: text),
        "was left in the workspace",
    ),
    "something is left among the versions": (
        changed("home/undo/.x.tmp", lambda text: text),
        "left among the former versions",
    ),
    "a former version is lost": (former(Path.unlink), "is lost"),
    "a former version is damaged": (former(lambda file: file.write_text("x")), "is lost"),
    "a mark is lost": (lambda it: replace(it, file_labels=[]), "has no mark"),
    "text from outside is read as the owner's": (happened(trusting), "took it for trusted"),
}
CONFIG = "home/config.toml"
WRONG_CONFIGS: dict[str, tuple[Spoil, str]] = {
    "half of it is there": (changed(CONFIG, lambda text: text[: len(text) // 2]), "is"),
    "it is gone": (lambda it: in_a_copy(it, lambda folder: (folder / CONFIG).unlink()), "is gone"),
    "it is empty": (changed(CONFIG, lambda text: ""), "is broken"),
    "something else in it is different": (
        changed(CONFIG, lambda text: text.replace("drain_seconds = 1", "drain_seconds = 2")),
        "neither old nor new",
    ),
    "it says what nobody wanted": (
        changed(CONFIG, lambda text: text.replace("= 22", "= 23")),
        "neither old nor new",
    ),
    "a change that was told is lost": (
        changed(CONFIG, lambda text: text.replace("= 22", "= 21")),
        "config.toml says 21",
    ),
    "what it was before is broken": (
        changed(f"{CONFIG}.bak", lambda text: text[:-9]),
        "config.toml.bak is",
    ),
}


async def test_the_check_sees_every_kind_of_wrong_done_to_servers_a22(
    killed: World, tmp_path: Path
) -> None:
    (it,) = await ended(killed, [[served(killed, tmp_path, f"[{{0}}a {SENT}]")()]])
    assert unseen(WRONG_SERVERS, it) == []
    log = it.outside.folder / "desk.jsonl"
    left = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", "read -r line", str(log), stdin=asyncio.subprocess.PIPE
    )
    with log.open("a") as lines:
        lines.write(json.dumps({"started": left.pid, "for": 1}) + "\n")
    assert await servers_are_gone(it.outside.folder, within_s=0.1) == [
        f"the servers [{left.pid}] are still there"
    ]
    left.kill()
    await left.communicate()
    assert await servers_are_gone(it.outside.folder) == []


async def test_the_check_sees_every_kind_of_wrong_done_to_files_f3_f8(
    killed: World, tmp_path: Path
) -> None:
    (it,) = await ended(killed, [[told(killed, tmp_path, {CHAT: FILES})()]])
    assert unseen(WRONG_FILES, it) == []
    assert "x.txt: changed since" in str(
        await undo_is_usable(changed(X, lambda text: text[:5])(it))
    )


async def test_the_check_sees_every_kind_of_wrong_done_to_the_config_a20(
    killed: World, tmp_path: Path
) -> None:
    (it,) = await ended(killed, [[told(killed, tmp_path, SETS)()]])
    assert unseen(WRONG_CONFIGS, it) == []
