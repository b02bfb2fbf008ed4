"""What a platform does to a delivery, and what becomes of it (K14; guarantees.md promise 4; F1)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from inspect import getclosurevars
from pathlib import Path
from typing import TypeVar

import pytest

from channels.base import DeliveryUnknown, Moved, Rejected, RetryLater, Revoked
from daemon.app.channels import ChannelTimeouts
from daemon.app.daemon import Daemon
from daemon.store.journal import Tx
from tests.delivery.scripts import echo
from tests.delivery.stage import Journal, at_home, outbox, settled, states
from tests.fakes.channel import CAN, OTHER, FakeChannel, Trouble
from tests.fakes.openai import FakeOpenAI

T = TypeVar("T")
QUIET = replace(CAN, drafts=False, typing=False)


async def ended(house: Daemon, *how: str, channel: str = "telegram") -> bool:
    return sorted(await states(house, channel)) == sorted(how)


async def some_failed(house: Daemon, channel: str) -> bool:
    return "failed" in await states(house, channel)


async def test_b5_14_retry_after_is_honoured_and_others_go_on(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    echo(model)
    channel.fail("send", Trouble(RetryLater("too many requests", 1.5)))
    async with at_home(tmp_path, model, channel):
        await channel.say("a")
        await channel.until(lambda: channel.of("send"))
        await channel.say("b", OTHER)
        await channel.until(lambda: channel.texts(OTHER) == ["re: b"])
        assert channel.texts() == []
        await channel.until(lambda: channel.texts() == ["re: a"])
        first, second = (call.at for call in channel.of("send") if call.address.chat == "1")
        assert second - first >= 1.5


async def test_b5_14_a_lost_answer_is_looked_up_before_anything_is_sent_again(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    echo(model)
    for happens, tries in ((True, 1), (False, 2)):
        channel = FakeChannel(capabilities=QUIET)
        channel.fail("send", Trouble(DeliveryUnknown("the answer was lost"), happens=happens))
        async with at_home(tmp_path / str(happens), model, channel):
            await channel.say("a")
            await channel.until(lambda c=channel, n=tries: c.texts() and len(c.of("send")) == n)
            await channel.say("b")
            await channel.until(lambda c=channel: len(c.texts()) == 2)
            assert channel.texts() == ["re: a", "re: b"] and len(channel.of("find")) == 1


async def test_b5_14_a_platform_that_answers_nothing_and_shows_nothing_is_not_written_to_for_ever(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Each try may be one message too many, so they get rare, and end."""
    echo(model)
    channel = FakeChannel(capabilities=replace(QUIET, can_find=False))
    channel.fail("send", Trouble(DeliveryUnknown("no answer"), happens=True, times=3))
    async with at_home(tmp_path, model, channel):
        await channel.say("a")
        await channel.until(lambda: len(channel.of("send")) == 3)
        first, second, third = (call.at for call in channel.of("send"))
        assert third - second > 2 * (second - first)


