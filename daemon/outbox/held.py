"""What waits in the outbox until it is due: messages to others (F8), and, in the quiet hours or for
the digest, results that nobody asked for at that moment (issue 12).
"""

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime, time, timedelta
from itertools import groupby
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from daemon.access.chat_ids import NOTICE
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import StoreUnavailable
from daemon.core.ids import is_mail_session
from daemon.core.rows import OutboxRow
from daemon.store.journal import Store, Tx

HOUR = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
HOURS = re.compile(f"{HOUR.pattern}-{HOUR.pattern}")
PAUSE_S, LOOK_S, SOON_S = 1.0, 1.0, 0.01
log = logging.getLogger(__name__)


def _check_hours(text: str) -> str:
    begin, _, end = text.partition("-")
    if text and (not HOURS.fullmatch(text) or begin == end):
        raise ValueError(f'expected hours such as "22:00-07:00", or nothing, got {text!r}')
    return text


def _list_times(given: object) -> object:
    """One time may stand without a list; empty text is none."""
    return [one for one in (given,) if one] if isinstance(given, str) else given


def _check_times(times: tuple[str, ...]) -> tuple[str, ...]:
    for one in times:
        if not HOUR.fullmatch(one):
            raise ValueError(f'expected times such as ["08:00", "18:00"], got {one!r}')
    return tuple(sorted(set(times)))


class NotifyConfig(BaseModel):
    """[notify]: when the owner is told what they did not ask for at that moment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    quiet_hours: Annotated[str, AfterValidator(_check_hours)] = Field(
        "", description='local hours such as "22:00-07:00" in which results wait; empty: none'
    )
    digest: Annotated[
        tuple[str, ...], BeforeValidator(_list_times), AfterValidator(_check_times)
    ] = Field(
        (), description='local times at which results come together: ["08:00"]; empty: at once'
    )

    @model_validator(mode="after")
    def _check(self) -> "NotifyConfig":
        if bad := [one for one in self.digest if self.is_quiet(time.fromisoformat(one))]:
            raise ValueError(f"digest: {bad[0]} lies in the quiet hours {self.quiet_hours}")
        return self

    def is_quiet(self, at: time) -> bool:
        """This time of day is one of the quiet hours, which may go over midnight."""
        if not self.quiet_hours:
            return False
        begin, end = (time.fromisoformat(one) for one in self.quiet_hours.split("-"))
        return begin <= at < end if begin < end else at >= begin or at < end

    def find_due(self, now: datetime) -> datetime | None:
        """When what comes now is told; None for at once. Local time is the process's."""
        if not (self.digest or self.quiet_hours):
            return None
        if self.digest:
            return min(_find_next(one, now) for one in self.digest)
        return self.find_quiet_end(now)

    def find_quiet_end(self, now: datetime) -> datetime | None:
        """When the quiet hours end; None where it is none of them."""
        if self.is_quiet(now.astimezone().time()):
            return _find_next(self.quiet_hours.partition("-")[2], now)
        return None


def _find_next(wall: str, now: datetime) -> datetime:
    """The next moment after `now` at which local clocks show this. A time that the clock jumps over
    counts as the end of the jump.
    """
    today, at = now.astimezone().date(), time.fromisoformat(wall)
    days = (datetime.combine(today + timedelta(days=n), at) for n in range(3))
    return min(found for day in days if (found := _to_utc(day)) > now)


def _to_utc(wall: datetime) -> datetime:
    first, last = sorted(wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    return first if first.astimezone().replace(tzinfo=None) == wall else last


def hold_back(tx: Tx, row: OutboxRow, config: NotifyConfig, now: datetime) -> bool:
    """Whether it waits; then it is held in the journal. What the owner ordered is answered at once
    (in its own turn, or `due` from the start), and so is a question asked, for it lapses; only that
    of what began by itself waits for the end of the quiet hours. What has begun to be sent goes on.
    """
    if row.kind == "approval" and row.state == "new" and not row.due and not row.attempts:
        end = config.find_quiet_end(now)
        if end is None or not tx.is_begun_by_itself(row.turn):
            return False
        tx.hold_delivery(row.turn, row.part, end)
        return True
    if row.kind != "notice" or row.state != "new" or row.due or row.platform_message_id:
        return False
    due = config.find_due(now)
    turn = None if due is None or row.turn.startswith(NOTICE) else tx.get_turn(row.turn)
    if due is None or (turn and turn.session == row.session):
        return False
    tx.hold_delivery(row.turn, row.part, due)
    return True


def hold_answer(tx: Tx, row: OutboxRow, hold_s: int, now: datetime) -> bool:
    """Whether it is an answer to somebody's mail, which can be withdrawn for so many seconds. An
    answer to a trusted sender, whose conversation is their own, goes at once.
    """
    session = tx.get_session(row.session) if is_held_answer(row) else None
    if session is None or not session.root or not hold_s:
        return False
    tx.hold_delivery(row.turn, row.part, now + timedelta(seconds=hold_s))
    return True


def is_held_answer(row: OutboxRow) -> bool:
    """It may be one, by what the row says."""
    is_new = row.state == "new" and not row.due and not row.platform_message_id
    return is_new and row.kind == "reply" and is_mail_session(row.session)


@value
class HeldMessages:
    """Lets what is held go when it is due, however the clock jumps. What is due is in the journal;
    this only looks in time. `is_held` is set by the sender, which sees all that is posted.
    """

    store: Store
    clock: Clock
    get_notify: Callable[[], NotifyConfig]
    get_hold_s: Callable[[], int]
    is_held: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.is_held.clear()
            try:
                wait = await self._look()
            except StoreUnavailable as error:
                log.error("held messages wait: %s", error)
                wait = PAUSE_S
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self.is_held.wait()

    async def _look(self) -> float | None:
        """The seconds until the next look; None while nothing is held."""
        now = self.clock.now()
        times = await self.release(self.get_notify(), now)
        if times is None:
            return None
        return min(max((times[0] - now).total_seconds(), SOON_S), LOOK_S)

    async def release(
        self, config: NotifyConfig, now: datetime
    ) -> tuple[datetime, datetime] | None:
        """No notice waits longer than one that comes now: not after a change of the config, or of
        a clock that was wrong. Gives when the first of those that are held still is due, and when
        the last was made.
        """
        latest = config.find_due(now) or now
        times, is_late = await self.store.read(
            lambda tx: (tx.get_held_times(), tx.has_notices_after(latest))
        )
        if times and (is_late or times[0] <= now or times[1] > now):
            times = await self.store.write(lambda tx: _release(tx, now, latest))
        return times


def _release(tx: Tx, now: datetime, latest: datetime) -> tuple[datetime, datetime] | None:
    """All that is due is new again; notices for one conversation become one message. What is held
    still, as `get_held_times` says.
    """
    tx.advance_notices(latest)
    notices = sorted(tx.list_held_notices(now), key=_get_chat)
    for _, group in groupby(notices, _get_chat):
        first, *others = group
        if others:
            tx.join_deliveries(first, others)
    tx.release_held(now)
    return tx.get_held_times()


def _get_chat(row: OutboxRow) -> tuple[str, str]:
    return row.channel, row.chat
