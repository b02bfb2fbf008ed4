"""The first message of a thread, for a conversation that begins in the middle of it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from channels.base import Host
from channels.json_access import Json, find_objects
from channels.lookups import Lookups
from channels.message import InboundMessage
from channels.slack.events import EventParser

NEW_CHAT = "assistant_app_thread"
"""Slack's own line, at the beginning of a chat in its pane for assistants."""
FEATURE = "the first message of a thread in {}"


class SlackRoots(Lookups):
    """Fetches them, and keeps the latest."""

    def __init__(self, host: Host, parser: EventParser) -> None:
        self._host, self._parser, self._web = host, parser, parser.web
        super().__init__(
            "Slack", "Slack does not show it to the assistant", self._web.timing.root_s
        )

    def remember(self, chat: str, thread: str, rows: Sequence[Json]) -> Json | None:
        """The first of these messages; empty where it is not there, and never will be. No rows:
        Slack does not show them now.
        """
        if not rows:
            return None
        first: Json = next((row for row in rows if row.get("ts") == thread), {})
        self._kept[chat, thread] = first
        return first

    async def _add_references(self, item: InboundMessage) -> InboundMessage:
        chat, thread = item.address.chat, item.address.thread
        if not item.addressed or thread in ("", item.message_id):
            return item
        if await self._host.knows_thread(item.address):
            return item
        row = await self._fetch((chat, thread), partial(self._ask, chat, thread))
        if isinstance(row, dict) and row.get("subtype") == NEW_CHAT:
            return item
        root = self._refer("root", row, partial(self._parser.parse_root, sender=item.sender.id))
        return replace(item, references=(root, *item.references))

    async def _ask(self, chat: str, thread: str) -> Json | None:
        asked = {"channel": chat, "ts": thread, "limit": 1, "inclusive": "true"}
        feature, method = FEATURE.format(chat[:1]), "conversations.replies"
        page = await self._web.optional.attempt(feature, self._web.read, method, **asked)
        return self.remember(chat, thread, find_objects(page, "messages"))
