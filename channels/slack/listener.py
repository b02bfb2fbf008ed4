"""Socket Mode: one connection after another; events are accepted by the host, and only then
acknowledged, in order and many at once; what was missed between connections is fetched first (F1,
K13).
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import replace

from aiohttp import ClientError, ClientWebSocketResponse, WSMsgType

from channels.base import (
    ChannelError,
    Host,
    NotAccepted,
    Rejected,
    RetryLater,
    Revoked,
    Unsupported,
)
from channels.json_access import (
    Json,
    UnreadablePayload,
    find_object,
    find_text,
    get_text,
    parse_json,
)
from channels.markup.sanitize import escape_markdown
from channels.markup.slack import render_parts
from channels.message import Address, Arrival, ButtonPress, InboundMessage, UnreadableUpdate
from channels.slack.content import has_mention
from channels.slack.events import MAX_THREADS, UNREADABLE, EventParser, SlackRoots, ThreadKey
from channels.transport import Backoff, RecentDict, check_status, parse_seconds, proxy_for

PROBE_CHATS, MAX_SILENT = 5, 3
NOT_SAVED = "This could not be written down, so nothing was done. Please try again in a moment."
MAX_DIRECT_CHATS = 2000
MAX_REPLIES = 5
"""Slack allows so many deferred replies."""
MAX_BATCH, MAX_REMEMBERED = 200, 2000
MAX_AHEAD_S = 86_400.0
"""No clock is further ahead: a time from later is not believed, or nothing would count as missed
any more.
"""
MAX_CHATS, MAX_PAGES = 60, 5
MAX_LOOKUPS, WINDOW_S = 20, 60.0
"""Slack allows some fifty of these calls a minute, and the backfill needs them too."""
MISSED = "what is written meanwhile"
CHAT_KINDS = "im,mpim,public_channel,private_channel"

log = logging.getLogger(__name__)


class SlackCursor:
    """How far an account has been read, in seconds since 1970; never further than what the host has
    accepted. `save_s`: it is saved this often at most. `missed_from`: what came since then was not
    accepted, perhaps.
    """

    def __init__(self, host: Host, save_s: float) -> None:
        self._host, self._save_s = host, save_s
        self._newest = self._saved = self._first_start = self._saved_at = 0.0
        self.missed_from = math.inf

    async def begin(self) -> None:
        """At the very first start: now, for nobody wants an answer to what was written before."""
        self._saved = self._newest = parse_seconds(await self._host.load_cursor(), 0.0)
        if not self._saved:
            self._newest = self._first_start = time.time()
            await self.save(at_once=True)

    @property
    def value(self) -> float:
        """Everything up to here was accepted."""
        return min(self._newest, self.missed_from)

    def backfill_start(self, margin_s: float) -> float:
        """So long before what was accepted; never before the very first start."""
        return max(self.value - margin_s, self._first_start)

    def advance(self, ts: str) -> None:
        """Everything up to here was accepted, except for what was missed."""
        if self._newest < (seconds := parse_seconds(ts, 0.0)) <= time.time() + MAX_AHEAD_S:
            self._newest = seconds

    async def save(self, *, at_once: bool = False) -> None:
        """If it is time."""
        value, now = self.value, time.monotonic()
        if value != self._saved and (at_once or now >= self._saved_at + self._save_s):
            with contextlib.suppress(NotAccepted):  # an older one: more is read again
                await self._host.save_cursor(f"{value:.6f}")
                self._saved, self._saved_at = value, now


class SlackHistory:
    """Looks up threads that are not known, when a member writes there, and what was written while
    nobody listened: Slack keeps events for some minutes only.
    """

    def __init__(self, parser: EventParser, roots: SlackRoots) -> None:
        self._web, self._parser, self._threads = parser.web, parser, parser.threads
        self._roots = roots
        self._foreign = RecentDict[ThreadKey, None](MAX_THREADS)
        self._lookups: list[float] = []
        self._lock = asyncio.Lock()
        self._oldest = -1.0
        self._read_chats: set[ThreadKey] = set()
        self._found: dict[str, InboundMessage] = {}

    async def complete(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """What members wrote in a thread of the assistant is addressed to it. Raises Revoked."""
        items = list(arrivals)
        for at, item in enumerate(items):
            if isinstance(item, InboundMessage) and await self._is_in_own_thread(item):
                self._threads.join(item.address, item.sender.id)
                items[at] = replace(item, addressed=True)
        return items

    async def _is_in_own_thread(self, item: InboundMessage) -> bool:
        web, now = self._web, time.monotonic()
        chat, thread = key = item.address.chat, item.address.thread
        feature, method = f"threads of before in {chat[:1]}", "conversations.replies"
        self._lookups = [at for at in self._lookups if at > now - WINDOW_S]
        if (
            item.addressed
            or not thread
            or item.sender.id not in self._threads.members
            # a thread that was joined just now: this was written before
            or self._threads.is_joined(*key)
            or key in self._foreign
            or feature in web.optional.unsupported
            or len(self._lookups) >= MAX_LOOKUPS
        ):
            return False
        self._lookups.append(now)
        try:
            async with asyncio.timeout(web.timing.answer_s):
                rows = await web.read_all(feature, method, "messages", 1, channel=chat, ts=thread)
        except (RetryLater, TimeoutError):
            self._lookups = [now] * MAX_LOOKUPS  # none for a while
            return False
        self._roots.remember(chat, thread, rows)
        for row in rows:
            if web.is_author(row) or has_mention(find_text(row, "text"), web.user):
                return True
        self._foreign[key] = None
        return False

    async def fetch_since(
        self, seconds: float, known: Sequence[Address], limit: int = MAX_CHATS
    ) -> list[InboundMessage]:
        """The messages to the assistant since then, in order: in `known` chats, and where it is a
        member; in so many chats and threads. Raises RetryLater, Revoked.
        """
        async with self._lock:
            asked = {"types": CHAT_KINDS, "exclude_archived": "true"}
            method = "users.conversations"
            listed = await self._web.read_all(MISSED, method, "channels", MAX_PAGES, limit, **asked)
            ids = [address.chat for address in known] + [find_text(row, "id") for row in listed]
            chats = list(dict.fromkeys(filter(None, ids)))[:limit]
            if seconds != self._oldest:  # else it is read on where it stopped
                self._oldest, self._read_chats, self._found = seconds, set(), {}
            for chat in chats:
                await self._read_chat("conversations.history", chat)
            for chat, thread in self._threads.latest(limit, chats):
                await self._read_chat("conversations.replies", chat, thread)
            self._oldest = -1.0
            return sorted(self._found.values(), key=lambda message: float(message.message_id))

    async def _read_chat(self, method: str, chat: str, thread: str = "") -> None:
        if (chat, thread) in self._read_chats:
            return
        oldest = max(0.0, self._oldest)
        asked = {"channel": chat, "oldest": f"{oldest:.6f}", "ts": thread}
        feature = f"{MISSED} ({method}/{chat[:1]})"
        rows = await self._web.read_all(feature, method, "messages", MAX_PAGES, **asked)
        for row in sorted(rows, key=lambda row: find_text(row, "ts")):
            try:
                read = self._parser.parse_event({**row, "type": "message", "channel": chat})
                if float(find_text(row, "ts")) <= oldest:
                    continue
            except UNREADABLE:
                continue
            if isinstance(read, InboundMessage) and read.addressed:
                self._threads.join(read.address, read.sender.id)
                self._found[read.external_id] = read
            if (begun := find_text(row, "thread_ts")) and chat.startswith("D"):
                # in a private chat each thread is with the assistant
                users = row.get("reply_users")
                people = [find_text(row, "user"), *(users if isinstance(users, list) else ())]
                for member in self._threads.members.intersection(map(str, people)):
                    self._threads.join(Address(self._parser.channel, chat, begun), member)
        self._read_chats.add((chat, thread))


class SlackListener:
    """One `run` of the channel."""

    def __init__(self, host: Host, parser: EventParser) -> None:
        self._host, self._parser, self._web = host, parser, parser.web
        self._timing = self._web.timing
        self._roots = SlackRoots(host, parser)
        self._history = SlackHistory(parser, self._roots)
        self._own_chats, self._can_ask = RecentDict[str, bool](MAX_DIRECT_CHATS), True
        self._cursor = SlackCursor(host, self._timing.save_s)
        self._events = asyncio.Queue[tuple[Json, ClientWebSocketResponse, str]]()
        self._accepted = RecentDict[str, None](MAX_REMEMBERED)
        self._tasks = asyncio.TaskGroup()
        # cleared while what was missed is fetched: that comes first
        self._may_accept = asyncio.Event()
        self._catching_up: asyncio.Task[None] | None = None
        self._is_behind = False
        self._received_at = self._checked_at = self._probed_at = 0.0

    async def run(self) -> None:
        """Until cancelled. Raises Revoked."""
        await self._cursor.begin()
        backoff = Backoff(self._timing.first_s, self._timing.longest_s)
        try:
            async with self._tasks as tasks:
                tasks.create_task(self._accept_events())
                await backoff.reconnect(self._connect, self._host, self._timing.longest_s)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            # without it, more is read again
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.close_s):
                    await self._cursor.save(at_once=True)

    async def _connect(self) -> None:
        """One connection, from beginning to end. Raises RetryLater, Revoked."""
        url, timing = await self._web.open_socket(), self._timing
        self._may_accept.clear()
        opening = self._web.http.open_socket(
            url, timing.hello_s, timing.close_s, heartbeat=timing.ping_s * MAX_SILENT
        )
        try:
            async with opening as socket:
                await self._receive(socket)
        finally:
            if self._catching_up:
                self._catching_up.cancel()
                await asyncio.wait([self._catching_up])

    async def _receive(self, socket: ClientWebSocketResponse) -> None:
        """Until Slack wants a new connection. Raises RetryLater when it is lost, Revoked."""
        self._received_at = self._checked_at = self._probed_at = time.monotonic()
        wait_s, is_greeted = self._timing.hello_s, False
        while True:
            try:
                message = await socket.receive(wait_s)
            except TimeoutError:
                if not is_greeted:
                    raise RetryLater("Slack: connected, but Slack does not greet") from None
                await self._check()
                await self._cursor.save()
                continue
            if message.type is WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type is WSMsgType.TEXT:
                envelope = parse_json(message.data)
                kind = find_text(envelope, "type")
                if kind == "disconnect":
                    return
                if kind == "hello":
                    wait_s, is_greeted = self._timing.ping_s, True
                    self._catch_up()
                self._dispatch(socket, kind, envelope)
            elif message.type is not WSMsgType.PONG:
                raise RetryLater("Slack: the connection was lost")
            self._host.report_alive()

    def _dispatch(self, socket: ClientWebSocketResponse, kind: str, envelope: object) -> None:
        self._received_at = time.monotonic()
        payload, envelope_id = find_object(envelope, "payload"), find_text(envelope, "envelope_id")
        if kind == "events_api":
            self._events.put_nowait((payload, socket, envelope_id))
        elif envelope_id:
            payload = {**payload, "envelope_id": envelope_id}
            self._tasks.create_task(self._interact(kind, payload, socket))
        elif not kind:
            log.warning("Slack sent something that is not an event: %.200r", envelope)

    async def _acknowledge(self, socket: ClientWebSocketResponse, envelope_id: str) -> None:
        """Where it cannot be sent, Slack sends the event again, and the host knows it."""
        with contextlib.suppress(ClientError, ConnectionError, RuntimeError, TimeoutError):
            async with asyncio.timeout(self._timing.close_s):
                await socket.send_json({"envelope_id": envelope_id})

    async def _interact(self, kind: str, payload: Json, socket: ClientWebSocketResponse) -> None:
        await self._acknowledge(socket, payload["envelope_id"])
        try:
            await self._handle(kind, payload)
        except UnreadablePayload as error:
            try:
                await self._accept([self._unreadable(payload, error)])
            except NotAccepted as full:
                log.warning("Slack sent what can be neither read (%s) nor saved (%s)", error, full)

    async def _handle(self, kind: str, payload: Json) -> None:
        """A button, a slash command or a shortcut, acknowledged already: Slack sends these once
        only, and wants an answer within three seconds (A14, A15). Raises UnreadablePayload.
        """
        asked: InboundMessage | ButtonPress
        response_url = find_text(payload, "response_url")
        if payload.get("type") == "block_actions":
            asked, response_url = self._parser.parse_press(payload), ""
            reply = self._host.press_button(asked)
        elif kind == "slash_commands" or payload.get("type") == "message_action":
            asked = self._parser.parse_command(payload)
            chat, message = asked.address.chat, payload.get("message")
            is_private = asked.private and await self._is_own_chat(chat)
            reply = self._host.run_command(replace(asked, private=is_private))
            if message and not find_text(message, "thread_ts"):
                # nobody sees what is shown to one person in a thread that has not begun
                asked = replace(asked, address=replace(asked.address, thread=""))
        else:
            return
        try:
            text = await reply
        except NotAccepted:
            text = NOT_SAVED
        try:
            await self._reply(asked, text, response_url)
        except ChannelError as error:
            log.warning("Slack: a reply was not shown: %s", error)

    async def _is_own_chat(self, chat: str) -> bool:
        """Slash commands and shortcuts come from private chats between other people, too: only
        where Slack tells us of the chat it is the assistant's.
        """
        if chat in self._own_chats or not self._can_ask:
            return self._own_chats.get(chat, False)
        is_own = True
        try:
            async with asyncio.timeout(self._timing.answer_s):
                await self._web.read("conversations.info", channel=chat)
        except (RetryLater, Revoked, TimeoutError):
            return False
        except Rejected as error:
            self._can_ask = not isinstance(error, Unsupported)
            is_own = False
        self._own_chats[chat] = is_own
        return is_own

    async def _reply(self, to: InboundMessage | ButtonPress, text: str, response_url: str) -> None:
        """To one person; deferred where the bot is no member and may show nobody anything. Raises
        ChannelError.
        """
        target = {"channel": to.address.chat, "thread_ts": to.address.thread, "user": to.sender.id}
        deferred = 0
        for part in render_parts(escape_markdown(text)) if text.strip() else ():
            if not deferred:
                try:
                    await self._web.write("chat.postEphemeral", **target, text=part.text)
                    continue
                except (Rejected, RetryLater):
                    if not self._web.http.is_own(response_url):
                        raise
            if deferred == MAX_REPLIES:
                raise Rejected(f"Slack takes {MAX_REPLIES}; the rest was not shown")
            deferred += 1
            body, what = {"response_type": "ephemeral", "text": part.text}, "the reply to a command"
            how = {"timeout_s": self._timing.timeout_s, "proxy": proxy_for(response_url)}
            answer = await self._web.http.request(
                "POST", response_url, what=what, sends=True, json=body, **how
            )
            check_status(answer.status, f"Slack: {what}")

    async def _accept_events(self) -> None:
        while True:
            events = [await self._events.get()]
            try:
                async with asyncio.timeout(self._timing.hold_s):
                    await self._may_accept.wait()
            except TimeoutError:
                self._may_accept.set()  # it waits no longer for what was missed
            while len(events) < MAX_BATCH and not self._events.empty():
                events.append(self._events.get_nowait())
            arrivals = [arrival for payload, *_ in events if (arrival := self._parse(payload))]
            inner = [find_object(payload, "event") for payload, *_ in events]
            times = [find_text(event, "ts") or find_text(event, "event_ts") for event in inner]
            try:
                arrivals = await self._history.complete(arrivals)
                await self._accept(await self._roots.complete(arrivals))
            except NotAccepted:
                first = min(parse_seconds(ts, math.inf) for ts in times)
                self._host.report_trouble(
                    "Slack: messages could not be saved; Slack sends them again"
                )
                self._catch_up(first)
                continue
            for _, socket, envelope_id in events:
                await self._acknowledge(socket, envelope_id)
            for ts in times:
                self._cursor.advance(ts)
            await self._cursor.save()

    def _parse(self, payload: Json) -> Arrival | None:
        event = find_object(payload, "event")
        try:
            get_text(event, "type")
            arrival = self._parser.parse_event(event)
        except UNREADABLE as error:
            return self._unreadable(payload, error)
        if isinstance(arrival, InboundMessage) and arrival.addressed:
            self._parser.threads.join(arrival.address, arrival.sender.id)
        return arrival

    def _unreadable(self, payload: Json, error: Exception) -> UnreadableUpdate:
        event_id = find_text(payload, "event_id") or None
        return UnreadableUpdate.of(self._parser.channel, "poison", payload, error, event_id)

    async def _accept(self, arrivals: Sequence[Arrival]) -> None:
        """Raises NotAccepted."""
        if arrivals:
            await self._host.accept(arrivals)
        for arrival in arrivals:
            if isinstance(arrival, InboundMessage):
                self._accepted[arrival.external_id] = None

    async def _check(self) -> None:
        """A connection may be open and bring nothing. Raises RetryLater, Revoked."""
        now, timing = time.monotonic(), self._timing
        if now - max(self._received_at, self._checked_at) > timing.check_s:
            await self._web.get_identity()
            self._checked_at = now
        is_catching_up = self._catching_up and not self._catching_up.done()
        if now - max(self._received_at, self._probed_at) > timing.quiet_s and not is_catching_up:
            latest = time.time() - timing.settle_s
            for message in await self._fetch_missed(PROBE_CHATS):
                if message.external_id not in self._accepted and float(message.message_id) < latest:
                    raise RetryLater("Slack: connected, but messages do not come; connecting again")
            self._probed_at = now

    async def _fetch_missed(self, limit: int = MAX_CHATS) -> list[InboundMessage]:
        known = (await self._host.list_conversations())[:limit]
        start = self._cursor.backfill_start(self._timing.margin_s)
        return await self._history.fetch_since(start, known, limit)

    def _catch_up(self, since: float = math.inf) -> None:
        """Something may be missing, from now on or since then: fetch it; meanwhile nothing newer is
        accepted, for a while.
        """
        self._is_behind = True
        self._cursor.missed_from = min(self._cursor.value, since)
        self._may_accept.clear()
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = self._tasks.create_task(self._accept_missed())

    async def _accept_missed(self) -> None:
        """What is not accepted while the history is read may be where that was read already: then
        all is read again.
        """
        backoff = Backoff(self._timing.first_s, self._timing.settle_s)
        while self._is_behind:
            self._is_behind = False
            try:
                found = await self._fetch_missed()
                await self._accept(await self._roots.complete(found))
            except (RetryLater, NotAccepted) as error:
                log.info("Slack: what was missed cannot be fetched yet: %s", error)
                self._is_behind = True
                await backoff.wait(error)
                continue
            if found:
                self._cursor.advance(found[-1].message_id)
        self._cursor.missed_from = math.inf
        self._may_accept.set()
