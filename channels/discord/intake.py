"""Events to the host in order, after a gap first what is missing (K1, K2).

Discord sends each event once, and nothing makes up for a session that cannot be resumed. So all
events go through one queue, and the id of the newest message that the host accepted is saved; it
stands still while anything may be missing. Ids hold the time, over all channels: a new session
reads on from there every channel with something newer. A message may come twice, which the host
sees by its id; none is left out.
"""

import asyncio
import contextlib
import logging
import math
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

from channels.base import (
    TRANSIENT,
    ChannelError,
    DeliveryUnknown,
    Host,
    NotAccepted,
    Rejected,
    RetryLater,
    Revoked,
)
from channels.discord.api import (
    DiscordRest,
    parse_snowflake,
    snowflake_at,
    snowflake_before,
)
from channels.discord.events import (
    ChannelDirectory,
    ChannelInfo,
    DiscordLookups,
    parse_event,
    parse_interaction,
)
from channels.json_access import MALFORMED, Json, UnreadablePayload, find_objects, find_text
from channels.markup.discord import render_parts
from channels.markup.sanitize import escape_markdown, shorten_line
from channels.message import Arrival, ButtonPress, InboundMessage, UnreadableUpdate
from channels.transport import Backoff, RecentDict

log = logging.getLogger(__name__)
OVERLAP_S = 60.0
"""How far the order of ids over channels may differ from the order in which they come."""
AHEAD = timedelta(days=1)
"""No clock is further ahead: an id from later is not believed, or nothing would count as missed any
more.
"""
PAGE_SIZE, MAX_BATCH, MAX_QUEUED, MAX_HELD, MAX_EDITS = 100, 50, 10_000, 500, 1000
MAX_PENDING_S = 300.0
"""A guild that is away for longer no longer keeps the saved id where it is."""
PAGE_TIMEOUT_S = 10.0
"""While a page is waited for, nothing else is handed on."""
MAX_UNKNOWN = 50
"""Not every server says what the newest message of a channel is: so many of those are read as well.
"""
MAX_DIRECT_CHATS = 200
"""Direct chats are not listed anywhere: those of so many people of the allow-list are looked up."""
KNOWN_CHATS = ""
"""In the list of those people: the chats that the host knows."""
ACK_TIMEOUT_S = 2.5
THINKING, UNCHANGED = 5, 6
EPHEMERAL, NO_EMBEDS = 1 << 6, 1 << 2
QUIET = {"flags": NO_EMBEDS, "allowed_mentions": {"parse": []}}
"""Nothing in a message can notify anybody, and links show no preview."""
NOT_SAVED = "That could not be written down just now. Please try again in a moment."
MAX_TRIES, MAX_PARTS = 4, 5
COMMAND_NAME = re.compile(r"[a-z0-9_-]{1,32}")
MAX_DESCRIPTION, MAX_COMMANDS = 100, 100
TEXT_OPTION = {
    "type": 3,
    "name": "text",
    "description": "what comes after the command",
    "required": False,
}
Event = tuple[str, Json]


@dataclass(slots=True)
class HistoryGap:
    """What may be missing in one channel after the id `after`. `due`: when to read on; `overflow`:
    more came meanwhile than is held, history has it; `reread`: something may be missing that came
    after the last page was read.
    """

    after: int
    backoff: Backoff
    due: float = 0.0
    overflow: bool = False
    reread: bool = True
    held: list[Event] = field(default_factory=list)


