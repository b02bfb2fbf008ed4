"""Platforms that are slow, or want to be left alone, while something is shown that may change (K14; E12, A15)."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from channels.base import DeliveryUnknown, RetryLater
from channels.message import Address, Attachment
from daemon.core.event_bus import EventBus, TextDelta
from daemon.core.rows import SessionRow
from daemon.core.trust import Label
from daemon.outbox.channel_supervisor import ChannelState
from daemon.outbox.live_messages import LiveDrafts
from daemon.store.sqlite import SqliteStore
from tests.delivery.scripts import Slowly, hammer, smash
from tests.delivery.stage import at_home
from tests.fakes.channel import CAN, Call, FakeChannel, Trouble
from tests.fakes.openai import FakeOpenAI, says

SPEED = 20


class Fading(FakeChannel):
    """What it shows of an unfinished text goes away by itself."""

    async def show_draft(self, address: Address, key: str, text: str, shown: str) -> str:
        await FakeChannel.show_draft(self, address, key, text, shown)
        return ""


class Busy(FakeChannel):
    """It gives out a file the second time that it is asked for, and first says when that may be."""

    asked: list[float]

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        self.asked.append(monotonic())
        if len(self.asked) == 1:
            raise RetryLater("too many requests", 2.5)
        into.write(b"\0png")


@dataclass(frozen=True)
class Hurried:
    """A clock that runs faster."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return monotonic() * SPEED


def apart(calls: list[Call]) -> list[float]:
    """Seconds between them."""
    return [second.at - first.at for first, second in pairwise(calls)]


async def test_b5_14_a_platform_that_wants_to_be_left_alone_is_shown_no_draft_and_the_reply_does_not_wait_for_that(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    slowly = Slowly("Once upon", " a", rest=" time.")
    model.script(slowly)
    channel.fail("draft", Trouble(RetryLater("too many requests", 30.0)))
    async with at_home(tmp_path, model, channel):
        await channel.say("tell me")
        await channel.until(lambda: channel.of("draft"))
        slowly.go.set()
        typed = len(channel.of("typing"))
        await channel.until(lambda: len(channel.of("typing")) >= typed + 5)
        slowly.end.set()
        await channel.until(lambda: channel.texts() == ["Once upon a time."])
    assert len(channel.of("draft")) == 1


async def test_b5_14_a_platform_that_wants_to_be_left_alone_sees_no_typing_until_then(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    slowly = Slowly("Once upon", " a time.")
    model.script(slowly)
    channel.fail("typing", Trouble(RetryLater("too many requests", 2.0)))
    async with at_home(tmp_path, model, channel):
        await channel.say("tell me")
        await channel.until(lambda: len(channel.of("typing")) >= 2)
        slowly.go.set()
        await channel.until(lambda: channel.texts() == ["Once upon a time."])
    assert apart(channel.of("typing"))[0] >= 2.0


async def test_b5_14_a_platform_that_wants_to_be_left_alone_is_not_asked_to_take_buttons_away_until_then(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    channel = FakeChannel(capabilities=replace(CAN, drafts=False, typing=False))
    model.script(smash(), says("done"))
    channel.fail("edit", Trouble(RetryLater("too many requests", 2.0)))
    async with at_home(tmp_path, model, channel, parts=hammer([])):
        await channel.say("break it")
        await channel.press((await channel.buttons())["Once"])
        await channel.until(lambda: not any(one.choices for one in channel.stood))
        await channel.until(lambda: channel.texts()[-1] == "done")
    [gap] = apart(channel.of("edit"))
    assert gap >= 2.0


async def test_b5_14_a_platform_that_wants_to_be_left_alone_is_not_asked_for_a_file_until_then(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    channel = Busy(capabilities=replace(CAN, drafts=False, typing=False))
    channel.asked = []
    async with at_home(tmp_path, model, channel):
        await channel.say(
            "look", attachments=(Attachment("photo", "chart.png", "image/png", 4, "1"),)
        )
        await channel.until(lambda: channel.texts() == ["ok"])
    first, second = channel.asked
    assert second - first >= 2.5


async def test_a15_buttons_that_are_slow_to_go_keep_none_of_the_next_question(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    gate, struck = asyncio.Event(), list[str]()
    model.script(smash("pots"), smash("pans"), says("done"))
    channel.fail("edit", Trouble(before=gate.wait))
    async with at_home(tmp_path, model, channel, parts=hammer(struck)):
        await channel.say("break it")
        await channel.press((await channel.buttons())["Once"])
        await channel.until(lambda: len(channel.of("send")) == 2)
        gate.set()
        await channel.until(lambda: not channel.shown()[0].choices)
        await channel.press((await channel.buttons())["Once"])
        await channel.until(
            lambda: channel.texts()[-1] == "done" and not any(one.choices for one in channel.stood)
        )
    assert struck == ["pots", "pans"]


async def test_b5_14_a_reply_that_takes_its_drafts_place_may_be_tried_as_often_as_it_takes(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """To change a message twice harms nobody, where to send one twice would: such tries neither get rare nor end."""
    channel, slowly = (
        FakeChannel(capabilities=replace(CAN, can_find=False)),
        Slowly("Once upon", " a time."),
    )
    model.script(slowly)
    channel.fail("edit", Trouble(DeliveryUnknown("no answer"), times=3))
    async with at_home(tmp_path, model, channel):
        await channel.say("tell me")
        await channel.until(lambda: channel.texts() == ["Once upon"])
        slowly.go.set()
        await channel.until(lambda: any(not one.draft for one in channel.stood))
    assert channel.texts() == ["Once upon a time."] and not channel.of("send")
    assert apart(channel.of("edit"))[2] < 5.0


async def test_e12_a_draft_that_fades_is_shown_again_before_it_is_gone(tmp_path: Path) -> None:
    """A tool may work for minutes, and Telegram takes a draft away after thirty seconds."""
    channel, clock, live = Fading(capabilities=replace(CAN, typing=False)), Hurried(), EventBus()
    outlet = ChannelState(channel, clock)
    outlet.mark_alive()
    chat = SessionRow("1", "telegram", "1", Label.TRUSTED, clock.now())
    store = await SqliteStore.open(tmp_path / "journal.db")
    drafts = LiveDrafts(store, clock, live, {"1": chat}.get, {"telegram": outlet})
    try:
        drafts.follow_turn("1", "turn")
        live.publish("turn", TextDelta("Once upon"))
        await channel.until(lambda: len(channel.of("draft")) == 3)
        assert all(15 < gap * SPEED < 30 for gap in apart(channel.of("draft")))
    finally:
        await drafts.aclose()
        await store.aclose()
