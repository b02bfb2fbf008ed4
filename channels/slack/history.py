"""Slack's history: threads that are not known, and what was written while nobody listened (A14)."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from channels.base import RetryLater
from channels.json_access import find_text
from channels.message import Address, Arrival, InboundMessage
from channels.slack.events import (
    MAX_THREADS,
    UNREADABLE,
    EventParser,
    ThreadKey,
    has_mention,
)
from channels.transport import RecentDict

MAX_CHATS, MAX_PAGES = 60, 5
MAX_LOOKUPS, WINDOW_S = 20, 60.0
"""Slack allows some fifty of these calls a minute, and the backfill needs them too."""
MISSED = "what is written meanwhile"
CHAT_KINDS = "im,mpim,public_channel,private_channel"
log = logging.getLogger(__name__)


class SlackHistory:
    """Looks up threads that are not known, when a member writes there, and what was written while
    nobody listened: Slack keeps events for some minutes only.
    """

    def __init__(self, parser: EventParser) -> None:
        self._web, self._parser, self._threads = parser.web, parser, parser.threads
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
            or not web.optional.has(feature)
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
