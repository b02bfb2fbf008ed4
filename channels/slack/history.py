"""The threads in which the assistant takes part, and who wrote there last. In memory: the house knows them for good.

Threads that nobody here remembers: looked at once, whether the assistant takes part, when a member writes there (A14).

What was written while nobody listened, from the history: Slack keeps nothing for those who were away longer than minutes.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from channels.base import Rejected, RetryLater
from channels.message import Address, Arrival, InboundMessage
from channels.slack.events import MAX_THREADS, EventParser, ThreadKey, ThreadMembership, has_mention
from channels.slack.sending import SlackMessages
from channels.slack.web import (
    Json,
    SlackError,
    SlackIdentity,
    SlackWeb,
    UnreadablePayload,
    find_text,
    get_object,
    get_objects,
    get_texts,
)

REPLIES_PAGE = 200
MAX_LOOKUPS, LOOKUP_WINDOW_S = 20, 60.0
"""Slack allows some fifty of these calls a minute, and what was missed is fetched with them too."""


class ThreadLookup:
    """`look_s`: how long the answer may take, for what was said waits for it. `monotonic`: seconds that never go back."""

    def __init__(
        self,
        web: SlackWeb,
        who: SlackIdentity,
        threads: ThreadMembership,
        sending: SlackMessages,
        look_s: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._web, self._who, self._threads, self._look_s, self._monotonic = (
            web,
            who,
            threads,
            look_s,
            monotonic,
        )
        self._say_once: Callable[[str, str], None] = sending.log_once
        self._foreign: OrderedDict[ThreadKey, None] = OrderedDict()
        self._unavailable: set[str] = set()
        self._looks: deque[float] = deque()
        self._rests_until = float("-inf")

    async def complete(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """The same; what members wrote in a thread of the assistant's is addressed to it. Raises Revoked."""
        return [
            await self._complete_one(one) if isinstance(one, InboundMessage) else one
            for one in arrivals
        ]

    async def _complete_one(self, said: InboundMessage) -> InboundMessage:
        if said.addressed or not said.address.thread or not self._threads.is_member(said.sender.id):
            return said
        if not await self._takes_part(said.address):
            return said
        self._threads.join(said.address, said.sender.id)
        return replace(said, addressed=True)

    async def _takes_part(self, address: Address) -> bool:
        place, kind = (address.chat, address.thread), address.chat[:1]
        known = (
            self._threads.is_joined(*place) or place in self._foreign
        )  # joined just now: this was said before
        if known or kind in self._unavailable or not self._may_ask():
            return False
        try:
            async with asyncio.timeout(self._look_s):
                answer = await self._web.read(
                    "conversations.replies", channel=place[0], ts=place[1], limit=REPLIES_PAGE
                )
        except (RetryLater, TimeoutError):
            self._rests_until = self._monotonic() + LOOKUP_WINDOW_S
            return False
        except Rejected as no:
            if isinstance(no, SlackError) and no.is_unavailable:
                self._unavailable.add(kind)
                self._say_once(
                    f"recalling {kind}",
                    f"{no}; in threads of before a restart the assistant may have to be mentioned",
                )
            answer = {}
        if any(
            self._who.is_author(row) or _mentions_us(row, self._who)
            for row in get_objects(answer, "messages")
        ):
            return True
        self._foreign[place] = None
        if len(self._foreign) > MAX_THREADS:
            self._foreign.popitem(last=False)
        return False

    def _may_ask(self) -> bool:
        now = self._monotonic()
        while self._looks and self._looks[0] <= now - LOOKUP_WINDOW_S:
            self._looks.popleft()
        if now < self._rests_until or len(self._looks) >= MAX_LOOKUPS:
            return False
        self._looks.append(now)
        return True


def _mentions_us(row: Json, who: SlackIdentity) -> bool:
    return has_mention(find_text(row, "text"), who.user)


MAX_CHATS, MAX_PAGES, PAGE_SIZE = 60, 5, 200
KINDS = "im,mpim,public_channel,private_channel"


