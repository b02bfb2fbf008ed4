"""What people write on Telegram, as the house gets it, and what it shows them, over real sockets (A13, A14, A15, E12)."""

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from channels.base import Rejected
from channels.message import (
    Address,
    Choice,
    InboundMessage,
    MessagePart,
    OutboundMessage,
    Reference,
    Sender,
)
from channels.telegram.channel import Telegram, TelegramTiming
from channels.telegram.config import TelegramAccount
from tests.channels.host import Ledger, running
from tests.fakes.platform import Button, Fault
from tests.fakes.telegram import FakeTelegram
from tests.fakes.telegram.world import BOT_ID

SOON = TelegramTiming(first_s=0.02, longest_s=0.1, poll_s=5, edit_s=20.0)
HELLO = MessagePart("<b>hello</b>", "hello")
CHOICES = tuple(Choice(label, f"a:{label}") for label in ("Once", "Session", "Always", "Deny"))


class Scene:
    """The fake, the channel that listens to it, and the house behind it."""

    def __init__(self, fake: FakeTelegram, channel: Telegram, house: Ledger) -> None:
        self.fake, self.channel, self.house = fake, channel, house
        self.ann = fake.private("ann")
        self.there = Address("telegram", self.ann)

    async def heard(self, count: int) -> list[InboundMessage]:
        """The messages, when there are so many."""
        await self.house.until(lambda: len(self.house.messages) >= count)
        return self.house.messages

    async def only(self) -> InboundMessage:
        """The one message that reaches the house, among what was said before."""
        self.fake.say("ann", self.ann, "end")
        await self.house.until(lambda: "end" in self.house.texts)
        (message, _) = self.house.messages
        return message


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with FakeTelegram() as fake:
        channel = Telegram(TelegramAccount.model_validate(fake.config()), timing=SOON)
        house = Ledger(toast="allowed")
        async with running(channel, house):
            yield Scene(fake, channel, house)


async def test_a_private_message_is_for_the_assistant(scene: Scene):
    said = scene.fake.say("ann", scene.ann, "good morning")
    (message,) = await scene.heard(1)
    assert message.address == scene.there
    assert message.sender == Sender(scene.fake.person("ann"), "Ann")
    assert (message.text, message.message_id, message.external_id) == (
        "good morning",
        said,
        f"{scene.ann}/{said}",
    )
    assert message.private
    assert message.addressed
    assert not message.forwarded
    assert message.sent_at is not None
    assert abs(message.sent_at - datetime.now(UTC)) < timedelta(seconds=60)


async def test_messages_keep_their_order_over_batches(scene: Scene):
    people = [f"user{number}" for number in range(10)]
    chats = {person: scene.fake.private(person) for person in people}
    for number in range(30):
        for person in people:
            scene.fake.say(person, chats[person], str(number))
    messages = await scene.heard(300)
    for chat in chats.values():
        assert [m.text for m in messages if m.address.chat == chat] == [
            str(number) for number in range(30)
        ]


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("@house_bot what is new?", "what is new?"),
        ("@House_Bot, what is new?", "what is new?"),
        ("what is new, @house_bot?", "what is new?"),
        ("tell @house_bot all", "tell all"),
        ("/status", "/status"),
        ("/status@house_bot now", "/status now"),
        ("@house_bot /stop", "/stop"),
        ("🎉🎉 @house_bot 🎉", "🎉🎉 🎉"),
    ],
)
async def test_in_a_group_a_mention_or_a_command_addresses_it(scene: Scene, typed: str, read: str):
    group = scene.fake.group("ann", "bob")
    scene.fake.say("bob", group, typed)
    (message,) = await scene.heard(1)
    assert (message.text, message.addressed, message.private) == (read, True, False)
    assert message.address == Address("telegram", group)


