"""Brakes whose defaults hold: how much each sender may bring in, and how many turns work at once.
What was brought in is counted in the journal, so a restart lifts no limit.

Nothing is lost by them: what is refused was not accepted, and the refusal says when to come back;
what was accepted waits in the inbox for its place.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from pydantic import BaseModel, ConfigDict, Field

from daemon.agent.config import AgentConfig
from daemon.core.clock import Clock, find_midnight, show_day
from daemon.core.errors import AidaemonError
from daemon.core.ids import is_mail_session
from daemon.store.journal import Store, Tx
from daemon.store.tables.people import IntakeRow

OWNER_FACTOR = 1000
MINUTE_S, LATEST = 60.0, 10_000
OWNER_RANK, PERSON_RANK, UNTRUSTED_RANK = range(3)
OTHERS_SHARE = 0.75
TOO_FAST = (
    "more than {most} {what} a minute came from {sender}; this one was not accepted, and nothing of"
    " it was kept: send it again in {wait} s ({key} in [limits])"
)
TOO_MUCH = (
    "{sender} has sent more than {most:g} MB today; this was not accepted, and nothing of it was"
    " kept: send it again after midnight, in {wait} s (mb_per_day in [limits])"
)


class LimitsConfig(BaseModel):
    """[limits]: what one sender may bring in. The owner may bring in a thousand times as much: only
    a runaway script meets that.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages_per_minute: int = Field(
        120, ge=0, description="messages of one person in any minute; 0: no limit"
    )
    events_per_minute: int = Field(
        120, ge=0, description="events of one name in any minute; 0: no limit"
    )
    mb_per_day: float = Field(
        10.0,
        ge=0,
        description="megabytes of text of one sender in a day, of each event at least 4 kB;"
        " 0: no limit",
    )


class TooMany(AidaemonError):
    """Not accepted. `retry_after`: seconds; `first`: nobody was told yet of this stretch."""

    def __init__(self, text: str, retry_after: float, *, first: bool) -> None:
        super().__init__(text)
        self.retry_after = max(1, ceil(retry_after))
        self.first = first


@dataclass(slots=True)
class _Sender:
    times: deque[float] = field(default_factory=deque)
    day: str = ""
    size: int = 0
    count: int = 0
    refused: bool = False


