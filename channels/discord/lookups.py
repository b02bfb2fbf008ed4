"""The messages that another one points at and that Discord does not send along: those that it
answers, and the first one of its thread.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from channels.base import DeliveryUnknown, Host, Rejected, RetryLater
from channels.content import UNREADABLE_REFERENCE
from channels.discord.api import MALFORMED, DiscordRest, parse_snowflake
from channels.discord.events import MESSAGE_TYPES, STARTER_TYPE, ChannelDirectory, parse_reference
from channels.json_access import Json, find_object, find_objects, find_text
from channels.message import Arrival, InboundMessage, Reference
from channels.transport import RecentDict

PAUSE_S, MAX_KEPT = 30.0, 200
GONE, SLOW = "it is gone, or not for the assistant", "Discord does not answer at the moment"


class DiscordLookups:
    """Fetches them, and keeps the latest."""

    def __init__(self, rest: DiscordRest, host: Host, directory: ChannelDirectory) -> None:
        self._rest, self._host, self._directory = rest, host, directory
        self._kept = RecentDict[str, Any](MAX_KEPT)
        self._ask_at = self._until = 0.0

    def notice(self, payload: Json) -> None:
        """The note at the beginning of a thread holds the message from which it was made."""
        starter = payload.get("referenced_message")
        if payload.get("type") == STARTER_TYPE and isinstance(starter, dict):
            thread = find_text(payload, "channel_id")
            parent = find_text(payload, "message_reference", "channel_id")
            self._kept[f"/channels/{parent}/messages/{thread}"] = starter

    async def complete(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """With what they point at, or a line that it could not be read; all of them within
        `lookup_s`. Raises NotAccepted, Revoked.
        """
        self._until = asyncio.get_running_loop().time() + self._rest.timing.lookup_s
        return [
            await self._complete(item) if isinstance(item, InboundMessage) else item
            for item in arrivals
        ]

    async def _complete(self, item: InboundMessage) -> InboundMessage:
        references = [
            await self._with_text(item, one) if one.kind == "reply" and not one.text else one
            for one in item.references
        ]
        answers_us = any(one.kind == "reply" and one.by == "assistant" for one in references)
        item = replace(item, addressed=item.addressed or answers_us)
        if item.addressed and not item.private and parse_snowflake(item.address.chat):
            found = await self._find_root(item)
            named = {one.message_id for one in references if one.message_id}
            references[:0] = [one for one in found if one.message_id not in named]
        return replace(item, references=tuple(references))

    async def _with_text(self, item: InboundMessage, reply: Reference) -> Reference:
        found = await self._fetch(f"/channels/{item.address.chat}/messages/{reply.message_id}")
        return self._describe("reply", item, found) or replace(reply, text=_unreadable(found))

    async def _find_root(self, item: InboundMessage) -> list[Reference]:
        """It has the id of its thread, and stands in the thread's channel, or at the beginning of
        the thread; a thread without one begins with any message.
        """
        chat = item.address.chat
        info = self._directory.channels.get(chat)
        if info is None:
            info = self._directory.update(await self._fetch(f"/channels/{chat}"))
        if not (info and info.is_thread) or await self._host.knows_thread(item.address):
            return []
        found = await self._fetch(f"/channels/{info.parent}/messages/{chat}")
        if found is None:
            after = parse_snowflake(chat) - 1
            page = await self._fetch(f"/channels/{chat}/messages?limit=1&after={after}")
            first = next(iter(find_objects(page)), {})
            if first.get("type") == STARTER_TYPE:
                first = find_object(first, "referenced_message")
            elif first and (first.get("type") not in MESSAGE_TYPES or _is_same(first, item)):
                return []
            found = first or page
        root = self._describe("root", item, found)
        return [root or Reference("root", _unreadable(found))]

    def _describe(self, kind: str, item: InboundMessage, found: object) -> Reference | None:
        with contextlib.suppress(*MALFORMED):
            if isinstance(found, dict) and find_text(found, "id"):
                return parse_reference(kind, found, item.sender.id, self._directory)
        return None

    async def _fetch(self, path: str) -> Any:
        """What Discord answers; None where it is not there, or not for us; SLOW for no answer."""
        loop = asyncio.get_running_loop()
        if path in self._kept:
            return self._kept[path]
        if loop.time() < self._ask_at:
            return SLOW
        try:
            async with asyncio.timeout_at(self._until):
                self._kept[path] = await self._rest.call("GET", path)
        except Rejected:
            self._kept[path] = None
        except (RetryLater, DeliveryUnknown, TimeoutError) as error:
            after_s = error.after_s if isinstance(error, RetryLater) else 0.0
            self._ask_at = loop.time() + max(PAUSE_S, after_s)
            return SLOW
        return self._kept[path]


def _unreadable(found: object) -> str:
    return UNREADABLE_REFERENCE.format(why=SLOW if found == SLOW else GONE)


def _is_same(message: Json, item: InboundMessage) -> bool:
    return find_text(message, "id") == item.message_id
