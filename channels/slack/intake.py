"""How far an account has been read: never further than what the house has taken.

Events in: read, taken by the house, and only then acknowledged, in order and many at once (F1, K13).
"""

import asyncio
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from channels.base import Host, NotAccepted
from channels.message import Arrival, InboundMessage, UnreadableUpdate
from channels.slack.events import EventParser, ThreadMembership, event_ts
from channels.slack.history import ThreadLookup
from channels.slack.web import Json, UnreadablePayload, find_text, get_object, get_text

AHEAD_S = 86_400.0
"""A time further ahead than clocks ever are is none; were it believed, nothing would count as missed any more."""


class SlackCursor:
    """Slack's timestamps. `now`: seconds since 1970; `keep_s`: it is written down this often at most."""

    def __init__(
        self, host: Host, now: Callable[[], float], monotonic: Callable[[], float], keep_s: float
    ) -> None:
        self._host, self._now, self._monotonic, self._keep_s = host, now, monotonic, keep_s
        self._newest = self._saved = self._floor = ""
        self._saved_at, self._first_start = float("-inf"), 0.0

    async def begin(self) -> None:
        """Where it stood; at the very first start: now, for nobody wants an answer to what was written before."""
        self._saved = self._newest = await self._host.load_cursor()
        now = self._now()
        if _seconds_of(self._saved) <= 0:
            self._saved, self._newest, self._first_start = "", f"{now:.6f}", now
            await self.save(at_once=True)

    def start_of_backfill(self, margin_s: float) -> float:
        """So long before what has been taken, in seconds since 1970; never before the very first start."""
        return max(_seconds_of(self._value) - margin_s, self._first_start)

    def advance(self, ts: str) -> None:
        """Everything up to here has been taken, except for what was missed."""
        if _seconds_of(self._newest) < _seconds_of(ts) <= self._now() + AHEAD_S:
            self._newest = ts

    def note_missed(self, ts: str = "") -> None:
        """This has not been taken; without a ts: what came since the cursor, perhaps."""
        ts = ts or self._value
        self._floor = min(self._floor or ts, ts, key=_seconds_of)

    def clear_missed(self) -> None:
        """What was missed has been taken."""
        self._floor = ""

    async def save(self, *, at_once: bool = False) -> None:
        """Write it down, if it is time."""
        value, now = self._value, self._monotonic()
        if value == self._saved or (not at_once and now - self._saved_at < self._keep_s):
            return
        try:
            await self._host.save_cursor(value)
        except NotAccepted:
            return  # an older one only means that more is looked through
        self._saved, self._saved_at = value, now

    @property
    def _value(self) -> str:
        return min(self._newest, self._floor, key=_seconds_of) if self._floor else self._newest


def _seconds_of(ts: str) -> float:
    try:
        return float(ts)
    except ValueError:
        return 0.0


MAX_BATCH, MAX_REMEMBERED, MAX_RAW = 200, 2000, 20_000
SECRETS_IN_PAYLOAD = re.compile(r'("(?:token|response_url|trigger_id)": ")[^"]*')
"""With these whoever reads them could answer in our name for a while."""
Acknowledge = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class _Event:
    payload: Json
    acknowledge: Acknowledge


class SlackIntake:
    """`open`: cleared while what was missed is fetched, so that it comes first. `on_missed`: something was not taken."""

    def __init__(
        self,
        host: Host,
        reader: EventParser,
        threads: ThreadMembership,
        recalling: ThreadLookup,
        cursor: SlackCursor,
        on_missed: Callable[[], None],
    ) -> None:
        self._host, self._reader, self._threads, self._cursor = host, reader, threads, cursor
        self._recalling, self._on_missed = recalling, on_missed
        self.open = asyncio.Event()
        self._events: asyncio.Queue[_Event] = asyncio.Queue()
        self._accepted: OrderedDict[str, None] = OrderedDict()

    def enqueue(self, payload: Json, acknowledge: Acknowledge) -> None:
        """An event has come."""
        self._events.put_nowait(_Event(payload, acknowledge))

    async def run(self) -> None:
        """Take what has come; ends with its task. Raises Revoked."""
        while True:
            events = [await self._events.get()]
            await self.open.wait()
            while len(events) < MAX_BATCH and not self._events.empty():
                events.append(self._events.get_nowait())
            await self._process(events)

    async def _process(self, events: list[_Event]) -> None:
        arrivals = [arrival for event in events if (arrival := self.parse(event.payload))]
        times = [ts for event in events if (ts := event_ts(get_object(event.payload, "event")))]
        try:
            await self.accept(await self._recalling.complete(arrivals))
        except NotAccepted:
            for ts in times:
                self._cursor.note_missed(ts)
            self._host.report_trouble(
                "Slack: what came could not be written down; Slack sends it again"
            )
            self._on_missed()
            return
        for event in events:
            await event.acknowledge()
        for ts in times:
            self._cursor.advance(ts)
        await self._cursor.save()

    def parse(self, payload: Json) -> Arrival | None:
        """What the house is to have of it."""
        event = get_object(payload, "event")
        try:
            get_text(event, "type")
            arrival = self._reader.parse_event(event)
        except UnreadablePayload as no:
            return self.unreadable(payload, str(no))
        if isinstance(arrival, InboundMessage) and arrival.addressed:
            self._threads.join(arrival.address, arrival.sender.id)
        return arrival

    def unreadable(self, payload: Json, why: str) -> UnreadableUpdate:
        """Set aside, under a name that is the same when it comes again."""
        raw = SECRETS_IN_PAYLOAD.sub(r"\1…", json.dumps(payload, ensure_ascii=False))
        name = find_text(payload, "event_id") or hashlib.sha256(raw.encode()).hexdigest()[:32]
        return UnreadableUpdate(self._reader.channel, f"poison/{name}", raw[:MAX_RAW], why)

    async def accept(self, arrivals: list[Arrival]) -> None:
        """Into the house. Raises NotTaken."""
        if not arrivals:
            return
        await self._host.accept(arrivals)
        for arrival in arrivals:
            if isinstance(arrival, InboundMessage):
                self._accepted[arrival.external_id] = None
        while len(self._accepted) > MAX_REMEMBERED:
            self._accepted.popitem(last=False)

    def was_accepted(self, external_id: str) -> bool:
        """It has been taken since we were started, not long ago."""
        return external_id in self._accepted
