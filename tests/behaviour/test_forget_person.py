"""Somebody of a platform is known by a name and by an id, and both are gone afterwards (A18)."""

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from daemon.core.trust import Label, Role, label_for_role
from daemon.sessions.inbox import InboxMessage
from daemon.store.erasing import FORGOTTEN, WordEraser
from daemon.store.journal import Tx
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, by, gate, says

NAME, NUMBER = "Anna Kern", "4711081542"


async def write(it: Living, text: str) -> None:
    """In a chat of their own."""
    label, role, session = label_for_role(Role.GUEST), Role.GUEST.value, f"telegram:{NUMBER}"
    message = InboxMessage("telegram", NUMBER, session, session, text, text, label, role=role)
    await it.settled((await it.house.client.inbox.accept(message)).row.turn)


def list_texts(journal: Path) -> list[str]:
    with closing(sqlite3.connect(journal)) as file:
        return list(file.iterdump())


def list_senders(tx: Tx) -> list[tuple[str, str]]:
    return tx.list_senders()


async def until_gone(home: Path, *words: str) -> None:
    async with asyncio.timeout(20):
        while any(one in "".join(list_texts(home / "journal.db")) for one in words):
            await asyncio.sleep(0.05)


async def until_settled(it: Living) -> None:
    async with asyncio.timeout(20):
        while (await it.house.memory.list_forgotten()).names:
            await asyncio.sleep(0.02)


async def test_by_a_name_the_id_goes_too_and_what_belongs_together_still_does(
    tmp_path: Path,
) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        model.otherwise(by(lambda body: says("All right.")))
        await it.house.store.write(lambda tx: tx.put_display_name(f"telegram:{NUMBER}", NAME))
        await write(it, "I like tea")
        await it.ask(f"Write to anna kern, whose number is {NUMBER}")
        before = await it.house.store.read(lambda tx: [one.id for one in tx.list_all_turns(9)])
        shown = await it.command("/forget --person anna kern")
        assert NUMBER in shown and "the 1 turns that they" in shown
        [code] = re.findall(r"([0-9a-f]{6}) does it", shown)
        done = await it.command(f"/forget --person anna kern {code}")
        assert done.startswith("Forgotten"), done
        after = await it.house.store.read(lambda tx: [one.id for one in tx.list_all_turns(9)])
        rows = await it.house.store.read(lambda tx: [tx.get_turn(one) for one in after])
        sessions = {row.session for row in rows if row}
        known = [
            await it.house.store.read(lambda tx, one=one: tx.get_session(one)) for one in sessions
        ]
        found = await it.house.conversations.count()
    assert after == before and all(known)
    assert [
        one
        for one in list_texts(tmp_path / "journal.db")
        if NUMBER in one or NAME.lower() in one.lower()
    ] == []
    assert any(re.fullmatch(r"telegram:9\d{14}", one) for one in sessions)
    assert found <= 2  # what the owner said, its name replaced or gone


def test_whole_words_go_in_whatever_letters_and_each_name_becomes_one_other() -> None:
    erase = WordEraser(["I live in Lyon"], ["Anna", "4711"], lambda count: "1" * count).erase
    text = 'anna and ANNA, not Annabel; 4711, {"id":4711,"x":"i live in lyon"} 14711'
    other = f"forgotten-{'1' * 14}"
    assert erase(text) == (
        f'{other} and {other}, not Annabel; 9{"1" * 14}, {{"id":9{"1" * 14},"x":"{FORGOTTEN}"}} 14711'
    )


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("Strauß", "Herr Strauß, STRAUSS und strauß"),
        ("Özlem", '{"to":"\\u00d6zlem"} %C3%96zlem özlem ÖZLEM'),
        ("Istanbul", "Istanbul ISTANBUL"),
        ("Istanbul", '"one\\nIstanbul\\tIstanbul, _Istanbul_ or a%20Istanbul"'),
        ("José", "Jose\u0301 here"),
        ("李雪", '我和李雪去 "\\u6211\\u674e\\u96ea\\u53bb"'),
        ("משה", "ומשה"),
    ],
)
def test_a_name_goes_in_all_its_forms(word: str, text: str) -> None:
    left = WordEraser((), [word], lambda count: "1" * count).erase(text)
    assert "forgotten-" in left
    assert not re.search("strau|zlem|istanbul|jos|雪|u96ea|משה", left, re.IGNORECASE)


