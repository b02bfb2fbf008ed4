"""Slack out: what went wrong is said as the house needs it, and nothing is posted twice (K13)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from channels.base import ChannelError, DeliveryUnknown, Rejected, RetryLater, Revoked
from channels.message import Address, MessagePart, OutboundMessage
from tests.channels.slack_stage import QUICK, Stage, channel_of, fake, stage
from tests.fakes.platform import Fault


def now() -> datetime:
    return datetime.now(UTC)


async def send(
    on: Stage, text: str = "hello", key: str = "k1", address: Address | None = None
) -> str:
    return await on.channel.send(OutboundMessage(address or on.dm, on.channel.render(text)[0], key))


async def test_F1_a_message_is_sent_edited_and_deleted():
    async with fake() as slack, stage(slack) as on:
        message = await send(on, "**hello** & <bye>")
        [shown] = slack.shown(on.dm.chat)
        assert (shown.id, shown.text, shown.markup, shown.by_bot) == (
            message,
            "hello & <bye>",
            "*hello* &amp; &lt;bye&gt;",
            True,
        )
        await on.channel.edit(message, OutboundMessage(on.dm, on.channel.render("other")[0]))
        await on.channel.edit(message, OutboundMessage(on.dm, on.channel.render("other")[0]))
        assert slack.shown(on.dm.chat)[0].text == "other"
        await on.channel.delete(on.dm, message)
        await on.channel.delete(on.dm, message)
        assert slack.shown(on.dm.chat) == []


async def test_B5_13_a_message_whose_answer_was_lost_is_posted_once_and_found():
    async with fake() as slack, stage(slack) as on:
        since = now()
        slack.fail("chat.postMessage", Fault("lost"))
        piece = on.channel.render("hello")[0]
        with pytest.raises(DeliveryUnknown):
            await on.channel.send(OutboundMessage(on.dm, piece, "k1"))
        assert (
            await on.channel.find(OutboundMessage(on.dm, piece, "k1"), since)
            == slack.shown(on.dm.chat)[0].id
        )
        assert await on.channel.find(OutboundMessage(on.dm, piece, "k2"), since) == ""
        assert len(slack.calls.of("chat.postMessage")) == 1


@pytest.mark.parametrize("threaded", [False, True])
async def test_B5_22_a_message_is_found_whatever_our_clock_says(threaded: bool):
    """Slack is asked what came since then by Slack's clock; ours may have gone wrong in between."""
    async with fake() as slack, stage(slack) as on:
        chat, since = slack.group("ann"), now()
        thread = slack.say("ann", chat, slack.mention("hello")) if threaded else ""
        where = Address("slack", chat, thread)
        piece = on.channel.render("hello")[0]
        sent = await on.channel.send(OutboundMessage(where, piece, "k1"))
        assert (
            await on.channel.find(OutboundMessage(where, piece, "k1"), since + timedelta(days=1))
            == sent
        )
        assert (
            await on.channel.find(OutboundMessage(where, piece, "k2"), since + timedelta(days=1))
            == ""
        )


async def test_B5_13_a_message_in_a_thread_is_found_there_among_many():
    async with fake() as slack, stage(slack) as on:
        chat, since = slack.group("ann"), now()
        thread = slack.say("ann", chat, slack.mention("work"))
        address = Address("slack", chat, thread)
        message = await send(on, key="wanted", address=address)
        for number in range(250):
            slack.say("ann", chat, str(number), thread=thread)
        assert (
            await on.channel.find(
                OutboundMessage(address, on.channel.render("hello")[0], "wanted"), since
            )
            == message
        )


async def test_B5_13_without_the_scope_for_the_history_nothing_is_found_and_nothing_breaks():
    async with fake() as slack, stage(slack) as on:
        await send(on)
        assert on.channel.capabilities.can_find
        slack.methods.bare_history = True
        assert (
            await on.channel.find(
                OutboundMessage(on.dm, on.channel.render("hello")[0], "k1"), now()
            )
            == ""
        )
        assert not on.channel.capabilities.can_find


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault("retry", seconds=7), RetryLater),
        (Fault("status", 503), RetryLater),
        (Fault("status", 200, text="service_unavailable"), RetryLater),
        (Fault("status", 500), DeliveryUnknown),
        (Fault("status", 200, text="internal_error"), DeliveryUnknown),
        (Fault("drop"), DeliveryUnknown),
        (Fault("garbage"), DeliveryUnknown),
        (Fault("status", 200, text="token_revoked"), Revoked),
        (Fault("status", 200, text="is_archived"), Rejected),
        (Fault("status", 404), Rejected),
    ],
    ids=str,
)
async def test_B5_13_each_failure_tells_the_daemon_what_may_have_happened(
    fault: Fault, error: type[ChannelError]
):
    async with fake() as slack, stage(slack, listening=False) as on:
        slack.fail("chat.postMessage", fault)
        with pytest.raises(error) as told:
            await send(on)
        assert type(told.value) is error or error is Rejected
        assert "xoxb" not in str(told.value)
        if isinstance(told.value, RetryLater) and fault.kind == "retry":
            assert told.value.after_s == 7
        assert len(slack.calls.of("chat.postMessage")) == 1


