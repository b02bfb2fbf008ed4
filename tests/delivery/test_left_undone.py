"""What came in and is not worked on: of people who are strangers again, and what breaks the house (trust.md; F1)."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from channels.message import Attachment, InboundMessage, UnreadableUpdate
from daemon.access.directory import Directory, person_name
from daemon.app.daemon import Daemon
from daemon.core.events import Stop
from daemon.core.messages import FetchedFiles
from daemon.core.rows import InboxRow
from daemon.core.trust import Role
from daemon.gateway.host import MAX_RAW_CHARS
from daemon.services.admin import DROPPED_REASON
from daemon.settings.secrets import SecretStore
from tests.delivery.scripts import echo
from tests.delivery.stage import at_home, settled
from tests.fakes.channel import NEVER, OTHER, OWNER, STRANGER, FakeChannel
from tests.fakes.openai import FakeOpenAI, gate, hangs, says

SECRET = "k7-Qf2M9x-hushhush-0815"
STOPPED = "Stopped.\nSay what you want instead, or ask again."


async def waiting(house: Daemon, number: int) -> bool:
    """So many messages wait."""
    return len(await house.store.read(lambda tx: tx.list_inputs("new"))) == number


async def ended(house: Daemon, number: int) -> bool:
    """So many turns are over."""
    return (
        sum(
            row.state == "ended" for row in await house.store.read(lambda tx: tx.list_all_turns(99))
        )
        == number
    )


async def let_in(house: Daemon, channel: FakeChannel, role: Role = Role.EDITOR) -> None:
    """The stranger has had a code."""
    code = (await Directory(house.store, house.clock).invite(role)).code
    await channel.say(f"/pair {code}", STRANGER)
    await channel.until(lambda: len(channel.texts(STRANGER)) == 1)


async def behind(house: Daemon, channel: FakeChannel, model: FakeOpenAI, *texts: str) -> None:
    """The stranger is let in, has work under way, and has said all this since."""
    await let_in(house, channel)
    await channel.say("one", STRANGER)
    await model.asked(1)
    for text in texts:
        await channel.say(text, STRANGER)
    await settled(lambda: waiting(house, len(texts)))


async def test_what_runs_for_one_who_is_removed_is_stopped_and_they_hear_nothing_more(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    ready = asyncio.Event()
    model.script(gate(ready, says("the first")))
    async with at_home(tmp_path, model, channel) as house:
        await behind(house, channel, model, "two", "three")
        await channel.say(f"/people remove {person_name('telegram', '', STRANGER)}")
        await channel.until(lambda: any("is removed" in text for text in channel.texts()))
        ready.set()
        await channel.until(lambda: channel.texts(STRANGER)[1:] == [STOPPED])
        echo(model)
        await channel.say("and mine?")
        await channel.until(lambda: channel.texts()[-1] == "re: and mine?")
        assert channel.texts(STRANGER)[1:] == [STOPPED] and model.count == 2
        undone = [
            await house.client.get_run(row.turn)
            for row in await house.store.read(lambda tx: tx.list_inputs("gone"))
        ]
        assert [
            view.state
            for view in undone
            if view and "removed from the allow-list" in view.notices[0]
        ] == ["ended"] * 2


async def test_what_was_on_its_way_into_a_running_turn_is_not_folded_into_it_once_its_sender_is_removed(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    ready = asyncio.Event()
    model.script(gate(ready, says("done")))
    async with at_home(tmp_path, model, channel, config={"while_busy": "steer"}) as house:
        await behind(house, channel, model, "no, this")
        await channel.say(f"/people remove {person_name('telegram', '', STRANGER)}")
        await channel.until(lambda: any("is removed" in text for text in channel.texts()))
        ready.set()
        await channel.until(lambda: channel.texts(STRANGER)[1:] == [STOPPED])
        assert model.count == 1


async def test_who_is_removed_elsewhere_has_nothing_begun_any_more_either(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    ready = asyncio.Event()
    model.script(gate(ready, says("the first")))
    async with at_home(tmp_path, model, channel) as house:
        await behind(house, channel, model, "two")
        assert await house.client.remove_person(person_name("telegram", "", STRANGER))
        ready.set()
        await channel.until(lambda: channel.texts(STRANGER)[1:] == [STOPPED])
        assert (
            len(await house.store.read(lambda tx: tx.list_inputs("gone"))) == 1 and model.count == 1
        )


async def test_who_is_removed_but_stands_in_the_config_is_said_to_stand_there(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    async with at_home(tmp_path, model, channel) as house:
        await let_in(house, channel)
        house.config_roles["telegram"] = {
            **house.config_roles["telegram"],
            STRANGER: Role.EDITOR,
        }
        await channel.say(f"/people remove {person_name('telegram', '', STRANGER)}")
        await channel.until(lambda: any("still lists them" in text for text in channel.texts()))


@pytest.mark.parametrize("busy", ["queue", "steer"])
async def test_e7_a_stop_is_told_once_whatever_waited_behind_what_ran(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel, busy: str
) -> None:
    model.script(hangs())
    async with at_home(tmp_path, model, channel, config={"while_busy": busy}) as house:
        await channel.say("one")
        await model.asked(1)
        for text in ("two", "three"):
            await channel.say(text)
        await settled(lambda: waiting(house, 2))
        await channel.say("/stop")
        await settled(lambda: ended(house, 3))
        [answer] = [text for text in channel.texts() if text.startswith("Stopping")]
        assert answer.replace("\\", "").split("\n")[1:] == [
            "Not begun: two",
            "Not begun: three",
            "Send again what you still want.",
        ]
        await channel.say("hello")
        await channel.until(lambda: channel.texts()[-1] == "ok")
        told = {text.split("\n")[0].replace("\\", "") for text in channel.texts()[:-1]}
        assert (
            told == {"Stopping 3 tasks." if busy == "queue" else "Stopping 1 task.", "Stopped."}
            and len(channel.texts()) == 3
        )
        views = [
            await house.client.get_run(row.id)
            for row in await house.store.read(lambda tx: tx.list_all_turns(9))
        ]
        assert [view.stop_reason for view in views if view] == ["done", *["cancelled"] * 3]
        assert all("Say what you want instead" in (view.reply or "") for view in views[1:] if view)


async def test_f1_what_breaks_the_daemon_is_set_aside_and_whoever_may_talk_learns_of_it(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    echo(model)

    def nonsense(sender: str = "") -> InboundMessage:
        said = channel.message("", *([sender] if sender else []))
        return replace(said, text=cast(str, 17))  # a channel's fault

    async with at_home(tmp_path, model, channel) as house:
        mine = nonsense()
        await channel.arrive(nonsense(STRANGER), mine, mine, channel.message("hello"))
        await channel.until(lambda: "re: hello" in channel.texts())
        await channel.until(lambda: len(channel.texts()) == 2)
        assert (
            sum("Please rephrase it" in text for text in channel.texts()) == 1
            and channel.texts(STRANGER) == []
        )
        assert len(await house.store.read(lambda tx: tx.list_unreadable())) == 2


async def test_what_is_about_to_begin_when_its_sender_is_removed_is_not_worked_on(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    fetching = asyncio.Event()

    async def slowly(row: InboxRow) -> FetchedFiles:
        fetching.set()
        await asyncio.sleep(NEVER)
        return FetchedFiles()

    async with at_home(tmp_path, model, channel) as house:
        house.sessions.fetch = slowly
        await let_in(house, channel)
        await channel.say(
            "look", STRANGER, attachments=(Attachment("document", "a.txt", "text/plain", 5, "r"),)
        )
        await fetching.wait()
        await channel.say(f"/people remove {person_name('telegram', '', STRANGER)}")
        await settled(lambda: ended(house, 1))
        [turn] = await house.store.read(lambda tx: tx.list_all_turns(9))
        assert (turn.stop_reason, turn.detail, model.count) == (Stop.CANCELLED, DROPPED_REASON, 0)


async def test_who_waits_for_what_is_left_undone_is_told_so(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    model.script(hangs())
    async with at_home(tmp_path, model, channel) as house:
        await let_in(house, channel)
        for text in ("one", "two"):
            await channel.say(text, STRANGER)
        await model.asked(1)
        await settled(lambda: waiting(house, 1))
        [row] = await house.store.read(lambda tx: tx.list_inputs("new"))
        watching = asyncio.create_task(house.client.wait_until_ended(row.turn))
        await asyncio.sleep(0)
        await channel.say(f"/people remove {person_name('telegram', '', STRANGER)}")
        view = await asyncio.wait_for(watching, 10)
        assert view.state == "ended" and "removed from the allow-list" in view.notices[0]


async def test_e7_who_did_not_say_stop_is_told_that_theirs_was_stopped(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    model.script(hangs())
    async with at_home(tmp_path, model, channel) as house:
        await channel.say("one", OWNER, "-7")
        await model.asked(1)
        await channel.say("two", OWNER, "-7")
        theirs = await channel.say("three", OTHER, "-7")
        await settled(lambda: waiting(house, 2))
        assert (
            channel.host
            and await channel.host.run_command(channel.message("/stop", OWNER, "-7"))
            == "Stopping 3 tasks.\nNot begun: two\nSend again what you still want."
        )
        await settled(lambda: ended(house, 3))
        await channel.say("hello", OWNER, "-7")
        await channel.until(lambda: channel.texts("-7")[-1] == "ok")
        assert [one.reply_to for one in channel.shown("-7") if one.text.startswith("Stopped")] == [
            "1",
            theirs.message_id,
        ]


async def test_f1_a_button_or_command_that_breaks_the_daemon_is_set_aside_and_answered(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    async with at_home(tmp_path, model, channel) as house:
        assert "internal error" in await channel.press(cast(str, 17))
        assert channel.host and "\ufffd" in await channel.host.run_command(
            channel.message("/model \ud83d")
        )
        assert "internal error" in await channel.host.run_command(
            replace(channel.message(""), text=cast(str, 17))
        )
        assert len(await house.store.read(lambda tx: tx.list_unreadable())) == 2


async def test_a6_no_secret_is_in_what_was_set_aside(
    tmp_path: Path, model: FakeOpenAI, channel: FakeChannel
) -> None:
    async with at_home(tmp_path, model, channel) as house:
        SecretStore(house.paths.secrets).put("key", SECRET)
        await channel.arrive(
            UnreadableUpdate(
                "telegram", "1", "x" * (MAX_RAW_CHARS - 10) + SECRET, f"no number: {SECRET}"
            )
        )
        [kept] = await house.store.read(lambda tx: tx.list_unreadable())
        assert SECRET[:10] not in str(kept) and "[secret key]" in str(kept)
