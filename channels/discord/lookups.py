"""The messages that another one points at and that Discord does not send along: those that it
answers, and the first one of its thread.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from channels.base import Host, Rejected
from channels.discord.api import DiscordRest, parse_snowflake
from channels.discord.events import MESSAGE_TYPES, STARTER_TYPE, ChannelDirectory, parse_reference
from channels.json_access import Json, find_object, find_objects, find_text
from channels.lookups import Lookups
from channels.message import InboundMessage, Reference


class DiscordLookups(Lookups):
    """Fetches them, and keeps the latest."""

    def __init__(self, rest: DiscordRest, host: Host, directory: ChannelDirectory) -> None:
        super().__init__("Discord", "it is gone, or not for the assistant", rest.timing.lookup_s)
        self._rest, self._host, self._directory = rest, host, directory

    def notice(self, payload: Json) -> None:
        """The note at the beginning of a thread holds the message from which it was made."""
        starter = find_object(payload, "referenced_message")
        if payload.get("type") == STARTER_TYPE and starter:
            thread = find_text(payload, "channel_id")
            parent = find_text(payload, "message_reference", "channel_id")
            self._kept[f"/channels/{parent}/messages/{thread}"] = starter

    async def _add_references(self, item: InboundMessage) -> InboundMessage:
        parse = partial(parse_reference, sender=item.sender.id, known=self._directory)
        references, chat = list[Reference](), item.address.chat
        for one in item.references:
            if one.kind == "reply" and not one.text:
                found = await self._get(f"/channels/{chat}/messages/{one.message_id}")
                one = self._refer("reply", found, partial(parse, "reply"), one.message_id)
            references.append(one)
        answers_us = any(one.kind == "reply" and one.by == "assistant" for one in references)
        item = replace(item, addressed=item.addressed or answers_us)
        is_asked = item.addressed and not item.private and bool(parse_snowflake(chat))
        if is_asked and (found := await self._find_root(item)) is not None:
            root = self._refer("root", found, partial(parse, "root"))
            named = {one.message_id for one in references if one.message_id}
            references[:0] = [] if root.message_id in named else [root]
        return replace(item, references=tuple(references))

    async def _find_root(self, item: InboundMessage) -> Any:
        """It has the id of its thread, and stands in the thread's channel, or at the beginning of
        the thread; a thread without one begins with any message. None where there is no other.
        """
        chat = item.address.chat
        info = self._directory.channels.get(chat)
        if info is None:
            info = self._directory.update(await self._get(f"/channels/{chat}"))
        if not (info and info.is_thread) or await self._host.knows_thread(item.address):
            return None
        if found := await self._get(f"/channels/{info.parent}/messages/{chat}"):
            return found
        page = await self._get(f"/channels/{chat}/messages?limit=1&after={int(chat) - 1}")
        first = next(iter(find_objects(page)), {})
        if first.get("type") == STARTER_TYPE:
            return find_object(first, "referenced_message")
        if first.get("type") in MESSAGE_TYPES and first.get("id") != item.message_id:
            return first
        return None if first else page

    async def _get(self, path: str) -> Any:
        """What Discord answers; empty where it is not there, or not for us."""

        async def ask() -> Any:
            try:
                return await self._rest.call("GET", path)
            except Rejected:
                return {}

        return await self._fetch(path, ask)
