"""Answers to commands where the bot is no member: by the address that came with the command, which is a secret (A14, K13)."""

import logging

import pytest

from tests.channels.host import Ledger
from tests.channels.slack_stage import Stage, fake, stage
from tests.fakes.platform import Fault
from tests.fakes.slack import FakeSlack
from tests.fakes.slack.workspace import BOT

LONG = "\n".join(f"line {number} of a long answer" for number in range(400))


def elsewhere(slack: FakeSlack) -> str:
    """A channel in which the bot is not."""
    channel = slack.work.open("channel", "ann", "zoe")
    channel.members.discard(BOT)
    return channel.id


async def test_A14_a_private_chat_between_others_is_not_the_assistants():
    async with fake() as slack, stage(slack) as on:
        theirs = slack.work.open("im", "ann", "zoe")
        theirs.members.discard(BOT)
        for chat in (theirs.id, on.dm.chat) * 2:
            slack.slash("ann", chat, "status")
        slack.shortcut("ann", slack.work.post(theirs, slack.person("zoe"), text="hi")["ts"], "stop")
        slack.shortcut("ann", slack.say("ann", on.dm.chat, "hi"), "stop")
        await on.house.until(lambda: len(on.house.asked) == 6)
        assert {(asked.address.chat, asked.private) for asked in on.house.asked} == {
            (theirs.id, False),
            (on.dm.chat, True),
        }


async def test_A14_a_command_does_not_wait_for_a_slack_that_is_slow_to_say_whose_chat_it_is():
    async with fake() as slack, stage(slack) as on:
        slack.fail("conversations.info", Fault("slow", seconds=20.0), Fault("status", 500))
        for number in (1, 2, 3):
            slack.slash("ann", on.dm.chat, "status")
            await on.house.until(lambda number=number: len(on.house.asked) == number, 5)
        assert [asked.private for asked in on.house.asked] == [False, False, True]


async def asked_long(on: Stage, chat: str) -> None:
    """A command whose reply comes after the acknowledgement."""
    on.house.hold()
    on.slack.slash("ann", chat, "status")
    await on.slack.until(lambda: bool(on.slack.sockets.acked))
    on.house.release()


def told(caplog: pytest.LogCaptureFixture) -> str:
    """What we log; the fake writes down what it is asked for."""
    return "\n".join(
        record.getMessage() for record in caplog.records if record.name != "aiohttp.access"
    )


async def test_A14_a_late_reply_where_the_bot_is_no_member_is_shown_all_the_same(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG)
    async with fake() as slack, stage(slack, Ledger(reply="all is well")) as on:
        await asked_long(on, elsewhere(slack))
        await slack.until(lambda: slack.pressed() == ["all is well"])
        assert slack.calls.of("response") == [{"response_type": "ephemeral", "text": "all is well"}]
        assert ("/response", "") in slack.server.tokens
        [secret] = slack.server.responses
        assert secret not in told(caplog) + repr(on.house.asked) + "".join(on.house.ailments)


async def test_A14_a_long_reply_there_is_shown_whole():
    async with fake() as slack, stage(slack, Ledger(reply=LONG)):
        slack.slash("ann", elsewhere(slack), "status")
        await slack.until(lambda: "line 399" in "".join(slack.pressed()))
        shown = slack.pressed()
        assert len(shown) == len(slack.calls.of("response")) > 2
        assert "\n".join(shown).split() == LONG.split()
        assert len(slack.calls.of("chat.postEphemeral")) == 1


async def test_A14_where_the_bot_is_a_member_the_address_is_not_used():
    async with fake() as slack, stage(slack, Ledger(reply="all is well")) as on:
        await asked_long(on, slack.group("ann"))
        await slack.until(lambda: slack.pressed() == ["all is well"])
        assert not slack.calls.of("response")


async def test_A14_the_address_is_used_five_times_at_most(caplog: pytest.LogCaptureFixture):
    async with fake() as slack, stage(slack, Ledger(reply=LONG * 4)) as on:
        await asked_long(on, elsewhere(slack))
        await slack.until(lambda: len(slack.calls.of("response")) == 5)
        await asked_long(on, on.dm.chat)
        await slack.until(lambda: "line 399" in "".join(slack.pressed()))
        assert len(slack.calls.of("response")) == 5
    assert "the rest was not shown" in caplog.text


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://hooks.slack.com/commands/s3cret",
        "https://hooks.slack.com.example.org/commands/s3cret",
        "https://hooks.slack.com@example.org/commands/s3cret",
        "https://notslack.com/commands/s3cret",
        "//hooks.slack.com/commands/s3cret",
        "https://[/commands/s3cret",
        "file:///s3cret",
        "SAME PORT",
    ],
)
async def test_B5_13_an_address_that_is_not_slacks_is_not_asked(
    address: str, caplog: pytest.LogCaptureFixture
):
    async with fake() as other, fake() as slack, stage(slack, Ledger(reply="all is well")) as on:
        address = address if address != "SAME PORT" else f"{other.server.url}/response/s3cret"
        chat, who = (
            elsewhere(slack),
            {"user_id": slack.person("ann"), "command": "/aidaemon", "text": "status"},
        )
        on.house.hold()
        slack.sockets.send(
            "slash_commands",
            {**who, "channel_id": chat, "trigger_id": "1", "response_url": address},
        )
        await slack.until(lambda: bool(slack.sockets.acked))
        on.house.release()
        await on.house.until(lambda: bool(on.house.asked))
        await asked_long(on, on.dm.chat)
        await slack.until(lambda: slack.pressed() == ["all is well"])
        assert not other.calls.made
        assert not slack.calls.of("response")
    assert "not_in_channel" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "fault", [Fault("drop"), Fault("status", 500), Fault("status", 404), Fault("garbage")]
)
async def test_A14_that_the_answer_is_not_taken_stops_nothing(
    fault: Fault, caplog: pytest.LogCaptureFixture
):
    async with fake() as slack, stage(slack, Ledger(reply="all is well")) as on:
        slack.fail("response", fault)
        await asked_long(on, elsewhere(slack))
        await slack.until(lambda: len(slack.calls.of("response")) == 1)
        await asked_long(on, elsewhere(slack))
        await slack.until(lambda: slack.pressed() == ["all is well"])
        assert not any(secret in told(caplog) for secret in slack.server.responses)
