"""Rows of what was said are added in batches, and a search takes as many as there are in few steps (A3, A4)."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.recall.forgetting import make_finder
from memory.conversations import Conversations
from memory.database import Database
from memory.forgetting import Forgotten
from memory.memory import Memory
from memory.rows import Batch
from memory.search import Scope, search
from memory.utterance import Utterance

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def said(number: int, text: str, label: str = "trusted") -> Utterance:
    at = BEGAN + timedelta(minutes=number)
    who = ("ann", "owner", label, label == "trusted")
    return Utterance(f"t{number}:1.0", f"web:{number}", *who, at, text)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Conversations]:
    database = await Database.open(tmp_path / "memory.db")
    yield await Conversations.open(database)
    await database.aclose()


async def find(memory: Conversations, words: str, *, own: bool = True) -> list[str]:
    return [one.text for one in await memory.search(words, Scope(own=own), 50)]


async def test_a_batch_of_many_texts_is_a_single_part_of_the_index(
    memory: Conversations, tmp_path: Path
) -> None:
    """Else each search looks into as many parts as texts were added."""
    assert await memory.add([said(number, f"word{number} is said") for number in range(200)]) == 200
    with closing(sqlite3.connect(tmp_path / "memory.db")) as file:
        parts = file.execute("SELECT count(DISTINCT segid) FROM own_words_idx").fetchone()
    assert parts == (1,)
    assert await find(memory, "word123") == ["word123 is said"]


async def test_small_batches_are_merged_as_they_come(memory: Conversations, tmp_path: Path) -> None:
    parts: list[int] = []
    with closing(sqlite3.connect(tmp_path / "memory.db")) as file:
        for number in range(120):
            await memory.add([said(number, f"word{number} is said")])
            found = file.execute("SELECT count(DISTINCT segid) FROM own_words_idx").fetchone()
            parts.append(found[0])
    assert max(parts) <= 10  # left to itself the index has up to 16
    for number in (0, 60, 119):
        assert await find(memory, f"word{number}") == [f"word{number} is said"]


async def test_a_text_that_the_owner_vouches_for_in_the_same_batch_stands_once_in_the_index(
    memory: Conversations, tmp_path: Path
) -> None:
    texts = [said(1, "the cat is called Minka", "untrusted"), said(2, "the dog is called Rex")]
    vouched = said(1, "the cat is called Minka")
    assert await memory.add([*texts, vouched, vouched]) == 3
    assert await find(memory, "Minka") == ["the cat is called Minka"]
    assert await find(memory, "Minka", own=False) == ["the cat is called Minka"]
    with closing(sqlite3.connect(tmp_path / "memory.db")) as file:
        for table in ("own_words", "other_words"):
            file.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        assert file.execute("SELECT name, label FROM speakers").fetchall() == [("ann", "trusted")]


async def test_a_text_with_a_word_that_is_to_be_gone_is_not_kept(tmp_path: Path) -> None:
    """Else a turn could be shown it, and write it down, before the journal has lost it."""
    facts = await Memory.open(tmp_path / "memory.db")
    memory = await Conversations.open(facts.database)
    fact = "the first cat was called Zanzibar"
    await facts.forget(await facts.remember(fact, at=BEGAN, source="t1"))
    texts = [said(2, f"Did I tell you that {fact}?"), said(3, "Rex is a dog")]
    assert await memory.add(texts, "3 t3", make_finder) == 1
    assert await find(memory, "Zanzibar dog") == ["Rex is a dog"]
    await facts.set_forgotten((), [fact])
    assert await memory.add([said(4, fact)], "4 t4", make_finder) == 1
    await facts.aclose()


async def test_what_a_person_says_who_is_to_be_gone_is_not_kept(tmp_path: Path) -> None:
    facts = await Memory.open(tmp_path / "memory.db")
    memory = await Conversations.open(facts.database)
    finds = make_finder(Forgotten((), {}, {"Zanzibar": ""}, {}))
    await facts.forget_person(["Zanzibar"], ["telegram:7"], [], finds, "t9")
    said_by_them = replace(said(2, "the dog is at my place", "untrusted"), speaker="Zanzibar")
    assert await memory.add([said_by_them], "2 t2", make_finder) == 0
    await facts.aclose()


async def test_a_key_with_odd_signs_is_kept_once(memory: Conversations) -> None:
    """A line of an import gives its own."""
    odd = [replace(said(1, "the cat is called Minka"), key=key) for key in ("a\0b", "a\0c", "a", '"')]
    assert await memory.add(odd) == 4
    assert await memory.add([*odd, said(2, "Rex is a dog")]) == 1


async def test_rows_that_fit_alike_come_in_the_order_in_which_they_were_said(
    memory: Conversations,
) -> None:
    texts = [replace(said(number, "lunch at noon"), session=f"{number % 3}") for number in range(12)]
    await memory.add(texts)
    for own in (True, False):
        found = await memory.search("lunch at noon", Scope(own=own), 5)
        assert [one.key for one in found] == [one.key for one in texts[:5]]


class Counted:
    """A file whose rows are counted as they are taken."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self.file, self.steps = file, 0

    def execute(self, query: str, values: Any = ()) -> "CountedRows":
        return CountedRows(self, self.file.execute(query, values))


class CountedRows:
    def __init__(self, counted: Counted, rows: sqlite3.Cursor) -> None:
        self.counted, self.rows = counted, rows

    def fetchone(self) -> Any:
        self.counted.steps += 1
        return self.rows.fetchone()

    def fetchall(self) -> list[Any]:
        return [*self]

    def __iter__(self) -> Iterator[Any]:
        for row in self.rows:
            self.counted.steps += 1
            yield row


async def test_a_search_takes_no_more_steps_where_ten_times_as_much_fits(tmp_path: Path) -> None:
    """Between two steps a busy thread of the process may hold it up by milliseconds: one of 600 rows took 4 s."""
    steps: list[int] = []
    for count in (60, 600):
        path = tmp_path / f"{count}.db"
        database = await Database.open(path)
        memory = await Conversations.open(database)
        await memory.add([said(number, f"lunch number{number} at noon") for number in range(count)])
        await database.aclose()
        with closing(sqlite3.connect(path)) as file:
            counted: Any = Counted(file)
            assert len(search(counted, "lunch at noon with number7", Scope(), 20)) == 20
            steps.append(counted.steps)
    assert steps[0] == steps[1] < 120


async def test_a_batch_is_found_by_nothing_before_it_is_written(tmp_path: Path) -> None:
    """A program that forgets to would lose words; a test of the search would then fail."""
    database = await Database.open(tmp_path / "memory.db")

    def work(file: sqlite3.Connection) -> list[int]:
        text = said(1, "the cat is called Minka")
        batch = Batch(file, [text])
        batch.add(text)
        before = len(search(file, "Minka", Scope(), 5))
        batch.write()
        return [before, len(search(file, "Minka", Scope(), 5))]

    assert await database.run(work) == [0, 1]
    await database.aclose()
