"""What a person sees in a Telegram message, the model sees: through the real daemon, at a fake Telegram."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.e2e.channels.stage import Stage, by_bot, said_last, stage
from tests.fakes.openai import says
from tests.fakes.platform import OWNER
from tests.fakes.telegram import FakeTelegram

Json = dict[str, Any]
BOT = {"id": 1, "is_bot": True, "first_name": "Other", "username": "alerts_bot"}


@pytest_asyncio.fixture
async def on(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage("telegram", tmp_path) as here:
        await here.listening()
        yield here


def telegram(on: Stage) -> FakeTelegram:
    assert isinstance(on.platform, FakeTelegram)
    return on.platform


async def seen(on: Stage, text: str, count: int = 1, **more: object) -> str:
    """What the model is shown of a message of the owner."""
    chat = telegram(on).private(OWNER)
    telegram(on).people.say(OWNER, chat, text, more=more)
    await on.platform.until(lambda: len(by_bot(on.platform, chat)) == count)
    return said_last(on.model.requests[-1].body)


async def test_the_address_under_a_word_is_seen_in_a_text_and_a_caption_t01(on: Stage) -> None:
    link = {"type": "text_link", "offset": 10, "length": 4, "url": "https://example.com/a?b=1"}
    text = "🎉 look at this and that"
    said = await seen(on, text, entities=[link | {"offset": 11}])
    assert said == "🎉 look at [this](https://example.com/a?b=1) and that"
    chat = telegram(on).private(OWNER)
    more = {"caption_entities": [link | {"offset": 8}]}
    telegram(on).people.say(OWNER, chat, "look at this", files=[("a.jpg", b"x")], more=more)
    await on.platform.until(lambda: len(by_bot(on.platform, chat)) == 2)
    assert "look at [this](https://example.com/a?b=1)" in said_last(on.model.requests[-1].body)


async def test_an_answer_of_before_clear_that_is_replied_to_is_seen_again_t02(on: Stage) -> None:
    chat = telegram(on).private(OWNER)
    on.model.script(says("The shop closes at nine."))
    await seen(on, "When does the shop close?")
    answer = by_bot(on.platform, chat)[0].id
    await on.until("SELECT count(*) FROM outbox WHERE state = 'sent'", 1)
    telegram(on).people.reply(OWNER, answer, "is that so?")
    await on.platform.until(lambda: len(by_bot(on.platform, chat)) == 2)
    assert said_last(on.model.requests[-1].body) == "is that so?"  # it is in the conversation
    telegram(on).people.say(OWNER, chat, "/clear")
    await on.platform.until(lambda: len(by_bot(on.platform, chat)) == 3)
    telegram(on).people.reply(OWNER, answer, "is that still so?")
    await on.platform.until(lambda: len(by_bot(on.platform, chat)) == 4)
    said = said_last(on.model.requests[-1].body)
    assert said.startswith("is that still so?") and "The shop closes at nine." in said


async def test_a_marked_part_of_an_answer_is_seen_though_the_answer_is_known(on: Stage) -> None:
    chat = telegram(on).private(OWNER)
    on.model.script(says("Take the red one or the blue one."))
    await seen(on, "Which one?")
    answer = telegram(on).world.messages[int(by_bot(on.platform, chat)[0].id)].json
    quote = {"text": "the blue one", "position": 20}
    said = await seen(on, "why this?", 2, reply_to_message=answer, quote=quote)
    assert "why this?" in said and "the blue one" in said and "the red one" not in said


async def test_a_text_that_the_app_has_split_is_one_message_t04(on: Stage) -> None:
    chat = telegram(on).private(OWNER)
    whole = " ".join(f"word{number}" for number in range(700))
    cut = whole.rindex(" ", 0, 4096)
    for part in (whole[:cut], whole[cut + 1 :]):
        telegram(on).people.say(OWNER, chat, part)
    await on.platform.until(lambda: len(by_bot(on.platform, chat)) == 1)
    said = said_last(on.model.requests[-1].body)
    assert said.split() == whole.split() and on.model.count == 1
    await seen(on, "a further message", 2)


async def test_the_options_of_a_poll_are_seen_t09(on: Stage) -> None:
    options = [
        {"text": "the red one", "voter_count": 0},
        {"text": "the blue one", "voter_count": 0},
    ]
    poll = {"id": "5", "question": "Which should we take?", "options": options}
    said = await seen(on, "", poll=poll)
    assert "Which should we take?" in said
    assert "- the red one" in said and "- the blue one" in said


async def test_a_checklist_is_seen_with_what_is_done(on: Stage) -> None:
    tasks = [{"id": 1, "text": "buy milk", "completion_date": 5}, {"id": 2, "text": "buy bread"}]
    said = await seen(on, "", checklist={"title": "Shopping", "tasks": tasks})
    assert "[checklist: Shopping]\n- [x] buy milk\n- buy bread" in said


async def test_a_message_that_is_passed_on_says_who_wrote_it(on: Stage) -> None:
    origin = {"type": "channel", "chat": {"id": -5, "type": "channel", "title": "City news"}}
    said = await seen(on, "The bridge is closed.", forward_origin=origin)
    assert said == "[I pass on a message; City news wrote it]\nThe bridge is closed.\n[end of it]"


async def test_a_file_that_a_reply_points_at_is_named_with_kind_and_size(on: Stage) -> None:
    document = {
        "file_id": "f",
        "file_name": "plan.pdf",
        "mime_type": "application/pdf",
        "file_size": 12_000,
    }
    theirs = {
        "message_id": 5,
        "from": BOT,
        "date": 1,
        "chat": {"id": 1, "type": "private"},
        "document": document,
    }
    said = await seen(on, "what is this?", reply_to_message=theirs)
    assert "[this answers a message that Other wrote]\n[document: plan.pdf, 12 kB]" in said


async def test_a_reply_to_another_chat_is_seen_as_far_as_telegram_tells(on: Stage) -> None:
    external = {"origin": {"type": "hidden_user", "sender_user_name": "Bo"}, "message_id": 7}
    quote = {"text": "half past nine", "position": 0}
    said = await seen(on, "is that right?", external_reply=external, quote=quote)
    assert "a part of a message that Bo wrote" in said and "half past nine" in said


async def test_what_cannot_be_shown_is_named(on: Stage) -> None:
    said = await seen(on, "", story={"chat": {"id": 5, "type": "private"}, "id": 3})
    assert said == "[something that cannot be shown here: story]"


async def test_a_question_about_what_is_passed_on_with_it_gets_one_answer(on: Stage) -> None:
    chat = telegram(on).private(OWNER)
    origin = {"type": "hidden_user", "sender_user_name": "Zed", "date": 1}
    telegram(on).people.say(OWNER, chat, "is this true?")
    telegram(on).people.say(OWNER, chat, "The moon is cheese.", more={"forward_origin": origin})
    await on.platform.until(lambda: len(by_bot(on.platform, chat)) == 1)
    said = said_last(on.model.requests[-1].body)
    assert said.startswith("is this true?") and "The moon is cheese." in said and "Zed" in said
    await seen(on, "a further message", 2)
    assert on.model.count == 2
