"""Discord's events and history as the channel's messages, and the channels and threads that the bot
sees, as the gateway tells of them (A13).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from channels import value
from channels.discord.api import parse_snowflake
from channels.json_access import (
    Json,
    get_number,
    get_object,
    get_objects,
    get_text,
)
from channels.message import (
    MEDIA_KINDS,
    Address,
    Arrival,
    Attachment,
    ButtonPress,
    InboundMessage,
    Reaction,
    Reference,
    Sender,
)

MESSAGE_TYPES = (0, 19)
"""A message, and a reply; all other types are the platform's own notes."""
VOICE_FLAG = 1 << 13
FORWARD_TYPE = 1
PRIVATE_CHANNEL_CONTEXT = 2
"""A command in a chat without the bot: nothing can be sent there but the reply."""
THREAD_TYPES = (10, 11, 12)
TEXT_TYPES = (0, 2, 5, 13, *THREAD_TYPES)
Interaction = tuple[str, str, ButtonPress | InboundMessage]


@value
class ChannelInfo:
    """`guild`: "" for a direct chat; `last_message`: the newest id."""

    guild: str = ""
    is_thread: bool = False
    last_message: int = 0


@dataclass(slots=True)
class ChannelDirectory:
    """`channel`: our name for the account; `only`: the one guild to listen in, or ""; `bot_roles`:
    those that stand for the bot alone; `pending`: guilds that are away; `joined`: channels and
    threads in which the bot takes part.
    """

    channel: str
    only: str = ""
    bot_id: str = ""
    bot_roles: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    channels: dict[str, ChannelInfo] = field(default_factory=dict)

    def on_ready(self, payload: Json) -> None:
        """A new session: its guilds come one by one, later on."""
        self.bot_id = str(payload["user"]["id"])
        guilds = {str(guild["id"]) for guild in payload.get("guilds") or ()}
        self.pending = guilds & {self.only} if self.only else guilds

    def on_event(self, event: str, payload: Json) -> None:
        """A channel or thread that was created, changed or deleted."""
        match event:
            case "CHANNEL_CREATE" | "THREAD_CREATE" | "THREAD_UPDATE":
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
        is_thread = payload.get("type") in THREAD_TYPES
        if is_thread and (payload.get("member") or str(payload.get("owner_id")) == self.bot_id):
            self.joined.add(channel)
        last_message = parse_snowflake(payload.get("last_message_id"))
        info = self.channels[channel] = ChannelInfo(guild, is_thread, last_message)
        return info


def parse_event(event: str, payload: Json, known: ChannelDirectory) -> Arrival | None:
    """What it says; None for what is of no concern. Raises ValueError and its like."""
    if known.is_foreign(payload.get("guild_id")):
        return None
    if event.startswith("MESSAGE_REACTION"):
        return _parse_reaction(payload, known, added=event.endswith("ADD"))
    is_note = payload.get("type", 0) not in MESSAGE_TYPES or payload.get("webhook_id")
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


def _parse_message(payload: Json, known: ChannelDirectory, edited_at: str) -> InboundMessage | None:
    number, chat = get_text(payload, "id"), get_text(payload, "channel_id")
    author, replied = get_object(payload, "author"), get_object(payload, "referenced_message")
    snapshots, reference = (
        get_objects(payload, "message_snapshots"),
        payload.get("message_reference"),
    )
    is_forward = bool(snapshots) and (reference or {}).get("type", FORWARD_TYPE) == FORWARD_TYPE
    content = get_object(snapshots[0], "message") if is_forward else payload
    mentions = get_objects(payload, "mentions")
    text, files = _message_text(content, mentions, known), _attachments(content)
    if not text and not files:
        return None
    is_private = known.is_direct(chat, payload.get("guild_id"))
    replied_to, time = get_object(replied, "author").get("id"), get_text(payload, "timestamp", "")
    is_addressed = (
        is_private
        or replied_to == known.bot_id
        or any(user.get("id") == known.bot_id for user in mentions)
        or not known.bot_roles.isdisjoint(map(str, payload.get("mention_roles") or ()))
        or known.is_joined_thread(chat)
    )
    return InboundMessage(
        address=Address(known.channel, chat),
        sender=_sender_of(author, get_object(payload, "member")),
        external_id=f"{number}/{edited_at}" if edited_at else number,
        text=text,
        message_id=number,
        attachments=files,
        private=is_private,
        addressed=is_addressed,
        forwarded=is_forward,
        references=_references(replied, author, known),
        edits=number if edited_at else "",
        sent_at=datetime.fromisoformat(time) if time else None,
    )


def _references(replied: Json, author: Json, known: ChannelDirectory) -> tuple[Reference, ...]:
    """The message that is answered."""
    writer, text = get_object(replied, "author"), get_text(replied, "content", "")
    if not text or not writer:
        return ()
    person = writer.get("id")
    is_own = person == author.get("id")
    by = "assistant" if person == known.bot_id else "sender" if is_own else "other"
    number = get_text(replied, "id", "")
    return (Reference("reply", text, by, _sender_of(writer, {}).name, number),)


def _message_text(content: Json, mentions: list[Json], known: ChannelDirectory) -> str:
    """The text without mentions of the bot, others by their names; a sticker by its name."""
    text = get_text(content, "content", "")
    for user in mentions:
        if (number := get_text(user, "id")) != known.bot_id:
            # one word: people choose their names, and these stand among the sender's own words
            name = "@" + "_".join(re.findall(r"\w+", _sender_of(user, {}).name))
            text = text.replace(f"<@{number}>", name).replace(f"<@!{number}>", name)
    ours = "|".join([f"<@!?{known.bot_id}>", *(f"<@&{role}>" for role in known.bot_roles)])
    text = re.sub(rf" (?:{ours})(?= )", "", text)
    text = re.sub(rf" ?(?:{ours}) ?", "", text).strip()
    stickers = get_objects(content, "sticker_items")
    return text or " ".join(f"[sticker: {get_text(one, 'name', '')}]" for one in stickers)


def _attachments(content: Json) -> tuple[Attachment, ...]:
    is_voice, attachments = get_number(content, "flags", 0) & VOICE_FLAG, []
    for file in get_objects(content, "attachments"):
        mime = get_text(file, "content_type", "application/octet-stream").partition(";")[0].strip()
        kind = "voice" if is_voice else MEDIA_KINDS.get(mime.partition("/")[0], "document")
        name, size = get_text(file, "filename", "file"), get_number(file, "size", 0)
        attachments.append(Attachment(kind, name, mime, size, get_text(file, "url")))
    return tuple(attachments)


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
