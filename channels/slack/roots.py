"""The first message of a thread, for a conversation that begins in the middle of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from channels.base import Host, RetryLater
from channels.content import UNREADABLE_REFERENCE
from channels.json_access import Json, find_objects
from channels.message import Arrival, InboundMessage, Reference
from channels.slack.events import UNREADABLE, EventParser, ThreadKey
from channels.transport import RecentDict

PAUSE_S, MAX_ROOTS = 30.0, 200
NEW_CHAT = "assistant_app_thread"
"""Slack's own line, at the beginning of a chat in its pane for assistants."""
FEATURE = "the first message of a thread in {}"
REJECTED, SLOW = "Slack does not show it to the assistant", "Slack does not answer at the moment"


class SlackRoots:
    """Fetches them, and keeps the latest."""

    def __init__(self, host: Host, parser: EventParser) -> None:
        self._host, self._parser, self._web = host, parser, parser.web
        self._rows = RecentDict[ThreadKey, Json](MAX_ROOTS)
        self._ask_at = 0.0

    def remember(self, chat: str, thread: str, rows: Sequence[Json]) -> None:
        """The first of these messages, where it is in there; else there is nothing to fetch. No
        rows: Slack does not show them now.
        """
        if rows:
            found = (row for row in rows if row.get("ts") == thread)
            self._rows[chat, thread] = next(found, {})

    async def complete(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Messages to the assistant in threads that it does not know come with the first message,
        or a line that it could not be read; all of them within `root_s`. Raises NotAccepted,
        Revoked.
        """
        until = asyncio.get_running_loop().time() + self._web.timing.root_s
        return [
            await self._with_root(item, until) if isinstance(item, InboundMessage) else item
            for item in arrivals
        ]

    async def _with_root(self, item: InboundMessage, until: float) -> InboundMessage:
        address, thread = item.address, item.address.thread
        if not item.addressed or thread in ("", item.message_id):
            return item
        if await self._host.knows_thread(address):
            return item
        why = await self._fetch(address.chat, thread, until)
        row = self._rows.get((address.chat, thread))
        if row and row.get("subtype") == NEW_CHAT:
            return item
        try:
            root = self._parser.parse_root(row, item.sender.id) if row else None
        except UNREADABLE as error:
            root, why = None, str(error)
        root = root or Reference("root", UNREADABLE_REFERENCE.format(why=why or REJECTED))
        return replace(item, references=(root, *item.references))

    async def _fetch(self, chat: str, thread: str, until: float) -> str:
        """Why it cannot be had now."""
        loop = asyncio.get_running_loop()
        if (chat, thread) in self._rows:
            return ""
        if loop.time() < self._ask_at:
            return SLOW
        asked = {"channel": chat, "ts": thread, "limit": 1, "inclusive": "true"}
        call = self._web.optional.attempt
        try:
            async with asyncio.timeout_at(until):
                page = await call(
                    FEATURE.format(chat[:1]), self._web.read, "conversations.replies", **asked
                )
        except (RetryLater, TimeoutError) as error:
            after_s = error.after_s if isinstance(error, RetryLater) else 0.0
            self._ask_at = loop.time() + max(PAUSE_S, after_s)
            return SLOW
        self.remember(chat, thread, find_objects(page, "messages"))
        return ""
