"""The newest fact of a key holds, and what held before is known as that (A18)."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.store.erasing import erase_recalled
from daemon.tools.memory_tools import describe_fact
from memory.conversations import Conversations
from memory.facts import FactSource, read_key
from memory.memory import Memory
from memory.search import Scope
from memory.statements import FactChoice
from memory.utterance import Utterance

MONDAY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    made = await Memory.open(tmp_path / "memory.db")
    yield made
    await made.aclose()


async def keep(memory: Memory, text: str, key: str, days: float = 0, label: str = "trusted") -> str:
    at, where = MONDAY + timedelta(days=days), FactSource("t1", "web:a", key=key)
    return await memory.remember(text, at=at, source="s", label=label, where=where)


async def move(memory: Memory) -> None:
    await keep(memory, "I live in Lyon", "user.city")
    await keep(memory, "I have moved to Paris", "user.city", days=5)


async def test_what_holds_is_told_first_and_what_held_before_as_no_longer_so(
    memory: Memory,
) -> None:
    await move(memory)
    for question in ("In which city, Paris?", "Lyon"):
        [fact] = await memory.recall(question, 5)
        assert describe_fact(fact) == (
            "I have moved to Paris (2026-03-07; no longer, since 2026-03-07: I live in Lyon)"
        )
    assert [fact.text for fact in await memory.facts(5)] == ["I have moved to Paris"]


async def test_a_fact_of_another_time_never_takes_the_place_of_one_that_is_asked_for(
    memory: Memory,
) -> None:
    await keep(memory, "The boiler makes a noise at night", "", days=-30)
    for number in range(40):
        await keep(memory, f"boiler boiler {number}", "", days=number)
    found = await memory.recall("boiler", 5, until=MONDAY)
    assert [one.text for one in found] == ["The boiler makes a noise at night"]
    found = await memory.recall("boiler", 50, since=MONDAY + timedelta(days=38))
    assert {one.text for one in found} == {"boiler boiler 38", "boiler boiler 39"}


async def test_the_history_of_a_key_is_kept_whatever_comes_first(memory: Memory) -> None:
    await move(memory)
    await keep(memory, "I live in Rome", "user.city", days=-9)
    await keep(memory, "I live in Lyon", "user.city", days=9)
    told = [
        (one.text, one.until and (one.until - MONDAY).days)
        for one in await memory.list_history("User.City")
    ]
    assert told == [
        ("I live in Lyon", None),
        ("I have moved to Paris", 9),
        ("I live in Lyon", 5),
        ("I live in Rome", 0),
    ]


async def test_two_people_are_never_one(memory: Memory) -> None:
    await keep(memory, "My birthday is in May", "user.birthday")
    await keep(memory, "Carlos has his birthday in June", "carlos.birthday", days=1)
    await keep(memory, "His birthday is in July", "carlos.birthday", days=2)
    assert {one.text for one in await memory.recall("birthday", 5)} == {
        "My birthday is in May", "Carlos has his birthday in June", "His birthday is in July",
    }  # fmt: skip
    assert [one.former for one in await memory.recall("birthday", 5)] == [(), (), ()]


@pytest.mark.parametrize(
    ("key", "text", "read"),
    [
        ("User.City", "I live in Lyon", "user.city"),
        ("user_sister.city", "My sister is in Rome", "user_sister.city"),
        ("user_sister.city", "She is in Rome", ""),
        ("ann.birthday", "Annabelle has her birthday in June", ""),
        ("anna_k.phone", "Anna K.: 0170", "anna_k.phone"),
        ("city", "I live in Lyon", ""),
        ("user.city; drop", "x", ""),
        ("", "x", ""),
        ("ü.größe", "Ü ist groß", "ü.grösse"),
    ],
)
def test_a_key_names_somebody_whom_the_text_names(key: str, text: str, read: str) -> None:
    assert read_key(key, text) == read


async def test_what_is_pinned_stays_so_in_what_holds_next(memory: Memory) -> None:
    first = await keep(memory, "I live in Lyon", "user.city")
    await memory.pin(first)
    await keep(memory, "I have moved to Paris", "user.city", days=5)
    assert [one.text for one in await memory.recall("", 0, pinned=5)] == ["I have moved to Paris"]


async def test_what_waits_ends_nothing_before_a_yes(memory: Memory) -> None:
    await keep(memory, "Anna lives in Lyon", "anna.city")
    waiting = await keep(memory, "Anna lives in a van", "anna.city", days=1, label="untrusted")
    assert [(one.text, one.former) for one in await memory.recall("lives", 5)] == [
        ("Anna lives in Lyon", ())
    ]
    await memory.approve(waiting, "owner", MONDAY)
    [fact] = await memory.recall("lives", 5)
    assert fact.text == "Anna lives in a van"
    assert [one.text for one in fact.former] == ["Anna lives in Lyon"]


@pytest.mark.parametrize(("label", "owned"), [("untrusted", True), ("trusted", False)])
async def test_what_others_say_of_the_user_ends_nothing_of_the_owners(
    memory: Memory, label: str, owned: bool
) -> None:
    await keep(memory, "I live in Lyon", "user.city")
    text, where = "I live in Oslo", FactSource("t2", "mail:x", "a mail", key="user.city")
    at = MONDAY + timedelta(days=1)
    other = await memory.remember(text, at=at, source="s", label=label, owned=owned, where=where)
    await memory.approve(other, "owner", at)
    assert {one.text for one in await memory.recall("live", 5)} == {"I live in Lyon", text}


async def test_a_text_that_holds_a_statement_that_ended_is_known_and_a_single_word_is_none(
    memory: Memory,
) -> None:
    await keep(memory, "Lyon", "user.city")
    await keep(memory, "I live in Lyon", "user.city", days=1)
    await keep(memory, "I have moved to Paris", "user.city", days=5)
    texts = ["Lyon", "Lyon is fine", "Hi! I live in Lyon, you know", "I have moved to Paris"]
    assert [*await memory.find_ended(texts)] == ["Hi! I live in Lyon, you know", "Lyon"]
    ended = (await memory.find_ended(texts))["Hi! I live in Lyon, you know"]
    assert ended == ("I live in Lyon", MONDAY + timedelta(days=5))


@pytest.mark.parametrize(
    ("speaker", "asked", "theirs"),
    [("Anna Kern", "anna", True), ("Joanna", "anna", False), ("王芳", "王芳", True),
     ("李雪", "王芳", False), ("Ben", "", True)],
)  # fmt: skip
def test_who_said_it_is_told_by_whole_words_in_any_script(
    speaker: str, asked: str, theirs: bool
) -> None:
    assert Scope(speaker=asked).is_by(speaker) is theirs


def test_what_other_turns_were_shown_is_erased_by_how_it_begins() -> None:
    lines = "- 2026-01-01, web:a, your answer: I know it now.\\n- 2026-01-01, web:a, the user: Yes"
    payload = f'{{"tool":"recall","text":"{lines}"}}'
    left = erase_recalled(payload, frozenset(["I know it now."]), 36)
    assert "I know it" not in left and "the user: Yes" in left
    assert erase_recalled(payload, frozenset(["know it now."]), 36) == payload
    assert erase_recalled(payload, frozenset(["I", "Y"]), 36) == payload  # of a short text all
    assert "Yes" not in erase_recalled(payload, frozenset(["Yes"]), 36)


async def test_a_fact_keeps_its_first_key_so_what_it_ended_stays_ended(memory: Memory) -> None:
    await move(memory)
    await keep(memory, "I have moved to Paris", "user.home", days=6)
    [fact] = await memory.recall("Lyon", 5)
    assert (fact.key, fact.text) == ("user.city", "I have moved to Paris")


async def test_a_fact_that_names_somebody_goes_and_the_turn_that_it_is_from_stays(
    memory: Memory,
) -> None:
    spoken = await Conversations.open(memory.database)
    await spoken.add(
        [said("Anna likes tea", "t1"), replace(said("I like tea", "t1"), key="t1:2.0")]
    )
    await keep(memory, "Anna likes tea", "")
    await memory.remember("Tea is fine", at=MONDAY, source="tool t7", where=FactSource("t7"))
    await memory.remember(
        "By mail", at=MONDAY, source="s", where=FactSource("t2", "", "Anna's mail")
    )
    wanted = (["t7"], lambda text: "Anna" in text)
    assert await memory.list_naming(*wanted) == ["Anna likes tea", "Tea is fine", "By mail"]
    await memory.forget_person(["Anna"], [], *wanted)
    assert [await memory.facts(5), (await memory.list_forgotten()).turns] == [[], ["t7"]]
    assert [one.text for _, one in await memory.list_said("tea", 5)] == ["I like tea"]


async def test_what_holds_is_forgotten_with_its_history(memory: Memory, tmp_path: Path) -> None:
    await move(memory)
    [fact] = await memory.facts(5)
    assert await memory.forget(fact.id)
    assert (await memory.recall("Lyon Paris", 5), await memory.list_history("user.city")) == (
        [],
        [],
    )
    with closing(sqlite3.connect(tmp_path / "memory.db")) as file:
        assert file.execute("SELECT count(*) FROM facts").fetchone() == (0,)


def said(text: str, turn: str, role: str = "owner", own: bool = True) -> Utterance:
    label = "trusted" if own else "untrusted"
    return Utterance(f"{turn}:1.0", "web:a", "me", role, label, own, MONDAY, text, not own)


async def test_only_the_words_of_the_role_are_looked_through_and_each_once(memory: Memory) -> None:
    spoken = await Conversations.open(memory.database)
    await spoken.add(
        [
            said("I live in Lyon", "t1"),
            said("You live in Lyon", "t2", role="assistant"),
            said("I live in Oslo", "t3", own=False),
            said("Where do I live?", "t4"),
            said("word " * 500, "t5"),
            said("A long story. " * 30 + "\nMy dog is called Rex.", "t6"),
        ]
    )
    page = await memory.list_statements("owner", 20)
    assert {one.text for one in page.statements} == {"I live in Lyon", "A long story."}
    chosen = [FactChoice(page.statements[0], "Home", "user.city")]
    assert await memory.keep_chosen(page, chosen) == 1
    [fact] = await memory.facts(5)
    assert (fact.text, fact.category, fact.key, fact.turn) == (
        "I live in Lyon",
        "home",
        "user.city",
        "t1",
    )
    assert (await memory.list_statements("owner", 20)).rows == 0


async def test_what_is_forgotten_while_the_model_thinks_is_not_kept(memory: Memory) -> None:
    spoken = await Conversations.open(memory.database)
    await spoken.add([said("I live in Lyon", "t1")])
    page = await memory.list_statements("owner", 20)
    await spoken.forget_turns(["t1"])
    assert await memory.keep_chosen(page, [FactChoice(page.statements[0], "", "user.city")]) == 0
    await spoken.add([said("I live in Paris", "t2")])
    assert [one.text for one in (await memory.list_statements("owner", 20)).statements] == [
        "I live in Paris"
    ]


async def test_a_fact_without_a_key_gets_one_and_ends_what_it_takes_the_place_of(
    memory: Memory,
) -> None:
    await keep(memory, "I live in Lyon", "user.city")
    await keep(memory, "I have moved to Paris", "", days=5)
    page = await memory.list_statements("owner", 20)
    assert [one.text for one in page.statements] == ["I have moved to Paris"]
    await memory.keep_chosen(page, [FactChoice(page.statements[0], "home", "user.city")])
    [fact] = await memory.recall("Paris", 5)
    assert [one.text for one in fact.former] == ["I live in Lyon"]
    assert (await memory.list_statements("owner", 20)).rows == 0


async def test_a_key_that_nothing_holds_of_any_more_tells_nothing_old_as_new(
    memory: Memory,
) -> None:
    await keep(memory, "I live in Berlin", "user.city")
    await keep(memory, "I live in Paris", "user.city", days=1)
    await keep(memory, "I live in Paris", "user.home", days=2)
    assert [(one.text, one.until) for one in await memory.recall("Berlin live", 5)] == [
        ("I live in Paris", None)
    ]


async def test_the_owners_form_of_a_fact_takes_over_its_key_and_pin(memory: Memory) -> None:
    at = MONDAY
    first = await memory.remember(
        "i live in lyon.", at=at, source="s", owned=False, where=FactSource(key="lyon.size")
    )
    await memory.pin(first)
    await memory.remember("I live in Lyon", at=at, source="s")
    [fact] = await memory.facts(5)
    assert (fact.text, fact.key, bool(fact.pinned)) == ("I live in Lyon", "lyon.size", True)


async def test_what_was_unpinned_is_not_pinned_again_by_being_said_again(memory: Memory) -> None:
    await memory.pin(await keep(memory, "I live in Lyon", "user.city"))
    now = await keep(memory, "I live in Paris", "user.city", days=1)
    await memory.pin(now, pinned=False)
    await keep(memory, "I live in Paris", "user.city", days=2)
    assert await memory.recall("", 0, pinned=5) == []


async def test_what_was_said_twice_is_gone_with_the_fact(memory: Memory) -> None:
    spoken = await Conversations.open(memory.database)
    await spoken.add(
        [said("Remember that my PIN is 4711", "t1"), said("Again: my PIN is 4711", "t2")]
    )
    fact = await keep(memory, "my PIN is 4711", "")
    await memory.forget(fact, "t9")
    await spoken.add([said("Forget that my PIN is 4711", "t9")])
    assert await spoken.count() == 0


async def test_a_strangers_name_takes_no_word_out_of_the_owners_question(memory: Memory) -> None:
    spoken = await Conversations.open(memory.database)
    await spoken.add([said("My dentist is Doctor Gut in the Karlstrasse", "t1")])
    stranger = replace(
        said("hello", "t2", "mail", own=False), speaker="dentist.karlstrasse@evil.example"
    )
    await spoken.add([stranger])
    found = await spoken.search("Is my dentist in the Karlstrasse?", Scope(), 5)
    assert [one.text for one in found if one.fits] == [
        "My dentist is Doctor Gut in the Karlstrasse"
    ]


async def test_one_fact_of_an_import_is_forgotten_without_the_rest(memory: Memory) -> None:
    spoken = await Conversations.open(memory.database)
    rows = [
        replace(said(f"I own the book number {one}", "x"), key=f"import:s:{one}")
        for one in range(30)
    ]
    await spoken.add(rows)
    page = await memory.list_statements("owner", 20)
    await memory.keep_chosen(page, [FactChoice(page.statements[0], "books", "")])
    [fact] = await memory.facts(5)
    assert (await memory.list_statements("owner", 20)).rows == 10
    await memory.forget(fact.id)
    assert (await spoken.count(), (await memory.list_forgotten()).turns) == (29, [])
