"""Events in: read, taken by the house, and only then acknowledged, in order and many at once (F1, B5 #13)."""

import asyncio
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from channels.base import Host, NotTaken
from channels.message import Arrival, Inbound, Poison
from channels.slack.cursor import Cursor
from channels.slack.reading import Reader, ts_of
from channels.slack.recalling import Recalling
from channels.slack.shape import Json, Unreadable, maybe, table, text
from channels.slack.threads import Threads

MOST_AT_ONCE, MOST_REMEMBERED, LONGEST_RAW = 200, 2000, 20_000
PASSING = re.compile(r'("(?:token|response_url|trigger_id)": ")[^"]*')
"""With these whoever reads them could answer in our name for a while."""
Acknowledge = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class _Event:
    payload: Json
    acknowledge: Acknowledge


class Intake:
    """`open`: cleared while what was missed is fetched, so that it comes first. `on_missed`: something was not taken."""

    def __init__(
        self,
        host: Host,
        reader: Reader,
        threads: Threads,
        recalling: Recalling,
        cursor: Cursor,
        on_missed: Callable[[], None],
    ) -> None:
        self._host, self._reader, self._threads, self._cursor = host, reader, threads, cursor
        self._recalling, self._on_missed = recalling, on_missed
        self.open = asyncio.Event()
        self._events: asyncio.Queue[_Event] = asyncio.Queue()
        self._taken: OrderedDict[str, None] = OrderedDict()

    def offer(self, payload: Json, acknowledge: Acknowledge) -> None:
        """An event has come."""
        self._events.put_nowait(_Event(payload, acknowledge))

    async def work(self) -> None:
        """Take what has come; ends with its task. Raises Revoked."""
        while True:
            events = [await self._events.get()]
            await self.open.wait()
            while len(events) < MOST_AT_ONCE and not self._events.empty():
                events.append(self._events.get_nowait())
            await self._settle(events)

    async def _settle(self, events: list[_Event]) -> None:
        arrivals = [arrival for event in events if (arrival := self.read(event.payload))]
        times = [ts for event in events if (ts := ts_of(table(event.payload, "event")))]
        try:
            await self.take(await self._recalling.completed(arrivals))
        except NotTaken:
            for ts in times:
                self._cursor.missed(ts)
            self._host.ailing("Slack: what came could not be written down; Slack sends it again")
            self._on_missed()
            return
        for event in events:
            await event.acknowledge()
        for ts in times:
            self._cursor.advance(ts)
        await self._cursor.keep()

    def read(self, payload: Json) -> Arrival | None:
        """What the house is to have of it."""
        event = table(payload, "event")
        try:
            text(event, "type")
            arrival = self._reader.event(event)
        except Unreadable as no:
            return self.poison(payload, str(no))
        if isinstance(arrival, Inbound) and arrival.addressed:
            self._threads.join(arrival.address, arrival.sender.id)
        return arrival

    def poison(self, payload: Json, why: str) -> Poison:
        """Set aside, under a name that is the same when it comes again."""
        raw = PASSING.sub(r"\1…", json.dumps(payload, ensure_ascii=False))
        name = maybe(payload, "event_id") or hashlib.sha256(raw.encode()).hexdigest()[:32]
        return Poison(self._reader.channel, f"poison/{name}", raw[:LONGEST_RAW], why)

    async def take(self, arrivals: list[Arrival]) -> None:
        """Into the house. Raises NotTaken."""
        if not arrivals:
            return
        await self._host.take(arrivals)
        for arrival in arrivals:
            if isinstance(arrival, Inbound):
                self._taken[arrival.external_id] = None
        while len(self._taken) > MOST_REMEMBERED:
            self._taken.popitem(last=False)

    def knows(self, external_id: str) -> bool:
        """It has been taken since we were started, not long ago."""
        return external_id in self._taken
