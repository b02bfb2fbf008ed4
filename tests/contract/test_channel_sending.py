"""What goes out, on every channel alike (A14, A15, E12)."""

import re
from collections.abc import Awaitable, Callable

import pytest

from channels.base import Rejected, RetryLater, Revoked
from channels.message import Address, Choice, OutboundMessage
from tests.contract.channels import Stage, ended, needs

CODE = "```python\n" + "\n".join(f"print('code {number}')" for number in range(150)) + "\n```"
TABLE = "| name | number |\n|---|---|\n" + "\n".join(
    f"| row{number} | {number} |" for number in range(60)
)
RIGHT_TO_LEFT = "שלום עולם, זה טקסט ארוך. " * 40
EMOJI = "👩‍👩‍👧‍👦🏳️‍🌈👍🏽 " * 200
WORDS = " ".join(f"word{number}" for number in range(2000))
LONG = f"# A long answer\n\n{WORDS}\n\n{CODE}\n\n{TABLE}\n\n{RIGHT_TO_LEFT}\n\n{EMOJI}\n\n> quoted\n\n- one\n- two\n\n**the end**"
YES_NO = (Choice("Allow", "approve:7:once", "good"), Choice("Deny", "approve:7:deny", "bad"))


async def test_a13_it_says_who_it_is_while_the_token_is_good_and_is_revoked_when_not(stage: Stage):
    assert (await stage.channel.check()).startswith(stage.kind.who)
    stage.platform.revoke()
    with pytest.raises(Revoked):
        await stage.channel.check()
    stage.platform.admit()
    assert (await stage.channel.check()).startswith(stage.kind.who)


async def test_with_a_token_that_nobody_knows_nothing_works_and_the_error_says_what_to_do(
    stage: Stage,
):
    stage.platform.revoke()
    with pytest.raises(Revoked, match=stage.kind.key) as error:
        await stage.channel.check()
    stage.tells_nothing(error.value)


async def test_it_says_later_while_the_platform_is_away(stage: Stage):
    await stage.platform.stop()
    with pytest.raises(RetryLater):
        await stage.channel.check()
    await stage.platform.start()
    assert await stage.channel.check()


@needs("edits")
async def test_a_message_is_sent_changed_and_taken_away(stage: Stage):
    sent = await stage.send("hello")
    (shown,) = stage.ours(stage.ann)
    assert (shown.id, shown.text, shown.by_bot) == (sent, "hello", True)
    await stage.channel.edit(sent, OutboundMessage(stage.ann, stage.piece("hello again")))
    assert [one.text for one in stage.ours(stage.ann)] == ["hello again"]
    await stage.channel.delete(stage.ann, sent)
    assert not stage.ours(stage.ann)


@needs("edits", "buttons")
async def test_the_same_edit_twice_does_no_harm(stage: Stage):
    sent = await stage.send("one")
    for _ in range(2):
        await stage.channel.edit(
            sent, OutboundMessage(stage.ann, stage.piece("two"), choices=YES_NO)
        )
    (shown,) = stage.ours(stage.ann)
    assert (shown.text, len(shown.buttons)) == ("two", 2)


async def test_messages_with_the_same_words_and_keys_of_their_own_are_two_messages(stage: Stage):
    assert await stage.send("ok", "k1") != await stage.send("ok", "k2")
    assert [one.text for one in stage.ours(stage.ann)] == ["ok", "ok"]


