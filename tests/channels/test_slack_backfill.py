"""What was written while nobody listened: Slack keeps nothing, so it is read in the history (K13)."""

from dataclasses import replace

import pytest

from channels.message import Address, OutboundMessage
from tests.channels.host import Ledger, running
from tests.channels.slack_stage import QUICK, channel_of, fake, stage
from tests.fakes.platform import Fault
from tests.fakes.slack import FakeSlack
from tests.fakes.slack.workspace import BOT


async def heard_before(slack: FakeSlack) -> tuple[Ledger, Address]:
    """A house that has heard Ann before, and does not listen any more; and her chat with the bot."""
    house = Ledger()
    async with stage(slack, house) as on:
        slack.say("ann", on.dm.chat, "before")
        await house.until(lambda: len(house.texts) == 1)
    return house, on.dm


async def test_B5_13_what_was_written_during_downtime_is_taken_in_order():
    async with fake(retries_s=()) as slack:
        house, chat = Ledger(), slack.group("ann", "bob")
        async with stage(slack, house) as on:
            slack.say("ann", on.dm.chat, "before")
            thread = slack.say("ann", chat, slack.mention("a thread"))
            await house.until(lambda: len(house.texts) == 2)
        for person in ("ann", "bob"):
            slack.say(person, slack.private(person), f"{person} alone")
        slack.say("bob", chat, "not meant for you")
        slack.say("bob", chat, "in the thread", thread=thread)
        fresh = slack.say("bob", chat, slack.mention("a new thread"))
        slack.say("bob", chat, "and more of it", thread=fresh)
        slack.say("ann", on.dm.chat, "last")
        house.known.append(house.messages[1].address)
        async with stage(slack, house):
            pass
        assert house.texts[2:] == [
            "ann alone",
            "bob alone",
            "in the thread",
            "a new thread",
            "and more of it",
            "last",
        ]


async def test_B5_13_what_comes_while_the_history_is_read_waits_for_it():
    async with fake(retries_s=()) as slack:
        house, dm = await heard_before(slack)
        slack.say("ann", dm.chat, "missed")
        slack.fail("users.conversations", Fault("slow", seconds=0.4))
        async with running(channel_of(slack), house):
            await slack.until(lambda: bool(slack.sockets.open))
            slack.say("ann", dm.chat, "live")
            await house.until(lambda: len(house.texts) == 3)
        assert house.texts == ["before", "missed", "live"]


async def test_B5_13_a_time_that_cannot_be_does_not_make_it_miss_anything():
    async with fake(retries_s=()) as slack:
        house = Ledger()
        async with stage(slack, house) as on:
            for ts in ("99999999999.000000", "99999999999999999999", "inf"):
                event = {
                    "type": "message",
                    "channel": on.dm.chat,
                    "user": slack.person("ann"),
                    "text": "odd",
                    "ts": ts,
                }
                slack.sockets.send("events_api", {"event_id": f"Ev{ts}", "event": event})
            await house.until(lambda: len(house.entries) == 3)
        slack.say("ann", on.dm.chat, "missed")
        async with stage(slack, house):
            pass
        assert house.texts == ["odd", "missed"]
        assert len(house.poison) == 2


async def test_B5_13_at_the_first_start_nothing_older_is_answered():
    async with fake() as slack:
        slack.say("ann", slack.private("ann"), "old")
        async with stage(slack) as on:
            slack.say("ann", on.dm.chat, "new")
            await on.house.until(lambda: bool(on.house.texts))
            assert on.house.texts == ["new"]


async def test_B5_13_a_network_cut_loses_nothing():
    async with fake(ack_s=0.2, retries_s=()) as slack, stage(slack) as on:
        slack.cut()
        for number in range(20):
            slack.say("ann", on.dm.chat, str(number))
        await on.house.until(lambda: bool(on.house.ailments))
        await slack.mend()
        await on.house.until(lambda: len(on.house.texts) == 20)
        assert on.house.texts == [str(number) for number in range(20)]


async def test_B5_13_slack_itself_down_for_a_while_loses_nothing():
    async with fake(retries_s=()) as slack, stage(slack) as on:
        await slack.stop()
        slack.say("ann", on.dm.chat, "while down")
        await on.house.until(lambda: len(on.house.ailments) >= 2)
        await slack.start()
        await on.house.until(lambda: on.house.texts == ["while down"])


async def test_B5_13_a_history_that_fails_is_read_again_and_the_cursor_waits_for_it():
    async with fake(retries_s=()) as slack:
        house, dm = await heard_before(slack)
        kept = house.kept
        slack.say("ann", dm.chat, "missed")
        slack.fail("conversations.history", Fault("status", 500), Fault("retry", seconds=0.1))
        async with stage(slack, house):
            assert house.texts == ["before", "missed"]
        assert float(house.kept) > float(kept)


async def test_B5_13_without_the_scope_for_the_history_it_listens_all_the_same():
    async with fake() as slack:
        slack.methods.bare_history = True
        async with stage(slack) as on:
            slack.say("ann", on.dm.chat, "hello")
            await on.house.until(lambda: on.house.texts == ["hello"])


async def test_B5_13_the_cursor_is_never_ahead_of_what_the_daemon_has_taken():
    timing = replace(QUICK, margin_s=0.0)
    async with fake(retries_s=()) as slack:
        house = Ledger()
        async with stage(slack, house, timing=timing) as on:
            first = slack.say("ann", on.dm.chat, "first")
            await house.until(lambda: float(house.kept or 0) >= float(first))
            slack.fail("conversations.history", Fault("status", 500, times=1000))
            house.refuse()
            lost = slack.say("ann", on.dm.chat, "lost")
            await house.until(lambda: bool(house.ailments))
        assert float(house.kept) < float(lost)
        slack.server.faults.clear()
        async with stage(slack, house, timing=timing):
            assert house.texts == ["first", "lost"]