class SlackBackfill:
    """Slack allows some fifty of these calls a minute: what has been read is not read again when the rest is asked for later.
    One look at a time.
    """

    def __init__(
        self, web: SlackWeb, reader: EventParser, threads: ThreadMembership, sending: SlackMessages
    ) -> None:
        self._web, self._reader, self._threads = web, reader, threads
        self._say_once: Callable[[str, str], None] = sending.log_once
        self._unavailable: set[str] = set()
        self._looking = asyncio.Lock()
        self._oldest = ""
        self._read_chats: set[tuple[str, str]] = set()
        self._found: dict[str, InboundMessage] = {}

    async def fetch_since(
        self, seconds: float, known: Sequence[Address], *, most: int = MAX_CHATS
    ) -> list[InboundMessage]:
        """The messages to the assistant since then, in order: where it has talked before, and where it is a member; in so many
        chats and threads. Raises Later, Revoked.
        """
        async with self._looking:
            return await self._fetch(f"{max(0.0, seconds):.6f}", known, most)

    async def _fetch(
        self, oldest: str, known: Sequence[Address], most: int
    ) -> list[InboundMessage]:
        chats = list(
            dict.fromkeys([*(address.chat for address in known), *await self._list_chats(most)])
        )[:most]
        if oldest != self._oldest:
            self._begin(oldest)
        for chat in chats:
            await self._read_chat("conversations.history", chat)
        for chat, thread in self._threads.latest(most, chats):
            await self._read_chat("conversations.replies", chat, thread)
        found = sorted(self._found.values(), key=lambda message: float(message.message_id))
        self._begin("")
        return found

    def _begin(self, oldest: str) -> None:
        self._oldest, self._read_chats, self._found = oldest, set(), {}

    async def _read_chat(self, method: str, chat: str, thread: str = "") -> None:
        if (chat, thread) not in self._read_chats:
            oldest = self._oldest
            told = await self._rows(
                method, chat, "messages", channel=chat, oldest=oldest, limit=PAGE_SIZE, ts=thread
            )
            self._found |= self._read(
                chat, [message for message in told if _is_after(message, oldest)]
            )
            self._read_chats.add((chat, thread))

    def _read(self, chat: str, messages: list[Json]) -> dict[str, InboundMessage]:
        found: dict[str, InboundMessage] = {}
        for message in sorted(messages, key=lambda row: find_text(row, "ts")):
            try:
                read = self._reader.parse_event({**message, "type": "message", "channel": chat})
            except UnreadablePayload:
                continue
            if isinstance(read, InboundMessage) and read.addressed:
                self._threads.join(read.address, read.sender.id)
                found[read.external_id] = read
            if find_text(message, "thread_ts") and chat.startswith("D"):
                self._join_members(
                    Address(self._reader.channel, chat, find_text(message, "thread_ts")), message
                )
        return found

    def _join_members(self, thread: Address, first: Json) -> None:
        """A thread in a private chat is one with the assistant, also where only its first message is known yet."""
        people = [find_text(first, "user"), *get_texts(first, "reply_users")]
        if member := next(filter(self._threads.is_member, people), ""):
            self._threads.join(thread, member)

    async def _list_chats(self, most: int) -> list[str]:
        asked = {"types": KINDS, "exclude_archived": True, "limit": PAGE_SIZE}
        listed = await self._rows("users.conversations", "", "channels", most, **asked)
        return [find_text(row, "id") for row in listed if find_text(row, "id")]

    async def _rows(
        self, method: str, chat: str, key: str, enough: int = 0, **asked: object
    ) -> list[Json]:
        """`enough`: no more than so many are needed. A page may be short though there is more."""
        found: list[Json] = []
        cursor = ""
        for _ in range(MAX_PAGES):
            answer = await self._ask(method, chat, cursor=cursor, **asked)
            found += get_objects(answer, key)
            cursor = find_text(get_object(answer, "response_metadata"), "next_cursor")
            if not cursor or 0 < enough <= len(found):
                return found
        much = f"{method}: there is more of {chat or 'its chats'} than is looked through"
        self._say_once(
            f"{method} of {chat}",
            f"{much}; what was written there while nobody listened may be missed",
        )
        return found

    async def _ask(self, method: str, chat: str, **arguments: object) -> Json:
        """Without the scope for it there is nothing to be had, and that is no reason to stop. Raises Later, Revoked."""
        about = f"{method}/{chat[:1]}"
        if about in self._unavailable:
            return {}
        try:
            return await self._web.read(method, **arguments)
        except Rejected as no:
            if isinstance(no, SlackError) and no.is_unavailable:
                self._unavailable.add(about)
                self._say_once(
                    about, f"{no}; what is written there while nobody listens may be missed"
                )
            return {}


def _is_after(message: Json, oldest: str) -> bool:
    try:
        return float(find_text(message, "ts")) > float(oldest)
    except ValueError:
        return False
