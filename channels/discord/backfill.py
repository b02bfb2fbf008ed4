"""Channels of which something may be missing, and what comes there meanwhile: it waits until what is missing has been read.

What came in, in order, to the house; after a gap first what is missing (K1, #2).

Discord sends each event once, and a session that cannot be resumed is never made up for. So every event goes into one queue,
one worker hands it on, and the id of the newest message that the house has written down is kept. Ids hold the time, over all
channels; with every new session, each channel with something newer is read on from there. Messages may come twice, which the
house sees by their ids; none is left out. The mark stands still while anything may be missing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from channels.base import DeliveryUnknown, Host, NotAccepted, Rejected, RetryLater
from channels.discord import events as reading
from channels.discord import payloads as snowflake
from channels.discord.directory import ChannelDirectory, ChannelInfo
from channels.discord.gateway import DiscordTiming
from channels.discord.payloads import Payload
from channels.discord.rest import DiscordRest, http
from channels.message import Arrival, UnreadableUpdate

MAX_HELD = 500
Event = tuple[str, dict[str, Any]]


@dataclass(slots=True)
class HistoryGap:
    """What is missing in one channel. `after`: read on after this id; `tries`: how often it went wrong, `due`: when to try again.
    `again`: more came meanwhile than is held; history has it. `anew`: something may be missing that came after the page was read.
    """

    after: int
    tries: int = 0
    due: float = 0.0
    overflow: bool = False
    reread: bool = False
    queued: list[Event] = field(default_factory=list)

    def hold(self, event: Event) -> None:
        """Keep what came; it is handled after what is missing."""
        if len(self.queued) < MAX_HELD and not self.overflow:
            self.queued.append(event)
        else:
            self.overflow = True


@dataclass(slots=True)
class HistoryGaps:
    """All of them, by channel."""

    by_channel: dict[str, HistoryGap] = field(default_factory=dict)

    def open(self, channel: str, after: int) -> HistoryGap:
        """Something may be missing there since then."""
        gap = self.by_channel.setdefault(channel, HistoryGap(after))
        gap.after, gap.reread = min(gap.after, after), True
        return gap

    def hold_event(self, channel: str, event: Event) -> bool:
        """Whether this event has to wait; it is kept then."""
        gap = self.by_channel.get(channel)
        if gap is not None:
            gap.hold(event)
        return gap is not None

    def next_due(self, now: float) -> str:
        """A channel to read on in, each in its turn; "" for none."""
        due = next((channel for channel, gap in self.by_channel.items() if gap.due <= now), "")
        if due:
            self.by_channel[due] = self.by_channel.pop(due)
        return due

    def seconds_until_due(self, now: float) -> float | None:
        """Seconds until one is due; None when there is none."""
        return min((max(0.0, gap.due - now) for gap in self.by_channel.values()), default=None)

    def close(self, channel: str) -> list[Event]:
        """All has been read there: what was held; nothing, and the gap stays, when there is still more."""
        gap = self.by_channel[channel]
        if gap.overflow:
            gap.overflow = False
            gap.queued.clear()
            return []
        if gap.reread:
            return []
        return self.by_channel.pop(channel).queued


log = logging.getLogger(__name__)
OVERLAP_S = 60.0
"""How far the order of ids over channels may differ from the order in which they come."""
AHEAD = timedelta(days=1)
"""An id from further ahead than clocks ever are is none; were it believed, nothing would count as missed any more."""
PAGE_SIZE = 100
MAX_BATCH = 50
MAX_QUEUED = 10_000
MAX_PENDING_S = 300.0
"""A guild that is away for longer than that no longer keeps the mark where it is."""
PAGE_TIMEOUT_S = 10.0
"""While a page is waited for, nothing else is handed on."""
MAX_UNKNOWN = 50
"""Not every server says what the newest message of a channel is: so many of those are looked through as well."""
MAX_DIRECT_CHATS = 200
"""Direct chats are not listed anywhere: those of so many people of the allow-list are looked up."""
MAX_EDITS = 1000
KNOWN_CHATS = ""
"""Stands before those people for the chats that the house knows."""


class DiscordIntake:
    """One account's. `hear` never waits; `work` does, for ever."""

    def __init__(
        self,
        calls: DiscordRest,
        host: Host,
        me: Callable[[], reading.DiscordIdentity],
        places: ChannelDirectory,
        patience: DiscordTiming,
        people: Sequence[str],
    ) -> None:
        self._calls, self._host, self._me, self._places = calls, host, me, places
        self._patience, self._people = patience, people
        self._waiting: deque[Event | UnreadableUpdate] = deque()
        self._gaps = HistoryGaps()
        self._news = asyncio.Event()
        self._newest = self._saved = self._since = 0
        self._saved_at = self._fresh_at = self._ask_at = 0.0
        self._is_estimate = False
        self._to_ask: deque[str] = deque()
        self._tries = 0
        self._direct: set[str] = set()
        self._edits: dict[str, object] = {}

    async def begin(self, now: Callable[[], datetime]) -> None:
        """Where we had read up to; now, the first time. Raises NotTaken."""
        self._now = now
        kept, at_least = (
            snowflake.parse_snowflake(await self._host.load_cursor()),
            snowflake.snowflake_at(now()),
        )
        if not kept:
            await self._host.save_cursor(str(at_least))
        self._is_estimate = not kept
        self._newest = self._saved = self._since = kept or at_least

    def on_new_session(self) -> None:
        """A new session begins: something may be missing everywhere."""
        if not self._fresh_at:
            self._correct_clock()
        self.note_missing()
        self._to_ask, self._ask_at, self._tries = (
            deque([KNOWN_CHATS, *self._people[:MAX_DIRECT_CHATS]]),
            0.0,
            0,
        )
        self._direct.clear()
        self._news.set()

    def _correct_clock(self) -> None:
        """The mark against our clock, which may have been ahead of Discord's, or was set only after the start: by now it is."""
        self._newest = min(self._newest, snowflake.snowflake_at(self._now()))
        if self._is_estimate:
            self._newest = max(self._newest, snowflake.snowflake_at(self._now() - AHEAD))
        else:
            self._saved = self._newest

    def note_missing(self) -> None:
        """From what stands in the house now something may be missing, unless that is so already."""
        if not (self._gaps.by_channel or self._places.pending or self._to_ask):
            self._since = self._newest
        self._fresh_at = asyncio.get_running_loop().time()

    def on_channel(self, channel: str, place: ChannelInfo) -> None:
        """A channel that is there again; it is read on in when there is something newer."""
        unknown = place.last_message == 0 and len(self._gaps.by_channel) < MAX_UNKNOWN
        if place.last_message > self._floor() or unknown:
            self._gaps.open(channel, self._floor())
            self._news.set()

    def _floor(self) -> int:
        return snowflake.snowflake_before(self._since, OVERLAP_S)

    def enqueue(self, event: str, payload: Payload) -> None:
        """Something that was said or done."""
        channel, said = str(payload.get("channel_id", "")), (event, dict(payload))
        if len(self._waiting) >= MAX_QUEUED or self._is_first(channel, payload):
            self._gaps.open(channel, self._floor())
        if not self._gaps.hold_event(channel, said):
            self._waiting.append(said)
        self._news.set()

    def _is_first(self, channel: str, payload: Payload) -> bool:
        """The first thing in a chat that no guild lists, before those have been asked for: what was missed there comes first."""
        if (
            not self._to_ask
            or payload.get("guild_id")
            or channel in self._direct
            or not channel.isdecimal()
        ):
            return False
        self._direct.add(channel)
        return True

    def enqueue_unreadable(self, poison: UnreadableUpdate) -> None:
        """Something that nobody can read."""
        self._waiting.append(poison)
        self._news.set()

    async def run(self) -> None:
        """Hand on what comes. Raises Revoked."""
        while True:
            self._news.clear()
            now = asyncio.get_running_loop().time()
            busy = bool(self._waiting)
            if busy:
                await self._process_batch()
            if self._to_ask and now >= self._ask_at:
                await self._ask_next()
            elif channel := self._gaps.next_due(now):
                await self._read_page(channel)
            elif busy:
                continue
            elif self._must_save() and now >= self._saved_at + self._patience.keep:
                await self._save_cursor(now)
            else:
                await self._sleep(now)

    async def _sleep(self, now: float) -> None:
        waits = [self._gaps.seconds_until_due(now), self._ask_at - now if self._to_ask else None]
        waits.append(self._saved_at + self._patience.keep - now if self._must_save() else None)
        try:
            async with asyncio.timeout(
                min((wait for wait in waits if wait is not None), default=None)
            ):
                await self._news.wait()
        except TimeoutError:
            return

    async def _process_batch(self) -> None:
        batch = [self._waiting[at] for at in range(min(len(self._waiting), MAX_BATCH))]
        await self._accept(self._parse(said) for said in batch)
        for said in batch:
            self._waiting.popleft()
            if isinstance(said, tuple):
                self._advance(said)

    def _parse(self, said: Event | UnreadableUpdate) -> Arrival | None:
        if not isinstance(said, tuple):
            return said
        event, payload = said
        if event == "MESSAGE_UPDATE" and self._edits.get(str(payload.get("id")), "") == payload.get(
            "edited_timestamp"
        ):
            return None  # history had it with its new words already
        return reading.parse_event(
            event, payload, self._places.get(str(payload.get("channel_id"))), self._me()
        )

    def _advance(self, said: Event) -> None:
        """It stands in the house now."""
        event, payload = said
        if event == "MESSAGE_CREATE":
            number = snowflake.parse_snowflake(payload.get("id"))
            number = number if number <= snowflake.snowflake_at(self._now() + AHEAD) else 0
            self._newest = number if self._is_estimate and number else max(self._newest, number)
            self._is_estimate = self._is_estimate and not number

    async def _accept(self, read: Iterable[Arrival | None]) -> None:
        """Until the house has written it down; nothing is dropped, and nothing overtakes."""
        arrivals = [arrival for arrival in read if arrival is not None]
        tries = 0
        while arrivals:
            try:
                await self._host.accept(arrivals)
                arrivals = []
            except NotAccepted as full:
                log.warning(
                    "what came in at Discord cannot be written down, it is tried again: %s", full
                )
                await asyncio.sleep(self._pause(tries))
                tries += 1

    def _pause(self, tries: int) -> float:
        pauses = self._patience.retries
        return pauses[min(tries, len(pauses) - 1)]

    def _must_save(self) -> bool:
        if self._newest == self._saved or self._gaps.by_channel or self._to_ask:
            return False
        lasts = asyncio.get_running_loop().time() - self._fresh_at
        return not self._places.pending or lasts > MAX_PENDING_S

    async def _save_cursor(self, now: float) -> None:
        self._saved_at = now
        try:
            await self._host.save_cursor(str(self._newest))
            self._saved = self._newest
        except NotAccepted as full:
            log.warning(
                "how far Discord was read cannot be written down, it is tried again: %s", full
            )

    async def _ask_next(self) -> None:
        """Chats that no guild lists: first those talked in before, then one by one the direct ones of people who may talk."""
        asking = self._to_ask  # a new session has a list of its own
        try:
            await (
                self._remember_chats() if asking[0] == KNOWN_CHATS else self._open_direct(asking[0])
            )
        except Rejected as closed:
            log.debug(
                "somebody has no common guild with the bot, or closed their messages: %s", closed
            )
        except (RetryLater, DeliveryUnknown, NotAccepted) as away:
            log.info("what was written to the bot directly meanwhile is asked for again: %s", away)
            self._ask_at = asyncio.get_running_loop().time() + max(
                self._pause(self._tries), getattr(away, "after_s", 0.0)
            )
            self._tries += 1
            return
        asking.popleft()
        self._tries = 0

    async def _remember_chats(self) -> None:
        """Those talked in before. Of a direct one nobody tells whether it has something newer."""
        for address in await self._host.list_conversations():
            self._places.join(address.chat)
            place = self._places.get(address.chat)
            if (
                place is None or not place.guild or place.last_message == 0
            ) and address.chat.isdecimal():
                self._gaps.open(address.chat, self._floor())

    async def _open_direct(self, person: str) -> None:
        direct = await self._calls.call(
            lambda rest: rest.start_private_message(person), within_s=PAGE_TIMEOUT_S
        )
        place = (
            self._places.update_channel(direct)
            if isinstance(direct, Mapping) and "id" in direct
            else None
        )
        if place is not None:
            self.on_channel(str(direct["id"]), place)

    async def _read_page(self, channel: str) -> None:
        """One page of what was said in a channel since; then the next, or what came meanwhile."""
        gap = self._gaps.by_channel[channel]
        gap.reread = False
        try:
            place = await self._get_channel(channel)
            page = await self._calls.call(
                lambda rest: rest.logs_from(channel, PAGE_SIZE, after=gap.after),
                within_s=PAGE_TIMEOUT_S,
            )
            said = [_as_live(place, payload) for payload in _oldest_first(page)]
        except Rejected as closed:
            log.info("what was said in channel %s meanwhile cannot be read: %s", channel, closed)
            said = []
        except (RetryLater, DeliveryUnknown) as later:
            wait = max(self._pause(gap.tries), getattr(later, "after_s", 0.0))
            gap.tries, gap.due = gap.tries + 1, asyncio.get_running_loop().time() + wait
            self._host.report_trouble(str(later))
            return
        events = [("MESSAGE_CREATE", payload) for payload in said]
        await self._accept(self._parse(event) for event in events)
        for event in events:
            self._advance(event)
        self._note_edits(said)
        before, gap.tries = gap.after, 0
        gap.after = max(
            [before, *(snowflake.parse_snowflake(payload.get("id")) for payload in said)]
        )
        if len(said) < PAGE_SIZE or gap.after == before:
            self._waiting.extend(self._gaps.close(channel))

    def _note_edits(self, said: Sequence[Payload]) -> None:
        """History has them as they read now: an update that tells of this very edit brings no news."""
        edited = [payload for payload in said if payload.get("edited_timestamp")]
        self._edits |= {str(payload.get("id")): payload["edited_timestamp"] for payload in edited}
        for oldest in [*self._edits][: max(0, len(self._edits) - MAX_EDITS)]:
            del self._edits[oldest]

    async def _get_channel(self, channel: str) -> ChannelInfo:
        """Raises Refused where it is not ours to read."""
        place = self._places.get(channel)
        if place is None:
            known = await self._calls.call(
                lambda rest: rest.request(_channel_route(channel)), within_s=PAGE_TIMEOUT_S
            )
            place = (
                self._places.update_channel(known)
                if isinstance(known, Mapping) and "id" in known
                else None
            )
        if place is None:
            raise Rejected("it is in no server that is listened to")
        return place


def _channel_route(channel: str) -> http.Route:
    return http.Route("GET", "/channels/{channel_id}", channel_id=channel)


def _as_live(place: ChannelInfo, payload: Payload) -> dict[str, Any]:
    return {"guild_id": place.guild, **payload} if place.guild else dict(payload)


def _oldest_first(page: object) -> list[Payload]:
    said = (
        [payload for payload in page if isinstance(payload, Mapping)]
        if isinstance(page, list)
        else []
    )
    return sorted(said, key=lambda payload: snowflake.parse_snowflake(payload.get("id")))