@pytest.mark.parametrize(
    "text", [LONG, WORDS, CODE, TABLE, RIGHT_TO_LEFT * 5, EMOJI * 3, "x" * 9000], ids=range(7)
)
async def test_a14_a_long_text_arrives_whole_in_order_and_in_pieces_that_fit(
    stage: Stage, text: str
):
    pieces = stage.channel.render(text)
    assert list(pieces) == list(stage.channel.render(text))
    assert all(len(piece.text) <= stage.channel.capabilities.limit for piece in pieces)
    sent = [
        await stage.channel.send(OutboundMessage(stage.ann, piece, f"k{number}"))
        for number, piece in enumerate(pieces)
    ]
    shown = stage.ours(stage.ann)
    assert [one.id for one in shown] == sent
    told = "\n".join(one.text for one in shown)
    marks = re.compile(r"word\d+|code \d+|row\d+|the end|x{100}")
    assert set(marks.findall(text)) <= set(marks.findall(told))
    assert [told.count(sign) for sign in "👩שם"] == [text.count(sign) for sign in "👩שם"]


async def test_a_text_of_nothing_is_one_piece(stage: Stage):
    assert len(stage.channel.render("")) == 1


async def test_text_that_looks_like_markup_is_read_as_it_was_written(stage: Stage):
    text = "a < b && c > d, 2 * 3 * 4, snake_case_name, [brackets], 5 > 3"
    await stage.send(text)
    (shown,) = stage.ours(stage.ann)
    assert shown.text.replace("\\", "") == text


@needs("buttons", "edits")
async def test_a15_choices_are_buttons_that_go_when_the_message_is_changed_without_them(
    stage: Stage,
):
    sent = await stage.channel.send(
        OutboundMessage(stage.ann, stage.piece("May I?"), "k1", choices=YES_NO)
    )
    (shown,) = stage.ours(stage.ann)
    assert [(button.label, button.data) for button in shown.buttons] == [
        (one.label, one.data) for one in YES_NO
    ]
    await stage.channel.edit(sent, OutboundMessage(stage.ann, stage.piece("Allowed by Ann")))
    (shown,) = stage.ours(stage.ann)
    assert (shown.text, shown.buttons) == ("Allowed by Ann", ())


@needs("buttons")
async def test_a15_data_of_64_bytes_and_many_choices_are_taken(stage: Stage):
    choices = [Choice(f"Choice {number}", f"{number}".rjust(64, "0")) for number in range(8)]
    await stage.channel.send(
        OutboundMessage(stage.ann, stage.piece("Which?"), "k1", choices=choices)
    )
    (shown,) = stage.ours(stage.ann)
    assert [button.data for button in shown.buttons] == [choice.data for choice in choices]


async def test_a_reply_in_a_group_is_sent_also_when_what_it_answers_is_gone(stage: Stage):
    group = stage.group
    asked = stage.platform.say("ann", group.chat, stage.platform.mention("hello"))
    for number, reply_to in enumerate((asked, "987654321", "nothing")):
        await stage.channel.send(
            OutboundMessage(group, stage.piece(f"reply {number}"), f"k{number}", reply_to=reply_to)
        )
    assert [one.text for one in stage.ours(group)] == ["reply 0", "reply 1", "reply 2"]


async def in_a_thread(stage: Stage) -> Address:
    return await stage.thread()


async def in_private(stage: Stage) -> Address:
    return stage.ann


async def in_a_group(stage: Stage) -> Address:
    return stage.group


PLACES = [in_private, in_a_group, in_a_thread]


@needs("drafts")
@pytest.mark.parametrize("place", PLACES)
async def test_e12_a_draft_grows_and_the_finished_text_stands_there_once(
    stage: Stage, place: Callable[[Stage], Awaitable[Address]]
):
    where = await place(stage)
    shown, text = "", ""
    for number in range(5):
        text += f"sentence {number}. "
        shown = await stage.channel.show_draft(where, "k1", text, shown)
        (seen,) = stage.ours(where)
        assert seen.text.strip() == text.strip()
    whole = stage.piece("The **finished** text.")
    if shown:
        await stage.channel.edit(shown, OutboundMessage(where, whole))
    else:
        await stage.channel.send(OutboundMessage(where, whole, "k1"))
    (seen,) = stage.ours(where)
    assert (seen.text, seen.draft) == ("The finished text.", False)


