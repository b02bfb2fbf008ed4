"""What the parts of a daemon ask of others: notices to the owner, memory, grants."""

import asyncio
import hashlib
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import field, replace
from datetime import date, timedelta
from pathlib import Path

from daemon.access.chat_ids import NOTICE
from daemon.agent.outside_turns import OutsideCaller
from daemon.app.runtime_config import RuntimeConfig
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import ConfigError, UsageError
from daemon.core.ids import NewId
from daemon.core.rows import (
    LOOP_CHANNEL,
    OUTSIDE_SCOPE,
    Disclosure,
    GrantRow,
    OutboxRow,
    SessionRow,
)
from daemon.core.trust import Label
from daemon.core.turn import Turn
from daemon.recall.consolidation import Consolidator
from daemon.store.journal import Store, Tx
from daemon.store.posting import WOKEN_CHANNELS
from daemon.tools.policy.grants import GrantRequest, explain_excess, matching_grants
from daemon.triggers.orders import FOLLOW_UP, ScheduleOrder
from daemon.triggers.recurrence import load_zone
from daemon.triggers.schedules import ScheduleEngine
from memory.memory import Memory

log = logging.getLogger(__name__)
TERMINAL_CHANNEL, TERMINAL_SESSION = "terminal", "terminal:main"
UNSHARED_CHANNELS = ("web", TERMINAL_CHANNEL, LOOP_CHANNEL, *WOKEN_CHANNELS)
MAX_REMEMBERED = 10_000
INSIST_EVERY_S = 10.0
EVENING = "19:00"
MOST_AHEAD = timedelta(days=60)
MAX_FOLLOW_UP = 200
MEMORY_UNUSABLE = (
    "{path}: the memory cannot be opened: {why}. Nothing was changed. Mend that, or move the file"
    " elsewhere: I begin an empty memory then, and what was said is read again from the journal."
)
MEMORY_SET_ASIDE = (
    "{path} was damaged. It is kept as {name}, and I go on with an empty memory; what was said"
    " stays in the journal. To have the facts of a backup: `aidaemon backup restore FILE`."
)


async def open_memory(path: Path) -> Memory:
    """Raises ConfigError, with what to do about it."""
    try:
        return await Memory.open(path)
    except (sqlite3.Error, OSError) as error:
        raise ConfigError(MEMORY_UNUSABLE.format(path=path, why=error)) from error


@value
class OwnerNotifier:
    """Posts a notice where the owner was last, on a channel that works if there is one; a log line
    where there is no such place yet.
    """

    store: Store
    clock: Clock
    new_id: NewId
    is_working: Callable[[str], bool]

    async def __call__(self, text: str, not_on: str = "") -> bool:
        """On disk when this returns; False where there is nobody to tell yet. `not_on` names the
        channel that it is about.
        """
        posted = await self.store.write(lambda tx: self.post_notice(tx, text, not_on))
        if not posted:
            log.warning("nobody to tell yet: %s", text)
        return posted

    async def insist(self, text: str) -> None:
        """Post it as soon as there is such a place."""
        while True:
            if await self.store.write(lambda tx: self.post_notice(tx, text)):
                return
            await asyncio.sleep(INSIST_EVERY_S)

    def post_notice(self, tx: Tx, text: str, not_on: str = "") -> bool:
        """The same, together with what it is about; False when there is no such place yet.

        The place is the owner's own chat, on a channel that works if there is one; else their
        terminal, which shows it when it is opened.
        """
        return self._post(tx, text, [one for one in _list_chats(tx) if one.channel != not_on])

    def post_failure(self, tx: Tx, text: str, failed: OutboxRow) -> None:
        """Of a delivery that failed for good: in another chat, best on another channel; else at the
        terminal.
        """
        refused = failed.channel, failed.chat.partition(":")[0]
        chats = [one for one in _list_chats(tx) if (one.channel, one.chat) != refused]
        chats.sort(key=lambda one: one.channel == failed.channel)
        if not self._post(tx, text, chats):
            tx.open_session(TERMINAL_SESSION, self.clock.now())
            self._post(tx, text, [])

    def _post(self, tx: Tx, text: str, rows: Sequence[SessionRow]) -> bool:
        working = [row for row in rows if self.is_working(row.channel)]
        terminals = tx.list_channel_sessions(TERMINAL_CHANNEL, 9)
        own = [row for row in terminals if row.label is Label.TRUSTED]
        for to in [*working, *own, *rows][:1]:
            key, now = f"{NOTICE}{self.new_id()}", self.clock.now()
            tx.post_delivery(OutboxRow(key, -1, to.id, to.channel, to.chat, "notice", text, now))
            return True
        return False


