"""Discord's events and history as the channel's messages. What cannot be read is set aside (A13)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import BaseModel, Field, ValidationError

from channels.discord.directory import ChannelDirectory, ChannelInfo
from channels.discord.rest import Payload
from channels.message import (
    Address,
    Arrival,
    Attachment,
    ButtonPress,
    InboundMessage,
    Reaction,
    Sender,
    UnreadableUpdate,
)

MESSAGE_TYPES = (0, 19)
"""A message, and a reply; all other types are the platform's own notes."""
VOICE_FLAG = 1 << 13
FORWARD_TYPE = 1
PRIVATE_CHANNEL_CONTEXT = 2
"""A command was used in a chat of people without the bot: nothing can be sent there but the reply.
"""
MENTION = re.compile(r"( ?)<@(?:!|(?P<role>&))?(?P<id>\d{1,20})>( ?)")
MEDIA_KINDS = {"image": "photo", "audio": "audio", "video": "video"}


class _User(BaseModel):
    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False


class _Member(BaseModel):
    nick: str | None = None
    user: _User | None = None


class _Attachment(BaseModel):
    filename: str = "file"
    content_type: str | None = None
    size: int = 0
    url: str


class _Sticker(BaseModel):
    name: str = ""


class _Content(BaseModel):
    """What somebody wrote, here or elsewhere."""

    content: str = ""
    attachments: list[_Attachment] = Field(default_factory=list)
    sticker_items: list[_Sticker] = Field(default_factory=list)
    flags: int = 0


class _Snapshot(BaseModel):
    message: _Content


class _Reference(BaseModel):
    type: int = 0


class _Referenced(_Content):
    author: _User | None = None


class _Message(_Content):
    id: str
    channel_id: str
    guild_id: str | None = None
    author: _User
    member: _Member | None = None
    timestamp: datetime | None = None
    edited_timestamp: datetime | None = None
    mentions: list[_User] = Field(default_factory=list)
    mention_roles: list[str] = Field(default_factory=list)
    message_reference: _Reference | None = None
    message_snapshots: list[_Snapshot] = Field(default_factory=list)
    referenced_message: _Referenced | None = None


class _Emoji(BaseModel):
    id: str | None = None
    name: str | None = None


class _ReactionEvent(BaseModel):
    user_id: str
    channel_id: str
    message_id: str
    guild_id: str | None = None
    member: _Member | None = None
    emoji: _Emoji
    message_author_id: str | None = None


class _Option(BaseModel):
    value: str | int | float | bool = ""


class _InteractionData(BaseModel):
    custom_id: str = ""
    name: str = ""
    options: list[_Option] = Field(default_factory=list)


class _InteractionMessage(BaseModel):
    id: str = ""


class _InteractionEvent(BaseModel):
    id: str
    application_id: str
    token: str
    type: int
    channel_id: str = ""
    guild_id: str | None = None
    context: int | None = None
    member: _Member | None = None
    user: _User | None = None
    data: _InteractionData = Field(default_factory=_InteractionData)
    message: _InteractionMessage = Field(default_factory=_InteractionMessage)


@dataclass(frozen=True, slots=True)
class Interaction:
    """A button press or menu command: to be answered by its own token, within 3 seconds."""

    id: str
    application: str
    token: str
    item: ButtonPress | InboundMessage


def parse_event(event: str, payload: Payload, known: ChannelDirectory) -> Arrival | None:
    """What this event says; None for what is of no concern."""
    try:
        if event.startswith("MESSAGE_REACTION"):
            change = _ReactionEvent.model_validate(payload)
            return _parse_reaction(change, known, added=event.endswith("ADD"))
        if not _is_from_person(payload, known):
            return None
        return _parse_message(
            _Message.model_validate(payload), known, edited=event == "MESSAGE_UPDATE"
        )
    except ValidationError as error:
        return UnreadableUpdate.of(known.channel, event, payload, error)


def parse_interaction(
    payload: Payload, known: ChannelDirectory
) -> Interaction | UnreadableUpdate | None:
    """A button press, or a command of the platform's menu."""
    try:
        wire = _InteractionEvent.model_validate(payload)
    except ValidationError as error:
        return UnreadableUpdate.of(known.channel, "INTERACTION_CREATE", payload, error)
    user = wire.user or (wire.member.user if wire.member else None)
    if user is None or user.bot or known.is_foreign(wire.guild_id):
        return None
    address, sender = Address(known.channel, wire.channel_id), _sender_of(user, wire.member)
    item: ButtonPress | InboundMessage
    match wire.type:
        case 3:
            item = ButtonPress(address, sender, wire.data.custom_id, wire.message.id)
        case 2:
            text = " ".join(
                [f"/{wire.data.name}", *(str(option.value) for option in wire.data.options)]
            )
            private = _is_direct(wire.guild_id, known.get(wire.channel_id))
            private = private and wire.context != PRIVATE_CHANNEL_CONTEXT
            item = InboundMessage(address, sender, wire.id, text.strip(), wire.id, private=private)
        case _:
            return None
    return Interaction(wire.id, wire.application_id, wire.token, item)


