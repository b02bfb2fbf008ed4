"""Slack's events: accepted by the host, and only then acknowledged, in order and many at once (F1,
K13).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from channels.base import Host, NotAccepted
from channels.json_access import Json, UnreadablePayload, find_object, find_text, get_text
from channels.message import Arrival, InboundMessage, UnreadableUpdate
from channels.slack.events import EventParser
from channels.slack.history import ThreadLookup, ThreadMembership

MAX_BATCH, MAX_REMEMBERED = 200, 2000
MAX_AHEAD_S = 86_400.0
"""No clock is further ahead: a time from later is not believed, or nothing would count as missed
any more.
"""
Acknowledge = Callable[[], Awaitable[bool]]


class SlackCursor:
    """How far an account has been read: never further than what the host has accepted. `now`:
    seconds since 1970; `save_s`: it is saved this often at most.
    """

    def __init__(
        self, host: Host, now: Callable[[], float], monotonic: Callable[[], float], save_s: float
    ) -> None:
        self._host, self._now, self._monotonic, self._save_s = host, now, monotonic, save_s
        self._newest = self._saved = self._first_start = 0.0
        self._missed_from: float | None = None
        self._saved_at = float("-inf")

    async def begin(self) -> None:
        """At the very first start: now, for nobody wants an answer to what was written before."""
        self._saved = self._newest = _seconds(await self._host.load_cursor())
        if self._saved <= 0:
            self._saved = 0.0
            self._newest = self._first_start = self._now()
            await self.save(at_once=True)

    def backfill_start(self, margin_s: float) -> float:
        """So long before what was accepted, in seconds since 1970; never before the very first
        start.
        """
        return max(self._value - margin_s, self._first_start)

    def advance(self, ts: str) -> None:
        """Everything up to here was accepted, except for what was missed."""
        if self._newest < (seconds := _seconds(ts)) <= self._now() + MAX_AHEAD_S:
            self._newest = seconds

    def note_missed(self, ts: str = "") -> None:
        """This was not accepted; without a ts: what came since the cursor, perhaps."""
        self._missed_from = min(self._value, _seconds(ts) if ts else self._value)

    def clear_missed(self) -> None:
        """What was missed has been accepted."""
        self._missed_from = None

    async def save(self, *, at_once: bool = False) -> None:
        """If it is time."""
        value, now = self._value, self._monotonic()
        if value == self._saved or (not at_once and now - self._saved_at < self._save_s):
            return
        try:
            await self._host.save_cursor(f"{value:.6f}")
        except NotAccepted:
            return  # an older one only means that more is looked through
        self._saved, self._saved_at = value, now

    @property
    def _value(self) -> float:
        return self._newest if self._missed_from is None else min(self._newest, self._missed_from)


class SlackIntake:
    """`is_open`: cleared while what was missed is fetched, so that it comes first."""

    def __init__(
        self,
        host: Host,
        parser: EventParser,
        threads: ThreadMembership,
        lookup: ThreadLookup,
        cursor: SlackCursor,
    ) -> None:
        self._host, self._parser, self._threads = host, parser, threads
        self._lookup, self._cursor = lookup, cursor
        self.is_open = asyncio.Event()
        self._events: asyncio.Queue[tuple[Json, Acknowledge]] = asyncio.Queue()
        self._accepted: OrderedDict[str, None] = OrderedDict()

    def enqueue(self, payload: Json, acknowledge: Acknowledge) -> None:
        """An event has come."""
        self._events.put_nowait((payload, acknowledge))

    async def run(self, on_missed: Callable[[], None]) -> None:
        """Accept what comes; `on_missed` where the host could not. Raises Revoked."""
        while True:
            events = [await self._events.get()]
            await self.is_open.wait()
            while len(events) < MAX_BATCH and not self._events.empty():
                events.append(self._events.get_nowait())
            arrivals = [arrival for payload, _ in events if (arrival := self._parse(payload))]
            times: list[str] = []
            for payload, _ in events:
                event = find_object(payload, "event")
                if ts := find_text(event, "ts") or find_text(event, "event_ts"):
                    times.append(ts)
            try:
                await self.accept(await self._lookup.complete(arrivals))
            except NotAccepted:
                for ts in times:
                    self._cursor.note_missed(ts)
                self._host.report_trouble(
                    "Slack: messages could not be saved; Slack sends them again"
                )
                on_missed()
                continue
            for _, acknowledge in events:
                await acknowledge()
            for ts in times:
                self._cursor.advance(ts)
            await self._cursor.save()

    def _parse(self, payload: Json) -> Arrival | None:
        event = find_object(payload, "event")
        try:
            get_text(event, "type")
            arrival = self._parser.parse_event(event)
        except UnreadablePayload as error:
            return self.unreadable(payload, error)
        if isinstance(arrival, InboundMessage) and arrival.addressed:
            self._threads.join(arrival.address, arrival.sender.id)
        return arrival

    def unreadable(self, payload: Json, reason: object) -> UnreadableUpdate:
        """Set aside, under a name that is the same when it comes again."""
        event_id = find_text(payload, "event_id") or None
        return UnreadableUpdate.of(self._parser.channel, "poison", payload, reason, event_id)

    async def accept(self, arrivals: Sequence[Arrival]) -> None:
        """Raises NotAccepted."""
        if not arrivals:
            return
        await self._host.accept(arrivals)
        for arrival in arrivals:
            if isinstance(arrival, InboundMessage):
                self._accepted[arrival.external_id] = None
        while len(self._accepted) > MAX_REMEMBERED:
            self._accepted.popitem(last=False)

    def was_accepted(self, external_id: str) -> bool:
        """Since we were started, not long ago."""
        return external_id in self._accepted


def _seconds(ts: str) -> float:
    try:
        return float(ts)
    except ValueError:
        return 0.0
