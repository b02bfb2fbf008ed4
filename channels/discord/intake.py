"""What came in, in order, to the house; after a gap first what is missing (B5 #1, #2).

Discord sends each event once, and a session that cannot be resumed is never made up for. So every event goes into one queue,
one worker hands it on, and the id of the newest message that the house has written down is kept. Ids hold the time, over all
channels; with every new session, each channel with something newer is read on from there. Messages may come twice, which the
house sees by their ids; none is left out. The mark stands still while anything may be missing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from channels.base import Host, Later, NotTaken, Refused, Unclear
from channels.discord import reading, snowflake
from channels.discord.calling import Calls
from channels.discord.gateway import Patience
from channels.discord.history import Event, Gaps
from channels.discord.lib import http
from channels.discord.payload import Payload
from channels.discord.places import Place, Places
from channels.message import Arrival, Poison

log = logging.getLogger(__name__)
OVERLAP_S = 60.0
"""How far the order of ids over channels may differ from the order in which they come."""
AHEAD = timedelta(days=1)
"""An id from further ahead than clocks ever are is none; were it believed, nothing would count as missed any more."""
PAGE = 100
MOST_AT_ONCE = 50
MOST_WAITING = 10_000
LONGEST_PENDING_S = 300.0
"""A guild that is away for longer than that no longer keeps the mark where it is."""
WITHIN_S = 10.0
"""While a page is waited for, nothing else is handed on."""
MOST_UNKNOWN = 50
"""Not every server says what the newest message of a channel is: so many of those are looked through as well."""
MOST_PEOPLE = 200
"""Direct chats are not listed anywhere: those of so many people of the allow-list are looked up."""
MOST_EDITED = 1000
KNOWN = ""
"""Stands before those people for the chats that the house knows."""


class Intake:
    """One account's. `hear` never waits; `work` does, for ever."""

    def __init__(
        self, calls: Calls, host: Host, me: Callable[[], reading.Me], places: Places, patience: Patience, people: Sequence[str]
    ) -> None:
        self._calls, self._host, self._me, self._places = calls, host, me, places
        self._patience, self._people = patience, people
        self._waiting: deque[Event | Poison] = deque()
        self._gaps = Gaps()
        self._news = asyncio.Event()
        self._newest = self._kept = self._since = 0
        self._kept_at = self._fresh_at = self._ask_at = 0.0
        self._guessed = False
        self._to_ask: deque[str] = deque()
        self._tries = 0
        self._direct: set[str] = set()
        self._edited: dict[str, object] = {}

    async def begin(self, now: Callable[[], datetime]) -> None:
        """Where we had read up to; now, the first time. Raises NotTaken."""
        self._now = now
        kept, at_least = snowflake.number(await self._host.cursor()), snowflake.at(now())
        if not kept:
            await self._host.keep_cursor(str(at_least))
        self._guessed = not kept
        self._newest = self._kept = self._since = kept or at_least

    def fresh(self) -> None:
        """A new session begins: something may be missing everywhere."""
        if not self._fresh_at:
            self._weigh()
        self.missing()
        self._to_ask, self._ask_at, self._tries = deque([KNOWN, *self._people[:MOST_PEOPLE]]), 0.0, 0
        self._direct.clear()
        self._news.set()

    def _weigh(self) -> None:
        """The mark against our clock, which may have been ahead of Discord's, or was set only after the start: by now it is."""
        self._newest = min(self._newest, snowflake.at(self._now()))
        if self._guessed:
            self._newest = max(self._newest, snowflake.at(self._now() - AHEAD))
        else:
            self._kept = self._newest

    def missing(self) -> None:
        """From what stands in the house now something may be missing, unless that is so already."""
        if not (self._gaps.by_channel or self._places.pending or self._to_ask):
            self._since = self._newest
        self._fresh_at = asyncio.get_running_loop().time()

    def seen(self, channel: str, place: Place) -> None:
        """A channel that is there again; it is read on in when there is something newer."""
        unknown = place.last == 0 and len(self._gaps.by_channel) < MOST_UNKNOWN
        if place.last > self._floor() or unknown:
            self._gaps.open(channel, self._floor())
            self._news.set()

    def _floor(self) -> int:
        return snowflake.earlier(self._since, OVERLAP_S)

    def hear(self, event: str, payload: Payload) -> None:
        """Something that was said or done."""
        channel, said = str(payload.get("channel_id", "")), (event, dict(payload))
        if len(self._waiting) >= MOST_WAITING or self._is_first(channel, payload):
            self._gaps.open(channel, self._floor())
        if not self._gaps.holds(channel, said):
            self._waiting.append(said)
        self._news.set()

    def _is_first(self, channel: str, payload: Payload) -> bool:
        """The first thing in a chat that no guild lists, before those have been asked for: what was missed there comes first."""
        if not self._to_ask or payload.get("guild_id") or channel in self._direct or not channel.isdecimal():
            return False
        self._direct.add(channel)
        return True

    def broken(self, poison: Poison) -> None:
        """Something that nobody can read."""
        self._waiting.append(poison)
        self._news.set()

    async def work(self) -> None:
        """Hand on what comes. Raises Revoked."""
        while True:
            self._news.clear()
            now = asyncio.get_running_loop().time()
            busy = bool(self._waiting)
            if busy:
                await self._hand_on()
            if self._to_ask and now >= self._ask_at:
                await self._ask()
            elif channel := self._gaps.next(now):
                await self._read_on(channel)
            elif busy:
                continue
            elif self._must_keep() and now >= self._kept_at + self._patience.keep:
                await self._keep(now)
            else:
                await self._rest(now)

    async def _rest(self, now: float) -> None:
        waits = [self._gaps.wait(now), self._ask_at - now if self._to_ask else None]
        waits.append(self._kept_at + self._patience.keep - now if self._must_keep() else None)
        try:
            async with asyncio.timeout(min((wait for wait in waits if wait is not None), default=None)):
                await self._news.wait()
        except TimeoutError:
            return

    async def _hand_on(self) -> None:
        batch = [self._waiting[at] for at in range(min(len(self._waiting), MOST_AT_ONCE))]
        await self._take(self._read(said) for said in batch)
        for said in batch:
            self._waiting.popleft()
            if isinstance(said, tuple):
                self._pass(said)

    def _read(self, said: Event | Poison) -> Arrival | None:
        if not isinstance(said, tuple):
            return said
        event, payload = said
        if event == "MESSAGE_UPDATE" and self._edited.get(str(payload.get("id")), "") == payload.get("edited_timestamp"):
            return None  # history had it with its new words already
        return reading.read(event, payload, self._places.get(str(payload.get("channel_id"))), self._me())

    def _pass(self, said: Event) -> None:
        """It stands in the house now."""
        event, payload = said
        if event == "MESSAGE_CREATE":
            number = snowflake.number(payload.get("id"))
            number = number if number <= snowflake.at(self._now() + AHEAD) else 0
            self._newest = number if self._guessed and number else max(self._newest, number)
            self._guessed = self._guessed and not number

    async def _take(self, read: Iterable[Arrival | None]) -> None:
        """Until the house has written it down; nothing is dropped, and nothing overtakes."""
        arrivals = [arrival for arrival in read if arrival is not None]
        tries = 0
        while arrivals:
            try:
                await self._host.take(arrivals)
                arrivals = []
            except NotTaken as full:
                log.warning("what came in at Discord cannot be written down, it is tried again: %s", full)
                await asyncio.sleep(self._pause(tries))
                tries += 1

    def _pause(self, tries: int) -> float:
        pauses = self._patience.retries
        return pauses[min(tries, len(pauses) - 1)]

    def _must_keep(self) -> bool:
        if self._newest == self._kept or self._gaps.by_channel or self._to_ask:
            return False
        lasts = asyncio.get_running_loop().time() - self._fresh_at
        return not self._places.pending or lasts > LONGEST_PENDING_S

    async def _keep(self, now: float) -> None:
        self._kept_at = now
        try:
            await self._host.keep_cursor(str(self._newest))
            self._kept = self._newest
        except NotTaken as full:
            log.warning("how far Discord was read cannot be written down, it is tried again: %s", full)

    async def _ask(self) -> None:
        """Chats that no guild lists: first those talked in before, then one by one the direct ones of people who may talk."""
        asking = self._to_ask  # a new session has a list of its own
        try:
            await (self._remember_chats() if asking[0] == KNOWN else self._meet(asking[0]))
        except Refused as closed:
            log.debug("somebody has no common guild with the bot, or closed their messages: %s", closed)
        except (Later, Unclear, NotTaken) as away:
            log.info("what was written to the bot directly meanwhile is asked for again: %s", away)
            self._ask_at = asyncio.get_running_loop().time() + max(self._pause(self._tries), getattr(away, "after_s", 0.0))
            self._tries += 1
            return
        asking.popleft()
        self._tries = 0

    async def _remember_chats(self) -> None:
        """Those talked in before. Of a direct one nobody tells whether it has something newer."""
        for address in await self._host.conversations():
            self._places.join(address.chat)
            place = self._places.get(address.chat)
            if (place is None or not place.guild or place.last == 0) and address.chat.isdecimal():
                self._gaps.open(address.chat, self._floor())

    async def _meet(self, person: str) -> None:
        direct = await self._calls.call(lambda rest: rest.start_private_message(person), within_s=WITHIN_S)
        place = self._places.channel(direct) if isinstance(direct, Mapping) and "id" in direct else None
        if place is not None:
            self.seen(str(direct["id"]), place)

    async def _read_on(self, channel: str) -> None:
        """One page of what was said in a channel since; then the next, or what came meanwhile."""
        gap = self._gaps.by_channel[channel]
        gap.anew = False
        try:
            place = await self._know(channel)
            page = await self._calls.call(lambda rest: rest.logs_from(channel, PAGE, after=gap.after), within_s=WITHIN_S)
            said = [_as_live(place, payload) for payload in _oldest_first(page)]
        except Refused as closed:
            log.info("what was said in channel %s meanwhile cannot be read: %s", channel, closed)
            said = []
        except (Later, Unclear) as later:
            wait = max(self._pause(gap.tries), getattr(later, "after_s", 0.0))
            gap.tries, gap.due = gap.tries + 1, asyncio.get_running_loop().time() + wait
            self._host.ailing(str(later))
            return
        events = [("MESSAGE_CREATE", payload) for payload in said]
        await self._take(self._read(event) for event in events)
        for event in events:
            self._pass(event)
        self._note_edits(said)
        before, gap.tries = gap.after, 0
        gap.after = max([before, *(snowflake.number(payload.get("id")) for payload in said)])
        if len(said) < PAGE or gap.after == before:
            self._waiting.extend(self._gaps.close(channel))

    def _note_edits(self, said: Sequence[Payload]) -> None:
        """History has them as they read now: an update that tells of this very edit brings no news."""
        edited = [payload for payload in said if payload.get("edited_timestamp")]
        self._edited |= {str(payload.get("id")): payload["edited_timestamp"] for payload in edited}
        for oldest in [*self._edited][: max(0, len(self._edited) - MOST_EDITED)]:
            del self._edited[oldest]

    async def _know(self, channel: str) -> Place:
        """Raises Refused where it is not ours to read."""
        place = self._places.get(channel)
        if place is None:
            known = await self._calls.call(lambda rest: rest.request(_channel(channel)), within_s=WITHIN_S)
            place = self._places.channel(known) if isinstance(known, Mapping) and "id" in known else None
        if place is None:
            raise Refused("it is in no server that is listened to")
        return place


def _channel(channel: str) -> http.Route:
    return http.Route("GET", "/channels/{channel_id}", channel_id=channel)


def _as_live(place: Place, payload: Payload) -> dict[str, Any]:
    return {"guild_id": place.guild, **payload} if place.guild else dict(payload)


def _oldest_first(page: object) -> list[Payload]:
    said = [payload for payload in page if isinstance(payload, Mapping)] if isinstance(page, list) else []
    return sorted(said, key=lambda payload: snowflake.number(payload.get("id")))