@needs("drafts")
@pytest.mark.parametrize("place", PLACES)
async def test_e12_of_a_draft_that_is_longer_than_a_message_the_end_is_seen(
    stage: Stage, place: Callable[[Stage], Awaitable[Address]]
):
    where = await place(stage)
    shown = ""
    for length in (100, 9000, 30_000):
        text = " ".join(f"w{number}" for number in range(length // 6))
        shown = await stage.channel.show_draft(where, "k1", text, shown)
    assert len(stage.ours(where)) == 1


@needs("drafts", "edits")
async def test_e12_a_draft_that_was_begun_before_a_restart_is_replaced_after_it(stage: Stage):
    group = await stage.thread()
    shown = await stage.channel.show_draft(group, "k1", "half a sen", "")
    later = stage.anew()
    await later.channel.edit(shown, OutboundMessage(group, later.piece("a whole sentence")))
    await later.channel.aclose()
    (seen,) = stage.ours(group)
    assert (seen.text, seen.draft) == ("a whole sentence", False)


async def test_a_thread_is_written_into_and_not_its_group(stage: Stage):
    where = await stage.thread()
    await stage.send("in here", address=where)
    (shown,) = stage.ours(where)
    assert shown.text == "in here"


@needs("typing", "reactions")
async def test_a14_typing_and_a_sign_that_it_was_seen_are_shown(stage: Stage):
    asked = stage.platform.say("ann", stage.ann.chat, "hello")
    await stage.channel.show_typing(stage.ann)
    await stage.channel.show_typing(
        stage.at(stage.ann.chat, asked if stage.kind.name == "slack" else ""), "reads a page"
    )
    await stage.channel.mark_seen(stage.ann, asked)
    (said,) = [one for one in stage.platform.shown(stage.ann.chat) if one.id == asked]
    assert said.reactions


@needs("typing", "reactions")
async def test_what_is_only_nice_to_have_may_be_missing_at_the_platform(stage: Stage):
    asked = stage.platform.say("ann", stage.ann.chat, "hello")
    thread = stage.at(stage.ann.chat, asked if stage.kind.name == "slack" else "")
    for method in (stage.kind.typing, stage.kind.seen):
        stage.platform.fail(method, stage.kind.unknown(), stage.kind.unknown())
    for _ in range(2):
        assert await ended(stage.channel.show_typing(thread)) is None
        assert await ended(stage.channel.mark_seen(stage.ann, asked)) is None
    assert await stage.send("sent all the same")


@needs("reactions")
async def test_a_seen_message_may_be_marked_twice_and_may_be_gone(stage: Stage):
    asked = stage.platform.say("ann", stage.ann.chat, "hello")
    for message_id in (asked, asked, "987654321"):
        assert await ended(stage.channel.mark_seen(stage.ann, message_id)) is None


async def test_how_fast_one_may_write_is_told_for_every_place(stage: Stage):
    for where in (stage.ann, stage.group):
        rate = stage.channel.rate_limit(where)
        assert rate.count >= 1 and 0 < rate.seconds / rate.count <= stage.kind.pause_s


async def test_a_chat_that_is_not_there_is_refused(stage: Stage):
    nowhere = stage.at("D0NOWHERE" if stage.kind.name == "slack" else "123456789012345678")
    for doing in (
        stage.send("hello", address=nowhere),
        stage.channel.edit("1", OutboundMessage(nowhere, stage.piece("hello"))),
    ):
        refused = await ended(doing)
        assert isinstance(refused, Rejected)
        stage.tells_nothing(refused)


@needs("edits")
async def test_a_message_that_is_gone_can_be_taken_away_again_and_not_changed(stage: Stage):
    sent = await stage.send("hello")
    await stage.channel.delete(stage.ann, sent)
    await stage.channel.delete(stage.ann, sent)
    assert isinstance(
        await ended(stage.channel.edit(sent, OutboundMessage(stage.ann, stage.piece("hello")))),
        Rejected,
    )