@pytest.mark.parametrize(
    "typed", ["hello all", "/status@other_bot", "mail me@house_bot.example", "@house_bot2 hi"]
)
async def test_in_a_group_other_words_are_not_for_it(scene: Scene, typed: str):
    group = scene.fake.group("ann", "bob")
    said = scene.fake.world.new_message(
        scene.fake.world.chats[int(group)], scene.fake.world.person("bob")
    ) | {"text": typed}
    scene.fake.world.push({"message": said})  # a bot without privacy mode gets them all
    message = await scene.only()
    assert (message.text, message.addressed) == (typed, False)


async def test_in_a_group_a_reply_to_it_addresses_it_and_is_no_quote(scene: Scene):
    group = scene.fake.group("ann", "bob")
    ours = await scene.channel.send(OutboundMessage(Address("telegram", group), HELLO, "key"))
    scene.fake.people.reply("bob", ours, "why?")
    (message,) = await scene.heard(1)
    assert (message.text, message.addressed) == ("why?", True)
    assert message.references == (Reference("reply", "hello", "assistant", "House", ours),)


async def test_what_is_answered_to_comes_along_when_somebody_else_wrote_it(scene: Scene):
    group = scene.fake.group("ann", "bob")
    theirs = scene.fake.say("bob", group, "the moon is a cheese")
    scene.fake.people.reply("ann", theirs, "@house_bot is that so?")
    (message,) = await scene.heard(1)
    assert message.text == "is that so?"
    assert message.references == (
        Reference("reply", "the moon is a cheese", "other", "Bob", theirs),
    )


@pytest.mark.parametrize(
    "passed_on",
    [
        {},
        {"forward_origin": {"type": "user"}},
        {"forward_date": 1},
        {"via_bot": {"id": 5}},
        {"sender_chat": {"id": -5}},
        {"entities": [{"type": "blockquote", "offset": 0, "length": 3}]},
    ],
    ids=lambda more: next(iter(more), "their own"),
)
async def test_a6_who_answers_a_message_of_their_own_quotes_themselves_unless_they_had_passed_it_on(
    scene: Scene, passed_on: dict[str, object]
):
    first = scene.fake.say("ann", scene.ann, "buy milk")
    await scene.heard(1)
    scene.fake.world.messages[int(first)].json |= passed_on  # what it answers to, as it comes along
    scene.fake.people.reply("ann", first, "and bread")
    answer = (await scene.heard(2))[1]
    (told,) = answer.references
    assert (answer.text, told.text) == ("and bread", "buy milk")
    assert told.by == ("other" if passed_on else "sender")


async def test_E_of_an_own_message_the_name_of_its_file_is_not_said(scene: Scene):
    first = scene.fake.say("ann", scene.ann, "for later", files=[("mail it all.pdf", b"x")])
    await scene.heard(1)
    scene.fake.people.reply("ann", first, "look at this now")
    (told,) = (await scene.heard(2))[1].references
    assert (told.text, told.by, told.beside) == (
        "for later", "sender", "[document: mail it all.pdf, 1 kB]",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["blockquote", "expandable_blockquote", "pre", "bold"])
async def test_E_quotations_and_code_are_told_apart_from_what_is_said(scene: Scene, kind: str):
    text = "🎉 what of this? send it all"
    entity = {"type": kind, "offset": 17, "length": 11}  # an emoji counts as two
    scene.fake.people.say("ann", scene.ann, text, more={"entities": [entity]})
    (message,) = await scene.heard(1)
    assert (message.text, message.data) == (text, () if kind == "bold" else ("send it all",))


async def test_a_topic_is_a_thread_and_is_answered_there(scene: Scene):
    group = scene.fake.group("ann", "bob")
    scene.fake.say("ann", group, "@house_bot hi", thread="77")
    (message,) = await scene.heard(1)
    assert message.address == Address("telegram", group, "77")
    await scene.channel.show_typing(message.address)
    await scene.channel.send(
        OutboundMessage(message.address, HELLO, "key", reply_to=message.message_id)
    )
    assert [shown.text for shown in scene.fake.shown(group, "77")] == ["@house_bot hi", "hello"]
    assert scene.fake.calls.of("sendChatAction")[0]["message_thread_id"] == 77


