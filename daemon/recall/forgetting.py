"""What is forgotten leaves the journal, too: the words of its turns, the files that came with them,
and what /undo keeps of them; and a person leaves all files that are ours (A18).
"""

import asyncio
import logging
import secrets
import sqlite3
import unicodedata
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.trust import OWNER_NAME
from daemon.recall.traces import FileTraces, remove_file_traces
from daemon.settings.paths import Paths
from daemon.store.erasing import NameTaken, WordEraser, erase_recalled, is_joined
from daemon.store.journal import Store, Tx
from daemon.store.sqlite import SqliteStore
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.inbox_folder import InboxFolder
from memory.forgetting import RECALLED_CHARS, Forgotten
from memory.memory import Memory

EVERY_S, RETRY_S = 600.0, 5.0
LEAST_NAME, LEAST_JOINED = 3, 2
MOST_OTHERS = 20  # of what others said may hold a name that somebody has given themselves
COMMANDS = ("/forget", "/memory")  # their answers show what is remembered

log = logging.getLogger(__name__)


@value
class NamedPerson:
    """Somebody, by all their names and ids, the one that was asked for first; as messages name
    them; the turns that they began. `asked`: the id, and the name that was asked for. `common`:
    what they call themselves, but others say it, too, or an owner is called so: it stays.
    """

    names: tuple[str, ...]
    senders: tuple[str, ...]
    turns: tuple[str, ...]
    is_owner: bool = False
    asked: tuple[str, ...] = ()
    common: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """Stands for exactly these names."""
        return blake2b("\n".join(self.names).encode(), digest_size=3).hexdigest()


@value
class Removed:
    """`waiting`: turns and conversations that are at work, and are done later. `kept`: names that
    the journal itself uses.
    """

    rows: int
    waiting: int
    files: FileTraces
    kept: tuple[str, ...] = ()


