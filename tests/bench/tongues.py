"""What is found in six languages: 50 messages of a person each, ten questions, and six that nothing of it answers
(`tests/data/languages.json`, our own).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory.conversations import Conversations
from memory.database import Database
from memory.embedder import Embedder
from memory.search import Scope
from memory.utterance import Utterance
from tests.bench.figures import Figure

DATA = Path(__file__).parents[1] / "data" / "languages.json"
BEGAN = datetime(2026, 1, 5, 8, tzinfo=UTC)
A_DAY, DEPTH = 5, 10


@dataclass(frozen=True, slots=True)
class Chat:
    """What one person said, and questions, each with the index of the message that answers it; `other`: none does."""

    language: str
    speaker: str
    said: tuple[str, ...]
    asked: tuple[tuple[str, int], ...]
    other: tuple[str, ...]

    def list_utterances(self) -> Iterator[Utterance]:
        """Five messages a day."""
        for at, text in enumerate(self.said):
            when = BEGAN + timedelta(days=at // A_DAY, minutes=at % A_DAY)
            key, who = f"{self.language}{at}:1", self.speaker
            yield Utterance(
                key, self.language, who, "owner", "trusted", own=True, at=when, text=text
            )


@dataclass(slots=True)
class Counts:
    """Of the questions, those whose answer is among the first ten, and those that bring it into the prompt by themselves; the
    messages that what nothing answers brings there.
    """

    found: int = 0
    shown: int = 0
    wrong: int = 0


def read_chats() -> list[Chat]:
    """One a language."""
    return [
        Chat(
            language,
            one["speaker"],
            tuple(one["said"]),
            tuple((question, answer) for question, answer in one["asked"]),
            tuple(one["other"]),
        )
        for language, one in json.loads(DATA.read_text(encoding="utf-8")).items()
    ]


async def count_found(place: Path, embedder: Embedder | None = None) -> dict[str, Counts]:
    """For each language, among the messages of all."""
    place.mkdir(exist_ok=True)
    database = await Database.open(place / "memory.db")
    memory, chats, counts = await Conversations.open(database), read_chats(), dict[str, Counts]()
    for chat in chats:
        await memory.add([*chat.list_utterances()])
    await memory.close_idle()
    await memory.use_embedder(embedder)
    while embedder and (rows := await memory.list_unembedded(100)):
        await memory.add_vectors(await embedder.embed_texts(rows))
    for chat in chats:
        counts[chat.language] = count = Counts()
        for question, answer in chat.asked:
            best, key = await memory.search(question, Scope(), DEPTH), f"{chat.language}{answer}:1"
            count.found += key in {one.key for one in best}
            count.shown += key in {one.key for one in best if one.fits}
        for text in chat.other:
            count.wrong += sum(one.fits for one in await memory.search(text, Scope(), DEPTH))
    await database.aclose()
    return counts


async def measure(place: Path, embedder: Embedder | None) -> list[Figure]:
    """The share of questions that are answered, and that bring their answer by themselves, by language."""
    sizes = {chat.language: len(chat.asked) for chat in read_chats()}
    by, figures = "by meaning" if embedder else "by words", list[Figure]()
    for language, count in (await count_found(place, embedder)).items():
        name, size = f"recall, {by}, {language}", sizes[language]
        figures += [
            Figure(f"{name} @{DEPTH}", count.found / size, ""),
            Figure(f"{name}, shown by itself", count.shown / size, ""),
            Figure(f"{name}, rows shown for six that nothing answers", count.wrong, ""),
        ]
    return figures
