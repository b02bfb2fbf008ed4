"""What fits a question by its vectors: only of rows that may be seen, and none that was removed (A4, F10)."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from daemon.recall.embedding import ThreadedEmbedder
from memory.conversations import Conversations
from memory.database import Database
from memory.embedder import KEPT, WIDTH, TextVectors, pack, unpack
from memory.search import WHOLE, Found, Scope
from memory.utterance import Utterance
from memory.words import list_words

Vectors = NDArray[np.float32]
MEANING = {"physician": "doctor", "automobile": "car"}
COMMON = np.random.default_rng(0).normal(size=WIDTH)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class WordEmbedder:
    """Each word is a random direction, and words of one meaning the same, as are all of another script; as with a real model, all
    have much in common.
    """

    name: str = "words"

    def embed_query(self, text: str) -> Vectors:
        return np.array([direct(one) for one in list_words(text) or [""]], np.float32)

    def embed_text(self, speaker: str, text: str) -> TextVectors:
        return pack([np.repeat(self.embed_query(text), 2, axis=0)])


def direct(word: str) -> Vectors:
    word = MEANING.get(word, word) if word.isascii() else "unknown"
    seed = int.from_bytes(blake2b(word.encode(), digest_size=4).digest())
    found = np.random.default_rng(seed).normal(size=WIDTH) + 2 * COMMON
    return found / np.linalg.norm(found)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "memory.db")
    yield database
    await database.aclose()


@pytest.fixture
async def memory(database: Database) -> Conversations:
    memory = await Conversations.open(database)
    await memory.use_embedder(await ThreadedEmbedder.load(WordEmbedder))
    return memory


def say(number: int, text: str, *, session: str = "one", own: bool = True) -> Utterance:
    at = BEGAN + timedelta(hours=5 * number)  # each a sitting of its own
    return Utterance(f"t{number}:1", session, "ann", "owner", "trusted", own, at, text)


async def keep(memory: Conversations, said: Sequence[Utterance]) -> None:
    """And their vectors."""
    await memory.add(said)
    model = WordEmbedder()
    while rows := await memory.list_unembedded(500):
        await memory.add_vectors([(row, model.embed_text(who, text)) for row, who, text in rows])


async def find(memory: Conversations, query: str, scope: Scope) -> list[Found]:
    return [one for one in await memory.search(query, scope, 5) if one.fits]


def fill(count: int) -> list[Utterance]:
    """What has nothing to do with anything."""
    return [say(number, f"word{number} and more{number}") for number in range(1000, 1000 + count)]


@pytest.mark.parametrize("count", [10, WHOLE + 10])
async def test_what_means_the_same_is_found_without_one_of_its_words(
    memory: Conversations, count: int
) -> None:
    await keep(memory, [say(1, "Physician visited"), *fill(count)])
    (found,) = await find(memory, "doctor", Scope())
    assert found.text == "Physician visited"
    assert found.why["alone"] > 0 and "words" not in found.why


async def test_in_a_script_that_the_model_does_not_know_words_tell_what_fits(
    memory: Conversations,
) -> None:
    said = ("Мой паспорт лежит в столе", "Сестра живёт в Казани")
    await keep(memory, [*(say(number, text) for number, text in enumerate(said)), *fill(10)])
    assert await find(memory, "Расскажи анекдот", Scope()) == []
    assert [one.text for one in await find(memory, "Где мой паспорт?", Scope())] == [said[0]]


@pytest.mark.parametrize("count", [10, WHOLE + 10])
async def test_only_what_may_be_seen_is_found(memory: Conversations, count: int) -> None:
    theirs, elsewhere = "physician of others", "physician elsewhere"
    said = [say(1, theirs, own=False), say(2, elsewhere, session="two"), *fill(count)]
    await keep(memory, said)

    async def texts(scope: Scope) -> set[str]:
        return {one.text for one in await find(memory, "doctor", scope)}

    assert await texts(Scope()) == {elsewhere}
    assert await texts(Scope(own=False)) == {theirs, elsewhere}
    assert await texts(Scope(own=False, session="one")) == {theirs}
    assert await texts(Scope(session="one")) == set()


@pytest.mark.parametrize("by_words", [True, False])
async def test_of_one_time_or_person_is_found_however_much_fits_better(
    memory: Conversations, by_words: bool
) -> None:
    """What fits of another time never takes its place."""
    same = "doctor" if by_words else "physician"
    later = [replace(say(9000 + one, f"{same} {same}"), key=f"n{one}:1") for one in range(5100 if by_words else WHOLE)]
    other = [replace(say(2, f"{same} of Joanna"), speaker="Joanna"), say(3, f"the {same} of march")]
    wanted = replace(say(1, f"the {same} on that day, word1 word2 word3"), speaker="Anna Kern")
    await (memory.add if by_words else partial(keep, memory))(
        [wanted, *other, *later, *fill(WHOLE)]
    )
    until = BEGAN + timedelta(hours=12)
    for scope in (Scope(until=until, speaker="anna"), Scope(speaker="anna")):
        assert [one.text for one in await memory.search("doctor", scope, 5)] == [wanted.text]
    found = await memory.search("doctor", Scope(until=until), 5)
    assert {one.text for one in found} == {wanted.text, other[0].text}


async def test_a_question_that_nothing_tells_of_is_answered_before_rows_have_vectors(
    memory: Conversations,
) -> None:
    """It names somebody who has said nothing there: no signal of any row is more than nothing."""
    said = [replace(say(1, "the cat sleeps"), speaker="Joanna"), say(2, "rain all over", session="two")]
    await memory.add(said)
    found = await memory.search("Joanna mentioned what?", Scope(session="two"), 5)
    assert [one.text for one in found] == ["rain all over"]


async def test_what_was_removed_leaves_no_vectors_and_is_not_found(
    memory: Conversations, database: Database
) -> None:
    await keep(memory, [say(1, "physician"), say(2, "another physician"), *fill(WHOLE + 10)])
    assert len(await find(memory, "doctor", Scope())) == 2
    await memory.forget_turns(["t1"])
    await memory.add([say(3, "waits for its vectors")])
    await memory.forget_turns(["t3"])
    assert [one.text for one in await find(memory, "doctor", Scope())] == ["another physician"]
    counted = "SELECT (SELECT count(*) FROM said), (SELECT count(*) FROM vectors)"
    assert await database.run(lambda file: file.execute(counted).fetchone()) == (WHOLE + 11,) * 2
    assert await memory.count_unembedded() == 0


async def test_another_model_reads_everything_anew(
    memory: Conversations, database: Database
) -> None:
    await keep(memory, [say(1, "physician"), say(2, "automobile")])
    await memory.use_embedder(await ThreadedEmbedder.load(WordEmbedder))
    assert await memory.count_unembedded() == 0
    await memory.use_embedder(await ThreadedEmbedder.load(lambda: WordEmbedder("another")))
    assert await memory.count_unembedded() == 2
    count = "SELECT count(*) FROM vectors"
    assert await database.run(lambda file: file.execute(count).fetchone()) == (0,)


async def test_a_text_that_the_model_cannot_read_is_found_by_its_words(
    memory: Conversations,
) -> None:
    await memory.add([say(1, "strange physician"), say(2, "the weather is fine")])
    await memory.add_vectors([(row, None) for row, _, _ in await memory.list_unembedded(5)])
    assert await memory.count_unembedded() == 0
    assert [one.text for one in await find(memory, "strange", Scope())] == ["strange physician"]
    assert await find(memory, "doctor", Scope()) == []


async def test_vectors_of_a_row_that_is_gone_are_not_kept(
    memory: Conversations, database: Database
) -> None:
    await memory.add([say(1, "physician")])
    ((row, who, text),) = await memory.list_unembedded(5)
    await memory.forget_turns(["t1"])
    await memory.add_vectors([(row, WordEmbedder().embed_text(who, text))])
    count = "SELECT count(*) FROM vectors"
    assert await database.run(lambda file: file.execute(count).fetchone()) == (0,)


def test_signs_are_kept_of_pairs_and_of_the_whole() -> None:
    one = np.array([direct("a"), direct("a"), direct("b")], np.float32)
    packed = pack([one])
    assert np.array_equal(unpack(packed.pairs, KEPT), np.sign(one[[0, 2], :KEPT]))
    pooled = (direct("a") + direct("b")) / 2
    assert np.array_equal(unpack(packed.pooled, WIDTH)[0], np.sign(pooled))


async def test_vectors_that_come_after_their_row_is_gone_are_no_other_rows(
    memory: Conversations,
) -> None:
    await memory.add([say(1, "physician")])
    [(row, who, text)] = await memory.list_unembedded(5)
    await memory.forget_turns(["t1"])
    await memory.add([say(2, "zeppelin")])
    await memory.add_vectors([(row, WordEmbedder().embed_text(who, text))])
    assert [text for _, _, text in await memory.list_unembedded(5)] == ["zeppelin"]
    assert await find(memory, "doctor", Scope()) == []
