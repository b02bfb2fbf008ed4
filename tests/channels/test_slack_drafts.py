"""Texts as they are written: streamed in threads, else a message that changes; the finished text replaces them (E12, K13)."""

from datetime import UTC, datetime

import pytest

from channels.base import DeliveryUnknown, Rejected
from channels.message import Address, OutboundMessage
from tests.channels.slack_stage import Stage, channel_of, fake, stage
from tests.fakes.platform import Fault
from tests.fakes.slack import FakeSlack


async def in_thread(on: Stage) -> Address:
    """A thread that Ann has begun in a channel."""
    chat = on.slack.group("ann", "bob")
    on.slack.say("ann", chat, on.slack.mention("tell me a story"))
    await on.house.until(lambda: bool(on.house.messages))
    return on.house.messages[0].address


async def channel_before_the_crash(slack: FakeSlack, address: Address) -> None:
    """A channel that is gone now, and has left a stream behind."""
    gone = channel_of(slack)
    await gone.show_draft(address, "k1", "Once", "")
    assert slack.shown(address.chat, address.thread)[0].draft
    await gone.aclose()


async def test_E12_in_a_thread_the_text_is_streamed_and_then_replaced():
    async with fake() as slack, stage(slack) as on:
        address = await in_thread(on)
        shown = await on.channel.show_draft(address, "k1", "Once upon", "")
        assert await on.channel.show_draft(address, "k1", "Once upon a **time**", shown) == shown
        [draft] = slack.shown(address.chat, address.thread)
        assert (draft.text, draft.draft, draft.id) == ("Once upon a **time**", True, shown)
        assert slack.calls.of("chat.appendStream")[0]["markdown_text"] == " a **time**"
        assert slack.calls.of("chat.startStream")[0]["recipient_user_id"] == slack.person("ann")
        await on.channel.edit(shown, OutboundMessage(address, on.channel.render("The **end**")[0]))
        [done] = slack.shown(address.chat, address.thread)
        assert (done.text, done.draft, done.id) == ("The end", False, shown)


async def test_E12_outside_of_threads_a_message_is_changed():
    async with fake() as slack, stage(slack) as on:
        shown = await on.channel.show_draft(on.dm, "k1", "Once", "")
        await on.channel.show_draft(on.dm, "k1", "Once upon", shown)
        assert [message.text for message in slack.shown(on.dm.chat)] == ["Once upon"]
        since = datetime.now(UTC)
        assert (
            await on.channel.find(OutboundMessage(on.dm, on.channel.render("x")[0], "k1"), since)
            == shown
        )


async def test_E12_a_text_that_turns_out_otherwise_is_shown_as_it_is_now():
    async with fake() as slack, stage(slack) as on:
        address = await in_thread(on)
        shown = await on.channel.show_draft(address, "k1", "Once", "")
        assert await on.channel.show_draft(address, "k1", "Twice", shown) == shown
        assert await on.channel.show_draft(address, "k1", "Twice as", shown) == shown
        assert [message.text for message in slack.shown(address.chat, address.thread)] == [
            "Twice as"
        ]


@pytest.mark.parametrize("state", ["in_progress", "completed"])
async def test_B5_13_a_stream_that_a_crash_left_behind_and_that_the_daemon_knows_is_replaced(
    state: str,
):
    async with fake() as slack, stage(slack) as on:
        address = await in_thread(on)
        since = datetime.now(UTC)
        shown = await on.channel.show_draft(address, "k1", "Once", "")
        slack.work.where(shown).messages[shown]["streaming_state"] = state
        after_the_crash = channel_of(slack)
        piece = after_the_crash.render("The end")[0]
        await after_the_crash.edit(shown, OutboundMessage(address, piece))
        assert await after_the_crash.find(OutboundMessage(address, piece, "k2"), since) == ""
        assert [message.text for message in slack.shown(address.chat, address.thread)] == [
            "The end"
        ]
        await after_the_crash.aclose()


async def test_B5_13_a_stream_that_a_crash_left_behind_and_nobody_knows_is_taken_away_and_no_other():
    async with fake() as slack, stage(slack) as on:
        since, piece = datetime.now(UTC), on.channel.render("The end")[0]
        address = Address("slack", on.dm.chat, slack.say("ann", on.dm.chat, "tell me a story"))
        await channel_before_the_crash(slack, address)
        await on.channel.show_draft(address, "k2", "Another turn", "")
        await on.channel.send(OutboundMessage(address, piece, "k3"))
        assert await on.channel.find(OutboundMessage(address, piece, "k1"), since) == ""
        assert [message.text for message in slack.shown(address.chat, address.thread)] == [
            "Another turn",
            "The end",
        ]