@dataclass(slots=True)
class Forgetter:
    """`reload` takes sessions whose turns say less now, or None for all, and gives those that are
    at work; they are kept in `stale`. `working`: of each word that was removed once, the sessions
    that may still write it, for they worked then.
    """

    memory: Memory
    store: Store
    inbox: InboxFolder
    versions: FileStore
    paths: Paths
    reload: Callable[[Collection[str] | None], set[str]]
    clock: Clock
    stale: set[str] = field(default_factory=set)
    working: dict[str, set[str]] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Until cancelled. What a kill cuts off is done at the next start."""
        wait = RETRY_S
        while True:
            self.memory.forgot.clear()
            try:
                is_done = not await self.settle()
            except (StoreUnavailable, sqlite3.Error, OSError) as error:
                log.warning("what was forgotten is not removed from the journal now: %s", error)
                is_done = False
            try:
                async with asyncio.timeout(EVERY_S if is_done else wait):
                    await self.memory.forgot.wait()
                wait = RETRY_S
            except TimeoutError:
                wait = min(2 * wait, EVERY_S)

    async def settle(self) -> int:
        """Remove what can be removed now; how many turns and sessions have to wait."""
        async with self.lock:
            self.stale = self.reload(self.stale) if self.stale else set()
            known = await self.memory.list_forgotten()
            words = known.phrases | known.names | known.recalled
            asked = {*known.turns, *words.values()} - {""}
            now = self.clock.now()
            busy = await self.store.read(lambda tx: _list_busy(tx, asked, now)) if asked else set()
            turns = [one for one in known.turns if one not in busy]
            ready = {one for one, turn in words.items() if turn not in busy}
            phrases = [one for one in known.phrases if one in ready]
            again = known.names | known.recalled
            due = [one for one in again if one not in self.working or self._is_due(one, ready)]
            if turns or phrases or due:
                names = [one for one in due if one in known.names]
                recalled = [one for one in due if one in known.recalled]
                eraser = make_eraser(phrases, names) if phrases or names else None
                found = await self._remove(turns, recalled, eraser)
                at_work = self.reload(None)
                self.stale |= at_work
                done = {
                    one
                    for one in due
                    if one in ready and not (at_work and (found or one not in self.working))
                }
                self.working |= {one: at_work for one in due if one not in done}
                finds = eraser.finds if eraser else None
                await self.memory.set_forgotten(turns, [*phrases, *done], finds)
                for one in done:
                    self.working.pop(one, None)
            return len(busy) + len(self.stale)

    def _is_due(self, word: str, ready: Collection[str]) -> bool:
        """What worked when it was removed has ended, so it can be removed for good. What began
        later has it only from those: then it is found once more.
        """
        return word in ready and self.working[word].isdisjoint(self.stale)

    async def find_person(self, name: str) -> NamedPerson:
        """By a name that they have here, or an id."""
        found = await self.store.read(lambda tx: _find_person(tx, name))
        chosen = [one for one in found.names if one not in found.asked]
        finds = {one: make_eraser((), [one]).finds for one in chosen}
        counts = await self.memory.count_others(found.senders, finds)
        common = (*found.common, *[one for one in chosen if counts[one] > MOST_OTHERS])
        names = tuple(one for one in found.names if one not in common)
        return replace(found, names=names, common=common)

    async def list_naming(self, person: NamedPerson) -> list[str]:
        """The facts that would go."""
        eraser = make_eraser((), person.names)
        return await self.memory.list_naming(person.turns, eraser.finds)

    async def forget_person(self, person: NamedPerson, turn: str) -> Removed:
        """Remove all that they said and every name of theirs, from memory, journal and files. After
        a kill it goes on at the next start; files go first, while all ids are known. `turn`: what
        asks for it, and may be answered with a name. Raises NameTaken: nothing was changed then.
        """
        if running := await self.store.read(lambda tx: _count_running(tx, person.turns)):
            raise NameTaken(f"{running} of their turns are at work; stop them, or wait")
        names = await self._list_free(person.names)
        eraser = make_eraser((), names)
        files = await asyncio.to_thread(remove_file_traces, self.paths, eraser.finds)
        told = dict.fromkeys((*names, *map(str.casefold, names)))
        rows = await self.memory.forget_person(
            [*told], person.senders, person.turns, eraser.finds, turn
        )
        try:
            waiting = await self.settle()
        except sqlite3.Error as error:
            log.warning("the journal removes a person later: %s", error)
            waiting = 1
        kept = tuple(one for one in person.names if one not in names)
        return Removed(rows, waiting, files, kept)

    async def _list_free(self, names: Sequence[str]) -> list[str]:
        """Those that can go: what somebody calls themselves may be a word of the journal's own.
        Raises NameTaken for the first.
        """
        try:
            await self._erase(make_eraser((), names), only_try=True)
        except NameTaken:
            first, *others = names
            await self._erase(make_eraser((), [first]), only_try=True)
            return [first, *[one for one in others if await self._is_free(one)]]
        return [*names]

    async def _is_free(self, name: str) -> bool:
        try:
            await self._erase(make_eraser((), [name]), only_try=True)
        except NameTaken:
            return False
        return True

    async def _remove(
        self, turns: Sequence[str], recalled: Sequence[str], eraser: WordEraser | None
    ) -> bool:
        """Some of the words were there."""
        names = eraser.names if eraser else ()
        await asyncio.to_thread(self.inbox.remove_turns, turns)
        await self.versions.remove_turns(turns)
        found = await self.store.write(lambda tx: _blank(tx, turns, names, recalled))
        try:
            return await self._erase(eraser) or found
        except NameTaken:
            for one in eraser.split() if eraser else ():  # one that cannot go holds up no other
                try:
                    found |= await self._erase(one)
                except NameTaken as error:
                    log.warning("a forgotten word stays in the journal: %s", error)
        return found

    async def _erase(self, eraser: WordEraser | None, *, only_try: bool = False) -> bool:
        if isinstance(self.store, SqliteStore):
            return await self.store.erase(eraser, only_try=only_try)
        return False


def _blank(tx: Tx, turns: Sequence[str], names: Collection[str], recalled: Collection[str]) -> bool:
    """Something of `recalled` was there."""
    tx.prune_turns(turns)
    begins, found = frozenset(recalled), False
    for turn, seq, payload in tx.list_recalling() if begins else ():
        if (left := erase_recalled(payload, begins, RECALLED_CHARS)) != payload:
            tx.replace_payload(left, turn, seq)
            found = True
    forgotten = {*map(_fold, names)}
    for sender, _ in tx.list_senders() if names else ():
        if _fold(_get_id(sender)) in forgotten:
            tx.remove_display_name(sender)
            tx.remove_zone(sender)
    for command in COMMANDS:
        tx.blank_commands(command)
    return found


def _count_running(tx: Tx, turns: Collection[str]) -> int:
    rows = map(tx.get_turn, turns)
    return sum(row is not None and row.ended_at is None and row.state != "pruned" for row in rows)


def _list_busy(tx: Tx, turns: Collection[str], now: datetime) -> set[str]:
    """They run, or something of them is on its way."""
    found = {turn: tx.get_turn(turn) for turn in turns}
    open_ones = {turn for turn, row in found.items() if row and row.state != "pruned"}
    commands = {turn for turn in turns if not found[turn] and tx.is_answering(turn)}
    return commands | {turn for turn in open_ones if not tx.is_prunable(turn, now)}


def is_name(text: str) -> bool:
    """Long enough to be looked for in all that was said."""
    joined = any(map(is_joined, text))
    return len(text) >= (LEAST_JOINED if joined else LEAST_NAME)


def _fold(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _get_id(sender: str) -> str:
    return sender.partition(":")[2] or sender


def _find_person(tx: Tx, name: str) -> NamedPerson:
    folded, known = _fold(name), tx.list_senders()
    called = {one: called for one, called in known if called}
    senders = [
        one
        for one in dict.fromkeys(one for one, _ in known)
        if folded in map(_fold, (one, _get_id(one), called.get(one, "")))
    ]
    turns = dict.fromkeys(turn for one in senders for turn in tx.list_turns_of(one))
    owners = {chat.person for chat in tx.list_owner_chats()} | {OWNER_NAME}
    is_owner = not owners.isdisjoint((name, *senders)) or any(
        tx.is_sender(one, OWNER_NAME) for one in senders
    )
    ids = [_get_id(one) for one in senders]
    own = {_fold(name) for one, name in called.items() if one in owners}
    given = (called[one] for one in senders if one in called)
    common = [one for one in given if _fold(one) in own - {folded}]
    told = (name, *ids, *(called[one] for one in senders if one in called))
    wanted = (one for one in told if is_name(one) and (one not in senders or one in ids))
    names = {one.casefold(): one for one in wanted if one not in common}
    asked = tuple(one for one in names.values() if one in (name, *ids))
    return NamedPerson(
        tuple(names.values()), tuple(senders), tuple(turns), is_owner, asked, tuple(common)
    )


def make_eraser(phrases: Sequence[str], names: Sequence[str]) -> WordEraser:
    """Each name becomes another one that is made here."""
    return WordEraser(phrases, names, _make_digits)


def make_finder(forgotten: Forgotten) -> Callable[[str], bool]:
    """Tells whether a text has a phrase or a name that is to be gone."""
    return make_eraser([*forgotten.phrases], [*forgotten.names]).finds


def _make_digits(count: int) -> str:
    return "".join(secrets.choice("123456789") for _ in range(count))
