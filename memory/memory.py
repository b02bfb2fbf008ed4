"""Facts: remember, recall, forget."""

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from memory.conversations import MAX_QUERY
from memory.database import Database
from memory.facts import (
    ANY,
    BY_ID,
    COUNT_PENDING,
    ENDED_IN,
    HISTORY,
    ID_PREFIX,
    KEYS,
    LATEST,
    MATCHING,
    MAX_PENDING,
    MOST_FORMER,
    NEWEST,
    PIN,
    REJECTED,
    TURNS,
    UNKNOWN_SOURCE,
    WAITING,
    WITH_HISTORY,
    Ended,
    Fact,
    FactSource,
    add,
    approve,
    build_query,
    make_row,
    normalize,
    read,
    recall,
    reject,
    set_aside,
    stamp,
)
from memory.forgetting import (
    Forgotten,
    count_others,
    delete,
    forget_person,
    forget_said,
    list_naming,
    list_said,
    read_forgotten,
    set_forgotten,
)
from memory.statements import FactChoice, StatementPage, keep_chosen, list_statements
from memory.utterance import Utterance
from memory.words import WORD, list_pairs, list_telling, list_words, match_words, write_terms

T = TypeVar("T")


class Memory:
    """Facts of former conversations. Each call is one hop to the thread that owns the file.

    What came from text from outside is only kept aside: no search finds it before a person's yes
    (`approve`). `waiting` counts it; `on_waiting` is awaited when it was nothing until now.
    `forgot` is set when something was forgotten. `set_aside`: the new name of a damaged file in
    whose place this one is. `is_empty`: nothing was kept yet.
    """

    on_waiting: Callable[[], Awaitable[object]] | None = None

    def __init__(self, database: Database, waiting: int, *, empty: bool) -> None:
        self.database = database
        self.is_empty = empty
        self.waiting = waiting
        self.forgot = asyncio.Event()
        self.set_aside = database.set_aside

    @classmethod
    async def open(cls, path: Path) -> "Memory":
        """The memory in this file, made if need be; a damaged one is set aside, and an empty one
        made in its place. Close it with `aclose`. Raises sqlite3.Error, OSError.
        """
        database = await Database.open(path)
        empty = await database.run(lambda file: file.execute(ANY).fetchone() is None)
        waiting = await database.run(lambda file: file.execute(COUNT_PENDING).fetchone()[0])
        return cls(database, waiting, empty=empty)

    async def remember(
        self,
        text: str,
        *,
        at: datetime,
        source: str,
        label: str = "trusted",
        owned: bool = True,
        where: FactSource = UNKNOWN_SOURCE,
    ) -> str:
        """Keep it; the same fact again only becomes newer. Gives its id. What is not trusted waits
        for a person, and changes nothing that is known. Raises MemoryFull where too much waits.

        Two that are the same to us may still differ in a sign ("a.b@c", "a-b@c"): the owner's words
        (`owned`) then count before those of others.
        """
        self.is_empty = False
        row = make_row(text, at, source, where, label=label, owned=owned)
        before = self.waiting
        kept = await self._change(add if label == "trusted" else set_aside, row)
        if self.waiting and not before and self.on_waiting:
            await self.on_waiting()
        return kept

    async def approve(self, fact_id: str, by: str, at: datetime) -> bool:
        """A person says yes: it is trusted from now on, in place of what was known in the same
        words. False when it does not wait.
        """
        return await self._change(approve, fact_id, by, stamp(at))

    async def reject(self, fact_id: str, by: str, at: datetime) -> bool:
        """A person says no: its text is gone, and the same text is not kept aside again."""
        done = await self._change(reject, fact_id, by, stamp(at))
        await self.database.checkpoint()
        return done

    async def pending(self, limit: int = MAX_PENDING) -> list[Fact]:
        """What waits for a person's yes, the oldest first."""
        return await self._list(WAITING, limit)

    async def find(self, prefix: str) -> list[Fact]:
        """The one fact whose id begins so; two where that is not enough."""
        if not ID_PREFIX.fullmatch(prefix):
            return []
        return [fact for fact in await self._list(BY_ID, prefix) if fact.state != REJECTED]

    async def matching(self, words: str, limit: int, *, loosely: bool = False) -> list[Fact]:
        """What has all these words, that which waits included; `loosely`: all of those that carry
        meaning.
        """
        every = list_words(words)
        wanted = list_telling(words) if loosely else every
        if not WORD.search(words):
            return []
        terms = write_terms(words, [*wanted, *list_pairs(words)])
        needed = {*normalize(words).split()} - ({*every} - {*wanted})
        found = await self._list(MATCHING, match_words(terms, joint="AND"), limit)
        found += [one for one in await self.pending() if needed <= {*normalize(one.text).split()}]
        return found[:limit]

    async def recall(
        self,
        query: str,
        limit: int,
        pinned: int = 0,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Fact]:
        """So many of what is pinned, the newest first; then what shares words with the query: rare
        words count more, and newer facts a little more than older ones. What held once stands
        behind what holds now. Told at `since` or later, and before `until`.
        """
        words = "" if self.is_empty else build_query(query[:MAX_QUERY])
        if self.is_empty or not ((words and limit > 0) or pinned):
            return []
        time = (stamp(since) if since else "", stamp(until) if until else LATEST)
        return await self.database.run(lambda file: recall(file, words, limit, pinned, time))

    async def find_ended(self, texts: Sequence[str]) -> dict[str, Ended]:
        """Those of the texts that tell what no longer holds."""
        if self.is_empty or not texts:
            return {}
        query, given = ENDED_IN, (json.dumps(texts),)
        rows = await self.database.run(lambda file: file.execute(query, given).fetchall())
        return {text: Ended(told, datetime.fromisoformat(until)) for text, told, until in rows}

    async def list_history(self, key: str) -> list[Fact]:
        """What holds of this key, then what held before it, the newest first."""
        return await self._list(HISTORY, key.strip().casefold(), MOST_FORMER)

    async def list_keys(self, limit: int) -> list[str]:
        """Those in use, the newest first."""
        rows = await self.database.run(lambda file: file.execute(KEYS, (limit,)).fetchall())
        return [key for (key,) in rows]

    async def list_statements(self, role: str, limit: int) -> StatementPage:
        """What nobody looked through yet; see `keep_chosen`."""
        return await self.database.run(lambda file: list_statements(file, role, limit))

    async def keep_chosen(self, page: StatementPage, chosen: Sequence[FactChoice]) -> int:
        """Keep these of the page, which is looked through now; gives how many."""
        self.is_empty = self.is_empty and not chosen
        return await self.database.run(lambda file: keep_chosen(file, page, chosen))

    async def read_last_look(self) -> datetime | None:
        """When what was said was last looked through, as `set_last_look` says."""
        found = await self.database.get_state("looked")
        return datetime.fromisoformat(found) if found else None

    async def set_last_look(self, at: datetime) -> None:
        """What was said is looked through now."""
        await self.database.set_state("looked", stamp(at))

    async def facts(self, limit: int) -> list[Fact]:
        """What was kept, the newest first."""
        return await self._list(NEWEST, limit)

    async def list_with_history(self, limit: int) -> list[Fact]:
        """What was kept, what no longer holds, too, the oldest first."""
        return await self._list(WITH_HISTORY, limit)

    async def pin(self, fact_id: str, *, pinned: bool = True) -> bool:
        """Show it to every turn of the owner's, or no longer; False for what is not known."""
        row = (pinned, fact_id)
        return await self.database.run(lambda file: file.execute(PIN, row).fetchone() is not None)

    async def turns(self) -> set[str]:
        """The turns that facts are from."""
        rows = await self.database.run(lambda database: database.execute(TURNS).fetchall())
        return {turn.rpartition(" ")[2] for (turn,) in rows}

    async def forget(self, fact_id: str, turn: str = "") -> bool:
        """Remove it for good, with what it took the place of; False when there is none of that
        id. `turn`: what forgets it, and holds its words until it ends.
        """
        removed = await self._change(delete, fact_id, turn)
        if removed:
            await self.database.checkpoint()
            self.forgot.set()
        return removed

    async def list_said(self, words: str, limit: int) -> list[tuple[int, Utterance]]:
        """What was said with all these words, by its number, the newest first."""
        return await self.database.run(lambda file: list_said(file, words, limit))

    async def forget_said(self, row: int, turn: str = "") -> bool:
        """Remove this, with all of its turn; False when there is none of that number. `turn`: see
        `forget`.
        """
        removed = await self._change(forget_said, row, turn)
        if removed:
            await self.database.checkpoint()
            self.forgot.set()
        return removed

    async def forget_person(
        self,
        names: Sequence[str],
        senders: Sequence[str],
        turns: Sequence[str],
        names_them: Callable[[str], bool],
        turn: str = "",
    ) -> int:
        """Remove all that they said, that was said in these turns, and that names them; gives how
        many rows. Their names are to be gone from the journal, too; `turn` holds them until it
        ends.
        """
        count = await self._change(forget_person, names, senders, turns, names_them, turn)
        await self.database.checkpoint()
        self.forgot.set()
        return count

    async def list_naming(
        self, turns: Sequence[str], names_them: Callable[[str], bool]
    ) -> list[str]:
        """The facts that `forget_person` removes."""
        return await self.database.run(lambda file: list_naming(file, turns, names_them))

    async def count_others(
        self, senders: Collection[str], finds: Mapping[str, Callable[[str], bool]]
    ) -> dict[str, int]:
        """In how much of what others said each of these finds something."""
        return await self.database.run(lambda file: count_others(file, senders, finds))

    async def list_forgotten(self) -> Forgotten:
        """What the journal is to remove, too."""
        return await self.database.run(read_forgotten)

    async def set_forgotten(
        self,
        turns: Sequence[str],
        words: Sequence[str],
        finds: Callable[[str], bool] | None = None,
    ) -> None:
        """The journal has removed the words of these turns, and these words. `finds` tells where
        they stand: what was kept meanwhile goes, too.
        """
        await self.database.run(lambda file: set_forgotten(file, turns, words, finds))
        await self.database.checkpoint()

    async def aclose(self) -> None:
        """Finish what is queued, then close the file."""
        await self.database.aclose()

    async def _list(self, query: str, *arguments: object) -> list[Fact]:
        return await self.database.run(lambda file: read(file, query, arguments))

    async def _change(self, work: Callable[..., T], *arguments: object) -> T:
        def change(database: sqlite3.Connection) -> tuple[T, int]:
            done = work(database, *arguments)
            return done, database.execute(COUNT_PENDING).fetchone()[0]

        done, self.waiting = await self.database.run(change)
        return done