def _is_direct(guild: str | None, info: ChannelInfo | None) -> bool:
    return guild is None and not (info and info.guild)


def _is_from_person(payload: Payload, known: ChannelDirectory) -> bool:
    """Whether a person wrote it, where we listen; what is malformed counts, and is found out later."""
    author = payload.get("author")
    if known.is_foreign(payload.get("guild_id")):
        return False
    if payload.get("type", 0) not in MESSAGE_TYPES or payload.get("webhook_id"):
        return False
    if not isinstance(author, Mapping):
        return "author" in payload
    return not (author.get("bot") or author.get("system") or author.get("id") == known.bot_id)


def _parse_message(
    wire: _Message, known: ChannelDirectory, *, edited: bool
) -> InboundMessage | None:
    if edited and wire.edited_timestamp is None:
        return None
    reference, replied = wire.message_reference, wire.referenced_message
    is_forward = bool(wire.message_snapshots) and (
        reference is None or reference.type == FORWARD_TYPE
    )
    content = wire.message_snapshots[0].message if is_forward else wire
    text, files = (
        _message_text(content, wire, known),
        tuple(map(_attachment_of, content.attachments)),
    )
    if not text and not files:
        return None
    info = known.get(wire.channel_id)
    is_private = _is_direct(wire.guild_id, info)
    author = replied.author.id if replied and replied.author else ""
    is_addressed = (
        is_private
        or author == known.bot_id
        or any(user.id == known.bot_id for user in wire.mentions)
        or not known.bot_roles.isdisjoint(wire.mention_roles)
        or bool(info and info.is_member)
    )
    if content.flags & VOICE_FLAG:
        files = tuple(replace(file, kind="voice") for file in files)
    return InboundMessage(
        address=Address(known.channel, wire.channel_id),
        sender=_sender_of(wire.author, wire.member),
        external_id=f"{wire.id}/{wire.edited_timestamp.isoformat()}"
        if edited and wire.edited_timestamp
        else wire.id,
        text=text,
        message_id=wire.id,
        attachments=files,
        private=is_private,
        addressed=is_addressed,
        forwarded=is_forward,
        quoted=replied.content if replied and author not in ("", known.bot_id) else "",
        edits=wire.id if edited else "",
        sent_at=wire.timestamp,
        quotes_own=author == wire.author.id,
    )


def _message_text(content: _Content, wire: _Message, known: ChannelDirectory) -> str:
    """The text without mentions of the bot, others by their names; a sticker by its name."""
    names = {user.id: f"@{user.global_name or user.username}" for user in wire.mentions}

    def rename(mention: re.Match[str]) -> str:
        before, after = mention[1], mention[4]
        if mention["id"] in known.bot_roles if mention["role"] else mention["id"] == known.bot_id:
            return " " if before and after else ""
        name = (
            mention[0].strip() if mention["role"] else names.get(mention["id"], mention[0].strip())
        )
        return f"{before}{name}{after}"

    text = MENTION.sub(rename, content.content).strip()
    return text or " ".join(f"[sticker: {sticker.name}]" for sticker in content.sticker_items)


def _attachment_of(file: _Attachment) -> Attachment:
    mime = (file.content_type or "application/octet-stream").partition(";")[0].strip()
    kind = MEDIA_KINDS.get(mime.partition("/")[0], "document")
    return Attachment(kind, file.filename, mime, file.size, file.url)


def _sender_of(user: _User, member: _Member | None) -> Sender:
    return Sender(user.id, (member.nick if member else None) or user.global_name or user.username)


def _parse_reaction(
    wire: _ReactionEvent, known: ChannelDirectory, *, added: bool
) -> Reaction | None:
    """Reactions of people to messages of ours."""
    user = (wire.member.user if wire.member else None) or _User(id=wire.user_id)
    if wire.user_id == known.bot_id or user.bot or known.is_foreign(wire.guild_id):
        return None
    if wire.message_author_id not in (None, known.bot_id):
        return None
    emoji = (f":{wire.emoji.name}:" if wire.emoji.id else wire.emoji.name or "") if added else ""
    return Reaction(
        Address(known.channel, wire.channel_id),
        _sender_of(user, wire.member),
        wire.message_id,
        emoji,
    )
