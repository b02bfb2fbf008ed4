"""Memory over full text: what was remembered is found again, once, after a restart too."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.facts import build_query
from memory.memory import Memory

MONDAY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    made = await Memory.open(tmp_path / "memory.db")
    yield made
    await made.aclose()


async def keep(memory: Memory, text: str, days: float = 0, label: str = "trusted") -> str:
    return await memory.remember(text, at=MONDAY + timedelta(days=days), source="s", label=label)


async def texts(memory: Memory, query: str, limit: int = 5) -> list[str]:
    return [hit.text for hit in await memory.recall(query, limit)]


async def test_a_fact_is_found_by_its_words_in_other_forms(memory: Memory) -> None:
    await keep(memory, "Ada's birthday is on 10 December")
    await keep(memory, "The café closes early on Sundays")
    assert await texts(memory, "When are the birthdays of ADA?") == [
        "Ada's birthday is on 10 December"
    ]
    assert await texts(memory, "cafe closing") == ["The café closes early on Sundays"]
    assert await texts(memory, "submarine") == []


async def test_words_without_meaning_do_not_find_everything(memory: Memory) -> None:
    await keep(memory, "the cat is on the roof")
    await keep(memory, "the dog is in the garden")
    assert await texts(memory, "what is the dog doing in there") == ["the dog is in the garden"]


async def test_rare_words_count_more_and_newer_facts_a_little_more(memory: Memory) -> None:
    await keep(memory, "the office door code is 1111", days=-300)
    await keep(memory, "the office door code is 2222", days=0)
    await keep(memory, "the zeppelin lands at the office", days=-300)
    assert await texts(memory, "office door code") == [
        "the office door code is 2222",
        "the office door code is 1111",
        "the zeppelin lands at the office",
    ]
    assert (await texts(memory, "zeppelin office"))[0] == "the zeppelin lands at the office"


async def test_the_same_fact_is_kept_once_and_becomes_newer(memory: Memory) -> None:
    first = await keep(memory, "Bob likes tea")
    again = await keep(memory, "bob  likes TEA.", days=2)
    kept = await memory.facts(10)
    assert (first == again, [(fact.text, fact.at) for fact in kept]) == (
        True,
        [("Bob likes tea", MONDAY + timedelta(days=2))],
    )


async def test_the_label_is_kept_and_outside_text_never_lowers_what_the_owner_said(
    memory: Memory,
) -> None:
    await keep(memory, "pay to account 42", label="untrusted")
    assert [hit.label for hit in await memory.recall("account", 5)] == []
    assert [(one.label, one.state) for one in await memory.pending()] == [("untrusted", "pending")]
    await keep(memory, "pay to account 42")
    await keep(memory, "Pay to account 42", label="untrusted")
    assert [hit.label for hit in await memory.recall("account", 5)] == ["trusted"]


async def test_what_is_forgotten_is_gone_from_the_file_too(tmp_path: Path) -> None:
    memory = await Memory.open(tmp_path / "memory.db")
    fact = await keep(memory, "the password is xyzzyplugh")
    await keep(memory, "something else")
    assert await memory.forget(fact)
    assert not await memory.forget(fact)
    assert await texts(memory, "xyzzyplugh") == []
    left = await memory.list_forgotten()  # for the journal, until it has removed them
    assert [*left.phrases] == ["the password is xyzzyplugh"]
    await memory.set_forgotten(left.turns, [*left.phrases])
    await memory.aclose()
    assert b"xyzzyplugh" not in (tmp_path / "memory.db").read_bytes()


async def test_facts_come_newest_first(memory: Memory) -> None:
    for day in range(5):
        await keep(memory, f"fact {day}", days=day)
    assert [fact.text for fact in await memory.facts(2)] == ["fact 4", "fact 3"]


async def test_it_is_all_there_after_a_restart(tmp_path: Path) -> None:
    for word in ("one", "two"):
        memory = await Memory.open(tmp_path / "memory.db")
        await keep(memory, f"fact {word}")
        await memory.aclose()
    memory = await Memory.open(tmp_path / "memory.db")
    assert sorted(await texts(memory, "fact")) == ["fact one", "fact two"]
    await memory.aclose()


async def test_closing_leaves_no_thread_behind(tmp_path: Path) -> None:
    memory = await Memory.open(tmp_path / "memory.db")
    await keep(memory, "x")
    await memory.aclose()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("memory")]


async def test_files_that_are_no_memory_are_set_aside_whole_each_by_a_name_of_its_own(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    for number in ("", "1"):
        path.write_bytes(b"this is not a database, it is a text" * 100)
        memory = await Memory.open(path)
        aside = tmp_path / f"memory.db.damaged{number}"
        assert memory.set_aside == aside
        assert aside.read_bytes().startswith(b"this is not")
        await keep(memory, "x")
        assert len(await memory.facts(9)) == 1
        await memory.aclose()


async def test_many_at_once_are_all_kept(memory: Memory) -> None:
    await asyncio.gather(*(keep(memory, f"number {number}") for number in range(50)))
    assert len(await memory.facts(100)) == 50


@given(st.text())
def test_no_words_of_a_person_make_a_query_that_the_engine_refuses(words: str) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61')")
    query = build_query(words)
    if query:
        database.execute("SELECT * FROM words WHERE words MATCH ?", (query,)).fetchall()
    database.close()


@pytest.mark.parametrize(
    "query", ["", "???", '"', "AND OR NOT", "a* -b", "NEAR(x)", "'; DROP TABLE facts; --"]
)
async def test_strange_queries_are_only_words(memory: Memory, query: str) -> None:
    await keep(memory, "fact")
    await memory.recall(query, 5)
    assert await texts(memory, "fact") == ["fact"]


async def test_F3_of_two_that_are_one_to_us_the_words_of_the_trusted_count(memory: Memory) -> None:
    await keep(memory, "Max: a-b@example.com", label="untrusted")
    await keep(memory, "Max: a.b@example.com")
    await keep(memory, "Max: a+b@example.com", label="untrusted")
    assert [(hit.text, hit.label) for hit in await memory.recall("Max", 5)] == [
        ("Max: a.b@example.com", "trusted")
    ]


async def test_what_the_owner_says_stands_before_what_others_say(memory: Memory) -> None:
    """trust.md, roles: nobody else's word becomes the owner's by being the same, nor takes its place by being nearly so."""

    async def tell(text: str, owned: bool) -> None:
        await memory.remember(text, at=MONDAY, source="s", owned=owned)

    await tell("Max: a-b@example.com", False)
    assert [hit.owned for hit in await memory.recall("Max", 5)] == [False]
    await tell("Max: a.b@example.com", True)
    await tell("Max: a+b@example.com", False)
    assert [(hit.text, hit.owned) for hit in await memory.recall("Max", 5)] == [
        ("Max: a.b@example.com", True)
    ]
    assert [(fact.text, fact.owned) for fact in await memory.facts(5)] == [
        ("Max: a.b@example.com", True)
    ]


async def test_a_memory_of_before_there_were_others_is_the_owners(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    made = await Memory.open(path)
    await keep(made, "the dog is called Rex")
    await made.aclose()
    with closing(sqlite3.connect(path)) as old, old:
        old.execute("DROP VIEW said")
        for one in (
            "own_words",
            "other_words",
            "sitting_words",
            "vectors",
            "pooled",
            "unembedded",
            "spans",
            "speakers",
            "sittings",
            "state",
            "forgotten",
            "forgotten_words",
            "unformed",
        ):
            old.execute(f"DROP TABLE {one}")
        old.execute("DROP INDEX facts_pinned")
        old.execute("DROP INDEX facts_key")
        for one in ("owned", "pinned"):
            old.execute(f"ALTER TABLE facts DROP COLUMN {one}")
        old.execute("PRAGMA user_version = 1")
    for _ in range(2):
        again = await Memory.open(path)
        assert [(hit.text, hit.owned) for hit in await again.recall("dog", 5)] == [
            ("the dog is called Rex", True)
        ]
        await again.aclose()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann writes C++", "Ann writes C#"),
        ("The freezer is at 5 degrees", "The freezer is at -5 degrees"),
        ("The fee is 5 EUR", "The fee is 5 % EUR"),
        ("Alarm when x < 3", "Alarm when x > 3"),
    ],
)
async def test_facts_that_differ_in_a_sign_only_are_both_kept(
    memory: Memory, one: str, other: str
) -> None:
    for number, text in enumerate((one, other, f"{one}.", one.upper())):
        await keep(memory, text, number)
    assert len(await memory.facts(10)) == 2


async def test_a_fact_of_before_signs_counted_is_not_kept_twice(memory: Memory) -> None:
    await keep(memory, "I like C++")
    await memory.database.run(lambda file: file.execute("UPDATE facts SET sameness = 'i like c'"))
    await keep(memory, "I like C++", 1)
    await keep(memory, "I like C#", 2)
    assert sorted(one.text for one in await memory.facts(10)) == ["I like C#", "I like C++"]


async def test_a_fact_is_matched_by_a_description_with_other_small_words(memory: Memory) -> None:
    await keep(memory, "Ann's birthday is 3 May")
    await keep(memory, "Bob likes tea")
    for words in ("the birthday of Ann", "when is Ann's birthday?", "birthday 3 may"):
        assert [one.text for one in await memory.matching(words, 5, loosely=True)] == ["Ann's birthday is 3 May"]
    assert await memory.matching("the birthday of Bob", 5, loosely=True) == []
    assert await memory.matching("the birthday of Ann", 5) == []