class DiscordIntake:
    """One account's. `enqueue` never waits; `run` hands on what came. `people`: ids of the
    allow-list.
    """

    def __init__(
        self, name: str, rest: DiscordRest, host: Host, now: Callable[[], datetime]
    ) -> None:
        self._rest, self._host, self._now, config = rest, host, now, rest.config
        self._directory = ChannelDirectory(name, str(config.guild_id))
        listed = dict.fromkeys(map(str, (*config.owner_ids, *config.allowed_user_ids)))
        self._people = list(filter(str.isdecimal, listed))[:MAX_DIRECT_CHATS]
        self._lookups = DiscordLookups(rest, host, self._directory)
        self.tasks, self._loop = asyncio.TaskGroup(), asyncio.get_running_loop()
        self._has_menu = False
        self._queue: deque[Event | UnreadableUpdate] = deque()
        self._gaps: dict[str, HistoryGap] = {}
        self._wake = asyncio.Event()
        self._newest = self._saved = self._since = 0
        self._saved_at = self._missing_at = self._ask_at = 0.0
        self._is_estimate = False
        self._to_ask: deque[str] = deque()
        self._ask_backoff = self.backoff()
        self._direct: set[str] = set()
        self._edits = RecentDict[str, object](MAX_EDITS)

    async def begin(self) -> None:
        """Where we had read up to; at the very first start: now. Raises NotAccepted."""
        saved, now = parse_snowflake(await self._host.load_cursor()), snowflake_at(self._now())
        if not saved:
            await self._host.save_cursor(str(now))
        self._is_estimate = not saved
        self._newest = self._saved = self._since = saved or now

    def _on_new_session(self) -> None:
        """Something may be missing everywhere."""
        if not self._missing_at:  # our clock may have been wrong at the start; by now it is right
            self._newest = min(self._newest, snowflake_at(self._now()))
            if self._is_estimate:
                self._newest = max(self._newest, snowflake_at(self._now() - AHEAD))
            else:
                self._saved = self._newest
        self._note_missing()
        self._to_ask = deque([KNOWN_CHATS, *self._people])
        self._ask_at, self._ask_backoff = 0.0, self.backoff()
        self._direct.clear()

    def _note_missing(self) -> None:
        """Something may be missing from now on, unless that is so already."""
        if not (self._gaps or self._directory.pending or self._to_ask):
            self._since = self._newest
        self._missing_at = self._loop.time()

    def _on_channel(self, channel: str, info: ChannelInfo) -> None:
        """A channel that is there again is read on where there is something newer."""
        is_unknown = info.last_message == 0 and len(self._gaps) < MAX_UNKNOWN
        if is_unknown or info.last_message > snowflake_before(self._since, OVERLAP_S):
            self._open_gap(channel)

    def _enqueue(self, event: str, payload: Json) -> None:
        """Something was written or done."""
        channel = str(payload.get("channel_id", ""))
        is_direct = channel.isdecimal() and not payload.get("guild_id")
        if self._to_ask and is_direct and channel not in self._direct:
            self._direct.add(channel)  # what was missed in a chat that no guild lists comes first
            self._open_gap(channel)
        elif len(self._queue) >= MAX_QUEUED:
            self._open_gap(channel)
        if (gap := self._gaps.get(channel)) is None:
            self._queue.append((event, dict(payload)))
        elif len(gap.held) < MAX_HELD and not gap.overflow:
            gap.held.append((event, dict(payload)))
        else:
            gap.overflow = True

    def _unreadable(self, event: str, raw: object, error: Exception) -> UnreadableUpdate:
        reason = f"{type(error).__name__}: {error}"
        return UnreadableUpdate.of(self._directory.channel, event, raw, reason)

    def on_event(self, event: str, payload: object) -> None:
        """An event, in order; never waits."""
        try:
            if not isinstance(payload, dict):
                raise UnreadablePayload("it is not an object")
            self._dispatch(event, payload)
        except MALFORMED as error:
            self._queue.append(self._unreadable(event, payload, error))
        self._wake.set()

    def _dispatch(self, event: str, payload: Json) -> None:
        directory = self._directory
        match event:
            case _ if event.startswith("MESSAGE_"):
                if find_text(payload, "author", "id") == directory.bot_id:
                    directory.joined.add(str(payload.get("channel_id")))
                else:
                    self._enqueue(event, payload)
            case "INTERACTION_CREATE":
                if asked := parse_interaction(payload, directory):
                    self.tasks.create_task(self._answer(*asked))
            case "READY":
                self._on_new_session()
                directory.on_ready(payload)
                if not self._has_menu:
                    self._has_menu = True
                    application = find_text(payload, "application", "id") or directory.bot_id
                    self.tasks.create_task(self._register_menu(application))
            case "GUILD_CREATE":
                for channel, info in directory.on_guild(payload):
                    self._on_channel(channel, info)
            case "GUILD_DELETE":
                self._note_missing()
                directory.on_guild_delete(payload)
            case _:
                directory.on_event(event, payload)

    async def _answer(
        self, callback: str, webhook: str, item: ButtonPress | InboundMessage
    ) -> None:
        """See it through; what goes wrong ends only this one."""
        is_press = isinstance(item, ButtonPress)
        kind = {"type": UNCHANGED} if is_press else {"type": THINKING, "data": {"flags": EPHEMERAL}}
        try:
            await self._rest.call("POST", callback, kind, timeout_s=ACK_TIMEOUT_S)
        except Revoked:
            return  # the gateway reports it
        except ChannelError as error:
            log.warning("Discord: a button or command was not acknowledged in time: %s", error)
        backoff, text = self.backoff(), NOT_SAVED
        for _ in range(MAX_TRIES):
            try:
                if isinstance(item, ButtonPress):
                    text = await self._host.press_button(item)
                else:
                    text = await self._host.run_command(item)
                break
            except NotAccepted as error:
                log.warning("Discord: a button or command cannot be saved, trying again: %s", error)
                await backoff.wait()
        try:
            if text.strip():
                for part in render_parts(escape_markdown(text))[:MAX_PARTS]:
                    body = QUIET | {"content": part.text, "flags": EPHEMERAL | NO_EMBEDS}
                    await self._rest.call("POST", webhook, body)
            elif not is_press:
                await self._rest.call("DELETE", f"{webhook}/messages/@original")
        except ChannelError as error:
            log.warning("Discord did not take the reply to a button or command: %s", error)

    async def _register_menu(self, application: str) -> None:
        """Write the menu only when it has changed: Discord limits the writes of a day. Without it
        commands are typed.
        """
        named = {name.lower().lstrip("/"): text for name, text in self._host.list_commands()}
        menu = [
            {
                "type": 1,
                "name": name,
                "description": shorten_line(text, MAX_DESCRIPTION) or name,
                "options": [TEXT_OPTION],
            }
            for name, text in named.items()
            if COMMAND_NAME.fullmatch(name)
        ][:MAX_COMMANDS]
        if not application or not menu:
            return
        guild = f"/guilds/{self._rest.config.guild_id}" if self._rest.config.guild_id else ""
        path = f"/applications/{application}{guild}/commands"
        try:
            current = await self._rest.call("GET", path)
            if _comparable(current) != _comparable(menu):
                await self._rest.call("PUT", path, menu)
        except TRANSIENT as error:
            log.info("Discord's menu of commands was not changed: %s", error)

    async def run(self) -> None:
        """Hand on what comes. Raises Revoked."""
        while True:
            self._wake.clear()
            now, was_busy = self._loop.time(), bool(self._queue)
            if was_busy:
                await self._process_batch()
            due = next((channel for channel, gap in self._gaps.items() if gap.due <= now), "")
            ask_at, save_at = self._ask_at if self._to_ask else math.inf, self._next_save()
            if now >= ask_at:
                await self._ask_next()
            elif due:
                gap = self._gaps[due] = self._gaps.pop(due)  # each channel in its turn
                await self._read_page(due, gap)
            elif was_busy:
                continue
            elif now >= save_at:
                await self._save_cursor(now)
            else:
                next_at = min([ask_at, save_at, *(gap.due for gap in self._gaps.values())])
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(next_at):
                        await self._wake.wait()

    async def _process_batch(self) -> None:
        batch = list(islice(self._queue, MAX_BATCH))
        await self._accept(self._parse(item) for item in batch)
        for item in batch:
            self._queue.popleft()
            if isinstance(item, tuple):
                self._advance(item)

    def _parse(self, item: Event | UnreadableUpdate) -> Arrival | None:
        if not isinstance(item, tuple):
            return item
        event, payload = item
        edited_at = payload.get("edited_timestamp")
        if event == "MESSAGE_UPDATE" and self._edits.get(str(payload.get("id")), "") == edited_at:
            return None  # history had it with its new text already
        self._lookups.notice(payload)
        try:
            return parse_event(event, payload, self._directory)
        except MALFORMED as error:
            return self._unreadable(event, payload, error)

    def _advance(self, item: Event) -> None:
        """The host has it."""
        number = parse_snowflake(item[1].get("id")) if item[0] == "MESSAGE_CREATE" else 0
        if 0 < number <= snowflake_at(self._now() + AHEAD):
            self._newest = number if self._is_estimate else max(self._newest, number)
            self._is_estimate = False

    async def _accept(self, parsed: Iterable[Arrival | None]) -> None:
        """Until the host has accepted it: nothing is dropped, and nothing overtakes."""
        if arrivals := [arrival for arrival in parsed if arrival is not None]:
            report = partial(log.warning, "Discord: messages cannot be saved, trying again: %s")

            async def accept() -> None:
                await self._host.accept(await self._lookups.complete(arrivals))

            await self.backoff().retry(accept, NotAccepted, report)

    def _next_save(self) -> float:
        """When to save how far was read: not while something may be missing."""
        if self._newest == self._saved or self._gaps or self._to_ask:
            return math.inf
        is_complete_at = self._missing_at + MAX_PENDING_S if self._directory.pending else 0.0
        return max(self._saved_at + self._rest.timing.save_s, is_complete_at)

    async def _save_cursor(self, now: float) -> None:
        self._saved_at = now
        try:
            await self._host.save_cursor(str(self._newest))
            self._saved = self._newest
        except NotAccepted as error:
            log.warning("Discord: how far was read cannot be saved, trying again: %s", error)

    async def _ask_next(self) -> None:
        """Chats that no guild lists: first those of the host, then one by one those of people of
        the allow-list.
        """
        asking = self._to_ask  # a new session has a list of its own
        try:
            if asking[0] == KNOWN_CHATS:
                for address in await self._host.list_conversations():
                    chat, info = address.chat, self._directory.channels.get(address.chat)
                    self._directory.joined.add(chat)
                    # nobody says whether a direct chat has something newer
                    if chat.isdecimal() and not (info and info.guild and info.last_message):
                        self._open_gap(chat)
            else:
                body, how = {"recipient_id": asking[0]}, {"timeout_s": PAGE_TIMEOUT_S}
                direct = await self._rest.call("POST", "/users/@me/channels", body, **how)
                if info := self._directory.update(direct):
                    self._on_channel(str(direct["id"]), info)
        except Rejected as error:
            log.debug("Discord: somebody takes no messages from the bot: %s", error)
        except (RetryLater, DeliveryUnknown, NotAccepted) as error:
            log.info("Discord: direct chats are looked up again later: %s", error)
            self._ask_at = self._loop.time() + self._ask_backoff.next(error)
            return
        asking.popleft()
        self._ask_backoff.pause_s = 0.0

    async def _read_page(self, channel: str, gap: HistoryGap) -> None:
        """One page of what was written in a channel; then the next, or what came since."""
        gap.reread = False
        try:
            page = await self._fetch_page(channel, gap.after)
        except Rejected as error:
            log.info("Discord: what was missed in channel %s cannot be read: %s", channel, error)
            page = []
        except (RetryLater, DeliveryUnknown) as error:
            gap.due = self._loop.time() + gap.backoff.next(error)
            self._host.report_trouble(str(error))
            return
        events = [("MESSAGE_CREATE", payload) for payload in page]
        await self._accept(map(self._parse, events))
        before, ids = gap.after, [parse_snowflake(payload.get("id")) for payload in page]
        for event in events:
            self._advance(event)
            if edited_at := event[1].get("edited_timestamp"):
                # the text is the edited one already
                self._edits[str(event[1].get("id"))] = edited_at
        gap.after = max([before, *ids])
        gap.backoff.pause_s = 0.0
        if len(page) == PAGE_SIZE and gap.after != before:
            return
        if gap.overflow:
            gap.overflow = False
            gap.held.clear()
        elif not gap.reread:
            self._queue.extend(self._gaps.pop(channel).held)

    async def _fetch_page(self, channel: str, after: int) -> list[Json]:
        """Messages, oldest first. Raises Rejected where the channel is not ours to read."""
        path, how = f"/channels/{channel}", {"timeout_s": PAGE_TIMEOUT_S}
        info = self._directory.channels.get(channel)
        if info is None:
            info = self._directory.update(await self._rest.call("GET", path, **how))
        if info is None:
            raise Rejected("it is in no server that is listened to")
        path += f"/messages?limit={PAGE_SIZE}&after={after}"
        rows = find_objects(await self._rest.call("GET", path, **how))
        guild = {"guild_id": info.guild} if info.guild else {}
        return sorted((guild | row for row in rows), key=lambda row: parse_snowflake(row.get("id")))

    def _open_gap(self, channel: str) -> None:
        """Something may be missing there."""
        after = snowflake_before(self._since, OVERLAP_S)
        gap = self._gaps.setdefault(channel, HistoryGap(after, self.backoff()))
        gap.after, gap.reread = min(gap.after, after), True
        self._wake.set()

    def backoff(self) -> Backoff:
        """While the host or a page of the history cannot be had."""
        return Backoff(self._rest.timing.retry_s, self._rest.timing.longest_retry_s)


def _comparable(menu: object) -> list[list[str]]:
    """What of it counts."""
    return sorted(
        [find_text(row, key) for key in ("name", "description")]
        + [find_text(option, "name") for option in find_objects(row, "options")]
        for row in find_objects(menu)
    )