async def test_what_opens_a_topic_is_nothing_that_is_answered_to(scene: Scene):
    group = scene.fake.group("ann", "bob")
    opening = {
        "message_id": 9,
        "from": {"id": BOT_ID, "is_bot": True, "first_name": "b"},
        "forum_topic_created": {"name": "x"},
    }
    head = scene.fake.world.new_message(
        scene.fake.world.chats[int(group)], scene.fake.world.person("bob"), "9"
    )
    scene.fake.world.push({"message": head | {"text": "hello all", "reply_to_message": opening}})
    message = await scene.only()
    assert (message.addressed, message.references, message.address.thread) == (False, (), "9")


async def test_an_edited_message_says_which_it_replaces(scene: Scene):
    said = scene.fake.say("ann", scene.ann, "good mourning")
    scene.fake.people.edit(said, "good morning")
    scene.fake.people.edit(said, "good morning!")
    first, second, third = await scene.heard(3)
    assert (first.edits, second.edits, third.edits) == ("", first.external_id, first.external_id)
    assert [message.text for message in (second, third)] == ["good morning", "good morning!"]
    assert second.external_id.startswith(f"{first.external_id}/")
    assert len({first.external_id, second.external_id, third.external_id}) == 3


async def test_somebody_elses_words_are_marked_as_such(scene: Scene):
    origin = {"type": "hidden_user", "sender_user_name": "Mallory", "date": 1_700_000_000}
    scene.fake.people.say("ann", scene.ann, "send me all", more={"forward_origin": origin})
    scene.fake.people.say(
        "ann",
        scene.ann,
        "a picture",
        more={"via_bot": {"id": 5, "is_bot": True, "first_name": "gif"}},
    )
    assert [message.forwarded for message in await scene.heard(2)] == [True, True]


async def test_bots_channels_and_service_messages_are_passed_over(scene: Scene):
    group = scene.fake.group("ann", "bob")
    chat = scene.fake.world.chats[int(group)]
    robot = {"id": 9, "is_bot": True, "first_name": "robot"}
    world = scene.fake.world
    world.push({"message": world.new_message(chat, robot) | {"text": "@house_bot hi"}})
    world.push({"message": world.new_message(chat, world.person("bob")) | {"new_chat_title": "us"}})
    world.push(
        {
            "message": world.new_message(chat, world.person("bob"))
            | {"sender_chat": chat, "text": "@house_bot hi"}
        }
    )
    world.push(
        {
            "channel_post": {
                "message_id": 5,
                "date": 1,
                "chat": {"id": -5, "type": "channel"},
                "text": "news",
            }
        }
    )
    scene.fake.say("ann", scene.ann, "a person")
    await scene.heard(1)
    assert scene.house.texts == ["a person"]
    assert scene.house.poison == []


async def test_B5_a_reaction_reaches_the_daemon_in_order_with_messages(scene: Scene):
    ours = await scene.channel.send(OutboundMessage(scene.there, HELLO, "key"))
    scene.fake.say("ann", scene.ann, "before")
    scene.fake.react("ann", ours, "👍")
    scene.fake.react("ann", ours, "")
    scene.fake.say("ann", scene.ann, "after")
    await scene.heard(2)
    kinds = [type(entry).__name__ for entry in scene.house.entries]
    assert kinds == ["InboundMessage", "Reaction", "Reaction", "InboundMessage"]
    assert [(reaction.emoji, reaction.message_id) for reaction in scene.house.reactions] == [
        ("👍", ours),
        ("", ours),
    ]


async def test_A15_choices_are_buttons_and_a_press_is_answered(scene: Scene):
    sent = await scene.channel.send(OutboundMessage(scene.there, HELLO, "key", choices=CHOICES))
    (shown,) = scene.fake.shown(scene.ann)
    assert shown.buttons == tuple(Button(choice.label, choice.data) for choice in CHOICES)
    assert len(scene.fake.world.messages[int(sent)].json["reply_markup"]["inline_keyboard"]) == 2
    scene.fake.press("ann", sent, "a:Once")
    await scene.fake.until(lambda: scene.fake.pressed() == ["allowed"])
    (press,) = scene.house.presses
    assert (press.data, press.message_id, press.sender.id, press.address) == (
        "a:Once",
        sent,
        scene.fake.person("ann"),
        scene.there,
    )
    await scene.channel.edit(sent, OutboundMessage(scene.there, MessagePart("allowed", "allowed")))
    assert scene.fake.shown(scene.ann)[0].buttons == ()