async def test_f1_what_can_never_be_delivered_ends_failed_and_the_owner_is_told_elsewhere_once(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    echo(model)
    telegram, slack = FakeChannel("telegram", QUIET), FakeChannel("slack", QUIET)
    async with at_home(tmp_path, model, telegram, slack) as house:
        await slack.say("hello")
        await slack.until(lambda: slack.texts())
        telegram.fail("send", Trouble(Rejected("the chat is gone")))
        await telegram.say("hello")
        await slack.until(lambda: len(slack.texts()) == 2)
        assert "reply" in slack.texts()[1] and "the chat is gone".replace(" ", "") in slack.texts()[
            1
        ].replace(" ", "")
        assert (
            await states(house) == ["failed"]
            and (await outbox(house))[0].error == "the chat is gone"
        )
        await telegram.say("again")
        await telegram.until(lambda: len(telegram.texts()) == 1)
        assert (
            telegram.texts()[0].startswith("re: again") and "not delivered" in telegram.texts()[0]
        )
    assert len(slack.texts()) == 2


async def test_f1_what_waits_for_a_chat_that_moved_goes_to_its_new_id_in_order(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    echo(model)
    channel = FakeChannel(capabilities=QUIET)
    channel.fail("send", Trouble(RetryLater("busy", 0.5)), Trouble(Moved("it moved", "-200")))
    async with at_home(tmp_path, model, channel) as house:
        await channel.say("a", chat="-100")
        await channel.say("b", chat="-100")
        await channel.until(lambda: len(channel.texts("-200")) == 2)
        assert channel.texts("-200") == ["re: a", "re: b"] and channel.texts("-100") == []
        await channel.say("c", chat="-200")
        await channel.until(lambda: channel.texts("-200")[-1] == "re: c")
        assert {row.session for row in await outbox(house)} == {"-100"}
        assert channel.host
        assert [one.chat for one in await channel.host.list_conversations()] == ["-200"]


async def test_f1_two_dead_ends_do_not_tell_each_other_of_it_for_ever(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    echo(model)
    telegram, slack = FakeChannel("telegram", QUIET), FakeChannel("slack", QUIET)
    async with at_home(tmp_path, model, telegram, slack) as house:
        await slack.say("hello")
        await slack.until(lambda: slack.texts())
        for channel in (telegram, slack):
            channel.fail("send", Trouble(Rejected("blocked"), times=1000))
        await telegram.say("hello")
        await slack.until(lambda: len(slack.of("send")) == 2)
        await settled(lambda: some_failed(house, "slack"))
        await telegram.say("once more")
        await telegram.until(lambda: len(telegram.of("send")) == 2)
        assert len(telegram.of("send")) == 2 and len(slack.of("send")) <= 3


async def test_f1_a_token_that_is_revoked_is_told_elsewhere_and_all_goes_out_when_it_is_back(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    echo(model)
    telegram, slack = FakeChannel("telegram", QUIET), FakeChannel("slack", QUIET)
    times = ChannelTimeouts(tell_after_s=0.3, refused_pause_s=0.2, flush_s=0.0)
    async with at_home(tmp_path, model, telegram, slack, times=times) as house:
        await slack.say("hello")
        await telegram.say("hello")
        await slack.until(lambda: slack.texts() and telegram.texts())
        telegram.revoke()
        await slack.until(lambda: len(slack.texts()) == 2)
        assert "down" in slack.texts()[1] and [
            line for line in house.client.overview.problems() if "token" in line
        ]
        telegram.admit()
        await slack.until(lambda: len(slack.texts()) == 3)
        assert "works again" in slack.texts()[2] and not list(house.client.overview.problems())
        await telegram.say("and now")
        await telegram.until(lambda: telegram.texts()[-1] == "re: and now")
    assert len(telegram.texts()) == 2, "nothing of it was told on the channel that was down"


async def test_f1_a_token_that_is_revoked_again_is_tried_as_soon_as_the_first_time(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """However long it took until the first one was mended."""
    channel = FakeChannel(capabilities=QUIET)
    async with at_home(
        tmp_path, model, channel, times=ChannelTimeouts(refused_pause_s=0.05)
    ) as house:
        outlet = house.channel_states["telegram"]
        channel.revoke()
        await channel.until(lambda: channel.runs == 7)
        channel.admit()
        await channel.until(outlet.up.is_set)
        channel.revoke()
        await channel.until(lambda: not outlet.up.is_set())
        channel.admit()
        await channel.until(outlet.up.is_set, seconds=1.0)


async def test_f1_a_reply_that_meets_a_revoked_token_waits_until_it_is_back(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    echo(model)
    channel = FakeChannel(capabilities=QUIET)
    async with at_home(tmp_path, model, channel, times=ChannelTimeouts(refused_pause_s=0.2)):
        channel.fail("send", Trouble(Revoked("the token is not known")))
        await channel.say("a")
        await channel.until(lambda: channel.texts() == ["re: a"])


async def test_f1_what_is_not_taken_for_a_day_is_given_up(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    echo(model)
    telegram, slack = FakeChannel("telegram", QUIET), FakeChannel("slack", QUIET)
    async with at_home(
        tmp_path, model, telegram, slack, times=ChannelTimeouts(give_up_s=1.0)
    ) as house:
        await slack.say("hello")
        await slack.until(lambda: slack.texts())
        telegram.fail("send", Trouble(RetryLater("out of order"), times=1000))
        await telegram.say("a")
        await slack.until(lambda: len(slack.texts()) == 2)
        assert await states(house) == ["failed"]


async def test_f1_a_bug_of_a_channel_is_tried_again_and_holds_up_nobody(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    echo(model)
    channel = FakeChannel(capabilities=QUIET)
    channel.fail("send", Trouble(KeyError("oops")))
    async with at_home(tmp_path, model, channel) as house:
        await channel.say("a")
        await channel.until(lambda: channel.texts() == ["re: a"])
        channel.fail("send", Trouble(KeyError("oops"), times=3))
        await channel.say("b")
        await channel.say("c")
        await channel.until(lambda: channel.texts() == ["re: a", "re: c"])
        await settled(lambda: ended(house, "failed", "sent", "sent"))


class Ragged(Journal):
    """One in which the first failure of a delivery cannot be written down, for a bug."""

    torn: bool = False

    async def write(self, work: Callable[[Tx], T]) -> T:
        if not self.torn and getclosurevars(work).nonlocals.get("state") == "failed":
            self.torn = True
            raise KeyError("oops")
        return await Journal.write(self, work)


async def test_f1_what_a_bug_of_the_daemon_breaks_off_goes_out_all_the_same_and_in_order(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    echo(model)
    channel = FakeChannel(capabilities=QUIET)
    channel.fail("send", Trouble(KeyError("oops"), times=3))
    async with at_home(tmp_path, model, channel, parts=Ragged().parts()):
        for text in ("a", "b"):
            await channel.say(text)
        await channel.until(lambda: len(channel.texts()) == 2)
    assert channel.texts() == ["re: a", "re: b"]


async def test_a_channel_that_breaks_off_is_begun_again_and_the_others_go_on(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    echo(model)
    telegram, slack = FakeChannel("telegram", QUIET), FakeChannel("slack", QUIET)
    async with at_home(tmp_path, model, telegram, slack):
        await telegram.say("hello")
        telegram.breaks = ValueError("a bug")
        await slack.say("hello")
        await slack.until(lambda: slack.texts())
        await telegram.until(lambda: telegram.runs == 2)
        await telegram.say("again")
        await telegram.until(lambda: len(telegram.texts()) == 2)


async def test_f1_a_clock_that_jumps_a_day_changes_nothing(
    tmp_path: Path, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo(model)
    clock = tmp_path / "clock"
    clock.write_text("2026-03-02T09:00:00+00:00")
    monkeypatch.setenv("AIDAEMON_TEST_CLOCK", str(clock))
    telegram, slack = FakeChannel("telegram", QUIET), FakeChannel("slack", QUIET)
    async with at_home(tmp_path / "home", model, telegram, slack) as house:
        await slack.say("hello")
        for number, day in enumerate(("03", "01", "02")):
            telegram.fail("send", Trouble(RetryLater("not now")))
            await telegram.say(f"{number}")
            clock.write_text(f"2026-03-{day}T09:00:00+00:00")
            await telegram.until(lambda n=number: len(telegram.texts()) == n + 1)
            assert not list(house.client.overview.problems())
    assert telegram.texts() == ["re: 0", "re: 1", "re: 2"] and len(slack.texts()) == 1


async def test_f1_a_channel_that_is_silent_is_told_of_after_a_while_and_not_before(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Never on the channel itself; and when it is back, that is told, too."""
    echo(model)
    telegram, slack = FakeChannel("telegram", QUIET), FakeChannel("slack", QUIET)
    async with at_home(
        tmp_path,
        model,
        telegram,
        slack,
        times=ChannelTimeouts(tell_after_s=1.5, silent_s=0.6, ailing_s=0.6),
    ) as house:
        await telegram.say("hello")
        await slack.say("hello")
        await slack.until(lambda: slack.texts() and telegram.texts())
        began, telegram.quiet = asyncio.get_running_loop().time(), True
        await slack.until(lambda: list(house.client.overview.problems()))
        assert len(slack.texts()) == 1 and asyncio.get_running_loop().time() - began >= 0.4
        await slack.until(lambda: len(slack.texts()) == 2)
        assert asyncio.get_running_loop().time() - began >= 1.2 and "telegram" in slack.texts()[1]
        assert any(
            "telegram" in line and "down" in line
            for line in [one.describe() for one in house.channel_states.values()]
        )
        telegram.quiet = False
        await slack.until(lambda: len(slack.texts()) == 3)
        assert "works again" in slack.texts()[2] and not list(house.client.overview.problems())
    assert telegram.texts() == ["re: hello"]


async def test_f1_a_moment_of_trouble_is_told_to_nobody(tmp_path: Path, model: FakeOpenAI) -> None:
    echo(model)
    telegram, slack = FakeChannel("telegram", QUIET), FakeChannel("slack", QUIET)
    async with at_home(tmp_path, model, telegram, slack) as house:
        await telegram.say("hello")
        await slack.say("hello")
        await slack.until(lambda: slack.texts() and telegram.texts())
        telegram.breaks = RetryLater("a cut")
        await telegram.until(lambda: telegram.runs == 2)
        assert not list(house.client.overview.problems())
        await slack.say("still?")
        await slack.until(lambda: len(slack.texts()) == 2)
    assert slack.texts() == ["re: hello", "re: still?"]


async def test_f1_a_full_disk_while_a_channel_is_refused_ends_nothing(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """What could not be told then is told at the next look."""
    echo(model)
    telegram, slack, journal = (
        FakeChannel("telegram", QUIET),
        FakeChannel("slack", QUIET),
        Journal(),
    )
    times = ChannelTimeouts(tell_after_s=0.2, refused_pause_s=0.1)
    async with at_home(tmp_path, model, telegram, slack, times=times, parts=journal.parts()):
        await slack.say("hello")
        await slack.until(lambda: slack.texts())
        journal.full = True
        telegram.revoke()
        await slack.until(lambda: telegram.runs >= 2)
        journal.full = False
        await slack.until(lambda: len(slack.texts()) == 2)
        assert "down" in slack.texts()[1]


async def test_b5_20_a_delivery_waits_for_the_disk_and_is_not_sent_twice(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    channel, journal = FakeChannel(capabilities=replace(QUIET, can_find=False)), Journal()

    async def fills() -> None:
        journal.full = True

    channel.fail("send", Trouble(after=fills))
    async with at_home(tmp_path, model, channel, parts=journal.parts()) as house:
        await channel.say("hello")
        await channel.until(lambda: journal.full)
        journal.full = False
        await settled(lambda: ended(house, "sent"))
    assert channel.texts() == ["ok"]
