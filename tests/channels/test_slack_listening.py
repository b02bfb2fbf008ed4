"""Slack in: acknowledged only when the house has it, and never lost, whatever the connection does (K13)."""

from dataclasses import replace

import pytest

from channels.base import Revoked
from tests.channels.host import Ledger, running
from tests.channels.slack_stage import QUICK, channel_of, fake, stage
from tests.fakes.platform import Fault


async def test_B5_13_a_message_is_acknowledged_only_when_the_daemon_has_it():
    async with fake() as slack, stage(slack) as on:
        on.house.hold()
        slack.say("ann", on.dm.chat, "hello")
        await on.house.until(lambda: bool(on.house.offers))
        assert not slack.sockets.acked
        on.house.release()
        await slack.until(lambda: bool(slack.sockets.acked))
        assert on.house.texts == ["hello"]


async def test_B5_13_what_the_daemon_could_not_write_down_comes_again_from_slack_and_is_taken_once():
    async with fake(ack_s=0.3, retries_s=(0.0, 0.1)) as slack, stage(slack) as on:
        slack.methods.bare_history = True
        on.house.refuse()
        slack.say("ann", on.dm.chat, "hello")
        await slack.until(lambda: bool(slack.sockets.acked))
        assert on.house.texts == ["hello"]
        assert [attempt for _, attempt in slack.sockets.attempts] == [0, 1]
        assert on.house.ailments


async def test_B5_13_what_the_daemon_could_not_write_down_is_fetched_before_anything_newer_is_taken():
    async with fake() as slack, stage(slack) as on:
        on.house.refuse()
        slack.say("ann", on.dm.chat, "first")
        await on.house.until(lambda: bool(on.house.offers))
        slack.say("ann", on.dm.chat, "second")
        await on.house.until(lambda: len(on.house.texts) == 2)
        assert on.house.texts == ["first", "second"]


async def test_B5_13_an_event_survives_that_auth_test_fails():
    async with fake() as slack:
        slack.fail("auth.test", Fault("status", 500, times=2), Fault("garbage"), Fault("drop"))
        async with stage(slack) as on:
            slack.say("ann", on.dm.chat, "hello")
            await on.house.until(lambda: on.house.texts == ["hello"])
            assert on.house.ailments


async def test_F1_an_event_that_slack_sends_twice_is_one_message():
    async with fake() as slack, stage(slack) as on:
        message = slack.say("ann", on.dm.chat, "hello")
        slack.again(message)
        await slack.until(lambda: len(slack.sockets.acked) == 2)
        assert on.house.texts == ["hello"]


async def test_A14_a_mention_comes_as_two_events_and_is_one_message():
    async with fake() as slack, stage(slack) as on:
        slack.say("ann", slack.group("ann", "bob"), slack.mention("what time is it?"))
        await slack.until(lambda: len(slack.sockets.acked) == 2)
        assert on.house.texts == ["what time is it?"]


async def test_events_nobody_asked_for_are_acknowledged_and_dropped():
    async with fake() as slack, stage(slack) as on:
        slack.sockets.send(
            "events_api", {"event_id": "Ev1", "event": {"type": "team_join", "user": {"id": "U1"}}}
        )
        await slack.until(lambda: bool(slack.sockets.acked))
        assert on.house.entries == []


async def test_B5_13_what_nobody_can_read_is_set_aside_and_what_comes_after_it_is_taken():
    async with fake() as slack, stage(slack) as on:
        slack.poison()
        slack.sockets.send("events_api", {"event_id": "Ev2", "event": "no event"})
        slack.sockets.send("interactive", {"type": "block_actions", "user": 1})
        slack.sockets.say({"type": ["no", "envelope"]})
        slack.say("ann", on.dm.chat, "hello")
        await on.house.until(lambda: on.house.texts == ["hello"] and len(on.house.poison) == 3)
        await slack.until(lambda: len(slack.sockets.acked) == 4)


async def test_F1_messages_stay_in_order_and_are_taken_many_at_once():
    async with fake() as slack, stage(slack) as on:
        on.house.hold()
        wanted = [str(number) for number in range(100)]
        for text in wanted:
            slack.say("ann", on.dm.chat, text)
        await on.house.until(lambda: bool(on.house.offers))
        await slack.until(lambda: len(slack.sockets.attempts) == 100)
        on.house.release()
        await on.house.until(lambda: len(on.house.texts) == 100)
        assert on.house.texts == wanted
        assert len(on.house.offers) < 10


async def test_B5_13_when_slack_wants_a_new_connection_there_is_one_and_nothing_is_lost():
    async with fake() as slack, stage(slack) as on:
        slack.refresh()
        slack.say("ann", on.dm.chat, "in between")
        await slack.until(lambda: slack.sockets.connected == 2)
        slack.say("ann", on.dm.chat, "after")
        await on.house.until(lambda: len(on.house.texts) == 2)
        assert on.house.texts == ["in between", "after"]
        await slack.until(lambda: len(slack.sockets.open) == 1)
        assert on.house.ailments == []