async def test_A15_presses_keep_their_place_among_messages(scene: Scene):
    sent = await scene.channel.send(OutboundMessage(scene.there, HELLO, "key", choices=CHOICES))
    scene.house.hold()
    scene.fake.say("ann", scene.ann, "zero")
    await scene.house.until(lambda: bool(scene.house.offers))
    scene.fake.say("ann", scene.ann, "one")
    scene.fake.press("bob", sent, "x" * 64)
    scene.fake.say("ann", scene.ann, "two")
    scene.house.release()
    await scene.heard(3)
    kinds = [type(entry).__name__ for entry in scene.house.entries]
    assert kinds == ["InboundMessage", "InboundMessage", "ButtonPress", "InboundMessage"]
    assert scene.house.presses[0].data == "x" * 64


async def test_A15_a_query_that_is_too_old_to_answer_harms_nothing(scene: Scene):
    sent = await scene.channel.send(OutboundMessage(scene.there, HELLO, "key", choices=CHOICES))
    scene.house.toast = "This question is no longer open. " * 20
    query = scene.fake.people.press("ann", sent, "a:Once")
    scene.fake.world.queries.pop(query)
    scene.fake.press("ann", sent, "a:Once")
    await scene.fake.until(lambda: len(scene.fake.pressed()) == 1)
    assert len(scene.fake.pressed()[0]) == 200
    scene.fake.say("ann", scene.ann, "still there?")
    await scene.heard(1)


async def test_a_button_under_a_message_that_is_gone_is_still_answered(scene: Scene):
    person = {"id": int(scene.fake.person("ann")), "is_bot": False, "first_name": "Ann"}
    query = {"id": "9", "from": person, "inline_message_id": "x", "chat_instance": "1"}
    scene.fake.world.push({"callback_query": query})
    await scene.fake.until(lambda: bool(scene.fake.calls.of("answerCallbackQuery")))
    assert not scene.house.presses


async def test_files_that_people_send_can_be_fetched(scene: Scene):
    content = bytes(range(256)) * 1000
    scene.fake.say(
        "ann",
        scene.ann,
        "look",
        files=[("notes.txt", content), ("me.jpg", b"jpeg"), ("hi.ogg", b"opus")],
    )
    messages = await scene.heard(3)
    files = [message.attachments[0] for message in messages]
    assert [message.text for message in messages] == ["look", "", ""]
    assert [file.kind for file in files] == ["document", "photo", "voice"]
    assert [file.named for file in files] == [True, False, False]
    assert [file.name.partition(".")[2] for file in files] == ["txt", "jpg", "ogg"]
    for file, sent in zip(files, (content, b"jpeg", b"opus"), strict=True):
        into = io.BytesIO()
        await scene.channel.download(file, into)
        assert into.getvalue() == sent


async def test_a_file_that_is_too_large_or_gone_is_refused(scene: Scene):
    scene.fake.say("ann", scene.ann, "big", files=[("big.bin", bytes((20 << 20) + 1))])
    (message,) = await scene.heard(1)
    with pytest.raises(Rejected, match="20 MB"):
        await scene.channel.download(message.attachments[0], io.BytesIO())
    unsaid = replace(message.attachments[0], size=0)
    for scene.fake.world.generous in (False, True):
        with pytest.raises(Rejected, match="20 MB" if scene.fake.world.generous else "too big"):
            await scene.channel.download(unsaid, io.BytesIO())
    scene.fake.lacks.add("file")
    with pytest.raises(Rejected, match="HTTP 404"):
        await scene.channel.download(replace(unsaid, size=5), io.BytesIO())
    scene.fake.world.files.clear()
    with pytest.raises(Rejected):
        await scene.channel.download(unsaid, io.BytesIO())


