"""What a channel says it can do is tried; what it cannot is Refused, and the house has its fallback (A14, E12)."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from channels.base import Rejected
from channels.message import Choice, MessagePart, OutboundMessage
from tests.contract.channels import Stage, ended

Use = Callable[[Stage], Awaitable[bool]]


async def idempotent(stage: Stage) -> bool:
    """The same key twice gives one message."""
    return (
        await stage.send("hello") == await stage.send("hello") and len(stage.ours(stage.ann)) == 1
    )


async def can_find(stage: Stage) -> bool:
    """What was sent under a key is found, and nothing under another with other words."""
    since = datetime.now(UTC)
    sent = await stage.send("hello")
    found = await stage.channel.find(OutboundMessage(stage.ann, stage.piece("hello"), "k1"), since)
    other = await stage.channel.find(OutboundMessage(stage.ann, stage.piece("bye"), "k2"), since)
    return (found, other) == (sent, "")


async def edits(stage: Stage) -> bool:
    await stage.channel.edit(
        await stage.send("one"), OutboundMessage(stage.ann, stage.piece("two"))
    )
    return [one.text for one in stage.ours(stage.ann)] == ["two"]


async def buttons(stage: Stage) -> bool:
    await stage.channel.send(
        OutboundMessage(stage.ann, stage.piece("Which?"), "k1", choices=[Choice("this", "this")])
    )
    return [button.data for button in stage.ours(stage.ann)[0].buttons] == ["this"]


async def threads(stage: Stage) -> bool:
    where = await stage.thread()
    await stage.send("an answer", address=where)
    return [one.text for one in stage.ours(where)] == ["an answer"] and where != stage.group


async def reactions(stage: Stage) -> bool:
    asked = stage.platform.say("ann", stage.ann.chat, "hello")
    await stage.channel.mark_seen(stage.ann, asked)
    return bool(stage.platform.shown(stage.ann.chat)[0].reactions)


async def drafts(stage: Stage) -> bool:
    shown = await stage.channel.show_draft(stage.ann, "k1", "half a sent", "")
    (seen,) = stage.ours(stage.ann)
    return seen.text == "half a sent" and (seen.draft or seen.id == shown)


async def typing(stage: Stage) -> bool:
    before = len(stage.platform.calls.of(stage.kind.typing))
    asked = stage.platform.say("ann", stage.ann.chat, "hello")
    await stage.channel.show_typing(
        stage.at(stage.ann.chat, asked if stage.kind.name == "slack" else ""), "reads"
    )
    return len(stage.platform.calls.of(stage.kind.typing)) == before + 1


USES: dict[str, Use] = {
    use.__name__: use
    for use in (idempotent, can_find, edits, buttons, threads, reactions, drafts, typing)
}
FOR_SAFETY = ("idempotent", "can_find")


@pytest.mark.parametrize("flag", USES)
async def test_a14_what_it_says_it_can_do_it_can_and_no_more(stage: Stage, flag: str):
    claims = bool(getattr(stage.channel.capabilities, flag))
    if claims or flag in FOR_SAFETY:
        assert await USES[flag](stage) is claims
    else:
        assert isinstance(await ended(USES[flag](stage)), Rejected)


async def test_a_message_of_as_many_characters_as_it_says_is_taken_and_a_longer_one_is_cut_before(
    stage: Stage,
):
    limit = stage.channel.capabilities.limit
    await stage.channel.send(
        OutboundMessage(stage.ann, MessagePart("x" * limit, "x" * limit), "k1")
    )
    assert len(stage.ours(stage.ann)[0].text) == limit
    assert len(stage.channel.render("x" * (limit + 1))) == 2
    assert len(stage.channel.render("x" * (limit * 9 // 10))) == 1


async def test_e12_what_it_says_of_time_and_size_makes_sense(stage: Stage):
    can = stage.channel.capabilities
    assert 0 < can.draft_every_s <= 5 and 0 < can.typing_every_s <= 60
    assert can.max_upload >= 1 << 20 and can.max_download >= 1 << 20
