"""Slack's history: the threads in which the assistant takes part, and what was written while nobody
listened (A14).
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from channels.base import RetryLater
from channels.json_access import find_text
from channels.message import Address, Arrival, InboundMessage
from channels.slack.events import EventParser, has_mention
from channels.slack.web import SlackWeb
from channels.transport import RecentDict

MAX_THREADS, MAX_CHATS, MAX_PAGES = 2000, 60, 5
MAX_LOOKUPS, WINDOW_S = 20, 60.0
"""Slack allows some fifty of these calls a minute, and the backfill needs them too."""
MISSED = "what is written meanwhile"
CHAT_KINDS = "im,mpim,public_channel,private_channel"
log = logging.getLogger(__name__)
ThreadKey = tuple[str, str]


class ThreadMembership:
    """The latest threads, and who wrote there last; in memory only. `members`: people of the
    allow-list. Threads in which only others have mentioned the assistant are kept apart, so that
    they push out no other.
    """

    def __init__(self, members: Iterable[str] = (), limit: int = MAX_THREADS) -> None:
        self._members = frozenset(members)
        self._people = RecentDict[ThreadKey, str](limit)
        self._guests = RecentDict[ThreadKey, str](limit)

    def is_member(self, person: str) -> bool:
        """Somebody of the allow-list."""
        return person in self._members

    def is_joined(self, chat: str, thread: str) -> bool:
        """The assistant takes part in this thread."""
        return (chat, thread) in self._people or (chat, thread) in self._guests

    def join(self, address: Address, person: str = "") -> None:
        """It does so from now on; `person` wrote there, "" for the assistant."""
        if not address.thread:
            return
        key = address.chat, address.thread
        threads, last = self._guests, person
        if key in self._people or not person or person in self._members:
            last = person or self.last_author(address)
            self._guests.pop(key, None)
            threads = self._people
        threads[key] = last

    def last_author(self, address: Address) -> str:
        """Who wrote there last; "" if nobody is known."""
        key = address.chat, address.thread
        return self._people.get(key) or self._guests.get(key, "")

    def latest(self, limit: int, chats: Iterable[str]) -> list[ThreadKey]:
        """Of these chats, the latest first; those that only guests know come last."""
        among = set(chats)
        keys = [*reversed(self._people), *reversed(self._guests)]
        return [key for key in keys if key[0] in among][:limit]


class SlackHistory:
    """Looks up threads that are not known, when a member writes there, and what was written while
    nobody listened: Slack keeps events for some minutes only. `lookup_s` is short, for the message
    waits for it.
    """

    def __init__(
        self, web: SlackWeb, parser: EventParser, threads: ThreadMembership, lookup_s: float
    ) -> None:
        self._web, self._parser, self._threads = web, parser, threads
        self._lookup_s = lookup_s
        self._foreign = RecentDict[ThreadKey, None](MAX_THREADS)
        self._rests_until = 0.0
        self._lookups: list[float] = []
        self._lock = asyncio.Lock()
        self._oldest = -1.0
        self._read_chats: set[ThreadKey] = set()
        self._found: dict[str, InboundMessage] = {}

    def _may_look_up(self) -> bool:
        now = time.monotonic()
        self._lookups = [at for at in self._lookups if at > now - WINDOW_S]
        if now < self._rests_until or len(self._lookups) >= MAX_LOOKUPS:
            return False
        self._lookups.append(now)
        return True

    async def complete(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """What members wrote in a thread of the assistant is addressed to it. Raises Revoked."""
        items = []
        for item in arrivals:
            if isinstance(item, InboundMessage) and await self._is_in_own_thread(item):
                self._threads.join(item.address, item.sender.id)
                item = replace(item, addressed=True)
            items.append(item)
        return items

    async def _is_in_own_thread(self, item: InboundMessage) -> bool:
        key, feature = (
            (item.address.chat, item.address.thread),
            f"threads of before in {item.address.chat[:1]}",
        )
        if item.addressed or not item.address.thread or not self._threads.is_member(item.sender.id):
            return False
        # a thread that was joined just now: this was written before
        if self._threads.is_joined(*key) or key in self._foreign:
            return False
        if not self._web.optional.has(feature) or not self._may_look_up():
            return False
        try:
            async with asyncio.timeout(self._lookup_s):
                method, asked = "conversations.replies", {"channel": key[0], "ts": key[1]}
                rows = await self._web.read_all(feature, method, "messages", 1, **asked)
        except (RetryLater, TimeoutError):
            self._rests_until = time.monotonic() + WINDOW_S
            return False
        for row in rows:
            is_ours = self._web.identity and self._web.identity.is_author(row)
            if is_ours or has_mention(find_text(row, "text"), self._parser.bot):
                return True
        self._foreign[key] = None
        return False

    async def fetch_since(
        self, seconds: float, known: Sequence[Address], limit: int | None = None
    ) -> list[InboundMessage]:
        """The messages to the assistant since then, in order: in `known` chats, and where it is a
        member; in so many chats and threads. Raises RetryLater, Revoked.
        """
        limit = limit or MAX_CHATS
        async with self._lock:
            asked = {"types": CHAT_KINDS, "exclude_archived": "true"}
            method = "users.conversations"
            listed = await self._web.read_all(MISSED, method, "channels", MAX_PAGES, limit, **asked)
            chats = [address.chat for address in known] + [find_text(row, "id") for row in listed]
            chats = list(dict.fromkeys(filter(None, chats)))[:limit]
            if seconds != self._oldest:
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
                if float(find_text(row, "ts")) <= oldest:
                    continue
                read = self._parser.parse_event({**row, "type": "message", "channel": chat})
            except ValueError:  # UnreadablePayload among them
                continue
            if isinstance(read, InboundMessage) and read.addressed:
                self._threads.join(read.address, read.sender.id)
                self._found[read.external_id] = read
            if (begun := find_text(row, "thread_ts")) and chat.startswith("D"):
                # in a private chat each thread is with the assistant
                replied = row.get("reply_users")
                people = [find_text(row, "user"), *(replied if isinstance(replied, list) else ())]
                if member := next((one for one in people if self._threads.is_member(one)), ""):
                    self._threads.join(Address(self._parser.channel, chat, begun), member)
        self._read_chats.add((chat, thread))