async def test_B5_13_a_slack_that_cannot_be_reached_is_asked_later():
    async with fake() as slack:
        channel = channel_of(slack)
        address, piece = Address("slack", slack.private("ann")), channel.render("hello")[0]
        await slack.stop()
        with pytest.raises(RetryLater):
            await channel.send(OutboundMessage(address, piece, "k1"))
        await channel.aclose()


async def test_B5_13_an_answer_that_does_not_come_leaves_it_unclear():
    async with fake() as slack, stage(slack, timing=replace(QUICK, timeout_s=0.3)) as on:
        slack.fail("chat.postMessage", Fault("slow", seconds=2))
        with pytest.raises(DeliveryUnknown):
            await send(on)


async def test_what_to_do_is_said_when_a_message_is_refused():
    async with fake() as slack, stage(slack) as on:
        chat = slack.group("ann")
        slack.work.channels[chat].members.discard("U0BOT")
        with pytest.raises(Rejected, match="/invite"):
            await send(on, address=Address("slack", chat))
        with pytest.raises(Rejected, match="never in it"):
            await send(on, address=Address("slack", "C404"))
        with pytest.raises(Rejected, match="longer than Slack takes"):
            await on.channel.edit(
                await send(on), OutboundMessage(on.dm, MessagePart("x" * 5000, "x"))
            )


async def test_links_are_not_opened_by_slack():
    async with fake() as slack, stage(slack) as on:
        await send(on, "https://evil.example/?q=secret")
        [asked] = slack.calls.of("chat.postMessage")
        assert (asked["unfurl_links"], asked["unfurl_media"]) == (False, False)


async def test_A14_check_says_who_we_are_and_that_a_token_is_wrong():
    async with fake() as slack:
        channel = channel_of(slack)
        assert await channel.check() == "@aidaemon in Fake"
        slack.revoke()
        with pytest.raises(Revoked, match=r"\[slack\]"):
            await channel.check()
        await channel.aclose()


async def test_A14_check_says_that_the_token_of_the_app_is_wrong_too():
    async with fake() as slack:
        channel = channel_of(slack, app_token="xapp-of-another-app")
        with pytest.raises(Revoked, match="app_token"):
            await channel.check()
        await channel.aclose()


async def test_A14_eyes_mark_a_message_and_twice_is_no_harm():
    async with fake() as slack, stage(slack) as on:
        message = slack.say("ann", on.dm.chat, "hello")
        await on.channel.mark_seen(on.dm, message)
        await on.channel.mark_seen(on.dm, message)
        assert slack.shown(on.dm.chat)[0].reactions == ("eyes",)


async def test_A14_the_status_is_shown_in_threads_and_goes_with_the_answer():
    async with fake() as slack, stage(slack) as on:
        thread = slack.say("ann", on.dm.chat, "hello")
        address = Address("slack", on.dm.chat, thread)
        await on.channel.show_typing(on.dm)
        await on.channel.show_typing(address, "is reading…")
        assert slack.work.statuses == {(on.dm.chat, thread): "is reading…"}
        await send(on, address=address)
        assert slack.work.statuses == {}


async def test_A14_what_this_slack_does_not_know_is_asked_for_once_and_breaks_nothing(
    caplog: pytest.LogCaptureFixture,
):
    async with fake() as slack, stage(slack) as on:
        slack.methods.forgotten = {
            "reactions.add",
            "assistant.threads.setStatus",
            "chat.startStream",
        }
        thread = Address("slack", on.dm.chat, slack.say("ann", on.dm.chat, "hello"))
        for number in range(3):
            await on.channel.show_typing(thread)
            await on.channel.mark_seen(thread, thread.thread)
            await on.channel.show_draft(thread, f"k{number}", "Once", "")
        assert [len(slack.calls.of(method)) for method in sorted(slack.methods.forgotten)] == [
            1,
            1,
            1,
        ]
        assert len([row for row in caplog.records if "unknown_method" in row.getMessage()]) == 3


async def test_metadata_that_slack_refuses_are_left_out():
    async with fake() as slack, stage(slack) as on:
        slack.fail("chat.postMessage", Fault("status", 200, text="metadata_must_be_sent_from_app"))
        await send(on)
        await send(on, key="k2")
        assert [bool(asked.get("metadata")) for asked in slack.calls.of("chat.postMessage")] == [
            True,
            False,
            False,
        ]


async def test_a_proxy_of_the_environment_is_not_used_where_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with fake() as slack, stage(slack) as on:
        slack.say("ann", on.dm.chat, "hello")
        await on.house.until(lambda: on.house.texts == ["hello"])
        await send(on)
