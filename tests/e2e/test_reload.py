"""What /reload says of a change: a line for each table, however many keys it has (A20)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI

NAMES = ("morning", "noon", "evening")


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


def tasks(*names: str, hour: int = 8) -> str:
    return "".join(
        f'[[scheduler.tasks]]\nname = "{name}"\nschedule = "0 {hour} * * *"\nprompt = "look at it"\n'
        for name in names
    )


async def test_a20_one_line_for_a_schedule_that_is_new_changed_or_removed(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home = tmp_path / "home"

    async def reload(daemon: Daemon, more: str) -> str:
        (home / "config.toml").write_text(scripted(model.base_url, more))
        return str((await daemon.post("/v1/messages", text="/reload"))["reply"])

    head = "Applied from the next message on: "
    async with running_daemon(home, scripted(model.base_url, tasks(*NAMES))) as daemon:
        assert await reload(daemon, tasks("noon", "evening")) == f"{head}scheduler.tasks.morning: removed."
        assert await reload(daemon, tasks("new", "noon", "evening")) == f"{head}scheduler.tasks.new: new."
        told = await reload(daemon, tasks("new", "noon") + tasks("evening", hour=9))
        assert told == f"{head}scheduler.tasks.evening.schedule."
        told = await reload(daemon, "[agent]\nmax_iterations = 3\nmax_seconds = 9\n" + tasks("new"))
        assert told.splitlines() == [
            head.strip(),
            "- agent: max_iterations, max_seconds",
            "- scheduler.tasks.noon: removed",
            "- scheduler.tasks.evening: removed",
        ]
        assert await reload(daemon, tasks("new")) != ""
        assert await reload(daemon, tasks("new")) == "The file has not changed."
