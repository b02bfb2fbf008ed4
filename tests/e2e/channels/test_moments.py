"""A daemon dies at each of the moments at which a channel could lose something or do it twice, and is started again (B5)."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from daemon.settings.secrets import SecretStore
from tests.e2e.channels.stage import Stage, by_bot, said_last, stage
from tests.fakes.openai import Exchange, Json, Step, by, calls, gate, says
from tests.fakes.platform import OTHER, OWNER, Fault, Shown
from tests.fakes.platforms import NAMES, SEND
from tests.fakes.slack import FakeSlack
from tests.fakes.telegram import FakeTelegram

COMMAND = "echo done >> hits; rm -f nothing"
HALF = "The first half of a long answer, which goes on and on, " * 3
ONE_TURN_EACH = "SELECT COUNT(*), COUNT(DISTINCT input_id) FROM turns"


@pytest_asyncio.fixture(params=NAMES)
async def it(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(request.param, tmp_path) as it:
        it.model.otherwise(by(lambda body: says("re: " + said_last(body).split()[-1])))
        yield it


def noted(it: Stage, step: Step) -> Step:
    """The step; that the model was asked is something that may kill."""

    async def asked(x: Exchange) -> web.StreamResponse:
        it.fate.happens("asked")
        return await step(x)

    return asked


def begins(text: str) -> Step:
    """The first half of an answer, and then nothing."""

    async def step(x: Exchange) -> web.StreamResponse:
        response = await x.open()
        chunk = {
            "id": "half",
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": {"content": text}}],
        }
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        return await x.hang()

    return step


async def test_B5_1_what_was_handed_out_and_not_taken_is_handed_out_again(it: Stage) -> None:
    chat = it.platform.private(OWNER)
    await it.listening()
    it.fate.freeze()
    it.platform.say(OWNER, chat, "one")
    await it.handed_out()
    it.fate.kill()
    await it.fate.buried()
    await it.listening()
    await it.says(chat, "re: one")
    assert it.table(ONE_TURN_EACH) == [(1, 1)]


async def test_B5_2_what_was_taken_and_not_acknowledged_is_dropped_when_it_comes_again(
    it: Stage,
) -> None:
    chat = it.platform.private(OWNER)
    await it.listening()
    it.fate.freeze()
    it.platform.fail("getUpdates", Fault("drop", times=1000))
    it.platform.say(OWNER, chat, "one")
    await it.handed_out()
    if isinstance(it.platform, FakeSlack):
        it.platform.sockets.go_deaf()
    it.model.script(noted(it, says("never")))
    it.fate.dies_at("asked")
    it.fate.thaw()
    await it.dies()
    if isinstance(it.platform, FakeTelegram):
        it.platform._faults.clear()
    await it.listening()
    await it.says(chat, "re: one")
    it.platform.say(OWNER, chat, "two")
    await it.says(chat, "re: one", "re: two")
    assert it.table(ONE_TURN_EACH) == [(2, 2)]


@pytest.mark.parametrize("where", ["private", "group"])
async def test_B5_4_a_reply_takes_the_place_of_the_draft_that_a_crash_left(
    it: Stage, where: str
) -> None:
    together = it.platform.group(OWNER, OTHER)
    chat = it.platform.private(OWNER) if where == "private" else together
    await it.listening()
    it.model.script(begins(HALF))
    it.platform.say(OWNER, chat, "one" if where == "private" else it.platform.mention("one"))
    await it.platform.until(
        lambda: any(HALF[:20] in one.text and one.by_bot for one in it.platform.shown(chat))
    )
    left = [one.id for one in by_bot(it.platform, chat)]
    if (
        it.platform.name == "telegram" and left
    ):  # what was shown and never noted, nobody can find at Telegram
        await it.until("SELECT message FROM drafts", left[0])
    it.fate.kill()
    await it.fate.buried()
    await it.listening()
    await it.says(chat, "re: one")
    assert [one.id for one in by_bot(it.platform, chat)] == left or not left
    assert not any(one.draft for one in it.platform.shown(chat))


async def test_B5_12_what_was_ready_and_could_not_be_sent_is_sent_once(it: Stage) -> None:
    chat, gone = it.platform.private(OWNER), asyncio.Event()
    it.model.script(gate(gone, says("re: one")))
    await it.listening()
    it.platform.say(OWNER, chat, "one")
    await it.model.asked(1)
    it.platform.cut()
    gone.set()
    await it.until("SELECT kind FROM outbox", "reply")
    it.fate.kill()
    await it.fate.buried()
    await it.platform.mend()
    await it.listening()
    await it.says(chat, "re: one")
    await it.until("SELECT state FROM outbox", "sent")


async def test_B5_12_what_was_marked_and_never_came_to_the_platform_is_sent_once(it: Stage) -> None:
    chat, send = it.platform.private(OWNER), SEND[it.platform.name]
    await it.listening()
    it.platform.fail(send, Fault("drop"))
    it.fate.dies_at(send)
    it.platform.say(OWNER, chat, "one")
    await it.dies()
    assert by_bot(it.platform, chat) == []
    await it.listening()
    it.platform.say(OWNER, chat, "two")
    await it.says(chat, "re: one", "re: two")
    assert it.table("SELECT attempts FROM outbox ORDER BY n") == [(2,), (1,)]


async def test_B5_13_what_was_sent_and_not_marked_is_sent_again_only_where_nobody_can_tell(
    it: Stage,
) -> None:
    chat, send = it.platform.private(OWNER), SEND[it.platform.name]
    await it.listening()
    it.fate.dies_at(send)
    it.platform.say(OWNER, chat, "one")
    await it.dies()
    await it.platform.until(lambda: bool(by_bot(it.platform, chat)))
    await it.listening()
    it.platform.say(OWNER, chat, "two")
    twice = ["re: one"] if it.platform.name == "telegram" else []
    await it.says(chat, *twice, "re: one", "re: two")


async def asked(it: Stage, chat: str) -> tuple[str, str]:
    """A question with buttons stands in the chat: its message, and the data of "Once"."""
    it.model.script(calls(("shell", {"command": COMMAND})))
    it.model.otherwise(says("did it"))  # asked again after a kill
    it.platform.say(OWNER, chat, "do it")
    await it.platform.until(lambda: any(one.buttons for one in it.platform.shown(chat)))
    (question,) = (one for one in it.platform.shown(chat) if one.buttons)
    return question.id, next(button.data for button in question.buttons if button.label == "Once")


def hits(it: Stage) -> int:
    """How often the command ran."""
    file = it.fate.home / "workspace" / "hits"
    return len(file.read_text().splitlines()) if file.exists() else 0


async def test_B5_15_the_buttons_of_a_question_work_after_a_restart(it: Stage) -> None:
    chat = it.platform.private(OWNER)
    await it.listening()
    message, once = await asked(it, chat)
    await it.until("SELECT state FROM outbox", "sent")
    it.fate.kill()
    await it.fate.buried()
    await it.listening()
    it.platform.press(OWNER, message, once)
    await it.platform.until(lambda: by_bot(it.platform, chat)[-1].text.startswith("did it"))
    assert hits(it) == 1
    await it.platform.until(lambda: not any(one.buttons for one in it.platform.shown(chat)))
    it.platform.press(OWNER, message, once)
    await it.platform.until(lambda: any("settled" in text for text in it.platform.pressed()))
    assert hits(it) == 1 and len(by_bot(it.platform, chat)) == 2


async def put(it: Stage, chat: str) -> Shown:
    """The model asks the owner for a colour: the question with its buttons."""
    question = {"question": "Which colour?", "options": ["red", "dark blue"]}
    it.model.script(calls(("ask_user", {**question, "default": "red"})))
    it.model.otherwise(by(says_what_came))  # asked again after a kill
    it.platform.say(OWNER, chat, "paint it")
    await it.platform.until(lambda: any(one.buttons for one in it.platform.shown(chat)))
    (shown,) = (one for one in it.platform.shown(chat) if one.buttons)
    return shown


def says_what_came(body: Json) -> Step:
    return says(f"came: {body['messages'][-1]['content']}")


async def test_H1_an_option_is_pressed_after_a_restart_and_counts_once(it: Stage) -> None:
    chat = it.platform.private(OWNER)
    await it.listening()
    question = await put(it, chat)
    assert [one.label for one in question.buttons] == ["red", "dark blue", "Skip"]
    parts = "Which colour?", "2. dark blue", "or write your answer", "go on with: red"
    assert all(part in question.text for part in parts), question.text
    await it.until("SELECT state FROM outbox", "sent")
    it.fate.kill()
    await it.fate.buried()
    await it.listening()
    it.platform.press(OWNER, question.id, question.buttons[1].data)
    came = "came: They chose: dark blue"
    await it.platform.until(lambda: by_bot(it.platform, chat)[-1].text == came)
    await it.platform.until(lambda: not any(one.buttons for one in it.platform.shown(chat)))
    assert any("dark blue, chosen by" in one.text for one in it.platform.shown(chat))
    it.platform.press(OWNER, question.id, question.buttons[0].data)
    await it.platform.until(lambda: any("settled" in text for text in it.platform.pressed()))
    assert len(by_bot(it.platform, chat)) == 2


async def test_H1_a_typed_answer_whose_daemon_died_comes_to_its_question(it: Stage) -> None:
    chat = it.platform.private(OWNER)
    await it.listening()
    await put(it, chat)
    it.platform.say(OWNER, chat, "rather green")
    await it.until("SELECT COUNT(*) FROM inbox WHERE body = 'rather green'", 1)
    it.fate.kill()
    await it.fate.buried()
    await it.listening()
    await it.platform.until(lambda: by_bot(it.platform, chat)[-1].text == "came: rather green")
    assert len(by_bot(it.platform, chat)) == 2


async def test_H2_a_secret_is_never_taken_in_a_chat_app(it: Stage) -> None:
    """What is typed there meanwhile is not kept; the button counts once the secret is stored."""
    chat, value = it.platform.private(OWNER), "hunter2-and-more"
    await it.listening()
    wanted = {"name": "shop", "host": "shop.example", "why": "to look"}
    it.model.script(calls(("ask_secret", wanted)), by(says_what_came))
    it.platform.say(OWNER, chat, "look into the basket")
    await it.platform.until(lambda: any(one.buttons for one in it.platform.shown(chat)))
    (question,) = (one for one in it.platform.shown(chat) if one.buttons)
    assert [one.label for one in question.buttons] == ["It is stored", "No"]
    for part in ("secret set shop --host shop.example", "Never write it here"):
        assert part in question.text
    it.platform.say(OWNER, chat, value)
    await it.platform.until(lambda: "did not read or keep" in by_bot(it.platform, chat)[-1].text)
    it.platform.press(OWNER, question.id, question.buttons[0].data)
    await it.platform.until(lambda: any("not stored yet" in text for text in it.platform.pressed()))
    SecretStore(it.fate.home / "secrets.toml").put("shop", value, ("shop.example",))
    it.platform.press(OWNER, question.id, question.buttons[0].data)
    await it.platform.until(lambda: "It is stored" in by_bot(it.platform, chat)[-1].text)
    await it.platform.until(lambda: any("Stored by" in one.text for one in it.platform.shown(chat)))
    files = [one for one in it.fate.home.rglob("*") if one.is_file()]
    assert [one.name for one in files if value.encode() in one.read_bytes()] == ["secrets.toml"]


async def test_B5_16_a_yes_whose_daemon_died_counts_once_at_most(it: Stage) -> None:
    chat = it.platform.private(OWNER)
    await it.listening()
    message, once = await asked(it, chat)
    it.platform.press(OWNER, message, once)
    await it.until(
        "SELECT state = 'pending' FROM approvals", 0
    )  # answered, for a moment, and then taken up
    it.fate.kill()
    await it.fate.buried()
    await it.listening()
    await it.platform.until(lambda: by_bot(it.platform, chat)[-1].text.startswith("did it"))
    it.platform.press(OWNER, message, once)
    await it.platform.until(lambda: any("settled" in text for text in it.platform.pressed()))
    asking, *between, told = [one.text for one in by_bot(it.platform, chat)]
    changed = "\n\nChanged: hits" * hits(it)  # killed before it ran, it is not run again
    assert hits(it) <= 1 and "shell" in asking and told.startswith(f"did it{changed}")
    assert len(between) <= 1 and all("may or may not have happened" in text for text in between)
