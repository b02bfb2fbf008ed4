"""Files on their way to a conversation: the copy that goes out is kept as long as it is needed, no longer (F1)."""

import asyncio
from dataclasses import replace
from pathlib import Path

from channels.base import Rejected, RetryLater
from tests.delivery.stage import at_home, settled
from tests.fakes.channel import CAN, FakeChannel, Trouble
from tests.fakes.openai import FakeOpenAI, calls, says


async def test_f1_the_copy_of_a_file_goes_when_the_file_has_gone_out_or_never_will(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    chart, copies = tmp_path / "workspace" / "chart.png", tmp_path / "files" / "outbox"
    there = asyncio.Event()

    async def looked() -> None:
        assert [copy.read_bytes() for copy in copies.glob("*")] == [b"\0png"]
        there.set()

    async def gone() -> bool:
        return not list(copies.glob("*"))

    channel.fail(
        "upload",
        Trouble(RetryLater("slow down"), before=looked),
        Trouble(before=looked),
        Trouble(Rejected("too big")),
    )
    async with at_home(tmp_path, model, channel):
        chart.write_bytes(b"\0png")
        for number in (1, 2):
            model.script(
                calls(("send_file", {"path": "chart.png"})), says(f"there you are, {number}")
            )
            await channel.say("send me chart.png")
            await channel.until(lambda number=number: f"there you are, {number}" in channel.texts())
            await settled(gone)
    assert there.is_set() and [one.file for one in channel.stood if one.file] == ["chart.png"]


async def test_what_is_too_big_for_its_platform_is_not_even_begun_and_the_model_is_told_why(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    channel.capabilities = replace(channel.capabilities, max_upload=3)
    model.script(calls(("send_file", {"path": "chart.png"})), says("it is too big"))
    async with at_home(tmp_path, model, channel):
        (tmp_path / "workspace" / "chart.png").write_bytes(b"\0png")
        await channel.say("send me chart.png")
        await channel.until(lambda: channel.texts() == ["it is too big"])
    assert channel.of("upload") == []
    assert "4 bytes are too many; at most 3 can be" in str(
        model.requests[1]["messages"][-1]["content"]
    )


async def test_f1_a_file_that_is_refused_for_good_is_told_of_elsewhere_and_is_where_it_was(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    telegram, slack = FakeChannel("telegram", CAN), FakeChannel("slack", CAN)
    async with at_home(tmp_path, model, telegram, slack):
        await slack.say("hello")
        await slack.until(lambda: slack.texts() == ["ok"])
        telegram.fail("upload", Trouble(Rejected("no files here")))
        model.script(calls(("send_file", {"path": "chart.png"})), says("there you are"))
        (tmp_path / "workspace" / "chart.png").write_bytes(b"\0png")
        await telegram.say("send me chart.png")
        await slack.until(lambda: len(slack.texts()) == 2)
        assert (
            "could not deliver a file to" in slack.texts()[1]
            and "The file itself is where it was" in slack.texts()[1]
        )
        assert (tmp_path / "workspace" / "chart.png").exists()
