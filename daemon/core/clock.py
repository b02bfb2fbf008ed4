"""Clocks, passed in; tasks that a cancellation cannot cut in two, and tasks in the background."""

import asyncio
import logging
import os
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import Protocol, TypeVar

from daemon.core.errors import ConfigError

log = logging.getLogger(__name__)
TEST_CLOCK = "AIDAEMON_TEST_CLOCK"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Wall time for people and schedules, monotonic time for deadlines."""

    def now(self) -> datetime:
        """Aware UTC wall time."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...


class SystemClock:
    """The machine's own clocks."""

    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(monotonic)


@dataclass
class FileClock:
    """A wall clock read from a file (an ISO instant), looked at again every 100 ms; the stopwatch
    stays real.
    """

    path: Path
    _read_at: float = -1.0
    _now: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    monotonic = staticmethod(monotonic)

    def now(self) -> datetime:
        """The instant in the file; the last good one while the file is being rewritten."""
        if monotonic() - self._read_at >= 0.1:
            self._read_at = monotonic()
            try:
                instant = datetime.fromisoformat(self.path.read_text().strip())
            except (OSError, ValueError):
                return self._now
            self._now = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
        return self._now.astimezone(UTC)


def system_clock() -> Clock:
    """The machine's clock, or the file that tests write ($AIDAEMON_TEST_CLOCK). Raises
    ConfigError for a bad one.
    """
    path = os.environ.get(TEST_CLOCK)
    if not path:
        return SystemClock()
    try:
        datetime.fromisoformat(Path(path).read_text().strip())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{TEST_CLOCK}: {path} does not hold an instant like 2026-03-01T09:00:00+00:00: {error}"
        ) from error
    return FileClock(Path(path))


def set_timezone(name: str) -> None:
    """Local time is that of this zone from now on, in this process; "" for the machine's."""
    if name:
        os.environ["TZ"] = name
        time.tzset()


@cache
def find_local_zone() -> str:
    """The name of the machine's zone, such as "Europe/Berlin"."""
    from tzlocal import get_localzone_name  # lazy: rarely needed

    return get_localzone_name() or "UTC"


def show_time(instant: datetime, form: str = "%d %b %H:%M") -> str:
    """Local time, with its zone: "23 Nov 09:00 CET"."""
    local = instant.astimezone()
    return f"{local:{form}} {local.tzname()}"


def show_day(instant: datetime) -> str:
    """The day that it is here: "2026-11-23"."""
    return instant.astimezone().date().isoformat()


def find_midnight(instant: datetime, days: int = 0) -> datetime:
    """When the owner's day began that it is then, or the one so many days later begins."""
    day = instant.astimezone().date() + timedelta(days=days)
    return datetime(day.year, day.month, day.day).astimezone()


def number_day(instant: datetime) -> int:
    """The number of the owner's day that it is then, since 1970."""
    return instant.astimezone().toordinal() - EPOCH.toordinal() if instant > EPOCH else 0


T = TypeVar("T")


async def run_to_completion(work: Coroutine[object, object, T]) -> T:
    """Await to the end even when cancelled meanwhile; the cancellation is delivered afterwards.

    For what must not be left half known: a commit whose outcome decides what is written next.
    """
    task = asyncio.ensure_future(work)
    cancelled = await wait_to_end(task)
    result = task.result()
    if cancelled:
        raise cancelled
    return result


async def wait_to_end(future: asyncio.Future[T]) -> asyncio.CancelledError | None:
    """Wait even when cancelled meanwhile. Returns the cancellation, for the caller to raise."""
    cancelled = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as exc:
            cancelled = exc
    return cancelled


class Commit(asyncio.Future[T]):
    """Of what is written whether or not somebody still waits for it: a task that is cancelled
    meanwhile learns so once this has ended.
    """

    def cancel(self, msg: object = None) -> bool:
        """It cannot be."""
        return False


async def wait_for_stop(stopping: asyncio.Event, seconds: float) -> bool:
    """Wait so long; True when the daemon stops meanwhile."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await stopping.wait()
    return False


@dataclass(slots=True)
class BackgroundTasks:
    """Owns small tasks that nobody waits for, and logs those that fail."""

    _tasks: set[asyncio.Task[object]] = field(default_factory=set)

    def start(self, work: Coroutine[None, None, T], name: str) -> asyncio.Task[T]:
        """Start it; returns the task."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("%s broke off", task.get_name(), exc_info=error)

    async def aclose(self, patience_s: float = 0.0) -> None:
        """Cancel what is not done in so many seconds."""
        if self._tasks and patience_s:
            await asyncio.wait(self._tasks, timeout=patience_s)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