async def test_files_go_out_with_a_caption(scene: Scene, tmp_path: Path):
    file = tmp_path / "report.csv"
    file.write_bytes(b"a,b\n" * 50_000)
    await scene.channel.send(
        OutboundMessage(
            scene.there, MessagePart("<b>here</b>", "here"), "key", file=file, name="report.csv"
        )
    )
    await scene.channel.send(
        OutboundMessage(
            scene.there, MessagePart("<b>here", "here"), "key2", file=file, name="report.csv"
        )
    )
    await scene.channel.send(
        OutboundMessage(
            scene.there,
            MessagePart("<b>" + "x" * 2000 + "</b>", "x" * 2000),
            "key3",
            file=file,
            name="report.csv",
        )
    )
    await scene.channel.send(
        OutboundMessage(scene.there, MessagePart("", ""), "key4", file=file, name="report.csv")
    )
    shown = scene.fake.shown(scene.ann)
    assert [message.files for message in shown] == [(("report.csv", file.read_bytes()),)] * 4
    assert [len(message.text) for message in shown] == [4, 4, 1024, 0]


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("Übersicht für ann.csv", "Übersicht für ann.csv"),
        ('100% "sure"\r\n.csv', "100%25 %22sure%22%0D%0A.csv"),
    ],
)
async def test_the_name_of_a_file_goes_out_as_it_is_where_it_can(
    scene: Scene, tmp_path: Path, name: str, sent: str
):
    (tmp_path / "file").write_text("a")
    await scene.channel.send(
        OutboundMessage(scene.there, MessagePart("", ""), "key", file=tmp_path / "file", name=name)
    )
    assert scene.fake.shown(scene.ann)[0].files == ((sent, b"a"),)


async def test_a_caption_whose_markup_alone_would_be_too_long_goes_out_plain(
    scene: Scene, tmp_path: Path
):
    (tmp_path / "a.txt").write_text("a")
    told = scene.channel.render("**x** " * 300)[0]
    assert len(told.plain) <= 1024 < len(told.text)
    await scene.channel.send(
        OutboundMessage(scene.there, told, "key", file=tmp_path / "a.txt", name="a.txt")
    )
    (call,) = scene.fake.calls.of("sendDocument")
    assert (call["caption"], "parse_mode" in call) == (told.plain, False)


async def test_E12_a_draft_is_telegrams_own_where_it_has_one(scene: Scene):
    for text in ("one", "one **two", "one **two** three " + "x" * 9000):
        assert await scene.channel.show_draft(scene.there, "turn-1", text, "") == ""
    (draft,) = scene.fake.shown(scene.ann)
    assert draft.draft
    assert draft.text.endswith("xxx")
    await scene.channel.send(OutboundMessage(scene.there, HELLO, "turn-1"))
    assert [message.draft for message in scene.fake.shown(scene.ann)] == [False]


async def test_E12_a_server_without_drafts_gets_one_message_that_is_edited(scene: Scene):
    scene.fake.lacks.add("sendMessageDraft")
    shown = ""
    for text in ("one", "one two", "one two", "one two three"):
        shown = await scene.channel.show_draft(scene.there, "turn-1", text, shown)
    (message,) = scene.fake.shown(scene.ann)
    assert (message.id, message.text, message.edits) == (shown, "one two three", 2)
    assert len(scene.fake.calls.of("sendMessageDraft")) == 1


async def test_E12_in_a_group_a_draft_is_a_message(scene: Scene):
    group = Address("telegram", scene.fake.group("ann", "bob"))
    shown = await scene.channel.show_draft(group, "turn-1", "one", "")
    assert await scene.channel.show_draft(group, "turn-1", "one two", shown) == shown
    assert await scene.channel.show_draft(group, "turn-1", "one two three", shown) == shown
    (message,) = scene.fake.shown(group.chat)
    assert (message.text, message.edits) == ("one two", 1), (
        "so soon after another change it is left out"
    )
    assert scene.fake.calls.of("sendMessageDraft") == []


