"""What a chat sees of a turn while it works: it grows, it is replaced and never doubled, and nothing of it stays (E12; K4)."""

import asyncio
from dataclasses import replace
from pathlib import Path

from channels.base import DeliveryUnknown, Rejected, RetryLater
from daemon.app.daemon import Daemon
from tests.delivery.scripts import Slowly, hammer, smash
from tests.delivery.stage import AT_ONCE, at_home, has_drafts, settled
from tests.fakes.channel import CAN, FakeChannel, Trouble
from tests.fakes.openai import FakeOpenAI, breaks_midstream, calls, says

KEYED = replace(CAN, idempotent=True, can_find=False)


async def is_noted(house: Daemon) -> bool:
    return any((await house.store.read(lambda tx: tx.list_drafts())).values())


async def tidy(house: Daemon) -> bool:
    return not await has_drafts(house)


async def test_e12_a_draft_grows_and_the_reply_takes_its_place(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    slowly = Slowly("Once upon", " a time.")
    model.script(slowly)
    async with at_home(tmp_path, model, channel) as house:
        await channel.say("tell me")
        await channel.until(lambda: channel.texts() == ["Once upon"])
        assert channel.shown()[0].draft
        slowly.go.set()
        await channel.until(lambda: channel.texts() == ["Once upon a time."])
        await channel.until(lambda: not channel.shown()[0].draft)
        assert not channel.of("send") and len(channel.of("edit")) == 1
        await settled(lambda: tidy(house))


async def test_e12_a_quick_turn_has_no_draft_and_types_not(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    async with at_home(tmp_path, model, channel):
        await channel.say("hi")
        await channel.until(lambda: channel.texts() == ["ok"])
    assert [call.method for call in channel.calls] == ["send"]


async def test_e12_typing_is_renewed_and_ends_with_the_turn(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    gate = asyncio.Event()
    slowly = Slowly("", "It is two.")
    slowly.go = gate
    model.script(slowly)
    async with at_home(tmp_path, model, channel):
        await channel.say("hi")
        await channel.until(lambda: len(channel.of("typing")) >= 3)
        gate.set()
        await channel.until(lambda: channel.texts() == ["It is two."])
        typed = len(channel.of("typing"))
        await channel.say("quick")
        await channel.until(lambda: len(channel.texts()) == 2)
        assert len(channel.of("typing")) == typed


async def test_b5_4_after_a_crash_the_draft_that_stands_becomes_the_reply(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Its id was written down; where the kill came before, the platform knows it by its key."""
    for name, can, lost in (("known", CAN, False), ("found", CAN, True), ("keyed", KEYED, True)):
        channel, home = FakeChannel(capabilities=can), tmp_path / name
        if lost:
            channel.fail("draft", Trouble(happens=True))
        model.script(Slowly("Half of", " it"))
        async with at_home(home, model, channel, times=AT_ONCE) as house:
            await channel.say("go")
            await channel.until(lambda c=channel: c.texts() == ["Half of"])
            if not lost:
                await settled(lambda h=house: is_noted(h))
        model.script(says("All of it."))
        async with at_home(home, model, channel):
            await channel.until(lambda c=channel: any(not one.draft for one in c.stood))
        assert channel.texts() == ["All of it."], name


async def test_e12_a_draft_that_broke_off_is_not_shown_beside_what_comes_instead(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    model.script(breaks_midstream("A wrong beginning that takes a while", "silence"))
    async with at_home(tmp_path, model, channel):
        await channel.say("go")
        await channel.until(lambda: channel.texts())
        await channel.say("/stop")
        await channel.until(lambda: any("Stopped" in text for text in channel.texts()))
        await channel.until(lambda: not any(one.draft for one in channel.stood))
        assert not any("wrong" in text for text in channel.texts())


async def test_e12_a_draft_that_cannot_be_replaced_goes_and_the_reply_is_sent_by_itself(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    slowly = Slowly("Once upon", " a time.")
    model.script(slowly)
    channel.fail("edit", Trouble(Rejected("too old to be changed")))
    async with at_home(tmp_path, model, channel):
        await channel.say("tell me")
        await channel.until(lambda: channel.texts() == ["Once upon"])
        slowly.go.set()
        await channel.until(lambda: channel.of("send") and channel.texts() == ["Once upon a time."])


async def test_e12_a_draft_that_is_refused_is_not_tried_again_and_one_that_is_unclear_neither(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Or there would be two."""
    troubles = (
        (Rejected("no drafts here"), False, 1),
        (DeliveryUnknown("lost"), True, 1),
        (RetryLater("slow down"), False, 2),
    )
    for error, happens, tries in troubles:
        channel, slowly = FakeChannel(), Slowly("Once upon", " a", rest=" time.")
        model.script(slowly)
        channel.fail("draft", Trouble(error, happens=happens))
        async with at_home(tmp_path / type(error).__name__, model, channel):
            await channel.say("tell me")
            await channel.until(lambda c=channel: c.of("draft"))
            slowly.go.set()
            typed = len(channel.of("typing"))
            await channel.until(lambda c=channel, n=typed: len(c.of("typing")) >= n + 5)
            assert len(channel.of("draft")) == tries and len(channel.stood) == (
                error.args[0] != "no drafts here"
            )
            slowly.end.set()
            await channel.until(
                lambda c=channel: (
                    [one.text for one in c.stood if not one.draft] == ["Once upon a time."]
                )
            )
            assert channel.texts() == ["Once upon a time."], error


async def test_e12_a_platform_that_hangs_in_a_draft_delays_the_reply_by_seconds_at_most(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    slowly = Slowly("Once upon", " a time.")
    model.script(slowly)
    channel.fail("draft", Trouble())
    async with at_home(tmp_path, model, channel):
        await channel.say("tell me")
        await channel.until(lambda: channel.of("draft"))
        slowly.go.set()
        asked = asyncio.get_running_loop().time()
        await channel.until(lambda: channel.texts() == ["Once upon a time."])
        assert asyncio.get_running_loop().time() - asked < 7


async def test_e12_a_platform_that_hangs_while_typing_delays_nothing(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    slowly = Slowly("Once upon", " a time.")
    model.script(slowly)
    channel.fail("typing", Trouble(times=100))
    async with at_home(tmp_path, model, channel):
        await channel.say("tell me")
        await channel.until(lambda: channel.of("typing"))
        slowly.go.set()
        asked = asyncio.get_running_loop().time()
        await channel.until(lambda: channel.texts() == ["Once upon a time."])
        assert asyncio.get_running_loop().time() - asked < 2


async def test_e12_long_work_shows_one_line_that_changes(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    gate = asyncio.Event()
    model.script(calls(("ponder", {}), text="Let me think."), says("Thought."))
    async with at_home(tmp_path, model, channel, parts=hammer([], gate)):
        await channel.say("think")
        await channel.until(lambda: any("ponder" in text for text in channel.texts()))
        assert len(channel.stood) == 1 and "Let me think." in channel.texts()[0]
        gate.set()
        await channel.until(lambda: channel.texts() == ["Thought."])


async def test_e12_a_turn_that_waits_for_a_person_takes_its_draft_away_and_answers_below_the_question(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    slowly, struck = Slowly("I shall break it.", wants='{"what": "pots"}'), list[str]()
    model.script(slowly, says("It is broken."))
    async with at_home(tmp_path, model, channel, parts=hammer(struck)):
        await channel.say("break it")
        await channel.until(lambda: channel.texts() == ["I shall break it."])
        slowly.go.set()
        buttons = await channel.buttons()
        await channel.until(lambda: not any(one.draft for one in channel.stood))
        assert "Approved" in await channel.press(buttons["Once"])
        await channel.until(lambda: channel.texts()[-1] == "It is broken.")
        assert (
            len(channel.stood) == 2 and struck == ["pots"] and "Approved once" in channel.texts()[0]
        )


async def test_e12_a_reply_stands_below_the_file_that_went_out_before_it(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    gate = asyncio.Event()
    model.script(
        calls(("ponder", {}), text="Let me draw."),
        calls(("send_file", {"path": "chart.png"})),
        says("There you are."),
    )
    async with at_home(tmp_path, model, channel, parts=hammer([], gate)) as house:
        (tmp_path / "workspace" / "chart.png").write_bytes(b"\0png")
        await channel.say("draw chart.png")
        await channel.until(lambda: channel.shown() and channel.shown()[0].draft)
        gate.set()
        await channel.until(lambda: channel.texts() == ["chart.png", "There you are."])
        await settled(lambda: tidy(house))


async def test_e12_what_a_crash_left_of_a_turn_goes_too_when_it_waits_for_a_person(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    model.script(Slowly("I shall break", " it."))
    async with at_home(tmp_path, model, channel, times=AT_ONCE, parts=hammer([])) as house:
        await channel.say("break it")
        await channel.until(lambda: channel.texts() == ["I shall break"])
        await settled(lambda: is_noted(house))
    model.script(smash(), says("It is broken."))
    async with at_home(tmp_path, model, channel, parts=hammer([])):
        buttons = await channel.buttons()
        await channel.until(lambda: len(channel.stood) == 1)
        await channel.press(buttons["Once"])
        await channel.until(
            lambda: len(channel.stood) == 2 and channel.texts()[-1] == "It is broken."
        )


async def test_e12_what_a_crash_left_of_a_turn_that_ended_without_a_reply_is_taken_away(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    slowly = Slowly("I shall break it.", wants='{"what": "pots"}')
    model.script(slowly)
    channel.fail("delete", Trouble(Rejected("not now"), times=3))
    async with at_home(tmp_path, model, channel, parts=hammer([])):
        await channel.say("break it")
        await channel.until(lambda: channel.texts() == ["I shall break it."])
        slowly.go.set()
        await channel.buttons()
        await channel.until(lambda: channel.of("delete"))
    async with at_home(tmp_path, model, channel, parts=hammer([])) as house:
        await channel.say("/stop")
        await channel.until(lambda: any("Stopped." in text for text in channel.texts()))
        await channel.until(lambda: not any(one.draft for one in channel.stood))
        await settled(lambda: tidy(house))


async def test_a17_agents_that_work_for_a_chat_show_nothing_of_their_own_in_it(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    slowly = Slowly("The child thinks aloud")
    model.script(calls(("spawn_agent", {"task": "think"})), slowly, says("It thought."))
    async with at_home(tmp_path, model, channel):
        await channel.say("have somebody think")
        await model.asked(2)
        await channel.until(lambda: any("spawn_agent" in text for text in channel.texts()))
        assert not any("child" in text for text in channel.texts())
        slowly.go.set()
        await channel.until(lambda: channel.texts() == ["It thought."])
