"""What is to be sent arrives in order and once, wherever the daemon is killed (K12, #13; guarantees.md promise 4)."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.app.daemon import Daemon
from tests.delivery.scripts import echo
from tests.delivery.stage import AT_ONCE, Cutter, Journal, at_home, is_sent, outbox, settled, states
from tests.fakes.channel import CAN, OTHER, OWNER, FakeChannel, Trouble
from tests.fakes.openai import FakeOpenAI, says

LONG = "".join(f"<{number:03}>" for number in range(30))  # three pieces of fifty characters
SMALL = replace(CAN, limit=50, drafts=False)
KINDS = {
    "keyed": replace(SMALL, idempotent=True, can_find=False),
    "lookup": SMALL,
    "blind": replace(SMALL, can_find=False),
}


async def has(house: Daemon, number: int) -> bool:
    return len(await outbox(house)) == number


async def test_a14_a_message_is_answered_where_it_came_from(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    echo(model)
    async with at_home(tmp_path, model, channel) as house:
        await channel.say("hello")
        await channel.until(lambda: channel.texts() == ["re: hello"])
        await channel.say("you two", OTHER, chat="-7", private=False)
        await channel.until(lambda: channel.texts("-7") == ["re: you two"])
        assert channel.shown("-7")[0].reply_to == "2" and channel.shown()[0].reply_to == ""
    async with at_home(tmp_path, model, channel) as house:
        assert await states(house) == ["sent", "sent"]
    assert len(channel.stood) == 2


async def test_f1_replies_come_in_order_and_one_slow_conversation_holds_up_no_other(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    echo(model)
    gate = asyncio.Event()
    channel.fail("send", Trouble(before=gate.wait))
    async with at_home(tmp_path, model, channel):
        await channel.say("slow 1")
        await channel.until(lambda: channel.of("send"))
        for number in range(2, 5):
            await channel.say(f"slow {number}")
        for number in range(3):
            await channel.say(f"quick {number}", OTHER)
        await channel.until(lambda: len(channel.texts(OTHER)) == 3)
        assert channel.texts() == []
        gate.set()
        await channel.until(lambda: len(channel.texts()) == 4)
    assert channel.texts() == [f"re: slow {number}" for number in range(1, 5)]
    assert channel.texts(OTHER) == [f"re: quick {number}" for number in range(3)]


async def test_b5_12_b5_13_a_kill_at_any_step_of_a_delivery_loses_no_piece_and_doubles_none(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Where the platform knows neither keys nor what it has, one piece is doubled, by a kill between send and mark alone."""
    model.otherwise(says(LONG))
    pieces = [LONG[at : at + 50] for at in range(0, len(LONG), 50)]
    for kind, can in KINDS.items():
        doubled = []
        for at in range(1, 100):
            channel, cutter = FakeChannel(capabilities=can), Cutter(at)
            channel.fail("send", cutter.around())
            home = tmp_path / f"{kind}{at}"
            async with at_home(home, model, channel, times=AT_ONCE, parts=Journal(cutter).parts()):
                await channel.say("go")
                with suppress(TimeoutError):
                    await channel.until(
                        lambda c=cutter, ch=channel: c.reached.is_set() or len(ch.stood) == 3, 5
                    )
                    if not cutter.reached.is_set():
                        await asyncio.wait_for(cutter.reached.wait(), 0.1)
            if not cutter.reached.is_set():
                break
            channel.troubles.clear()
            async with at_home(home, model, channel) as house:
                await settled(lambda h=house: is_sent(h))
            texts = channel.texts()
            assert list(dict.fromkeys(texts)) == pieces, (kind, at, texts)
            doubled += [at] * (len(texts) - 3)
        assert at == 15, (
            "every step was tried: two for each of four writes, two for each of three sends"
        )
        assert doubled == ([4, 5, 8, 9, 12, 13] if kind == "blind" else []), kind


async def test_b5_12_everything_that_waits_goes_out_in_order_after_a_restart(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    echo(model)
    channel.fail("send", Trouble())
    async with at_home(tmp_path, model, channel, times=AT_ONCE) as house:
        for number in range(5):
            await channel.say(f"{number}")
        await settled(lambda: has(house, 5))
    assert channel.texts() == []
    async with at_home(tmp_path, model, channel):
        await channel.until(lambda: len(channel.texts()) == 5)
    assert channel.texts() == [f"re: {number}" for number in range(5)]


async def test_f1_a_message_that_comes_again_is_answered_once(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    echo(model)
    async with at_home(tmp_path, model, channel):
        inbound = await channel.say("hello")
        await channel.arrive(inbound, inbound)
        await channel.until(lambda: channel.texts())
    async with at_home(tmp_path, model, channel):
        await channel.arrive(inbound)
        await channel.say("and now")
        await channel.until(lambda: len(channel.texts()) == 2)
    assert channel.texts() == ["re: hello", "re: and now"] and model.count == 2


async def test_f1_replies_that_are_marked_while_the_outbox_is_read_are_not_sent_again(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Sixty conversations at once keep the outbox being read all the time."""
    echo(model)
    channel = FakeChannel(capabilities=replace(KINDS["blind"], limit=4096))
    async with at_home(tmp_path, model, channel):
        people = [str(number) for number in range(100, 160)]
        for round_ in range(5):
            await asyncio.gather(
                *(channel.say(f"{round_}", OWNER, chat=f"-{one}", private=False) for one in people)
            )
            await channel.until(lambda n=round_: len(channel.stood) == 60 * (n + 1))
        for one in people:
            assert channel.texts(f"-{one}") == [f"re: {round_}" for round_ in range(5)]


@pytest.mark.parametrize("kind", KINDS)
async def test_b5_13_two_equal_replies_are_two(
    tmp_path: Path, model: FakeOpenAI, kind: str
) -> None:
    model.otherwise(says("ok"))
    channel = FakeChannel(capabilities=KINDS[kind])
    async with at_home(tmp_path, model, channel):
        await channel.say("one")
        await channel.until(lambda: channel.texts() == ["ok"])
        await channel.say("two")
        await channel.until(lambda: channel.texts() == ["ok", "ok"])
