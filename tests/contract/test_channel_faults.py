"""What goes wrong between a platform and its channel, on every channel alike (K1, #2, #13, #14; rows A14, F1)."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime
from time import monotonic

import pytest

from channels.base import ChannelError, DeliveryUnknown, Rejected, RetryLater, Revoked
from channels.message import OutboundMessage
from tests.channels.host import running
from tests.contract.channels import Stage, delivered, ended, left_behind, needs
from tests.fakes.platform import Fault

PASSING = {
    "500": lambda: Fault("status", 500),
    "502 of a gateway": lambda: Fault("status", 502, text="<html>bad gateway</html>"),
    "503": lambda: Fault("status", 503),
    "503 twice": lambda: Fault("status", 503, times=2),
    "429": lambda: Fault("retry", seconds=1),
    "dropped": lambda: Fault("drop"),
    "dropped twice": lambda: Fault("drop", times=2),
    "answer lost": lambda: Fault("lost"),
    "slow": lambda: Fault("slow", seconds=0.5),
    "html": lambda: Fault("garbage"),
}
MAY_BE_MISSING = ("dropped", "dropped twice", "html")
OF_NO_AVAIL = {"400": 400, "403": 403}


@pytest.mark.parametrize("fault", PASSING)
async def test_b5_13_what_passes_leaves_one_message_where_that_can_be_told_and_never_two(
    stage: Stage, fault: str
):
    await stage.send("the first", "k0")
    stage.platform.fail("*", PASSING[fault]())
    await delivered(stage, f"after {fault}", "k1")
    shown = [one.text for one in stage.ours(stage.ann)]
    blind = not (stage.channel.capabilities.idempotent or stage.channel.capabilities.can_find)
    missing = blind and fault in MAY_BE_MISSING
    assert shown == ["the first", f"after {fault}"] or (missing and shown == ["the first"])


@pytest.mark.parametrize("status", OF_NO_AVAIL.values(), ids=OF_NO_AVAIL)
async def test_what_the_platform_does_not_take_is_refused_and_tells_no_token(
    stage: Stage, status: int
):
    stage.platform.fail("*", Fault("status", status, times=2))
    with pytest.raises(Rejected) as error:
        await stage.send("hello")
    stage.tells_nothing(error.value)
    assert not stage.ours(stage.ann)


async def test_when_the_platform_wants_a_pause_it_is_told_how_long(stage: Stage):
    stage.platform.fail("*", Fault("retry", seconds=61))
    with pytest.raises(RetryLater) as error:
        await stage.send("hello")
    assert 60 <= error.value.after_s <= 70
    assert not stage.ours(stage.ann)


@pytest.mark.parametrize("kind", ["lost", "garbage"])
async def test_b5_13_an_answer_that_was_lost_is_unclear(stage: Stage, kind: str):
    stage.platform.fail("*", Fault(kind))
    with pytest.raises(DeliveryUnknown) as error:
        await stage.send("hello")
    stage.tells_nothing(error.value)


async def test_b5_13_what_was_sent_is_found_or_the_key_protects_as_the_channel_says(stage: Stage):
    since = datetime.now(UTC)
    await stage.send("another", "k0")
    stage.platform.fail("*", Fault("lost"))
    await ended(stage.send("hello", "k1"))
    _, shown = stage.ours(stage.ann)
    found = await stage.channel.find(OutboundMessage(stage.ann, stage.piece("hello"), "k1"), since)
    assert found == (shown.id if stage.channel.capabilities.can_find else "")
    if stage.channel.capabilities.idempotent:
        assert await stage.send("hello", "k1") == shown.id
    assert len(stage.ours(stage.ann)) == 2


async def test_b5_13_it_is_found_after_a_restart_too_and_among_many(stage: Stage):
    since = datetime.now(UTC)
    sent = [await stage.send(f"number {number}", f"k{number}") for number in range(6)]
    later = stage.anew()
    found = await later.channel.find(
        OutboundMessage(stage.ann, stage.piece("number 3"), "k3"), since
    )
    await later.channel.aclose()
    assert found == (sent[3] if stage.channel.capabilities.can_find else "")


async def test_b5_13_what_never_arrived_is_not_found(stage: Stage):
    since = datetime.now(UTC)
    await stage.send("another", "k0")
    stage.platform.fail("*", Fault("drop"))
    outcome = await ended(stage.send("hello", "k1"))
    assert isinstance(outcome, RetryLater | DeliveryUnknown)
    assert (
        await stage.channel.find(OutboundMessage(stage.ann, stage.piece("hello"), "k1"), since)
        == ""
    )


@needs("edits")
async def test_an_edit_whose_answer_was_lost_may_be_made_again(stage: Stage):
    sent = await stage.send("one")
    stage.platform.fail("*", Fault("lost"))
    assert isinstance(
        await ended(stage.channel.edit(sent, OutboundMessage(stage.ann, stage.piece("two")))),
        RetryLater | DeliveryUnknown,
    )
    await stage.channel.edit(sent, OutboundMessage(stage.ann, stage.piece("two")))
    assert [one.text for one in stage.ours(stage.ann)] == ["two"]


async def test_with_a_token_that_is_not_good_any_more_everything_is_revoked(stage: Stage):
    sent = await stage.send("hello")
    stage.platform.revoke()
    can = stage.channel.capabilities
    doing: list[Awaitable[object]] = [stage.send("more", "k2"), stage.channel.check()]
    if can.edits:
        doing.append(stage.channel.edit(sent, OutboundMessage(stage.ann, stage.piece("x"))))
        doing.append(stage.channel.delete(stage.ann, sent))
    if can.drafts:
        doing.append(stage.channel.show_draft(stage.group, "k3", "x", ""))
    for outcome in [await ended(one) for one in doing]:
        assert isinstance(outcome, Revoked)
        stage.tells_nothing(outcome)
    stage.platform.admit()
    assert await stage.send("and again", "k4")


async def test_b5_2_a_token_that_is_revoked_ends_it_and_a_good_one_lets_it_go_on(stage: Stage):
    async with stage.listening() as task:
        stage.platform.revoke()
        await asyncio.wait([task], timeout=20)
        assert isinstance(task.exception(), Revoked)
        stage.tells_nothing(task.exception() or Revoked())
    stage.platform.say("ann", stage.ann.chat, "meanwhile")
    stage.platform.admit()
    stage.host.known = [stage.ann]
    async with stage.listening():
        stage.platform.say("ann", stage.ann.chat, "afterwards")
        await stage.heard("meanwhile", "afterwards")
        await stage.send("it goes on")
    assert [one.text for one in stage.ours(stage.ann)] == ["it goes on"]


async def test_started_with_a_bad_token_it_ends_at_once(stage: Stage):
    stage.platform.revoke()
    with pytest.raises(Revoked):
        await asyncio.wait_for(stage.channel.run(stage.host), 10)


async def test_f1_a_cut_of_the_network_loses_nothing_and_is_told(stage: Stage):
    stage.host.known = [stage.ann]
    async with stage.listening():
        stage.platform.say("ann", stage.ann.chat, "before")
        await stage.heard("before")
        stage.platform.cut()
        for text in ("meanwhile 1", "meanwhile 2"):
            stage.platform.say("ann", stage.ann.chat, text)
        await stage.host.until(lambda: bool(stage.host.ailments))
        lives = stage.host.lives
        await stage.platform.mend()
        await stage.host.until(lambda: stage.host.lives > lives)
        stage.platform.say("ann", stage.ann.chat, "after")
        await stage.heard("before", "meanwhile 1", "meanwhile 2", "after")
        await stage.send("heard you")
    assert not [
        secret for secret in stage.secrets() for told in stage.host.ailments if secret in told
    ]


async def test_f1_many_short_cuts_in_a_burst_lose_nothing_and_change_no_order(stage: Stage):
    stage.host.known = [stage.ann]
    texts = [f"{number}" for number in range(30)]
    async with stage.listening():
        for number, text in enumerate(texts):
            stage.platform.say("ann", stage.ann.chat, text)
            if number % 10 == 5:
                await stage.host.until(lambda number=number: len(stage.host.texts) > number // 2)
                lives = stage.host.lives
                stage.platform.cut()
                await stage.platform.mend()
                await stage.host.until(lambda lives=lives: stage.host.lives > lives)
        await stage.heard(*texts)


async def test_a_platform_that_stops_for_a_while_is_waited_for(stage: Stage):
    stage.host.known = [stage.ann]
    async with stage.listening():
        await stage.platform.stop()
        await stage.host.until(lambda: bool(stage.host.ailments))
        assert isinstance(await ended(stage.send("not now")), RetryLater | DeliveryUnknown)
        await stage.platform.start()
        stage.platform.say("ann", stage.ann.chat, "there again")
        await stage.heard("there again")
        assert await stage.send("here too", "k2")


async def test_it_begins_while_the_platform_is_away(stage: Stage):
    await stage.platform.stop()
    async with running(stage.channel, stage.host):
        await stage.host.until(lambda: bool(stage.host.ailments))
        assert not stage.host.lives
        await stage.platform.start()
        await stage.host.until(lambda: bool(stage.host.lives))
        stage.platform.say("ann", stage.ann.chat, "hello")
        await stage.heard("hello")


@pytest.mark.parametrize(
    "away", [False, True], ids=["in the middle of it", "while the network is away"]
)
async def test_it_ends_soon_when_cancelled_and_may_be_closed_twice(stage: Stage, away: bool):
    task = asyncio.create_task(stage.channel.run(stage.host))
    await stage.host.until(lambda: bool(stage.host.lives))
    if away:
        stage.platform.cut()
        await stage.host.until(lambda: bool(stage.host.ailments))
    assert left_behind()
    began = monotonic()
    task.cancel()
    await asyncio.wait([task], timeout=20)
    for _ in range(2):
        await stage.channel.aclose()
    assert task.cancelled() and monotonic() - began < 5
    assert not left_behind()


async def a_second(stage: Stage) -> None:
    """Nothing is to happen in it."""
    with pytest.raises(TimeoutError):
        await stage.host.until(lambda: False, seconds=1)


async def test_b5_1_nothing_spins_when_nobody_talks_nor_after_poison(stage: Stage):
    async with stage.listening():
        stage.platform.poison()
        stage.platform.say("ann", stage.ann.chat, "hello")
        await stage.heard("hello")
        await stage.host.until(lambda: bool(stage.host.poison))
        before = len(stage.platform.calls.made)
        await a_second(stage)
        assert len(stage.platform.calls.made) - before < 10


async def test_b5_1_nothing_spins_while_the_daemon_can_write_nothing_or_the_network_is_away(
    stage: Stage,
):
    async with stage.listening():
        stage.host.refuse(1_000_000)
        stage.platform.say("ann", stage.ann.chat, "hello")
        before = len(stage.platform.calls.made)
        await a_second(stage)
        assert len(stage.host.offers) < 150 and len(stage.platform.calls.made) - before < 150
        stage.host.refuse(0)
        await stage.heard("hello")
        stage.platform.cut()
        before = len(stage.host.ailments)
        await a_second(stage)
        assert len(stage.host.ailments) - before < 150


async def test_closing_is_bounded_and_what_was_never_opened_can_be_closed(stage: Stage):
    async with asyncio.timeout(5):
        await stage.anew().channel.aclose()


async def test_what_goes_wrong_never_tells_a_token(stage: Stage):
    for fault in PASSING.values():
        stage.platform.fail("*", fault())
        outcome = await ended(stage.send("hello"))
        if isinstance(outcome, ChannelError):
            stage.tells_nothing(outcome)
    stage.platform.cut()
    for doing in (stage.send("hello"), stage.channel.check()):
        outcome = await ended(doing)
        assert isinstance(outcome, RetryLater | DeliveryUnknown)
        stage.tells_nothing(outcome)
