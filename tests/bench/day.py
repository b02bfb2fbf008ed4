"""A day of a busy daemon, on a clock that is set: schedules, mails and events, and a night in which the clocks change.

The daemon is whole and in this process: its journal is on a disk, events come over HTTP, mails into a real Dovecot. The model
answers in a process of its own.
"""

import asyncio
import gc
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, perf_counter
from zoneinfo import ZoneInfo

from aiohttp import ClientSession

from daemon.app.channels import run_channels
from daemon.app.config import load_config
from daemon.app.daemon import Daemon, Overrides, open_daemon
from daemon.core.rows import InboxRow
from daemon.http.app import HttpServer, build_app
from daemon.http.resources import EventEndpoint
from daemon.store.tables.schedules import OccurrenceRow
from tests.bench.figures import Figure
from tests.bench.machine import rss_mb
from tests.bench.world import World
from tests.fakes.house import write_config
from tests.fakes.mail.server import MailServer, mail_server, write_mail

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2026, 3, 28, 23, 0, tzinfo=UTC)  # midnight in Berlin; at two the clocks go forward
NAMES = ("bell", "shop", "build", "door")
MOST, BURST_AT = 120, 12 * 60
TOKEN = "owner-token-0123456789"
AT_ONCE = 40  # turns that may wait before the clock goes on


@dataclass
class DayClock:
    """It goes when it is told to; the stopwatch is real."""

    at: datetime = START
    monotonic = staticmethod(monotonic)

    def now(self) -> datetime:
        return self.at


@dataclass(frozen=True, slots=True)
class Size:
    """What happens in the day, which is an hour shorter than others."""

    schedules: int = 1000
    mails: int = 500
    events: int = 2000
    burst: int = 200
    minutes: int = 23 * 60


