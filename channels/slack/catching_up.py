"""What was written while nobody listened, from the history: Slack keeps nothing for those who were away longer than minutes."""

import asyncio
from collections.abc import Callable, Sequence

from channels.base import Refused
from channels.message import Address, Inbound
from channels.slack.errors import Declined
from channels.slack.reading import Reader
from channels.slack.sending import Sending
from channels.slack.shape import Json, Unreadable, maybe, rows, table, texts
from channels.slack.threads import Threads
from channels.slack.web import Web

MOST, PAGES, PAGE = 60, 5, 200
KINDS = "im,mpim,public_channel,private_channel"


class CatchingUp:
    """Slack allows some fifty of these calls a minute: what has been read is not read again when the rest is asked for later.
    One look at a time.
    """

    def __init__(self, web: Web, reader: Reader, threads: Threads, sending: Sending) -> None:
        self._web, self._reader, self._threads = web, reader, threads
        self._say_once: Callable[[str, str], None] = sending.once
        self._closed: set[str] = set()
        self._looking = asyncio.Lock()
        self._oldest = ""
        self._looked: set[tuple[str, str]] = set()
        self._found: dict[str, Inbound] = {}

    async def since(self, seconds: float, known: Sequence[Address], *, most: int = MOST) -> list[Inbound]:
        """The messages to the assistant since then, in order: where it has talked before, and where it is a member; in so many
        chats and threads. Raises Later, Revoked.
        """
        async with self._looking:
            return await self._since(f"{max(0.0, seconds):.6f}", known, most)

    async def _since(self, oldest: str, known: Sequence[Address], most: int) -> list[Inbound]:
        chats = list(dict.fromkeys([*(address.chat for address in known), *await self._member_of(most)]))[:most]
        if oldest != self._oldest:
            self._begin(oldest)
        for chat in chats:
            await self._look("conversations.history", chat)
        for chat, thread in self._threads.latest(most, chats):
            await self._look("conversations.replies", chat, thread)
        found = sorted(self._found.values(), key=lambda message: float(message.message_id))
        self._begin("")
        return found

    def _begin(self, oldest: str) -> None:
        self._oldest, self._looked, self._found = oldest, set(), {}

    async def _look(self, method: str, chat: str, thread: str = "") -> None:
        if (chat, thread) not in self._looked:
            oldest = self._oldest
            told = await self._rows(method, chat, "messages", channel=chat, oldest=oldest, limit=PAGE, ts=thread)
            self._found |= self._read(chat, [message for message in told if _after(message, oldest)])
            self._looked.add((chat, thread))

    def _read(self, chat: str, messages: list[Json]) -> dict[str, Inbound]:
        found: dict[str, Inbound] = {}
        for message in sorted(messages, key=lambda row: maybe(row, "ts")):
            try:
                read = self._reader.event({**message, "type": "message", "channel": chat})
            except Unreadable:
                continue
            if isinstance(read, Inbound) and read.addressed:
                self._threads.join(read.address, read.sender.id)
                found[read.external_id] = read
            if maybe(message, "thread_ts") and chat.startswith("D"):
                self._join_members(Address(self._reader.channel, chat, maybe(message, "thread_ts")), message)
        return found

    def _join_members(self, thread: Address, first: Json) -> None:
        """A thread in a private chat is one with the assistant, also where only its first message is known yet."""
        people = [maybe(first, "user"), *texts(first, "reply_users")]
        if member := next(filter(self._threads.trusts, people), ""):
            self._threads.join(thread, member)

    async def _member_of(self, most: int) -> list[str]:
        asked = {"types": KINDS, "exclude_archived": True, "limit": PAGE}
        listed = await self._rows("users.conversations", "", "channels", most, **asked)
        return [maybe(row, "id") for row in listed if maybe(row, "id")]

    async def _rows(self, method: str, chat: str, key: str, enough: int = 0, **asked: object) -> list[Json]:
        """`enough`: no more than so many are needed. A page may be short though there is more."""
        found: list[Json] = []
        cursor = ""
        for _ in range(PAGES):
            answer = await self._ask(method, chat, cursor=cursor, **asked)
            found += rows(answer, key)
            cursor = maybe(table(answer, "response_metadata"), "next_cursor")
            if not cursor or 0 < enough <= len(found):
                return found
        much = f"{method}: there is more of {chat or 'its chats'} than is looked through"
        self._say_once(f"{method} of {chat}", f"{much}; what was written there while nobody listened may be missed")
        return found

    async def _ask(self, method: str, chat: str, **arguments: object) -> Json:
        """Without the scope for it there is nothing to be had, and that is no reason to stop. Raises Later, Revoked."""
        about = f"{method}/{chat[:1]}"
        if about in self._closed:
            return {}
        try:
            return await self._web.read(method, **arguments)
        except Refused as no:
            if isinstance(no, Declined) and no.unknown:
                self._closed.add(about)
                self._say_once(about, f"{no}; what is written there while nobody listens may be missed")
            return {}


def _after(message: Json, oldest: str) -> bool:
    try:
        return float(maybe(message, "ts")) > float(oldest)
    except ValueError:
        return False
