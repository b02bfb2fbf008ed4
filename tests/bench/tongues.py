"""What is found in six languages: 50 messages of a person each, and ten questions (`tests/data/languages.json`, our own)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory.conversations import Conversations
from memory.database import Database
from memory.embedder import Embedder
from memory.search import Scope, Utterance
from tests.bench.figures import Figure

DATA = Path(__file__).parents[1] / "data" / "languages.json"
BEGAN = datetime(2026, 1, 5, 8, tzinfo=UTC)
A_DAY, DEPTH = 5, 10


@dataclass(frozen=True, slots=True)
class Chat:
    """What one person said, and questions, each with the index of the message that answers it."""

    language: str
    speaker: str
    said: tuple[str, ...]
    asked: tuple[tuple[str, int], ...]

    def list_utterances(self) -> Iterator[Utterance]:
        """Five messages a day."""
        for at, text in enumerate(self.said):
            when = BEGAN + timedelta(days=at // A_DAY, minutes=at % A_DAY)
            key, who = f"{self.language}{at}:1", self.speaker
            yield Utterance(
                key, self.language, who, "owner", "trusted", own=True, at=when, text=text
            )


def read_chats() -> list[Chat]:
    """One a language."""
    return [
        Chat(language, one["speaker"], tuple(one["said"]), tuple((q, a) for q, a in one["asked"]))
        for language, one in json.loads(DATA.read_text(encoding="utf-8")).items()
    ]


async def count_found(place: Path, embedder: Embedder | None = None) -> dict[str, int]:
    """How many questions of each language have their answer among the first ten, of the messages
    of all.
    """
    place.mkdir(exist_ok=True)
    database = await Database.open(place / "memory.db")
    memory, chats, found = await Conversations.open(database), read_chats(), dict[str, int]()
    for chat in chats:
        await memory.add([*chat.list_utterances()])
    await memory.close_idle()
    await memory.use_embedder(embedder)
    while embedder and (rows := await memory.list_unembedded(100)):
        await memory.add_vectors(await embedder.embed_texts(rows))
    for chat in chats:
        found[chat.language] = 0
        for question, answer in chat.asked:
            best = await memory.search(question, Scope(), DEPTH)
            found[chat.language] += f"{chat.language}{answer}:1" in {one.key for one in best}
    await database.aclose()
    return found


async def measure(place: Path, embedder: Embedder | None) -> list[Figure]:
    """The share of questions that are answered, by language."""
    sizes = {chat.language: len(chat.asked) for chat in read_chats()}
    by = "by meaning" if embedder else "by words"
    return [
        Figure(f"recall, {by}, {language} @{DEPTH}", count / sizes[language], "")
        for language, count in (await count_found(place, embedder)).items()
    ]