@pytest.mark.parametrize("text", ["Jose\u0301 here", '"Jose\\u0301 here"'])
def test_a_name_with_an_accent_is_another_in_whatever_form(text: str) -> None:
    assert WordEraser((), ["Jose"], lambda count: "1" * count).erase(text) == text


def test_a_count_in_json_is_no_id() -> None:
    erase = WordEraser((), ["4711"], lambda count: "1" * count).erase_keyed
    other = f"9{'1' * 14}"
    assert erase('{"tokens":4711,"to":"4711","said":"{\\"id\\":4711}"}') == (
        f'{{"tokens":4711,"to":"{other}","said":"{{\\"id\\":{other}}}"}}'
    )


def test_numbers_and_keys_of_json_stay_and_a_changed_text_is_quoted_whole() -> None:
    """Else a stranger who calls themselves "150" or so moves what is quoted: their words would be the owner's."""
    eraser = WordEraser((), ["150", "Anna"], lambda count: "1" * count)
    payload = '{"text":"Anna said it","quoted":[[150,398]],"usd":0.150,"Anna":[150]}'
    left = f"forgotten-{'1' * 14} said it"
    assert json.loads(eraser.erase_keyed(payload)) == {
        "text": left, "quoted": [[0, len(left)]], "usd": 0.15, "Anna": [150]
    }  # fmt: skip
    other = '{"text":"Ben said it","quoted":[[150,398]],"to":"Anna"}'
    assert json.loads(eraser.erase_keyed(other))["quoted"] == [[150, 398]]
    assert eraser.requote("Anna: do it", "[[0,5]]") == f"[[0,{len(left)}]]".replace(
        str(len(left)), str(len(f"forgotten-{'1' * 14}: do it"))
    )
    assert eraser.requote("Ben: 150", "[]") == "[]"


async def test_what_somebody_calls_themselves_takes_no_word_of_others_along(
    tmp_path: Path,
) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        model.otherwise(by(lambda body: says("All right.")))
        await it.house.store.write(lambda tx: tx.put_display_name(f"telegram:{NUMBER}", "the"))
        for number in range(21):
            await it.ask(f"I have seen the house {number}")
        await write(it, "I am new here")
        async with asyncio.timeout(20):
            while await it.house.conversations.count() < 43:
                await asyncio.sleep(0.02)
        shown = await it.command(f"/forget --person {NUMBER}")
        assert "it stays: the" in shown
        [code] = re.findall(r"([0-9a-f]{6}) does it", shown)
        await it.command(f"/forget --person {NUMBER} {code}")
        await until_settled(it)
        texts = "".join(list_texts(tmp_path / "journal.db"))
        found = await it.house.memory.list_said("seen the house", 99)
    assert texts.count("I have seen the house") >= 21 and len(found) == 21
    assert NUMBER not in texts


async def test_what_is_quoted_stays_quoted_when_a_name_in_it_goes(tmp_path: Path) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        model.otherwise(by(lambda body: says("All right.")))
        row = InboxMessage(
            "web", "mine", "web:mine", "owner", "k1", f"{NAME} says: send all", Label.TRUSTED,
            role="owner", data=(f"{NAME} says: send all",),
        )  # fmt: skip
        await it.settled((await it.house.client.inbox.accept(row)).row.turn)
        shown = await it.command(f"/forget --person {NAME}")
        [code] = re.findall(r"([0-9a-f]{6}) does it", shown)
        await it.command(f"/forget --person {NAME} {code}")
        await until_settled(it)
        texts = list_texts(tmp_path / "journal.db")
    [event] = [one for one in texts if "INTO \"events\"" in one and '"quoted":[[0,' in one]
    [row] = [one for one in texts if "INTO \"inbox\"" in one and "says: send all" in one]
    text = re.search(r'"text":"([^"]*)"', event)
    assert text and "forgotten-" in text[1]
    whole = f"[[0,{len(text[1])}]]"
    assert f'"quoted":{whole}' in event and f"'{whole}'" in row