async def test_B5_13_a_reset_connection_is_made_anew():
    async with fake() as slack, stage(slack) as on:
        slack.cut()
        await slack.mend()
        slack.say("ann", on.dm.chat, "hello")
        await on.house.until(lambda: on.house.texts == ["hello"])
        assert on.house.ailments


async def test_B5_13_a_half_open_connection_is_found_and_what_was_said_meanwhile_is_fetched():
    async with fake() as slack, stage(slack) as on:
        slack.sockets.go_deaf()
        slack.say("ann", on.dm.chat, "hello")
        await on.house.until(lambda: on.house.texts == ["hello"], 6)
        assert slack.sockets.connected == 2


async def test_B5_13_a_connection_from_which_nothing_comes_is_not_called_alive():
    async with fake() as slack, stage(slack) as on:
        await on.house.until(lambda: on.house.lives > 0)
        slack.sockets.go_deaf()
        lives = on.house.lives
        await on.house.until(lambda: bool(on.house.ailments), 6)
        assert on.house.lives <= lives + 1  # an answer that was on its way


async def test_B5_13_a_connection_that_lives_and_brings_nothing_is_found():
    timing = replace(QUICK, quiet_s=0.3)
    async with fake() as slack, stage(slack, timing=timing) as on:
        await on.house.until(lambda: on.house.lives > 0)
        slack.sockets.go_silent()
        slack.say("ann", on.dm.chat, "hello")
        await on.house.until(lambda: on.house.texts == ["hello"], 6)
        assert any("messages do not come" in why for why in on.house.ailments)


async def test_B5_13_a_quiet_night_costs_few_calls_however_many_threads_there_are():
    async with fake() as slack, stage(slack, timing=replace(QUICK, quiet_s=0.3)) as on:
        for number in range(20):
            slack.say("ann", slack.group("ann"), slack.mention(str(number)))
        await on.house.until(lambda: len(on.house.texts) == 20)
        for _ in range(2):
            slack.calls.made.clear()
            await slack.until(lambda: bool(slack.calls.of("users.conversations")))
        assert len(slack.calls.of("conversations.replies")) <= 5


async def test_B5_13_a_connection_on_which_slack_never_greets_is_given_up():
    timing = replace(QUICK, hello_s=0.3)
    async with fake() as slack:
        slack.sockets.silent = True
        async with stage(slack, timing=timing, listening=False) as on:
            await on.house.until(lambda: any("greet" in why for why in on.house.ailments))
            slack.sockets.silent = False
            slack.say("ann", on.dm.chat, "hello")
            await on.house.until(lambda: on.house.texts == ["hello"])


async def test_B5_13_opening_the_connection_fails_thrice_and_then_works():
    async with fake() as slack:
        slack.fail(
            "apps.connections.open", Fault("status", 500, times=2), Fault("retry", seconds=0.1)
        )
        async with stage(slack) as on:
            slack.say("ann", on.dm.chat, "hello")
            await on.house.until(lambda: on.house.texts == ["hello"])
            assert len(on.house.ailments) == 3


@pytest.mark.parametrize(
    "wrong", [{"app_token": "xapp-secret"}, {"bot_token": "xoxb-secret"}], ids=str
)
async def test_B5_13_a_bad_token_ends_it_at_once(wrong: dict[str, object]):
    async with fake() as slack:
        async with running(channel_of(slack, timing=QUICK, **wrong), Ledger()) as task:
            with pytest.raises(Revoked) as told:
                await task
        assert "secret" not in str(told.value)
        assert len(slack.calls.made) <= 2


async def test_B5_13_a_token_revoked_while_listening_ends_it():
    async with fake() as slack, stage(slack) as on:
        slack.revoke()
        with pytest.raises(Revoked):
            await on.task


async def test_B5_13_a_revoked_token_is_found_while_nobody_writes():
    timing = replace(QUICK, check_s=0.3)
    async with fake() as slack, stage(slack, timing=timing) as on:
        slack.server.revoked = True
        with pytest.raises(Revoked):
            await on.task


async def test_B5_13_closing_is_bounded_when_the_network_has_forgotten_the_connection():
    async with fake() as slack:
        house, channel = Ledger(), channel_of(slack)
        async with running(channel, house):
            await slack.until(lambda: len(slack.sockets.open) == 1)
            slack.sockets.go_deaf()
        await slack.until(lambda: not slack.sockets.open, 3)


async def test_the_daemon_hears_that_slack_is_there_also_when_nobody_writes():
    async with fake() as slack, stage(slack) as on:
        await on.house.until(lambda: on.house.lives >= 4)
