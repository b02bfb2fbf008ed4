"""Discord's events and history as the channel's messages, and the channels and threads that the bot
sees, as the gateway tells of them (A13).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from discord import MessageType

from channels import value
from channels.base import Host, Rejected
from channels.content import NO_WORDS, WORDLESS, put_passed_first
from channels.discord.api import DiscordRest, parse_snowflake
from channels.discord.content import (
    as_word,
    list_passed,
    list_passed_files,
    name_of,
    read_content,
    read_whole,
)
from channels.json_access import (
    Json,
    find_object,
    find_objects,
    find_text,
    get_object,
    get_objects,
    get_text,
)
from channels.lookups import Lookups
from channels.message import (
    Address,
    Arrival,
    ButtonPress,
    InboundMessage,
    Reaction,
    Reference,
    Sender,
)

MESSAGE_TYPES = (0, 19)
"""A message, and a reply."""
PLATFORM_NOTES = frozenset(int(kind.value) for kind in MessageType) - {*MESSAGE_TYPES}
STARTER_TYPE = 21
"""Stands at the beginning of a thread, for the message from which that was made."""
PRIVATE_CHANNEL_CONTEXT = 2
"""A command in a chat without the bot: nothing can be sent there but the reply."""
THREAD_TYPES = (10, 11, 12)
TEXT_TYPES = (0, 2, 5, 13, *THREAD_TYPES)
Interaction = tuple[str, str, ButtonPress | InboundMessage]


@value
class ChannelInfo:
    """`guild`: "" for a direct chat; `parent`: of a thread, its channel; `last_message`: the newest
    id.
    """

    guild: str = ""
    parent: str = ""
    is_thread: bool = False
    last_message: int = 0


@dataclass(slots=True)
class ChannelDirectory:
    """`channel`: our name for the account; `only`: the one guild to listen in, or ""; `bot_roles`:
    those that stand for the bot alone; `pending`: guilds that are away; `joined`: channels and
    threads in which the bot takes part; `names`: of channels and roles, by their marks.
    """

    channel: str
    only: str = ""
    bot_id: str = ""
    bot_roles: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    channels: dict[str, ChannelInfo] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def on_ready(self, payload: Json) -> None:
        """A new session: its guilds come one by one, later on."""
        self.bot_id = str(payload["user"]["id"])
        guilds = {str(guild["id"]) for guild in payload.get("guilds") or ()}
        self.pending = guilds & {self.only} if self.only else guilds

    def on_event(self, event: str, payload: Json) -> None:
        """A channel or thread that was created, changed or deleted."""
        match event:
            case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                self.update(payload)
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                self.channels.pop(str(payload["id"]), None)
            case "THREAD_LIST_SYNC":
                for thread in payload["threads"]:
                    self.update(thread, payload["guild_id"])
                members = payload.get("members") or ()
                self.joined.update(str(member.get("id")) for member in members)
            case "THREAD_MEMBER_UPDATE":
                self.joined.add(str(payload["id"]))

    def is_direct(self, channel: str, guild: object) -> bool:
        """A chat with the bot alone; history does not say the guild of a message."""
        return guild is None and not self.channels.get(channel, ChannelInfo()).guild

    def is_joined_thread(self, channel: str) -> bool:
        """A thread in which the bot takes part."""
        return channel in self.joined and self.channels.get(channel, ChannelInfo()).is_thread

    def is_foreign(self, guild: object) -> bool:
        """A guild in which we do not listen."""
        return bool(self.only and guild not in (None, "", self.only))

    def on_guild(self, payload: Json) -> Iterator[tuple[str, ChannelInfo]]:
        """A guild; its channels in which something may have been missed, as it was away."""
        guild = str(payload["id"])
        if payload.get("unavailable"):
            return  # and it still is
        was_away = guild in self.pending
        self.pending.discard(guild)
        if self.is_foreign(guild):
            return
        for role in payload.get("roles") or ():
            self.names[f"<@&{role['id']}>"] = f"@{as_word(find_text(role, 'name')).lstrip('@')}"
            if str((role.get("tags") or {}).get("bot_id", "")) == self.bot_id:
                self.bot_roles.add(str(role["id"]))
        for channel in (*(payload.get("channels") or ()), *(payload.get("threads") or ())):
            info = self.update(channel, guild)
            if was_away and info and channel.get("type") in TEXT_TYPES:
                yield str(channel["id"]), info

    def on_guild_delete(self, payload: Json) -> None:
        """The bot is no longer in this guild, or the guild is away for a while."""
        guild = str(payload["id"])
        if not payload.get("unavailable"):
            self.pending.discard(guild)
        elif not self.is_foreign(guild):
            self.pending.add(guild)

    def update(self, payload: object, guild: str = "") -> ChannelInfo | None:
        """A channel or thread; None where we do not listen, and for what is no channel."""
        if not isinstance(payload, dict) or "id" not in payload:
            return None
        channel, guild = str(payload["id"]), str(payload.get("guild_id") or guild)
        if self.is_foreign(guild):
            return None
        if name := find_text(payload, "name"):
            self.names[f"<#{channel}>"] = f"#{as_word(name)}"
        is_thread = payload.get("type") in THREAD_TYPES
        if is_thread and (payload.get("member") or str(payload.get("owner_id")) == self.bot_id):
            self.joined.add(channel)
        parent = str(payload.get("parent_id") or "")
        last_message = parse_snowflake(payload.get("last_message_id"))
        info = self.channels[channel] = ChannelInfo(guild, parent, is_thread, last_message)
        return info


def parse_event(event: str, payload: Json, known: ChannelDirectory) -> Arrival | None:
    """What it says; None for what is of no concern. Raises ValueError and its like."""
    if known.is_foreign(payload.get("guild_id")):
        return None
    if event.startswith("MESSAGE_REACTION"):
        return _parse_reaction(payload, known, added=event.endswith("ADD"))
    is_note = payload.get("type", 0) in PLATFORM_NOTES or payload.get("webhook_id")
    if is_note or "author" not in payload:
        return None
    author, edited_at = get_object(payload, "author"), get_text(payload, "edited_timestamp", "")
    is_by_program = author.get("bot") or author.get("system") or author.get("id") == known.bot_id
    if is_by_program or (event == "MESSAGE_UPDATE" and not edited_at):
        return None
    return _parse_message(payload, known, edited_at if event == "MESSAGE_UPDATE" else "")


def parse_interaction(payload: Json, known: ChannelDirectory) -> Interaction | None:
    """A button press, or a command of the platform's menu: where it is acknowledged within 3
    seconds, where it is answered, and what it is. Raises UnreadablePayload.
    """
    number, token = get_text(payload, "id"), get_text(payload, "token")
    application = get_text(payload, "application_id")
    member, data = get_object(payload, "member"), get_object(payload, "data")
    user = get_object(payload, "user") or get_object(member, "user")
    chat, guild = get_text(payload, "channel_id", ""), payload.get("guild_id")
    if not user or user.get("bot") or known.is_foreign(guild):
        return None
    address, sender = Address(known.channel, chat), _sender_of(user, member)
    item: ButtonPress | InboundMessage
    match payload.get("type"):
        case 3:
            message_id = get_text(get_object(payload, "message"), "id", "")
            item = ButtonPress(address, sender, get_text(data, "custom_id", ""), message_id)
        case 2:
            values = [str(option.get("value", "")) for option in get_objects(data, "options")]
            text = " ".join([f"/{get_text(data, 'name')}", *values]).strip()
            is_private = (
                known.is_direct(chat, guild) and payload.get("context") != PRIVATE_CHANNEL_CONTEXT
            )
            item = InboundMessage(address, sender, number, text, number, private=is_private)
        case _:
            return None
    return f"/interactions/{number}/{token}/callback", f"/webhooks/{application}/{token}", item


def _parse_message(payload: Json, known: ChannelDirectory, edited_at: str) -> InboundMessage:
    number, chat, bot = get_text(payload, "id"), get_text(payload, "channel_id"), known.bot_id
    author, mentions = get_object(payload, "author"), get_objects(payload, "mentions")
    is_private = known.is_direct(chat, payload.get("guild_id"))
    is_asked = any(user.get("id") == bot for user in mentions) or not known.bot_roles.isdisjoint(
        map(str, payload.get("mention_roles") or ())
    )
    replied_to = find_text(payload, "referenced_message", "author", "id")
    is_addressed = is_private or is_asked or replied_to == bot or known.is_joined_thread(chat)
    get_text(payload, "content", "")
    content = read_content(payload, bot, known.names, known.bot_roles)
    passed = tuple(list_passed(payload, bot, known.names))
    text, writer, is_forwarded, passed = put_passed_first(content.render(), passed)
    files = (*content.files, *list_passed_files(payload))
    if is_addressed and not (text or files):
        text = NO_WORDS if is_asked else WORDLESS
    time = get_text(payload, "timestamp", "")
    return InboundMessage(
        address=Address(known.channel, chat),
        sender=_sender_of(author, get_object(payload, "member")),
        external_id=f"{number}/{edited_at}" if edited_at else number,
        text=text,
        message_id=number,
        attachments=files,
        private=is_private,
        addressed=is_addressed,
        forwarded=is_forwarded,
        author=writer,
        references=(*_list_replied(payload, known, needed=is_addressed), *passed),
        edits=number if edited_at else "",
        sent_at=datetime.fromisoformat(time) if time else None,
        data=(*content.data, *content.beside),
    )


def _list_replied(payload: Json, known: ChannelDirectory, *, needed: bool) -> Iterator[Reference]:
    """The message that is answered; without text where Discord has not looked it up."""
    origin, replied = find_object(payload, "message_reference"), payload.get("referenced_message")
    number = find_text(origin, "message_id")
    if isinstance(replied, dict):
        yield parse_reference("reply", replied, find_text(payload, "author", "id"), known)
    elif (
        parse_snowflake(number)
        and not origin.get("type")
        and (needed or "referenced_message" not in payload)
    ):
        yield Reference("reply", "", message_id=number)


def parse_reference(kind: str, message: Json, sender: str, known: ChannelDirectory) -> Reference:
    """A message that `sender` points at."""
    writer, bot = find_object(message, "author"), known.bot_id
    named = name_of(writer), find_text(message, "id")
    if writer.get("id") == sender != bot and not any(list_passed(message, bot, known.names)):
        return read_content(message, bot, known.names).refer(kind, "sender", *named)
    by = "assistant" if writer.get("id") == bot else "other"
    return Reference(kind, read_whole(message, bot, known.names), by, *named)


def _sender_of(user: Json, member: Json) -> Sender:
    name = get_text(member, "nick", "") or get_text(user, "global_name", "")
    return Sender(get_text(user, "id"), name or get_text(user, "username", ""))


def _parse_reaction(payload: Json, known: ChannelDirectory, *, added: bool) -> Reaction | None:
    """Reactions of people to messages of ours."""
    member, emoji = get_object(payload, "member"), get_object(payload, "emoji")
    user_id, chat = get_text(payload, "user_id"), get_text(payload, "channel_id")
    user = get_object(member, "user") or {"id": user_id}
    is_ours = payload.get("message_author_id") in (None, known.bot_id)
    if user_id == known.bot_id or user.get("bot") or not is_ours:
        return None
    name = get_text(emoji, "name", "")
    text = (f":{name}:" if emoji.get("id") else name) if added else ""
    address, message_id = Address(known.channel, chat), get_text(payload, "message_id")
    return Reaction(address, _sender_of(user, member), message_id, text)


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
        """It has the id of its thread, and stands in the thread's channel or at the beginning of
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