async def test_B5_13_a_stream_that_slack_streams_and_cannot_change_is_taken_away():
    async with fake() as slack, stage(slack) as on:
        address = await in_thread(on)
        shown = await on.channel.show_draft(address, "k1", "Once", "")
        slack.fail("chat.update", Fault("status", times=3))
        slack.fail("chat.delete", Fault("status"))
        piece = on.channel.render("The end")[0]
        for error in (DeliveryUnknown, DeliveryUnknown, Rejected):
            assert slack.shown(address.chat, address.thread)
            with pytest.raises(error):
                await on.channel.edit(shown, OutboundMessage(address, piece))
        assert slack.shown(address.chat, address.thread) == []


async def test_B5_13_a_stream_that_was_ended_is_found_by_its_key_only():
    async with fake() as slack, stage(slack) as on:
        address = await in_thread(on)
        since, piece = datetime.now(UTC), on.channel.render("The end")[0]
        shown = await on.channel.show_draft(address, "k1", "Once", "")
        await on.channel.edit(shown, OutboundMessage(address, piece))
        assert await on.channel.find(OutboundMessage(address, piece, "k1"), since) == shown
        assert await on.channel.find(OutboundMessage(address, piece, "k2"), since) == ""


async def test_E12_a_stream_that_slack_has_ended_meanwhile_goes_on_as_a_message():
    async with fake() as slack, stage(slack) as on:
        address = await in_thread(on)
        shown = await on.channel.show_draft(address, "k1", "Once", "")
        slack.fail("chat.appendStream", Fault("status", 200, text="message_not_in_streaming_state"))
        slack.work.where(shown).messages[shown]["streaming_state"] = "completed"
        await on.channel.show_draft(address, "k1", "Once upon", shown)
        await on.channel.show_draft(address, "k1", "Once upon a time", shown)
        assert [message.text for message in slack.shown(address.chat, address.thread)] == [
            "Once upon a time"
        ]


async def test_E12_a_streamed_text_calls_nobody():
    async with fake() as slack, stage(slack) as on:
        address = await in_thread(on)
        shown = await on.channel.show_draft(address, "k1", "hey <!channel> <", "")
        await on.channel.show_draft(address, "k1", "hey <!channel> <@U1> 3 < 4", shown)
        text = slack.shown(address.chat, address.thread)[0].text
        assert "<!" not in text
        assert "<@" not in text


async def test_E12_a_very_long_text_is_streamed_as_far_as_slack_allows():
    async with fake() as slack, stage(slack) as on:
        address = await in_thread(on)
        words = "word " * 3000
        shown = await on.channel.show_draft(address, "k1", words[:10_000], "")
        await on.channel.show_draft(address, "k1", words, shown)
        await on.channel.show_draft(address, "k1", words + "end", shown)
        assert len(slack.shown(address.chat, address.thread)[0].text) <= 12_000


async def test_E12_a_draft_can_be_taken_away():
    async with fake() as slack, stage(slack) as on:
        address = await in_thread(on)
        shown = await on.channel.show_draft(address, "k1", "Once", "")
        await on.channel.delete(address, shown)
        assert slack.shown(address.chat, address.thread) == []


async def test_B5_13_a_message_that_was_found_by_its_key_is_found_again_when_the_answer_to_its_change_is_lost():
    async with fake() as slack, stage(slack) as on:
        address, since, piece = (
            await in_thread(on),
            datetime.now(UTC),
            on.channel.render("The end")[0],
        )
        slack.methods.forgotten = {"chat.startStream"}
        shown = await on.channel.show_draft(address, "k1", "Once", "")
        after_the_crash = channel_of(slack)
        assert await after_the_crash.find(OutboundMessage(address, piece, "k1"), since) == shown
        slack.fail("chat.update", Fault("lost"))
        with pytest.raises(DeliveryUnknown):
            await after_the_crash.edit(shown, OutboundMessage(address, piece))
        assert await after_the_crash.find(OutboundMessage(address, piece, "k1"), since) == shown
        await after_the_crash.aclose()