async def test_a_slack_that_lists_no_channels_is_asked_where_the_daemon_has_talked():
    async with fake(retries_s=()) as slack:
        slack.methods.forgotten = {"users.conversations"}
        house, dm = await heard_before(slack)
        house.known.append(dm)
        slack.say("ann", dm.chat, f"missed <@{BOT}>")
        async with stage(slack, house):
            assert house.texts == ["before", "missed"]


async def test_B5_13_when_slack_allows_no_more_calls_the_history_is_read_on_where_it_stopped():
    async with fake(retries_s=()) as slack:
        house, _ = await heard_before(slack)
        people = ["ann", *(f"person{number}" for number in range(9))]
        for person in people:
            slack.say(person, slack.private(person), person)
        slack.calls.made.clear()
        slack.fail(
            "conversations.history",
            *(Fault("slow"), Fault("slow"), Fault("retry", seconds=0.05)) * 3,
        )
        async with stage(slack, house):
            assert house.texts[1:] == people
        asked = [str(arguments["channel"]) for arguments in slack.calls.of("conversations.history")]
        assert len(asked) == len(set(asked)) + 3


async def test_B5_13_that_reading_the_history_takes_long_is_no_sign_that_messages_do_not_come():
    async with fake(retries_s=()) as slack:
        house, _ = await heard_before(slack)
        for person in ("ann", "bob"):
            slack.say(person, slack.private(person), person)
        slack.fail("conversations.history", Fault("slow"), Fault("retry", seconds=1.5))
        async with stage(slack, house, timing=replace(QUICK, quiet_s=0.3)):
            assert house.texts[1:] == ["ann", "bob"]
        assert slack.sockets.connected == 2
        assert not house.ailments


async def test_B5_13_what_is_not_taken_while_the_history_is_read_is_fetched_too():
    timing = replace(QUICK, hold_s=0.1, margin_s=0.0)
    async with fake(retries_s=()) as slack, stage(slack, timing=timing) as on:
        slack.fail("conversations.history", Fault("slow"), Fault("slow", seconds=1.0))
        slack.calls.made.clear()
        on.house.refuse()
        slack.say("ann", on.dm.chat, "first")
        await slack.until(lambda: len(slack.calls.of("conversations.history")) == 2)
        on.house.refuse()
        slack.say("ann", on.dm.chat, "second")
        await on.house.until(lambda: on.house.texts == ["first", "second"])


async def test_B5_13_what_comes_does_not_wait_for_ever_for_a_history_that_cannot_be_read():
    async with fake(retries_s=()) as slack, stage(slack, timing=replace(QUICK, hold_s=0.3)) as on:
        slack.fail("conversations.history", Fault("status", 500, times=1000))
        for number in (1, 2):
            on.house.refuse()
            slack.say("ann", on.dm.chat, f"not taken {number}")
            await on.house.until(lambda number=number: len(on.house.ailments) == number)
            slack.say("ann", on.dm.chat, f"taken {number}")
            await on.house.until(lambda number=number: f"taken {number}" in on.house.texts, 5)
        slack.server.faults.clear()
        await on.house.until(lambda: len(on.house.texts) == 4)


async def test_B5_13_what_comes_meanwhile_does_not_move_the_beginning_of_what_is_still_to_be_read():
    timing = replace(QUICK, hold_s=0.1, margin_s=0.0)
    async with fake(retries_s=()) as slack:
        house, dm = await heard_before(slack)
        slack.say("ann", dm.chat, "missed")
        slack.calls.made.clear()
        slack.fail("conversations.history", Fault("slow", seconds=1.0), Fault("status", 500))
        async with running(channel_of(slack, timing=timing), house):
            await slack.until(lambda: bool(slack.calls.of("conversations.history")))
            slack.say("ann", dm.chat, "live")
            await house.until(lambda: house.texts == ["before", "live", "missed"])


async def test_B5_13_a_thread_that_was_begun_under_a_message_of_ours_during_downtime_is_looked_through():
    async with fake(retries_s=()) as slack:
        house = Ledger()
        async with stage(slack, house) as on:
            sent = {person: slack.private(person) for person in ("ann", "zoe")}
            for person, chat in sent.items():
                sent[person] = await on.channel.send(
                    OutboundMessage(
                        replace(on.dm, chat=chat), on.channel.render("good morning")[0], person
                    )
                )
        for person, message in sent.items():
            slack.say(person, slack.private(person), f"{person} about this", thread=message)
        async with stage(slack, house):
            assert house.texts == ["ann about this"]
            assert house.messages[0].address == replace(on.dm, thread=sent["ann"])


async def test_B5_13_chats_that_slack_lists_late_are_looked_through_too():
    async with fake(retries_s=()) as slack:
        for number in range(250):
            slack.work.open("channel", f"old {number}").archived = True
        slack.private("cleo")
        house, _ = await heard_before(slack)
        slack.say("cleo", slack.private("cleo"), "missed")
        async with stage(slack, house):
            assert house.texts == ["before", "missed"]


async def test_B5_13_that_more_was_written_than_is_looked_through_is_told(
    caplog: pytest.LogCaptureFixture,
):
    async with fake(retries_s=()) as slack:
        house, chat = Ledger(), slack.group("ann", "bob")
        async with stage(slack, house):
            pass
        for number in range(1001):
            slack.say("bob", chat, slack.mention("a") if number else slack.mention("the first"))
        async with stage(slack, house):
            assert len(house.texts) == 1000
    assert [
        row
        for row in caplog.records
        if chat in row.getMessage() and "may be missed" in row.getMessage()
    ]
