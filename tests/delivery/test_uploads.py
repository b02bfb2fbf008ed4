"""Files at platforms that do not answer, and what is said with them (guarantees.md promise 4; F1)."""

from dataclasses import replace
from pathlib import Path

from channels.base import DeliveryUnknown
from tests.delivery.stage import at_home
from tests.fakes.channel import CAN, FakeChannel, Trouble
from tests.fakes.openai import FakeOpenAI, calls, says

QUIET = replace(CAN, drafts=False, typing=False)


async def test_f1_a_file_whose_answer_is_lost_is_not_sent_for_ever_where_only_texts_can_be_found(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Each try may be one file too many, so they get rare, and end: Slack keeps no key with a file."""
    channel = FakeChannel(capabilities=QUIET)
    channel.fail("upload", Trouble(DeliveryUnknown("no answer"), times=3))
    model.script(calls(("send_file", {"path": "chart.png"})), says("there you are"))
    async with at_home(tmp_path, model, channel):
        (tmp_path / "workspace" / "chart.png").write_bytes(b"\0png")
        await channel.say("send me chart.png")
        await channel.until(lambda: len(channel.of("upload")) == 3)
    _, second, third = (call.at for call in channel.of("upload"))
    assert third - second >= 2.0


async def test_f1_what_is_said_with_a_file_and_does_not_fit_follows_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    channel, words = (
        FakeChannel(capabilities=replace(QUIET, limit=50)),
        "".join(f"<{number:03}>" for number in range(24)),
    )
    model.script(
        calls(("send_file", {"path": "chart.png", "caption": words})), says("there you are")
    )
    async with at_home(tmp_path, model, channel):
        (tmp_path / "workspace" / "chart.png").write_bytes(b"\0png")
        await channel.say("send me chart.png")
        await channel.until(lambda: "there you are" in channel.texts())
    assert channel.texts() == [words[:50], words[50:100], words[100:], "there you are"]
    assert [one.file for one in channel.stood] == ["chart.png", "", "", ""]
