"""A file of the workspace goes to the people of a conversation: copied, once, before what is said of it, to nobody else (A14)."""

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon.core.events import Answer, ToolFinished
from daemon.core.rows import OutboxRow
from daemon.core.trust import Label
from daemon.sessions.inbox import InboxMessage
from daemon.tools.workspace.send_file import MAX_SEND_BYTES
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, says

CHAT = "42"
SAID = "make chart.png and send me chart.png"


@dataclass
class Desk:
    """A house with a chat on a phone."""

    it: Living
    model: FakeOpenAI
    folder: Path

    async def hears(self, text: str = SAID, session: str = CHAT, channel: str = "telegram") -> str:
        """The turn of this message."""
        taken = await self.it.house.client.inbox.accept(
            InboxMessage(channel, "42", session, "owner", text, text, Label.TRUSTED)
        )
        return taken.row.turn

    async def result(self, turn: str) -> str:
        await self.it.settled(turn)
        [said] = [
            event
            for event in await self.it.events(turn)
            if isinstance(event, ToolFinished) and event.tool == "send_file"
        ]
        return said.text

    async def posted(self) -> list[OutboxRow]:
        return [
            row
            for row in await self.it.house.store.read(lambda tx: tx.list_outbox("new"))
            if row.kind == "file"
        ]

    @property
    def copies(self) -> list[Path]:
        place = self.it.paths.outbox
        return sorted(place.iterdir()) if place.exists() else []


@asynccontextmanager
async def desk(home: Path, path: str = "chart.png", **more: object) -> AsyncIterator[Desk]:
    async with FakeOpenAI() as model, living(home, model) as it:
        model.script(calls(("send_file", {"path": path, **more})), says("There you are."))
        (home / "workspace").mkdir(exist_ok=True)
        (home / "workspace" / "chart.png").write_bytes(b"\0png")
        yield Desk(it, model, home / "workspace")


async def test_what_was_asked_for_is_sent_as_it_was_then_and_before_the_reply(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, caption=" the chart ") as at:
        turn = await at.hears()
        assert await at.result(turn) == "chart.png (4 bytes) is on its way"
        rows = await at.it.house.store.read(lambda tx: tx.list_turn_outbox(turn))
        assert [(row.kind, row.channel, row.chat, row.session) for row in rows] == [
            ("file", "telegram", "42", CHAT),
            ("reply", "telegram", "42", CHAT),
        ]
        (at.folder / "chart.png").write_bytes(b"changed")
        [copy] = at.copies
        assert json.loads(rows[0].body) == {
            "path": str(copy),
            "name": "chart.png",
            "caption": "the chart",
            "size": 4,
        }
        assert copy.read_bytes() == b"\0png" and stat.S_IMODE(copy.stat().st_mode) == 0o600
        assert {
            stat.S_IMODE(place.stat().st_mode) for place in (copy.parent, copy.parent.parent)
        } == {0o700}


async def test_a_file_that_nobody_asked_for_is_asked_about(tmp_path: Path) -> None:
    """trust.md: it leaves the house, so what is sent has to be the owner's word."""
    async with desk(tmp_path) as at:
        turn = await at.hears("how are you?")
        await at.it.until(turn, "run.suspended")
        assert await at.posted() == [] and at.copies == []
        [asked] = await at.it.house.client.list_approvals(session=CHAT)
        await at.it.house.client.answer_approval(turn, asked.call_id, Answer.DENY)
        await at.it.settled(turn)
        assert await at.posted() == [] and at.copies == []


@pytest.mark.parametrize("session", ["web:test", "terminal:main"])
async def test_where_files_cannot_be_taken_it_says_so(tmp_path: Path, session: str) -> None:
    async with desk(tmp_path) as at:
        turn = await at.hears(session=session, channel=session.partition(":")[0])
        assert "cannot take files" in await at.result(turn)
        assert await at.posted() == [] and at.copies == []


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("folder", "directory"),
        ("gone.png", "no such file"),
        ("link.png", "symbolic link"),
        ("../config.toml", "outside the workspace"),
        ("huge.bin", "too many"),
        ("pipe", "not an ordinary file"),
    ],
)
async def test_what_is_no_file_of_the_workspace_is_not_sent(
    tmp_path: Path, path: str, why: str
) -> None:
    async with desk(tmp_path, path) as at:
        (at.folder / "folder").mkdir()
        (at.folder / "link.png").symlink_to(tmp_path / "config.toml")
        os.mkfifo(at.folder / "pipe")
        with (at.folder / "huge.bin").open("wb") as file:
            file.truncate(MAX_SEND_BYTES + 1)
        assert why in await at.result(await at.hears(f'send me "{path}"'))
        assert await at.posted() == [] and at.copies == []


async def test_a_file_of_fifty_megabytes_can_be_sent(tmp_path: Path) -> None:
    async with desk(tmp_path, "big.bin") as at:
        with (at.folder / "big.bin").open("wb") as file:
            file.truncate(MAX_SEND_BYTES)
        assert await at.result(await at.hears("send me big.bin")) == "big.bin (50 MB) is on its way"


async def test_the_people_of_a_sub_agents_work_are_those_of_the_conversation(
    tmp_path: Path,
) -> None:
    """A17."""

    def choose(body: Json) -> Step:
        first = str(
            next(message["content"] for message in body["messages"] if message["role"] == "user")
        )
        done = any(message["role"] == "tool" for message in body["messages"])
        if done:
            return says("Done.")
        return calls(
            ("send_file", {"path": "chart.png"})
            if first == "child"
            else ("spawn_agent", {"task": "child"})
        )

    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        model.otherwise(by(choose))
        at = Desk(it, model, tmp_path / "workspace")
        at.folder.mkdir(exist_ok=True)
        (at.folder / "chart.png").write_bytes(b"png")
        await it.settled(await at.hears())
        [row] = await at.posted()
        assert (row.session, row.channel, row.chat) == (CHAT, "telegram", "42")


async def test_a_file_from_the_inbox_can_be_sent_back(tmp_path: Path) -> None:
    async with desk(tmp_path, "inbox/2026-11-22/t1-a.txt") as at:
        place = at.it.paths.inbox / "2026-11-22"
        place.mkdir(parents=True)
        (place / "t1-a.txt").write_text("hello")
        turn = await at.hears("send me that text again")
        await at.it.until(turn, "run.suspended")
        await at.it.command("/approve", CHAT)
        assert await at.result(turn) == "t1-a.txt (5 bytes) is on its way"


async def test_it_is_found_and_not_shown_from_the_start(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.it.settled(await at.hears())
        assert "send_file" not in [
            tool["function"]["name"] for tool in at.model.requests[0]["tools"]
        ]


async def test_F1_a_stop_in_the_middle_leaves_both_the_copy_and_the_delivery_or_neither(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as at:
        turn = await at.hears()
        await at.it.until(turn, "tool.started")
        await asyncio.sleep(0)
        await at.it.command("/stop", CHAT)
        await at.it.settled(turn)
        assert len(await at.posted()) == len(at.copies)
