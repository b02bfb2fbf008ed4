"""A group of Telegram becomes a supergroup with another id: its conversation goes on there, and nothing is lost (F1)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.channels.stage import Stage, by_bot, said_last, stage
from tests.fakes.openai import by, calls, gate, says
from tests.fakes.platform import OTHER, OWNER, Fault
from tests.fakes.telegram import FakeTelegram

COMMAND = "echo done >> hits; rm -f nothing"
SESSIONS = "SELECT COUNT(DISTINCT session), COUNT(*) FROM turns"


@pytest_asyncio.fixture
async def it(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage("telegram", tmp_path) as it:
        it.model.otherwise(by(lambda body: says("re: " + said_last(body).split()[-1])))
        yield it


def telegram(it: Stage) -> FakeTelegram:
    assert isinstance(it.platform, FakeTelegram)
    return it.platform


async def first_lines(it: Stage, chat: str, *texts: str) -> None:
    """Wait until the bot has said this there, whatever files it names below."""
    await it.platform.until(
        lambda: [one.text.partition("\n")[0] for one in by_bot(it.platform, chat)] == list(texts)
    )


def says_there(it: Stage, chat: str, text: str) -> None:
    it.platform.say(OWNER, chat, it.platform.mention(text))


async def moves_while_answering(
    it: Stage, *, announced: bool, faults: tuple[Fault, ...] = ()
) -> str:
    """The group's new id; the answer is ready now."""
    group, ready = it.platform.group(OWNER, OTHER), asyncio.Event()
    it.model.script(gate(ready, says("re: one")))
    await it.listening()
    says_there(it, group, "one")
    await it.model.asked(1)
    new = telegram(it).people.upgrade(group, announced=announced)
    if announced:
        await it.until("SELECT chat FROM moved_chats", new)
    it.platform.fail("sendMessage", *faults)
    ready.set()
    return new


async def goes_on(it: Stage, new: str) -> None:
    """In the same conversation."""
    await it.says(new, "re: one")
    says_there(it, new, "two")
    await it.says(new, "re: one", "re: two")
    assert it.table(SESSIONS) == [(1, 2)]
    asked = [str(message["content"]) for message in it.model.requests[-1]["messages"]]
    assert any("one" in text for text in asked[:-1]), "the model has the history"
    assert by_bot(it.platform, it.platform.group(OWNER, OTHER)) == []


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "refused"])
async def test_the_answer_and_the_conversation_follow_to_the_new_chat(
    it: Stage, announced: bool
) -> None:
    await goes_on(it, await moves_while_answering(it, announced=announced))


@pytest.mark.parametrize(
    ("left", "faults"),
    [(1, ()), (2, (Fault("slow"), Fault("drop")))],
    ids=["refused and not known", "known and not sent again"],
)
async def test_who_is_killed_after_the_refusal_sends_the_answer_once(
    it: Stage, left: int, faults: tuple[Fault, ...]
) -> None:
    it.fate.dies_at("sendMessage", left)
    new = await moves_while_answering(it, announced=False, faults=faults)
    await it.dies()
    assert it.table("SELECT COUNT(*) FROM moved_chats") == [(left - 1,)]
    await it.listening()
    await goes_on(it, new)
    await it.until("SELECT COUNT(*) FROM outbox WHERE state = 'sent'", 2)


async def test_news_of_the_move_that_was_not_acknowledged_comes_again(it: Stage) -> None:
    group = it.platform.group(OWNER, OTHER)
    await it.listening()
    says_there(it, group, "one")
    await it.says(group, "re: one")
    await it.until("SELECT state FROM outbox", "sent")
    it.fate.freeze()
    new = telegram(it).people.upgrade(group)
    says_there(it, new, "two")
    await it.handed_out()
    it.fate.kill()
    await it.fate.buried()
    await it.listening()
    await it.says(new, "re: two")
    assert it.table(SESSIONS) == [(1, 2)]


async def test_what_was_granted_to_the_group_holds_in_the_new_chat(it: Stage) -> None:
    group = it.platform.group(OWNER, OTHER)
    it.model.script(calls(("shell", {"command": COMMAND})), says("did it"))
    await it.listening()
    says_there(it, group, "do it")
    await it.platform.until(lambda: any(one.buttons for one in it.platform.shown(group)))
    (question,) = (one for one in it.platform.shown(group) if one.buttons)
    new = telegram(it).people.upgrade(group)
    await it.until("SELECT chat FROM moved_chats", new)
    data = next(one.data for one in question.buttons if one.label == "This session")
    it.platform.press(OWNER, question.id, data)
    await first_lines(it, new, "did it")
    it.model.script(calls(("shell", {"command": COMMAND})), says("did it again"))
    says_there(it, new, "and again")
    await first_lines(it, new, "did it", "did it again")
    assert len((it.fate.home / "workspace" / "hits").read_text().splitlines()) == 2


async def test_a_server_that_sends_the_answer_to_and_fro_gets_it_twice_at_most(it: Stage) -> None:
    new = await moves_while_answering(it, announced=True)
    telegram(it).world.chats[int(new)]["migrated_to"] = int(it.platform.group(OWNER, OTHER))
    await it.until("SELECT state FROM outbox WHERE kind = 'reply'", "failed")
    assert len(it.platform.calls.of("sendMessage")) <= 2
