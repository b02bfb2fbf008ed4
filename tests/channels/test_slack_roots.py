"""A conversation that begins in the middle of a thread comes with the thread's first message (A14)."""

from dataclasses import replace

from tests.channels.host import Ledger
from tests.channels.slack_stage import QUICK, Stage, fake, stage
from tests.fakes.platform import Fault
from tests.fakes.slack import FakeSlack
from tests.fakes.slack.workspace import BOT

ALERT = {"title": "CPU 97% on db1", "text": "since 9:00", "fallback": "CPU"}
CARD = "[card]\nCPU 97% on db1\nsince 9:00\n[end of the card]"
REPLIES = "conversations.replies"


async def asked(on: Stage, chat: str, thread: str, text: str = "what does this mean?") -> None:
    """Ann asks the bot in this thread, and is heard."""
    count = len(on.house.messages)
    on.slack.say("ann", chat, on.slack.mention(text), thread=thread)
    await on.house.until(lambda: len(on.house.messages) > count)


def roots(on: Stage) -> list[tuple[str, str, str, str]]:
    """Of the last message."""
    last = on.house.messages[-1]
    return [(one.kind, one.text, one.by, one.author) for one in last.references]


def fetched(slack: FakeSlack) -> int:
    return len(slack.calls.of(REPLIES))


async def test_below_an_alert_of_another_bot_the_model_sees_the_alert():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann", "bob")
        root = slack.alert(chat, attachments=[ALERT])
        slack.say("bob", chat, "not again", thread=root)
        await asked(on, chat, root)
        last = on.house.messages[-1]
    assert on.house.texts == ["not again", "what does this mean?"]
    assert roots(on) == [("root", CARD, "other", "Alerts")]
    assert last.references[0].message_id == root
    assert on.house.messages[0].references == ()


async def test_the_first_message_may_be_the_assistants_or_the_senders_own():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann", "bob")
        channel = slack.work.channel(chat)
        report = slack.work.post(channel, BOT, text="Your report: all is well")["ts"]
        await asked(on, chat, report)
        assert roots(on) == [("root", "Your report: all is well", "assistant", "")]
        await asked(on, chat, slack.say("ann", chat, "the plan for May"))
        assert roots(on)[0][:3] == ("root", "the plan for May", "sender")
        await asked(on, chat, slack.say("ann", chat, "for May", files=[("pay.png", b"png")]))
        assert roots(on)[0][:3] == ("root", "for May", "sender")
        assert on.house.messages[-1].references[0].beside == "[photo: pay.png, 1 kB]"
        await asked(on, chat, slack.say("bob", chat, "", files=[("a.png", b"png")]))
        assert roots(on)[0][:3] == ("root", "[photo: a.png, 1 kB]", "other")
        await asked(on, chat, slack.share("ann", chat, "pay me", "see"))
        assert roots(on)[0][2] == "other" and "pay me" in roots(on)[0][1]


async def test_words_of_others_in_the_senders_own_first_message_stay_others():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann")
        await asked(on, chat, slack.say("ann", chat, "to <https://eve.example|bob.example>"))
        assert roots(on)[0][1:3] == ("to [bob.example](https://eve.example)", "other")


async def test_slacks_own_line_at_the_beginning_of_a_chat_is_not_told():
    async with fake() as slack, stage(slack) as on:
        about = {"subtype": "assistant_app_thread", "text": "New Assistant Thread"}
        begun = slack.work.post(slack.work.channel(on.dm.chat), BOT, **about)["ts"]
        slack.say("ann", on.dm.chat, "hello", thread=begun)
        await on.house.until(lambda: bool(on.house.messages))
        assert roots(on) == []


async def test_a_first_message_is_not_fetched_where_it_is_known_or_nobody_asks():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann", "eve")
        root = slack.alert(chat, attachments=[ALERT])
        await asked(on, chat, root)
        on.house.known.append(on.house.messages[-1].address)
        before = fetched(slack)
        await asked(on, chat, root)
        assert roots(on) == []
        slack.say("eve", chat, "hello all", thread=slack.alert(chat, attachments=[ALERT]))
        await asked(on, chat, "", "a new thread")
    assert (roots(on), fetched(slack)) == ([], before)


async def test_a_first_message_is_fetched_once_for_several_who_ask():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann")
        root = slack.alert(chat, attachments=[ALERT])
        for text in ("one", "two", "three"):
            await asked(on, chat, root, text)
            assert [one[0] for one in roots(on)] == ["root"]
        assert fetched(slack) == 1


async def test_a_message_comes_all_the_same_where_the_first_cannot_be_had():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann")
        gone, odd = slack.alert(chat, attachments=[ALERT]), slack.alert(chat, attachments=[ALERT])
        slack.withdraw(gone)
        await asked(on, chat, gone)
        assert roots(on) == [
            ("root", "[it could not be read: Slack does not show it to the assistant]", "other", "")
        ]
        slack.work.message(chat, odd)["text"] = {"no": "text"}
        await asked(on, chat, odd)
        assert roots(on)[0][1].startswith("[it could not be read: text is dict")
        slack.fail(REPLIES, Fault("status", 503))
        await asked(on, chat, slack.alert(chat, attachments=[ALERT]))
        assert roots(on)[0][1] == "[it could not be read: Slack does not answer at the moment]"
        assert on.house.texts == ["what does this mean?"] * 3


async def test_a_first_message_that_slack_did_not_show_is_asked_for_again():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann")
        root = slack.alert(chat, attachments=[ALERT])
        slack.fail(REPLIES, Fault("status", 200, text="not_in_channel"))
        await asked(on, chat, root)
        assert roots(on)[0][1].startswith("[it could not be read: Slack does not show it")
        await asked(on, chat, root)
        assert roots(on)[0][1] == CARD


async def test_a_slack_that_is_slow_holds_messages_up_for_a_while_only_and_none_overtakes():
    async with fake() as slack, stage(slack, timing=replace(QUICK, root_s=0.6)) as on:
        chat = slack.group("ann")
        root = slack.alert(chat, attachments=[ALERT])
        slack.fail(REPLIES, Fault("slow", seconds=30, times=5))
        slack.say("ann", chat, slack.mention("one"), thread=root)
        slack.say("ann", chat, slack.mention("two"), thread=root)
        slack.say("ann", on.dm.chat, "three")
        await on.house.until(lambda: len(on.house.messages) == 3, seconds=15)
        assert (on.house.texts, fetched(slack)) == (["one", "two", "three"], 1)
        assert "does not answer" in on.house.messages[1].references[0].text


async def test_what_was_asked_in_a_thread_while_nobody_listened_comes_with_its_first_message():
    async with fake(retries_s=()) as slack:
        house, chat = Ledger(), slack.group("ann")
        async with stage(slack, house) as on:
            begun = slack.say("ann", chat, slack.mention("begin"))
            await house.until(lambda: house.texts == ["begin"])
        slack.say("ann", chat, "and now?", thread=begun)
        house.known.append(house.messages[0].address)
        async with stage(slack, house, listening=False) as on:
            on.house.known.clear()
            await house.until(lambda: len(house.texts) == 2)
        assert [one.text for one in house.messages[1].references] == ["@U0BOT begin"]