@dataclass
class Day:
    """What came of it. `late`: times that fired later than they were due; `refused`: events of the burst, with the longest
    time to come back; `memory`: MB at each hour.
    """

    expected: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    twice: int = 0
    late: int = 0
    mails: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    longest_wait: int = 0
    unfinished: int = 0
    memory: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def missed(self) -> int:
        """Times at which nothing ran."""
        return sum((self.expected - self.fired).values())

    @property
    def growth(self) -> float:
        """By which part the last quarter needs more memory than the second one, when all is warm."""
        quarter = max(1, len(self.memory) // 4)
        second, last = self.memory[quarter : 2 * quarter], self.memory[-quarter:]
        return max(last) / max(second) - 1


def make_tasks(size: Size) -> list[dict[str, object]]:
    """Most once a day, at each minute of it; a tenth each few hours; all in a zone whose clocks change that night."""
    return [
        {
            "name": f"task{number}",
            "schedule": f"every {3 + number % 5}h" if number % 10 == 0 else _daily(number),
            "prompt": f"look after number {number}",
            "zone": "Europe/Berlin",
        }
        for number in range(size.schedules)
    ]


def _daily(number: int) -> str:
    at = number * 7 % (24 * 60)
    return f"{at % 60} {at // 60} * * *"


def count_expected(size: Size) -> Counter[str]:
    """By plain arithmetic over the day's minutes, which knows nothing of rules."""
    found, shown = Counter[str](), dict[tuple[int, int], int]()
    for minute in range(1, size.minutes):
        local = (START + minute * MINUTE).astimezone(BERLIN)
        shown[(local.hour, local.minute)] = minute
    for number in range(size.schedules):
        if number % 10 == 0:
            hours = 3 + number % 5
            found[f"task{number}"] = (size.minutes - 1) // (hours * 60)
            continue
        at = number * 7 % (24 * 60)
        is_jumped = at // 60 == 2 and size.minutes > 120  # then it runs when the jump ends
        found[f"task{number}"] = int((at // 60, at % 60) in shown or is_jumped)
    return +found


@asynccontextmanager
async def _house(
    home: Path, base_url: str, clock: DayClock, size: Size, server: MailServer
) -> AsyncIterator[tuple[Daemon, ClientSession]]:
    """As `aidaemon run` puts it together, without signals."""
    config = {
        "general": {"timezone": "Europe/Berlin"},
        "http": {"port": 0},
        "events": {
            "enabled": True,
            "notify": "web:owner",
            "tokens": {name: f"{name}-token-0123456789" for name in NAMES},
        },
        "scheduler": {"session": "web:owner", "tasks": make_tasks(size)},
        "email": server.config(notify="web:owner", authserv_id="", strangers_per_day=0),
        "budget": {"daily_tokens": 0, "daily_usd": 0.0},
        "limits": {"events_per_minute": MOST},
    }
    paths = write_config(home, base_url, config)
    loaded = load_config(paths.config, env={}, secrets={})
    async with (
        open_daemon(paths, loaded, Overrides(make_clock=lambda: clock)) as house,
        AsyncExitStack() as stack,
    ):
        events = EventEndpoint(house.triggers, house.config.events.tokens)
        http = HttpServer(house.config.http, build_app(house.client, TOKEN, events=events))
        url = await http.start()
        stack.push_async_callback(http.aclose)
        await stack.enter_async_context(run_channels(house))
        await house.sessions.recover()
        await house.schedules.start()
        yield house, await stack.enter_async_context(ClientSession(url))


async def live(home: Path, base_url: str, size: Size) -> Day:
    """The day, from its first minute to its last."""
    day, clock, began = Day(expected=count_expected(size)), DayClock(), perf_counter()
    async with (
        mail_server() as server,
        _house(home, base_url, clock, size, server) as (house, http),
    ):
        await _until(house, lambda: house.channel_states["email"].up.is_set())
        again: list[int] = []
        for minute in range(1, size.minutes):
            clock.at = START + minute * MINUTE
            await house.schedules.tick()
            numbers = _spread(size.events, minute, size.minutes)
            if minute == min(BURST_AT, size.minutes // 2):
                numbers = [*numbers, *range(10**6, 10**6 + size.burst)]
            again = await _post(http, [*again, *numbers], day)
            mails = _spread(size.mails, minute, size.minutes)
            if mails:
                await server.dovecot.deliver(*(write_mail("hi", number=f"{n}") for n in mails))
            await _calm(house, AT_ONCE if minute % 30 else 0)
            if minute % 60 == 59:
                gc.collect()
                day.memory.append(rss_mb(os.getpid()))
        await _until(house, lambda: _count_mails(house, size.mails))
        await _calm(house, 0)
        await _judge(house, day)
    day.seconds = perf_counter() - began
    return day


def _spread(count: int, minute: int, minutes: int) -> list[int]:
    return list(range(count * (minute - 1) // (minutes - 1), count * minute // (minutes - 1)))


async def _post(http: ClientSession, numbers: Sequence[int], day: Day) -> list[int]:
    """Send these events at once; those that were refused are to be sent again when their time has come."""

    async def one(number: int) -> int | None:
        is_burst = number >= 10**6
        name = NAMES[0 if is_burst else number % len(NAMES)]
        headers = {
            "Authorization": f"Bearer {name}-token-0123456789",
            "Idempotency-Key": str(number),
        }
        async with http.post(f"/v1/events/{name}", json={"n": number}, headers=headers) as answer:
            if answer.status == 202:
                day.events[str(number)] += 1
                return None
            assert answer.status == 429, await answer.text()
            wait = int(answer.headers["Retry-After"])
            assert 0 < wait <= 60
            day.refused, day.longest_wait = day.refused + 1, max(day.longest_wait, wait)
            return number

    found = await asyncio.gather(*(one(number) for number in numbers))
    return [number for number in found if number is not None]


async def _calm(house: Daemon, most: int) -> None:
    """Until so few turns at most are unfinished."""

    async def look() -> bool:
        rows: list[InboxRow] = await house.store.read(
            lambda tx: [*tx.list_inputs("new"), *tx.list_inputs("taken")]
        )
        return len(rows) <= most

    await _until(house, look)


async def _count_mails(house: Daemon, count: int) -> bool:
    runs = await house.store.read(lambda tx: tx.list_all_turns(100_000))
    return sum(row.session.startswith("email_trigger:") for row in runs) >= count


async def _until(house: Daemon, holds: object) -> None:
    assert callable(holds)
    async with asyncio.timeout(120):
        while not (await found if asyncio.iscoroutine(found := holds()) else found):
            await asyncio.sleep(0.002)


async def _judge(house: Daemon, day: Day) -> None:
    """From the journal alone."""
    rows = await house.store.read(lambda tx: tx.list_schedules())
    for row in rows:
        times: list[OccurrenceRow] = await house.store.read(
            lambda tx, name=row.id: tx.list_occurrences(name, 1000)
        )
        ran = [one for one in times if one.state == "fired"]
        day.fired[row.name] += len(ran)
        day.twice += len(ran) - len({one.due for one in ran})
        day.late += sum(one.at != one.due for one in ran)
    runs = await house.store.read(lambda tx: tx.list_all_turns(100_000))
    day.unfinished = sum(row.state != "ended" for row in runs)
    day.mails.update(row.session for row in runs if row.session.startswith("email_trigger:"))


async def simulated(world: World) -> list[Figure]:
    """1,000 schedules, 500 mails, 2,000 events and a burst of 200."""
    size = Size()
    day = await live(world.new_place(), world.model_url, size)
    fired, due = sum(day.fired.values()), sum(day.expected.values())
    return [
        Figure("a day: it took", day.seconds, "s", 60),
        Figure(f"a day: of {due} times of {size.schedules} schedules ran", fired, "times"),
        Figure("a day: missed, twice, late", day.missed + day.twice + day.late, "times"),
        Figure(f"a day: of {size.mails} mails were handled", sum(day.mails.values()), "mails"),
        Figure(
            f"a day: of {size.events + size.burst} events were taken",
            sum(day.events.values()),
            "events",
        ),
        Figure("a day: refused with a time, and taken when repeated", day.refused, "events"),
        Figure("a day: memory at six", day.memory[5], "MB"),
        Figure("a day: memory at its end", day.memory[-1], "MB"),
    ]