def _list_chats(tx: Tx) -> list[SessionRow]:
    return [row for chat in tx.list_owner_chats() if (row := tx.get_session(chat.session))]


TOO_MANY = "too many questions wait for the owner already; try again when they are answered"


@value
class StoredGrants:
    """Grants of the session, of its chat, and of everywhere. A session with text from outside has
    only what was granted to it. `list_shared_names`: of HTTP users, who read `web:NAME`.
    """

    store: Store
    clock: Clock
    list_shared_names: Callable[[], Collection[str]]
    _shared: dict[str, bool] = field(default_factory=dict)

    async def use_grant(self, session: str, wanted: GrantRequest, call: str) -> bool:
        """Whether a person has allowed this; one use of the grant is spent with the answer."""
        now = self.clock.now()

        def list_candidates(tx: Tx) -> list[GrantRow]:
            return matching_grants(_list_held(tx, session, wanted), wanted, now)

        def use(tx: Tx) -> bool:
            candidates = list_candidates(tx)
            return tx.is_grant_used(call) or any(
                tx.use_grant(row.id, call, now) for row in candidates
            )

        # Without a candidate nothing is written.
        if not await self.store.read(lambda tx: tx.is_grant_used(call) or list_candidates(tx)):
            return False
        return await self.store.write(use)

    async def count_disclosure(self, disclosure: Disclosure) -> str:
        """In one transaction with what it is weighed against."""
        new = self._date(disclosure)

        def count(tx: Tx) -> str:
            known = tx.list_disclosures(new.session, new.turn, new.day)
            if any(one.call == new.call for one in known):
                return ""
            why = explain_excess(known, new)
            if not why:
                tx.add_disclosure(new)
            return why

        return await self.store.write(count)

    async def count_order(self, deed: Disclosure, *, bare: bool) -> bool:
        """In one transaction with what was done before."""
        new = self._date(deed)

        def count(tx: Tx) -> bool:
            known = tx.list_disclosures(new.session, new.turn, new.day)
            keys = set(new.domain.split())
            done = any(
                one.call != new.call
                and (bare or one.turn == new.turn)
                and not keys.isdisjoint(one.domain.split())
                for one in known
            )
            if not done and all(one.call != new.call for one in known):
                tx.add_disclosure(new)
            return done

        return await self.store.write(count)

    async def explain_crowd(self, turn: Turn) -> str:
        """By all that are open."""
        now, own = self.clock.now(), sum(one.is_waiting for one in turn.pending)
        is_full = await self.store.read(lambda tx: tx.is_crowded(turn.id, turn.session, own, now))
        return TOO_MANY if is_full else ""

    async def is_shared(self, session: str) -> bool:
        """In a private chat no message has an id to answer to. What a chat is it stays; one of a
        platform in which nobody has written yet may be anything.
        """
        channel, _, chat = session.partition(":")
        if channel == "web" and chat.partition(".")[0] in self.list_shared_names():
            return True  # viewers read it
        if session not in self._shared:
            shared = await self.store.read(lambda tx: _find_shared(tx, session))
            if shared is None:
                return True
            if len(self._shared) >= MAX_REMEMBERED:
                self._shared.clear()
            self._shared[session] = shared
        return self._shared[session]

    def _date(self, disclosure: Disclosure) -> Disclosure:
        return replace(disclosure, day=int(self.clock.now().timestamp()) // 86_400)

    async def find_former(self, session: str, wanted: GrantRequest) -> str | None:
        """The latest."""
        held = await self.store.read(lambda tx: _list_held(tx, session, wanted))
        now, binds = self.clock.now(), wanted.binds
        found = [
            row.binds for row in held if matching_grants([replace(row, binds=binds)], wanted, now)
        ]
        return found[-1] if found else None


def _list_held(tx: Tx, session: str, wanted: GrantRequest) -> list[GrantRow]:
    held = tx.list_grants(session)
    if wanted.untrusted:
        return [row for row in tx.list_grants(OUTSIDE_SCOPE) + held if row.session]
    for row in tx.list_grants(wanted.plan) if wanted.plan else ():
        is_open = wanted.exact and (row.paths or " " in row.args_hash)
        held += [row] if row.session and not is_open else []
    own = tx.get_session(session)
    return held + (tx.list_grants(own.root) if own and own.root else [])


def _find_shared(tx: Tx, session: str) -> bool | None:
    """None while nobody has written there, in a place that may be a group. A command proves
    nothing: some have no message of their own.
    """
    if tx.is_shared(session):
        return True
    where = tx.get_session(session)
    is_direct = where is None or where.channel in UNSHARED_CHANNELS or tx.has_messages(session)
    is_direct = is_direct or any(one.session == session for one in tx.list_owner_chats())
    return False if is_direct else None


@value
class FollowUps:
    """Questions that the assistant asks by itself about what its owner said they would do (H5).
    They are texts with a time: no model and no tool is at work when they are put.

    `count_per_day`: as many as the config allows; `is_own` says that nobody but the owner reads a
    session: when it is planned, and when it is due.
    """

    engine: ScheduleEngine
    is_own: Callable[[str], Awaitable[bool]]
    count_per_day: Callable[[], int]

    def __post_init__(self) -> None:
        self.engine.is_own = self.is_own

    @property
    def enabled(self) -> bool:
        """The owner wants some."""
        return self.count_per_day() > 0

    async def plan(self, session: str, source: str, question: str, day: date) -> bool:
        """Ask this in the evening of the day, in the owner's chat where it was said; once for each
        `source`. False where it has no place.
        """
        engine, words = self.engine, " ".join(question.split())
        today = engine.clock.now().astimezone(load_zone(engine.zone)).date()
        fits = 0 < len(words) <= MAX_FOLLOW_UP and words.isprintable()
        if not (self.enabled and fits and today <= day <= today + MOST_AHEAD):
            return False
        that_day = await engine.store.read(
            lambda tx: tx.count_planned(FOLLOW_UP, day.isoformat())  # one removed keeps its place
        )
        if that_day >= self.count_per_day() or not await self.is_own(session):
            return False
        key = f"{FOLLOW_UP}-{hashlib.sha256(source.encode()).hexdigest()[:12]}"
        order = ScheduleOrder(
            f"{day}T{EVENING}", words, session, key, origin=FOLLOW_UP, oneshot=True, remind=True,
            composed=True,
        )  # fmt: skip
        try:
            await engine.add(order, key)
        except UsageError:  # the evening has begun
            return False
        return True


def make_consolidator(
    memory: Memory,
    caller: OutsideCaller,
    clock: Clock,
    schedules: ScheduleEngine,
    is_own: Callable[[str], Awaitable[bool]],
    runtime: RuntimeConfig,
) -> Consolidator:
    """What chooses what to remember, and what to ask later; by the running config."""
    follow_ups = FollowUps(schedules, is_own, lambda: runtime.loaded.config.memory.follow_ups)

    def count_hours() -> float:
        return runtime.loaded.config.memory.consolidation_hours

    return Consolidator(memory, caller, clock, count_hours, follow_ups)