async def test_who_blocked_the_bot_does_not_end_drafts_for_others(scene: Scene):
    scene.fake.fail(
        "sendMessageDraft", Fault("status", 403, text="Forbidden: bot was blocked by the user")
    )
    with pytest.raises(Rejected):
        await scene.channel.show_draft(scene.there, "turn-1", "one", "")
    assert await scene.channel.show_draft(scene.there, "turn-2", "one", "") == ""


async def test_what_is_only_nice_to_have_may_be_missing(scene: Scene):
    scene.fake.lacks |= {
        "sendChatAction",
        "setMessageReaction",
        "setMyCommands",
        "getWebhookInfo",
        "answerCallbackQuery",
    }
    said = scene.fake.say("ann", scene.ann, "hi")
    await scene.heard(1)
    for _ in range(2):
        await scene.channel.show_typing(scene.there)
        await scene.channel.mark_seen(scene.there, said)
    assert len(scene.fake.calls.of("sendChatAction")) == 1
    sent = await scene.channel.send(OutboundMessage(scene.there, HELLO, "key", choices=CHOICES))
    scene.fake.press("ann", sent, "a:Once")
    await scene.house.until(lambda: bool(scene.house.presses))


async def test_a_queued_message_is_marked_and_commands_are_in_the_menu(scene: Scene):
    said = scene.fake.say("ann", scene.ann, "hi")
    await scene.heard(1)
    await scene.channel.mark_seen(scene.there, said)
    assert scene.fake.shown(scene.ann)[0].reactions == ("👀",)
    await scene.fake.until(lambda: bool(scene.fake.world.commands))
    assert scene.fake.world.commands == [{"command": "help", "description": "what there is"}]


async def test_a_reply_points_at_its_message_and_survives_that_one(scene: Scene):
    said = scene.fake.say("ann", scene.ann, "hi")
    sent = await scene.channel.send(OutboundMessage(scene.there, HELLO, "key", reply_to=said))
    assert scene.fake.world.messages[int(sent)].json["reply_to_message"]["message_id"] == int(said)
    await scene.channel.send(OutboundMessage(scene.there, HELLO, "key2", reply_to="999999"))
    await scene.channel.delete(scene.there, sent)
    await scene.channel.delete(scene.there, sent)
    assert [message.by_bot for message in scene.fake.shown(scene.ann)] == [False, True]


async def test_two_bots_at_once_keep_to_themselves(scene: Scene):
    async with FakeTelegram(token="7002:second") as second:
        channel = Telegram(
            TelegramAccount.model_validate(second.config()), name="work/telegram", timing=SOON
        )
        house = Ledger()
        async with running(channel, house):
            second.say("ann", second.private("ann"), "to work")
            scene.fake.say("ann", scene.ann, "to home")
            await house.until(lambda: house.texts == ["to work"])
            await scene.heard(1)
            await channel.send(OutboundMessage(house.messages[0].address, HELLO, "key"))
        assert house.messages[0].address == Address("work/telegram", second.private("ann"))
        assert scene.house.texts == ["to home"]
        assert len(second.shown(second.private("ann"))) == 2


async def test_who_it_is_and_what_it_can_do(scene: Scene):
    assert await scene.channel.check() == "@house_bot"
    assert scene.channel.name == "telegram"
    assert (
        await scene.channel.find(OutboundMessage(scene.there, HELLO, "key"), datetime.now(UTC))
        == ""
    )
    group = scene.channel.rate_limit(Address("telegram", "-100123"))
    assert (
        group.count / group.seconds
        < scene.channel.rate_limit(scene.there).count
        / scene.channel.rate_limit(scene.there).seconds
    )


async def test_a_pace_of_its_own_is_kept(scene: Scene):
    config = TelegramAccount.model_validate(scene.fake.config() | {"messages_per_second": 40})
    channel = Telegram(config)
    clock = asyncio.get_running_loop().time
    began = clock()
    await asyncio.gather(
        *(channel.send(OutboundMessage(scene.there, HELLO, str(number))) for number in range(5))
    )
    assert clock() - began >= 4 / 40
    await channel.aclose()
