"""What was said is found again by its words in other languages, and in other scripts, too (A4)."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.conversations import Conversations
from memory.database import Database
from memory.search import Scope
from memory.utterance import Utterance
from tests.bench.tongues import count_found, read_chats

LEAST = {"German": 8, "French": 9, "Spanish": 9, "Russian": 8, "Japanese": 9, "Chinese": 8}
LEAST_SHOWN, MOST_WRONG = 7, 8


async def test_most_questions_of_each_language_find_their_answer_and_bring_it_by_themselves_a4(
    tmp_path: Path,
) -> None:
    sizes = {chat.language: (len(chat.said), len(chat.asked)) for chat in read_chats()}
    assert sizes == dict.fromkeys(LEAST, (50, 10))
    counts = await count_found(tmp_path / "memory")
    assert [one for one, least in LEAST.items() if counts[one].found < least] == [], counts
    assert [one for one, count in counts.items() if count.shown < LEAST_SHOWN] == [], counts
    assert [one for one, count in counts.items() if count.wrong > MOST_WRONG] == [], counts


MORE = json.loads((Path(__file__).parents[1] / "data" / "more_languages.json").read_text("utf-8"))


@pytest.mark.parametrize("language", MORE)
async def test_of_four_facts_three_come_by_themselves_and_small_talk_brings_none_a4(
    tmp_path: Path, language: str
) -> None:
    """Thirteen more languages; "tell me a joke" in Hebrew has a word of one of them."""
    database = await Database.open(tmp_path / "memory.db")
    memory, told = await Conversations.open(database), MORE[language]
    for number, text in enumerate(told["said"]):
        at = datetime(2026, 1, 1 + number, tzinfo=UTC)
        said = Utterance(f"{number}:1", f"s{number}", "ann", "owner", "trusted", True, at, text)
        await memory.add([said])

    async def show(text: str) -> list[str]:
        found = await memory.search(text, Scope(), 5, automatic=True)
        return [one.text for one in found if one.fits]

    shown = [said in await show(asked) for said, asked in zip(told["said"], told["asked"], strict=True)]
    wrong = [text for text in told["other"] if await show(text)]
    await database.aclose()
    assert sum(shown) >= 3, shown
    assert len(wrong) <= (language == "Hebrew"), wrong


FORMS = {
    "Mein Zahnarzt ist Dr. Müller": ("Mueller", "MULLER"),
    "Wir wohnen in der Bahnhofstraße 5": ("bahnhofstrasse",),
    "Das Krankenversicherungskonto endet auf 77": ("Krankenversicherung",),
    "Łódź is where my mother lives": ("lodz",),
    "Smørrebrød is what I like": ("smorrebrod", "smoerrebroed"),
    "Kedimin adı Işık": ("ışık", "isik", "IŞIK"),
    "İstanbul'da oturuyorum": ("istanbul",),
    "Η γάτα μου λέγεται Μίνα": ("γατα", "ΓΑΤΑ"),
    "Моя собака Рекс любит курицу": ("собаки", "собаку"),
    "Её зовут Алёна": ("алена",),
    "اسم القِطّة مشمش": ("القطة", "قطة"),
    "כלב שלי נקרא רקס": ("הכלב",),
    "मेरे कुत्ते का नाम टॉमी है": ("कुत्ता",),
    "私の猫の名前はタマです": ("猫", "ﾀﾏ"),
    "うちの犬": ("犬",),
    "The door code is ４７１１": ("4711",),
    "Our Wi-Fi hides its name": ("wifi", "wi fi"),
    "The wifi of the office is slow": ("wi-fi",),
    "My sister's name is O'Brien": ("obrien", "O’Brien"),
    "My e-mail address has changed": ("email",),
    "My licence plate is B-AB 1234": ("BAB1234", "b-ab 1234"),
    "We fly with LH1234 on Friday": ("LH 1234", "lh 1234"),
    "We fly with BA 77 on Monday": ("BA77",),
    "Pay into DE89 3704 0044 0532 0130 00": ("DE89370400440532013000",),
    "The function is called getUserName": ("user name",),
    "I am allergic to peanuts": ("allergy",),
}


async def test_a_word_is_found_by_the_other_ways_in_which_it_is_written(tmp_path: Path) -> None:
    """Accents and marks, other letters for them, one word or two, a form of it, a part of it."""
    database = await Database.open(tmp_path / "memory.db")
    memory = await Conversations.open(database)
    for number, text in enumerate([*FORMS, *(f"lunch was pasta, day {day}" for day in range(40))]):
        at = datetime(2026, 1, 1, tzinfo=UTC)
        said = Utterance(f"{number}:1", f"s{number}", "ann", "owner", "trusted", True, at, text)
        await memory.add([said])
    missed: list[tuple[str, str]] = []
    for text, ways in FORMS.items():
        for way in ways:
            best = await memory.search(way, Scope(), 5)
            missed += [(text, way)] * all(one.text != text for one in best)
    await database.aclose()
    assert missed == []


@pytest.mark.parametrize("query", ["zebra", "Elephants", "XY99"])
async def test_a_word_that_nothing_resembles_finds_nothing(tmp_path: Path, query: str) -> None:
    database = await Database.open(tmp_path / "memory.db")
    memory = await Conversations.open(database)
    for number, text in enumerate(FORMS):
        at = datetime(2026, 1, 1, tzinfo=UTC)
        said = Utterance(f"{number}:1", f"s{number}", "ann", "owner", "trusted", True, at, text)
        await memory.add([said])
    assert await memory.search(query, Scope(), 5) == []
    await database.aclose()