async def test_a_person_is_found_in_whatever_letters_and_a_word_of_the_journals_stays(
    tmp_path: Path,
) -> None:
    """They call themselves so that nothing of theirs could be forgotten by their id."""
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        model.otherwise(by(lambda body: says("All right.")))
        name = f"telegram:{NUMBER}"
        names = (("ÖZLEM", "özlem"), ("李雪", "李雪"), ("trusted", NUMBER), ("Al", NUMBER))
        for called, asked in names:
            await it.house.store.write(lambda tx, called=called: tx.put_display_name(name, called))
            await write(it, f"I am {called} and like tea")
            shown = await it.command(f"/forget --person {asked}")
            [code] = re.findall(r"([0-9a-f]{6}) does it", shown)
            done = await it.command(f"/forget --person {asked} {code}")
            assert done.startswith("Forgotten"), done
            assert ("stay in it: trusted" in done) == (called == "trusted")
            kept = () if called in ("trusted", "Al") else (called,)
            await until_gone(tmp_path, NUMBER, *kept)
            senders = await it.house.store.read(list_senders)
            assert called not in {one for _, one in senders}, senders
            await until_settled(it)


async def test_the_answer_that_lists_a_name_leaves_the_journal_once_it_is_sent(
    tmp_path: Path,
) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        await it.house.store.write(lambda tx: tx.put_display_name(f"telegram:{NUMBER}", NAME))
        file = tmp_path / "workspace" / f"{NAME}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text("tea")
        shown = await it.command(f"/forget --person {NAME}")
        [code] = re.findall(r"([0-9a-f]{6}) does it", shown)
        assert f"{NAME}.txt" in await it.command(f"/forget --person {NAME} {code}")
        await until_gone(tmp_path, NAME)
        await until_settled(it)


async def test_a_name_is_gone_for_good_once_what_worked_then_has_ended(tmp_path: Path) -> None:
    """What began later has not read it, and may go on for days."""
    ends, never = asyncio.Event(), asyncio.Event()
    async with FakeOpenAI() as model, living(tmp_path, model) as it:
        model.script(
            gate(ends, says("Tea.")), gate(never, says("Done.")), says("No idea.")
        )
        first = await it.say(f"What does {NAME} like?", "web:first")
        await model.asked(1)
        shown = await it.command(f"/forget --person {NAME}")
        [code] = re.findall(r"([0-9a-f]{6}) does it", shown)
        await it.command(f"/forget --person {NAME} {code}")
        later = await it.say("Count the grains of sand", "web:later")
        await model.asked(2)
        ends.set()
        await it.settled(first)
        async with asyncio.timeout(20):
            while (await it.house.memory.list_forgotten()).names:
                it.house.memory.forgot.set()
                await asyncio.sleep(0.02)
        assert NAME not in "".join(list_texts(tmp_path / "journal.db"))
        row = await it.house.store.read(lambda tx: tx.get_turn(later))
        assert row and row.ended_at is None
        await it.ask("And now?", "web:first")
        assert NAME not in str((await model.asked(3)).body)
        never.set()
        await it.settled(later)


def test_a_letter_that_only_looks_the_same_breaks_nothing() -> None:
    erase = WordEraser(
        ["Istanbul'da yasiyorum", "my secret place"], ["Kim"], lambda count: "1" * count
    ).erase
    assert erase("Kım, ıstanbul'da yasiyorum, my secret place").endswith(FORGOTTEN)
