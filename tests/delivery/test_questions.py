"""Questions in chats: shown to who may answer, answered once by the right person, without buttons when settled (A15, F2; A6)."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from channels.base import Rejected, RetryLater
from channels.message import Sender
from daemon.app.daemon import Daemon
from tests.delivery.scripts import hammer, smash
from tests.delivery.stage import AT_ONCE, at_home, has_buttons, outbox, settled
from tests.fakes.channel import CAN, OTHER, OWNER, STRANGER, FakeChannel, Trouble
from tests.fakes.openai import FakeOpenAI, calls, says

GROUP = "-7"


def plain(text: str) -> str:
    return text.replace("\\", "")


async def closed(house: Daemon) -> bool:
    return not await has_buttons(house)


@asynccontextmanager
async def asked(
    home: Path,
    model: FakeOpenAI,
    channel: FakeChannel,
    struck: list[str],
    sender: str = OWNER,
    chat: str = "",
) -> AsyncIterator[Daemon]:
    """A house in which somebody has just been asked."""
    model.script(smash(), says("so it is"))
    async with at_home(home, model, channel, parts=hammer(struck)) as house:
        await channel.say("break it", sender, chat)
        await channel.until(lambda: any("smash" in text for text in channel.texts(chat or sender)))
        yield house


async def test_a15_the_owner_presses_and_it_is_done_once(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    struck: list[str] = []
    async with asked(tmp_path, model, channel, struck):
        buttons = await channel.buttons()
        assert list(buttons) == ["Once", "This session", "Always", "Deny"]
        shown = await asyncio.gather(*(channel.press(buttons["Once"]) for _ in range(5)))
        assert sum("Approved, once" in one for one in shown) == 1 and all(
            "settled" in one for one in shown[1:]
        )
        await channel.until(lambda: channel.texts()[-1] == "so it is")
        assert struck == ["pots"] and "Approved once" in plain(channel.texts()[0])
        assert not any(one.choices for one in channel.stood)
        assert "settled" in await channel.press(buttons["Always"])


async def test_a15_what_was_pressed_always_then_runs_unasked_after_a_restart_too(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    """The same call; another is asked about."""
    struck: list[str] = []
    async with asked(tmp_path, model, channel, struck):
        assert "Approved" in await channel.press((await channel.buttons())["Always"])
        await channel.until(lambda: channel.texts()[-1] == "so it is")
    async with at_home(tmp_path, model, channel, parts=hammer(struck)):
        model.script(smash(), says("broken again"), smash("pans"))
        await channel.say("/clear")
        await channel.say("break it once more")
        await channel.until(lambda: channel.texts()[-1] == "broken again")
        assert struck == ["pots", "pots"]
        assert sum("smash" in text for text in channel.texts()) == 1
        await channel.say("break those")
        await channel.until(lambda: "pans" in channel.texts()[-1])
    assert struck == ["pots", "pots"]


async def test_a15_nobody_else_answers_and_nothing_forged_does(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    struck: list[str] = []
    async with asked(tmp_path, model, channel, struck):
        buttons = await channel.buttons()
        assert "may not answer" in await channel.press(buttons["Once"], STRANGER)
        assert "may not answer" in await channel.press(buttons["Once"], OTHER)
        for forged in (
            "ask:o:" + "0" * 32,
            "ask:o:",
            buttons["Once"] + "0",
            "ask:x:" + buttons["Once"][6:],
            "",
            "drop table",
        ):
            assert "Nothing was done" in await channel.press(
                forged
            ) or "settled" in await channel.press(forged)
        assert struck == [] and list(await channel.buttons()) == list(buttons)
        assert "Denied." in await channel.press(buttons["Deny"])
        await channel.until(lambda: "Denied" in plain(channel.texts()[0]))
    assert struck == []


async def test_b5_15_the_same_buttons_work_after_a_restart(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    struck: list[str] = []
    async with asked(tmp_path, model, channel, struck):
        buttons = await channel.buttons()
    async with at_home(tmp_path, model, channel, parts=hammer(struck)):
        await channel.press(buttons["Once"])
        await channel.until(
            lambda: (
                channel.texts()[-1] == "so it is" and not any(one.choices for one in channel.stood)
            )
        )
    assert struck == ["pots"] and len(channel.stood) == 2


async def test_a15_what_is_answered_in_words_or_by_a_stop_loses_its_buttons_too(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    for number, (words, outcome) in enumerate(
        (("/approve", "Approved"), ("rather not", "Denied"), ("/stop", "Settled"))
    ):
        channel, struck = FakeChannel(), list[str]()
        async with asked(tmp_path / str(number), model, channel, struck):
            await channel.buttons()
            await channel.say(words)
            await channel.until(lambda c=channel: not any(one.choices for one in c.stood))
            assert outcome in plain(channel.texts()[0]), words
        model._steps.clear()


async def test_a15_a_typed_yes_is_none_and_the_model_learns_how_one_is_given(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    """Words may be meant for something else. The model asks once more, and the button allows it."""
    struck: list[str] = []
    async with asked(tmp_path, model, channel, struck):
        model._steps.insert(0, smash())
        await channel.say("yes")
        await channel.until(lambda: sum("smash" in text for text in channel.texts()) == 2)
        assert struck == [] and "a message came instead" in plain(channel.texts()[0])
        told = json.loads(model.requests[-1]["messages"][-1]["content"])
        result = json.loads(told["error"])
        assert result["reason"] == "yes" and "/approve" in result["note"]
        assert "Approved" in await channel.press((await channel.buttons())["Once"])
        await channel.until(lambda: channel.texts()[-1] == "so it is")
    assert struck == ["pots"]


async def test_a15_a_question_that_expires_says_so(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("2026-03-01T09:00:00+00:00")
    monkeypatch.setenv("AIDAEMON_TEST_CLOCK", str(clock))
    struck: list[str] = []
    async with asked(tmp_path / "home", model, channel, struck):
        buttons = await channel.buttons()
        clock.write_text("2026-03-01T10:00:00+00:00")
        await channel.until(lambda: not any(one.choices for one in channel.stood))
        assert "Nobody answered" in plain(channel.texts()[0]) and "settled" in await channel.press(
            buttons["Once"]
        )
    assert struck == []


async def test_a15_what_an_editor_asks_for_is_put_to_the_owner_in_private_once_and_answered_there(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    struck: list[str] = []
    model.script(says("hello"))
    async with at_home(tmp_path, model, channel):
        await channel.say("hi")
        await channel.until(lambda: channel.texts() == ["hello"])
    channel.fail("send", Trouble())
    model.script(smash(), says("so it is"))
    async with at_home(tmp_path, model, channel, parts=hammer(struck), times=AT_ONCE):
        await channel.say("break it", OTHER)
        await channel.until(
            lambda: len(channel.of("send")) == 3
        )  # one hangs here, the copy has gone
    channel.troubles.clear()
    async with at_home(tmp_path, model, channel, parts=hammer(struck)) as house:
        await channel.until(
            lambda: len(channel.shown(OTHER)) == 1 and len(channel.shown(OWNER)) == 2
        )
        assert "owner" in channel.texts(OTHER)[0] and "Once" not in [
            one.label for one in channel.shown(OTHER)[0].choices
        ]
        theirs = {choice.label: choice.data for choice in channel.shown(OTHER)[0].choices}
        buttons = {choice.label: choice.data for choice in channel.shown(OWNER)[1].choices}
        forged = buttons["Once"]
        assert "may not answer" in await channel.press(forged, OTHER) and list(theirs) == ["Deny"]
        await channel.press(buttons["Once"])
        await channel.until(lambda: channel.texts(OTHER)[-1] == "so it is")
        await channel.until(lambda: not any(one.choices for one in channel.stood))
        assert len(channel.shown(OWNER)) == 2 and len(await outbox(house)) == 4
    assert struck == ["pots"]


async def test_a15_the_owner_is_asked_on_a_channel_that_works(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    telegram, slack, struck = FakeChannel("telegram"), FakeChannel("slack"), list[str]()
    async with at_home(tmp_path, model, telegram, slack, parts=hammer(struck)) as house:
        for channel in (slack, telegram):
            await channel.say("hi")
            await channel.until(lambda channel=channel: channel.texts() == ["ok"])
        telegram.quiet = True
        house.channel_states["telegram"].mark_failing("a cut")
        model.script(smash(), says("so it is"))
        await slack.say("break it", OTHER)
        await slack.until(lambda: len(slack.texts()) == 2)
        await slack.press((await slack.buttons())["Once"])
        await slack.until(lambda: slack.texts(OTHER)[-1] == "so it is")
    assert struck == ["pots"] and telegram.texts() == ["ok"]


async def test_a17_what_an_agent_of_an_editor_wants_is_put_to_the_owner_too(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    struck: list[str] = []
    async with at_home(tmp_path, model, channel, parts=hammer(struck)):
        await channel.say("hi")
        await channel.until(lambda: channel.texts() == ["ok"])
        model.script(
            calls(("spawn_agent", {"task": "break it"})), smash(), says("broken"), says("all done")
        )
        await channel.say("have it broken", OTHER, GROUP)
        await channel.until(lambda: len(channel.texts()) == 2)
        assert "Once" not in [
            choice.label for one in channel.shown(GROUP) for choice in one.choices
        ]
        await channel.press((await channel.buttons())["Once"])
        await channel.until(lambda: channel.texts(GROUP)[-1] == "all done")
    assert struck == ["pots"]


async def test_a15_the_owner_sees_whose_question_it_is_whatever_they_call_themselves(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    struck: list[str] = []
    async with at_home(tmp_path, model, channel, parts=hammer(struck)):
        await channel.say("hi")
        await channel.until(lambda: channel.texts() == ["ok"])
        for number, chat in enumerate((OTHER, GROUP), 1):
            model.script(smash(), says("so it is"))
            await channel.arrive(
                replace(
                    channel.message("break it", OTHER, chat), sender=Sender(OTHER, "The *owner*")
                )
            )
            await channel.until(lambda number=number: len(channel.shown()) == number + 1)
            assert f"It is for The *owner* (telegram:{OTHER}), in {chat}." in plain(
                channel.texts()[number]
            )
            assert "It is for" not in channel.texts(chat)[0]
            await channel.press((await channel.buttons())["Deny"])
            await channel.until(lambda number=number: not channel.shown()[number].choices)
            assert "It is for" in channel.texts()[number] and "Denied" in plain(
                channel.texts()[number]
            )
        model.script(smash(), says("so it is"))
        await channel.say("break it")
        await channel.until(lambda: len(channel.shown()) == 4)
        assert "It is for" not in channel.texts()[3]
    assert struck == []


async def test_f2_the_budget_is_asked_about_with_yes_and_no(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    model.script(says("two"))
    async with at_home(tmp_path, model, channel, config={"max_input_tokens": 100}):
        await channel.say("sum this up: " + "word " * 1000)
        buttons = await channel.buttons()
        assert list(buttons) == ["Yes", "No"] and re.search(
            r"Go on with [\d,]+ more\?", channel.texts()[0].replace("\\", "")
        )
        assert "{" not in channel.texts()[0]
        await channel.press(buttons["Yes"])
        await channel.until(lambda: channel.texts()[-1] == "two")


@pytest.mark.parametrize("words", ["", "/approve", "/deny", "/loop stop"])
async def test_c3_what_is_asked_about_an_attempt_that_is_over_loses_its_buttons_too(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel, words: str
) -> None:
    """No turn goes on with the answer."""
    async with at_home(
        tmp_path, model, channel, config={"loop": {"enabled": True, "criterion": "manual"}}
    ):
        await channel.say("/loop start write a poem")
        buttons = await channel.buttons()
        assert "Will attempt 1 do?" in channel.texts()[-1].replace("\\", "")
        await (channel.say(words) if words else channel.press(buttons["Yes"]))
        await channel.until(lambda: not any(one.choices for one in channel.stood))


async def test_a6_a_long_question_is_read_whole_before_a_yes(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    """Whatever else waits in the chat; and what is not theirs to answer is shown to nobody at length."""
    struck: list[str] = []
    long = "x" * 5000 + "THE END"
    model.script(smash(long), says("so it is"))
    async with at_home(tmp_path, model, channel, parts=hammer(struck)):
        await channel.say("break it", OWNER, GROUP)
        buttons = await channel.buttons(GROUP)
        assert "may not answer" in await channel.press(buttons["Once"], OTHER, GROUP)
        assert "press again" in await channel.press(buttons["Once"], OWNER, GROUP) and struck == []
        await channel.until(
            lambda: any("THE END" in plain(text) for text in channel.texts(GROUP)[1:])
        )
        assert "Approved" in await channel.press(buttons["Once"], OWNER, GROUP)
        await channel.until(lambda: channel.texts(GROUP)[-1] == "so it is")
    assert struck == [long]


async def test_a15_without_buttons_words_do(tmp_path: Path, model: FakeOpenAI) -> None:
    channel, struck = FakeChannel(capabilities=replace(CAN, buttons=False)), list[str]()
    async with asked(tmp_path, model, channel, struck):
        assert "/approve" in channel.texts()[0] and not channel.shown()[0].choices
        await channel.say("/approve")
        await channel.until(lambda: "so it is" in channel.texts())
    assert struck == ["pots"]


async def test_a15_buttons_that_cannot_be_taken_away_at_once_are_taken_away_later(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    struck: list[str] = []
    async with asked(tmp_path, model, channel, struck):
        buttons = await channel.buttons()
        channel.fail("edit", Trouble(RetryLater("slow down")))
        await channel.press(buttons["Once"])
        await channel.until(lambda: not any(one.choices for one in channel.stood))


async def test_a15_buttons_that_were_settled_while_the_channel_was_down_go_when_it_is_back(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    struck: list[str] = []
    async with asked(tmp_path, model, channel, struck) as house:
        buttons = await channel.buttons()
        channel.quiet = True
        house.channel_states["telegram"].mark_failing("a cut")
        await channel.press(buttons["Once"])
        await channel.until(lambda: channel.texts()[-1] == "so it is")
        assert any(one.choices for one in channel.stood) and not channel.of("edit")
        channel.quiet = False
        await channel.until(lambda: not any(one.choices for one in channel.stood))
    assert struck == ["pots"]


async def test_a15_a_crash_between_the_answer_and_the_buttons_leaves_none_behind(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    struck: list[str] = []
    channel.fail("edit", Trouble())
    model.script(smash(), says("so it is"))
    async with at_home(tmp_path, model, channel, parts=hammer(struck), times=AT_ONCE):
        await channel.say("break it")
        await channel.press((await channel.buttons())["Once"])
        await channel.until(lambda: channel.texts()[-1] == "so it is")
    assert any(one.choices for one in channel.stood)
    async with at_home(tmp_path, model, channel, parts=hammer(struck)) as house:
        await channel.until(lambda: not any(one.choices for one in channel.stood))
        channel.fail("edit", Trouble(Rejected("gone")))
        await settled(lambda: closed(house))


async def test_a15_a_question_that_could_not_be_put_in_time_comes_without_buttons(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    struck: list[str] = []
    channel.fail("send", Trouble(RetryLater("slow down", 1.0)))
    model.script(smash(), says("so it is"))
    async with at_home(tmp_path, model, channel, parts=hammer(struck)):
        await channel.say("break it")
        await channel.until(lambda: channel.of("send"))
        await channel.say("/stop")
        await channel.until(lambda: len(channel.stood) >= 1)
        assert "settled" in channel.texts()[0] and not any(one.choices for one in channel.stood)


CODE = re.compile(r"Code: ([a-z]{4})")


@pytest.mark.parametrize("answer", ["/approve", "/approve CODE", "/deny", "/deny CODE not now"])
async def test_a15_the_owner_answers_an_editors_question_in_words_where_its_card_stands(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel, answer: str
) -> None:
    struck: list[str] = []
    async with at_home(tmp_path, model, channel, parts=hammer(struck)):
        await channel.say("hi")
        await channel.until(lambda: channel.texts() == ["ok"])
        model.script(smash(), says("so it is"))
        await channel.say("break it", OTHER)
        await channel.until(lambda: len(channel.texts()) == 2)
        [code] = CODE.findall(plain(channel.texts()[1]))
        await channel.say(answer.replace("CODE", code))
        await channel.until(lambda: channel.texts(OTHER)[-1] == "so it is")
    assert struck == (["pots"] if "approve" in answer else [])


async def test_a15_the_owner_answers_by_its_code_a_question_that_stands_in_another_chat(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    telegram, slack, struck = FakeChannel("telegram"), FakeChannel("slack"), list[str]()
    async with at_home(tmp_path, model, telegram, slack, parts=hammer(struck)):
        await slack.say("hi")
        await slack.until(lambda: slack.texts() == ["ok"])
        model.script(smash(), says("so it is"))
        await telegram.say("break it")
        await telegram.until(lambda: len(telegram.texts()) == 1)
        [code] = CODE.findall(plain(telegram.texts()[0]))
        await slack.say("/approve")
        await slack.until(lambda: "Nothing waits for an answer here" in plain(slack.texts()[-1]))
        await slack.say(f"/approve {code}", OTHER)
        await slack.until(lambda: "Nothing waits" in plain("".join(slack.texts(OTHER))))
        assert struck == []
        await slack.say(f"/approve {code.upper()}")
        await telegram.until(lambda: telegram.texts()[-1] == "so it is")
    assert struck == ["pots"]