@dataclass(slots=True)
class Intake:
    """What each sender has brought in, of all channels, HTTP and events. Senders are people or
    events that the owner has let in: there are few.
    """

    config: LimitsConfig
    clock: Clock
    _senders: dict[str, _Sender] = field(default_factory=dict)

    async def load(self, store: Store) -> None:
        """What was counted today, and in the last minute."""
        now = self.clock.now()

        def look(tx: Tx) -> tuple[list[IntakeRow], list[tuple[str, str, str, datetime]]]:
            since = now - timedelta(seconds=MINUTE_S)
            return tx.list_intake(show_day(now)), tx.list_latest_inputs(LATEST, since, now)

        counted, latest = await store.read(look)
        for row in counted:
            self._senders[row.sender] = _Sender(day=row.day, size=row.size, count=row.count)
        for channel, session, sender, at in latest:
            name = name_strangers(channel) if is_mail_session(session) else sender
            self._senders.setdefault(name, _Sender()).times.append(at.timestamp())

    def count_today(self, sender: str) -> int:
        """How many this sender has brought in, and was refused, today."""
        return self._find(sender, self.clock.now()).count

    def _find(self, sender: str, now: datetime) -> _Sender:
        known, day = self._senders.setdefault(sender, _Sender()), show_day(now)
        if known.day != day:
            known.day, known.size, known.count = day, 0, 0
        return known

    def take(
        self,
        sender: str,
        size: int,
        owner: bool = False,
        *,
        event: bool = False,
        count: bool = True,
    ) -> IntakeRow | None:
        """Count one of this many characters; what is to be written with it. Raises TooMany: it is
        not to be accepted.
        """
        today = self.clock.now()
        known, now = self._find(sender, today), today.timestamp()
        key = "events_per_minute" if event else "messages_per_minute"
        factor = OWNER_FACTOR if owner else 1
        most, most_mb = getattr(self.config, key) * factor, self.config.mb_per_day * factor
        while known.times and not 0 <= now - known.times[0] < MINUTE_S:  # or it was set back
            known.times.popleft()
        if most and len(known.times) >= most:
            wait = known.times[0] + MINUTE_S - now
            what = "events" if event else "messages"
            text = TOO_FAST.format(
                most=most, what=what, sender=sender, wait=max(1, ceil(wait)), key=key
            )
            raise self._refuse(known, text, wait)
        if most_mb and known.size + size > most_mb * 1_000_000:
            wait = (find_midnight(today, 1) - today).total_seconds()
            raise self._refuse(
                known, TOO_MUCH.format(most=most_mb, sender=sender, wait=ceil(wait)), wait
            )
        if not count:
            return None
        known.times.append(now)
        known.refused = False
        return None if owner else self.add(sender, size, 1)

    def give_back(self, sender: str, size: int, owner: bool) -> None:
        """What was taken had come before, and was counted then."""
        known = self._find(sender, self.clock.now())
        if known.times:
            known.times.pop()
        if not owner:
            known.size, known.count = max(0, known.size - size), max(0, known.count - 1)

    def add(self, sender: str, size: int, count: int = 0) -> IntakeRow:
        """What was taken is kept in this many more characters; what is to be written of it."""
        known = self._find(sender, self.clock.now())
        known.size += max(0, size)
        known.count += count
        return IntakeRow(sender, known.day, known.size, known.count)

    def _refuse(self, known: _Sender, text: str, wait: float) -> TooMany:
        first, known.refused = not known.refused, True
        return TooMany(text, wait, first=first)


def name_strangers(channel: str) -> str:
    """All strangers of a mailbox count as one sender."""
    return f"{channel}:strangers"


@dataclass(slots=True)
class Places:
    """Turns at work at once. Of all places a quarter is kept for the owner's chats, and untrusted
    sessions have few; whoever waits gets a place by rank, then in order.
    """

    get_config: Callable[[], AgentConfig]
    _at_work: list[int] = field(default_factory=lambda: [0, 0, 0])
    _waiting: list[tuple[int, asyncio.Future[bool]]] = field(default_factory=list)
    _closed: bool = False

    def _is_free(self, rank: int) -> bool:
        config = self.get_config()
        most, untrusted = config.max_turns_at_work or 1 << 30, config.max_untrusted_turns_at_work
        if rank == UNTRUSTED_RANK and untrusted and self._at_work[rank] >= untrusted:
            return False
        others = sum(self._at_work[PERSON_RANK:])
        if rank != OWNER_RANK and others >= max(1, most * OTHERS_SHARE):
            return False
        return sum(self._at_work) < most

    def begin_wait(self, rank: int) -> asyncio.Future[bool] | None:
        """None: the place is taken, now. Else what is true once a place was taken; false when it
        is no longer waited for.
        """
        if self._is_free(rank):
            self._at_work[rank] += 1
            return None
        ready = asyncio.get_running_loop().create_future()
        if self._closed:
            ready.set_result(False)
        else:
            self._waiting.append((rank, ready))
        return ready

    def leave(self, rank: int) -> None:
        """The turn has ended, or waits for a person: others go on."""
        self._at_work[rank] -= 1
        self._waiting = [one for one in self._waiting if not one[1].done()]
        for waiting_rank, ready in sorted(self._waiting, key=lambda one: one[0]):
            if self._is_free(waiting_rank):
                self._at_work[waiting_rank] += 1
                ready.set_result(True)

    def aclose(self) -> None:
        """The daemon stops: whoever waits has not begun, and begins after the next start."""
        self._closed = True
        for _, ready in self._waiting:
            if not ready.done():
                ready.set_result(False)
